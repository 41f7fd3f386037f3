package envoy

import (
	"strconv"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	dnscommonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/common/dns/v3"
	dnsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/dns/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/chancery-gateway/chancery/translators/ir"
)

var lbPolicies = map[string]clusterv3.Cluster_LbPolicy{
	"":              clusterv3.Cluster_ROUND_ROBIN,
	"round_robin":   clusterv3.Cluster_ROUND_ROBIN,
	"least_request": clusterv3.Cluster_LEAST_REQUEST,
	"ring_hash":     clusterv3.Cluster_RING_HASH,
	"maglev":        clusterv3.Cluster_MAGLEV,
}

// clusterMessage builds one upstream.
func clusterMessage(c *ir.Cluster, f *faults) *clusterv3.Cluster {
	policy, known := lbPolicies[c.LoadBalancer]
	if !known {
		f.add(codeValue, "lb_policy", "%q is none of round_robin, least_request, ring_hash, maglev", c.LoadBalancer)
	}
	out := &clusterv3.Cluster{Name: c.Name, AltStatName: c.StatName, LbPolicy: policy}
	if c.ConnectTimeoutMillis != 0 {
		out.ConnectTimeout = millis(c.ConnectTimeoutMillis)
	}
	discovery(out, c, f)
	if o := protocolOptions(c, f); o != nil {
		out.TypedExtensionProtocolOptions = map[string]*anypb.Any{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": o}
	}
	if len(c.CircuitBreakers) > 0 {
		out.CircuitBreakers = circuitBreakers(c.CircuitBreakers, f)
	}
	if k := c.Keepalive; k != nil {
		out.UpstreamConnectionOptions = &clusterv3.UpstreamConnectionOptions{TcpKeepalive: &corev3.TcpKeepalive{
			KeepaliveProbes: optional(k.Probes), KeepaliveTime: optional(k.Time), KeepaliveInterval: optional(k.Interval),
		}}
	}
	for i := range c.HealthChecks {
		h := healthCheck(&c.HealthChecks[i], f)
		if len(c.HealthChecks) > 1 {
			h.Name = strconv.Itoa(i) // Envoy refuses several without names.
		}
		out.HealthChecks = append(out.HealthChecks, h)
	}
	if c.TLS != nil {
		out.TransportSocket = upstreamTLS(c.TLS, f)
	}
	return out
}

func optional(n *uint32) *wrapperspb.UInt32Value {
	if n == nil {
		return nil
	}
	return wrapperspb.UInt32(*n)
}

// discovery says how the endpoints are found.
func discovery(out *clusterv3.Cluster, c *ir.Cluster, f *faults) {
	switch c.Discovery {
	case ir.DiscoveryEDS:
		out.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS}
		out.EdsClusterConfig = &clusterv3.Cluster_EdsClusterConfig{EdsConfig: ads, ServiceName: c.EndpointSet}
		return
	case ir.DiscoveryStatic:
		out.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}
	case ir.DiscoveryStrictDNS, ir.DiscoveryLogicalDNS:
		out.ClusterDiscoveryType = &clusterv3.Cluster_ClusterType{ClusterType: dnsCluster(c, f)}
	default:
		f.add(codeValue, "type", "discovery %q is none of strict_dns, logical_dns, static, eds", c.Discovery)
	}
	targets := &endpointv3.LocalityLbEndpoints{LbEndpoints: []*endpointv3.LbEndpoint{lbEndpoint(c.Host, c.Port)}}
	for _, t := range c.More {
		targets.LbEndpoints = append(targets.LbEndpoints, lbEndpoint(t.Host, t.Port))
	}
	out.LoadAssignment = &endpointv3.ClusterLoadAssignment{ClusterName: c.Name, Endpoints: []*endpointv3.LocalityLbEndpoints{targets}}
}

var dnsFamilies = map[string]dnscommonv3.DnsLookupFamily{
	"":     dnscommonv3.DnsLookupFamily_V4_ONLY,
	"v4":   dnscommonv3.DnsLookupFamily_V4_ONLY,
	"v6":   dnscommonv3.DnsLookupFamily_V6_ONLY,
	"auto": dnscommonv3.DnsLookupFamily_AUTO,
}

// dnsCluster builds the cluster extension that replaces the deprecated fields dns_lookup_family and respect_dns_ttl.
func dnsCluster(c *ir.Cluster, f *faults) *clusterv3.Cluster_CustomClusterType {
	family, known := dnsFamilies[c.DNSFamily]
	if !known {
		f.add(codeValue, "cluster_type.dns_lookup_family", "%q is none of v4, v6, auto", c.DNSFamily)
	}
	return &clusterv3.Cluster_CustomClusterType{Name: "envoy.cluster.dns", TypedConfig: f.pack("cluster_type", &dnsv3.DnsCluster{
		DnsLookupFamily:              family,
		RespectDnsTtl:                c.RespectDNSTTL,
		AllAddressesInSingleEndpoint: c.Discovery == ir.DiscoveryLogicalDNS,
	})}
}

func circuitBreakers(list []ir.CircuitBreaker, f *faults) *clusterv3.CircuitBreakers {
	out := &clusterv3.CircuitBreakers{}
	seen := map[corev3.RoutingPriority]bool{}
	for i := range list {
		b := &list[i]
		priority := corev3.RoutingPriority_DEFAULT
		switch b.Priority {
		case "", "default":
		case "high":
			priority = corev3.RoutingPriority_HIGH
		default:
			f.add(codeValue, "circuit_breakers.thresholds.priority", "%q is none of default, high", b.Priority)
		}
		if seen[priority] {
			f.add(codeValue, "circuit_breakers.thresholds.priority", "priority %q stands twice", b.Priority)
		}
		seen[priority] = true
		out.Thresholds = append(out.Thresholds, &clusterv3.CircuitBreakers_Thresholds{
			Priority: priority, MaxConnections: optional(b.MaxConnections), MaxPendingRequests: optional(b.MaxPendingRequests),
			MaxRequests: optional(b.MaxRequests), MaxRetries: optional(b.MaxRetries),
		})
	}
	return out
}

// standInCluster builds the cluster that has no endpoints.
func standInCluster() *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                 unavailable,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		LoadAssignment:       &endpointv3.ClusterLoadAssignment{ClusterName: unavailable},
	}
}
