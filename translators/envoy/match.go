package envoy

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// routeMatch appends the condition of a route, a config.route.v3.RouteMatch.
func (w *encoding) routeMatch(n protowire.Number, m *ir.Match, f *faults) {
	at := w.begin(n)
	if m.IgnoreCase && m.PathKind != ir.PathRegex {
		w.wrapped(4, false)
	}
	for i := range m.Headers {
		w.headerMatcher(6, &m.Headers[i], f)
	}
	for i := range m.Query {
		w.queryMatcher(7, &m.Query[i], f)
	}
	if m.Fraction != nil {
		w.message(9, runtimeFraction("match.runtime_fraction", m.Fraction, f))
	}
	switch m.PathKind {
	case ir.PathPrefix:
		w.member(1, m.Path)
	case ir.PathExact:
		w.member(2, m.Path)
	case ir.PathRegex:
		w.message(10, regex("match.safe_regex", m.Path, f))
	case ir.PathSegments:
		if p := strings.TrimRight(m.Path, "/"); p == "" {
			w.member(1, "/")
		} else {
			w.odd = w.odd || strings.ContainsAny(p, "?#") || len(p) < 2
			w.member(14, p)
		}
	default:
		f.add(codeValue, "match", "path kind %q is none of prefix, exact, regex, segments", m.PathKind)
	}
	w.end(at)
}

// headerMatcher appends a config.route.v3.HeaderMatcher.
func (w *encoding) headerMatcher(n protowire.Number, m *ir.ValueMatch, f *faults) {
	if !token(strings.TrimPrefix(m.Name, ":")) {
		f.add(codeHeaderName, "match.headers", "%q is no header name", m.Name)
	}
	at := w.begin(n)
	w.required(1, m.Name)
	w.flag(8, m.Invert)
	if m.Kind == ir.ValuePresent {
		w.value(7, 1)
	} else {
		w.stringMatcher(13, "match.headers", m, f)
	}
	w.end(at)
}

// queryMatcher appends a config.route.v3.QueryParameterMatcher.
func (w *encoding) queryMatcher(n protowire.Number, m *ir.ValueMatch, f *faults) {
	if m.Invert {
		f.add(codeValue, "match.query_parameters", "parameter %q: Envoy cannot invert a query parameter match", m.Name)
	}
	at := w.begin(n)
	w.required(1, m.Name)
	w.odd = w.odd || len(m.Name) > maxParameter
	if m.Kind == ir.ValuePresent {
		w.value(6, 1)
	} else {
		w.stringMatcher(5, "match.query_parameters", m, f)
	}
	w.end(at)
}

// maxParameter is the longest name of a query parameter that Envoy's protobuf rules allow, in bytes.
const maxParameter = 1024

// stringMatcher appends a type.matcher.v3.StringMatcher.
func (w *encoding) stringMatcher(n protowire.Number, path string, m *ir.ValueMatch, f *faults) {
	at := w.begin(n)
	w.flag(6, m.IgnoreCase && m.Kind != ir.ValueRegex) // Envoy: "has no effect for the regex matcher".
	switch m.Kind {
	case ir.ValueExact:
		w.member(1, m.Value)
	case ir.ValuePrefix:
		w.odd = w.odd || m.Value == ""
		w.member(2, m.Value)
	case ir.ValueSuffix:
		w.odd = w.odd || m.Value == ""
		w.member(3, m.Value)
	case ir.ValueRegex:
		w.message(5, regex(path+".safe_regex", m.Value, f))
	default:
		f.add(codeValue, path, "value kind %q is none of exact, regex, prefix, suffix, present", m.Kind)
	}
	w.end(at)
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
	if s.Denominator > 0 && s.Numerator > s.Denominator {
		f.add(codeValue, path, "%d of %d is more than everything", s.Numerator, s.Denominator)
	}
	return &corev3.RuntimeFractionalPercent{DefaultValue: p}
}
