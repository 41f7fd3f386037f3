// Package linker joins the fragments of all front ends to one program: it settles competing claims, attaches routes to
// hosts and hosts to listeners, orders and splits routes, and joins clusters, secrets and endpoint requests of equal name.
//
// It is incremental: a changed fragment costs the groups and virtual hosts that it touches. The outcome is a pure function
// of the current fragments; the property tests compare it with a linker that starts from nothing.
package linker

import (
	"slices"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// Change is what became of one source object's fragments. Old is nil for a new object, New for one that is gone.
type Change struct {
	Ref      snapshot.Ref
	Old, New *ir.Fragments
}

// Linker holds the fragments of one compiler and what was linked from them. It is not safe for concurrent use.
type Linker struct {
	fragments map[snapshot.Ref]*ir.Fragments
	routes    routeTable
	clusters  joined[ir.Cluster]
	secrets   joined[ir.Secret]
	requests  joined[ir.EndpointRequest]

	topology      topology
	topologyDirty bool
	bootstrap     *ir.Bootstrap
	linked        int
}

// Linked is what one call of Link made.
type Linked struct {
	// Program is complete but for its EndpointSets.
	Program *ir.Program
	// Requests are the endpoint sets that the program's clusters name, sorted by name.
	Requests    []*ir.EndpointRequest
	Diagnostics []snapshot.Diagnostic
	// Refused are the sections that cannot be served on some address.
	Refused []SectionRefusal
	// RefusedRoutes are objects whose routes are not served at a section.
	RefusedRoutes []RouteRefusal
	// Groups is the number of route groups that were linked anew.
	Groups int
}

// SectionRefusal says why a section is not served where it should be.
type SectionRefusal struct {
	Section *ir.SectionFragment
	Why     string
}

// New returns an empty linker.
func New() *Linker {
	return &Linker{
		fragments: map[snapshot.Ref]*ir.Fragments{},
		routes:    newRouteTable(),
		clusters:  newJoined(clusterNode),
		secrets:   newJoined(secretNode),
		requests:  newJoined(requestNode),
	}
}

// Link applies the changes and returns the program of all current fragments. Nodes that did not change keep their pointers.
func (l *Linker) Link(changes []Change) Linked {
	l.linked = 0
	if len(l.fragments) == 0 {
		l.fragments = make(map[snapshot.Ref]*ir.Fragments, len(changes))
		l.routes.expect(len(changes))
	}
	for _, c := range changes {
		l.apply(c)
	}
	if l.routes.patternsChanged() {
		l.topologyDirty = true
	}
	if l.topologyDirty {
		l.rebuildTopology()
		l.topologyDirty = false
	}
	p := &ir.Program{Version: ir.Version, Bootstrap: l.bootstrap}
	p.Listeners = l.topology.listeners
	p.RouteConfigs = l.linkRouteConfigs()
	idle := l.idle()
	p.Clusters = l.clusters.list(idle)
	p.Secrets = l.secrets.list(idle)
	return Linked{Program: p, Requests: l.requests.list(idle), Diagnostics: l.diagnostics(), Refused: l.topology.refused, RefusedRoutes: l.topology.refusedRoutes, Groups: l.linked}
}

// idle are the objects of which nothing is on any listener: what only they want is left out of the program.
func (l *Linker) idle() map[snapshot.Ref]bool {
	out := make(map[snapshot.Ref]bool, len(l.topology.idle)+len(l.routes.unattached))
	for r, idle := range l.topology.idle {
		if idle && !l.routed(r, "") {
			out[r] = true
		}
	}
	for f := range l.routes.unattached {
		if f.Origin == nil {
			continue
		}
		r := f.Origin.Ref
		if idle, is := l.topology.idle[r]; (idle || !is) && !l.routed(r, "") {
			out[r] = true
		}
	}
	return out
}

// routed reports whether some host has a route of the object, of this field of it where one is named.
func (l *Linker) routed(r snapshot.Ref, at string) bool {
	all := l.fragments[r]
	return all == nil || slices.ContainsFunc(all.Routes, func(o *ir.RouteFragment) bool { return (at == "" || o.At == at) && l.routes.attached[o] > 0 })
}

func (l *Linker) apply(c Change) {
	old, now := c.Old, c.New
	if old == nil {
		old = &ir.Fragments{}
	}
	if now == nil {
		now = &ir.Fragments{}
		delete(l.fragments, c.Ref)
	} else {
		l.fragments[c.Ref] = now
	}
	if len(old.Listeners)+len(now.Listeners)+len(old.Hosts)+len(now.Hosts)+len(old.TCPRoutes)+len(now.TCPRoutes)+len(old.Sections)+len(now.Sections) > 0 {
		l.topologyDirty = true
	}
	if old.Bootstrap != now.Bootstrap {
		l.bootstrap = l.findBootstrap()
	}
	l.clusters.update(c.Ref, old.Clusters, now.Clusters)
	l.secrets.update(c.Ref, old.Secrets, now.Secrets)
	l.requests.update(c.Ref, pointers(old.EndpointSets), pointers(now.EndpointSets))
	for _, f := range old.Routes {
		l.routes.remove(f)
	}
	for _, f := range now.Routes {
		l.routes.add(f)
	}
}

func pointers(in []ir.EndpointRequest) []*ir.EndpointRequest {
	out := make([]*ir.EndpointRequest, len(in))
	for i := range in {
		out[i] = &in[i]
	}
	return out
}

// findBootstrap takes the bootstrap of the first reference; a front end sets it for one object only.
func (l *Linker) findBootstrap() *ir.Bootstrap {
	var best *ir.Bootstrap
	var at snapshot.Ref
	for r, f := range l.fragments {
		if f.Bootstrap != nil && (best == nil || r.Compare(at) < 0) {
			best, at = f.Bootstrap, r
		}
	}
	return best
}

// diagnostics are the linker's own findings: those of the topology, of every route group, and of routes without a host.
func (l *Linker) diagnostics() []snapshot.Diagnostic {
	out := slices.Clone(l.topology.findings)
	for _, s := range l.topology.sets {
		out = append(out, s.findings...)
	}
	for f := range l.routes.unattached {
		if f.Hosts.Kind == ir.HostEvery || f.Section != "" {
			continue // a probe: without hosts there is nothing to miss; or a route whose section is not served, of which that tells
		}
		if f.At != "" && l.routed(f.Origin.Ref, f.At) {
			continue // the field has several routes, of which another is served
		}
		out = blame(out, f, snapshot.Warning, codeUnattached, hostField(f), unattachedMessage(f), unattachedHelp(f))
	}
	return snapshot.SortDiagnostics(out)
}

// sortedFragments returns the current fragments of one sort, by reference.
func sortedFragments[T any](l *Linker, pick func(*ir.Fragments) []T) []T {
	refs := make([]snapshot.Ref, 0, 64)
	for r, f := range l.fragments {
		if len(pick(f)) > 0 {
			refs = append(refs, r)
		}
	}
	slices.SortFunc(refs, snapshot.Ref.Compare)
	var out []T
	for _, r := range refs {
		out = append(out, pick(l.fragments[r])...)
	}
	return out
}

// oldest returns the place of the oldest of several claims, by Gateway API's rule. Claims between tenants, and those that a
// merge policy decides, have been settled before the front ends saw the objects.
func oldest[T any](claims []T, origin func(T) *snapshot.Object) int {
	best := 0
	for i, c := range claims {
		if i > 0 && older(origin(c), origin(claims[best])) {
			best = i
		}
	}
	return best
}

// older treats a synthesized claim (no origin) as the youngest.
func older(a, b *snapshot.Object) bool {
	if a == nil || b == nil {
		return a != nil
	}
	return b.NewerThan(a)
}
