package envoy

import (
	"fmt"
	"net/netip"
	"slices"

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

	"github.com/chancery-gateway/chancery/translators/ir"
)

// Needs is what a resource asks of the set that it stands in. It is read once: resources do not change.
type Needs struct {
	kind, name string
	references []reference
	// members are the clusters of an aggregate.
	members []string
	// settings are the filters that routes have settings for, filters those of a listener's chains.
	settings, filters []string
	// address is a listener's, as in "tcp 192.0.2.1 80".
	address  string
	patterns []string
}

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
	each("", m.ProtoReflect(), func(_ string, m proto.Message, _ bool) { n.message(m) }, nil)
	slices.SortFunc(n.references, func(a, b reference) int {
		switch {
		case a == b:
			return 0
		case a.url < b.url || a.url == b.url && a.name < b.name:
			return -1
		}
		return 1
	})
	n.references = slices.Compact(n.references)
	for _, names := range []*[]string{&n.settings, &n.filters, &n.patterns} {
		slices.Sort(*names)
		*names = slices.Compact(*names)
	}
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

func (n *Needs) message(m proto.Message) {
	switch m := m.(type) {
	case *routev3.RouteAction:
		n.cluster(m.GetCluster())
		for _, p := range m.RequestMirrorPolicies {
			n.cluster(p.Cluster)
		}
	case *routev3.WeightedCluster_ClusterWeight:
		n.cluster(m.Name)
		n.settings = append(n.settings, sortedKeys(m.TypedPerFilterConfig)...)
	case *routev3.Route:
		n.settings = append(n.settings, sortedKeys(m.TypedPerFilterConfig)...)
	case *routev3.VirtualHost:
		n.settings = append(n.settings, sortedKeys(m.TypedPerFilterConfig)...)
	case *routev3.RouteConfiguration:
		n.settings = append(n.settings, sortedKeys(m.TypedPerFilterConfig)...)
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
			n.filters = append(n.filters, x.Name)
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
	filters map[string]bool
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
	for _, name := range n.settings {
		if !s.filter(name) {
			return fmt.Sprintf("it has settings for the filter %q, which stands in no filter chain", name)
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

func (s *Surroundings) filter(name string) bool {
	if s.filters == nil {
		s.filters = map[string]bool{}
		for _, l := range s.set[ir.TypeListener] {
			for _, x := range s.needs(l).filters {
				s.filters[x] = true
			}
		}
	}
	return s.filters[name]
}

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
