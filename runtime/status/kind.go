package status

import (
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
	"github.com/chancery-gateway/chancery/translators/ingress"
)

// kind is a kind whose status is written: its names, and the version that is written where an object's own is not known.
type kind struct {
	snapshot.GroupKind
	plural, version string
}

func (k kind) resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: k.Group, Version: k.version, Resource: k.plural}
}

func emissary(k snapshot.GroupKind, plural string) kind { return kind{k, plural, "v3alpha1"} }

func chancery(name, plural string) kind {
	return kind{snapshot.GroupKind{Group: "chancery.dev", Kind: name}, plural, "v1alpha1"}
}

// kinds are those whose status says in conditions what became of an object.
var kinds = []kind{
	emissary(v3alpha1.KindAuthService, "authservices"),
	emissary(v3alpha1.KindConsulResolver, "consulresolvers"),
	emissary(v3alpha1.KindDevPortal, "devportals"),
	emissary(v3alpha1.KindHost, "hosts"),
	emissary(v3alpha1.KindKubernetesEndpointResolver, "kubernetesendpointresolvers"),
	emissary(v3alpha1.KindKubernetesServiceResolver, "kubernetesserviceresolvers"),
	emissary(v3alpha1.KindListener, "listeners"),
	emissary(v3alpha1.KindLogService, "logservices"),
	emissary(v3alpha1.KindMapping, "mappings"),
	emissary(v3alpha1.KindModule, "modules"),
	emissary(v3alpha1.KindRateLimitService, "ratelimitservices"),
	emissary(v3alpha1.KindTCPMapping, "tcpmappings"),
	emissary(v3alpha1.KindTLSContext, "tlscontexts"),
	emissary(v3alpha1.KindTracingService, "tracingservices"),
	chancery("Policy", "policies"),
	chancery("PolicyException", "policyexceptions"),
	chancery("Tenant", "tenants"),
	chancery("Translator", "translators"),
}

// byKind finds every kind that is written, both kinds of Ingress and Gateway API's among them.
var byKind = func() map[snapshot.GroupKind]kind {
	all := map[snapshot.GroupKind]kind{
		ingress.Kind:                {ingress.Kind, "ingresses", "v1"},
		snapshot.KindKnativeIngress: {snapshot.KindKnativeIngress, "ingresses", "v1alpha1"},
	}
	for _, k := range slices.Concat(kinds, gatewayKinds) {
		all[k.GroupKind] = k
	}
	return all
}()

// told reports whether what is found about an object of the kind is written to it in conditions.
func told(k snapshot.GroupKind) bool {
	return slices.ContainsFunc(kinds, func(is kind) bool { return is.GroupKind == k })
}

// idsOf returns the installations that an object is for; what has no such field is for all.
func idsOf(spec any) (ids v3alpha1.AmbassadorID, has bool) {
	v := reflect.ValueOf(spec)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return nil, false
	}
	field := v.Elem().FieldByName("AmbassadorID")
	if !field.IsValid() {
		return nil, false
	}
	ids, has = field.Interface().(v3alpha1.AmbassadorID)
	return ids, has
}
