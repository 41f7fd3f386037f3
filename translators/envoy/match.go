package envoy

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// routeMatch builds the condition of a route.
func routeMatch(m *ir.Match, f *faults) *routev3.RouteMatch {
	out := &routev3.RouteMatch{}
	switch m.PathKind {
	case ir.PathPrefix:
		out.PathSpecifier = &routev3.RouteMatch_Prefix{Prefix: m.Path}
	case ir.PathExact:
		out.PathSpecifier = &routev3.RouteMatch_Path{Path: m.Path}
	case ir.PathRegex:
		out.PathSpecifier = &routev3.RouteMatch_SafeRegex{SafeRegex: regex("match.safe_regex", m.Path, f)}
	case ir.PathSegments:
		if p := strings.TrimRight(m.Path, "/"); p == "" {
			out.PathSpecifier = &routev3.RouteMatch_Prefix{Prefix: "/"}
		} else {
			out.PathSpecifier = &routev3.RouteMatch_PathSeparatedPrefix{PathSeparatedPrefix: p}
		}
	default:
		f.add(codeValue, "match", "path kind %q is none of prefix, exact, regex, segments", m.PathKind)
	}
	if m.IgnoreCase && m.PathKind != ir.PathRegex {
		out.CaseSensitive = wrapperspb.Bool(false)
	}
	for i := range m.Headers {
		out.Headers = append(out.Headers, headerMatcher(&m.Headers[i], f))
	}
	for i := range m.Query {
		out.QueryParameters = append(out.QueryParameters, queryMatcher(&m.Query[i], f))
	}
	if m.Fraction != nil {
		out.RuntimeFraction = runtimeFraction("match.runtime_fraction", m.Fraction, f)
	}
	return out
}

func headerMatcher(m *ir.ValueMatch, f *faults) *routev3.HeaderMatcher {
	if !token(strings.TrimPrefix(m.Name, ":")) {
		f.add(codeHeaderName, "match.headers", "%q is no header name", m.Name)
	}
	out := &routev3.HeaderMatcher{Name: m.Name, InvertMatch: m.Invert}
	if m.Kind == ir.ValuePresent {
		out.HeaderMatchSpecifier = &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}
	} else {
		out.HeaderMatchSpecifier = &routev3.HeaderMatcher_StringMatch{StringMatch: stringMatcher("match.headers", m, f)}
	}
	return out
}

func queryMatcher(m *ir.ValueMatch, f *faults) *routev3.QueryParameterMatcher {
	if m.Invert {
		f.add(codeValue, "match.query_parameters", "parameter %q: Envoy cannot invert a query parameter match", m.Name)
	}
	out := &routev3.QueryParameterMatcher{Name: m.Name}
	if m.Kind == ir.ValuePresent {
		out.QueryParameterMatchSpecifier = &routev3.QueryParameterMatcher_PresentMatch{PresentMatch: true}
	} else {
		out.QueryParameterMatchSpecifier = &routev3.QueryParameterMatcher_StringMatch{StringMatch: stringMatcher("match.query_parameters", m, f)}
	}
	return out
}

func stringMatcher(path string, m *ir.ValueMatch, f *faults) *matcherv3.StringMatcher {
	out := &matcherv3.StringMatcher{IgnoreCase: m.IgnoreCase}
	switch m.Kind {
	case ir.ValueExact:
		out.MatchPattern = &matcherv3.StringMatcher_Exact{Exact: m.Value}
	case ir.ValuePrefix:
		out.MatchPattern = &matcherv3.StringMatcher_Prefix{Prefix: m.Value}
	case ir.ValueSuffix:
		out.MatchPattern = &matcherv3.StringMatcher_Suffix{Suffix: m.Value}
	case ir.ValueRegex:
		out.IgnoreCase = false // Envoy: "has no effect for the regex matcher".
		out.MatchPattern = &matcherv3.StringMatcher_SafeRegex{SafeRegex: regex(path+".safe_regex", m.Value, f)}
	default:
		f.add(codeValue, path, "value kind %q is none of exact, regex, prefix, suffix, present", m.Kind)
	}
	return out
}

// regex builds a matcher and refuses what RE2 cannot parse: Envoy would refuse the whole route configuration.
func regex(path, pattern string, f *faults) *matcherv3.RegexMatcher {
	parseRegex(path, pattern, f)
	return &matcherv3.RegexMatcher{Regex: pattern}
}

func runtimeFraction(path string, s *ir.Fraction, f *faults) *corev3.RuntimeFractionalPercent {
	p := &typev3.FractionalPercent{Numerator: s.Numerator}
	switch s.Denominator {
	case 100:
		p.Denominator = typev3.FractionalPercent_HUNDRED
	case 10_000:
		p.Denominator = typev3.FractionalPercent_TEN_THOUSAND
	case 1_000_000:
		p.Denominator = typev3.FractionalPercent_MILLION
	default:
		f.add(codeValue, path, "denominator %d is none of 100, 10000, 1000000", s.Denominator)
	}
	return &corev3.RuntimeFractionalPercent{DefaultValue: p}
}
