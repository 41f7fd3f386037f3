package gatewayapi

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
)

// socket is what one process can bind once.
type socket struct {
	address string
	port    int32
	udp     bool
}

// taken are the sockets of Emissary's Listeners and TCPMappings, which keep theirs, with who has them.
func (f *FrontEnd) taken(ports []*snapshot.Object) map[socket]string {
	out := map[socket]string{}
	for _, o := range ports {
		switch spec := o.Spec.(type) {
		case *v3alpha1.ListenerSpec:
			out[socket{f.options.BindAddress, int32(spec.Port), false}] = o.Ref.String()
		case *v3alpha1.TCPMappingSpec:
			out[socket{cmp.Or(spec.Address, f.options.BindAddress), int32(spec.Port), false}] = o.Ref.String()
		}
	}
	return out
}

// reserved reports whether the installation itself needs the port on this address: its own are on the loopback address.
func (f *FrontEnd) reserved(address string, port int32) bool {
	ip, err := netip.ParseAddr(address)
	if err != nil || !ip.IsUnspecified() && !ip.IsLoopback() {
		return false
	}
	own := []string{"8001", "8003", strconv.FormatUint(uint64(f.options.ReadyPort), 10)}
	if i := strings.LastIndexByte(f.options.DiagService, ':'); i >= 0 {
		own = append(own, f.options.DiagService[i+1:])
	}
	for _, p := range own {
		if p == strconv.Itoa(int(port)) {
			return true
		}
	}
	return false
}

// settle finds the listeners that are in the way of one another. Listeners of one object that cannot be told apart are all
// refused; between objects the Gateway's own come before those of its ListenerSets, and older objects before younger ones
// (Gateway API: Gateway spec.listeners, ListenerSet).
func (w *world) settle(byAge []*gatewayPlan, taken map[socket]string) {
	standing := map[socket][]*listenerPlan{}
	for _, g := range byAge {
		groups := [][]*listenerPlan{g.listeners}
		for _, s := range g.sets {
			groups = append(groups, s.listeners)
		}
		for _, group := range groups {
			for _, l := range group {
				for _, address := range g.addresses {
					l.meet(address, group, standing[l.socket(address)], taken)
				}
			}
			for _, l := range group {
				if !l.clash.stands() {
					continue
				}
				for _, address := range g.addresses {
					standing[l.socket(address)] = append(standing[l.socket(address)], l)
				}
			}
		}
	}
}

func (l *listenerPlan) socket(address string) socket {
	return socket{address, l.spec.Port, l.spec.Protocol == gw.UDPProtocolType}
}

// meet holds against a listener what is in its way on an address: its siblings, and those that stand already.
func (l *listenerPlan) meet(address string, siblings, standing []*listenerPlan, taken map[socket]string) {
	if by := taken[l.socket(address)]; by != "" {
		l.clash.object(string(gw.ListenerReasonPortUnavailable), fmt.Sprintf("%s has port %d", by, l.spec.Port))
	}
	against := func(other *listenerPlan) {
		if other == l || other.socket(address) != l.socket(address) {
			return
		}
		if reason, why := l.distinct(other); reason != "" {
			l.clash.object(reason, why)
			l.conflict = true
		}
	}
	for _, s := range siblings {
		against(s)
	}
	for _, s := range standing {
		against(s)
	}
}

// distinct says why connections to the two listeners' port cannot be told apart; "" where they can. Clear text and TLS can.
func (l *listenerPlan) distinct(other *listenerPlan) (reason, why string) {
	name := other.of.Ref.String() + " listener " + string(other.spec.Name)
	if (l.spec.Protocol == gw.TCPProtocolType) || (other.spec.Protocol == gw.TCPProtocolType) || l.spec.Protocol == gw.UDPProtocolType {
		return string(gw.ListenerReasonProtocolConflict), fmt.Sprintf("%s has protocol %s on port %d, which cannot be told from %s", name, other.spec.Protocol, l.spec.Port, l.spec.Protocol)
	}
	if (l.spec.Protocol == gw.HTTPProtocolType) == (other.spec.Protocol == gw.HTTPProtocolType) && l.hostname == other.hostname {
		return string(gw.ListenerReasonHostnameConflict), fmt.Sprintf("%s has hostname %q on port %d", name, l.hostname, l.spec.Port)
	}
	return "", ""
}
