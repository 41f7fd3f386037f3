package gatewayapi

import (
	"fmt"

	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
)

// granted reports whether an object may name another: they share a namespace, or a ReferenceGrant beside the other lets objects
// of this very group, kind and namespace. It is the one place where this is decided.
func granted(v *snapshot.View, from *snapshot.Object, to snapshot.Ref) bool {
	if from.Namespace == to.Namespace {
		return true
	}
	for o := range v.List(api.KindReferenceGrant) {
		spec, ok := o.Spec.(*gw.ReferenceGrantSpec)
		if !ok || o.Namespace != to.Namespace {
			continue
		}
		if grantsFrom(spec.From, from) && grantsTo(spec.To, to) {
			return true
		}
	}
	return false
}

// wantedGrant says which ReferenceGrant would let the object name the other.
func wantedGrant(from *snapshot.Object, to snapshot.Ref) string {
	return fmt.Sprintf("a ReferenceGrant in namespace %s with from: [{group: %s, kind: %s, namespace: %s}] and to: [{group: %q, kind: %s, name: %s}]",
		to.Namespace, from.Group, from.Kind, from.Namespace, to.Group, to.Kind, to.Name)
}

func grantsFrom(from []gw.ReferenceGrantFrom, o *snapshot.Object) bool {
	for _, f := range from {
		if string(f.Group) == o.Group && string(f.Kind) == o.Kind && string(f.Namespace) == o.Namespace {
			return true
		}
	}
	return false
}

func grantsTo(to []gw.ReferenceGrantTo, r snapshot.Ref) bool {
	for _, t := range to {
		if string(t.Group) == r.Group && string(t.Kind) == r.Kind && (t.Name == nil || *t.Name == "" || string(*t.Name) == r.Name) {
			return true
		}
	}
	return false
}
