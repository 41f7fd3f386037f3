package status

import (
	"slices"

	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/translators/gatewayapi"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// untranslated reports whether an object of Gateway API that nothing was made of is ours, and returns a route's parents that are, as JSON.
func untranslated(s *snapshot.Snapshot, o *snapshot.Object, id string) (parents string, ours bool) {
	var refs []gw.ParentReference
	switch spec := o.Spec.(type) {
	case *gw.GatewayClassSpec:
		return "", gatewayapi.Ours(o, id) != ""
	case *gw.GatewaySpec, *gw.ListenerSetSpec:
		name, _ := controller(s, o, id)
		return "", name != ""
	case *gw.HTTPRouteSpec:
		refs = spec.ParentRefs
	case *gw.GRPCRouteSpec:
		refs = spec.ParentRefs
	case *gw.TLSRouteSpec:
		refs = spec.ParentRefs
	case *gw.TCPRouteSpec:
		refs = spec.ParentRefs
	case *gw.UDPRouteSpec:
		refs = spec.ParentRefs
	}
	var all []ir.ParentStatus
	for _, p := range refs {
		to := snapshot.Ref{Group: orElse(p.Group, gw.GroupName), Kind: orElse(p.Kind, "Gateway"), Namespace: orElse(p.Namespace, gw.Namespace(o.Namespace)), Name: string(p.Name)}
		parent := s.Get(to.GroupKind(), to.Namespace, to.Name)
		if name, _ := controller(s, parent, id); name != "" {
			ref := ir.ParentRef{Group: to.Group, Kind: to.Kind, Namespace: to.Namespace, Name: to.Name, SectionName: orElse(p.SectionName, "")}
			if p.Port != nil {
				ref.Port = *p.Port
			}
			all = append(all, ir.ParentStatus{Controller: name, Parent: ref})
		}
	}
	return text(all), len(all) > 0
}

func orElse[T ~string](p *T, absent T) string {
	if p == nil {
		return string(absent)
	}
	return string(*p)
}

// controller returns the name under which the installation answers a Gateway or ListenerSet, "" for none; another says that another
// installation does.
func controller(s *snapshot.Snapshot, o *snapshot.Object, id string) (name string, another bool) {
	if o == nil {
		return "", false
	}
	switch spec := o.Spec.(type) {
	case *gw.GatewaySpec:
		class := s.Get(api.KindGatewayClass, "", string(spec.GatewayClassName))
		if class == nil {
			return "", false
		}
		name = gatewayapi.Ours(class, id)
		of, known := class.Spec.(*gw.GatewayClassSpec)
		return name, name == "" && known && slices.Contains(gatewayapi.Controllers, string(of.ControllerName))
	case *gw.ListenerSetSpec:
		p := spec.ParentRef
		if orElse(p.Kind, "Gateway") == "Gateway" && orElse(p.Group, gw.GroupName) == gw.GroupName {
			return controller(s, s.Get(api.KindGateway, orElse(p.Namespace, gw.Namespace(o.Namespace)), string(p.Name)), id)
		}
	}
	return "", false
}
