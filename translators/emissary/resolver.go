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
// first by namespace. "" means that there is none. The object is nil for a built-in one.
func (l *lowering) resolver(name string) (kind string, of *snapshot.Object) {
	if kind := builtinResolver(name); kind != "" {
		return kind, nil
	}
	for _, k := range resolverKinds {
		if o := l.v.Get(k, l.o.Namespace, name); o != nil && l.f.Owns(o) {
			return k.Kind, o
		}
	}
	for _, k := range resolverKinds {
		for o := range l.v.List(k) {
			if o.Name == name && l.f.Owns(o) {
				return k.Kind, o
			}
		}
	}
	return "", nil
}

// Consul returns the ConsulResolver by which a Mapping or TCPMapping finds its service, and the service's name in Consul; nil
// for an object that needs no Consul.
func (f *FrontEnd) Consul(s *snapshot.Snapshot, o *snapshot.Object) (of *snapshot.Object, service string) {
	if !f.Owns(o) {
		return nil, ""
	}
	var text, name string
	switch spec := o.Spec.(type) {
	case *api.MappingSpec:
		if spec.HostRedirect && !spec.Shadow {
			return nil, "" // it names a host to redirect to
		}
		text, name = spec.Service, spec.Resolver
	case *api.TCPMappingSpec:
		text, name = spec.Service, spec.Resolver
	}
	v := snapshot.NewView(s)
	if name == "" {
		name = f.module(v).resolver
	}
	if kind, of := (&lowering{f: f, o: o, v: v}).resolver(name); kind == api.KindConsulResolver.Kind {
		if svc, err := parseService(text); err == nil {
			return of, svc.host
		}
	}
	return nil, ""
}

// consulResolver checks the fields of a ConsulResolver. What its agent answers is the source's to report.
func (l *lowering) consulResolver(spec *api.ConsulResolverSpec) {
	if kind := builtinResolver(l.o.Name); kind != "" {
		l.fail(codeClusterResolver, "metadata.name", "\""+l.o.Name+"\" is the name of a built-in "+kind, "choose another name")
	}
	if spec.Address == "" {
		l.fail(codeClusterResolver, "spec.address", "the address of the Consul agent is missing", "host:port or a URL; $NAME stands for an environment variable of Chancery")
	}
}
