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
	switch o.Spec.(type) {
	case *gw.GatewayClassSpec:
		return "", gatewayapi.Ours(o, id) != ""
	case *gw.GatewaySpec, *gw.ListenerSetSpec:
		name, _ := controller(s, o, id)
		return "", name != ""
	}
	var all []ir.ParentStatus
	refs := gatewayapi.ParentRefs(o.Spec)
	for i := range refs {
		ref := gatewayapi.Parent(o, &refs[i])
		parent := s.Get(ref.Ref().GroupKind(), ref.Namespace, ref.Name)
		if name, _ := controller(s, parent, id); name != "" {
			all = append(all, ir.ParentStatus{Controller: name, Parent: ref})
		}
	}
	return text(all), len(all) > 0
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
		if p := gatewayapi.ParentGateway(o, spec); p.GroupKind() == api.KindGateway {
			return controller(s, s.Get(api.KindGateway, p.Namespace, p.Name), id)
		}
	}
	return "", false
}
