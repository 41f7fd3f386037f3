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
	if old := w.files[name]; old != nil {
		for p := range old.all() {
			r := p.object.Ref
			w.claim(r, slices.DeleteFunc(w.claims[r], func(c claim) bool { return c.file == name }))
		}
	}
	if c == nil {
		delete(w.files, name)
		return
	}
	w.files[name] = c
	index, standing := 0, 0
	for i := range c.units {
		standing += len(c.units[i].objects)
	}
	for p := range c.all() {
		r := p.object.Ref
		w.claim(r, append(w.claims[r], claim{p, name, index, index >= standing}))
		index++
	}
}

func (w *world) claim(r snapshot.Ref, claims []claim) {
	w.dirty[r] = true
	switch len(claims) {
	case 0:
		delete(w.claims, r)
		delete(w.twice, r)
		return
	case 1:
		delete(w.twice, r)
	default:
		slices.SortFunc(claims, claim.compare)
		w.twice[r] = true
	}
	w.claims[r] = claims
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
	base := w.last
	w.last = base.Derive(put, remove, w.findings())
	changed = !slices.Equal(base.Findings(), w.last.Findings()) || len(w.last.Changes(base)) > 0
	return w.last, changed
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
