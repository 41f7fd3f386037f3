package simulator

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// exchange is the request as the HTTP connection manager hands it to the routes.
type exchange struct {
	method, authority, scheme string
	// target is the normalised path with query string; path is without.
	target, path string
	headers      map[string][]string
	// upgrade is the protocol that the client wants to go on with, or "".
	upgrade string
}

// header returns what Envoy's matchers compare of a header; nil when it is absent.
func (x *exchange) header(name string) []string {
	switch name {
	case ":method":
		return []string{x.method}
	case ":authority", "host":
		return []string{x.authority}
	case ":path":
		return []string{x.target}
	case ":scheme":
		return []string{x.scheme}
	}
	values := x.headers[name]
	if len(values) > 1 && joined[name] {
		filled := slices.DeleteFunc(slices.Clone(values), func(v string) bool { return v == "" })
		return []string{strings.Join(filled, ",")}
	}
	return values
}

// first returns a header's first value, or "".
func (x *exchange) first(name string) string {
	if values := x.header(name); len(values) > 0 {
		return values[0]
	}
	return ""
}

// query returns the first value of a query parameter, undecoded as Envoy compares it; nil when it is absent.
func (x *exchange) query(name string) []string {
	_, query, _ := strings.Cut(x.target, "?")
	for _, pair := range strings.Split(query, "&") {
		if n, v, _ := strings.Cut(pair, "="); n == name && pair != "" {
			return []string{v}
		}
	}
	return nil
}

// fullMatch reports whether the RE2 expression matches all of s; an expression that does not compile matches nothing.
func fullMatch(expression, s string) bool {
	re, err := regexp.Compile(`\A(?:` + expression + `)\z`)
	return err == nil && re.MatchString(s)
}

// matchPath compares the path and returns the part of it that a prefix rewrite replaces.
func matchPath(m *ir.Match, path string) (matched string, ok bool) {
	want, have := m.Path, path
	if m.IgnoreCase {
		want, have = lowerASCII(want), lowerASCII(have)
	}
	switch m.PathKind {
	case ir.PathExact:
		return path, have == want
	case ir.PathRegex:
		return path, fullMatch(m.Path, path)
	case ir.PathSegments:
		want = strings.TrimRight(want, "/")
		if want == "" {
			return "/", strings.HasPrefix(have, "/")
		}
		if !strings.HasPrefix(have, want) || len(have) > len(want) && have[len(want)] != '/' {
			return "", false
		}
		return path[:len(want)], true
	default:
		if !strings.HasPrefix(have, want) {
			return "", false
		}
		return path[:len(want)], true
	}
}

func lowerASCII(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// matchValue compares the values of a header or parameter: one of them must match, or none when inverted. An absent one
// matches nothing but an inverted presence, even when the comparison is inverted (Envoy docs: HeaderMatcher
// invert_match, treat_missing_header_as_empty; several values measured on Envoy 1.40).
func matchValue(m *ir.ValueMatch, values []string) bool {
	if m.Kind == ir.ValuePresent {
		return len(values) > 0 != m.Invert
	}
	return len(values) > 0 && slices.ContainsFunc(values, func(v string) bool { return compareValue(m, v) }) != m.Invert
}

func compareValue(m *ir.ValueMatch, value string) bool {
	want := m.Value
	if m.IgnoreCase && m.Kind != ir.ValueRegex {
		want, value = lowerASCII(want), lowerASCII(value)
	}
	switch m.Kind {
	case ir.ValueRegex:
		return fullMatch(want, value)
	case ir.ValuePrefix:
		return strings.HasPrefix(value, want)
	case ir.ValueSuffix:
		return strings.HasSuffix(value, want)
	}
	return value == want
}

// mismatch says which header or parameter keeps the request from a route whose path matches, or "".
func mismatch(m *ir.Match, x *exchange) string {
	for i := range m.Headers {
		h := &m.Headers[i]
		if values := x.header(h.Name); !matchValue(h, values) {
			return explainValue("header "+h.Name, h, values)
		}
	}
	for i := range m.Query {
		q := &m.Query[i]
		if values := x.query(q.Name); !matchValue(q, values) {
			return explainValue("query parameter "+q.Name, q, values)
		}
	}
	return ""
}

func explainValue(what string, m *ir.ValueMatch, values []string) string {
	switch what {
	case "header :method":
		what = "method"
	case "header :authority":
		what = "host"
	}
	is := "is absent"
	if len(values) > 0 {
		quoted := make([]string, len(values))
		for i, v := range values {
			quoted[i] = strconv.Quote(v)
		}
		is = "is " + strings.Join(quoted, " and ")
	}
	return fmt.Sprintf("%s %s, wanted %s", what, is, describeValue(m))
}

// describeValue says in words what a value must be.
func describeValue(m *ir.ValueMatch) string {
	var s string
	switch m.Kind {
	case ir.ValuePresent:
		if m.Invert {
			return "absent"
		}
		return "present"
	case ir.ValueRegex:
		s = fmt.Sprintf("a match of %q", m.Value)
	case ir.ValuePrefix:
		s = fmt.Sprintf("%q at its start", m.Value)
	case ir.ValueSuffix:
		s = fmt.Sprintf("%q at its end", m.Value)
	default:
		s = fmt.Sprintf("%q", m.Value)
	}
	if m.Invert {
		s = "anything but " + s
	}
	return s
}

// describeMatch says a route's condition in words.
func describeMatch(m *ir.Match) string {
	var b strings.Builder
	kind := string(m.PathKind)
	switch m.PathKind {
	case ir.PathExact:
		kind = "path"
	case ir.PathSegments:
		kind = "path segments"
	}
	fmt.Fprintf(&b, "%s %q", kind, m.Path)
	if m.IgnoreCase {
		b.WriteString(" in any case")
	}
	for i := range m.Headers {
		h := &m.Headers[i]
		name := "header " + h.Name
		switch h.Name {
		case ":method":
			name = "method"
		case ":authority":
			name = "host"
		}
		fmt.Fprintf(&b, ", %s %s", name, describeValue(h))
	}
	for i := range m.Query {
		fmt.Fprintf(&b, ", query parameter %s %s", m.Query[i].Name, describeValue(&m.Query[i]))
	}
	if f := m.Fraction; f != nil {
		fmt.Fprintf(&b, ", %d of %d requests", f.Numerator, f.Denominator)
	}
	return b.String()
}

// nearMiss says why a route whose path does not match is worth a word, or "".
func nearMiss(m *ir.Match, path string) string {
	if m.PathKind == ir.PathRegex {
		if re, err := regexp.Compile(m.Path); err == nil && re.MatchString(path) {
			return fmt.Sprintf("the expression matches a part of %q only, and must match all of it", path)
		}
		return ""
	}
	folded := *m
	folded.IgnoreCase = true
	if _, ok := matchPath(&folded, path); ok {
		return fmt.Sprintf("path %q differs in case", path)
	}
	if strings.TrimRight(m.Path, "/") == strings.TrimRight(path, "/") {
		return fmt.Sprintf("path %q differs in the slash at its end", path)
	}
	if m.PathKind == ir.PathExact && len(m.Path) > 1 && strings.HasPrefix(path, m.Path) {
		return fmt.Sprintf("path %q goes on behind it, and the match is exact", path)
	}
	return ""
}
