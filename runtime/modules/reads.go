package modules

import (
	"crypto/sha256"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/wasm"
	"github.com/chancery-gateway/chancery/wasm/abi"
)

// The names of kinds within the ABI.
const (
	kindPrefixIR  = "ir/"
	kindPrefixXDS = "xds/"

	kindVirtualHost = "ir/VirtualHost"
	kindListener    = "ir/Listener"
	kindCluster     = "ir/Cluster"
	kindFragment    = "ir/RouteFragment"

	endpointMessage = "envoy.config.endpoint.v3.ClusterLoadAssignment"
)

// reads is what the modules of a phase are given.
type reads struct {
	all   bool
	kinds map[string]bool
	// objects are the kinds of objects among them.
	objects []snapshot.GroupKind
}

func newReads(set *wasm.Set, p abi.Phase) reads {
	r := reads{}
	if set.Len(p) == 0 {
		return r
	}
	r.kinds = map[string]bool{}
	for _, k := range set.Reads(p) {
		if k == "*" {
			r.all = true
			continue
		}
		r.kinds[k] = true
		if !strings.HasPrefix(k, kindPrefixIR) && !strings.HasPrefix(k, kindPrefixXDS) {
			kind, group, _ := strings.Cut(k, ".")
			r.objects = append(r.objects, snapshot.GroupKind{Group: group, Kind: kind})
		}
	}
	return r
}

func (r reads) none() bool { return !r.all && len(r.kinds) == 0 }

func (r reads) has(kind string) bool { return r.all || r.kinds[kind] }

// shown reports whether an object may be shown to modules at all: Secrets have no text.
func shown(o *snapshot.Object) bool { return o.Raw != nil && o.Group != groupChancery }

const groupChancery = "chancery.dev"

func objectItem(o *snapshot.Object, readOnly bool) abi.Item {
	return abi.Item{Kind: o.GroupKind().String(), Namespace: o.Namespace, Name: o.Name, ReadOnly: readOnly, Value: o.Raw}
}

// hasher joins hashes.
type hasher struct{ sum []byte }

func (h *hasher) add(x snapshot.Hash) { h.sum = append(h.sum, x[:]...) }

func (h *hasher) hash() (out snapshot.Hash) {
	sum := sha256.Sum256(h.sum)
	copy(out[:], sum[:])
	return out
}

func hashText(text []byte) (out snapshot.Hash) {
	sum := sha256.Sum256(text)
	copy(out[:], sum[:])
	return out
}

// tenant is the namespace that origins belong to; "" for none. Where there are several, it is a name that no namespace has, so
// that only a module that was granted all namespaces sees the unit.
func tenant(origins ...[]snapshot.Ref) string {
	var all []string
	for _, list := range origins {
		for _, o := range list {
			if o.Namespace != "" && !slices.Contains(all, o.Namespace) {
				all = append(all, o.Namespace)
			}
		}
	}
	slices.Sort(all)
	return strings.Join(all, "+")
}
