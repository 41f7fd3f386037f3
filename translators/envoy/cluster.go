package envoy

import (
	"strconv"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	dnscommonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/common/dns/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/dns/v3" // what dnsCluster appends
	"google.golang.org/protobuf/encoding/protowire"
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

// cluster appends one upstream, a config.cluster.v3.Cluster.
func (w *encoding) cluster(c *ir.Cluster, f *faults) {
	w.required(1, c.Name)
	if c.Discovery == ir.DiscoveryEDS {
		w.message(fieldEDSConfig, &clusterv3.Cluster_EdsClusterConfig{EdsConfig: ads, ServiceName: c.EndpointSet})
	}
	if c.ConnectTimeoutMillis != 0 {
		w.odd = w.odd || c.ConnectTimeoutMillis < 0
		w.millis(4, c.ConnectTimeoutMillis)
	}
	policy, known := lbPolicies[c.LoadBalancer]
	if !known {
		f.add(codeValue, "lb_policy", "%q is none of round_robin, least_request, ring_hash, maglev", c.LoadBalancer)
	}
	w.number(6, uint64(policy))
	for i := range c.HealthChecks {
		h := healthCheck(&c.HealthChecks[i], f)
		if len(c.HealthChecks) > 1 {
			h.Name = strconv.Itoa(i) // Envoy refuses several without names.
		}
		w.message(8, h)
	}
	if len(c.CircuitBreakers) > 0 {
		w.message(10, circuitBreakers(c.CircuitBreakers, f))
	}
	if c.TLS != nil {
		w.message(24, upstreamTLS(c.TLS, f))
	}
	w.text(28, c.StatName) // alt_stat_name
	if k := c.Keepalive; k != nil {
		w.message(30, &clusterv3.UpstreamConnectionOptions{TcpKeepalive: &corev3.TcpKeepalive{
			KeepaliveProbes: optional(k.Probes), KeepaliveTime: optional(k.Time), KeepaliveInterval: optional(k.Interval),
		}})
	}
	if c.Discovery != ir.DiscoveryEDS {
		w.loadAssignment(c)
	}
	if o := protocolOptions(c, f); o != nil {
		w.packed(36, "envoy.extensions.upstreams.http.v3.HttpProtocolOptions", o)
	}
	w.discovery(c, f)
}

// checkCluster applies the cluster's protobuf rules.
func (w *encoding) checkCluster(f *faults) {
	if !w.doubtful(f) {
		return
	}
	if m := (&clusterv3.Cluster{}); w.decode(0, m, f) {
		f.check("", m)
	}
}

func optional(n *uint32) *wrapperspb.UInt32Value {
	if n == nil {
		return nil
	}
	return wrapperspb.UInt32(*n)
}

// discovery appends how the endpoints are found: Cluster.type or cluster_type.
func (w *encoding) discovery(c *ir.Cluster, f *faults) {
	switch c.Discovery {
	case ir.DiscoveryEDS:
		w.value(fieldClusterType, uint64(clusterv3.Cluster_EDS))
	case ir.DiscoveryStatic:
		w.value(fieldClusterType, uint64(clusterv3.Cluster_STATIC))
	case ir.DiscoveryStrictDNS, ir.DiscoveryLogicalDNS:
		w.dnsCluster(38, c, f)
	default:
		f.add(codeValue, "type", "discovery %q is none of strict_dns, logical_dns, static, eds", c.Discovery)
	}
}

// loadAssignment appends the targets of a cluster that finds them itself.
func (w *encoding) loadAssignment(c *ir.Cluster) {
	assignment := w.begin(fieldLoadAssignment)
	w.required(1, c.Name)
	locality := w.begin(2)
	w.lbEndpoint(c.Host, c.Port)
	for _, t := range c.More {
		w.lbEndpoint(t.Host, t.Port)
	}
	w.end(locality)
	w.end(assignment)
}

// lbEndpoint appends LocalityLbEndpoints.lb_endpoints: an endpoint with an address that is a socket address.
func (w *encoding) lbEndpoint(host string, port uint32) {
	lb := w.begin(2)
	endpoint := w.begin(1)
	address := w.begin(1)
	socket := w.begin(1)
	w.required(2, host)
	w.odd = w.odd || port > 65535
	w.value(3, uint64(port))
	w.end(socket)
	w.end(address)
	w.end(endpoint)
	w.end(lb)
}

var dnsFamilies = map[string]dnscommonv3.DnsLookupFamily{
	"":     dnscommonv3.DnsLookupFamily_V4_ONLY,
	"v4":   dnscommonv3.DnsLookupFamily_V4_ONLY,
	"v6":   dnscommonv3.DnsLookupFamily_V6_ONLY,
	"auto": dnscommonv3.DnsLookupFamily_AUTO,
}

// dnsCluster appends the cluster extension that replaces the deprecated fields dns_lookup_family and respect_dns_ttl: an
// extensions.clusters.dns.v3.DnsCluster.
func (w *encoding) dnsCluster(n protowire.Number, c *ir.Cluster, f *faults) {
	family, known := dnsFamilies[c.DNSFamily]
	if !known {
		f.add(codeValue, "cluster_type.dns_lookup_family", "%q is none of v4, v6, auto", c.DNSFamily)
	}
	at := w.begin(n)
	w.member(1, "envoy.cluster.dns")
	config := w.begin(2)
	w.member(1, typePrefix+"envoy.extensions.clusters.dns.v3.DnsCluster")
	value := w.begin(2)
	w.flag(5, c.RespectDNSTTL)
	w.number(8, uint64(family))
	w.flag(9, c.Discovery == ir.DiscoveryLogicalDNS) // all_addresses_in_single_endpoint
	w.end(value)
	w.end(config)
	w.end(at)
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
