package simulator

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/translators/ir"
)

func TestFilterSteps(t *testing.T) {
	limits := map[string]any{ir.FilterRateLimit: &ir.RateLimitRoute{Descriptors: []ir.RateLimitDescriptor{{}, {}}}}
	bypass := map[string]any{ir.FilterExtAuthz: &ir.ExtAuthzRoute{Disabled: true}}
	auth := &ir.Filter{Name: ir.FilterExtAuthz, Config: &ir.ExtAuthz{Cluster: "cart-main"}, Origins: origin("AuthService", "auth")}
	rate := &ir.Filter{Name: ir.FilterRateLimit, Config: &ir.RateLimit{Cluster: "cart-main"}}
	for _, c := range []struct {
		name    string
		filters []*ir.Filter
		edit    func(*ir.Route)
		want    string
	}{
		{"none", []*ir.Filter{{Name: ir.FilterCORS}}, nil, "forward 0 []"},
		{"asked", []*ir.Filter{auth}, nil, "forward 0 [ext_authz: asks cart-main]"},
		{"bypassed", []*ir.Filter{auth}, func(r *ir.Route) { r.Filters = bypass }, "forward 0 [ext_authz: bypassed]"},
		{"own answer", []*ir.Filter{auth}, func(r *ir.Route) { r.Own = true }, "forward 0 [ext_authz: bypassed]"},
		{"closed", []*ir.Filter{{Name: ir.FilterExtAuthz, Config: &ir.ExtAuthz{Closed: "why"}}, rate}, func(r *ir.Route) { r.Filters = limits }, "intercepted 500 [ext_authz: refuses]"},
		{"closed, bypassed", []*ir.Filter{{Name: ir.FilterExtAuthz, Config: &ir.ExtAuthz{Closed: "why"}}}, func(r *ir.Route) { r.Filters = bypass }, "forward 0 [ext_authz: bypassed]"},
		{"service lost", []*ir.Filter{{Name: ir.FilterExtAuthz, Config: &ir.ExtAuthz{Cluster: "gone"}}}, nil, "intercepted 500 [ext_authz: refuses]"},
		{"not limited", []*ir.Filter{rate}, nil, "forward 0 []"},
		{"limited", []*ir.Filter{rate}, func(r *ir.Route) { r.Filters = limits }, "forward 0 [ratelimit: asks cart-main about 2 descriptors]"},
		{"limits closed", []*ir.Filter{{Name: ir.FilterRateLimit, Config: &ir.RateLimit{FailureModeDeny: true}}}, func(r *ir.Route) { r.Filters = limits }, "intercepted 500 [ratelimit: refuses]"},
		{"addresses closed", []*ir.Filter{{Name: ir.FilterRBAC, Config: &ir.AddressRules{Closed: "why"}}, auth}, nil, "intercepted 403 [rbac: refuses]"},
		{"all", []*ir.Filter{{Name: ir.FilterLua, Config: &ir.Lua{}}, {Name: ir.FilterCompressor, Config: &ir.Compressor{}}, {Name: ir.FilterBuffer, Config: &ir.Buffer{MaxRequestBytes: 5}},
			{Name: ir.FilterRBAC, Config: &ir.AddressRules{}}}, nil, "forward 0 [lua: runs a script compressor: compresses answers buffer: reads bodies whole, up to 5 bytes rbac: lets pass by address]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := edge()
			p.Listeners[1].Chains[0].HTTP.Filters = c.filters
			if c.edit != nil {
				c.edit(p.RouteConfigs[1].VirtualHosts[0].Routes[3])
			}
			tr := simulate(t, p, "GET", "https://shop.example/Exact")
			o := tr.Outcomes[0]
			var steps []string
			for _, s := range o.Filters {
				steps = append(steps, strings.TrimPrefix(s.Name, "envoy.filters.http.")+": "+s.Does)
			}
			if got := fmt.Sprintf("%s %d %v", o.Kind, o.Status, steps); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			for _, s := range steps {
				if name, does, _ := strings.Cut(s, ": "); !strings.Contains(tr.Text(), name+" "+does) {
					t.Errorf("the text lacks %q:\n%s", s, tr.Text())
				}
			}
		})
	}
	// Without a route only what looks at every request acts.
	p := edge()
	p.Listeners[1].Chains[0].HTTP.Filters = []*ir.Filter{{Name: ir.FilterExtAuthz, Config: &ir.ExtAuthz{Closed: "why"}}}
	if o := simulate(t, p, "GET", "https://shop.example/none").Outcomes[0]; o.Kind != NotFound {
		t.Errorf("%+v", o)
	}
	p.Listeners[1].Chains[0].HTTP.Filters = []*ir.Filter{{Name: ir.FilterRBAC, Config: &ir.AddressRules{Closed: "why"}}}
	if o := simulate(t, p, "GET", "https://shop.example/none").Outcomes[0]; o.Status != 403 {
		t.Errorf("%+v", o)
	}
}
