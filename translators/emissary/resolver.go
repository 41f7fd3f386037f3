package emissary

import (
	"github.com/chancery-gateway/chancery/snapshot"
	api "github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
)

// builtinResolver returns the kind of a resolver that is always there, or "".
func builtinResolver(name string) string {
	switch name {
	case "kubernetes-service":
		return api.KindKubernetesServiceResolver.Kind
	case "endpoint", "kubernetes-endpoint":
		return api.KindKubernetesEndpointResolver.Kind
	}
	return ""
}

var resolverKinds = []snapshot.GroupKind{api.KindKubernetesServiceResolver, api.KindKubernetesEndpointResolver, api.KindConsulResolver}

// resolver returns the kind of the resolver of this name: a built-in one, one in the object's own namespace, else the
// first by namespace. "" means that there is none.
func (l *lowering) resolver(name string) string {
	if kind := builtinResolver(name); kind != "" {
		return kind
	}
	for _, k := range resolverKinds {
		if o := l.v.Get(k, l.o.Namespace, name); o != nil && l.f.owns(o) {
			return k.Kind
		}
	}
	for _, k := range resolverKinds {
		for o := range l.v.List(k) {
			if o.Name == name && l.f.owns(o) {
				return k.Kind
			}
		}
	}
	return ""
}
