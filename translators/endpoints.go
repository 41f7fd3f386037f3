package translators

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// endpointTable keeps the endpoint sets that the program's clusters ask for. A set is a function of its request, the
// Service and the Service's slices; it is made anew only when one of these changed. It is the fast path's only stage.
type endpointTable struct {
	requests []*ir.EndpointRequest
	sets     map[string]*ir.EndpointSet
	// wanted lists the requests of one Service.
	wanted map[service][]*ir.EndpointRequest
	list   []*ir.EndpointSet
	stale  bool // list is older than sets
	made   int
}

type service struct{ namespace, name string }

func newEndpointTable() *endpointTable {
	return &endpointTable{sets: map[string]*ir.EndpointSet{}, wanted: map[service][]*ir.EndpointRequest{}}
}

// touched returns the Services whose endpoints a change concerns.
func touched(changes []snapshot.Change) map[service]bool {
	out := map[service]bool{}
	for _, c := range changes {
		for _, o := range []*snapshot.Object{c.Old, c.New} {
			if o == nil {
				continue
			}
			switch spec := o.Spec.(type) {
			case *snapshot.Service:
				out[service{o.Namespace, o.Name}] = true
			case *snapshot.EndpointSlice:
				out[service{o.Namespace, spec.Service}] = true
			}
		}
	}
	return out
}

// update brings the sets up to date and returns them sorted by name; the slice is the same while nothing changed.
func (t *endpointTable) update(s *snapshot.Snapshot, requests []*ir.EndpointRequest, changes []snapshot.Change) []*ir.EndpointSet {
	t.made = 0
	t.request(s, requests)
	t.refresh(s, changes)
	if t.stale {
		t.stale = false
		t.list = make([]*ir.EndpointSet, len(t.requests))
		for i, r := range t.requests {
			t.list[i] = t.sets[r.Name]
		}
	}
	return t.list
}

// request takes up what is asked for, sorted by name. What was asked for before costs a look at a pointer.
func (t *endpointTable) request(s *snapshot.Snapshot, requests []*ir.EndpointRequest) {
	var gone, come []*ir.EndpointRequest
	for old, now := t.requests, requests; len(old)+len(now) > 0; {
		switch {
		case len(old) > 0 && len(now) > 0 && old[0] == now[0]:
			old, now = old[1:], now[1:]
		case len(now) == 0 || len(old) > 0 && old[0].Name <= now[0].Name:
			gone, old = append(gone, old[0]), old[1:]
		default:
			come, now = append(come, now[0]), now[1:]
		}
	}
	if len(gone)+len(come) == 0 {
		return
	}
	t.stale, t.requests = true, requests
	had := make(map[string]*ir.EndpointRequest, len(gone))
	for _, r := range gone {
		had[r.Name] = r
		k := service{r.Namespace, r.Service}
		if left := slices.DeleteFunc(t.wanted[k], func(o *ir.EndpointRequest) bool { return o == r }); len(left) > 0 {
			t.wanted[k] = left
		} else {
			delete(t.wanted, k)
		}
	}
	for _, r := range come {
		k := service{r.Namespace, r.Service}
		t.wanted[k] = append(t.wanted[k], r)
		if was := had[r.Name]; was == nil || *was != *r {
			t.sets[r.Name] = t.make(s, r)
		}
		delete(had, r.Name)
	}
	for name := range had {
		delete(t.sets, name)
	}
}

// refresh makes the sets of the Services that changed anew and returns those that differ from before.
func (t *endpointTable) refresh(s *snapshot.Snapshot, changes []snapshot.Change) []*ir.EndpointSet {
	if len(t.wanted) == 0 {
		return nil
	}
	var changed []*ir.EndpointSet
	for k := range touched(changes) {
		for _, r := range t.wanted[k] {
			was := t.sets[r.Name]
			now := t.make(s, r)
			if was != nil && slices.Equal(was.Endpoints, now.Endpoints) && slices.Equal(was.Origins, now.Origins) {
				continue
			}
			t.sets[r.Name], t.stale = now, true
			changed = append(changed, now)
		}
	}
	slices.SortFunc(changed, func(a, b *ir.EndpointSet) int { return cmp.Compare(a.Name, b.Name) })
	return changed
}

func (t *endpointTable) make(s *snapshot.Snapshot, r *ir.EndpointRequest) *ir.EndpointSet {
	t.made++
	set := &ir.EndpointSet{Name: r.Name}
	if r.Resolver != (ir.Origin{}) {
		set.Origins = []ir.Origin{r.Resolver}
		set.Endpoints = foreign(s, r)
		return set
	}
	o := s.Get(snapshot.KindService, r.Namespace, r.Service)
	if o == nil {
		return set
	}
	set.Origins = []ir.Origin{o.Ref}
	spec, ok := o.Spec.(*snapshot.Service)
	if !ok {
		return set
	}
	port, found := servicePort(spec, r)
	if !found {
		return set
	}
	slicesOnly := false
	for o := range s.EndpointSlices(r.Namespace, r.Service) {
		slicesOnly = slicesOnly || o.Kind == snapshot.KindEndpointSlice.Kind
	}
	var ready, leaving []ir.Endpoint
	for o := range s.EndpointSlices(r.Namespace, r.Service) {
		slice, ok := o.Spec.(*snapshot.EndpointSlice)
		if !ok || slicesOnly && o.Kind != snapshot.KindEndpointSlice.Kind {
			continue
		}
		number := slicePort(slice, port)
		if number == 0 {
			continue
		}
		for _, e := range slice.Endpoints {
			for _, address := range e.Addresses {
				if _, err := netip.ParseAddr(address); err != nil {
					continue // an FQDN slice: EDS takes addresses only
				}
				at := ir.Endpoint{Address: address, Port: number, Zone: e.Zone}
				switch {
				case e.Ready:
					ready = append(ready, at)
				case e.Serving && e.Terminating:
					leaving = append(leaving, at)
				}
			}
		}
	}
	if len(ready) == 0 {
		// Kubernetes: serving, terminating endpoints are used when no other is left.
		ready = leaving
	}
	set.Endpoints = distinct(ready)
	return set
}

// foreign returns the endpoints of slices that belong to no Service.
func foreign(s *snapshot.Snapshot, r *ir.EndpointRequest) []ir.Endpoint {
	var all []ir.Endpoint
	for o := range s.EndpointSlices(r.Namespace, r.Service) {
		slice, ok := o.Spec.(*snapshot.EndpointSlice)
		if !ok {
			continue
		}
		for _, port := range slice.Ports {
			for _, e := range slice.Endpoints {
				for _, address := range e.Addresses {
					if e.Ready {
						all = append(all, ir.Endpoint{Address: address, Port: uint32(port.Port), Zone: e.Zone})
					}
				}
			}
		}
	}
	return distinct(all)
}

// distinct sorts endpoints and leaves each address and port in once.
func distinct(all []ir.Endpoint) []ir.Endpoint {
	slices.SortFunc(all, func(a, b ir.Endpoint) int {
		return cmp.Or(cmp.Compare(a.Address, b.Address), cmp.Compare(a.Port, b.Port), cmp.Compare(a.Zone, b.Zone))
	})
	return slices.CompactFunc(all, func(a, b ir.Endpoint) bool { return a.Address == b.Address && a.Port == b.Port })
}

// servicePort finds the Service's port by number or by name. A Service with one port and a request that names none gets that one.
func servicePort(s *snapshot.Service, r *ir.EndpointRequest) (snapshot.ServicePort, bool) {
	for _, p := range s.Ports {
		if r.PortName != "" && p.Name == r.PortName || r.PortName == "" && p.Port == int32(r.Port) {
			return p, true
		}
	}
	return snapshot.ServicePort{}, false
}

// slicePort returns the slice's number for a Service port, 0 when it has none: ports are matched by name.
func slicePort(s *snapshot.EndpointSlice, p snapshot.ServicePort) uint32 {
	for _, have := range s.Ports {
		if have.Name == p.Name {
			return uint32(have.Port)
		}
	}
	return 0
}
