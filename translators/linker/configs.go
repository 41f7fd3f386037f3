package linker

import (
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// linkRouteConfigs relinks the sets that changed and returns the route configurations. Virtual hosts and configurations
// that are as before keep their pointers.
func (l *Linker) linkRouteConfigs() []*ir.RouteConfig {
	for _, s := range l.topology.sets {
		l.linked += s.relink(&l.routes.variants)
	}
	l.routes.variants.endPass()
	out := make([]*ir.RouteConfig, 0, len(l.topology.plans))
	var last map[string]*ir.RouteConfig
	for _, p := range l.topology.plans {
		if p.built == nil || slices.ContainsFunc(p.hosts, func(h *hostPlan) bool { return h.set != nil && h.set.changed }) {
			if last == nil {
				last = byName(l.topology.configs)
			}
			p.built = l.fill(p, last[p.name])
		}
		out = append(out, p.built)
	}
	if slices.Equal(out, l.topology.configs) {
		return l.topology.configs
	}
	l.topology.configs = out
	return out
}

func byName(configs []*ir.RouteConfig) map[string]*ir.RouteConfig {
	out := make(map[string]*ir.RouteConfig, len(configs))
	for _, c := range configs {
		out[c.Name] = c
	}
	return out
}

// fill makes the route configuration of a plan, reusing what it can of the last one.
func (l *Linker) fill(p *configPlan, last *ir.RouteConfig) *ir.RouteConfig {
	var had map[string]*ir.VirtualHost
	if last != nil {
		had = make(map[string]*ir.VirtualHost, len(last.VirtualHosts))
		for _, v := range last.VirtualHosts {
			had[v.Name] = v
		}
	}
	allPorts := p.apart || slices.ContainsFunc(p.hosts, func(h *hostPlan) bool { return h.set != nil && h.set.ported })
	c := &ir.RouteConfig{Name: p.name, VirtualHosts: make([]*ir.VirtualHost, 0, len(p.hosts)), IgnorePort: allPorts && !p.ported}
	for _, h := range p.hosts {
		c.VirtualHosts = append(c.VirtualHosts, l.virtualHost(h, allPorts, had))
	}
	slices.SortFunc(c.VirtualHosts, func(a, b *ir.VirtualHost) int { return strings.Compare(a.Name, b.Name) })
	if last != nil && last.IgnorePort == c.IgnorePort && slices.Equal(last.VirtualHosts, c.VirtualHosts) {
		return last
	}
	return c
}

func (l *Linker) virtualHost(h *hostPlan, allPorts bool, had map[string]*ir.VirtualHost) *ir.VirtualHost {
	slices.Sort(h.domains)
	slices.SortFunc(h.origins, ir.Origin.Compare)
	v := &ir.VirtualHost{Name: h.domains[0], Domains: h.domains, HTTP3Port: h.http3, Origins: h.origins}
	switch {
	case h.fixed == nil:
		v.Routes = h.set.under(h.prelude, &l.routes.variants)
	case h.fixed == closed:
		v.Name, v.Routes = "chancery/closed", []*ir.Route{h.fixed}
	default:
		v.Name, v.Routes = "chancery/misdirected", []*ir.Route{h.fixed}
	}
	if allPorts && len(h.ports) > 0 {
		v.Domains = slices.Concat(h.domains, h.ports)
		slices.Sort(v.Domains)
	}
	if len(h.refuses) > 0 {
		v.Routes = slices.Concat(h.refuses, v.Routes)
	}
	if was := had[v.Name]; was != nil && was.HTTP3Port == v.HTTP3Port && slices.Equal(was.Domains, v.Domains) && slices.Equal(was.Origins, v.Origins) && sameRoutes(was.Routes, v.Routes) {
		return was
	}
	return v
}

// sameRoutes compares by pointer, and at once where both are one slice.
func sameRoutes(a, b []*ir.Route) bool {
	if len(a) != len(b) {
		return false
	}
	return len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b)
}
