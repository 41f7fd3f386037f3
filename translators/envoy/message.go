package envoy

import (
	"fmt"
	"net/netip"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	filev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	maglevv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/maglev/v3"
	ringv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/ring_hash/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// The rules here are those of rules.go for messages that this back end did not make.

// Violation is a rule that a resource breaks which others wrote.
type Violation struct {
	Code *snapshot.Code
	// Path is the protobuf field path.
	Path, Message string
}

func (v *Violation) Error() string { return strings.TrimPrefix(v.Path+": "+v.Message, ": ") }

// walker visits a message and every one inside, packed ones too, and knows where it is.
type walker struct {
	path []step
	// do is called for each message, broken, which may be nil, for what cannot be unpacked.
	do     func(m proto.Message, packed bool)
	broken func(err error)
}

// step is a field on the way: a member of a list or of a map where that is what it holds.
type step struct {
	name  protoreflect.Name
	index int
	key   string
	kind  stepKind
}

type stepKind uint8

const (
	plainStep stepKind = iota
	listStep
	mapStep
)

// at returns where the walker is, as in "virtual_hosts[0].routes[2]".
func (w *walker) at() string {
	var b strings.Builder
	for i, s := range w.path {
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(string(s.name))
		switch s.kind {
		case listStep:
			fmt.Fprintf(&b, "[%d]", s.index)
		case mapStep:
			b.WriteString("[" + s.key + "]")
		}
	}
	return b.String()
}

func (w *walker) walk(m protoreflect.Message, packed bool) {
	x := m.Interface()
	if a, ok := x.(*anypb.Any); ok {
		inner, err := a.UnmarshalNew()
		if err == nil {
			w.walk(inner.ProtoReflect(), true)
		} else if w.broken != nil {
			w.broken(err)
		}
		return
	}
	w.do(x, packed)
	m.Range(func(d protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case d.IsMap():
			if d.MapValue().Kind() == protoreflect.MessageKind {
				v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
					w.enter(step{name: d.Name(), key: k.String(), kind: mapStep}, v.Message())
					return true
				})
			}
		case d.Kind() != protoreflect.MessageKind:
		case d.IsList():
			list := v.List()
			for i := range list.Len() {
				w.enter(step{name: d.Name(), index: i, kind: listStep}, list.Get(i).Message())
			}
		default:
			w.enter(step{name: d.Name()}, v.Message())
		}
		return true
	})
}

func (w *walker) enter(s step, m protoreflect.Message) {
	w.path = append(w.path, s)
	w.walk(m, false)
	w.path = w.path[:len(w.path)-1]
}

func field(path, name string) string {
	switch {
	case path == "":
		return name
	case name == "":
		return path
	}
	return path + "." + name
}

// below puts the faults from the nth on below a path.
func (f faults) below(n int, path string) {
	for i := range f[n:] {
		f[n+i].path = field(path, f[n+i].path)
	}
}

// message applies every rule that a message can be judged by alone: Envoy's protobuf rules, in packed messages too, and those
// that Envoy lacks.
func (f *faults) message(m validated) {
	f.check("", m)
	w := &walker{}
	w.do = func(m proto.Message, packed bool) {
		n := len(*f)
		if v, ok := m.(validated); ok && packed {
			f.check("", v)
		}
		f.routing(m)
		f.upstream(m, len(w.path) == 0)
		f.downstream(m)
		if len(*f) > n {
			f.below(n, w.at())
		}
	}
	w.broken = func(err error) { f.add(codeRule, w.at(), "%s", err) }
	w.walk(m.ProtoReflect(), false)
}

// routing applies the rules of route tables.
func (f *faults) routing(m proto.Message) {
	switch m := m.(type) {
	case *routev3.RouteConfiguration:
		f.headers(m.RequestHeadersToAdd, m.RequestHeadersToRemove, m.ResponseHeadersToAdd, m.ResponseHeadersToRemove)
		f.virtualHosts(m.VirtualHosts)
	case *routev3.VirtualHost:
		f.headers(m.RequestHeadersToAdd, m.RequestHeadersToRemove, m.ResponseHeadersToAdd, m.ResponseHeadersToRemove)
		for i, d := range m.Domains {
			n := len(*f)
			if domain("", d, f); len(*f) > n {
				f.below(n, fmt.Sprintf("domains[%d]", i))
			}
		}
	case *routev3.Route:
		f.headers(m.RequestHeadersToAdd, m.RequestHeadersToRemove, m.ResponseHeadersToAdd, m.ResponseHeadersToRemove)
	case *routev3.WeightedCluster_ClusterWeight:
		f.headers(m.RequestHeadersToAdd, m.RequestHeadersToRemove, m.ResponseHeadersToAdd, m.ResponseHeadersToRemove)
	case *routev3.HeaderMatcher:
		if !token(strings.TrimPrefix(m.Name, ":")) {
			f.add(codeHeaderName, "name", "%q is no header name", m.Name)
		}
	case *routev3.RetryPolicy:
		if m.RetryOn != "" {
			retryOn("retry_on", m.RetryOn, f)
		}
	case *routev3.RouteAction_HashPolicy_Header:
		if !token(m.HeaderName) {
			f.add(codeHeaderName, "header_name", "%q is no header name", m.HeaderName)
		}
	case *typev3.FractionalPercent:
		if whole := map[typev3.FractionalPercent_DenominatorType]uint32{0: 100, 1: 10_000, 2: 1_000_000}[m.Denominator]; m.Numerator > whole {
			f.add(codeValue, "", "%d of %d is more than everything", m.Numerator, whole)
		}
	case *matcherv3.RegexMatcher:
		parseRegex("regex", m.Regex, f)
	case *matcherv3.RegexMatchAndSubstitute:
		substitution("", &ir.RegexRewrite{Pattern: m.GetPattern().GetRegex(), Substitution: m.Substitution}, f)
	}
}

// virtualHosts refuses names and domains that stand twice.
func (f *faults) virtualHosts(hosts []*routev3.VirtualHost) {
	names, domains := map[string]int{}, map[string]string{}
	for i, v := range hosts {
		if first, taken := names[v.Name]; taken {
			f.add(codeDuplicate, fmt.Sprintf("virtual_hosts[%d].name", i), "virtual host %d has the name %q too", first, v.Name)
		}
		names[v.Name] = i
		for _, d := range v.Domains {
			low := strings.ToLower(d)
			if first, taken := domains[low]; taken {
				f.add(codeDomain, fmt.Sprintf("virtual_hosts[%d].domains", i), "virtual host %q has %q too", first, d)
			}
			domains[low] = v.Name
		}
	}
}

func (f *faults) headers(request []*corev3.HeaderValueOption, requestOff []string, response []*corev3.HeaderValueOption, responseOff []string) {
	add := func(side string, list []*corev3.HeaderValueOption) {
		for i, o := range list {
			n := len(*f)
			h := ir.HeaderValue{Name: o.GetHeader().GetKey(), Value: o.GetHeader().GetValue()}
			changeable("key", h.Name, f)
			printable("value", &h, f)
			format("value", h.Value, f)
			if len(*f) > n {
				f.below(n, fmt.Sprintf("%s_headers_to_add[%d].header", side, i))
			}
		}
	}
	add("request", request)
	add("response", response)
	for _, n := range requestOff {
		changeable("request_headers_to_remove", n, f)
	}
	for _, n := range responseOff {
		changeable("response_headers_to_remove", n, f)
	}
}

// maxTable is the largest table of a consistent hash that is let through: a ring of 8 million entries, which Envoy's own rules
// allow, costs it two seconds and 190 MiB.
const maxTable = 1 << 20

func (f *faults) table(path string, size uint64) {
	if size > maxTable {
		f.add(codeValue, path, "a table of %d entries is above the limit of %d", size, maxTable)
	}
}

// upstream applies the rules of clusters and endpoints.
// root says that the message is a resource of its own.
func (f *faults) upstream(m proto.Message, root bool) {
	switch m := m.(type) {
	case *clusterv3.Cluster:
		if reserved(m.Name) {
			f.add(codeReserved, "name", "%q is one of Chancery's own clusters", m.Name)
		}
	case *clusterv3.CircuitBreakers:
		seen := map[corev3.RoutingPriority]bool{}
		for _, t := range m.Thresholds {
			if seen[t.Priority] {
				f.add(codeValue, "thresholds", "priority %s stands twice", t.Priority)
			}
			seen[t.Priority] = true
		}
	case *clusterv3.Cluster_RingHashLbConfig:
		f.table("minimum_ring_size", m.GetMinimumRingSize().GetValue())
	case *ringv3.RingHash:
		f.table("minimum_ring_size", m.GetMinimumRingSize().GetValue())
	case *clusterv3.Cluster_MaglevLbConfig:
		f.table("table_size", m.GetTableSize().GetValue())
	case *maglevv3.Maglev:
		f.table("table_size", m.GetTableSize().GetValue())
	case *endpointv3.ClusterLoadAssignment:
		f.endpoints(m, root)
	}
}

// endpoints refuses gaps between priorities, weights that overflow, and, in a set of its own, names.
func (f *faults) endpoints(m *endpointv3.ClusterLoadAssignment, own bool) {
	weights, highest := map[uint32]uint64{}, uint32(0)
	for i, l := range m.Endpoints {
		weights[l.Priority] += uint64(l.GetLoadBalancingWeight().GetValue())
		highest = max(highest, l.Priority)
		sum := uint64(0)
		for _, e := range l.LbEndpoints {
			sum += uint64(e.GetLoadBalancingWeight().GetValue())
			a := e.GetEndpoint().GetAddress().GetSocketAddress()
			if _, err := netip.ParseAddr(a.GetAddress()); err != nil && a != nil && own {
				f.add(codeValue, fmt.Sprintf("endpoints[%d].lb_endpoints", i), "%q is no IP address", a.Address)
			}
		}
		if sum > 1<<32-1 {
			f.add(codeWeights, fmt.Sprintf("endpoints[%d].lb_endpoints", i), "the sum of the weights is above 4294967295")
		}
	}
	for p := range highest {
		if _, there := weights[p]; !there {
			f.add(codeValue, "endpoints", "there is a priority %d but none of %d; Envoy would never use it", highest, p)
			break
		}
	}
	for _, sum := range weights {
		if sum > 1<<32-1 {
			f.add(codeWeights, "endpoints", "the sum of the weights is above 4294967295")
		}
	}
}

// downstream applies the rules of listeners, and of what stands on both sides.
func (f *faults) downstream(m proto.Message) {
	switch m := m.(type) {
	case *listenerv3.Listener:
		f.serverNames(m)
		f.chains(m)
	case *hcmv3.HttpConnectionManager:
		f.terminal(m)
	case *corev3.CidrRange:
		a, err := netip.ParseAddr(m.AddressPrefix)
		if bits := m.GetPrefixLen().GetValue(); err != nil || int64(bits) > int64(a.BitLen()) {
			f.add(codeValue, "", "%s/%d is no range of addresses", m.AddressPrefix, bits)
		}
	case *tlsv3.TlsParameters:
		tlsRange("", m.TlsMinimumProtocolVersion, m.TlsMaximumProtocolVersion, f)
	case *corev3.DataSource:
		if name := m.GetFilename(); name != "" {
			file("filename", name, f)
		}
	case *filev3.FileAccessLog:
		file("path", m.Path, f)
	case *luav3.Lua:
		//lint:ignore SA1019 deprecated, but Envoy runs it
		script("inline_code", m.GetInlineCode(), f)
		script("default_source_code", held(m.DefaultSourceCode), f)
		for name, s := range m.SourceCodes {
			script("source_codes["+name+"]", held(s), f)
		}
	case *luav3.LuaPerRoute:
		script("source_code", held(m.GetSourceCode()), f)
	}
}

// held returns what a data source holds itself.
func held(s *corev3.DataSource) string {
	if b := s.GetInlineBytes(); len(b) > 0 {
		return string(b)
	}
	return s.GetInlineString()
}

// serverNames refuses a match by server name on a listener that does not look at TLS.
func (f *faults) serverNames(m *listenerv3.Listener) {
	for _, l := range m.ListenerFilters {
		if strings.HasSuffix(l.GetTypedConfig().GetTypeUrl(), ".TlsInspector") {
			return
		}
	}
	if m.GetUdpListenerConfig() != nil {
		return
	}
	for i, c := range m.FilterChains {
		if len(c.GetFilterChainMatch().GetServerNames()) > 0 {
			f.add(codeInspector, fmt.Sprintf("filter_chains[%d].filter_chain_match.server_names", i), "the listener does not look at TLS")
		}
	}
}

// maxMatches bounds the combinations of one chain match that are compared.
const maxMatches = 10_000

// chains refuses matches that take the same connections: Envoy refuses the whole listener for one.
func (f *faults) chains(m *listenerv3.Listener) {
	if len(m.FilterChains) == 0 && m.DefaultFilterChain == nil {
		f.add(codeNoChain, "filter_chains", "there is none")
	}
	owner := map[string]int{}
	for i, c := range m.FilterChains {
		for _, key := range combinations(c.GetFilterChainMatch()) {
			if first, taken := owner[key]; taken {
				f.add(codeChainMatch, fmt.Sprintf("filter_chains[%d].filter_chain_match", i), "filter chain %q takes the same connections", m.FilterChains[first].Name)
				break
			}
			owner[key] = i
		}
	}
}

// combinations returns one key for each combination of the members of a match.
func combinations(m *listenerv3.FilterChainMatch) []string {
	keys := []string{fmt.Sprintf("%d|%s|%s", m.GetDestinationPort().GetValue(), m.GetTransportProtocol(), m.GetSourceType())}
	ranges := func(list []*corev3.CidrRange) (out []string) {
		for _, r := range list {
			p, err := netip.ParsePrefix(fmt.Sprintf("%s/%d", r.AddressPrefix, r.GetPrefixLen().GetValue()))
			if err != nil {
				continue // that has been said
			}
			out = append(out, p.Masked().String())
		}
		return out
	}
	var ports []string
	for _, p := range m.GetSourcePorts() {
		ports = append(ports, fmt.Sprint(p))
	}
	for _, list := range [][]string{m.GetServerNames(), m.GetApplicationProtocols(), ranges(m.GetPrefixRanges()), ranges(m.GetSourcePrefixRanges()), ranges(m.GetDirectSourcePrefixRanges()), ports} {
		if len(list) == 0 {
			list = []string{""}
		}
		if len(keys)*len(list) > maxMatches {
			return nil
		}
		next := make([]string, 0, len(keys)*len(list))
		for _, k := range keys {
			for _, x := range list {
				next = append(next, k+"|"+strings.ToLower(x))
			}
		}
		keys = next
	}
	return keys
}

// terminal refuses a connection manager without a router at its end: Envoy takes one without any filter.
func (f *faults) terminal(m *hcmv3.HttpConnectionManager) {
	if n := len(m.HttpFilters); n == 0 || !strings.HasSuffix(m.HttpFilters[n-1].GetTypedConfig().GetTypeUrl(), ".router.v3.Router") {
		f.add(codeFilter, "http_filters", "the last filter is not the router, so no request is answered")
	}
}
