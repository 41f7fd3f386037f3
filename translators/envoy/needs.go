package envoy

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tracev3 "github.com/envoyproxy/go-control-plane/envoy/config/trace/v3"
	aggregatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/aggregate/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// Needs is what a resource asks of the set that it stands in. It is read once: resources do not change.
type Needs struct {
	kind, name string
	references []reference
	// members are the clusters of an aggregate.
	members []string
	// settings are those that routes have for filters, filters those of a listener's chains.
	settings, filters []setting
	// address is a listener's, as in "tcp 192.0.2.1 80".
	address  string
	patterns []string
}

// setting is a filter's name and the message type of what is set for it; "" for one that comes from elsewhere.
type setting struct{ filter, message string }

// reference is a name of another resource.
type reference struct{ url, kind, name string }

// NeedsOf reads a resource.
func NeedsOf(r *ir.Resource) *Needs {
	n := &Needs{kind: r.Type, name: r.Name}
	empty := rewritable[r.Type]
	if empty == nil {
		return n
	}
	m := empty()
	if proto.Unmarshal(r.Value, m) != nil {
		return n // what Parse makes decodes
	}
	if r.Type == ir.TypeCluster && r.EndpointSet != "" {
		n.refer(ir.TypeEndpoint, "endpoint set", r.EndpointSet)
	}
	w := walker{do: func(m proto.Message, _ bool) { n.message(m) }}
	w.walk(m.ProtoReflect(), false)
	slices.SortFunc(n.references, func(a, b reference) int {
		return cmp.Or(strings.Compare(a.url, b.url), strings.Compare(a.name, b.name))
	})
	n.references = slices.Compact(n.references)
	for _, list := range []*[]setting{&n.settings, &n.filters} {
		slices.SortFunc(*list, func(a, b setting) int {
			return cmp.Or(strings.Compare(a.filter, b.filter), strings.Compare(a.message, b.message))
		})
		*list = slices.Compact(*list)
	}
	slices.Sort(n.patterns)
	n.patterns = slices.Compact(n.patterns)
	return n
}

func (n *Needs) refer(url, kind, name string) {
	if name != "" {
		n.references = append(n.references, reference{url, kind, name})
	}
}

func (n *Needs) cluster(names ...string) {
	for _, name := range names {
		if name != unavailable {
			n.refer(ir.TypeCluster, "cluster", name)
		}
	}
}

func (n *Needs) set(settings map[string]*anypb.Any) {
	for name, a := range settings {
		kind := string(a.MessageName())
		if wrapped := (&routev3.FilterConfig{}); a.MessageIs(wrapped) && a.UnmarshalTo(wrapped) == nil {
			kind = string(wrapped.GetConfig().MessageName())
		}
		n.settings = append(n.settings, setting{name, kind})
	}
}

func (n *Needs) message(m proto.Message) {
	switch m := m.(type) {
	case *routev3.RouteAction:
		n.cluster(m.GetCluster())
		for _, p := range m.RequestMirrorPolicies {
			n.cluster(p.Cluster)
		}
	case *routev3.WeightedCluster_ClusterWeight:
		n.cluster(m.Name)
		n.set(m.TypedPerFilterConfig)
	case *routev3.Route:
		n.set(m.TypedPerFilterConfig)
	case *routev3.VirtualHost:
		n.set(m.TypedPerFilterConfig)
	case *routev3.RouteConfiguration:
		n.set(m.TypedPerFilterConfig)
	case *tcpproxyv3.TcpProxy:
		n.cluster(m.GetCluster())
		for _, w := range m.GetWeightedClusters().GetClusters() {
			n.cluster(w.Name)
		}
	case *corev3.GrpcService_EnvoyGrpc:
		n.cluster(m.ClusterName)
	case *corev3.HttpUri:
		n.cluster(m.GetCluster())
	case *tracev3.ZipkinConfig:
		n.cluster(m.CollectorCluster)
	case *tracev3.DatadogConfig:
		n.cluster(m.CollectorCluster)
	case *aggregatev3.ClusterConfig:
		n.cluster(m.Clusters...)
		n.members = append(n.members, m.Clusters...)
	case *hcmv3.HttpConnectionManager:
		n.refer(ir.TypeRouteConfig, "route configuration", m.GetRds().GetRouteConfigName())
		for _, x := range m.HttpFilters {
			n.filters = append(n.filters, setting{x.Name, string(x.GetTypedConfig().MessageName())})
			if x.GetConfigDiscovery() != nil {
				n.refer(ir.TypeExtension, "extension configuration", x.Name)
			}
		}
	case *tlsv3.SdsSecretConfig:
		n.refer(ir.TypeSecret, "secret", m.Name)
	case *listenerv3.Listener:
		if s := m.GetAddress().GetSocketAddress(); s != nil {
			n.address = socketOf(s)
		}
	case *matcherv3.RegexMatcher:
		n.patterns = append(n.patterns, m.Regex)
	}
}

func socketOf(s *corev3.SocketAddress) string {
	text := s.Address
	if a, err := netip.ParseAddr(text); err == nil {
		text = a.String()
	}
	return fmt.Sprintf("%s %s %d", s.Protocol, text, s.GetPortValue())
}

// Missing returns what the resource names that the set does not hold, as in `cluster "x"`; "" for nothing.
func (n *Needs) Missing(set ir.ResourceSet) string {
	for _, r := range n.references {
		if find(set[r.url], r.name) == nil {
			return unitName(r.kind, r.name)
		}
	}
	return ""
}

// Surroundings are what the other resources of a set ask and give.
type Surroundings struct {
	set     ir.ResourceSet
	needs   func(*ir.Resource) *Needs
	filters map[string][]string // message types by name
}

// Around returns the surroundings in a set, whose lists are sorted by name. needs returns NeedsOf, and may remember it.
func Around(set ir.ResourceSet, needs func(*ir.Resource) *Needs) *Surroundings {
	return &Surroundings{set: set, needs: needs}
}

// Against returns why a resource of the set cannot be served in it, "" when it can: Envoy would take it without a word, and do
// something else than it says.
func (e *Emitter) Against(r *ir.Resource, s *Surroundings) string {
	n := s.needs(r)
	if missing := n.Missing(s.set); missing != "" {
		return "there is no " + missing
	}
	for _, p := range n.patterns {
		var f faults
		if programSize("", p, e.maxProgram, &f); len(f) > 0 {
			return fmt.Sprintf("regular expression %.40q: %s", p, f[0].message)
		}
	}
	for _, x := range n.settings {
		types := s.filter(x.filter)
		if len(types) == 0 {
			return fmt.Sprintf("it has settings for the filter %q, which stands in no filter chain", x.filter)
		}
		if x.message != "" && !slices.ContainsFunc(types, func(t string) bool { return packageOf(t) == packageOf(x.message) }) {
			return fmt.Sprintf("it has settings of type %s for the filter %q, which is a %s", x.message, x.filter, types[0])
		}
	}
	if n.address != "" {
		for _, other := range s.set[ir.TypeListener] {
			if other.Name != r.Name && s.needs(other).address == n.address {
				return fmt.Sprintf("listener %q has the same address (%s)", other.Name, n.address)
			}
		}
	}
	if len(n.members) > 0 && s.reaches(r.Name, r.Name, map[string]bool{}) {
		return "the aggregate cluster leads back to itself"
	}
	return ""
}

// filter returns the message types of the filters of a name.
func (s *Surroundings) filter(name string) []string {
	if s.filters == nil {
		s.filters = map[string][]string{}
		for _, l := range s.set[ir.TypeListener] {
			for _, x := range s.needs(l).filters {
				s.filters[x.filter] = append(s.filters[x.filter], x.message)
			}
		}
	}
	return s.filters[name]
}

func packageOf(message string) string { return message[:max(0, strings.LastIndexByte(message, '.'))] }

// reaches reports whether the members of an aggregate, and theirs, hold the wanted cluster.
func (s *Surroundings) reaches(from, wanted string, seen map[string]bool) bool {
	r := find(s.set[ir.TypeCluster], from)
	if r == nil || seen[from] {
		return false
	}
	seen[from] = true
	for _, m := range s.needs(r).members {
		if m == wanted || s.reaches(m, wanted, seen) {
			return true
		}
	}
	return false
}
