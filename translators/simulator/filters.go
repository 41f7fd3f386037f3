package simulator

import (
	"fmt"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// FilterStep is what one filter of the chain does to the requests of an outcome before the route's action.
type FilterStep struct {
	// Name is the filter's, for example "envoy.filters.http.ext_authz".
	Name string `json:"name"`
	// Does says it in words.
	Does    string      `json:"does"`
	Origins []ir.Origin `json:"origins,omitempty"`
}

// filterSteps says which filters act on requests of the route, nil for none that matched, in their order. status is set
// where one of them answers every such request itself, for reason.
func filterSteps(p *ir.Program, h *ir.HTTPChain, r *ir.Route) (steps []FilterStep, status uint32, reason string) {
	for _, f := range h.Filters {
		does := ""
		switch c := f.Config.(type) {
		case *ir.ExtAuthz:
			if r == nil {
				continue // Envoy asks about requests with a route only.
			}
			does = "asks " + c.Cluster
			switch {
			case exempt(r):
				does = "bypassed"
			case c.Closed != "" || findCluster(p, c.Cluster) == nil:
				does, status, reason = "refuses", 500, "the AuthService cannot be asked"
			}
		case *ir.AddressRules:
			does = "lets pass by address"
			if c.Closed != "" {
				does, status, reason = "refuses", 403, "the address rules cannot be read"
			}
		case *ir.RateLimit:
			limits := limitsOf(r)
			if limits == nil {
				continue
			}
			does = fmt.Sprintf("asks %s about %d descriptors", c.Cluster, len(limits.Descriptors))
			if findCluster(p, c.Cluster) == nil && c.FailureModeDeny {
				does, status, reason = "refuses", 500, "the RateLimitService cannot be asked"
			}
		case *ir.Buffer:
			does = fmt.Sprintf("reads bodies whole, up to %d bytes", c.MaxRequestBytes)
		case *ir.Lua:
			does = "runs a script"
		case *ir.Compressor:
			does = "compresses answers"
		default:
			continue
		}
		steps = append(steps, FilterStep{Name: f.Name, Does: does, Origins: f.Origins})
		if status != 0 {
			return steps, status, reason
		}
	}
	return steps, 0, ""
}

// exempt reports whether the filter that asks a service lets the route's requests pass unasked.
func exempt(r *ir.Route) bool {
	c, _ := r.Filters[ir.FilterExtAuthz].(*ir.ExtAuthzRoute)
	return r.Own || c != nil && c.Disabled
}

// limitsOf returns the route's rate limit descriptors; nil for none. Only requests that are forwarded are limited.
func limitsOf(r *ir.Route) *ir.RateLimitRoute {
	if r == nil || r.Forward == nil {
		return nil
	}
	c, _ := r.Filters[ir.FilterRateLimit].(*ir.RateLimitRoute)
	return c
}
