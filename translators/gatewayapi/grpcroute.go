package gatewayapi

import (
	"fmt"
	"regexp"
	"strings"

	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// grpcRoute makes the routes of a GRPCRoute on every listener that it is attached to.
func (l *lowering) grpcRoute(spec *gw.GRPCRouteSpec) bool {
	at, ours := l.parents(spec.ParentRefs, spec.Hostnames)
	if !ours {
		return false
	}
	rules := spec.Rules
	if len(rules) == 0 {
		rules = []gw.GRPCRouteRule{{}}
	}
	for _, a := range at {
		for i := range rules {
			path := fmt.Sprintf("spec.rules[%d]", i)
			r := l.grpcRule(a.gateway, path, &rules[i])
			for j, m := range l.grpcMatches(path, &rules[i]) {
				l.place(a, r, &m, len(rules[i].BackendRefs), i, j)
			}
		}
	}
	l.conclude(len(rules))
	return true
}

func (l *lowering) grpcRule(g *snapshot.Object, path string, from *gw.GRPCRouteRule) *rule {
	r := &rule{path: path, effect: l.filters(g, path, httpFilters(from.Filters), speaksGRPC)}
	refs := make([]backendRef, len(from.BackendRefs))
	for i, b := range from.BackendRefs {
		refs[i] = backendRef{b.BackendRef, httpFilters(b.Filters)}
	}
	l.branches(g, r, refs, speaksGRPC)
	if from.SessionPersistence != nil {
		l.warn(codeUnsupported, path+".sessionPersistence", "ignored: sessions are not kept", "")
	}
	return r
}

// httpFilters are the filters of a GRPCRoute in the form of an HTTPRoute's.
func httpFilters(from []gw.GRPCRouteFilter) []gw.HTTPRouteFilter {
	out := make([]gw.HTTPRouteFilter, len(from))
	for i, f := range from {
		out[i] = gw.HTTPRouteFilter{
			Type: gw.HTTPRouteFilterType(f.Type), RequestHeaderModifier: f.RequestHeaderModifier, ResponseHeaderModifier: f.ResponseHeaderModifier,
			RequestMirror: f.RequestMirror, ExtensionRef: f.ExtensionRef,
		}
	}
	return out
}

// grpcMatches makes the conditions of a rule: a method is the path "/service/method".
func (l *lowering) grpcMatches(path string, rule *gw.GRPCRouteRule) []matched {
	if len(rule.Matches) == 0 {
		return []matched{{match: ir.Match{PathKind: ir.PathPrefix, Path: "/"}}}
	}
	var out []matched
	for i := range rule.Matches {
		from := &rule.Matches[i]
		c := &conditions{l: l, path: fmt.Sprintf("%s.matches[%d]", path, i)}
		m := matched{match: ir.Match{PathKind: ir.PathPrefix, Path: "/"}}
		if from.Method != nil {
			m.match.PathKind, m.match.Path = c.method(from.Method)
			m.rank[0], m.rank[1] = uint32(len(value(from.Method.Service, ""))), uint32(len(value(from.Method.Method, "")))
		}
		headers := make([]condition, len(from.Headers))
		for j, h := range from.Headers {
			headers[j] = condition{string(h.Name), string(value(h.Type, gw.GRPCHeaderMatchExact)), h.Value}
		}
		m.match.Headers = c.headers(headers, &m.rank)
		sortMatches(m.match.Headers)
		if !c.failed {
			out = append(out, m)
		}
	}
	return out
}

// method makes the path of a method match; an absent part is any.
func (c *conditions) method(from *gw.GRPCMethodMatch) (ir.PathKind, string) {
	service, method := value(from.Service, ""), value(from.Method, "")
	if strings.ContainsAny(service+method, "/?# ") && value(from.Type, gw.GRPCMethodMatchExact) == gw.GRPCMethodMatchExact {
		c.fail(".method", fmt.Sprintf("%q is no name of a service or method", service+"/"+method), "such as helloworld.Greeter and SayHello")
	}
	switch value(from.Type, gw.GRPCMethodMatchExact) {
	case gw.GRPCMethodMatchExact:
		switch {
		case service != "" && method != "":
			return ir.PathExact, "/" + service + "/" + method
		case service != "":
			return ir.PathPrefix, "/" + service + "/"
		case method != "":
			return ir.PathRegex, "/[^/]+/" + regexp.QuoteMeta(method)
		}
		return ir.PathPrefix, "/"
	case gw.GRPCMethodMatchRegularExpression:
		part := func(field, expr string) string {
			if expr == "" {
				return "[^/]+"
			}
			c.regex(field, expr)
			return "(?:" + expr + ")"
		}
		whole := "/" + part(".method.service", service) + "/" + part(".method.method", method)
		if !c.failed {
			c.regex(".method", whole)
		}
		return ir.PathRegex, whole
	}
	c.fail(".method.type", fmt.Sprintf("unknown type %q", *from.Type), "Exact or RegularExpression")
	return ir.PathPrefix, "/"
}
