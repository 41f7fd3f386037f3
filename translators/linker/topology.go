package linker

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// topology is which listeners there are, which hosts and TCP routes attach to each, and which route configurations and
// virtual hosts follow. It is built anew when a listener, host or TCP route changes, or a host pattern comes or goes.
type topology struct {
	listeners []*ir.Listener
	plans     []*configPlan
	sets      []*routeSet
	setOf     map[string]*routeSet // by host reference and domain
	configs   []*ir.RouteConfig
	guards    map[string]*ir.Route // by wildcard
	// proxied are the TCP routes that are in some chain; idle the Hosts and TCP routes that are on no listener.
	proxied  map[*ir.TCPRouteFragment]bool
	idle     map[snapshot.Ref]bool
	findings []snapshot.Diagnostic
	refused  []SectionRefusal
	// quic are the hosts that are served over HTTP/3, by address and port.
	quic map[port]map[*ir.HostFragment]bool

	refusedRoutes []RouteRefusal
}

// configPlan is one route configuration before its routes are filled in.
type configPlan struct {
	name  string
	hosts []*hostPlan
	// shared finds the virtual hosts that further hosts may join.
	shared map[shared]*hostPlan
	// apart: what one host refuses must not be taken by a wider one, whatever port a request names.
	apart bool
	// ported: a domain has a port, so that ports count.
	ported bool
	built  *ir.RouteConfig
}

// shared is what hosts of one virtual host have in common.
type shared struct {
	set     *routeSet
	prelude prelude
	fixed   *ir.Route
	http3   uint32
}

// hostPlan is one virtual host: the hosts that share a route set and a prelude.
type hostPlan struct {
	domains []string
	// ports are the domains that stand for the others' ports, where ports count; refuses are routes before all others.
	ports   []string
	refuses []*ir.Route
	origins []ir.Origin
	set     *routeSet
	prelude prelude
	// fixed is the only route of a virtual host that serves nothing: a closed or a misdirected one.
	fixed *ir.Route
	// http3 is the port on which clients are told to find HTTP/3; 0 for none.
	http3 uint32
}

func (l *Linker) rebuildTopology() {
	old := l.topology
	t := topology{setOf: map[string]*routeSet{}, proxied: map[*ir.TCPRouteFragment]bool{}, idle: map[snapshot.Ref]bool{}}
	hosts := l.activeHosts()
	listeners := l.activeListeners(&t)
	tcp := sortedFragments(l, func(f *ir.Fragments) []*ir.TCPRouteFragment { return f.TCPRoutes })
	bound, settled := map[*ir.HostFragment]bool{}, make([][]*ir.HostFragment, len(listeners))
	standing := map[*ir.HostFragment]bool{}
	for i, lf := range listeners {
		settled[i] = l.settleHosts(&t, lf, hosts, bound)
		for _, h := range settled[i] {
			standing[h] = true
		}
	}
	t.planQUIC(listeners, settled)
	l.assignSets(&t, slices.DeleteFunc(slices.Clone(hosts), func(h *ir.HostFragment) bool { return bound[h] && !standing[h] }), old.setOf, tcp)
	for i, lf := range listeners {
		l.attachListener(&t, lf, settled[i], tcp)
	}
	busy := map[snapshot.Ref]bool{}
	note := func(o *snapshot.Object, used bool) {
		if o != nil {
			busy[o.Ref] = busy[o.Ref] || used
			t.idle[o.Ref] = !busy[o.Ref]
		}
	}
	for _, f := range tcp {
		note(f.Origin, t.proxied[f])
	}
	for _, h := range hosts {
		note(h.Origin, bound[h])
		if !bound[h] && h.Origin != nil && !h.Synthesized {
			t.findings = append(t.findings, h.Origin.About(snapshot.Warning, codeNoListener, h.At,
				fmt.Sprintf("no Listener takes the Host, so %q is served nowhere", h.Domain), "create a Listener whose hostBinding selects it"))
		}
	}
	slices.SortFunc(t.listeners, func(a, b *ir.Listener) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(t.plans, func(a, b *configPlan) int { return strings.Compare(a.name, b.name) })
	t.listeners = reuseListeners(old.listeners, t.listeners)
	t.configs = old.configs
	l.topology = t
}

// activeHosts drops synthesized hosts where there is a real one. Shared ones are an Ingress' own: they keep nobody else from
// being served, but for their name.
func (l *Linker) activeHosts() []*ir.HostFragment {
	hosts := sortedFragments(l, func(f *ir.Fragments) []*ir.HostFragment { return f.Hosts })
	named := map[string]bool{}
	real := false
	for _, h := range hosts {
		real = real || !h.Synthesized && !h.Shared
		named[h.Domain] = named[h.Domain] || !h.Synthesized
	}
	return slices.DeleteFunc(hosts, func(h *ir.HostFragment) bool { return h.Synthesized && (real || named[h.Domain]) })
}

// activeListeners settles claims to one address and port. Synthesized listeners yield without a word.
func (l *Linker) activeListeners(t *topology) []*ir.ListenerFragment {
	all := sortedFragments(l, func(f *ir.Fragments) []*ir.ListenerFragment { return f.Listeners })
	claims := map[string][]*ir.ListenerFragment{}
	var order []string
	for _, lf := range all {
		k := fmt.Sprintf("%s:%d/%t", lf.Address, lf.Port, lf.UDP)
		if claims[k] == nil {
			order = append(order, k)
		}
		claims[k] = append(claims[k], lf)
	}
	var out []*ir.ListenerFragment
	for _, k := range order {
		claim := claims[k]
		if slices.ContainsFunc(claim, func(lf *ir.ListenerFragment) bool { return !lf.Synthesized }) {
			claim = slices.DeleteFunc(claim, func(lf *ir.ListenerFragment) bool { return lf.Synthesized })
		}
		win := 0
		if len(claim) > 1 && !claim[0].Synthesized {
			win = oldest(claim, func(lf *ir.ListenerFragment) *snapshot.Object { return lf.Origin })
		}
		for i, lf := range claim {
			if i != win && lf.Origin != nil && !lf.Synthesized {
				t.findings = append(t.findings, lf.Origin.About(snapshot.Error, codeAddressTaken, "spec.port",
					fmt.Sprintf("%s listens on %s:%d already", nameOf(claim[win].Origin), lf.Address, lf.Port), "give the Listener another port"))
			}
		}
		out = append(out, claim[win])
	}
	return out
}

func nameOf(o *snapshot.Object) string {
	if o == nil {
		return "another object"
	}
	return o.Ref.String()
}

func hostID(h *ir.HostFragment) string {
	if h.Origin == nil {
		return h.Domain
	}
	return h.Origin.Ref.String() + "\x00" + h.Domain
}

// assignSets finds or makes the route set of every host and section, plans the sections, and drops the sets that nobody uses
// any more.
func (l *Linker) assignSets(t *topology, hosts []*ir.HostFragment, last map[string]*routeSet, tcp []*ir.TCPRouteFragment) {
	keys := make([]string, len(hosts))
	buckets := make([][]*bucket, len(hosts))
	claimed := map[string]bool{}
	for i, h := range hosts {
		if h.Select == nil {
			buckets[i] = l.routes.bucketsOf(h.SNI)
		}
		keys[i] = setKey(h, buckets[i])
		claimed[keys[i]] = true
	}
	used := map[*routeSet]bool{}
	for i, h := range hosts {
		s := l.routes.setFor(h, keys[i], buckets[i], last[hostID(h)], claimed)
		t.setOf[hostID(h)] = s
		if !used[s] {
			used[s] = true
			t.sets = append(t.sets, s)
		}
	}
	l.planSections(t, tcp, used)
	for _, s := range l.routes.sets {
		if !used[s] {
			l.routes.drop(s)
		}
	}
	l.routes.prune()
}

func bindingTakes(b ir.HostBinding, h *ir.HostFragment) bool {
	if b.None {
		return false
	}
	if h.Origin == nil {
		return true
	}
	return (b.Namespace == "" || b.Namespace == h.Origin.Namespace) && labelsTaken(b.Labels, h.Origin.Labels)
}

// attachListener plans one listener with all that attaches to it.
func (l *Linker) attachListener(t *topology, lf *ir.ListenerFragment, attached []*ir.HostFragment, tcp []*ir.TCPRouteFragment) {
	out := &ir.Listener{Name: lf.Name, Address: lf.Address, Port: lf.Port, UDP: lf.UDP, ProxyProtocol: lf.ProxyProtocol,
		TLSInspector: lf.TLS && !lf.UDP, BufferLimit: lf.BufferLimit}
	if lf.Origin != nil {
		out.Origins = []ir.Origin{lf.Origin.Ref}
	}
	var takesAll bool
	var takenNames map[string]bool
	if !lf.UDP {
		takesAll, takenNames = l.attachTCP(t, lf, out, attached, tcp)
	}
	if lf.HTTP {
		p := &httpPlan{linker: l, topology: t, listener: lf, out: out, hosts: attached, tcpNames: takenNames}
		p.planTLS()
		switch {
		case lf.UDP: // QUIC is never clear text
		case !takesAll:
			p.planClear()
		case len(attached) > 0:
			p.reportDropped()
		}
	}
	if len(out.Chains) == 0 {
		if lf.Origin != nil && !lf.Synthesized {
			what, help := "no Host and no TCPMapping attaches", "create a Host that the hostBinding selects"
			if lf.UDP {
				what, help = "no Host that can be served over HTTP/3 attaches", "create a Host with a tlsSecret that the hostBinding selects; HTTP/3 is always TLS 1.3, and asks for no client certificates"
			}
			t.findings = append(t.findings, lf.Origin.About(snapshot.Warning, codeNoHosts, "spec.hostBinding", fmt.Sprintf("%s to port %d, so nothing listens there", what, lf.Port), help))
		}
		return
	}
	slices.SortFunc(out.Chains, func(a, b *ir.FilterChain) int { return strings.Compare(a.Name, b.Name) })
	t.listeners = append(t.listeners, out)
}

// settleHosts returns the hosts that the listener takes, one for each domain. All that it would take are noted in bound.
func (l *Linker) settleHosts(t *topology, lf *ir.ListenerFragment, hosts []*ir.HostFragment, bound map[*ir.HostFragment]bool) []*ir.HostFragment {
	var attached []*ir.HostFragment
	claims := map[string][]*ir.HostFragment{}
	named := map[string][]*ir.HostFragment{} // Hosts, by server name
	for _, h := range hosts {
		if bindingTakes(lf.Hosts, h) {
			bound[h] = true
			attached = append(attached, h)
			claims[h.Domain] = append(claims[h.Domain], h)
			if !h.Shared && !h.Synthesized && h.Origin != nil {
				named[h.SNI] = append(named[h.SNI], h)
			}
		}
	}
	out := attached[:0:0]
	for _, h := range attached {
		claim := claims[h.Domain]
		if d := demanding(h, named); d != nil {
			t.findings = append(t.findings, h.Origin.About(snapshot.Error, codeClientCertificate, cmp.Or(h.At, "spec.hostname"),
				fmt.Sprintf("%s asks clients of %q for a certificate on listener %s, so %q is served by it alone", nameOf(d.Origin), d.Domain, lf.Name, h.Domain),
				"remove the name from tls, or have a Host for the name beside the other Host"))
			continue
		}
		if len(claim) == 1 {
			out = append(out, h)
			continue
		}
		winner := claim[oldest(claim, func(h *ir.HostFragment) *snapshot.Object { return h.Origin })]
		if h == winner {
			out = append(out, h)
			continue
		}
		if h.Origin != nil && !sameClaim(h, winner) {
			t.findings = append(t.findings, h.Origin.About(snapshot.Error, codeHostTaken, cmp.Or(h.At, "spec.hostname"),
				fmt.Sprintf("%s claims %q on listener %s already", nameOf(winner.Origin), h.Domain, lf.Name), "remove one of the Hosts, or bind them to different Listeners"))
		}
	}
	return out
}

// demanding returns the Host of another namespace that takes the names of a shared host and asks their clients for a certificate: the
// narrowest one decides. nil for none. Routes of all namespaces are on a shared host, whose certificate is anybody's: it would let
// clients pass without.
func demanding(h *ir.HostFragment, named map[string][]*ir.HostFragment) *ir.HostFragment {
	if !h.Shared || h.Origin == nil {
		return nil
	}
	for name := h.SNI; name != ""; name = wider(name) {
		for _, o := range named[name] {
			if o.Demanding && o.Origin.Namespace != h.Origin.Namespace && o.Domain != h.Domain {
				return o
			}
		}
		if len(named[name]) > 0 {
			return nil
		}
	}
	return nil
}

// wider returns the next wider wildcard that covers a name, "" for none.
func wider(name string) string {
	if name == "*" {
		return ""
	}
	if _, rest, more := strings.Cut(strings.TrimPrefix(name, "*."), "."); more {
		return "*." + rest
	}
	return "*"
}

// sameClaim reports whether two shared claims to one name differ in nothing but in who makes them.
func sameClaim(a, b *ir.HostFragment) bool {
	x, y := *a, *b
	x.Origin, y.Origin, x.At, y.At = nil, nil, "", ""
	return a.Shared && b.Shared && reflect.DeepEqual(&x, &y)
}

// reuseListeners keeps the pointers of listeners and chains that are as before, so that they are not emitted again.
func reuseListeners(old, now []*ir.Listener) []*ir.Listener {
	byName := make(map[string]*ir.Listener, len(old))
	for _, o := range old {
		byName[o.Name] = o
	}
	same := len(old) == len(now)
	for i, n := range now {
		o := byName[n.Name]
		if o == nil {
			same = false
			continue
		}
		chains := make(map[string]*ir.FilterChain, len(o.Chains))
		for _, c := range o.Chains {
			chains[c.Name] = c
		}
		for j, c := range n.Chains {
			if was := chains[c.Name]; was != nil && reflect.DeepEqual(was, c) {
				n.Chains[j] = was
			}
		}
		if slices.Equal(o.Chains, n.Chains) {
			head, was := *n, *o
			head.Chains, was.Chains = nil, nil
			if reflect.DeepEqual(head, was) {
				now[i] = o
			}
		}
		same = same && now[i] == old[i]
	}
	if same {
		return old
	}
	return now
}
