package gatewayapi

import (
	"fmt"
	"slices"
	"strings"

	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/emissary"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// effect is what the filters of a rule, or of one of its backends, ask for.
type effect struct {
	request, response ir.HeaderChanges
	redirect          *gw.HTTPRequestRedirectFilter
	rewrite           *gw.HTTPURLRewriteFilter
	mirrors           []ir.Mirror
	cors              *ir.CORS
	// refused is set when a filter cannot be applied: requests are answered 500, since none may pass it by.
	refused bool
}

// plain reports whether the effect is on headers alone.
func (e *effect) plain() bool {
	return e.redirect == nil && e.rewrite == nil && len(e.mirrors) == 0 && e.cors == nil && !e.refused
}

// filters reads filters; those of GRPCRoutes come in the form of HTTPRoutes'.
func (l *lowering) filters(g *snapshot.Object, path string, list []gw.HTTPRouteFilter, speaks protocol) *effect {
	e := &effect{}
	seen := map[gw.HTTPRouteFilterType]bool{}
	for i := range list {
		f := &list[i]
		at := fmt.Sprintf("%s.filters[%d]", path, i)
		refuse := func(code *snapshot.Code, reason gw.RouteConditionReason, field, message, help string) {
			e.refused = true
			l.invalid.object(string(reason), at+field+": "+message)
			l.fail(code, at+field, message+"; requests of the rule are answered 500", help)
		}
		if seen[f.Type] && f.Type != gw.HTTPRouteFilterRequestMirror {
			refuse(codeValue, gw.RouteReasonIncompatibleFilters, ".type", fmt.Sprintf("there is a filter %s already", f.Type), "keep one of both")
			continue
		}
		seen[f.Type] = true
		missing := func() {
			refuse(codeValue, gw.RouteReasonUnsupportedValue, "", fmt.Sprintf("the settings of filter %s are missing", f.Type), "write them beside type")
		}
		switch f.Type {
		case gw.HTTPRouteFilterRequestHeaderModifier:
			if f.RequestHeaderModifier == nil {
				missing()
				continue
			}
			e.request = l.headerChanges(at+".requestHeaderModifier", f.RequestHeaderModifier, &e.refused)
		case gw.HTTPRouteFilterResponseHeaderModifier:
			if f.ResponseHeaderModifier == nil {
				missing()
				continue
			}
			e.response = l.headerChanges(at+".responseHeaderModifier", f.ResponseHeaderModifier, &e.refused)
		case gw.HTTPRouteFilterRequestRedirect:
			if e.redirect = f.RequestRedirect; e.redirect == nil {
				missing()
				continue
			}
			if why := checkRedirect(e.redirect); why != "" {
				refuse(codeValue, gw.RouteReasonUnsupportedValue, ".requestRedirect", why, "scheme http or https, statusCode 301, 302, 303, 307 or 308")
			}
		case gw.HTTPRouteFilterURLRewrite:
			if e.rewrite = f.URLRewrite; e.rewrite == nil {
				missing()
				continue
			}
			if why := checkModifier(e.rewrite.Path); why != "" {
				refuse(codeValue, gw.RouteReasonUnsupportedValue, ".urlRewrite.path", why, "")
			}
		case gw.HTTPRouteFilterRequestMirror:
			if f.RequestMirror == nil {
				missing()
				continue
			}
			l.mirror(g, at+".requestMirror", f.RequestMirror, e, speaks)
		case gw.HTTPRouteFilterCORS:
			if f.CORS == nil {
				missing()
				continue
			}
			if why := checkCORS(f.CORS); why != "" {
				refuse(codeValue, gw.RouteReasonUnsupportedValue, ".cors", why, "")
				continue
			}
			e.cors = cors(f.CORS)
		case gw.HTTPRouteFilterExtensionRef:
			refuse(codeUnsupported, gw.RouteReasonUnsupportedValue, ".extensionRef", "filters of other kinds are not supported", knownFilters(speaks))
		default:
			refuse(codeUnsupported, gw.RouteReasonUnsupportedValue, ".type", fmt.Sprintf("filter %s is not supported", f.Type), knownFilters(speaks))
		}
	}
	if e.redirect != nil && e.rewrite != nil {
		e.refused = true
		const why = "a rule has either a redirect or a rewrite"
		l.invalid.object(string(gw.RouteReasonIncompatibleFilters), path+".filters: "+why)
		l.fail(codeValue, path+".filters", why+"; its requests are answered 500", "remove one of both")
	}
	return e
}

func knownFilters(speaks protocol) string {
	if speaks == speaksGRPC {
		return "RequestHeaderModifier, ResponseHeaderModifier or RequestMirror"
	}
	return "RequestHeaderModifier, ResponseHeaderModifier, RequestRedirect, URLRewrite, RequestMirror or CORS"
}

// headerChanges reads a header filter. Values are literal: what Envoy would fill in is escaped.
func (l *lowering) headerChanges(path string, f *gw.HTTPHeaderFilter, refused *bool) (out ir.HeaderChanges) {
	check := func(at string, errs ...error) bool {
		for _, err := range errs {
			if err != nil {
				*refused = true
				l.invalid.object(string(gw.RouteReasonUnsupportedValue), at+": "+err.Error())
				l.fail(codeValue, at, err.Error()+"; requests of the rule are answered 500", "")
				return false
			}
		}
		return true
	}
	for _, list := range []struct {
		field   string
		headers []gw.HTTPHeader
		add     bool
	}{{"set", f.Set, false}, {"add", f.Add, true}} {
		for i, h := range list.headers {
			if check(fmt.Sprintf("%s.%s[%d]", path, list.field, i), emissary.CheckHeaderName(string(h.Name)), emissary.CheckHeaderText(h.Value)) {
				out.Add = append(out.Add, ir.HeaderValue{Name: string(h.Name), Value: strings.ReplaceAll(h.Value, "%", "%%"), Append: list.add})
			}
		}
	}
	for i, name := range f.Remove {
		if check(fmt.Sprintf("%s.remove[%d]", path, i), emissary.CheckHeaderName(name)) {
			out.Remove = append(out.Remove, name)
		}
	}
	return out
}

// mirror adds a copy of the requests. One that cannot be sent is left out: answers do not depend on it.
func (l *lowering) mirror(g *snapshot.Object, path string, f *gw.HTTPRequestMirrorFilter, e *effect, speaks protocol) {
	m := ir.Mirror{Cluster: l.backend(g, path+".backendRef", &f.BackendRef, speaks), Origins: l.refs}
	if m.Cluster == "" {
		return
	}
	switch {
	case f.Percent != nil && *f.Percent < 100:
		m.Fraction = &ir.Fraction{Numerator: uint32(max(*f.Percent, 0)), Denominator: 100}
	case f.Fraction != nil:
		total := max(int64(value(f.Fraction.Denominator, 100)), 1)
		if part := max(int64(f.Fraction.Numerator), 0); part < total {
			m.Fraction = fraction(part, total)
		}
	}
	e.mirrors = append(e.mirrors, m)
}

// cors makes a cross-origin policy.
func cors(f *gw.HTTPCORSFilter) *ir.CORS {
	out := &ir.CORS{Credentials: f.AllowCredentials, MaxAge: "5", KeepPreflights: true} // the age is the specification's default
	if f.MaxAge > 0 {
		out.MaxAge = fmt.Sprint(f.MaxAge)
	}
	for _, o := range f.AllowOrigins {
		if o == "*" || !strings.Contains(string(o), "*") {
			out.Origins = append(out.Origins, string(o))
		} else {
			out.OriginRegex = append(out.OriginRegex, wildcardRegex(string(o)))
		}
	}
	out.Methods, out.Headers, out.ExposeHeaders = joined(f.AllowMethods), joined(f.AllowHeaders), joined(f.ExposeHeaders)
	return out
}

// checkCORS says what cannot stand in the headers of an answer.
func checkCORS(f *gw.HTTPCORSFilter) string {
	for _, list := range [][2]string{{"allowMethods", joined(f.AllowMethods)}, {"allowHeaders", joined(f.AllowHeaders)}, {"exposeHeaders", joined(f.ExposeHeaders)}} {
		if emissary.CheckHeaderText(list[1]) != nil {
			return list[0] + " has control characters"
		}
	}
	return ""
}

func joined[T ~string](list []T) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return strings.Join(out, ", ")
}

func checkRedirect(r *gw.HTTPRequestRedirectFilter) string {
	if code := value(r.StatusCode, 302); !slices.Contains([]int{301, 302, 303, 307, 308}, code) {
		return fmt.Sprintf("%d is no status of a redirect", code)
	}
	if s := value(r.Scheme, "http"); s != "http" && s != "https" {
		return fmt.Sprintf("%q is no scheme to redirect to", s)
	}
	if h := string(value(r.Hostname, "a")); emissary.CheckHostname(h) != nil {
		return fmt.Sprintf("%q is no host name", h)
	}
	if p := value(r.Port, 80); p < 1 || p > 65535 {
		return fmt.Sprintf("%d is no port", p)
	}
	return checkModifier(r.Path)
}

func checkModifier(m *gw.HTTPPathModifier) string {
	if m == nil {
		return ""
	}
	switch m.Type {
	case gw.FullPathHTTPPathModifier:
		if p := value(m.ReplaceFullPath, ""); emissary.CheckHeaderText(p) != nil {
			return "the path has control characters"
		}
	case gw.PrefixMatchHTTPPathModifier:
		if p := value(m.ReplacePrefixMatch, ""); emissary.CheckHeaderText(p) != nil {
			return "the path has control characters"
		}
	default:
		return fmt.Sprintf("unknown type %q", m.Type)
	}
	return ""
}
