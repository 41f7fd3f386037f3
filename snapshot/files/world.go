package files

import (
	"maps"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
)

// world is the content of all files, and which file's claim to each object counts.
type world struct {
	files  map[string]*content
	claims map[snapshot.Ref][]claim
	// twice are the objects with more than one claim.
	twice map[snapshot.Ref]bool
	// dirty are the objects whose claims changed since the last snapshot.
	dirty map[snapshot.Ref]bool
	last  *snapshot.Snapshot
}

// claim is one definition of an object.
type claim struct {
	placed
	file  string
	index int
	kept  bool
}

func newWorld() *world {
	return &world{files: map[string]*content{}, claims: map[snapshot.Ref][]claim{}, twice: map[snapshot.Ref]bool{},
		dirty: map[snapshot.Ref]bool{}, last: snapshot.Empty()}
}

// compare orders claims: those that stand in a file now before those that are kept, then by file and place.
func (c claim) compare(o claim) int {
	if c.kept != o.kept {
		if o.kept {
			return -1
		}
		return 1
	}
	if n := strings.Compare(c.file, o.file); n != 0 {
		return n
	}
	return c.index - o.index
}

// set puts a file's content in place of what it had; nil removes the file.
func (w *world) set(name string, c *content) {
	touched := map[snapshot.Ref]bool{}
	if old := w.files[name]; old != nil {
		for p := range old.all() {
			touched[p.object.Ref] = true
		}
		for r := range touched {
			w.claims[r] = slices.DeleteFunc(w.claims[r], func(c claim) bool { return c.file == name })
		}
	}
	if c != nil {
		w.files[name] = c
		index := 0
		add := func(p placed, kept bool) {
			r := p.object.Ref
			touched[r] = true
			w.claims[r] = append(w.claims[r], claim{p, name, index, kept})
			index++
		}
		for i := range c.units {
			for _, p := range c.units[i].objects {
				add(p, false)
			}
		}
		for _, p := range c.kept {
			add(p, true)
		}
	} else {
		delete(w.files, name)
	}
	for r := range touched {
		w.dirty[r] = true
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

// snapshot derives the snapshot of the present state. changed is false when it says the same as the last one.
func (w *world) snapshot() (s *snapshot.Snapshot, changed bool) {
	var put []*snapshot.Object
	var remove []snapshot.Ref
	for r := range w.dirty {
		if claims := w.claims[r]; len(claims) > 0 {
			put = append(put, claims[0].object)
		} else {
			remove = append(remove, r)
		}
	}
	clear(w.dirty)
	slices.SortFunc(put, func(a, b *snapshot.Object) int { return a.Ref.Compare(b.Ref) })
	slices.SortFunc(remove, snapshot.Ref.Compare)
	next := w.last.Derive(put, remove, w.findings())
	if len(next.Changes(w.last)) == 0 && slices.Equal(next.Findings(), w.last.Findings()) {
		return w.last, false
	}
	w.last = next
	return next, true
}

// findings returns the diagnostics of all files, sorted.
func (w *world) findings() []snapshot.Diagnostic {
	var out []snapshot.Diagnostic
	for _, c := range w.files {
		out = c.findings(out)
	}
	for _, r := range slices.SortedFunc(maps.Keys(w.twice), snapshot.Ref.Compare) {
		claims := w.claims[r]
		for _, c := range claims[1:] {
			if c.kept {
				continue
			}
			d := c.object.About(snapshot.Error, codeDuplicate, "", "is defined already at "+claims[0].source.Position.String()+", which counts",
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
