package gateway

import (
	"context"
	"slices"

	"github.com/chancery-gateway/chancery/translators/ir"
	"github.com/chancery-gateway/chancery/xds"
)

// agreement is the last program that an Envoy has taken as a whole, beside the last one that was published.
type agreement struct {
	publication uint64
	published   *ir.Program
	agreed      *ir.Program
}

// publish notes what Envoys are about to be told.
func (g *Gateway) publish(p *ir.Program, publication uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.agreement.published, g.agreement.publication = p, publication
	g.heard(0) // an Envoy may have been faster
}

// agree notes that nothing stands refused; what is published counts as agreed to when all of it has been answered.
func (g *Gateway) agree(ctx context.Context) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, cancel := context.WithCancel(ctx)
	cancel() // only what is known now counts
	if a := &g.agreement; a.published != nil && a.published != a.agreed && g.server.Acknowledged(now, a.publication) == nil {
		a.agreed = a.published
	}
}

// blame returns the objects whose edits Envoy does not take. A route configuration holds the routes of many, and Envoy names
// none: those count that are not as they were when it last agreed.
func (g *Gateway) blame(n *xds.NACK) []ir.Origin {
	if n.Type != ir.TypeRouteConfig {
		return n.Origins
	}
	g.mu.Lock()
	a := g.agreement
	g.mu.Unlock()
	if a.published == nil {
		return n.Origins
	}
	taken := map[*ir.Route]bool{}
	if a.agreed != nil {
		for r := range routes(a.agreed, n.Names) {
			taken[r] = true
		}
	}
	var out []ir.Origin
	for r := range routes(a.published, n.Names) {
		if !taken[r] {
			out = append(out, r.Origins...)
		}
	}
	if len(out) == 0 {
		return n.Origins
	}
	slices.SortFunc(out, ir.Origin.Compare)
	return slices.Compact(out)
}

// routes yields the routes of the named route configurations.
func routes(p *ir.Program, names []string) func(yield func(*ir.Route) bool) {
	return func(yield func(*ir.Route) bool) {
		for _, rc := range p.RouteConfigs {
			if !slices.Contains(names, rc.Name) {
				continue
			}
			for _, v := range rc.VirtualHosts {
				for _, r := range v.Routes {
					if !yield(r) {
						return
					}
				}
			}
		}
	}
}
