// Package snapshot holds the immutable view of the world that Chancery compiles: every source object with its content
// hash and position, the diagnostics that speak of objects, and the set operations that derive one snapshot from the last.
package snapshot

import (
	"cmp"
	"strconv"
	"strings"
)

// Ref names one source object. It is comparable and small; it is what every origin, diagnostic and memo entry carries.
type Ref struct {
	// Group is the API group without version, "" for the core group (Service, Secret, Namespace).
	Group string `json:"group,omitempty"`
	// Kind is the object's kind, for example "Mapping".
	Kind string `json:"kind"`
	// Namespace is "" for cluster-scoped objects.
	Namespace string `json:"namespace,omitempty"`
	// Name is metadata.name.
	Name string `json:"name"`
}

// String returns "Kind/namespace/name", "Kind/name" for a cluster-scoped object, or "Kind" where no name is known.
func (r Ref) String() string {
	if r.Name == "" && r.Namespace == "" {
		return r.Kind
	}
	if r.Namespace == "" {
		return r.Kind + "/" + r.Name
	}
	return r.Kind + "/" + r.Namespace + "/" + r.Name
}

// GroupKind returns the group and kind of the object.
func (r Ref) GroupKind() GroupKind { return GroupKind{Group: r.Group, Kind: r.Kind} }

// Compare orders references by group, kind, namespace and name.
func (r Ref) Compare(o Ref) int {
	return cmp.Or(
		strings.Compare(r.Group, o.Group),
		strings.Compare(r.Kind, o.Kind),
		strings.Compare(r.Namespace, o.Namespace),
		strings.Compare(r.Name, o.Name),
	)
}

// GroupKind names a kind of objects whatever its version.
type GroupKind struct {
	Group string
	Kind  string
}

// String returns "kind.group", or the kind alone for the core group.
func (g GroupKind) String() string {
	if g.Group == "" {
		return g.Kind
	}
	return g.Kind + "." + g.Group
}

// Position is a place in an input file. Line counts from 1; 0 means that only the file is known.
type Position struct {
	File string
	Line int
}

// String returns "file:line", the file alone where no line is known, or "" for an object that came from no file.
func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return p.File + ":" + strconv.Itoa(p.Line)
}
