package emissary

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	api "github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// match makes the route's condition, without the host's.
func (l *lowering) match(spec *api.MappingSpec) ir.Match {
	m := ir.Match{PathKind: ir.PathPrefix, Path: spec.Prefix}
	switch {
	case spec.PrefixRegex:
		m.PathKind = ir.PathRegex
		l.regex("spec.prefix", spec.Prefix)
	case spec.PrefixExact:
		m.PathKind = ir.PathExact
	}
	if m.PathKind != ir.PathRegex {
		m.IgnoreCase = spec.CaseSensitive != nil && !*spec.CaseSensitive
		if !strings.HasPrefix(spec.Prefix, "/") {
			l.warn(codeMappingPath, "spec.prefix", fmt.Sprintf("%q can never match", spec.Prefix), "a path begins with \"/\"")
		}
	} else if spec.CaseSensitive != nil && !*spec.CaseSensitive {
		l.warn(codeMappingNoEffect, "spec.case_sensitive", "has no effect on a regular expression", "begin the expression with (?i)")
	}
	if n := len(spec.Headers) + len(spec.RegexHeaders); n > 0 || spec.Method != "" {
		m.Headers = make([]ir.ValueMatch, 0, n+1)
		m.Headers = l.headerMatches(m.Headers, spec)
	}
	if n := len(spec.QueryParameters) + len(spec.RegexQueryParameters); n > 0 {
		m.Query = make([]ir.ValueMatch, 0, n)
		for name, value := range spec.QueryParameters {
			m.Query = append(m.Query, ir.ValueMatch{Name: name, Kind: ir.ValueExact, Value: value})
		}
		for name, expr := range spec.RegexQueryParameters {
			m.Query = append(m.Query, ir.ValueMatch{Name: name, Kind: ir.ValueRegex, Value: expr})
		}
		sortMatches(m.Query)
		for i := range m.Query {
			if m.Query[i].Kind == ir.ValueRegex {
				l.regex("spec.regex_query_parameters["+m.Query[i].Name+"]", m.Query[i].Value)
			}
			if m.Query[i].Name == "" {
				l.fail(codeMappingValue, "spec.query_parameters", "a parameter's name is missing", "")
			}
		}
	}
	return m
}

func (l *lowering) headerMatches(out []ir.ValueMatch, spec *api.MappingSpec) []ir.ValueMatch {
	for name, value := range spec.Headers {
		if strings.EqualFold(name, ":authority") {
			continue // the host's business
		}
		out = append(out, ir.ValueMatch{Name: strings.ToLower(name), Kind: ir.ValueExact, Value: value})
	}
	for name, expr := range spec.RegexHeaders {
		out = append(out, ir.ValueMatch{Name: strings.ToLower(name), Kind: ir.ValueRegex, Value: expr})
	}
	if spec.Method != "" {
		kind := ir.ValueExact
		if spec.MethodRegex {
			kind = ir.ValueRegex
			l.regex("spec.method", spec.Method)
		}
		out = append(out, ir.ValueMatch{Name: ":method", Kind: kind, Value: spec.Method})
	}
	sortMatches(out)
	for i := range out {
		field := "spec.headers["
		if out[i].Kind == ir.ValueRegex && out[i].Name != ":method" {
			field = "spec.regex_headers["
			l.regex(field+out[i].Name+"]", out[i].Value)
		}
		if err := checkMatchName(out[i].Name); err != nil {
			l.fail(codeMappingHeader, field+out[i].Name+"]", err.Error(), "")
		}
	}
	return out
}

func sortMatches(ms []ir.ValueMatch) {
	slices.SortFunc(ms, func(a, b ir.ValueMatch) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(string(a.Kind), string(b.Kind)), strings.Compare(a.Value, b.Value))
	})
}

// regex checks an expression and returns the number of its groups.
func (l *lowering) regex(path, expr string) int {
	groups, err := checkRegex(expr, l.set.regexMaxSize)
	if err != nil {
		l.fail(codeMappingRegex, path, fmt.Sprintf("%q is no usable expression: %s", clip(expr), err), "RE2 syntax; see regex_max_size for the size")
	}
	return groups
}

// regexMap checks a pattern with its substitution.
func (l *lowering) regexMap(path string, m *api.RegexMap) *ir.RegexRewrite {
	if m.Pattern == "" {
		l.fail(codeMappingRegex, path+".pattern", "the pattern is missing", "")
		return nil
	}
	groups := l.regex(path+".pattern", m.Pattern)
	if l.failed {
		return nil
	}
	if err := checkSubstitution(m.Substitution, groups); err != nil {
		l.fail(codeMappingRegex, path+".substitution", err.Error(), "")
	}
	return &ir.RegexRewrite{Pattern: m.Pattern, Substitution: m.Substitution}
}

// hosts returns which hosts the Mapping wants, and the :authority condition for wider ones. hostname wins over host, and
// host over an exact :authority header.
func (l *lowering) hosts(spec *api.MappingSpec) (ir.HostPattern, *ir.ValueMatch) {
	path, host := "spec.hostname", spec.Hostname
	glob := host != ""
	if host == "" && spec.DeprecatedHost != "" {
		path, host = "spec.host", spec.DeprecatedHost
		if spec.DeprecatedHostRegex {
			l.regex(path, host)
			return ir.HostPattern{Kind: ir.HostRegex, Value: host}, &ir.ValueMatch{Name: ":authority", Kind: ir.ValueRegex, Value: host}
		}
	} else if glob && spec.DeprecatedHost != "" {
		l.warn(codeMappingNoEffect, "spec.host", "ignored: hostname is set too", "remove host")
	}
	if host == "" {
		for name, value := range spec.Headers {
			if strings.EqualFold(name, ":authority") {
				path, host = "spec.headers["+name+"]", value
			}
		}
	}
	if host == "" {
		return ir.HostPattern{Kind: ir.HostNone}, nil
	}
	if !glob && strings.IndexByte(host, '*') >= 0 {
		l.fail(codeMappingHost, path, fmt.Sprintf("%q is an exact host, in which \"*\" can match nothing", host), "write globs in hostname")
		return ir.HostPattern{}, nil
	}
	name, port, err := splitDomain(host)
	if err == nil {
		err = checkGlob(name)
	}
	if err == nil && port != "" && name != "*" && strings.HasSuffix(name, "*") {
		err = fmt.Errorf("%q: a glob with \"*\" at its end has no port", host)
	}
	if err != nil {
		l.fail(codeMappingHost, path, err.Error(), "an exact name, \"*\", \"*.example.com\" or \"example.*\"")
		return ir.HostPattern{}, nil
	}
	p := ir.HostPattern{Kind: ir.HostGlob, Value: name, Port: port}
	switch {
	case name == "*" && port == "":
		return p, nil
	case name[0] == '*':
		return p, &ir.ValueMatch{Name: ":authority", Kind: ir.ValueSuffix, Value: name[1:] + port, IgnoreCase: true}
	case name[len(name)-1] == '*':
		return p, &ir.ValueMatch{Name: ":authority", Kind: ir.ValuePrefix, Value: name[:len(name)-1], IgnoreCase: true}
	}
	return p, &ir.ValueMatch{Name: ":authority", Kind: ir.ValueExact, Value: name + port, IgnoreCase: true}
}

// splitDomain cuts ":port" off a host and makes it lower case.
func splitDomain(host string) (name, port string, err error) {
	host = strings.ToLower(host)
	if strings.HasPrefix(host, "[") {
		end := strings.IndexByte(host, ']')
		if end < 0 {
			return "", "", fmt.Errorf("%q: '[' without ']'", host)
		}
		name, port = host[:end+1], host[end+1:]
	} else if i := strings.IndexByte(host, ':'); i >= 0 {
		name, port = host[:i], host[i:]
	} else {
		return host, "", nil
	}
	if port == "" {
		return name, "", nil
	}
	digits := strings.TrimPrefix(port, ":")
	if digits == "" || len(digits) > 5 || strings.Trim(digits, "0123456789") != "" || digits > "65535" && len(digits) == 5 {
		return "", "", fmt.Errorf("%q has an invalid port", host)
	}
	return name, port, nil
}

// checkGlob refuses what is neither a DNS name nor one with a "*" at one end.
func checkGlob(name string) error {
	if name == "*" {
		return nil
	}
	rest := name
	if strings.HasPrefix(name, "[") {
		return nil
	}
	switch {
	case strings.HasPrefix(name, "*"):
		rest = strings.TrimPrefix(name[1:], ".")
	case strings.HasSuffix(name, "*"):
		rest = strings.TrimSuffix(name[:len(name)-1], ".")
	}
	if strings.IndexByte(rest, '*') >= 0 {
		return fmt.Errorf("%q: a \"*\" stands at one end only", name)
	}
	if rest == "" {
		return fmt.Errorf("%q is no host name", name)
	}
	if err := checkHostname(strings.TrimSuffix(rest, ".")); err != nil {
		return errors.New("\"" + name + "\": " + err.Error())
	}
	return nil
}

// groupKey identifies the match: everything that decides which requests come here, but case_sensitive, as in Emissary. buf
// is room to work in.
func groupKey(p ir.HostPattern, m *ir.Match, precedence int64, buf []byte) string {
	e := encoder(buf)
	e.number(uint64(p.Kind))
	e.text(p.Value)
	e.text(p.Port)
	e.text(string(m.PathKind))
	e.text(m.Path)
	e.number(uint64(precedence))
	for _, list := range [...][]ir.ValueMatch{m.Headers, m.Query} {
		e.number(uint64(len(list)))
		for i := range list {
			e.text(list[i].Name)
			e.text(string(list[i].Kind))
			e.text(list[i].Value)
			e.flag(list[i].Invert)
		}
	}
	return string(e)
}

// orderKey puts routes in Emissary's order when sorted descending: precedence, length of the path, weight of the headers
// and of the query parameters, kind of path, and then texts. It is total over groups and knows no names of objects.
// buf is room to work in.
func orderKey(p ir.HostPattern, authority *ir.ValueMatch, m *ir.Match, precedence int64, buf []byte) string {
	headers, query, regexes := 0, 0, 0
	for i := range m.Headers {
		headers += specificity(&m.Headers[i], &regexes)
	}
	if authority != nil {
		headers += specificity(authority, &regexes)
	}
	for i := range m.Query {
		query += specificity(&m.Query[i], &regexes)
	}
	kind := byte(1)
	switch m.PathKind {
	case ir.PathExact:
		kind = 2
	case ir.PathRegex:
		kind = 0
	}
	k := binary.BigEndian.AppendUint64(buf, uint64(precedence)^1<<63)
	k = binary.BigEndian.AppendUint32(k, uint32(len(m.Path)))
	k = binary.BigEndian.AppendUint32(k, uint32(headers))
	k = binary.BigEndian.AppendUint32(k, uint32(query))
	k = append(k, kind)
	k = append(append(k, m.Path...), 0)
	k = binary.BigEndian.AppendUint32(k, uint32(regexes))
	k = append(k, 255-byte(p.Kind))
	k = append(append(append(append(k, p.Value...), 0), p.Port...), 0)
	for _, list := range [...][]ir.ValueMatch{m.Headers, m.Query} {
		for i := range list {
			k = append(append(k, list[i].Name...), 0)
			k = append(append(k, list[i].Kind...), 0)
			k = append(append(k, list[i].Value...), 0)
		}
		k = append(k, 0)
	}
	return string(k)
}

// specificity is the weight of one condition: an exact value counts more than a part, and a part more than an expression,
// whose length is only added up to break ties.
func specificity(m *ir.ValueMatch, regexes *int) int {
	if m.Invert {
		return 0 // an exception says nothing of what is wanted
	}
	switch m.Kind {
	case ir.ValueExact:
		return len(m.Name) + len(m.Value) + 1
	case ir.ValueRegex:
		*regexes += len(m.Value)
		return len(m.Name)
	}
	return len(m.Name) + len(m.Value)
}
