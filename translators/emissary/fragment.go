package emissary

import (
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// Fragment places a route that did not come from a Mapping among those that did: as if a Mapping with this hostname and match
// had asked for it. An error is returned for a hostname that is none.
func Fragment(origin *snapshot.Object, hostname string, r *ir.Route) (*ir.RouteFragment, error) {
	f := &ir.RouteFragment{Origin: origin, Labels: origin.Labels, Route: r, Hosts: ir.HostPattern{Kind: ir.HostNone}}
	if hostname != "" {
		name, port, err := splitDomain(hostname)
		if err == nil {
			err = checkGlob(name)
		}
		if err != nil {
			return nil, err
		}
		f.Hosts = ir.HostPattern{Kind: ir.HostGlob, Value: name, Port: port}
		f.Authority = &ir.ValueMatch{Name: ":authority", Kind: ir.ValueExact, Value: name + port, IgnoreCase: true}
		switch {
		case name == "*" && port == "":
			f.Authority = nil
		case name[0] == '*':
			f.Authority.Kind, f.Authority.Value = ir.ValueSuffix, name[1:]+port
		case name[len(name)-1] == '*':
			f.Authority.Kind, f.Authority.Value = ir.ValuePrefix, name[:len(name)-1]
		}
	}
	sortMatches(r.Match.Headers)
	sortMatches(r.Match.Query)
	f.Group = groupKey(f.Hosts, &r.Match, 0, nil)
	f.Order = orderKey(f.Hosts, f.Authority, &r.Match, 0, nil)
	return f, nil
}
