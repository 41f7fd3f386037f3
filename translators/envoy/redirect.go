package envoy

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/chancery-gateway/chancery/translators/ir"
)

var redirectCodes = map[uint32]routev3.RedirectAction_RedirectResponseCode{
	0:   routev3.RedirectAction_MOVED_PERMANENTLY,
	301: routev3.RedirectAction_MOVED_PERMANENTLY,
	302: routev3.RedirectAction_FOUND,
	303: routev3.RedirectAction_SEE_OTHER,
	307: routev3.RedirectAction_TEMPORARY_REDIRECT,
	308: routev3.RedirectAction_PERMANENT_REDIRECT,
}

// redirectAction builds a redirection. https_redirect alone drops ":80" and keeps any other port that the client wrote; a
// port_redirect of 443 would write ":443" out (both measured on Envoy 1.40).
func redirectAction(r *ir.Redirect, f *faults) *routev3.RedirectAction {
	code, known := redirectCodes[r.Code]
	if !known {
		f.add(codeValue, "redirect.response_code", "%d is none of 301, 302, 303, 307, 308", r.Code)
	}
	out := &routev3.RedirectAction{HostRedirect: r.Host, PortRedirect: r.Port, ResponseCode: code}
	switch {
	case r.HTTPS:
		out.SchemeRewriteSpecifier = &routev3.RedirectAction_HttpsRedirect{HttpsRedirect: true}
	case r.Scheme != "":
		out.SchemeRewriteSpecifier = &routev3.RedirectAction_SchemeRedirect{SchemeRedirect: r.Scheme}
	}
	switch {
	case r.Path != "":
		out.PathRewriteSpecifier = &routev3.RedirectAction_PathRedirect{PathRedirect: r.Path}
	case r.PrefixRewrite != nil:
		out.PathRewriteSpecifier = &routev3.RedirectAction_PrefixRewrite{PrefixRewrite: *r.PrefixRewrite}
	case r.RegexRewrite != nil:
		out.PathRewriteSpecifier = &routev3.RedirectAction_RegexRewrite{RegexRewrite: regexRewrite("redirect.regex_rewrite", r.RegexRewrite, f)}
	}
	return out
}

func regexRewrite(path string, r *ir.RegexRewrite, f *faults) *matcherv3.RegexMatchAndSubstitute {
	substitution(path, r, f)
	return &matcherv3.RegexMatchAndSubstitute{Pattern: &matcherv3.RegexMatcher{Regex: r.Pattern}, Substitution: r.Substitution}
}
