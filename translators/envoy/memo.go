package envoy

import "github.com/chancery-gateway/chancery/translators/ir"

// routeMemo remembers what routes, lists of routes and virtual hosts became. Keys are pointers to immutable nodes, which the memo
// itself keeps alive, so that a key never means another node.
type routeMemo struct {
	routes  map[*ir.Route]*routeUnit
	lists   map[listKey]*routeList
	hosts   map[*ir.VirtualHost]*hostUnit
	configs map[string]*configState
	// revisions counts changes of lists.
	revisions uint64
	// live is the number of routes that the last sweep found in use.
	live int
}

func newRouteMemo() routeMemo {
	return routeMemo{
		routes: map[*ir.Route]*routeUnit{}, lists: map[listKey]*routeList{},
		hosts: map[*ir.VirtualHost]*hostUnit{}, configs: map[string]*configState{},
	}
}

func (m *routeMemo) route(r *ir.Route) *routeUnit {
	u := m.routes[r]
	if u == nil {
		u = &routeUnit{src: r}
		m.routes[r] = u
	}
	return u
}

// expect makes room for a route configuration when there is nothing yet.
func (m *routeMemo) expect(rc *ir.RouteConfig) {
	if len(m.routes) > 0 {
		return
	}
	n := 0
	for _, v := range rc.VirtualHosts {
		n += len(v.Routes)
	}
	m.routes = make(map[*ir.Route]*routeUnit, n)
}

// replace puts a route configuration's state in place of the former one, nil for none, and forgets what only that one had: a list
// is as large as all of its routes.
func (m *routeMemo) replace(name string, now *configState) {
	was := m.configs[name]
	if now != nil {
		m.configs[name] = now
		for _, h := range now.hosts {
			h.uses++
			h.list.uses++
		}
	} else {
		delete(m.configs, name)
	}
	if was == nil {
		return
	}
	for _, h := range was.hosts {
		if h.uses--; h.uses == 0 && m.hosts[h.src] == h {
			delete(m.hosts, h.src)
		}
		if h.list.uses--; h.list.uses == 0 {
			delete(m.lists, keyOf(h.list.src))
		}
	}
}

// slack is how many entries may be idle before a sweep is worth its time.
const slack = 64

// sweep forgets routes that no list has, when they are more than half of all.
func (m *routeMemo) sweep() {
	if m.live == 0 {
		m.live = len(m.routes) // After the first emission all are in use.
	}
	if len(m.routes) <= 2*m.live+slack {
		return
	}
	used := make(map[*ir.Route]*routeUnit, len(m.routes)/2)
	for _, l := range m.lists {
		for _, u := range l.units {
			used[u.src] = u
		}
	}
	m.routes, m.live = used, len(used)
}

// needStandIn reports whether a route names the unavailable cluster.
func (m *routeMemo) needStandIn(units []*unit[ir.RouteConfig]) bool {
	for _, u := range units {
		if c := m.configs[u.name]; c != nil && u.resource != nil {
			for _, h := range c.hosts {
				if h.list.standIn {
					return true
				}
			}
		}
	}
	return false
}

// chainMemo remembers filter chains and what of them each listener has.
type chainMemo struct {
	chains    map[*ir.FilterChain]*chainUnit
	listeners map[string][]*chainUnit
	filters   map[*ir.Filter]*filterUnit
	live      int
}

func newChainMemo() chainMemo {
	return chainMemo{chains: map[*ir.FilterChain]*chainUnit{}, listeners: map[string][]*chainUnit{}, filters: map[*ir.Filter]*filterUnit{}}
}

func (m *chainMemo) sweep(listeners []*ir.Listener) {
	if len(m.chains) <= 2*m.live+slack && len(m.filters) <= 2*m.live+slack {
		return
	}
	used := newChainMemo()
	for _, l := range listeners {
		used.listeners[l.Name] = m.listeners[l.Name]
		for _, c := range l.Chains {
			if u := m.chains[c]; u != nil {
				used.chains[c] = u
			}
			if c.HTTP == nil {
				continue
			}
			for _, x := range c.HTTP.Filters {
				if u := m.filters[x]; u != nil {
					used.filters[x] = u
				}
			}
		}
	}
	used.live = len(used.chains)
	*m = used
}

func (m *chainMemo) needStandIn(units []*unit[ir.Listener]) bool {
	for _, u := range units {
		if u.resource == nil {
			continue
		}
		for _, c := range m.listeners[u.name] {
			if c.standIn {
				return true
			}
		}
	}
	return false
}
