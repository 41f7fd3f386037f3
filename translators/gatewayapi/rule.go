package gatewayapi

import (
	"fmt"

	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// rule is a rule of an HTTPRoute or GRPCRoute but for its matches, as one Gateway's backends make it.
type rule struct {
	path     string
	effect   *effect
	branches []branch
	total    int64
	timeout  int64
	retry    *ir.RetryPolicy
	upgrades []string
}

// branch is one backend with its weight; cluster is "" for one that cannot be used.
type branch struct {
	weight  int64
	cluster string
	effect  *effect
}

// backendRef is a backend of a route of either kind.
type backendRef struct {
	gw.BackendRef
	filters []gw.HTTPRouteFilter
}

// branches reads the backends of a rule.
func (l *lowering) branches(g *snapshot.Object, r *rule, refs []backendRef, speaks protocol) {
	for i := range refs {
		at := fmt.Sprintf("%s.backendRefs[%d]", r.path, i)
		b := branch{weight: int64(value(refs[i].Weight, 1)), cluster: l.backend(g, at, &refs[i].BackendObjectReference, speaks), effect: l.filters(g, at, refs[i].filters, speaks)}
		if b.weight < 0 || b.weight > 1_000_000 {
			l.invalid.object(string(gw.RouteReasonUnsupportedValue), fmt.Sprintf("%s.weight: %d is out of range", at, b.weight))
			l.fail(codeValue, at+".weight", fmt.Sprintf("%d is no weight; the backend gets no requests", b.weight), "0 to 1000000")
			continue
		}
		if b.weight > 0 {
			r.total += b.weight
			r.branches = append(r.branches, b)
		}
	}
}

// Statuses of the answers that a rule gives itself. What nobody can be asked about for a fault of the route is 500; where the
// route is in order and gives nobody a share, it is 503.
const (
	statusBroken = 500
	statusNobody = 503
)

// routes makes the routes of one match of the rule at a listener: one, or, where a share of the requests meets another end than the
// rest, one for each end, told apart by fractions of the requests.
func (l *lowering) routes(r *rule, m *matched, a *attachment, name string, backends int) []*ir.Route {
	base := ir.Route{Name: name, Match: m.match, Origins: l.refs, CORS: r.effect.cors}
	direct := func(base ir.Route, status uint32) *ir.Route {
		base.Direct = &ir.DirectResponse{Status: status}
		return &base
	}
	misfit := func(field string) *ir.Route {
		const why = "a prefix can be replaced only where the match has a PathPrefix"
		l.invalid.object(string(gw.RouteReasonUnsupportedValue), r.path+field+": "+why)
		l.fail(codeValue, r.path+field, why+"; its requests are answered 500", "ReplaceFullPath, or matches of type PathPrefix")
		return direct(base, statusBroken)
	}
	switch {
	case r.effect.refused:
		return []*ir.Route{direct(base, statusBroken)}
	case r.effect.redirect != nil:
		to, fits := redirect(r.effect.redirect, a.spec, m)
		if !fits {
			return []*ir.Route{misfit(".filters")}
		}
		base.Redirect, base.ResponseHeaders = to, r.effect.response
		return []*ir.Route{&base}
	case backends == 0:
		return []*ir.Route{direct(base, statusBroken)}
	case r.total == 0:
		return []*ir.Route{direct(base, statusNobody)}
	}
	var together []branch
	var out []*ir.Route
	given := int64(0)
	share := func(weight int64) *ir.Fraction {
		if given += weight; given >= r.total {
			return nil
		}
		return fraction(given, r.total)
	}
	for _, b := range r.branches {
		if b.cluster != "" && b.effect.plain() {
			together = append(together, b)
			continue
		}
		part := base
		part.Match.Fraction = share(b.weight)
		switch {
		case b.effect.refused || b.cluster == "" && b.effect.redirect == nil:
			out = append(out, direct(part, statusBroken))
		case b.effect.redirect != nil:
			to, fits := redirect(b.effect.redirect, a.spec, m)
			if !fits {
				out = append(out, misfit(".backendRefs"))
				continue
			}
			part.Redirect = to
			part.ResponseHeaders = merged(r.effect.response, b.effect.response)
			out = append(out, &part)
		default:
			e := *r.effect
			e.request, e.response = merged(r.effect.request, b.effect.request), merged(r.effect.response, b.effect.response)
			e.mirrors = append(append([]ir.Mirror(nil), r.effect.mirrors...), b.effect.mirrors...)
			if b.effect.rewrite != nil {
				e.rewrite = b.effect.rewrite
			}
			if b.effect.cors != nil {
				part.CORS = b.effect.cors
			}
			if !forward(&part, r, &e, m, []ir.WeightedCluster{{Cluster: b.cluster}}) {
				out = append(out, misfit(".backendRefs"))
				continue
			}
			out = append(out, &part)
		}
	}
	if len(together) == 0 {
		return out
	}
	var clusters []ir.WeightedCluster
	for _, b := range together {
		w := ir.WeightedCluster{Cluster: b.cluster, RequestHeaders: b.effect.request, ResponseHeaders: b.effect.response}
		if len(together) > 1 {
			w.Weight = uint32(b.weight)
		}
		clusters = append(clusters, w)
	}
	if !forward(&base, r, r.effect, m, clusters) {
		return append(out, misfit(".filters"))
	}
	return append(out, &base)
}

// fraction is a part of the requests, in percent where that is exact.
func fraction(part, of int64) *ir.Fraction {
	if part*100%of == 0 {
		return &ir.Fraction{Numerator: uint32(part * 100 / of), Denominator: 100}
	}
	return &ir.Fraction{Numerator: uint32((part*1_000_000 + of/2) / of), Denominator: 1_000_000}
}

// forward makes the route send requests on. It reports false for a rewrite that the match cannot have.
func forward(to *ir.Route, r *rule, e *effect, m *matched, clusters []ir.WeightedCluster) bool {
	f := &ir.Forward{Clusters: clusters, TimeoutMillis: r.timeout, Retry: r.retry, Upgrades: r.upgrades, Mirrors: e.mirrors}
	if e.rewrite != nil {
		f.HostRewrite = string(value(e.rewrite.Hostname, ""))
		c, fits := change(e.rewrite.Path, m)
		if !fits {
			return false
		}
		if c.full != nil {
			f.RegexRewrite = c.whole()
		} else {
			f.PrefixRewrite, f.RegexRewrite = c.prefix, c.regex
		}
	}
	to.Forward, to.RequestHeaders, to.ResponseHeaders = f, e.request, e.response
	return true
}

func merged(a, b ir.HeaderChanges) ir.HeaderChanges {
	return ir.HeaderChanges{Add: append(append([]ir.HeaderValue(nil), a.Add...), b.Add...), Remove: append(append([]string(nil), a.Remove...), b.Remove...)}
}
