package simulator

import (
	"fmt"
	"strings"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// Simulate follows the request through the program. It never fails: what Envoy would refuse is an outcome.
func Simulate(p *ir.Program, r Request) Trace {
	t := &Trace{Request: r}
	if p == nil {
		p = &ir.Program{}
	}
	l := pickListener(p, r, t)
	if l == nil {
		if r.Listener != "" {
			return t.end(Refused, 0, fmt.Sprintf("there is no listener %q", r.Listener))
		}
		return t.end(Refused, 0, fmt.Sprintf("no listener has port %d, and none takes %s", r.Port, connection(r)))
	}
	chain, why := pickChain(l, r)
	loseChains(l, chain, r, t)
	if chain == nil {
		return t.end(Refused, 0, why)
	}
	t.Chain = &Step{Name: chain.Name, Why: why, Origins: chain.Origins}
	if reason := handshake(chain, r); reason != "" {
		return t.end(Refused, 0, reason)
	}
	switch {
	case chain.TCP != nil:
		all := everything()
		t.Outcomes = []Outcome{{Share: 100, Kind: Proxied, Clusters: clusterShares(p, chain.TCP.Clusters, &all, ""), Origins: chain.Origins}}
		return *t
	case chain.HTTP == nil:
		return t.end(Refused, 0, "the filter chain serves neither HTTP nor TCP")
	}
	t.RouteConfig = chain.HTTP.RouteConfig
	x, status, reason := receive(chain.HTTP, l, r)
	if status != 0 {
		return t.end(Intercepted, status, reason)
	}
	t.Host, t.Path = x.authority, x.target
	var rc *ir.RouteConfig
	for _, c := range p.RouteConfigs {
		if c.Name == chain.HTTP.RouteConfig {
			rc = c
		}
	}
	if rc == nil {
		return t.end(NotFound, 404, fmt.Sprintf("the program has no route configuration %q", chain.HTTP.RouteConfig))
	}
	authority := x.authority
	if rc.IgnorePort {
		authority, _ = splitPort(authority)
	}
	vhost := pickVirtualHost(rc, authority, t)
	if vhost == nil {
		return t.end(NotFound, 404, fmt.Sprintf("no virtual host has a domain for %q", x.authority))
	}
	walk(p, chain.HTTP, vhost, x, t)
	return *t
}

// receive does what the HTTP connection manager does to a request before it is routed. status is set when it answers itself.
func receive(chain *ir.HTTPChain, l *ir.Listener, r Request) (x *exchange, status uint32, reason string) {
	settings := chain.Settings
	if settings == nil {
		settings = &ir.HTTPSettings{}
	}
	x = &exchange{method: r.Method, authority: r.Host, headers: map[string][]string{}}
	for _, h := range r.Headers {
		name := strings.ToLower(h.Name)
		if strings.Contains(name, "_") {
			switch settings.HeadersWithUnderscoresAction {
			case "DROP_HEADER":
				continue
			case "REJECT_REQUEST":
				return nil, 400, fmt.Sprintf("header %s has an underscore", h.Name)
			}
		}
		x.headers[name] = append(x.headers[name], h.Value)
	}
	if r.Host == "" {
		return nil, 400, "the request has no Host header"
	}
	path, rest := cutQuery(r.Path)
	switch {
	case strings.Contains(r.Path, "#"):
		return nil, 400, "the path has a fragment"
	case r.Method != "CONNECT" && !strings.HasPrefix(r.Path, "/"):
		return nil, 404, "the path does not begin with a slash"
	case settings.RejectEscapedSlashes && hasEscapedSlash(path):
		return nil, 400, "the path has an escaped slash (%2F or %5C)"
	}
	path, ok := normalizePath(path)
	if !ok {
		return nil, 400, "the path cannot be normalised: it has a NUL"
	}
	if settings.MergeSlashes {
		path = mergeSlashes(path)
	}
	x.path, x.target = path, path+rest
	if host, port := splitPort(r.Host); settings.StripMatchingHostPort && r.Method != "CONNECT" && port == fmt.Sprint(l.Port) {
		x.authority = host
	}
	sanitize(x, settings)
	forwarded(x, chain, settings, r)
	return x, 0, ""
}

// walk tries the routes in order and shares the requests among those that match.
func walk(p *ir.Program, h *ir.HTTPChain, vhost *ir.VirtualHost, x *exchange, t *Trace) {
	left := everything()
	lose := func(r *ir.Route, reason string) {
		t.lose(Candidate{Kind: "route", Name: r.Name, Match: describeMatch(&r.Match), Reason: reason, Origins: r.Origins})
	}
	for _, route := range vhost.Routes {
		if x.method == "CONNECT" {
			break
		}
		m := &route.Match
		matched, ok := matchPath(m, x.path)
		if !ok {
			continue
		}
		taken := drawn{}
		reason := mismatch(m, x)
		switch {
		case reason == "" && left.size() == 0:
			reason = "matches too, but a route before it takes the request"
		case reason == "":
			if taken = left.take(m.Fraction); taken.size() == 0 {
				reason = fmt.Sprintf("%d of %d requests leave it no share", m.Fraction.Numerator, m.Fraction.Denominator)
			}
		case left.size() == 0:
			continue
		}
		if reason != "" {
			lose(route, reason)
			continue
		}
		t.Outcomes = append(t.Outcomes, act(p, h, route, matched, &taken, x))
	}
	if left.size() == 0 {
		return
	}
	for _, route := range vhost.Routes {
		if _, ok := matchPath(&route.Match, x.path); ok || len(t.Outcomes) > 0 {
			continue
		}
		if reason := nearMiss(&route.Match, x.path); reason != "" {
			lose(route, reason)
		}
	}
	reason := fmt.Sprintf("no route of the virtual host takes %s %s", x.method, x.path)
	if x.method == "CONNECT" {
		reason = "no route takes CONNECT requests"
	}
	o := Outcome{Share: left.percent(), Kind: NotFound, Status: 404, Reason: reason}
	if steps, status, why := filterSteps(p, h, nil); status != 0 {
		o.Kind, o.Status, o.Reason, o.Filters = Intercepted, status, why, steps
	}
	t.Outcomes = append(t.Outcomes, o)
}
