package translators

import (
	"maps"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
)

// findings keeps the diagnostics of all stages. Those of one lowering are given their positions once; the list is put
// together anew only when some part of it changed.
type findings struct {
	locate  func(o *snapshot.Object, d *snapshot.Diagnostic)
	lowered map[snapshot.Ref][]snapshot.Diagnostic
	// made are the objects that an extension made; what is found about one is told about the object that it comes from.
	made   map[snapshot.Ref]*snapshot.Object
	stale  bool
	others []snapshot.Diagnostic // as the other stages gave them last
	all    []snapshot.Diagnostic
}

// put replaces what the lowering of ref said.
func (f *findings) put(s *snapshot.Snapshot, ref snapshot.Ref, ds []snapshot.Diagnostic) {
	if len(ds) == 0 {
		if _, had := f.lowered[ref]; had {
			delete(f.lowered, ref)
			f.stale = true
		}
		return
	}
	f.lowered[ref] = f.place(s, slices.Clone(ds))
	f.stale = true
}

// list returns everything that there is to say, sorted; the same slice while nothing changed: neither what is said nor the
// text of the objects that the other stages speak of.
func (f *findings) list(s *snapshot.Snapshot, changes []snapshot.Change, others ...[]snapshot.Diagnostic) []snapshot.Diagnostic {
	now := slices.Concat(others...)
	if !f.stale && slices.Equal(now, f.others) && !concerns(changes, now) {
		return f.all
	}
	f.others, f.stale = now, false
	out := f.place(s, slices.Clone(now))
	for _, ds := range f.lowered {
		out = append(out, ds...)
	}
	f.all = snapshot.SortDiagnostics(out)
	return f.all
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
