package linker

import (
	"iter"
	"maps"
	"slices"

	"github.com/tidwall/btree"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// joined keeps the nodes of one sort that several objects may want under one name. A node lives as long as one object
// wants it, carries the origins of all of them, and keeps its pointer while neither it nor the set of its wanters changes.
type joined[T any] struct {
	kind  nodeKind[T]
	nodes *btree.Map[string, *joint[T]]
	all   []*T
	stale bool
	idle  map[snapshot.Ref]bool // as of the last list
}

// joint is one node with the objects that want it: a few in a slice, many in a map.
type joint[T any] struct {
	few   []use[T]
	many  map[snapshot.Ref]*T
	node  *T
	dirty bool

	// Where many want it: its origins as of the last link, sorted and shared, and who came and left since.
	origins    []ir.Origin
	come, left []snapshot.Ref
}

type use[T any] struct {
	by   snapshot.Ref
	node *T
}

// few is the number of users up to which a slice is used.
const few = 8

func (t *joint[T]) get(by snapshot.Ref) *T {
	if t.many != nil {
		return t.many[by]
	}
	for i := range t.few {
		if t.few[i].by == by {
			return t.few[i].node
		}
	}
	return nil
}

func (t *joint[T]) set(by snapshot.Ref, node *T) {
	if t.many == nil {
		for i := range t.few {
			if t.few[i].by == by {
				t.few[i].node = node
				return
			}
		}
		if len(t.few) < few {
			t.few = append(t.few, use[T]{by, node})
			return
		}
		t.many = make(map[snapshot.Ref]*T, 2*few)
		for _, u := range t.few {
			t.many[u.by] = u.node
		}
		t.few = nil
	}
	t.many[by] = node
}

func (t *joint[T]) drop(by snapshot.Ref) {
	if t.many != nil {
		delete(t.many, by)
		return
	}
	t.few = slices.DeleteFunc(t.few, func(u use[T]) bool { return u.by == by })
}

// users yields the objects that want the node, in no order.
func (t *joint[T]) users() iter.Seq[snapshot.Ref] {
	return func(yield func(snapshot.Ref) bool) {
		for by := range t.many {
			if !yield(by) {
				return
			}
		}
		for i := range t.few {
			if !yield(t.few[i].by) {
				return
			}
		}
	}
}

// nodeKind is what joined must know of a node.
type nodeKind[T any] struct {
	name  func(*T) string
	equal func(a, b *T) bool
	// merge returns the node with the origins; it may return the node itself when it has them already.
	merge func(node *T, origins []ir.Origin) *T
}

var clusterNode = nodeKind[ir.Cluster]{
	name:  func(c *ir.Cluster) string { return c.Name },
	equal: func(a, b *ir.Cluster) bool { return a == b || a.Name == b.Name },
	merge: func(c *ir.Cluster, origins []ir.Origin) *ir.Cluster {
		if slices.Equal(c.Origins, origins) {
			return c
		}
		n := *c
		n.Origins = origins
		return &n
	},
}

var secretNode = nodeKind[ir.Secret]{
	name:  func(s *ir.Secret) string { return s.Name },
	equal: func(a, b *ir.Secret) bool { return a == b || a.Fingerprint == b.Fingerprint && a.Fingerprint != "" },
	merge: func(s *ir.Secret, origins []ir.Origin) *ir.Secret {
		if slices.Equal(s.Origins, origins) {
			return s
		}
		n := *s
		n.Origins = origins
		return &n
	},
}

var requestNode = nodeKind[ir.EndpointRequest]{
	name:  func(r *ir.EndpointRequest) string { return r.Name },
	equal: func(a, b *ir.EndpointRequest) bool { return *a == *b },
	merge: func(r *ir.EndpointRequest, _ []ir.Origin) *ir.EndpointRequest { return r },
}

func newJoined[T any](kind nodeKind[T]) joined[T] {
	return joined[T]{kind: kind, nodes: &btree.Map[string, *joint[T]]{}}
}

// update replaces what the object wants.
func (j *joined[T]) update(user snapshot.Ref, old, now []*T) {
	for _, n := range now {
		name := j.kind.name(n)
		t, _ := j.nodes.Get(name)
		if t == nil {
			t = &joint[T]{}
			j.nodes.Set(name, t)
		}
		had := t.get(user)
		if had == nil || !j.kind.equal(had, n) {
			t.dirty, j.stale = true, true
		}
		if had == nil && t.many != nil {
			t.come = append(t.come, user)
		}
		t.set(user, n)
	}
	for _, o := range old {
		name := j.kind.name(o)
		if slices.ContainsFunc(now, func(n *T) bool { return j.kind.name(n) == name }) {
			continue
		}
		t, _ := j.nodes.Get(name)
		if t == nil {
			continue
		}
		t.drop(user)
		if t.many != nil {
			t.left = append(t.left, user)
		}
		t.dirty, j.stale = true, true
		if len(t.few)+len(t.many) == 0 {
			j.nodes.Delete(name)
		}
	}
}

// list returns the nodes that some object wants which is not idle, sorted by name; the slice is shared until something changes.
func (j *joined[T]) list(idle map[snapshot.Ref]bool) []*T {
	if !j.stale && maps.Equal(idle, j.idle) {
		return j.all
	}
	j.idle = idle
	j.all = make([]*T, 0, j.nodes.Len())
	j.nodes.Scan(func(_ string, t *joint[T]) bool {
		if t.dirty {
			t.relink(j.kind)
		}
		if !t.idle(idle) {
			j.all = append(j.all, t.node)
		}
		return true
	})
	j.stale = false
	return j.all
}

func (t *joint[T]) idle(idle map[snapshot.Ref]bool) bool {
	if len(idle) == 0 {
		return false
	}
	for r := range t.users() {
		if !idle[r] {
			return false
		}
	}
	return true
}

func (t *joint[T]) relink(kind nodeKind[T]) {
	origins := t.sorted()
	t.node = kind.merge(t.get(origins[0]), origins)
	t.dirty = false
	if t.many != nil {
		t.origins, t.come, t.left = origins, nil, nil
	}
}

// sorted returns the objects that want the node, sorted. Of many, only those are put in place or taken out that came or left
// since the last time, where these are few.
func (t *joint[T]) sorted() []ir.Origin {
	if n := len(t.come) + len(t.left); len(t.origins) > 0 && n < few {
		if n == 0 {
			return t.origins
		}
		all := append(make([]ir.Origin, 0, len(t.origins)+len(t.come)), t.origins...)
		for _, r := range t.left {
			if i, is := slices.BinarySearchFunc(all, r, snapshot.Ref.Compare); is {
				all = slices.Delete(all, i, i+1)
			}
		}
		for _, r := range t.come {
			if i, is := slices.BinarySearchFunc(all, r, snapshot.Ref.Compare); !is && t.many[r] != nil {
				all = slices.Insert(all, i, r)
			}
		}
		return all
	}
	all := make([]ir.Origin, 0, len(t.few)+len(t.many))
	for r := range t.users() {
		all = append(all, r)
	}
	slices.SortFunc(all, snapshot.Ref.Compare)
	return all
}
