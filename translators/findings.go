package translators

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
)

// findings keeps the diagnostics of all stages. Those of one lowering are given their positions once, and stay sorted from
// one list to the next: a change costs its own findings and a copy of the list.
type findings struct {
	locate func(o *snapshot.Object, d *snapshot.Diagnostic)
	// lowered is what the lowering of each object said; dirty are the objects that changed since sorted was made of it.
	lowered map[snapshot.Ref][]snapshot.Diagnostic
	dirty   map[snapshot.Ref]struct{}
	sorted  []said
	// made are the objects that an extension made; what is found about one is told about the object that it comes from.
	made   map[snapshot.Ref]*snapshot.Object
	stale  bool                  // made changed
	others []snapshot.Diagnostic // as the other stages gave them last
	all    []snapshot.Diagnostic
}

// said is a diagnostic with the object whose lowering it came from.
type said struct {
	by snapshot.Ref
	snapshot.Diagnostic
}

func newFindings(locate func(o *snapshot.Object, d *snapshot.Diagnostic)) findings {
	return findings{locate: locate, lowered: map[snapshot.Ref][]snapshot.Diagnostic{}, dirty: map[snapshot.Ref]struct{}{}}
}

// put replaces what the lowering of ref said.
func (f *findings) put(s *snapshot.Snapshot, ref snapshot.Ref, ds []snapshot.Diagnostic) {
	now := f.place(s, slices.Clone(ds))
	if slices.Equal(now, f.lowered[ref]) {
		return
	}
	f.dirty[ref] = struct{}{}
	if len(now) == 0 {
		delete(f.lowered, ref)
		return
	}
	f.lowered[ref] = now
}

// list returns everything that there is to say, sorted; the same slice while nothing changed: neither what is said nor the
// text of the objects that the other stages speak of.
func (f *findings) list(s *snapshot.Snapshot, changes []snapshot.Change, others ...[]snapshot.Diagnostic) []snapshot.Diagnostic {
	now := slices.Concat(others...)
	if !f.stale && len(f.dirty) == 0 && slices.Equal(now, f.others) && !concerns(changes, now) {
		return f.all
	}
	f.others, f.stale = now, false
	f.resort()
	rest := snapshot.SortDiagnostics(f.place(s, slices.Clone(now)))
	out := make([]snapshot.Diagnostic, 0, len(f.sorted)+len(rest))
	for i := range f.sorted {
		for len(rest) > 0 && rest[0].Compare(f.sorted[i].Diagnostic) < 0 {
			out, rest = append(out, rest[0]), rest[1:]
		}
		out = append(out, f.sorted[i].Diagnostic)
	}
	f.all = slices.Compact(append(out, rest...))
	return f.all
}

// resort merges what the dirty objects say now into what the others said before.
func (f *findings) resort() {
	if len(f.dirty) == 0 {
		return
	}
	var fresh []said
	for ref := range f.dirty {
		for _, d := range f.lowered[ref] {
			fresh = append(fresh, said{ref, d})
		}
	}
	compare := func(a, b said) int { return cmp.Or(a.Diagnostic.Compare(b.Diagnostic), a.by.Compare(b.by)) }
	slices.SortFunc(fresh, compare)
	merged := make([]said, 0, len(f.sorted)+len(fresh))
	for _, old := range f.sorted {
		if _, gone := f.dirty[old.by]; gone {
			continue
		}
		for len(fresh) > 0 && compare(fresh[0], old) < 0 {
			merged, fresh = append(merged, fresh[0]), fresh[1:]
		}
		merged = append(merged, old)
	}
	f.sorted = append(merged, fresh...)
	clear(f.dirty)
}

// concerns reports whether an object changed that some diagnostic is about.
func concerns(changes []snapshot.Change, ds []snapshot.Diagnostic) bool {
	if len(changes) == 0 || len(ds) == 0 {
		return false
	}
	about := make(map[snapshot.Ref]bool, len(ds))
	for i := range ds {
		about[ds[i].Object] = true
	}
	return slices.ContainsFunc(changes, func(c snapshot.Change) bool { return about[c.Ref()] })
}

// place gives each diagnostic the version and position of its object, in place.
func (f *findings) place(s *snapshot.Snapshot, ds []snapshot.Diagnostic) []snapshot.Diagnostic {
	for i := range ds {
		d := &ds[i]
		if m := f.made[d.Object]; m != nil && m.Parent != nil {
			d.Message = "the " + m.Ref.String() + " that a module makes of it: " + strings.TrimPrefix(d.Path+": ", ": ") + d.Message
			d.Object, d.APIVersion, d.Path = m.Parent.Ref, m.Parent.APIVersion, ""
		}
		o := s.Get(d.Object.GroupKind(), d.Object.Namespace, d.Object.Name)
		if o == nil {
			continue
		}
		if d.APIVersion == "" {
			d.APIVersion = o.APIVersion
		}
		if d.Position == (snapshot.Position{}) {
			d.Position = o.About(d.Severity, d.Code, "", "", "").Position
		}
		if f.locate != nil && d.Path != "" {
			f.locate(o, d)
		}
	}
	return ds
}

// lower takes up the objects that an extension made.
func (f *findings) lower(made map[snapshot.Ref]*snapshot.Object) {
	if !maps.Equal(made, f.made) {
		f.made, f.stale = made, true
	}
}
