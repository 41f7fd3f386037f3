package envoy

import (
	"net/netip"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// endpointMessage builds one EDS resource: a locality per zone, in the order in which zones first appear by name.
func endpointMessage(s *ir.EndpointSet, f *faults) *endpointv3.ClusterLoadAssignment {
	byZone := map[string]*endpointv3.LocalityLbEndpoints{}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if _, err := netip.ParseAddr(e.Address); err != nil {
			f.add(codeValue, "endpoints", "%q is no IP address", e.Address)
		}
		group := byZone[e.Zone]
		if group == nil {
			group = &endpointv3.LocalityLbEndpoints{}
			if e.Zone != "" {
				group.Locality = &corev3.Locality{Zone: e.Zone}
			}
			byZone[e.Zone] = group
		}
		group.LbEndpoints = append(group.LbEndpoints, lbEndpoint(e.Address, e.Port))
	}
	out := &endpointv3.ClusterLoadAssignment{ClusterName: s.Name}
	for _, z := range sortedKeys(byZone) {
		out.Endpoints = append(out.Endpoints, byZone[z])
	}
	return out
}

func lbEndpoint(host string, port uint32) *endpointv3.LbEndpoint {
	return &endpointv3.LbEndpoint{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: address(host, port)}}}
}

func address(host string, port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: host, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}

// EndpointResource marshals one endpoint set alone, for the path on which endpoints bypass the compiler. It returns nil and
// the reasons when the set cannot be served.
func EndpointResource(s *ir.EndpointSet) (*ir.Resource, []snapshot.Diagnostic) {
	var f faults
	m := endpointMessage(s, &f)
	f.check("", m)
	value := f.marshal("", m)
	if len(f) > 0 {
		return nil, f.diagnostics(unitName("endpoint set", s.Name), leftOut, s.Origins)
	}
	return &ir.Resource{Type: ir.TypeEndpoint, Name: s.Name, Version: version(contentHash(value)), Value: value, Origins: s.Origins}, nil
}
