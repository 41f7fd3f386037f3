package envoy

import (
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// unit is what one top-level node of the program became. Resource is nil when the node is refused.
type unit[S any] struct {
	name        string
	src         *S
	resource    *ir.Resource
	diagnostics []snapshot.Diagnostic
	// refs is the state of the worlds that the unit was checked against.
	refs stamp
	// id is the identity of what Envoy was shown.
	id uint64
}

// stamp identifies the sets of names that references were resolved in, and what Envoy has refused. Equal stamps mean equal sets.
type stamp struct{ secrets, endpoints, clusters, routes, refused uint64 }

// world is the set of names of one type that others may refer to. Its generation changes with the set.
type world struct {
	names      map[string]struct{}
	generation uint64
}

func (w *world) has(name string) bool { _, ok := w.names[name]; return ok }

// update records that a name came or went.
func (w *world) update(name string, there bool) {
	if there == w.has(name) {
		return
	}
	if there {
		w.names[name] = struct{}{}
	} else {
		delete(w.names, name)
	}
	w.generation++
}

// store keeps the units of one type, sorted by name, from one emission to the next.
type store[S any] struct {
	name    func(*S) string
	origins func(*S) []ir.Origin
	// forget is told of names that are gone; may be nil.
	forget    func(name string)
	kind      string
	units     []*unit[S]
	resources []*ir.Resource
	// diagnostics are those of all units.
	diagnostics []snapshot.Diagnostic
	world       world
	// nodes and refs are those of the last update.
	nodes []*S
	refs  stamp
}

// update brings the store to the program's nodes. A unit whose node has kept its pointer and for which fresh reports true is
// taken over; build makes the others and is handed the former unit of that name, or nil.
func (s *store[S]) update(nodes []*S, refs stamp, build func(n *S, old *unit[S]) *unit[S]) {
	if s.units != nil && refs == s.refs && len(nodes) == len(s.nodes) && (len(nodes) == 0 || &nodes[0] == &s.nodes[0]) {
		return // The very list of last time.
	}
	s.nodes, s.refs = nodes, refs
	if s.world.names == nil {
		s.world.names = make(map[string]struct{}, len(nodes))
	}
	byName := func(a, b *S) int { return strings.Compare(s.name(a), s.name(b)) }
	if !slices.IsSortedFunc(nodes, byName) {
		nodes = slices.Clone(nodes)
		slices.SortStableFunc(nodes, byName)
	}
	units := make([]*unit[S], 0, len(nodes))
	changed := false
	was := s.units
	for _, n := range nodes {
		if len(was) > 0 && was[0].src == n && was[0].refs == refs && was[0].name != "" {
			units, was = append(units, was[0]), was[1:] // as it was
			continue
		}
		name := s.name(n)
		for len(was) > 0 && was[0].name < name {
			s.gone(was[0])
			was, changed = was[1:], true
		}
		var old *unit[S]
		if len(was) > 0 && was[0].name == name {
			old, was = was[0], was[1:]
		}
		if last := len(units) - 1; last >= 0 && units[last].name == name {
			if units[last].src != n {
				units[last] = s.duplicate(units[last], n)
				changed = true
			}
			continue
		}
		u := old
		if u == nil || u.src != n || u.refs != refs || u.name == "" {
			u = build(n, old)
			u.name, u.src, u.refs = name, n, refs
			keepResource(u, old)
			changed = true
			s.world.update(name, u.resource != nil)
		}
		units = append(units, u)
	}
	for _, u := range was {
		s.gone(u)
		changed = true
	}
	if !changed && s.units != nil {
		return
	}
	s.units, s.diagnostics = units, nil
	for _, u := range units {
		if len(u.diagnostics) > 0 {
			s.diagnostics = append(s.diagnostics, u.diagnostics...)
		}
	}
	resources := make([]*ir.Resource, 0, len(units))
	for _, u := range units {
		if u.resource != nil {
			resources = append(resources, u.resource)
		}
	}
	if !slices.Equal(resources, s.resources) {
		s.resources = resources
	}
}

func (s *store[S]) gone(u *unit[S]) {
	s.world.update(u.name, false)
	if s.forget != nil {
		s.forget(u.name)
	}
}

// duplicate returns a copy of the unit with a finding about the later node of the same name. The copy has no node, so that it is
// looked at again next time.
func (s *store[S]) duplicate(u *unit[S], later *S) *unit[S] {
	c := *u
	c.src = nil
	f := faults{}
	f.add(codeDuplicate, "name", "another one has this name and is served")
	c.diagnostics = append(slices.Clone(u.diagnostics), f.diagnostics(unitName(s.kind, u.name), leftOut, s.origins(later))...)
	return &c
}

// keepResource keeps the former resource where nothing of it has changed.
func keepResource[S any](u, old *unit[S]) {
	if old == nil || old.resource == nil || u.resource == nil || old.resource == u.resource {
		return
	}
	o, n := old.resource, u.resource
	if o.Version == n.Version && len(o.Value) == len(n.Value) && o.EndpointSet == n.EndpointSet && slices.Equal(o.Origins, n.Origins) {
		u.resource = o
	}
}
