package gatewayapi

import (
	"fmt"
	"time"

	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// httpRoute makes the routes of an HTTPRoute on every listener that it is attached to.
func (l *lowering) httpRoute(spec *gw.HTTPRouteSpec) bool {
	at, ours := l.parents(spec.ParentRefs, spec.Hostnames)
	if !ours {
		return false
	}
	rules := spec.Rules
	if len(rules) == 0 {
		rules = []gw.HTTPRouteRule{{}}
	}
	for _, a := range at {
		for i := range rules {
			path := fmt.Sprintf("spec.rules[%d]", i)
			r := l.httpRule(a.gateway, path, &rules[i])
			for j, m := range l.httpMatches(path, &rules[i]) {
				l.place(a, r, &m, len(rules[i].BackendRefs), i, j)
			}
		}
	}
	l.conclude(len(rules))
	return true
}

// place adds the routes of one match at every name of the listener.
func (l *lowering) place(a *attachment, r *rule, m *matched, backends, i, j int) {
	name := fmt.Sprintf("%s/%s-%d-%d", l.o.Namespace, l.o.Name, i, j)
	routes := l.routes(r, m, a, name, backends)
	for _, host := range a.names {
		k := 0
		for _, route := range routes {
			for _, one := range told(route, host, a.spec) {
				l.fragment(a, host, one, &m.rank, i, j, k)
				k++
			}
		}
	}
}

// conclude writes the conditions of a route at its parents.
func (l *lowering) conclude(rules int) {
	accepted := yes(string(gw.RouteConditionAccepted), string(gw.RouteReasonAccepted), "the route is served")
	if !l.invalid.stands() && len(l.out.Routes) == 0 && len(l.out.TCPRoutes) == 0 {
		accepted = no(accepted.Type, l.invalid.reason, l.invalid.message)
	}
	if l.invalid.reason == string(gw.RouteReasonIncompatibleFilters) && rules == 1 {
		accepted = no(accepted.Type, l.invalid.reason, l.invalid.message)
	}
	resolved := l.resolved.condition(string(gw.RouteConditionResolvedRefs), string(gw.RouteReasonResolvedRefs), "all references are usable")
	for i := range l.out.Status.Parents {
		p := &l.out.Status.Parents[i]
		if len(p.Conditions) == 0 {
			p.Conditions = []ir.Condition{accepted}
			if !l.invalid.stands() && accepted.True {
				p.Conditions = append(p.Conditions, yes(string(gw.RouteConditionPartiallyInvalid), string(gw.RouteReasonUnsupportedValue), l.invalid.message))
			}
		}
		p.Conditions = append(p.Conditions, resolved)
	}
}

// httpRule reads a rule but for its matches.
func (l *lowering) httpRule(g *snapshot.Object, path string, from *gw.HTTPRouteRule) *rule {
	r := &rule{path: path, effect: l.filters(g, path, from.Filters, speaksHTTP), upgrades: []string{"websocket"}}
	refs := make([]backendRef, len(from.BackendRefs))
	for i, b := range from.BackendRefs {
		refs[i] = backendRef{b.BackendRef, b.Filters}
	}
	l.branches(g, r, refs, speaksHTTP)
	l.times(r, from)
	if from.SessionPersistence != nil {
		l.warn(codeUnsupported, path+".sessionPersistence", "ignored: sessions are not kept", "")
	}
	return r
}

// times reads timeouts and retries. Without retries the backend has as long as the shorter of both timeouts.
func (l *lowering) times(r *rule, from *gw.HTTPRouteRule) {
	refuse := func(field, message, help string) {
		r.effect.refused = true
		l.invalid.object(string(gw.RouteReasonUnsupportedValue), r.path+field+": "+message)
		l.fail(codeValue, r.path+field, message+"; requests of the rule are answered 500", help)
	}
	span := func(field string, d *gw.Duration) int64 {
		if d == nil {
			return 0
		}
		t, err := time.ParseDuration(string(*d))
		if err != nil || t < 0 || t > 100_000*time.Hour {
			refuse(field, fmt.Sprintf("%q is no time span", *d), "such as 500ms, 10s or 1m30s")
		}
		return t.Milliseconds()
	}
	var perTry int64
	if t := from.Timeouts; t != nil {
		r.timeout, perTry = span(".timeouts.request", t.Request), span(".timeouts.backendRequest", t.BackendRequest)
		if r.timeout > 0 && perTry > r.timeout {
			refuse(".timeouts.backendRequest", "longer than request", "at most request")
		}
	}
	retry := from.Retry
	if retry == nil {
		if perTry > 0 {
			r.timeout = perTry
		}
		return
	}
	// Gateway API: connections that fail or end without an answer are tried again whenever retries are asked for.
	r.retry = &ir.RetryPolicy{On: "connect-failure,refused-stream,reset"}
	if perTry > 0 {
		r.retry.PerTryTimeoutMillis = &perTry
	}
	for i, code := range retry.Codes {
		if code < 400 || code > 599 {
			refuse(fmt.Sprintf(".retry.codes[%d]", i), fmt.Sprintf("%d is no status of a failure", code), "400 to 599")
			continue
		}
		r.retry.StatusCodes = append(r.retry.StatusCodes, uint32(code))
	}
	if len(r.retry.StatusCodes) > 0 {
		r.retry.On += ",retriable-status-codes"
	}
	if retry.Attempts != nil {
		if n := *retry.Attempts; n < 0 || n > 1000 {
			refuse(".retry.attempts", fmt.Sprintf("%d is no number of attempts", n), "0 to 1000")
		} else {
			attempts := uint32(n)
			r.retry.NumRetries = &attempts
		}
	}
	if ms := span(".retry.backoff", retry.Backoff); ms > 0 {
		r.retry.BackoffMillis = &ms
	}
}
