package translators

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
	"github.com/chancery-gateway/chancery/translators/linker"
)

// statuses gathers what the front ends say became of each object, and counts the routes that are attached to each listener.
// A change costs the objects whose status it changes, and a copy of the list.
type statuses struct {
	// said is what each lowering said, told the same with the counts.
	said, told map[snapshot.Ref]*ir.Status
	attached   map[listenerRef]int32
	// refused says why the linker does not serve listeners that their front end has accepted, keptAway why it does not serve a
	// route there.
	refused  map[listenerRef]string
	keptAway map[snapshot.Ref]map[listenerRef]string
	// dirty are the objects whose status is to be made anew.
	dirty map[snapshot.Ref]struct{}
	all   []*ir.Status
}

// listenerRef is one listener of a Gateway or ListenerSet.
type listenerRef struct {
	of   snapshot.Ref
	name string
}

func newStatuses() statuses {
	return statuses{said: map[snapshot.Ref]*ir.Status{}, told: map[snapshot.Ref]*ir.Status{}, attached: map[listenerRef]int32{}, dirty: map[snapshot.Ref]struct{}{}}
}

// put replaces what the lowering of ref said; nil for nothing.
func (t *statuses) put(ref snapshot.Ref, now *ir.Status) {
	old := t.said[ref]
	if old == nil && now == nil {
		return
	}
	t.count(t.admitted(old), -1)
	t.count(t.admitted(now), 1)
	t.dirty[ref] = struct{}{}
	if now == nil {
		delete(t.said, ref)
	} else {
		t.said[ref] = now
	}
}

// count adds to the listeners that a route is attached to. A route that names one listener twice is attached once.
func (t *statuses) count(route *ir.Status, by int32) {
	if route == nil {
		return
	}
	var seen []listenerRef
	for i := range route.Parents {
		p := &route.Parents[i]
		for _, name := range p.Attached {
			l := listenerRef{p.Parent.Ref(), name}
			if slices.Contains(seen, l) {
				continue
			}
			seen = append(seen, l)
			t.dirty[l.of] = struct{}{}
			if t.attached[l] += by; t.attached[l] == 0 {
				delete(t.attached, l)
			}
		}
	}
}

// refuse takes up which sections the linker does not serve.
func (t *statuses) refuse(all []linker.SectionRefusal) {
	now := make(map[listenerRef]string, len(all))
	for _, r := range all {
		if r.Section.Origin != nil {
			now[listenerRef{r.Section.Origin.Ref, r.Section.Listener}] = r.Why
		}
	}
	for _, side := range []map[listenerRef]string{t.refused, now} {
		for l := range side {
			if t.refused[l] != now[l] {
				t.dirty[l.of] = struct{}{}
			}
		}
	}
	t.refused = now
}

// keepAway takes up which routes the linker does not serve at some listener.
func (t *statuses) keepAway(all []linker.RouteRefusal) {
	now := map[snapshot.Ref]map[listenerRef]string{}
	for _, r := range all {
		if r.Section.Origin == nil {
			continue
		}
		if now[r.Object.Ref] == nil {
			now[r.Object.Ref] = map[listenerRef]string{}
		}
		now[r.Object.Ref][listenerRef{r.Section.Origin.Ref, r.Section.Listener}] = r.Why
	}
	changed := map[snapshot.Ref]bool{}
	for _, side := range []map[snapshot.Ref]map[listenerRef]string{t.keptAway, now} {
		for ref := range side {
			if !maps.Equal(t.keptAway[ref], now[ref]) {
				changed[ref] = true
			}
		}
	}
	for ref := range changed {
		t.count(t.admitted(t.said[ref]), -1)
	}
	t.keptAway = now
	for ref := range changed {
		t.count(t.admitted(t.said[ref]), 1)
		t.dirty[ref] = struct{}{}
	}
}

// admitted returns the status of a route without the listeners where it is not served. A parent at which it is served nowhere has
// not accepted it.
func (t *statuses) admitted(s *ir.Status) *ir.Status {
	if s == nil || t.keptAway[s.Object] == nil {
		return s
	}
	away := t.keptAway[s.Object]
	n := *s
	n.Parents = slices.Clone(s.Parents)
	for i := range n.Parents {
		p := &n.Parents[i]
		why := ""
		left := slices.DeleteFunc(slices.Clone(p.Attached), func(name string) bool {
			w := away[listenerRef{p.Parent.Ref(), name}]
			why = cmp.Or(why, w)
			return w != ""
		})
		if len(left) == len(p.Attached) {
			continue
		}
		if p.Attached = left; len(left) == 0 {
			p.Conditions = slices.Clone(p.Conditions)
			for j := range p.Conditions {
				if c := &p.Conditions[j]; c.Type == "Accepted" {
					*c = ir.Condition{Type: c.Type, Reason: "HostnameConflict", Message: why}
				}
			}
		}
	}
	return &n
}

// list returns all statuses, sorted; those that say the same as before keep their pointers.
func (t *statuses) list() []*ir.Status {
	var fresh []*ir.Status
	gone := map[snapshot.Ref]bool{} // from the list as it is
	for ref := range t.dirty {
		now, was := t.counted(t.admitted(t.said[ref])), t.told[ref]
		if now == was || now != nil && was != nil && reflect.DeepEqual(now, was) {
			continue
		}
		gone[ref] = true
		if now == nil {
			delete(t.told, ref)
			continue
		}
		t.told[ref] = now
		fresh = append(fresh, now)
	}
	clear(t.dirty)
	if len(gone) == 0 {
		return t.all
	}
	compare := func(a, b *ir.Status) int { return a.Object.Compare(b.Object) }
	slices.SortFunc(fresh, compare)
	merged := make([]*ir.Status, 0, len(t.all)+len(fresh))
	for _, s := range t.all {
		if gone[s.Object] {
			continue
		}
		for len(fresh) > 0 && compare(fresh[0], s) < 0 {
			merged, fresh = append(merged, fresh[0]), fresh[1:]
		}
		merged = append(merged, s)
	}
	t.all = append(merged, fresh...)
	return t.all
}

// counted returns the status with the numbers of attached routes.
func (t *statuses) counted(s *ir.Status) *ir.Status {
	if s == nil || len(s.Listeners) == 0 {
		return s
	}
	n := *s
	n.Listeners = slices.Clone(s.Listeners)
	for i := range n.Listeners {
		l := listenerRef{s.Object, n.Listeners[i].Name}
		n.Listeners[i].AttachedRoutes = t.attached[l]
		if why := t.refused[l]; why != "" {
			n.Listeners[i].Conditions = unavailable(n.Listeners[i].Conditions, why)
		}
	}
	return &n
}

// unavailable returns the conditions of a listener whose port somebody else has (Gateway API: ListenerReasonPortUnavailable).
func unavailable(conditions []ir.Condition, why string) []ir.Condition {
	out := slices.Clone(conditions)
	for i := range out {
		switch c := &out[i]; c.Type {
		case "Accepted":
			*c = ir.Condition{Type: c.Type, Reason: "PortUnavailable", Message: why}
		case "Programmed":
			*c = ir.Condition{Type: c.Type, Reason: "Invalid", Message: why}
		}
	}
	return out
}
