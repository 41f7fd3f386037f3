package kube

import (
	"maps"
	"slices"
	"sync"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
)

// world is what all watches have said, and which claim to each object counts.
type world struct {
	mu     sync.Mutex
	claims map[snapshot.Ref][]*snapshot.Object
	// twice are the objects with more than one claim.
	twice map[snapshot.Ref]bool
	// talking are the units with something to say about them.
	talking map[*unit]struct{}
	// dirty are the objects whose claims changed since the last snapshot; one may stand there more than once.
	dirty []snapshot.Ref
	// queries are those under way and those that vanished with their objects.
	queries map[*query]struct{}
	// absent are findings about kinds that the API server does not serve.
	absent []snapshot.Diagnostic
	last   *snapshot.Snapshot
	mentions
}

func newWorld() *world {
	return &world{
		claims: map[snapshot.Ref][]*snapshot.Object{}, twice: map[snapshot.Ref]bool{}, talking: map[*unit]struct{}{},
		queries: map[*query]struct{}{}, last: snapshot.Empty(), mentions: newMentions(),
	}
}

// compare orders claims: objects of their own before those of annotations, these by the object that carries them.
func compare(a, b *snapshot.Object) int {
	switch {
	case a.Parent == nil && b.Parent == nil:
		return 0
	case a.Parent == nil:
		return -1
	case b.Parent == nil:
		return 1
	}
	return a.Parent.Ref.Compare(b.Parent.Ref)
}

// set puts now in place of before; either may be nil. An object that cannot be read any more keeps its last good form.
func (w *world) set(before, now *unit) {
	if before != nil && before.content != nil || now != nil && now.content != nil {
		w.setSecret(before, now)
		return
	}
	if now != nil {
		w.mention(now.objects, 1)
	}
	if before != nil {
		gone := before.objects
		defer func() { w.mention(gone, -1) }() // last, so that what both mention stays known
	}
	if before != nil {
		delete(w.talking, before)
		if now != nil && now.lost && len(before.objects) > 0 {
			now.objects = before.objects
			w.mention(now.objects, 1)
			own := before.objects[0]
			now.findings = append(now.findings, own.About(snapshot.Info, codeKept, "", "stays as it was before it was changed", ""))
		} else {
			for _, o := range before.objects {
				w.release(o)
			}
			if now != nil {
				w.take(now)
			}
		}
	} else if now != nil {
		w.take(now)
	}
	if now != nil && len(now.findings) > 0 {
		w.talking[now] = struct{}{}
	}
}

func (w *world) take(u *unit) {
	for _, o := range u.objects {
		w.claims[o.Ref] = append(w.claims[o.Ref], o)
		w.settle(o.Ref)
	}
}

func (w *world) release(o *snapshot.Object) {
	w.claims[o.Ref] = slices.DeleteFunc(w.claims[o.Ref], func(c *snapshot.Object) bool { return c == o })
	w.settle(o.Ref)
}

func (w *world) settle(r snapshot.Ref) {
	w.dirty = append(w.dirty, r)
	delete(w.twice, r)
	switch claims := w.claims[r]; {
	case len(claims) == 0:
		delete(w.claims, r)
	case len(claims) > 1:
		slices.SortStableFunc(claims, compare)
		w.twice[r] = true
	}
}

// endpointsOnly reports whether nothing but endpoints has changed since the last snapshot.
func (w *world) endpointsOnly() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.dirty) > 0 && !slices.ContainsFunc(w.dirty, func(r snapshot.Ref) bool {
		k := r.GroupKind()
		return k != snapshot.KindEndpointSlice && k != snapshot.KindEndpoints
	})
}

// snapshot derives the snapshot of the present state. changed is false when it says the same as the last one.
func (w *world) snapshot() (s *snapshot.Snapshot, changed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	put := make([]*snapshot.Object, 0, len(w.dirty))
	var remove []snapshot.Ref
	for _, r := range w.dirty {
		claims := w.claims[r]
		switch now := w.last.Get(r.GroupKind(), r.Namespace, r.Name); {
		case len(claims) == 0 && now != nil:
			remove = append(remove, r)
		case len(claims) > 0 && (now == nil || now.Hash != claims[0].Hash):
			put = append(put, claims[0])
		}
	}
	w.dirty = nil
	next, changed := w.last.Advance(put, remove, w.findings())
	w.last = next
	return next, changed
}

// findings returns the diagnostics of all objects and kinds, sorted.
func (w *world) findings() []snapshot.Diagnostic {
	out := slices.Clone(w.absent)
	for u := range w.talking {
		out = append(out, u.findings...)
	}
	said := map[snapshot.Diagnostic]bool{}
	for q := range w.queries {
		if d := q.trouble; d != nil && !said[*d] {
			said[*d] = true // kinds with several queries have the same trouble
			out = append(out, *d)
		}
	}
	for _, r := range slices.SortedFunc(maps.Keys(w.twice), snapshot.Ref.Compare) {
		claims := w.claims[r]
		if !api.Known(r.GroupKind()) {
			continue
		}
		for _, c := range claims[1:] {
			if c.Parent == nil {
				continue // the same object in two watches, for the moment in which it moves from one to the other
			}
			out = append(out, c.About(snapshot.Error, codeDuplicate, "", "the annotation of "+c.Parent.Ref.String()+
				" defines it once more; "+standing(claims[0])+" counts", "remove or rename one of the two"))
		}
	}
	return snapshot.SortDiagnostics(out)
}

func standing(o *snapshot.Object) string {
	if o.Parent == nil {
		return "the object of its own"
	}
	return "that of " + o.Parent.Ref.String()
}
