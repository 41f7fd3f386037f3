package envoy

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	proxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/proxy_protocol/v3"
	inspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// listenerHead builds a listener without its filter chains, which are spliced in.
func listenerHead(l *ir.Listener, f *faults) *listenerv3.Listener {
	out := &listenerv3.Listener{Name: l.Name, Address: address(l.Address, l.Port)}
	if l.BufferLimit != 0 {
		out.PerConnectionBufferLimitBytes = wrapperspb.UInt32(l.BufferLimit)
	}
	if l.UDP {
		out.Address.GetSocketAddress().Protocol = corev3.SocketAddress_UDP
		out.UdpListenerConfig = &listenerv3.UdpListenerConfig{
			QuicOptions:            &listenerv3.QuicProtocolOptions{},
			DownstreamSocketConfig: &corev3.UdpSocketConfig{PreferGro: wrapperspb.Bool(true)},
		}
		return out
	}
	if l.ProxyProtocol {
		out.ListenerFilters = append(out.ListenerFilters, listenerFilter("envoy.filters.listener.proxy_protocol", &proxyv3.ProxyProtocol{}, f))
	}
	if l.TLSInspector {
		out.ListenerFilters = append(out.ListenerFilters, listenerFilter("envoy.filters.listener.tls_inspector", &inspectorv3.TlsInspector{}, f))
	}
	return out
}

func listenerFilter(name string, config validated, f *faults) *listenerv3.ListenerFilter {
	return &listenerv3.ListenerFilter{Name: name, ConfigType: &listenerv3.ListenerFilter_TypedConfig{TypedConfig: f.pack("listener_filters", config)}}
}

// filterChain builds one filter chain. present tells which clusters exist.
func filterChain(c *ir.FilterChain, quic bool, present func(string) bool, f *faults) *listenerv3.FilterChain {
	out := &listenerv3.FilterChain{Name: c.Name}
	if c.Match.Transport != "" || len(c.Match.ServerNames) > 0 {
		out.FilterChainMatch = &listenerv3.FilterChainMatch{ServerNames: c.Match.ServerNames, TransportProtocol: c.Match.Transport}
	}
	for _, n := range c.Match.ServerNames {
		if strings.Contains(strings.TrimPrefix(n, "*."), "*") {
			f.add(codeValue, "filter_chain_match.server_names", "%q is neither a name nor \"*.\" and a name", n)
		}
	}
	if c.TLS != nil {
		out.TransportSocket = downstreamTLS(c.TLS, quic, f)
	}
	switch {
	case c.HTTP != nil && c.TCP == nil:
		out.Filters = []*listenerv3.Filter{httpManager(c.HTTP, quic, present, f)}
	case c.TCP != nil && c.HTTP == nil:
		out.Filters = []*listenerv3.Filter{tcpProxy(c.TCP, present, f)}
	default:
		f.add(codeValue, "filters", "a filter chain serves either HTTP or TCP")
	}
	return out
}

// matchKeys are the connections that a chain match takes, one key per server name; chains that share a key clash.
func matchKeys(m *ir.ChainMatch) []string {
	if len(m.ServerNames) == 0 {
		return []string{m.Transport + "|"}
	}
	keys := make([]string, len(m.ServerNames))
	for i, n := range m.ServerNames {
		keys[i] = m.Transport + "|" + strings.ToLower(n)
	}
	return keys
}
