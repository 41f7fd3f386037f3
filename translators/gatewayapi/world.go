package gatewayapi

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"
	"sync"

	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
)

// world is what follows from all Gateways together: the addresses of each, and which listeners are in the way of one another.
// It is a function of the objects in seen.
type world struct {
	seen     []*snapshot.Object
	gateways map[snapshot.Ref]*gatewayPlan
	sets     map[snapshot.Ref]*setPlan

	mu sync.Mutex
	// names are those of certificates, by Secret.
	names map[*snapshot.Object][]string
}

// gatewayPlan is one Gateway of ours.
type gatewayPlan struct {
	object     *snapshot.Object
	spec       *gw.GatewaySpec
	controller string
	// addresses are those that it is served on; accepted and usable say what is wrong with those that it asks for.
	addresses        []string
	shown            []string
	accepted, usable verdict
	listeners        []*listenerPlan
	sets             []*setPlan
}

// setPlan is one ListenerSet that names a Gateway of ours; refused says why it is not attached.
type setPlan struct {
	object    *snapshot.Object
	gateway   *gatewayPlan
	refused   verdict
	listeners []*listenerPlan
}

// listenerPlan is one listener: clash is what stands in its way.
type listenerPlan struct {
	of   *snapshot.Object
	spec *gw.Listener
	path string
	// hostname is "*" for all names.
	hostname string
	clash    verdict
	// twin is set where an earlier listener of the object has the name.
	twin bool
}

func hostnameOf(l *gw.Listener) string {
	if h := strings.ToLower(string(value(l.Hostname, ""))); h != "" && l.Protocol != gw.TCPProtocolType && l.Protocol != gw.UDPProtocolType {
		return h
	}
	return "*"
}

func listenerPlans(o *snapshot.Object, listeners []gw.Listener) []*listenerPlan {
	out := make([]*listenerPlan, len(listeners))
	for i := range listeners {
		out[i] = &listenerPlan{of: o, spec: &listeners[i], path: fmt.Sprintf("spec.listeners[%d]", i), hostname: hostnameOf(&listeners[i])}
		out[i].twin = slices.ContainsFunc(listeners[:i], func(l gw.Listener) bool { return l.Name == listeners[i].Name })
	}
	return out
}

// plan returns the world as the view shows it, which is made anew only when something in it has changed.
func (f *FrontEnd) plan(v *snapshot.View) *world {
	w := &world{gateways: map[snapshot.Ref]*gatewayPlan{}, sets: map[snapshot.Ref]*setPlan{}, names: map[*snapshot.Object][]string{}}
	var gateways, sets []*snapshot.Object
	collect := func(k snapshot.GroupKind, take func(*snapshot.Object) bool) (out []*snapshot.Object) {
		for o := range v.List(k) {
			if take(o) {
				out = append(out, o)
			}
		}
		w.seen = append(append(w.seen, out...), nil)
		return out
	}
	here := func(o *snapshot.Object) bool {
		return !f.options.SingleNamespace || o.Namespace == "" || o.Namespace == f.options.Namespace
	}
	collect(api.KindGatewayClass, here)
	gateways, sets = collect(api.KindGateway, here), collect(api.KindListenerSet, here)
	for _, s := range sets {
		if spec, ok := s.Spec.(*gw.ListenerSetSpec); ok {
			for _, n := range []string{s.Namespace, string(value(spec.ParentRef.Namespace, ""))} {
				w.seen = append(w.seen, v.Get(snapshot.KindNamespace, "", n))
			}
		}
	}
	if last := f.world.Load(); last != nil && slices.Equal(last.seen, w.seen) {
		return last
	}
	for _, o := range gateways {
		spec, ok := o.Spec.(*gw.GatewaySpec)
		if !ok {
			continue
		}
		if controller, _ := f.controller(spec.GatewayClassName, v); controller != "" {
			w.gateways[o.Ref] = &gatewayPlan{object: o, spec: spec, controller: controller, listeners: listenerPlans(o, spec.Listeners)}
		}
	}
	byAge := make([]*gatewayPlan, 0, len(w.gateways))
	for _, g := range w.gateways {
		byAge = append(byAge, g)
	}
	slices.SortFunc(byAge, func(a, b *gatewayPlan) int { return age(a.object, b.object) })
	f.address(byAge)
	slices.SortFunc(sets, age)
	for _, o := range sets {
		w.attach(o, v)
	}
	w.settle(byAge, !f.addresses.IsValid())
	f.world.Store(w)
	return w
}

// age orders objects, the oldest first.
func age(a, b *snapshot.Object) int {
	switch {
	case b.NewerThan(a):
		return -1
	case a.NewerThan(b):
		return 1
	}
	return 0
}

// attach adds a ListenerSet to the Gateway that it names.
func (w *world) attach(o *snapshot.Object, v *snapshot.View) {
	spec, ok := o.Spec.(*gw.ListenerSetSpec)
	if !ok {
		return
	}
	g := w.gateways[ParentGateway(o, spec)]
	if g == nil {
		return
	}
	listeners := make([]gw.Listener, len(spec.Listeners))
	for i, e := range spec.Listeners {
		listeners[i] = gw.Listener(e)
	}
	s := &setPlan{object: o, gateway: g, listeners: listenerPlans(o, listeners)}
	w.sets[o.Ref] = s
	from, selector := gw.NamespacesFromNone, (*labelSelector)(nil)
	if a := g.spec.AllowedListeners; a != nil && a.Namespaces != nil {
		from, selector = value(a.Namespaces.From, gw.NamespacesFromNone), a.Namespaces.Selector
	}
	if !namespaceAllowed(v, from, selector, g.object.Namespace, o.Namespace) {
		s.refused.object(string(gw.ListenerSetReasonNotAllowed), "Gateway "+g.object.Namespace+"/"+g.object.Name+" does not allow ListenerSets of this namespace")
		return
	}
	g.sets = append(g.sets, s)
}

// address gives each Gateway its addresses, the oldest first: those that it asks for, unless an older one has been given them; else
// one of the range, the same for as long as no older Gateway wants it; else the address that everything is bound to.
func (f *FrontEnd) address(byAge []*gatewayPlan) {
	taken, given := map[netip.Addr]bool{}, map[netip.Addr]*gatewayPlan{} // several that ask for one and the same share it
	for _, g := range byAge {
		wants := len(g.spec.Addresses) == 0
		var asked []netip.Addr
		for i := range g.spec.Addresses {
			a := &g.spec.Addresses[i]
			if kind := value(a.Type, gw.IPAddressType); kind != gw.IPAddressType {
				g.accepted.object(string(gw.GatewayReasonUnsupportedAddress), fmt.Sprintf("addresses of type %s are not supported", kind))
				continue
			}
			if a.Value == "" {
				wants = true
				continue
			}
			ip, err := netip.ParseAddr(a.Value)
			ip = ip.Unmap() // ::ffff:192.0.2.1 is 192.0.2.1
			switch {
			case err != nil || ip.Zone() != "" || ip.IsMulticast():
				g.accepted.object(string(gw.GatewayReasonUnsupportedAddress), fmt.Sprintf("%q is no IP address to listen on", a.Value))
			case f.addresses.IsValid() && !f.addresses.Contains(ip):
				g.usable.object(string(gw.GatewayReasonAddressNotUsable), fmt.Sprintf("%s is none of the range %s, of which Gateways have their addresses", a.Value, f.addresses))
			case given[ip] != nil:
				g.usable.object(string(gw.GatewayReasonAddressNotUsable), fmt.Sprintf("%s has been given to %s", a.Value, given[ip].object.Ref))
			case !slices.Contains(asked, ip):
				asked = append(asked, ip)
			}
		}
		if !g.accepted.stands() {
			continue // it is not served, and takes nothing from others
		}
		for _, ip := range asked {
			taken[ip] = true
			g.addresses = append(g.addresses, ip.String())
		}
		g.shown = slices.Clone(g.addresses)
		switch {
		case !wants:
		case !f.addresses.IsValid():
			g.addresses = append(g.addresses, f.options.BindAddress)
		default:
			if ip, free := pick(f.addresses, g.object.Namespace+"/"+g.object.Name, taken); free {
				taken[ip], given[ip] = true, g
				g.addresses, g.shown = append(g.addresses, ip.String()), append(g.shown, ip.String())
			} else {
				g.usable.object(string(gw.GatewayReasonAddressNotAssigned), fmt.Sprintf("all addresses of the range %s are taken", f.addresses))
			}
		}
	}
}

// pick returns the first free address of the range from the one on that the name's hash says. The first and the last one of a
// range are left alone: networks have uses for them.
func pick(p netip.Prefix, name string, taken map[netip.Addr]bool) (netip.Addr, bool) {
	bits := min(p.Addr().BitLen()-p.Bits(), 31)
	n := uint32(1)<<bits - 2
	if bits < 2 {
		return netip.Addr{}, false
	}
	h := fnv.New32a()
	h.Write([]byte(name))
	base := p.Masked().Addr().AsSlice()
	for i := range n {
		raw := slices.Clone(base)
		tail := raw[len(raw)-4:]
		binary.BigEndian.PutUint32(tail, binary.BigEndian.Uint32(tail)|(1+(h.Sum32()+i)%n))
		if ip, _ := netip.AddrFromSlice(raw); !taken[ip] {
			return ip, true
		}
	}
	return netip.Addr{}, false
}
