package envoy

import (
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// tcpProxy builds the network filter that forwards bytes. Targets that do not exist give way to the unavailable cluster, which
// closes their share of the connections.
func tcpProxy(c *ir.TCPChain, present func(string) bool, f *faults) *listenerv3.Filter {
	m := &tcpv3.TcpProxy{StatPrefix: c.StatPrefix}
	weights("tcp_proxy.weighted_clusters", c.Clusters, f)
	if len(c.Clusters) == 1 {
		m.ClusterSpecifier = &tcpv3.TcpProxy_Cluster{Cluster: orUnavailable(c.Clusters[0].Cluster, present)}
	} else {
		split := &tcpv3.TcpProxy_WeightedCluster{}
		for i := range c.Clusters {
			if c.Clusters[i].Weight == 0 {
				continue // Envoy wants at least 1 here; no share is no member.
			}
			split.Clusters = append(split.Clusters, &tcpv3.TcpProxy_WeightedCluster_ClusterWeight{
				Name: orUnavailable(c.Clusters[i].Cluster, present), Weight: c.Clusters[i].Weight,
			})
		}
		m.ClusterSpecifier = &tcpv3.TcpProxy_WeightedClusters{WeightedClusters: split}
	}
	if c.IdleTimeoutMillis != nil {
		m.IdleTimeout = timeout("tcp_proxy.idle_timeout", *c.IdleTimeoutMillis, f)
	}
	m.AccessLog = accessLogs(c.AccessLogs, present, f)
	return &listenerv3.Filter{Name: "envoy.filters.network.tcp_proxy", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: f.pack("tcp_proxy", m)}}
}
