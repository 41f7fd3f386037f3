package envoy

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/encoding/protowire"

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

// redirectAction appends a redirection, a config.route.v3.RedirectAction. https_redirect alone drops ":80" and keeps any other
// port that the client wrote; a port_redirect of 443 would write ":443" out (both measured on Envoy 1.40).
func (w *encoding) redirectAction(n protowire.Number, r *ir.Redirect, f *faults) {
	at := w.begin(n)
	w.text(1, r.Host)
	code, known := redirectCodes[r.Code]
	if !known {
		f.add(codeValue, "redirect.response_code", "%d is none of 301, 302, 303, 307, 308", r.Code)
	}
	w.number(3, uint64(code))
	w.number(8, uint64(r.Port))
	if r.HTTPS {
		w.value(4, 1)
	} else {
		w.text(7, r.Scheme)
	}
	switch {
	case r.Path != "":
		w.member(2, r.Path)
	case r.PrefixRewrite != nil:
		w.member(5, *r.PrefixRewrite)
	case r.RegexRewrite != nil:
		w.message(9, regexRewrite("redirect.regex_rewrite", r.RegexRewrite, f))
	}
	w.end(at)
}

func regexRewrite(path string, r *ir.RegexRewrite, f *faults) *matcherv3.RegexMatchAndSubstitute {
	substitution(path, r, f)
	return &matcherv3.RegexMatchAndSubstitute{Pattern: &matcherv3.RegexMatcher{Regex: r.Pattern}, Substitution: r.Substitution}
}
