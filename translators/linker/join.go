package linker

import (
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

type joint[T any] struct {
	users map[snapshot.Ref]*T
	node  *T
	dirty bool
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
			t = &joint[T]{users: map[snapshot.Ref]*T{}}
			j.nodes.Set(name, t)
		}
		if had, is := t.users[user]; !is || !j.kind.equal(had, n) {
			t.dirty, j.stale = true, true
		}
		t.users[user] = n
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
		delete(t.users, user)
		t.dirty, j.stale = true, true
		if len(t.users) == 0 {
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
	for r := range t.users {
		if !idle[r] {
			return false
		}
	}
	return true
}

func (t *joint[T]) relink(kind nodeKind[T]) {
	origins := make([]ir.Origin, 0, len(t.users))
	for r := range t.users {
		origins = append(origins, r)
	}
	slices.SortFunc(origins, snapshot.Ref.Compare)
	t.node = kind.merge(t.users[origins[0]], origins)
	t.dirty = false
}
