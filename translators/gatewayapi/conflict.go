package gatewayapi

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	gw "sigs.k8s.io/gateway-api/apis/v1"
)

// socket is what one process can bind once.
type socket struct {
	address string
	port    int32
	udp     bool
}

// reserved reports whether the installation itself needs the port on this address: its own are on the loopback address or on all
// that there are, but those of the range, which are for Gateways alone.
func (f *FrontEnd) reserved(address string, port int32) bool {
	ip, err := netip.ParseAddr(address)
	if err != nil || f.addresses.IsValid() && !ip.IsUnspecified() && !ip.IsLoopback() {
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
// (Gateway API: Gateway spec.listeners, ListenerSet). One that is refused for the sake of another object is in nobody's way.
//
// Of a port on all addresses and the same on one of these, the system gives the latter its connections. Unless addresses are given
// out of a range they are everybody's, and whoever names one takes nothing from the listeners of another namespace.
func (w *world) settle(byAge []*gatewayPlan, everybodys bool) {
	standing := map[socket][]*listenerPlan{}
	wide, narrow := map[socket][]*listenerPlan{}, map[socket][]*listenerPlan{} // by port, on all addresses and on one
	for _, g := range byAge {
		groups := [][]*listenerPlan{g.listeners}
		for _, s := range g.sets {
			groups = append(groups, s.listeners)
		}
		for _, group := range groups {
			var left []*listenerPlan
			for _, l := range group {
				for _, address := range g.addresses {
					l.meet(address, standing[l.socket(address)])
					if everybodys && isWide(address) {
						l.reach(narrow[l.socket("")])
					} else if everybodys {
						l.reach(wide[l.socket("")])
					}
				}
				if l.clash.stands() {
					left = append(left, l)
				}
			}
			for _, l := range left {
				for _, address := range g.addresses {
					l.meet(address, left)
				}
			}
			for _, l := range left {
				if !l.clash.stands() {
					continue
				}
				for _, address := range g.addresses {
					standing[l.socket(address)] = append(standing[l.socket(address)], l)
					if isWide(address) {
						wide[l.socket("")] = append(wide[l.socket("")], l)
					} else {
						narrow[l.socket("")] = append(narrow[l.socket("")], l)
					}
				}
			}
		}
	}
}

// isWide reports whether an address stands for all that there are.
func isWide(address string) bool {
	ip, err := netip.ParseAddr(address)
	return err == nil && ip.IsUnspecified()
}

// reach holds against a listener those of other namespaces whose port includes its address, or whose address its port includes.
func (l *listenerPlan) reach(others []*listenerPlan) {
	for _, other := range others {
		if other.of.Namespace != l.of.Namespace {
			l.clash.object(string(gw.ListenerReasonPortUnavailable), fmt.Sprintf("%s listener %s has port %d, on an address that this one would share", other.of.Ref, other.spec.Name, l.spec.Port))
		}
	}
}

func (l *listenerPlan) socket(address string) socket {
	return socket{address, l.spec.Port, l.spec.Protocol == gw.UDPProtocolType}
}

// meet holds against a listener which of the others are in its way on an address.
func (l *listenerPlan) meet(address string, others []*listenerPlan) {
	for _, other := range others {
		if other == l || other.socket(address) != l.socket(address) {
			continue
		}
		if reason, why := l.distinct(other); reason != "" {
			l.clash.object(reason, why)
		}
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
