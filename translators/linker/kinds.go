package linker

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// Routes of two kinds (HTTPRoute, GRPCRoute) do not share a host name of a section: of two objects whose names meet there the
// older one stands (Gateway API: GRPCRouteSpec.hostnames). Sections that have one kind alone, nearly all, cost a number.

// RouteRefusal says why the routes of an object are not served at a section.
type RouteRefusal struct {
	Section *ir.SectionFragment
	Object  *snapshot.Object
	Why     string
}

// sectionTable indexes the routes of one section by host name.
type sectionTable struct {
	names map[string]*bucket
	// kinds counts the routes by the kind of their object.
	kinds map[string]int
	// refused are the objects whose routes are not served here.
	refused map[snapshot.Ref]contest
}

// contest is what two objects have that want one name.
type contest struct{ loser, winner *snapshot.Object }

func (s *sectionTable) mixed() bool { return len(s.kinds) > 1 }

// count notes that a route came (by = 1) or goes (by = -1). Where there are several kinds, any change may change who stands.
func (t *routeTable) count(f *ir.RouteFragment, by int) {
	s := t.sections[f.Section]
	if s == nil || f.Origin == nil {
		return
	}
	t.mixed = t.mixed || s.mixed()
	if s.kinds[f.Origin.Kind] += by; s.kinds[f.Origin.Kind] == 0 {
		delete(s.kinds, f.Origin.Kind)
	}
	t.mixed = t.mixed || s.mixed()
}

// refuses reports whether the route is one that is not served at its section.
func (t *routeTable) refuses(f *ir.RouteFragment) bool {
	s := t.sections[f.Section]
	if s == nil || f.Origin == nil {
		return false
	}
	_, lost := s.refused[f.Origin.Ref]
	return lost
}

// settleKinds finds who stands in the sections that have routes of several kinds.
func (t *routeTable) settleKinds() {
	for _, s := range t.sections {
		s.refused = nil
		if s.mixed() {
			s.settle()
		}
	}
}

func (s *sectionTable) settle() {
	names := map[*snapshot.Object][]string{}
	for name, b := range s.names {
		for f := range b.fragments {
			if f.Origin != nil && !slices.Contains(names[f.Origin], name) {
				names[f.Origin] = append(names[f.Origin], name)
			}
		}
	}
	for _, all := range names {
		slices.Sort(all)
	}
	byAge := slices.SortedFunc(maps.Keys(names), func(a, b *snapshot.Object) int {
		if b.NewerThan(a) {
			return -1
		}
		return 1
	})
	s.refused = map[snapshot.Ref]contest{}
	standing := map[string]map[string]*snapshot.Object{} // by kind and name
	for _, o := range byAge {
		for kind, taken := range standing {
			for _, name := range names[o] {
				if by := taker(taken, name); kind != o.Kind && by != nil {
					s.refused[o.Ref] = contest{o, by}
					break
				}
			}
		}
		if _, lost := s.refused[o.Ref]; lost {
			continue
		}
		if standing[o.Kind] == nil {
			standing[o.Kind] = map[string]*snapshot.Object{}
		}
		for _, name := range names[o] {
			if standing[o.Kind][name] == nil {
				standing[o.Kind][name] = o
			}
		}
	}
}

// taker returns who has a name that meets this one: itself, a wildcard that covers it, or, for a wildcard, one that it covers.
func taker(taken map[string]*snapshot.Object, name string) *snapshot.Object {
	for n := name; ; {
		if by := taken[n]; by != nil {
			return by
		}
		i := strings.IndexByte(strings.TrimPrefix(n, "*."), '.')
		if i < 0 {
			break
		}
		n = "*" + strings.TrimPrefix(n, "*.")[i:]
	}
	if by := taken["*"]; by != nil {
		return by
	}
	if !strings.HasPrefix(name, "*") {
		return nil
	}
	var first *snapshot.Object
	for n, by := range taken {
		if covers(name, n) && (first == nil || first.NewerThan(by)) {
			first = by
		}
	}
	return first
}

// refuseRoutes notes what settleKinds has found, and tells the objects.
func (t *topology) refuseRoutes(s *ir.SectionFragment, table *sectionTable) {
	if table == nil {
		return
	}
	for _, ref := range slices.SortedFunc(maps.Keys(table.refused), snapshot.Ref.Compare) {
		c := table.refused[ref]
		why := fmt.Sprintf("%s has a host name of the route at %s listener %s, and routes of two kinds do not share one", c.winner.Ref, nameOf(s.Origin), s.Listener)
		t.refusedRoutes = append(t.refusedRoutes, RouteRefusal{Section: s, Object: c.loser, Why: why})
		t.findings = append(t.findings, c.loser.About(snapshot.Error, codeKindsMeet, "spec.hostnames", why, "give them different hostnames"))
	}
}
