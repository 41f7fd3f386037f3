package emissary

import (
	"fmt"
	"slices"

	"github.com/chancery-gateway/chancery/snapshot"
	api "github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// claims returns this installation's objects of the kind. The first is the one that counts where there can be only one:
// those of the gateway's own namespace come before others, older ones before younger ones.
func (f *FrontEnd) claims(v *snapshot.View, k snapshot.GroupKind) []*snapshot.Object {
	var out []*snapshot.Object
	for o := range v.List(k) {
		if f.Owns(o) {
			out = append(out, o)
		}
	}
	slices.SortStableFunc(out, func(a, b *snapshot.Object) int {
		own := func(o *snapshot.Object) bool { return o.Namespace == f.options.Namespace }
		switch {
		case own(a) != own(b):
			if own(a) {
				return -1
			}
			return 1
		case b.NewerThan(a):
			return -1
		case a.NewerThan(b):
			return 1
		}
		return 0
	})
	return out
}

// first returns the object of the kind that counts, or nil.
func (f *FrontEnd) first(v *snapshot.View, k snapshot.GroupKind) *snapshot.Object {
	if all := f.claims(v, k); len(all) > 0 {
		return all[0]
	}
	return nil
}

// aside returns a lowering of another object, whose fragments and findings are thrown away: they are that object's own.
func (l *lowering) aside(o *snapshot.Object) *lowering {
	return &lowering{f: l.f, o: o, v: l.v, set: l.set, out: &ir.Fragments{}}
}

// onlyOne reports whether the object is the one of its kind that counts; one that is not gets an error.
func (l *lowering) onlyOne(k snapshot.GroupKind) bool {
	lead := l.f.first(l.v, k)
	if lead == l.o {
		return true
	}
	l.fail(codeServiceSecond, "", fmt.Sprintf("ignored: %s %s/%s comes first, and there can be only one", k.Kind, lead.Namespace, lead.Name),
		"remove one of them; the gateway's own namespace and the older object come first")
	return false
}

// serviceResolver is the resolver of the gateway's own services, whatever the Module's default is.
const serviceResolver = "kubernetes-service"

// ownCluster makes the cluster of one of the gateway's own services; nil when the object has failed. What it made then is
// dropped. Like every cluster it is named by what it is: one that moves is another, and requests in flight keep the old
// one. (Envoy ends the questions in flight of a cluster that changes in place.)
func (l *lowering) ownCluster(u upstream) (*ir.Cluster, service) {
	u.own, u.resolver = true, serviceResolver
	c, _, svc := l.cluster(u)
	if l.failed {
		l.out.Clusters, l.out.Secrets, l.out.EndpointSets = nil, nil, nil
		return nil, svc
	}
	return c, svc
}

// speaksV3 checks the version of Envoy's protocol. Absent means v2, as in Emissary, which Envoy no longer speaks.
func (l *lowering) speaksV3(version string) bool {
	if version == "v3" {
		return true
	}
	if version == "" {
		version = "v2 (the default)"
	}
	l.fail(codeServiceValue, "spec.protocol_version", "protocol_version "+version+" is unsupported: Envoy speaks v3 only", "protocol_version: v3")
	return false
}

// span reads a timeout of a service that must leave time to answer.
func (l *lowering) span(path string, m *api.Milliseconds, fallback int64) int64 {
	ms := l.millis(path, m, fallback)
	if ms == 0 {
		l.fail(codeServiceValue, path, "0 leaves no time to answer", "a positive number of milliseconds")
		return fallback
	}
	return ms
}
