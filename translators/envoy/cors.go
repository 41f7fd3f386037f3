package envoy

import (
	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// corsPolicy builds a route's settings for the CORS filter. An origin "*" is a literal: Envoy treats an exact "*" as any.
func corsPolicy(c *ir.CORS, f *faults) *corsv3.CorsPolicy {
	out := &corsv3.CorsPolicy{
		AllowMethods:  c.Methods,
		AllowHeaders:  c.Headers,
		ExposeHeaders: c.ExposeHeaders,
		MaxAge:        c.MaxAge,
	}
	for _, o := range c.Origins {
		out.AllowOriginStringMatch = append(out.AllowOriginStringMatch,
			&matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: o}})
	}
	for _, o := range c.OriginRegex {
		out.AllowOriginStringMatch = append(out.AllowOriginStringMatch,
			&matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: regex("cors.allow_origin_string_match", o, f)}})
	}
	if c.Credentials != nil {
		out.AllowCredentials = wrapperspb.Bool(*c.Credentials)
	}
	if c.KeepPreflights {
		out.ForwardNotMatchingPreflights = wrapperspb.Bool(false)
	}
	return out
}
