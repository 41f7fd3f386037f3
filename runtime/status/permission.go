package status

import (
	"slices"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ingress"
)

// Permission is what the writer must be allowed to do.
type Permission struct {
	Group     string
	Resources []string
	Verbs     []string
	// Names confines it to objects of these names.
	Names []string
	// Own confines it to the namespace that the program runs in.
	Own bool
}

// KnativePermissions returns what reading and answering Knative's Ingresses takes, where they are served.
func KnativePermissions() []Permission {
	return []Permission{
		{Group: snapshot.KindKnativeIngress.Group, Resources: []string{"ingresses"}, Verbs: []string{"get", "list", "watch"}},
		{Group: snapshot.KindKnativeIngress.Group, Resources: []string{"ingresses/status"}, Verbs: []string{"patch"}},
	}
}

// Permissions returns what the writer must be allowed to do, beside reading the objects.
func Permissions() []Permission {
	out := []Permission{
		{Resources: []string{"events"}, Verbs: []string{"create"}},
		{Group: "coordination.k8s.io", Resources: []string{"leases"}, Verbs: []string{"get", "create", "update"}, Own: true},
	}
	add := func(k kind) {
		at := slices.IndexFunc(out, func(p Permission) bool { return p.Group == k.Group && slices.Contains(p.Verbs, "patch") })
		if at < 0 {
			at, out = len(out), append(out, Permission{Group: k.Group, Verbs: []string{"patch"}})
		}
		out[at].Resources = append(out[at].Resources, k.plural+"/status")
	}
	for _, k := range slices.Concat(kinds, gatewayKinds) {
		add(k)
	}
	add(byKind[ingress.Kind])
	return out
}
