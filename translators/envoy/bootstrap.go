package envoy

import (
	"fmt"
	"maps"
	"net"
	"strconv"
	"strings"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/health_check/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	upstreamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// adsCluster is the bootstrap's cluster of the control plane, as Emissary names it.
const adsCluster = "xds_cluster"

// BootstrapOptions say how Envoy reaches its control plane.
type BootstrapOptions struct {
	// ADSAddress is "host:port" or the absolute path of a Unix socket; "" means "127.0.0.1:8003".
	ADSAddress string
	// StateOfTheWorld asks for the whole state with each response in place of changes alone.
	StateOfTheWorld bool
	// Loopback is the address of the admin interface and the ready listener; "" means "127.0.0.1".
	Loopback string
}

// Bootstrap builds what Envoy reads at its start. Zero fields of b take Emissary's values: admin port 8001, node
// "chancery", expressions of at most 200 instructions. It returns an error for an ADS address that cannot be read, or a
// runtime entry that no JSON could hold.
func Bootstrap(b *ir.Bootstrap, o BootstrapOptions) (*bootstrapv3.Bootstrap, error) {
	if o.ADSAddress == "" {
		o.ADSAddress = "127.0.0.1:8003"
	}
	out, err := baseBootstrap(b, o)
	if err != nil {
		return nil, err
	}
	server, err := controlPlane(o.ADSAddress)
	if err != nil {
		return nil, err
	}
	out.StaticResources.Clusters = append(out.StaticResources.Clusters, server)
	api := corev3.ApiConfigSource_DELTA_GRPC
	if o.StateOfTheWorld {
		api = corev3.ApiConfigSource_GRPC
	}
	out.DynamicResources = &bootstrapv3.Bootstrap_DynamicResources{
		LdsConfig: overADS(), CdsConfig: overADS(),
		AdsConfig: &corev3.ApiConfigSource{
			ApiType: api, TransportApiVersion: corev3.ApiVersion_V3,
			SetNodeOnFirstMessageOnly: true, // a node lists every extension: 50 kB with each answer
			GrpcServices: []*corev3.GrpcService{{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
				EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: adsCluster}}}},
		},
	}
	return out, out.ValidateAll()
}

// maxProgram is the limit of RE2's program size; Emissary's default is 200.
func maxProgram(b *ir.Bootstrap) uint32 {
	if b == nil || b.RegexMaxSize == 0 {
		return 200
	}
	return b.RegexMaxSize
}

// NodeID is how the Envoy of a bootstrap names itself to Chancery. b may be nil.
func NodeID(b *ir.Bootstrap) string {
	if b == nil {
		b = &ir.Bootstrap{}
	}
	return or(b.NodeID, "chancery")
}

// Runtime returns the entries of Envoy's static runtime layer. b may be nil.
func Runtime(b *ir.Bootstrap) map[string]any {
	entries := map[string]any{}
	if b != nil {
		maps.Copy(entries, b.Runtime)
	}
	entries["re2.max_program_size.error_level"] = float64(maxProgram(b))
	return entries
}

// baseBootstrap builds all but the way to the control plane.
func baseBootstrap(b *ir.Bootstrap, o BootstrapOptions) (*bootstrapv3.Bootstrap, error) {
	if b == nil {
		b = &ir.Bootstrap{}
	}
	loopback, adminPort := o.Loopback, b.AdminPort
	if loopback == "" {
		loopback = "127.0.0.1"
	}
	if adminPort == 0 {
		adminPort = 8001
	}
	runtime, err := structpb.NewStruct(Runtime(b))
	if err != nil {
		return nil, fmt.Errorf("bootstrap: runtime: %w", err)
	}
	out := &bootstrapv3.Bootstrap{
		Node:            &corev3.Node{Id: NodeID(b), Cluster: or(b.NodeCluster, "chancery")},
		Admin:           &bootstrapv3.Admin{Address: address(loopback, adminPort)},
		StaticResources: &bootstrapv3.Bootstrap_StaticResources{},
		LayeredRuntime: &bootstrapv3.LayeredRuntime{Layers: []*bootstrapv3.RuntimeLayer{
			{Name: "static_layer", LayerSpecifier: &bootstrapv3.RuntimeLayer_StaticLayer{StaticLayer: runtime}},
		}},
	}
	if b.ReadyPort != 0 {
		var f faults
		ready := readyListener(loopback, b.ReadyPort, &f)
		f.check("ready listener", ready)
		if len(f) > 0 {
			return nil, fmt.Errorf("bootstrap: ready listener: %s: %s", f[0].path, f[0].message)
		}
		out.StaticResources.Listeners = []*listenerv3.Listener{ready}
	}
	if b.Statsd != nil {
		if err := sendStatistics(out, b.Statsd); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// controlPlane builds the cluster of the ADS server: HTTP/2 with keepalive, so that a dead peer is noticed.
func controlPlane(at string) (*clusterv3.Cluster, error) {
	target, err := adsAddress(at)
	if err != nil {
		return nil, err
	}
	options, err := anypb.New(&upstreamv3.HttpProtocolOptions{
		UpstreamProtocolOptions: &upstreamv3.HttpProtocolOptions_ExplicitHttpConfig_{ExplicitHttpConfig: &upstreamv3.HttpProtocolOptions_ExplicitHttpConfig{
			ProtocolConfig: &upstreamv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{Http2ProtocolOptions: &corev3.Http2ProtocolOptions{
				ConnectionKeepalive: &corev3.KeepaliveSettings{Interval: durationpb.New(30 * time.Second), Timeout: durationpb.New(5 * time.Second)},
			}},
		}}})
	if err != nil {
		return nil, err
	}
	return &clusterv3.Cluster{
		Name:                          adsCluster,
		ConnectTimeout:                durationpb.New(time.Second),
		ClusterDiscoveryType:          &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		TypedExtensionProtocolOptions: map[string]*anypb.Any{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options},
		LoadAssignment: &endpointv3.ClusterLoadAssignment{ClusterName: adsCluster, Endpoints: []*endpointv3.LocalityLbEndpoints{{
			LbEndpoints: []*endpointv3.LbEndpoint{{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: target}}}},
		}}},
	}, nil
}

func adsAddress(at string) (*corev3.Address, error) {
	if strings.HasPrefix(at, "/") || strings.HasPrefix(at, "@") {
		return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: at}}}, nil
	}
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		return nil, fmt.Errorf("bootstrap: ADS address %q is neither host:port nor the path of a socket: %w", at, err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || net.ParseIP(host) == nil {
		return nil, fmt.Errorf("bootstrap: ADS address %q is not an IP address with a port", at)
	}
	return address(host, uint32(n)), nil
}

// readyListener builds the listener on which Envoy itself answers /ready, so that an answer means that a worker serves.
func readyListener(loopback string, port uint32, f *faults) *listenerv3.Listener {
	health := &healthv3.HealthCheck{
		PassThroughMode: wrapperspb.Bool(false),
		Headers: []*routev3.HeaderMatcher{{Name: ":path", HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{
			StringMatch: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: "/ready"}}}}},
	}
	manager := &hcmv3.HttpConnectionManager{
		StatPrefix:     "ready_http",
		RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{Name: "ready"}},
		HttpFilters: []*hcmv3.HttpFilter{
			httpFilter("envoy.filters.http.health_check", health, f),
			httpFilter("envoy.filters.http.router", &routerv3.Router{}, f),
		},
		NormalizePath: wrapperspb.Bool(true),
	}
	return &listenerv3.Listener{
		Name:    fmt.Sprintf("ambassador-listener-ready-%s-%d", loopback, port),
		Address: address(loopback, port),
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name: httpManagerName, ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: f.pack("ready", manager)}}}}},
	}
}
