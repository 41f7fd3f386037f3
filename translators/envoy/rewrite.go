package envoy

import (
	"fmt"
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/envoy/wirejson"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// rewritable makes an empty message of each type of which others may rewrite resources. Secrets are not among them.
var rewritable = map[string]func() validated{
	ir.TypeCluster:     func() validated { return &clusterv3.Cluster{} },
	ir.TypeRouteConfig: func() validated { return &routev3.RouteConfiguration{} },
	ir.TypeListener:    func() validated { return &listenerv3.Listener{} },
	ir.TypeEndpoint:    func() validated { return &endpointv3.ClusterLoadAssignment{} },
}

// Text returns a resource as compact protobuf JSON, the same for the same bytes. It fails on types that are not rewritable.
func Text(r *ir.Resource) ([]byte, error) {
	empty := rewritable[r.Type]
	if empty == nil {
		return nil, fmt.Errorf("resources of type %s are not shown", r.Type)
	}
	var e wirejson.Encoder
	return e.AppendMessage(make([]byte, 0, 4*len(r.Value)), empty().ProtoReflect().Descriptor(), r.Value)
}

// Parse makes a resource of protobuf JSON. The name is that of the message; origins are taken as they are. It fails on unknown
// fields, and with a *Violation on what breaks a rule that a resource can be judged by alone, in packed messages too.
func Parse(url string, text []byte, origins []ir.Origin) (*ir.Resource, error) {
	empty := rewritable[url]
	if empty == nil {
		return nil, fmt.Errorf("resources of type %s cannot be written", url)
	}
	m := empty()
	if err := protojson.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("%s", strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\u00a0", " "), "proto: "))
	}
	var f faults
	f.message(m)
	value := f.marshal("", m)
	if len(f) > 0 {
		slices.SortStableFunc(f, func(a, b fault) int { return strings.Compare(a.path, b.path) }) // fields are visited in no order
		return nil, &Violation{Code: f[0].code, Path: f[0].path, Message: f[0].message}
	}
	r := &ir.Resource{Type: url, Version: version(contentHash(value)), Value: value, Origins: origins}
	switch m := m.(type) {
	case *clusterv3.Cluster:
		r.Name = m.Name
		if m.GetType() == clusterv3.Cluster_EDS {
			if r.EndpointSet = m.GetEdsClusterConfig().GetServiceName(); r.EndpointSet == "" {
				r.EndpointSet = m.Name
			}
		}
	case *routev3.RouteConfiguration:
		r.Name = m.Name
	case *listenerv3.Listener:
		r.Name = m.Name
	case *endpointv3.ClusterLoadAssignment:
		r.Name = m.ClusterName
	}
	return r, nil
}

// Closed returns a resource that stands in for one that must not be served: a cluster without endpoints, routes that answer 503.
// It returns nil for other types, which are left out.
func Closed(r *ir.Resource) *ir.Resource {
	var m proto.Message
	switch r.Type {
	case ir.TypeCluster:
		m = &clusterv3.Cluster{Name: r.Name, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}}
	case ir.TypeRouteConfig:
		m = &routev3.RouteConfiguration{Name: r.Name, VirtualHosts: []*routev3.VirtualHost{{Name: "chancery/closed", Domains: []string{"*"}, Routes: []*routev3.Route{{
			Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
			Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 503}},
		}}}}}
	default:
		return nil
	}
	var f faults
	value := f.marshal("", m)
	return &ir.Resource{Type: r.Type, Name: r.Name, Version: version(contentHash(value)), Value: value, Origins: r.Origins}
}

// Pieces returns the parts of a resource that Envoy can judge alone; none for what does not decode.
func Pieces(r *ir.Resource) []*ir.Unit {
	unit := func(kind ir.UnitKind, name string, m proto.Message, frame []byte) *ir.Unit {
		var f faults
		value := f.marshal("", m)
		framed := uint64(0)
		if frame != nil {
			framed = contentHash(frame)
		}
		return &ir.Unit{Kind: kind, Name: name, Value: value, Frame: frame, Origins: r.Origins, ID: identity(kind, contentHash(value), framed)}
	}
	var out []*ir.Unit
	switch r.Type {
	case ir.TypeCluster:
		return []*ir.Unit{{Kind: ir.UnitCluster, Name: r.Name, Value: r.Value, Origins: r.Origins, ID: identity(ir.UnitCluster, contentHash(r.Value), 0)}}
	case ir.TypeEndpoint:
		return []*ir.Unit{{Kind: ir.UnitEndpoints, Name: r.Name, Value: r.Value, Origins: r.Origins, ID: identity(ir.UnitEndpoints, contentHash(r.Value), 0)}}
	case ir.TypeRouteConfig:
		m := &routev3.RouteConfiguration{}
		if proto.Unmarshal(r.Value, m) != nil {
			return nil
		}
		hosts := m.VirtualHosts
		m.VirtualHosts, m.ValidateClusters = nil, nil // which are there is known here, not where units are judged
		if m.Name = ""; proto.Size(m) > 0 {
			out = append(out, unit(ir.UnitRouteConfig, r.Name, m, nil))
		}
		for _, v := range hosts {
			routes := v.Routes
			v.Routes = nil
			host := unit(ir.UnitHost, v.Name, v, []byte(r.Name))
			out = append(out, host)
			for _, route := range routes {
				out = append(out, unit(ir.UnitRoute, route.Name, route, nil))
			}
		}
	case ir.TypeListener:
		m := &listenerv3.Listener{}
		if proto.Unmarshal(r.Value, m) != nil {
			return nil
		}
		chains := m.FilterChains
		m.FilterChains = nil
		head := unit(ir.UnitListener, r.Name, m, nil)
		out = append(out, head)
		for _, c := range chains {
			out = append(out, unit(ir.UnitChain, c.Name, c, head.Value))
		}
	}
	return out
}

// Verdict returns Envoy's sentence on the first of the units that it refused, "" when it refused none.
func (e *Emitter) Verdict(units []*ir.Unit) string {
	for _, u := range units {
		if text, refused := e.refused.texts[u.ID]; refused {
			return text
		}
	}
	return ""
}

// Faults emits the program alone and returns what the back end has against it, but for references to what is not part of it.
func Faults(p *ir.Program) []snapshot.Diagnostic {
	var out []snapshot.Diagnostic
	for _, d := range NewEmitter(Options{}).Emit(p).Diagnostics {
		if d.Severity == snapshot.Error && d.Code != codeMissing {
			out = append(out, d)
		}
	}
	return out
}
