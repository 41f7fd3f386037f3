package validator

import (
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	aggregatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/aggregate/v3"
	bufferv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/buffer/v3"
	ringv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/ring_hash/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	upstreamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/chancery-gateway/chancery/translators/ir"
)

func endpointAt(host string, port uint32) *endpointv3.LbEndpoint {
	return &endpointv3.LbEndpoint{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
		SocketAddress: &corev3.SocketAddress{Address: host, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port}}}}}}}
}

// fixed gives the cluster its endpoints itself.
func fixed(c *clusterv3.Cluster, kind clusterv3.Cluster_DiscoveryType, hosts ...string) {
	c.ClusterDiscoveryType, c.EdsClusterConfig = &clusterv3.Cluster_Type{Type: kind}, nil
	l := &endpointv3.LocalityLbEndpoints{}
	for _, h := range hosts {
		l.LbEndpoints = append(l.LbEndpoints, endpointAt(h, 80))
	}
	c.LoadAssignment = &endpointv3.ClusterLoadAssignment{ClusterName: c.Name, Endpoints: []*endpointv3.LocalityLbEndpoints{l}}
}

func aggregate(name string, members ...string) *clusterv3.Cluster {
	return &clusterv3.Cluster{Name: name, ConnectTimeout: durationpb.New(time.Second), LbPolicy: clusterv3.Cluster_CLUSTER_PROVIDED, ClusterDiscoveryType: &clusterv3.Cluster_ClusterType{
		ClusterType: &clusterv3.Cluster_CustomClusterType{Name: "envoy.clusters.aggregate", TypedConfig: packed(&aggregatev3.ClusterConfig{Clusters: members})}}}
}

func upstreamSocket(c *tlsv3.CommonTlsContext) *corev3.TransportSocket {
	return &corev3.TransportSocket{Name: "envoy.transport_sockets.tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: packed(&tlsv3.UpstreamTlsContext{CommonTlsContext: c})}}
}

func trusting(source *corev3.DataSource) *tlsv3.CommonTlsContext {
	return &tlsv3.CommonTlsContext{ValidationContextType: &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{TrustedCa: source}}}
}

func inText(s string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: s}}
}

// writtenUpstreams are faults of clusters and endpoints (the study's 3.1 to 3.3, and 6).
func writtenUpstreams() []writtenFault {
	options := func(name string, a *anypb.Any) func(*hand) {
		return func(h *hand) { h.cluster.TypedExtensionProtocolOptions = map[string]*anypb.Any{name: a} }
	}
	ring := func(lowest, highest uint64) func(*hand) {
		return func(h *hand) {
			h.cluster.LbPolicy = clusterv3.Cluster_RING_HASH
			h.cluster.LbConfig = &clusterv3.Cluster_RingHashLbConfig_{RingHashLbConfig: &clusterv3.Cluster_RingHashLbConfig{MinimumRingSize: wrapperspb.UInt64(lowest), MaximumRingSize: wrapperspb.UInt64(highest)}}
		}
	}
	maglev := func(size uint64) func(*hand) {
		return func(h *hand) {
			h.cluster.LbPolicy = clusterv3.Cluster_MAGLEV
			h.cluster.LbConfig = &clusterv3.Cluster_MaglevLbConfig_{MaglevLbConfig: &clusterv3.Cluster_MaglevLbConfig{TableSize: wrapperspb.UInt64(size)}}
		}
	}
	locality := func(priority uint32, weight uint32, hosts ...string) *endpointv3.LocalityLbEndpoints {
		l := &endpointv3.LocalityLbEndpoints{Priority: priority, Locality: &corev3.Locality{Zone: hosts[0]}}
		if weight > 0 {
			l.LoadBalancingWeight = wrapperspb.UInt32(weight)
		}
		for _, h := range hosts {
			l.LbEndpoints = append(l.LbEndpoints, endpointAt(h, 80))
		}
		return l
	}
	checked := func(h *hand) {
		h.cluster.HealthChecks = []*corev3.HealthCheck{{Timeout: durationpb.New(time.Second), Interval: durationpb.New(time.Second), HealthyThreshold: wrapperspb.UInt32(1),
			UnhealthyThreshold: wrapperspb.UInt32(1), HealthChecker: &corev3.HealthCheck_TcpHealthCheck_{TcpHealthCheck: &corev3.HealthCheck_TcpHealthCheck{}}}}
	}
	return []writtenFault{
		{"cluster: name where an address must be", asked, `malformed IP address`, `malformed IP address`, func(h *hand) { fixed(h.cluster, clusterv3.Cluster_STATIC, "name.example.com") }},
		{"cluster: EDS without its settings", asked, `(?i)eds`, `(?i)eds`, func(h *hand) { h.cluster.EdsClusterConfig = nil }},
		{"cluster: EDS of an unknown set", rule, `there is no endpoint set "nope"`, notAsked, func(h *hand) { h.cluster.EdsClusterConfig.ServiceName = "nope" }},
		{"endpoints: taken away from a cluster that needs them", rule, `needed still`, notAsked, func(h *hand) { h.gone = ir.TypeEndpoint }},
		{"cluster: taken away from routes that need it", rule, `needed still`, notAsked, func(h *hand) {
			h.action.ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: "guilty"}
			h.gone = ir.TypeCluster
		}},
		{"configuration: taken away from a listener that needs it", rule, `needed still`, notAsked, func(h *hand) { h.gone = ir.TypeRouteConfig }},
		{"cluster: LOGICAL_DNS of two endpoints", asked, `(?i)LOGICAL_DNS|single`, `(?i)LOGICAL_DNS|single`, func(h *hand) { fixed(h.cluster, clusterv3.Cluster_LOGICAL_DNS, "a.example.com", "b.example.com") }},
		{"cluster: garbage CA", asked, `(?i)CA|certificate`, `(?i)CA|certificate`, func(h *hand) { h.cluster.TransportSocket = upstreamSocket(trusting(inText("nonsense"))) }},
		{"cluster: absent CA file", asked, `/absent/ca`, `/absent/ca`, func(h *hand) { h.cluster.TransportSocket = upstreamSocket(trusting(filename("/absent/ca"))) }},
		{"cluster: CA file that is a device", rule, `CH-ENVOY-021 transport_socket`, notAsked, func(h *hand) { h.cluster.TransportSocket = upstreamSocket(trusting(filename("/dev/zero"))) }},
		{"cluster: unknown secret", rule, `there is no secret "nope"`, notAsked, func(h *hand) {
			h.cluster.TransportSocket = upstreamSocket(&tlsv3.CommonTlsContext{TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{overSDS("nope")}})
		}},
		{"cluster: unknown cipher", asked, `(?i)cipher`, `(?i)cipher`, func(h *hand) {
			h.cluster.TransportSocket = upstreamSocket(&tlsv3.CommonTlsContext{TlsParams: &tlsv3.TlsParameters{CipherSuites: []string{"NOPE"}}})
		}},
		{"cluster: TLS minimum above maximum", rule, `CH-ENVOY-008 transport_socket`, "", func(h *hand) {
			h.cluster.TransportSocket = upstreamSocket(&tlsv3.CommonTlsContext{TlsParams: &tlsv3.TlsParameters{TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_3, TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_2}})
		}},
		{"cluster: TLS maximum below Envoy's minimum", rule, `CH-ENVOY-008 transport_socket`, "", func(h *hand) {
			h.cluster.TransportSocket = upstreamSocket(&tlsv3.CommonTlsContext{TlsParams: &tlsv3.TlsParameters{TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_1}})
		}},
		{"cluster: ring whose minimum is above its maximum", asked, `(?i)ring`, `(?i)ring`, ring(2048, 1024)},
		{"cluster: ring of eight million", rule, `CH-ENVOY-016 ring_hash_lb_config.minimum_ring_size`, "", ring(8<<20, 8<<20)},
		{"cluster: ring of eight million as an extension", rule, `CH-ENVOY-016 load_balancing_policy`, "", func(h *hand) {
			h.cluster.LoadBalancingPolicy = &clusterv3.LoadBalancingPolicy{Policies: []*clusterv3.LoadBalancingPolicy_Policy{{TypedExtensionConfig: &corev3.TypedExtensionConfig{
				Name: "envoy.load_balancing_policies.ring_hash", TypedConfig: packed(&ringv3.RingHash{MinimumRingSize: wrapperspb.UInt64(8 << 20), MaximumRingSize: wrapperspb.UInt64(8 << 20)})}}}}
		}},
		{"cluster: ring above Envoy's limit", rule, `CH-ENVOY-001 ring_hash_lb_config`, `RingSize`, ring(9<<20, 9<<20)},
		{"cluster: maglev table of no prime", asked, `(?i)prime`, `(?i)prime`, maglev(65536)},
		{"cluster: maglev table of five million", rule, `CH-ENVOY-016 maglev_lb_config.table_size`, "", maglev(5000011)},
		{"cluster: CLUSTER_PROVIDED on STATIC", asked, `(?i)cluster.provided`, `(?i)cluster.provided`, func(h *hand) {
			fixed(h.cluster, clusterv3.Cluster_STATIC, "192.0.2.1")
			h.cluster.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
		}},
		{"cluster: unknown protocol options", asked, `(?i)registered|implementation|protocol options`, `(?i)registered|implementation|protocol options`, options("foo", packed(&bufferv3.Buffer{MaxRequestBytes: wrapperspb.UInt32(1)}))},
		{"cluster: empty protocol options", rule, `CH-ENVOY-001 typed_extension_protocol_options`, `is required`, options("envoy.extensions.upstreams.http.v3.HttpProtocolOptions", packed(&upstreamv3.HttpProtocolOptions{}))},
		{"cluster: unknown transport socket", asked, `(?i)registered|implementation`, `(?i)registered|implementation`, func(h *hand) {
			h.cluster.TransportSocket = &corev3.TransportSocket{Name: "foo", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: packed(&bufferv3.Buffer{MaxRequestBytes: wrapperspb.UInt32(1)})}}
		}},
		{"cluster: negative connect timeout", rule, `CH-ENVOY-001 connect_timeout`, `positive duration`, func(h *hand) { h.cluster.ConnectTimeout = durationpb.New(-time.Second) }},
		{"cluster: health check without its times", rule, `CH-ENVOY-001 health_checks\[0\]`, `is required`, func(h *hand) {
			h.cluster.HealthChecks = []*corev3.HealthCheck{{HealthChecker: &corev3.HealthCheck_TcpHealthCheck_{TcpHealthCheck: &corev3.HealthCheck_TcpHealthCheck{}}}}
		}},
		{"cluster: health check of no status", asked, `(?i)status|range`, `(?i)status|range`, func(h *hand) {
			checked(h)
			h.cluster.HealthChecks[0].HealthChecker = &corev3.HealthCheck_HttpHealthCheck_{HttpHealthCheck: &corev3.HealthCheck_HttpHealthCheck{Path: "/", ExpectedStatuses: []*typev3.Int64Range{{Start: 300, End: 200}}}}
		}},
		{"cluster: health check of what nobody answers", harmless, "", "", checked},
		{"cluster: names that a resolver does not know", harmless, "", "", func(h *hand) { fixed(h.cluster, clusterv3.Cluster_STRICT_DNS, "no.such.invalid", "nor.this.invalid") }},
		{"cluster: a logical name that a resolver does not know", harmless, "", "", func(h *hand) { fixed(h.cluster, clusterv3.Cluster_LOGICAL_DNS, "no.such.invalid") }},
		{"cluster: priority of a breaker twice", rule, `CH-ENVOY-016 circuit_breakers.thresholds`, "", func(h *hand) {
			h.cluster.CircuitBreakers = &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{MaxRequests: wrapperspb.UInt32(1)}, {MaxRequests: wrapperspb.UInt32(2)}}}
		}},
		{"cluster: name of the bootstrap's", rule, `CH-ENVOY-003 name: "xds_cluster"`, "", func(h *hand) {
			c := aggregate("xds_cluster", "other")
			h.added = append(h.added, c)
		}},
		{"cluster: aggregate of an unknown one", rule, `there is no cluster "nope"`, "", func(h *hand) { h.added = append(h.added, aggregate("sum", "other", "nope")) }},
		{"cluster: aggregate of itself", rule, `leads back to itself`, "", func(h *hand) { h.added = append(h.added, aggregate("sum", "sum")) }},
		{"cluster: aggregates in a loop", rule, `leads back to itself`, "", func(h *hand) {
			h.added = append(h.added, aggregate("sum1", "sum2"), aggregate("sum2", "sum3"), aggregate("sum3", "sum1"))
		}},
		{"cluster: aggregate of one that is refused", rule, `there is no cluster "(nope|sum1)"`, "", func(h *hand) {
			h.added = append(h.added, aggregate("sum0", "sum1"), aggregate("sum1", "nope"))
		}},
		{"cluster: UDP where TCP must be", harmless, "", "", func(h *hand) {
			fixed(h.cluster, clusterv3.Cluster_STATIC, "192.0.2.1")
			h.cluster.LoadAssignment.Endpoints[0].LbEndpoints[0].GetEndpoint().GetAddress().GetSocketAddress().Protocol = corev3.SocketAddress_UDP
		}},
		{"endpoints: name in place of an address", rule, `CH-ENVOY-016 endpoints\[0\]`, `malformed IP address`, func(h *hand) {
			h.endpoints.Endpoints[0].LbEndpoints = []*endpointv3.LbEndpoint{endpointAt("name.example.com", 80)}
		}},
		{"endpoints: port out of range", rule, `CH-ENVOY-001 .*port_value`, `PortValue`, func(h *hand) {
			h.endpoints.Endpoints[0].LbEndpoints = []*endpointv3.LbEndpoint{endpointAt("192.0.2.1", 70000)}
		}},
		{"endpoints: weight of zero", rule, `CH-ENVOY-001 .*load_balancing_weight`, `LoadBalancingWeight`, func(h *hand) {
			h.endpoints.Endpoints[0].LbEndpoints[0].LoadBalancingWeight = wrapperspb.UInt32(0)
		}},
		{"endpoints: priority above 128", rule, `CH-ENVOY-016 endpoints: there is a priority 129`, `Priority`, func(h *hand) { h.endpoints.Endpoints[0].Priority = 129 }},
		{"endpoints: gap between priorities", rule, `CH-ENVOY-016 endpoints: there is a priority 2 but none of 1`, "", func(h *hand) {
			h.endpoints.Endpoints = append(h.endpoints.Endpoints, locality(2, 0, "192.0.2.2"))
		}},
		{"endpoints: no first priority", rule, `CH-ENVOY-016 endpoints`, "", func(h *hand) { h.endpoints.Endpoints[0].Priority = 1 }},
		{"endpoints: gap between priorities of a ring", rule, `CH-ENVOY-016 endpoints`, "", func(h *hand) {
			h.cluster.LbPolicy = clusterv3.Cluster_RING_HASH
			h.endpoints.Endpoints = append(h.endpoints.Endpoints, locality(2, 0, "192.0.2.2"))
		}},
		{"endpoints: gap between priorities of maglev", rule, `CH-ENVOY-016 endpoints`, "", func(h *hand) {
			h.cluster.LbPolicy = clusterv3.Cluster_MAGLEV
			h.endpoints.Endpoints = append(h.endpoints.Endpoints, locality(2, 0, "192.0.2.2"))
		}},
		{"endpoints: weights of localities above 32 bits", rule, `CH-ENVOY-011 endpoints`, "", func(h *hand) {
			h.endpoints.Endpoints = append(h.endpoints.Endpoints, locality(0, 1<<31, "192.0.2.2"), locality(0, 1<<31, "192.0.2.3"))
		}},
		{"endpoints: address by a name that is not there", asked, `Address must be set`, `Address must be set`, func(h *hand) {
			h.endpoints.Endpoints[0].LbEndpoints = append(h.endpoints.Endpoints[0].LbEndpoints, &endpointv3.LbEndpoint{HostIdentifier: &endpointv3.LbEndpoint_EndpointName{EndpointName: "nope"}})
		}},
		{"endpoints: additional address that is none", asked, `malformed IP address`, `malformed IP address`, func(h *hand) {
			e := h.endpoints.Endpoints[0].LbEndpoints[0].GetEndpoint()
			e.AdditionalAddresses = []*endpointv3.Endpoint_AdditionalAddress{{Address: endpointAt("name.example.com", 80).GetEndpoint().Address}}
		}},
		{"endpoints: one twice", harmless, "", "", func(h *hand) {
			h.endpoints.Endpoints = append(h.endpoints.Endpoints, locality(0, 0, "192.0.2.1", "192.0.2.1"))
		}},
	}
}
