package snapshot

import (
	"iter"
	"slices"
)

// View is what one pure stage may read of a snapshot. It records each read, so that the result can be kept for as long as
// everything that was read stays the same. A View serves one computation and is not safe for concurrent use.
type View struct {
	snapshot *Snapshot
	refs     []Ref
	kinds    []GroupKind
}

// NewView returns a view that has read nothing.
func NewView(s *Snapshot) *View { return &View{snapshot: s} }

// Get returns the object or nil, and records the read; the absence of an object is a read too.
func (v *View) Get(k GroupKind, namespace, name string) *Object {
	v.refs = append(v.refs, Ref{Group: k.Group, Kind: k.Kind, Namespace: namespace, Name: name})
	return v.snapshot.Get(k, namespace, name)
}

// List yields every object of the kind, sorted by namespace and name, and records a read of the whole kind.
func (v *View) List(k GroupKind) iter.Seq[*Object] {
	if !slices.Contains(v.kinds, k) {
		v.kinds = append(v.kinds, k)
	}
	return v.snapshot.List(k)
}

// Reads returns what was read: objects by reference, and whole kinds.
func (v *View) Reads() ([]Ref, []GroupKind) { return v.refs, v.kinds }

// Refused reports whether the input holds an object of the kind that its source refused (a type error, a failed schema),
// so that the snapshot lacks it. A stage that opens up where there is no object at all asks first. It is recorded as a read
// of KindFinding.
func (v *View) Refused(k GroupKind) bool {
	return v.refusal(func(r Ref) bool { return r.GroupKind() == k }) != nil
}

// Refusal returns the source's reason for refusing this very object, nil when it did not. It is recorded as a read of
// KindFinding.
func (v *View) Refusal(k GroupKind, namespace, name string) *Diagnostic {
	want := Ref{Group: k.Group, Kind: k.Kind, Namespace: namespace, Name: name}
	return v.refusal(func(r Ref) bool { return r == want })
}

func (v *View) refusal(about func(Ref) bool) *Diagnostic {
	if !slices.Contains(v.kinds, KindFinding) {
		v.kinds = append(v.kinds, KindFinding)
	}
	all := v.snapshot.Findings()
	i := slices.IndexFunc(all, func(d Diagnostic) bool {
		return d.Severity == Error && about(d.Object) && v.snapshot.Get(d.Object.GroupKind(), d.Object.Namespace, d.Object.Name) == nil
	})
	if i < 0 {
		return nil
	}
	return &all[i]
}

// KindFinding stands for the source's own findings among the kinds that a view has read.
var KindFinding = GroupKind{Group: "chancery.dev", Kind: "Finding"}
