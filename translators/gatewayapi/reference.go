package gatewayapi

import (
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// Parent returns what a parentRef of an object names; what it leaves out is the specification's: a Gateway of the same namespace.
func Parent(of *snapshot.Object, r *gw.ParentReference) ir.ParentRef {
	return ir.ParentRef{
		Group: string(value(r.Group, gw.GroupName)), Kind: string(value(r.Kind, "Gateway")), Namespace: string(value(r.Namespace, gw.Namespace(of.Namespace))),
		Name: string(r.Name), SectionName: string(value(r.SectionName, "")), Port: value(r.Port, 0),
	}
}

// ParentGateway returns the Gateway that a ListenerSet names.
func ParentGateway(set *snapshot.Object, spec *gw.ListenerSetSpec) snapshot.Ref {
	p := &spec.ParentRef
	return Parent(set, &gw.ParentReference{Group: p.Group, Kind: p.Kind, Namespace: p.Namespace, Name: p.Name}).Ref()
}

// ParentRefs returns the parents that the spec of a route names, nil for what is no route.
func ParentRefs(spec any) []gw.ParentReference {
	switch s := spec.(type) {
	case *gw.HTTPRouteSpec:
		return s.ParentRefs
	case *gw.GRPCRouteSpec:
		return s.ParentRefs
	case *gw.TLSRouteSpec:
		return s.ParentRefs
	case *gw.TCPRouteSpec:
		return s.ParentRefs
	case *gw.UDPRouteSpec:
		return s.ParentRefs
	}
	return nil
}
