package simulator

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// exchange is the request as the HTTP connection manager hands it to the routes.
type exchange struct {
	method, authority, scheme string
	// target is the normalised path with query string; path is without.
	target, path string
	headers      map[string][]string
}

// header returns a header's value as Envoy's matchers see it: several of one name are joined by commas.
func (x *exchange) header(name string) (string, bool) {
	switch name {
	case ":method":
		return x.method, true
	case ":authority", "host":
		return x.authority, true
	case ":path":
		return x.target, true
	case ":scheme":
		return x.scheme, true
	}
	vs, ok := x.headers[name]
	return strings.Join(vs, ","), ok
}

// query returns the first value of a query parameter, undecoded as Envoy compares it.
func (x *exchange) query(name string) (string, bool) {
	_, query, _ := strings.Cut(x.target, "?")
	for _, pair := range strings.Split(query, "&") {
		if n, v, _ := strings.Cut(pair, "="); n == name && pair != "" {
			return v, true
		}
	}
	return "", false
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

// matchValue compares a header's or parameter's value. An absent one matches nothing but an inverted presence, even
// when the comparison is inverted (Envoy docs: HeaderMatcher invert_match, treat_missing_header_as_empty).
func matchValue(m *ir.ValueMatch, value string, present bool) bool {
	if m.Kind == ir.ValuePresent {
		return present != m.Invert
	}
	if !present {
		return false
	}
	want := m.Value
	if m.IgnoreCase && m.Kind != ir.ValueRegex {
		want, value = lowerASCII(want), lowerASCII(value)
	}
	var ok bool
	switch m.Kind {
	case ir.ValueRegex:
		ok = fullMatch(want, value)
	case ir.ValuePrefix:
		ok = strings.HasPrefix(value, want)
	case ir.ValueSuffix:
		ok = strings.HasSuffix(value, want)
	default:
		ok = value == want
	}
	return ok != m.Invert
}

// mismatch says which header or parameter keeps the request from a route whose path matches, or "".
func mismatch(m *ir.Match, x *exchange) string {
	for i := range m.Headers {
		h := &m.Headers[i]
		if v, present := x.header(h.Name); !matchValue(h, v, present) {
			return explainValue("header "+h.Name, h, v, present)
		}
	}
	for i := range m.Query {
		q := &m.Query[i]
		if v, present := x.query(q.Name); !matchValue(q, v, present) {
			return explainValue("query parameter "+q.Name, q, v, present)
		}
	}
	return ""
}

func explainValue(what string, m *ir.ValueMatch, value string, present bool) string {
	switch what {
	case "header :method":
		what = "method"
	case "header :authority":
		what = "host"
	}
	is := "is absent"
	if present {
		is = fmt.Sprintf("is %q", value)
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
