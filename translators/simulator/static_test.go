package simulator

import (
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/chancery-gateway/chancery/translators/envoy"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// staticConfig emits the program and inlines everything that would come over ADS.
func staticConfig(t *testing.T, p *ir.Program) []byte {
	t.Helper()
	out := envoy.NewEmitter(envoy.Options{}).Emit(p)
	for _, d := range out.Diagnostics {
		t.Errorf("the back end leaves something out: %s", d)
	}
	decode := func(value []byte, m proto.Message) {
		if err := proto.Unmarshal(value, m); err != nil {
			t.Fatal(err)
		}
	}
	encode := func(m proto.Message) *anypb.Any {
		a, err := anypb.New(m)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	routes, secrets := map[string]*routev3.RouteConfiguration{}, map[string]*tlsv3.Secret{}
	for _, r := range out.Resources[ir.TypeRouteConfig] {
		routes[r.Name] = &routev3.RouteConfiguration{}
		decode(r.Value, routes[r.Name])
	}
	for _, r := range out.Resources[ir.TypeSecret] {
		secrets[r.Name] = &tlsv3.Secret{}
		decode(r.Value, secrets[r.Name])
	}
	b := &bootstrapv3.Bootstrap{StaticResources: &bootstrapv3.Bootstrap_StaticResources{}, Admin: &bootstrapv3.Admin{Address: &corev3.Address{
		Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: "127.0.0.1", PortSpecifier: &corev3.SocketAddress_PortValue{}}}}}}
	for _, r := range out.Resources[ir.TypeCluster] {
		c := &clusterv3.Cluster{}
		decode(r.Value, c)
		b.StaticResources.Clusters = append(b.StaticResources.Clusters, c)
	}
	for _, r := range out.Resources[ir.TypeListener] {
		l := &listenerv3.Listener{}
		decode(r.Value, l)
		for _, c := range l.FilterChains {
			m := &hcmv3.HttpConnectionManager{}
			decode(c.Filters[0].GetTypedConfig().Value, m)
			m.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: routes[m.GetRds().RouteConfigName]}
			c.Filters[0].ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: encode(m)}
			if c.TransportSocket == nil {
				continue
			}
			s := &tlsv3.DownstreamTlsContext{}
			decode(c.TransportSocket.GetTypedConfig().Value, s)
			for _, wanted := range s.CommonTlsContext.TlsCertificateSdsSecretConfigs {
				s.CommonTlsContext.TlsCertificates = append(s.CommonTlsContext.TlsCertificates, secrets[wanted.Name].GetTlsCertificate())
			}
			s.CommonTlsContext.TlsCertificateSdsSecretConfigs = nil
			c.TransportSocket.ConfigType = &corev3.TransportSocket_TypedConfig{TypedConfig: encode(s)}
		}
		b.StaticResources.Listeners = append(b.StaticResources.Listeners, l)
	}
	text, err := protojson.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
