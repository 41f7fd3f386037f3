package files

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
)

// world is the content of all files, and which file's claim to each object counts.
type world struct {
	files  map[string]*content
	claims map[snapshot.Ref][]claim
	// twice are the objects with more than one claim.
	twice map[snapshot.Ref]bool
	// dirty are the objects whose claims changed since the last snapshot; one may stand there more than once.
	dirty []snapshot.Ref
	last  *snapshot.Snapshot
	// notes are about paths, not about what files say.
	notes []snapshot.Diagnostic
}

// claim is one definition of an object.
type claim struct {
	placed
	file string
	// unit and part tell where in the file it stands.
	unit, part int
	kept       bool
}

func newWorld() *world {
	return &world{files: map[string]*content{}, claims: map[snapshot.Ref][]claim{}, twice: map[snapshot.Ref]bool{}, last: snapshot.Empty()}
}

// compare orders claims: those that stand in a file now before those that are kept, then by file and place.
func (c claim) compare(o claim) int {
	if c.kept != o.kept {
		if o.kept {
			return -1
		}
		return 1
	}
	return cmp.Or(strings.Compare(c.file, o.file), cmp.Compare(c.unit, o.unit), cmp.Compare(c.part, o.part))
}

// fill puts the content of many files into an empty world.
func (w *world) fill(all []*content) {
	n := 0
	for _, c := range all {
		n += len(c.units)
	}
	w.claims = make(map[snapshot.Ref][]claim, n)
	w.dirty = make([]snapshot.Ref, 0, n)
	for _, c := range all {
		w.set(c.name, c)
	}
}

// set puts a file's content in place of what it had; nil removes the file.
func (w *world) set(name string, c *content) {
	several, gone := map[snapshot.Ref]bool{}, map[snapshot.Ref]bool{}
	old := w.files[name]
	if old != nil {
		for i := range old.units {
			if c == nil || i >= len(c.units) || !old.units[i].same(&c.units[i]) {
				for _, p := range old.units[i].objects {
					gone[p.object.Ref] = true
				}
			}
		}
		for _, p := range old.kept {
			gone[p.object.Ref] = true
		}
		for r := range gone {
			// Units that stay put their claims in again below, should they have one to the same object.
			w.claims[r] = slices.DeleteFunc(w.claims[r], func(c claim) bool { return c.file == name })
			several[r] = true
		}
	}
	delete(w.files, name)
	if c != nil {
		w.files[name] = c
		for i := range c.units {
			stays := old != nil && i < len(old.units) && old.units[i].same(&c.units[i])
			for part, p := range c.units[i].objects {
				if !stays || gone[p.object.Ref] {
					w.claim(claim{p, name, i, part, false}, several)
				}
			}
		}
		for part, p := range c.kept {
			w.claim(claim{p, name, len(c.units), part, true}, several)
		}
	}
	for r := range several {
		w.dirty = append(w.dirty, r)
		delete(w.twice, r)
		switch claims := w.claims[r]; {
		case len(claims) == 0:
			delete(w.claims, r)
		case len(claims) > 1:
			slices.SortFunc(claims, claim.compare)
			w.twice[r] = true
		}
	}
}

func (w *world) claim(c claim, several map[snapshot.Ref]bool) {
	r := c.object.Ref
	claims := append(w.claims[r], c)
	w.claims[r] = claims
	if len(claims) > 1 {
		several[r] = true
	} else {
		w.dirty = append(w.dirty, r)
	}
}

// snapshot derives the snapshot of the present state. changed is false when it says the same as the last one.
func (w *world) snapshot() (s *snapshot.Snapshot, changed bool) {
	put := make([]*snapshot.Object, 0, len(w.dirty))
	var remove []snapshot.Ref
	for _, r := range w.dirty {
		claims := w.claims[r]
		switch now := w.last.Get(r.GroupKind(), r.Namespace, r.Name); {
		case len(claims) == 0 && now != nil:
			remove = append(remove, r)
		case len(claims) > 0 && (now == nil || now.Hash != claims[0].object.Hash):
			put = append(put, claims[0].object)
		}
	}
	w.dirty = nil
	next, changed := w.last.Advance(put, remove, w.findings())
	w.last = next
	return next, changed
}

// findings returns the diagnostics of all files, sorted.
func (w *world) findings() []snapshot.Diagnostic {
	out := slices.Clone(w.notes)
	for _, c := range w.files {
		out = c.findings(out)
	}
	for _, r := range slices.SortedFunc(maps.Keys(w.twice), snapshot.Ref.Compare) {
		claims := w.claims[r]
		if !api.Known(r.GroupKind()) {
			continue // whichever counts has no effect
		}
		for _, c := range claims[1:] {
			if c.kept {
				continue
			}
			severity := snapshot.Error
			if r.GroupKind() == snapshot.KindNamespace && c.object.Hash == claims[0].object.Hash {
				severity = snapshot.Warning // many write the namespace into each of their files
			}
			d := c.object.About(severity, codeDuplicate, "", "is defined already at "+claims[0].source.Position.String()+", which counts",
				"remove or rename one of the two")
			d.Position = c.source.Position
			out = append(out, d)
		}
	}
	return snapshot.SortDiagnostics(out)
}

// source returns where an object stands now.
func (w *world) source(r snapshot.Ref) (snapshot.Source, bool) {
	if claims := w.claims[r]; len(claims) > 0 {
		return claims[0].source, true
	}
	return snapshot.Source{}, false
}
