package validator

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	caresv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/network/dns_resolver/cares/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	upstreamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Names of what the probe listener asks for. Units are sent under these.
const (
	probeRoutes      = "probe-routes"
	probeChainRoutes = "probe-chain-routes"
	probeCertificate = "probe-certificate"
	probeAnchors     = "probe-anchors"
	probeExtension   = "probe-extension"
	probeEndpoints   = "probe-endpoints"
	probeListener    = "probe"
	probeCluster     = "probe-cluster-"
	adsCluster       = "chancery.validator/ads"
)

// extensionTypes are the filters that a unit of kind extension may hold: Envoy wants them named beforehand.
var extensionTypes = []string{
	"envoy.extensions.filters.http.buffer.v3.Buffer",
	"envoy.extensions.filters.http.compressor.v3.Compressor",
	"envoy.extensions.filters.http.cors.v3.Cors",
	"envoy.extensions.filters.http.ext_authz.v3.ExtAuthz",
	"envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor",
	"envoy.extensions.filters.http.fault.v3.HTTPFault",
	"envoy.extensions.filters.http.grpc_json_transcoder.v3.GrpcJsonTranscoder",
	"envoy.extensions.filters.http.grpc_stats.v3.FilterConfig",
	"envoy.extensions.filters.http.grpc_web.v3.GrpcWeb",
	"envoy.extensions.filters.http.header_mutation.v3.HeaderMutation",
	"envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication",
	"envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit",
	"envoy.extensions.filters.http.lua.v3.Lua",
	"envoy.extensions.filters.http.oauth2.v3.OAuth2",
	"envoy.extensions.filters.http.ratelimit.v3.RateLimit",
	"envoy.extensions.filters.http.rbac.v3.RBAC",
	"envoy.extensions.filters.http.wasm.v3.Wasm",
}

func packed(m proto.Message) *anypb.Any {
	a, err := anypb.New(m)
	if err != nil {
		panic(err) // messages of our own making have valid strings
	}
	return a
}

func encoded(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(err) // as above
	}
	return b
}

var overADS = &corev3.ConfigSource{ResourceApiVersion: corev3.ApiVersion_V3, ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}}}

func overSDS(name string) *tlsv3.SdsSecretConfig {
	return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: overADS}
}

func pipe(path string) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path}}}
}

func loopback(port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: "127.0.0.1", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port}}}}
}

// bootstrap returns Envoy's bootstrap as JSON. runtime are the entries of the traffic Envoy's runtime, which decide about
// verdicts. confined says that the child has a network of its own.
func bootstrap(ads, admin string, runtime map[string]any, confined bool) ([]byte, error) {
	layer, err := structpb.NewStruct(runtime)
	if err != nil {
		return nil, fmt.Errorf("runtime of Envoy: %w", err)
	}
	b := &bootstrapv3.Bootstrap{
		Node:            &corev3.Node{Id: "validator", Cluster: "chancery"},
		Admin:           &bootstrapv3.Admin{Address: pipe(admin)},
		StaticResources: &bootstrapv3.Bootstrap_StaticResources{Listeners: []*listenerv3.Listener{asker()}, Clusters: []*clusterv3.Cluster{control(ads), located()}},
		DynamicResources: &bootstrapv3.Bootstrap_DynamicResources{LdsConfig: overADS, CdsConfig: overADS,
			AdsConfig: &corev3.ApiConfigSource{ApiType: corev3.ApiConfigSource_DELTA_GRPC, TransportApiVersion: corev3.ApiVersion_V3,
				SetNodeOnFirstMessageOnly: true, // a node lists every extension: 50 kB with each answer
				GrpcServices:              []*corev3.GrpcService{{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: adsCluster}}}}}},
		LayeredRuntime: &bootstrapv3.LayeredRuntime{Layers: []*bootstrapv3.RuntimeLayer{{Name: "static_layer", LayerSpecifier: &bootstrapv3.RuntimeLayer_StaticLayer{StaticLayer: layer}}}},
		// Statistics of 5,000 clusters cost more than the clusters.
		StatsConfig: &metricsv3.StatsConfig{StatsMatcher: &metricsv3.StatsMatcher{StatsMatcher: &metricsv3.StatsMatcher_RejectAll{RejectAll: true}}},
	}
	if !confined {
		// A resolver that refuses at once: nothing leaves the host, and no cluster waits for an answer.
		b.TypedDnsResolverConfig = &corev3.TypedExtensionConfig{Name: "envoy.network.dns_resolver.cares", TypedConfig: packed(&caresv3.CaresDnsResolverConfig{
			Resolvers: []*corev3.Address{loopback(1)}, UseResolversAsFallback: false,
			DnsResolverOptions: &corev3.DnsResolverOptions{UseTcpForDnsLookups: true, NoDefaultSearchDomain: true},
		})}
	}
	return protojson.Marshal(b)
}

// asker is the listener that asks for everything that units are sent as. It never gets a connection.
func asker() *listenerv3.Listener {
	urls := make([]string, len(extensionTypes))
	for i, t := range extensionTypes {
		urls[i] = "type.googleapis.com/" + t
	}
	manager := &hcmv3.HttpConnectionManager{
		StatPrefix:     "probe",
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{ConfigSource: overADS, RouteConfigName: probeRoutes}},
		HttpFilters: []*hcmv3.HttpFilter{
			{Name: probeExtension, ConfigType: &hcmv3.HttpFilter_ConfigDiscovery{ConfigDiscovery: &corev3.ExtensionConfigSource{ConfigSource: overADS, TypeUrls: urls}}},
			{Name: "envoy.filters.http.router", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: packed(&routerv3.Router{})}},
		},
	}
	tls := &tlsv3.DownstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{
		TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{overSDS(probeCertificate)},
		ValidationContextType:          &tlsv3.CommonTlsContext_ValidationContextSdsSecretConfig{ValidationContextSdsSecretConfig: overSDS(probeAnchors)},
	}}
	return &listenerv3.Listener{
		Name: "chancery.validator/probe", Address: loopback(1), BindToPort: wrapperspb.Bool(false),
		FilterChains: []*listenerv3.FilterChain{{
			Filters:         []*listenerv3.Filter{{Name: "envoy.filters.network.http_connection_manager", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: packed(manager)}}},
			TransportSocket: &corev3.TransportSocket{Name: "envoy.transport_sockets.tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: packed(tls)}},
		}},
	}
}

func control(ads string) *clusterv3.Cluster {
	http2 := &upstreamv3.HttpProtocolOptions{UpstreamProtocolOptions: &upstreamv3.HttpProtocolOptions_ExplicitHttpConfig_{ExplicitHttpConfig: &upstreamv3.HttpProtocolOptions_ExplicitHttpConfig{
		ProtocolConfig: &upstreamv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{Http2ProtocolOptions: &corev3.Http2ProtocolOptions{}}}}}
	return &clusterv3.Cluster{
		Name: adsCluster, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		TypedExtensionProtocolOptions: map[string]*anypb.Any{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": packed(http2)},
		LoadAssignment: &endpointv3.ClusterLoadAssignment{ClusterName: adsCluster, Endpoints: []*endpointv3.LocalityLbEndpoints{{
			LbEndpoints: []*endpointv3.LbEndpoint{{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: pipe(ads)}}}}}}},
	}
}

// located is the cluster that asks for endpoints.
func located() *clusterv3.Cluster {
	return &clusterv3.Cluster{Name: probeEndpoints, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{EdsConfig: overADS}}
}

// good holds values that Envoy takes: they stand in wherever the verdict is about something else.
type good struct {
	certificate, anchors []byte // Secret without a name
	extension            []byte // TypedExtensionConfig without a name
	chain                []byte // FilterChain of a listener that is judged alone
}

func newGood() (*good, error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "probe"}, DNSNames: []string{"probe"}, IsCA: true,
		BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(100, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		return nil, err
	}
	inline := func(kind string, der []byte) *corev3.DataSource {
		return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})}}
	}
	return &good{
		certificate: encoded(&tlsv3.Secret{Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
			CertificateChain: inline("CERTIFICATE", der), PrivateKey: inline("PRIVATE KEY", private)}}}),
		anchors:   encoded(&tlsv3.Secret{Type: &tlsv3.Secret_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{TrustedCa: inline("CERTIFICATE", der)}}}),
		extension: encoded(&corev3.TypedExtensionConfig{TypedConfig: packed(&corsv3.Cors{})}),
		chain: encoded(&listenerv3.FilterChain{Filters: []*listenerv3.Filter{{Name: "envoy.filters.network.tcp_proxy", ConfigType: &listenerv3.Filter_TypedConfig{
			TypedConfig: packed(&tcpv3.TcpProxy{StatPrefix: "probe", ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: "probe"}})}}}}),
	}, nil
}

// bare takes Envoy's list of guilty names, which are ours, off a text.
func bare(text string) string {
	for _, prefix := range []string{"Error adding/updating listener(s) ", "Error adding/updating cluster(s) "} {
		if rest, found := strings.CutPrefix(text, prefix); found {
			if _, after, found := strings.Cut(rest, ": "); found {
				text = after
			}
		}
	}
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " ")
	if strings.Contains(text, "PRIVATE KEY") {
		return "(Envoy's text holds a private key and is left out)"
	}
	if len(text) > 2000 {
		text = strings.ToValidUTF8(text[:2000], "") + " ..."
	}
	if text == "" {
		text = "refused without a word"
	}
	return text
}
