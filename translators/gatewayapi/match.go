package gatewayapi

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/chancery-gateway/chancery/translators/emissary"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// matched is one condition of a rule with its rank.
type matched struct {
	match ir.Match
	rank  rank
	// prefix is the path that rewrites of a prefix replace; nil where the match has none.
	prefix *string
}

// httpMatches makes the conditions of a rule. One that cannot be used is left out: nothing can meet it.
func (l *lowering) httpMatches(path string, rule *gw.HTTPRouteRule) []matched {
	if len(rule.Matches) == 0 {
		root := ""
		return []matched{{match: ir.Match{PathKind: ir.PathPrefix, Path: "/"}, rank: rank{0, 1}, prefix: &root}}
	}
	var out []matched
	for i := range rule.Matches {
		if m := l.httpMatch(fmt.Sprintf("%s.matches[%d]", path, i), &rule.Matches[i]); m != nil {
			out = append(out, *m)
		}
	}
	return out
}

func (l *lowering) httpMatch(path string, from *gw.HTTPRouteMatch) *matched {
	c := &conditions{l: l, path: path}
	m := &matched{}
	text := "/"
	kind := gw.PathMatchPathPrefix
	if from.Path != nil {
		text, kind = value(from.Path.Value, "/"), value(from.Path.Type, gw.PathMatchPathPrefix)
	}
	switch kind {
	case gw.PathMatchExact:
		m.match.PathKind, m.match.Path, m.rank[0] = ir.PathExact, text, 2
	case gw.PathMatchRegularExpression:
		m.match.PathKind, m.match.Path, m.rank[0] = ir.PathRegex, text, 1
		c.regex(".path.value", text)
	case gw.PathMatchPathPrefix:
		m.match.PathKind, m.match.Path = ir.PathPrefix, "/"
		prefix := strings.TrimRight(text, "/")
		if prefix != "" {
			m.match.PathKind, m.match.Path = ir.PathSegments, prefix
		}
		m.prefix = &prefix
	default:
		c.fail(".path.type", fmt.Sprintf("unknown type %q", kind), "Exact, PathPrefix or RegularExpression")
	}
	if kind != gw.PathMatchRegularExpression && !properPath(text) {
		c.fail(".path.value", fmt.Sprintf("%q is no path", text), "\"/\" and the characters of a path, others escaped; no query, empty element, dot element or escaped \"/\"")
	}
	m.rank[1] = uint32(len(text))
	if from.Method != nil {
		if !slices.Contains(methods, *from.Method) {
			c.fail(".method", fmt.Sprintf("%q is no method", *from.Method), "GET, HEAD, POST, PUT, DELETE, CONNECT, OPTIONS, TRACE or PATCH")
		}
		m.rank[2] = 1
		m.match.Headers = append(m.match.Headers, ir.ValueMatch{Name: ":method", Kind: ir.ValueExact, Value: string(*from.Method)})
	}
	headers := make([]condition, len(from.Headers))
	for i, h := range from.Headers {
		headers[i] = condition{string(h.Name), string(value(h.Type, gw.HeaderMatchExact)), h.Value}
	}
	m.match.Headers = append(m.match.Headers, c.headers(headers, &m.rank)...)
	sortMatches(m.match.Headers)
	exact := uint32(0)
	for i, q := range from.QueryParams {
		at := fmt.Sprintf(".queryParams[%d]", i)
		v := ir.ValueMatch{Name: string(q.Name), Kind: ir.ValueExact, Value: q.Value}
		if slices.ContainsFunc(m.match.Query, func(o ir.ValueMatch) bool { return o.Name == v.Name }) {
			continue // the first of a name counts
		}
		if v.Name != "" && emissary.CheckMatchName(v.Name) != nil {
			c.fail(at+".name", fmt.Sprintf("%q is no name that a query parameter can be matched by", v.Name), "letters, digits and some signs, as in names of headers")
		}
		c.value(at, &v, string(value(q.Type, gw.QueryParamMatchExact)))
		if v.Kind == ir.ValueExact {
			exact++
		}
		m.match.Query = append(m.match.Query, v)
	}
	m.rank[4] = uint32(len(m.match.Query))<<16 | exact
	sortMatches(m.match.Query)
	if c.failed {
		return nil
	}
	return m
}

// methods are those that a match can ask for (Gateway API: HTTPMethod).
var methods = []gw.HTTPMethod{
	gw.HTTPMethodGet, gw.HTTPMethodHead, gw.HTTPMethodPost, gw.HTTPMethodPut, gw.HTTPMethodDelete, gw.HTTPMethodConnect, gw.HTTPMethodOptions,
	gw.HTTPMethodTrace, gw.HTTPMethodPatch,
}

// pathText has the characters of a path (RFC 3986, 3.3: pchar and "/").
var pathText = regexp.MustCompile(`^/(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|%[0-9a-fA-F]{2})*$`)

// properPath reports whether a path is one, by the API server's own rules (Gateway API: HTTPPathMatch).
func properPath(text string) bool {
	if !pathText.MatchString(text) || strings.HasSuffix(text, "/.") || strings.HasSuffix(text, "/..") {
		return false
	}
	return !slices.ContainsFunc([]string{"//", "/./", "/../", "%2f", "%2F"}, func(part string) bool { return strings.Contains(text, part) })
}

// condition is a header to compare, of a route of either kind.
type condition struct{ name, kind, value string }

// conditions checks the parts of one match.
type conditions struct {
	l      *lowering
	path   string
	failed bool
}

func (c *conditions) fail(field, message, help string) {
	c.failed = true
	c.l.invalid.object(string(gw.RouteReasonUnsupportedValue), c.path+field+": "+message)
	c.l.fail(codeValue, c.path+field, message, help)
}

func (c *conditions) regex(field, expr string) {
	if _, err := emissary.CheckRegex(expr, c.l.f.emissary.RegexMaxSize(c.l.v)); err != nil {
		c.fail(field, fmt.Sprintf("%q is no usable expression: %s", expr, err), "RE2 syntax")
	}
}

// value reads how a value is compared.
func (c *conditions) value(at string, v *ir.ValueMatch, kind string) {
	switch kind {
	case string(gw.HeaderMatchExact):
	case string(gw.HeaderMatchRegularExpression):
		v.Kind = ir.ValueRegex
		c.regex(at+".value", v.Value)
	default:
		c.fail(at+".type", fmt.Sprintf("unknown type %q", kind), "Exact or RegularExpression")
	}
	if v.Name == "" {
		c.fail(at+".name", "the name is missing", "")
	}
}

// headers makes the conditions on headers; of several of one name the first counts. An exact one counts for more than an
// expression, other things being equal.
func (c *conditions) headers(from []condition, r *rank) []ir.ValueMatch {
	var out []ir.ValueMatch
	exact := uint32(0)
	for i, h := range from {
		at := fmt.Sprintf(".headers[%d]", i)
		v := ir.ValueMatch{Name: strings.ToLower(h.name), Kind: ir.ValueExact, Value: h.value}
		if slices.ContainsFunc(out, func(o ir.ValueMatch) bool { return o.Name == v.Name }) {
			continue
		}
		if err := emissary.CheckMatchName(v.Name); v.Name != "" && err != nil {
			c.fail(at+".name", err.Error(), "")
		} else if strings.HasPrefix(v.Name, ":") {
			c.fail(at+".name", fmt.Sprintf("%q is no header that a match can ask for", h.name), "a method, path or hostnames of the route")
		}
		if v.Name == "host" {
			v.Name = ":authority" // as Envoy calls it
		}
		c.value(at, &v, h.kind)
		if v.Kind == ir.ValueExact {
			exact++
		}
		out = append(out, v)
	}
	r[3] = uint32(len(out))<<16 | exact
	return out
}

func sortMatches(ms []ir.ValueMatch) {
	slices.SortFunc(ms, func(a, b ir.ValueMatch) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Value, b.Value))
	})
}
