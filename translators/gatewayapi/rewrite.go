package gatewayapi

import (
	"regexp"
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

// redirect makes the answer to requests that come in by the listener. What the filter does not name stays as it was; a port that
// follows from scheme or listener is written only where it is not the scheme's own (Gateway API: HTTPRequestRedirectFilter.port).
func redirect(f *gw.HTTPRequestRedirectFilter, l *gw.Listener, at *matched) (*ir.Redirect, bool) {
	out := &ir.Redirect{Scheme: value(f.Scheme, ""), Host: string(value(f.Hostname, "")), Code: uint32(value(f.StatusCode, 302))}
	scheme, port := out.Scheme, uint32(value(f.Port, 0))
	if scheme == "" {
		scheme = strings.ToLower(string(l.Protocol))
		if port == 0 {
			port = uint32(l.Port)
		}
	}
	if !(port == 80 && scheme == "http" || port == 443 && scheme == "https") {
		out.Port = port
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

// wildcardRegex is the expression for an origin in which "*" stands for some characters.
func wildcardRegex(s string) string {
	return strings.ReplaceAll(regexp.QuoteMeta(s), `\*`, ".+")
}
