package snapshot

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/tidwall/btree"
)

// Snapshot is an immutable view of the world. Deriving one from the last shares everything that did not change; objects
// are compared by pointer. The zero value is not usable; start from Empty.
type Snapshot struct {
	kinds    map[GroupKind]*btree.Map[string, *Object]
	slices   *btree.Map[string, *Object] // EndpointSlices and Endpoints by "namespace/service/kind/name"
	findings []Diagnostic
	base     *Snapshot
	changes  []Change
}

// Change is one object that differs between two snapshots. Old is nil for an addition, New for a removal.
type Change struct {
	Old, New *Object
}

// Ref returns the reference of the object that changed.
func (c Change) Ref() Ref {
	if c.New != nil {
		return c.New.Ref
	}
	return c.Old.Ref
}

// Empty returns the snapshot of an empty world.
func Empty() *Snapshot {
	return &Snapshot{kinds: map[GroupKind]*btree.Map[string, *Object]{}, slices: &btree.Map[string, *Object]{}}
}

// key orders as Ref.Compare does: nothing sorts before the separator.
func key(namespace, name string) string { return namespace + "\x00" + name }

// cloning guards the mark that a tree's copy leaves on the tree itself: several may derive from one snapshot at a time.
var cloning sync.Mutex

func clone(t *btree.Map[string, *Object]) *btree.Map[string, *Object] {
	cloning.Lock()
	defer cloning.Unlock()
	return t.Copy()
}

// Derive returns the snapshot in which each object of put stands in place of the one of the same Ref, and no object of
// remove exists. An object of put whose Hash equals the present one's keeps the present pointer, so it is no change.
// findings are the source's own diagnostics about the whole input (files that do not parse, objects that fail their
// schema); they replace those of the base. The receiver stays as it was.
func (s *Snapshot) Derive(put []*Object, remove []Ref, findings []Diagnostic) *Snapshot {
	n := &Snapshot{kinds: make(map[GroupKind]*btree.Map[string, *Object], len(s.kinds)), slices: s.slices, findings: findings}
	if len(s.kinds) > 0 {
		n.base = s
	}
	for k, t := range s.kinds {
		n.kinds[k] = t
	}
	owned := map[GroupKind]bool{}
	ownSlices := false
	var last GroupKind
	var lastTree *btree.Map[string, *Object]
	// tree returns the kind's tree to be written to; most objects are of the same kind as the one before.
	tree := func(k GroupKind) *btree.Map[string, *Object] {
		if k == last && lastTree != nil {
			return lastTree
		}
		t := n.kinds[k]
		if !owned[k] {
			if t == nil {
				t = &btree.Map[string, *Object]{}
			} else {
				t = clone(t)
			}
			n.kinds[k], owned[k] = t, true
		}
		if (k == KindEndpointSlice || k == KindEndpoints) && !ownSlices {
			n.slices, ownSlices = clone(n.slices), true
		}
		last, lastTree = k, t
		return t
	}
	first := map[Ref]int{}
	record := func(old, new *Object) {
		if len(s.kinds) == 0 {
			return // everything is new: Changes compares
		}
		r := Change{old, new}.Ref()
		if i, seen := first[r]; seen {
			n.changes[i].New = new
			return
		}
		first[r] = len(n.changes)
		n.changes = append(n.changes, Change{old, new})
	}
	for _, r := range remove {
		old := n.Get(r.GroupKind(), r.Namespace, r.Name)
		if old == nil {
			continue
		}
		tree(r.GroupKind()).Delete(key(r.Namespace, r.Name))
		if k := sliceKey(old); k != "" {
			n.slices.Delete(k)
		}
		record(old, nil)
	}
	for _, o := range put {
		k, name := o.GroupKind(), key(o.Namespace, o.Name)
		if there := s.kinds[k]; there != nil {
			if was, _ := there.Get(name); was != nil && was.Hash == o.Hash {
				if o = was; n.kinds[k] == there {
					continue
				}
				// It may have been removed in this very step.
			}
		}
		t := tree(k)
		old, _ := t.Set(name, o)
		if old != nil && old.Hash == o.Hash {
			t.Set(name, old)
			continue
		}
		if old != nil {
			if k := sliceKey(old); k != "" {
				n.slices.Delete(k)
			}
		}
		if k := sliceKey(o); k != "" {
			n.slices.Set(k, o)
		}
		record(old, o)
	}
	n.changes = slices.DeleteFunc(n.changes, func(c Change) bool {
		return c.Old == c.New || c.Old != nil && c.New != nil && c.Old.Hash == c.New.Hash
	})
	return n
}

// Advance is Derive for a source that watches: where there is nothing to put or remove and the findings are the present
// ones, it returns the receiver itself and false.
func (s *Snapshot) Advance(put []*Object, remove []Ref, findings []Diagnostic) (*Snapshot, bool) {
	if len(put) == 0 && len(remove) == 0 && slices.Equal(findings, s.findings) {
		return s, false
	}
	return s.Derive(put, remove, findings), true
}

func sliceKey(o *Object) string {
	if s, ok := o.Spec.(*EndpointSlice); ok {
		return o.Namespace + "/" + s.Service + "/" + o.Kind + "/" + o.Name
	}
	return ""
}

// Forget drops the link to the base snapshot, so that the base can be collected. Changes(base) is a full comparison afterwards.
// Once it is done, it may be called again beside anything.
func (s *Snapshot) Forget() {
	if s.base != nil {
		s.base, s.changes = nil, nil
	}
}

// Get returns the object, or nil.
func (s *Snapshot) Get(k GroupKind, namespace, name string) *Object {
	t := s.kinds[k]
	if t == nil {
		return nil
	}
	o, _ := t.Get(key(namespace, name))
	return o
}

// List yields every object of the kind, sorted by namespace and name.
func (s *Snapshot) List(k GroupKind) iter.Seq[*Object] {
	return func(yield func(*Object) bool) {
		if t := s.kinds[k]; t != nil {
			t.Scan(func(_ string, o *Object) bool { return yield(o) })
		}
	}
}

// Len returns the number of objects of the kind.
func (s *Snapshot) Len(k GroupKind) int {
	if t := s.kinds[k]; t != nil {
		return t.Len()
	}
	return 0
}

// Kinds returns the kinds that have objects, sorted.
func (s *Snapshot) Kinds() []GroupKind {
	var ks []GroupKind
	for k, t := range s.kinds {
		if t.Len() > 0 {
			ks = append(ks, k)
		}
	}
	slices.SortFunc(ks, func(a, b GroupKind) int { return strings.Compare(a.String(), b.String()) })
	return ks
}

// EndpointSlices yields the EndpointSlices and the Endpoints of one Service, sorted by kind and name (Endpoints first).
func (s *Snapshot) EndpointSlices(namespace, service string) iter.Seq[*Object] {
	prefix := namespace + "/" + service + "/"
	return func(yield func(*Object) bool) {
		s.slices.Ascend(prefix, func(k string, o *Object) bool {
			return strings.HasPrefix(k, prefix) && yield(o)
		})
	}
}

// Findings returns the source's own diagnostics about this input.
func (s *Snapshot) Findings() []Diagnostic { return s.findings }

// Changes returns what differs from base, sorted by Ref. It is the recorded difference where both were derived from one
// snapshot (in any number of steps that are still linked; either may be that one itself), else a full comparison by pointer.
func (s *Snapshot) Changes(base *Snapshot) []Change {
	if s == base {
		return nil
	}
	steps := map[*Snapshot]int{} // from the snapshot to each that it was derived from
	var chain []*Snapshot
	for at := s; at != nil; at = at.base {
		steps[at] = len(chain)
		if at == base {
			break
		}
		chain = append(chain, at)
	}
	var back [][]Change
	for at := base; at != nil; at = at.base {
		if n, common := steps[at]; common {
			return merge(back, chain[:n])
		}
		undone := make([]Change, len(at.changes))
		for i, c := range at.changes {
			undone[i] = Change{c.New, c.Old}
		}
		back = append(back, undone)
	}
	return compare(base, s)
}

// merge returns the changes of the steps back, then of those of the chain from its end, as one.
func merge(back [][]Change, chain []*Snapshot) []Change {
	all := map[Ref]Change{}
	take := func(step []Change) {
		for _, c := range step {
			r := c.Ref()
			if before, seen := all[r]; seen {
				c.Old = before.Old
			}
			all[r] = c
		}
	}
	for _, step := range back {
		take(step)
	}
	for _, s := range slices.Backward(chain) {
		take(s.changes)
	}
	out := make([]Change, 0, len(all))
	for _, c := range all {
		if c.Old != c.New {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b Change) int { return a.Ref().Compare(b.Ref()) })
	return out
}

// compare walks both snapshots kind by kind, past those that they share; the trees are sorted as references are, so that
// the outcome is too.
func compare(old, new *Snapshot) []Change {
	kinds := new.Kinds()
	for _, k := range old.Kinds() {
		if new.Len(k) == 0 {
			kinds = append(kinds, k)
		}
	}
	kinds = slices.DeleteFunc(kinds, func(k GroupKind) bool { return old.kinds[k] == new.kinds[k] })
	total := 0
	for _, k := range kinds {
		if old.Len(k) == 0 {
			total += new.Len(k)
		}
	}
	slices.SortFunc(kinds, func(a, b GroupKind) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Kind, b.Kind))
	})
	out := make([]Change, 0, total)
	for _, k := range kinds {
		before := old.objects(k).Iter()
		more := before.First()
		for o := range new.List(k) {
			for more && before.Value() != o && before.Value().Ref.Compare(o.Ref) < 0 {
				out = append(out, Change{Old: before.Value()})
				more = before.Next()
			}
			switch {
			case !more || before.Value() != o && before.Value().Ref.Compare(o.Ref) > 0:
				out = append(out, Change{New: o})
			default:
				if was := before.Value(); was != o {
					out = append(out, Change{was, o})
				}
				more = before.Next()
			}
		}
		for ; more; more = before.Next() {
			out = append(out, Change{Old: before.Value()})
		}
	}
	return out
}

// objects returns the tree of the kind.
func (s *Snapshot) objects(k GroupKind) *btree.Map[string, *Object] {
	if t := s.kinds[k]; t != nil {
		return t
	}
	return &btree.Map[string, *Object]{}
}
