package gatewayapi

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// pathChange is what becomes of a path: at most one is set.
type pathChange struct {
	full   *string
	prefix *string
	regex  *ir.RegexRewrite
}

// change reads a path modifier for one match. fits is false for a prefix to be replaced where the match has none.
func change(m *gw.HTTPPathModifier, at *matched) (c pathChange, fits bool) {
	if m == nil {
		return c, true
	}
	if m.Type == gw.FullPathHTTPPathModifier {
		full := value(m.ReplaceFullPath, "")
		if !strings.HasPrefix(full, "/") {
			full = "/" + full
		}
		c.full = &full
		return c, true
	}
	if at.prefix == nil {
		return c, false
	}
	to := strings.TrimRight(value(m.ReplacePrefixMatch, ""), "/")
	switch {
	case to == "" && *at.prefix == "":
		// "/" by "/"
	case to == "": // what is left begins with one "/"
		c.regex = &ir.RegexRewrite{Pattern: "^" + regexp.QuoteMeta(*at.prefix) + "/*", Substitution: "/"}
	case *at.prefix == "":
		to += "/"
		c.prefix = &to
	default:
		c.prefix = &to
	}
	return c, true
}

// whole is the full path as a substitution for everything.
func (c *pathChange) whole() *ir.RegexRewrite {
	return &ir.RegexRewrite{Pattern: "^.*$", Substitution: strings.ReplaceAll(*c.full, `\`, `\\`)}
}

// redirect makes the answer to requests that come in by the listener. What the filter does not name stays as it was, but for the
// port: it follows from scheme or listener (Gateway API: HTTPRequestRedirectFilter.port).
func redirect(f *gw.HTTPRequestRedirectFilter, l *gw.Listener, at *matched) (*ir.Redirect, bool) {
	out := &ir.Redirect{Scheme: value(f.Scheme, ""), Host: string(value(f.Hostname, "")), Port: uint32(value(f.Port, 0)), Code: uint32(value(f.StatusCode, 302))}
	switch {
	case out.Port != 0:
	case out.Scheme == "":
		out.Port = uint32(l.Port)
	default:
		out.Port = schemePorts[out.Scheme]
	}
	c, fits := change(f.Path, at)
	switch {
	case c.full != nil:
		out.Path = *c.full
	case c.regex != nil:
		out.RegexRewrite = c.regex
	default:
		out.PrefixRewrite = c.prefix
	}
	return out, fits
}

var schemePorts = map[string]uint32{"http": 80, "https": 443}

// told returns a route as it is served under a name of the listener. A redirect does not write the port that is the scheme's own
// (Gateway API: HTTPRequestRedirectFilter.port); as Envoy then keeps the one that the request names, which leads astray when it is
// another, an exact name is written out, and under a wildcard those requests that name a port are told the right one.
func told(r *ir.Route, name string, l *gw.Listener) []*ir.Route {
	if r.Redirect == nil || r.Redirect.Port != schemePorts[cmp.Or(r.Redirect.Scheme, strings.ToLower(string(l.Protocol)))] {
		return []*ir.Route{r}
	}
	short, to := *r, *r.Redirect
	short.Redirect, to.Port = &to, 0
	if to.Host != "" {
		return []*ir.Route{&short}
	}
	if !strings.HasPrefix(name, "*") {
		to.Host = name
		return []*ir.Route{&short}
	}
	ported := *r
	ported.Match.Headers = append(slices.Clone(r.Match.Headers), ir.ValueMatch{Name: ":authority", Kind: ir.ValueRegex, Value: ".*:[0-9]+"})
	sortMatches(ported.Match.Headers)
	return []*ir.Route{&ported, &short}
}

// wildcardRegex is the expression for an origin in which "*" stands for some characters.
func wildcardRegex(s string) string {
	return strings.ReplaceAll(regexp.QuoteMeta(s), `\*`, ".+")
}
