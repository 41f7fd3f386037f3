package validator

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	serviceconfigv3 "github.com/envoyproxy/go-control-plane/envoy/config/ratelimit/v3"
	rulesv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tracev3 "github.com/envoyproxy/go-control-plane/envoy/config/trace/v3"
	filev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"
	grpclogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/grpc/v3"
	bufferv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/buffer/v3"
	authzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	transcoderv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/grpc_json_transcoder/v3"
	jwtv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"
	locallimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/local_ratelimit/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	oauthv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/oauth2/v3"
	limitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	wasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/wasm/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	vmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/wasm/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func grpcTo(cluster string) *corev3.GrpcService {
	return &corev3.GrpcService{Timeout: durationpb.New(time.Second), TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: cluster}}}
}

func httpTo(cluster string) *corev3.HttpUri {
	return &corev3.HttpUri{Uri: "http://x.example.com/y", Timeout: durationpb.New(time.Second), HttpUpstreamType: &corev3.HttpUri_Cluster{Cluster: cluster}}
}

func filterOf(name string, config func() proto.Message) func(*hand) {
	return func(h *hand) { h.filter(name, config()) }
}

func rules(p *rulesv3.Permission, who *rulesv3.Principal) func(*hand) {
	return filterOf("envoy.filters.http.rbac", func() proto.Message {
		return &rbacv3.RBAC{Rules: &rulesv3.RBAC{Policies: map[string]*rulesv3.Policy{"p": {Permissions: []*rulesv3.Permission{p}, Principals: []*rulesv3.Principal{who}}}}}
	})
}

var (
	anything = &rulesv3.Permission{Rule: &rulesv3.Permission_Any{Any: true}}
	anybody  = &rulesv3.Principal{Identifier: &rulesv3.Principal_Any{Any: true}}
)

func from(prefix string, bits uint32) *rulesv3.Principal {
	return &rulesv3.Principal{Identifier: &rulesv3.Principal_DirectRemoteIp{DirectRemoteIp: &corev3.CidrRange{AddressPrefix: prefix, PrefixLen: wrapperspb.UInt32(bits)}}}
}

func deep(n int) *rulesv3.Permission {
	if n == 0 {
		return anything
	}
	return &rulesv3.Permission{Rule: &rulesv3.Permission_NotRule{NotRule: deep(n - 1)}}
}

func tokens(p *jwtv3.JwtProvider, wanted string) func(*hand) {
	return filterOf("envoy.filters.http.jwt_authn", func() proto.Message {
		return &jwtv3.JwtAuthentication{Providers: map[string]*jwtv3.JwtProvider{"one": p}, Rules: []*jwtv3.RequirementRule{{
			Match:           &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
			RequirementType: &jwtv3.RequirementRule_Requires{Requires: &jwtv3.JwtRequirement{RequiresType: &jwtv3.JwtRequirement_ProviderName{ProviderName: wanted}}}}}}
	})
}

func keys(text string) *jwtv3.JwtProvider {
	return &jwtv3.JwtProvider{Issuer: "x", JwksSourceSpecifier: &jwtv3.JwtProvider_LocalJwks{LocalJwks: inText(text)}}
}

func code(source *corev3.AsyncDataSource, runtime string) func(*hand) {
	return filterOf("envoy.filters.http.wasm", func() proto.Message {
		return &wasmv3.Wasm{Config: &vmv3.PluginConfig{Name: "x", Vm: &vmv3.PluginConfig_VmConfig{VmConfig: &vmv3.VmConfig{VmId: "x", Runtime: runtime, Code: source}}}}
	})
}

func local(source *corev3.DataSource) *corev3.AsyncDataSource {
	return &corev3.AsyncDataSource{Specifier: &corev3.AsyncDataSource_Local{Local: source}}
}

func bucket(most, each uint32, every time.Duration) func(*hand) {
	return filterOf("envoy.filters.http.local_ratelimit", func() proto.Message {
		return &locallimitv3.LocalRateLimit{StatPrefix: "x", TokenBucket: &typev3.TokenBucket{MaxTokens: most, TokensPerFill: wrapperspb.UInt32(each), FillInterval: durationpb.New(every)}}
	})
}

func script(code string) func(*hand) {
	return filterOf("envoy.filters.http.lua", func() proto.Message { return &luav3.Lua{DefaultSourceCode: inText(code)} })
}

func inline(cert, key *corev3.DataSource) func(*hand) {
	return func(h *hand) {
		h.chain.TransportSocket = downstream(&tlsv3.CommonTlsContext{TlsCertificates: []*tlsv3.TlsCertificate{{CertificateChain: cert, PrivateKey: key}}})
	}
}

func downstream(c *tlsv3.CommonTlsContext) *corev3.TransportSocket {
	return &corev3.TransportSocket{Name: "envoy.transport_sockets.tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: packed(&tlsv3.DownstreamTlsContext{CommonTlsContext: c})}}
}

func fileLog(path, format string) func(*hand) {
	return func(h *hand) {
		l := &filev3.FileAccessLog{Path: path}
		if format != "" {
			l.AccessLogFormat = &filev3.FileAccessLog_LogFormat{LogFormat: &corev3.SubstitutionFormatString{Format: &corev3.SubstitutionFormatString_TextFormatSource{TextFormatSource: inText(format)}}}
		}
		logTo("envoy.access_loggers.file", l)(h)
	}
}

func logTo(name string, config proto.Message) func(*hand) {
	return func(h *hand) {
		h.manager.AccessLog = []*accesslogv3.AccessLog{{Name: name, ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: packed(config)}}}
	}
}

func trace(name string, config proto.Message) func(*hand) {
	return func(h *hand) {
		h.manager.Tracing = &hcmv3.HttpConnectionManager_Tracing{Provider: &tracev3.Tracing_Http{Name: name, ConfigType: &tracev3.Tracing_Http_TypedConfig{TypedConfig: packed(config)}}}
	}
}

func tcp(p *tcpv3.TcpProxy) func(*hand) {
	return func(h *hand) {
		p.StatPrefix = "x"
		h.chain.Filters = []*listenerv3.Filter{{Name: "envoy.filters.network.tcp_proxy", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: packed(p)}}}
	}
}

func another(h *hand, port uint32) *listenerv3.Listener {
	l := proto.Clone(h.listener).(*listenerv3.Listener)
	l.Name = "second"
	l.Address.GetSocketAddress().PortSpecifier = &corev3.SocketAddress_PortValue{PortValue: port}
	return l
}

// writtenListeners are faults of listeners, chains and filters (the study's 3.1 to 3.3, and 6).
func writtenListeners(t *testing.T, cert, key, otherKey string) []writtenFault {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	garbage := filepath.Join(t.TempDir(), "garbage.wasm")
	if err := os.WriteFile(garbage, []byte("no module"), 0o600); err != nil {
		t.Fatal(err)
	}
	routes := func(rc *routev3.RouteConfiguration) func(*hand) {
		return func(h *hand) { h.manager.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: rc} }
	}
	buffer := &bufferv3.Buffer{MaxRequestBytes: wrapperspb.UInt32(1)}
	return []writtenFault{
		// TLS.
		{"chain: garbage certificate in line", asked, `(?i)certificate`, `(?i)certificate`, inline(inText("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), inText(key))},
		{"chain: key of another certificate in line", asked, `(?i)key`, `(?i)key`, inline(inText(cert), inText(otherKey))},
		{"chain: absent certificate file", asked, `/absent/`, `/absent/`, inline(filename("/absent/crt"), filename("/absent/key"))},
		{"chain: certificate file that is a FIFO", asked, `no regular file but a FIFO`, hangs, inline(filename(fifo), filename(fifo))},
		{"chain: certificate file that is a device", rule, `CH-ENVOY-021 .*tls_certificates\[0\]`, `(?i)/dev/zero|failed|certificate`, inline(filename("/dev/zero"), filename("/dev/zero"))},
		{"chain: no certificate", asked, `(?i)certificate`, `(?i)certificate`, func(h *hand) { h.chain.TransportSocket = downstream(&tlsv3.CommonTlsContext{}) }},
		{"chain: unknown secret", rule, `there is no secret "nope"`, notAsked, func(h *hand) {
			h.chain.TransportSocket = downstream(&tlsv3.CommonTlsContext{TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{overSDS("nope")}})
		}},
		{"chain: unknown cipher", asked, `(?i)cipher`, `(?i)cipher`, func(h *hand) {
			h.chain.TransportSocket = downstream(&tlsv3.CommonTlsContext{TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{overSDS("guilty")}, TlsParams: &tlsv3.TlsParameters{CipherSuites: []string{"NOPE"}}})
		}},
		{"chain: TLS minimum above maximum", rule, `CH-ENVOY-008 .*tls_params`, "", func(h *hand) {
			h.chain.TransportSocket = downstream(&tlsv3.CommonTlsContext{TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{overSDS("guilty")},
				TlsParams: &tlsv3.TlsParameters{TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_3, TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_2}})
		}},
		{"chain: unknown transport socket", asked, `(?i)registered|implementation`, `(?i)registered|implementation`, func(h *hand) {
			h.chain.TransportSocket = &corev3.TransportSocket{Name: "foo", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: packed(buffer)}}
		}},
		// Filters.
		{"filter: script that does not parse", asked, `script load error`, `script load error`, script("function (")},
		{"filter: script that fails at load", asked, `script load error`, `script load error`, script("error('no')")},
		{"filter: script that loops at load", rule, `CH-ENVOY-020 .*default_source_code: a loop \(while\)`, hangs, script("while true do end")},
		{"filter: script that repeats at load", rule, `CH-ENVOY-020 .*a loop \(repeat\)`, hangs, script("--[[ while ]] repeat until false")},
		{"filter: script that ends the process", rule, `CH-ENVOY-020 .*os.exit`, ends, script("os.exit(1)")},
		{"filter: script that fills the memory", asked, `does not answer|ends when`, notAsked, script("local t = {}; (function() for i = 1, 1e18 do t[i % 64] = string.rep('x', i % 1e6) end end)()")},
		{"filter: body of a script that is a FIFO", asked, `no regular file but a FIFO`, hangs, filterOf("envoy.filters.http.lua", func() proto.Message { return &luav3.Lua{DefaultSourceCode: filename(fifo)} })},
		{"filter: unknown", asked, `(?i)registered|implementation`, `(?i)registered|implementation`, filterOf("foo", func() proto.Message {
			return &tcpv3.TcpProxy{StatPrefix: "x", ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: "other"}}
		})},
		{"filter: type that is not linked in", rule, `(?i)resolve|no.such`, notAsked, func(h *hand) {
			h.filter("envoy.filters.http.buffer", buffer)
			h.text = func(s string) string {
				return strings.ReplaceAll(s, "envoy.extensions.filters.http.buffer.v3.Buffer", "no.such.Message")
			}
		}},
		{"filter: against a protobuf rule", rule, `CH-ENVOY-001 .*http_filters\[\d\].typed_config.max_request_bytes`, `is required`, filterOf("envoy.filters.http.buffer", func() proto.Message { return &bufferv3.Buffer{} })},
		{"filter: router not last", rule, `CH-ENVOY-014 .*http_filters`, `(?i)terminal|router`, func(h *hand) {
			h.manager.HttpFilters = append(h.manager.HttpFilters, &hcmv3.HttpFilter{Name: "envoy.filters.http.buffer", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: packed(buffer)}})
		}},
		{"filter: no router", rule, `CH-ENVOY-014 .*http_filters: the last filter is not the router`, "", func(h *hand) { h.manager.HttpFilters = nil }},
		{"filter: none but others", rule, `CH-ENVOY-014`, `(?i)terminal`, func(h *hand) { h.manager.HttpFilters = h.manager.HttpFilters[:len(h.manager.HttpFilters)-1] }},
		{"filter: settings that come from nobody", rule, `there is no extension configuration "elsewhere"`, "", func(h *hand) {
			h.manager.HttpFilters = append([]*hcmv3.HttpFilter{{Name: "elsewhere", ConfigType: &hcmv3.HttpFilter_ConfigDiscovery{ConfigDiscovery: &corev3.ExtensionConfigSource{
				ConfigSource: overADS, TypeUrls: []string{"type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer"}}}}}, h.manager.HttpFilters...)
		}},
		{"filter: bad expression of access rules", rule, `CH-ENVOY-013 .*regex`, `missing \]`, rules(&rulesv3.Permission{Rule: &rulesv3.Permission_UrlPath{UrlPath: &matcherv3.PathMatcher{Rule: &matcherv3.PathMatcher_Path{
			Path: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: regexOf("[a-")}}}}}}, anybody)},
		{"filter: access rules of no address", rule, `CH-ENVOY-016 .*is no range of addresses`, `(?i)malformed|invalid`, rules(anything, from("not an address", 8))},
		{"filter: access rules of 33 bits", rule, `CH-ENVOY-016 .*192.0.2.0/33 is no range of addresses`, "", rules(anything, from("192.0.2.0", 33))},
		{"filter: access rules of 129 bits", rule, `CH-ENVOY-016 .*is no range of addresses`, `PrefixLen`, rules(anything, from("2001:db8::", 129))},
		{"filter: access rules without principals", rule, `CH-ENVOY-001 .*principals`, `Principals`, filterOf("envoy.filters.http.rbac", func() proto.Message {
			return &rbacv3.RBAC{Rules: &rulesv3.RBAC{Policies: map[string]*rulesv3.Policy{"p": {Permissions: []*rulesv3.Permission{anything}}}}}
		})},
		{"filter: access rules sixty deep", harmless, "", "", rules(deep(60), anybody)},
		{"filter: bad keys for tokens", asked, `(?i)jwks`, `(?i)jwks`, tokens(keys("no keys"), "one")},
		{"filter: unknown provider of tokens", asked, `(?i)provider|two`, `(?i)provider|two`, tokens(keys(`{"keys":[]}`), "two")},
		{"filter: provider of tokens without keys", rule, `CH-ENVOY-001 .*jwks_source_specifier`, `is required`, tokens(&jwtv3.JwtProvider{Issuer: "x"}, "one")},
		{"filter: keys for tokens from an unknown cluster", rule, `there is no cluster "nope"`, "", tokens(&jwtv3.JwtProvider{Issuer: "x", JwksSourceSpecifier: &jwtv3.JwtProvider_RemoteJwks{RemoteJwks: &jwtv3.RemoteJwks{HttpUri: httpTo("nope")}}}, "one")},
		{"filter: transcoder without descriptors", asked, `(?i)transcoder|descriptor|proto`, `(?i)transcoder|descriptor|proto`, filterOf("envoy.filters.http.grpc_json_transcoder", func() proto.Message {
			return &transcoderv3.GrpcJsonTranscoder{DescriptorSet: &transcoderv3.GrpcJsonTranscoder_ProtoDescriptorBin{ProtoDescriptorBin: []byte("garbage")}, Services: []string{"x.Y"}}
		})},
		{"filter: transcoder of an unknown service", asked, `(?i)transcoding_filter|service|x.Y`, `(?i)service|x.Y`, filterOf("envoy.filters.http.grpc_json_transcoder", func() proto.Message {
			return &transcoderv3.GrpcJsonTranscoder{DescriptorSet: &transcoderv3.GrpcJsonTranscoder_ProtoDescriptorBin{ProtoDescriptorBin: []byte{}}, Services: []string{"x.Y"}}
		})},
		{"filter: WebAssembly of an absent file", asked, `/absent/wasm`, `/absent/wasm`, code(local(filename("/absent/wasm")), "envoy.wasm.runtime.v8")},
		{"filter: WebAssembly that is garbage", asked, `(?i)wasm`, `(?i)wasm`, code(local(inText("no module")), "envoy.wasm.runtime.v8")},
		{"filter: WebAssembly file that is garbage", asked, `(?i)wasm`, `(?i)wasm`, code(local(filename(garbage)), "envoy.wasm.runtime.v8")},
		{"filter: WebAssembly in an unknown machine", asked, `(?i)wasm|runtime`, `(?i)wasm|runtime`, code(local(inText("\x00asm\x01\x00\x00\x00")), "no.such.runtime")},
		{"filter: bucket that fills too fast", asked, `(?i)fill`, `(?i)fill`, bucket(1, 1, time.Millisecond)},
		// New in 1.40: a bucket may be empty, which says what it does.
		{"filter: bucket of no tokens, which refuses every request", harmless, "", "", bucket(0, 1, time.Second)},
		{"filter: bucket that is never filled", rule, `CH-ENVOY-001 .*tokens_per_fill`, `TokensPerFill`, bucket(1, 0, time.Second)},
		{"filter: authorisation over gRPC by an unknown cluster", rule, `there is no cluster "nope"`, "", filterOf("envoy.filters.http.ext_authz", func() proto.Message {
			return &authzv3.ExtAuthz{TransportApiVersion: corev3.ApiVersion_V3, Services: &authzv3.ExtAuthz_GrpcService{GrpcService: grpcTo("nope")}}
		})},
		{"filter: authorisation over HTTP by an unknown cluster", rule, `there is no cluster "nope"`, "", filterOf("envoy.filters.http.ext_authz", func() proto.Message {
			return &authzv3.ExtAuthz{TransportApiVersion: corev3.ApiVersion_V3, Services: &authzv3.ExtAuthz_HttpService{HttpService: &authzv3.HttpService{ServerUri: httpTo("nope")}}}
		})},
		{"filter: rate limits of an unknown cluster", rule, `there is no cluster "nope"`, "", filterOf("envoy.filters.http.ratelimit", func() proto.Message {
			return &limitv3.RateLimit{Domain: "x", RateLimitService: rateLimitService("nope")}
		})},
		{"filter: OAuth2 of an unknown cluster", rule, `there is no (cluster|secret) "(nope|token|hmac)"`, notAsked, filterOf("envoy.filters.http.oauth2", func() proto.Message { return oauth("nope", "token", "hmac") })},
		{"filter: OAuth2 of unknown secrets", rule, `there is no secret "(token|hmac)"`, notAsked, filterOf("envoy.filters.http.oauth2", func() proto.Message { return oauth("other", "token", "hmac") })},
		// Connection managers.
		{"manager: bad format of the access log", asked, `(?i)NOPE|Incorrect|Not supported`, `(?i)NOPE|Incorrect|Not supported`, fileLog("/dev/null", "%NOPE%\n")},
		{"manager: unclosed command in the access log", asked, `(?i)Couldn't find|Incorrect`, `(?i)Couldn't find|Incorrect`, fileLog("/dev/null", "%REQ(")},
		{"manager: access log that cannot be opened", asked, `/absent/log`, `/absent/log`, fileLog("/absent/log", "")},
		{"manager: access log that is a FIFO", asked, `no regular file but a FIFO`, hangs, fileLog(fifo, "")},
		{"manager: access log into the kernel", rule, `CH-ENVOY-021 .*access_log\[0\]`, notAsked, fileLog("/proc/self/mem", "")},
		{"manager: access log to an unknown cluster", rule, `there is no cluster "nope"`, "", logTo("envoy.access_loggers.http_grpc", &grpclogv3.HttpGrpcAccessLogConfig{CommonConfig: &grpclogv3.CommonGrpcAccessLogConfig{
			LogName: "x", TransportApiVersion: corev3.ApiVersion_V3, GrpcService: grpcTo("nope")}})},
		{"manager: zipkin at an unknown cluster", rule, `there is no cluster "nope"`, `(?i)nope`, trace("envoy.tracers.zipkin", &tracev3.ZipkinConfig{CollectorCluster: "nope", CollectorEndpoint: "/x", CollectorEndpointVersion: tracev3.ZipkinConfig_HTTP_JSON})},
		{"manager: datadog at an unknown cluster", rule, `there is no cluster "nope"`, `(?i)nope`, trace("envoy.tracers.datadog", &tracev3.DatadogConfig{CollectorCluster: "nope", ServiceName: "x"})},
		{"manager: OpenTelemetry at an unknown cluster", rule, `there is no cluster "nope"`, "", trace("envoy.tracers.opentelemetry", &tracev3.OpenTelemetryConfig{GrpcService: grpcTo("nope"), ServiceName: "x"})},
		{"manager: unknown route configuration", rule, `there is no route configuration "nope"`, "", func(h *hand) {
			h.manager.RouteSpecifier = &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{ConfigSource: overADS, RouteConfigName: "nope"}}
		}},
		{"manager: routes from a source that is no cluster of the bootstrap's", asked, `(?i)cluster`, `(?i)cluster`, func(h *hand) {
			h.manager.RouteSpecifier = &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{RouteConfigName: "routes", ConfigSource: &corev3.ConfigSource{ResourceApiVersion: corev3.ApiVersion_V3,
				ConfigSourceSpecifier: &corev3.ConfigSource_ApiConfigSource{ApiConfigSource: &corev3.ApiConfigSource{ApiType: corev3.ApiConfigSource_GRPC, TransportApiVersion: corev3.ApiVersion_V3,
					GrpcServices: []*corev3.GrpcService{{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: "other"}}}}}}}}}
		}},
		{"manager: routes in line to an unknown cluster", rule, `there is no cluster "nope"`, `unknown cluster 'nope'`, routes(&routev3.RouteConfiguration{Name: "x", ValidateClusters: wrapperspb.Bool(true), VirtualHosts: []*routev3.VirtualHost{{Name: "x", Domains: []string{"*"}, Routes: []*routev3.Route{{
			Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}}, Action: &routev3.Route_Route{Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: "nope"}}}}}}}})},
		{"manager: bad local reply", asked, `(?i)NOPE|Not supported|Incorrect`, `(?i)NOPE|Not supported|Incorrect`, func(h *hand) {
			h.manager.LocalReplyConfig = &hcmv3.LocalReplyConfig{BodyFormat: &corev3.SubstitutionFormatString{Format: &corev3.SubstitutionFormatString_TextFormatSource{TextFormatSource: inText("%NOPE%")}}}
		}},
		{"manager: upgrade twice", asked, `(?i)upgrade`, `(?i)upgrade`, func(h *hand) {
			h.manager.UpgradeConfigs = []*hcmv3.HttpConnectionManager_UpgradeConfig{{UpgradeType: "websocket"}, {UpgradeType: "websocket"}}
		}},
		{"manager: share of traces above the whole", rule, `CH-ENVOY-001 .*tracing`, `(?i)goo.gle|Percent`, func(h *hand) {
			h.manager.Tracing = &hcmv3.HttpConnectionManager_Tracing{RandomSampling: &typev3.Percent{Value: 101}}
		}},
		{"manager: no routes at all", rule, `CH-ENVOY-001 .*route_specifier`, `is required`, func(h *hand) { h.manager.RouteSpecifier = nil }},
		{"manager: stat prefix of nothing", rule, `CH-ENVOY-001 .*stat_prefix`, `StatPrefix`, func(h *hand) { h.manager.StatPrefix = "" }},
		// Listeners.
		{"chain: TCP to an unknown cluster", rule, `there is no cluster "nope"`, "", tcp(&tcpv3.TcpProxy{ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: "nope"}})},
		{"chain: TCP to an unknown share", rule, `there is no cluster "nope"`, "", tcp(&tcpv3.TcpProxy{ClusterSpecifier: &tcpv3.TcpProxy_WeightedClusters{WeightedClusters: &tcpv3.TcpProxy_WeightedCluster{
			Clusters: []*tcpv3.TcpProxy_WeightedCluster_ClusterWeight{{Name: "other", Weight: 1}, {Name: "nope", Weight: 1}}}}})},
		{"chain: partial server name", asked, `(?i)partial wildcard`, `(?i)partial wildcard`, func(h *hand) { h.chain.FilterChainMatch.ServerNames = []string{"a*.example.com"} }},
		{"chain: match that stands twice", rule, `CH-ENVOY-005 filter_chains\[\d\].filter_chain_match`, `same matching rules`, func(h *hand) {
			twin := proto.Clone(h.chain).(*listenerv3.FilterChain)
			twin.Name = "twin"
			h.listener.FilterChains = append(h.listener.FilterChains, twin)
		}},
		{"chain: source range of 33 bits", rule, `CH-ENVOY-016 .*source_prefix_ranges\[0\]`, "", func(h *hand) {
			h.chain.FilterChainMatch.SourcePrefixRanges = []*corev3.CidrRange{{AddressPrefix: "192.0.2.0", PrefixLen: wrapperspb.UInt32(33)}}
		}},
		{"chain: source range of no address", rule, `CH-ENVOY-016 .*source_prefix_ranges\[0\]`, `(?i)malformed|invalid|ip`, func(h *hand) {
			h.chain.FilterChainMatch.SourcePrefixRanges = []*corev3.CidrRange{{AddressPrefix: "nowhere", PrefixLen: wrapperspb.UInt32(8)}}
		}},
		{"listener: no chains", rule, `CH-ENVOY-018 filter_chains`, `(?i)no filter chains`, func(h *hand) { h.listener.FilterChains = nil }},
		{"listener: server name without an inspector", rule, `CH-ENVOY-007 filter_chains\[0\].filter_chain_match.server_names`, "", func(h *hand) { h.listener.ListenerFilters = nil }},
		{"listener: unknown listener filter", asked, `(?i)registered|implementation`, `(?i)registered|implementation`, func(h *hand) {
			h.listener.ListenerFilters = append(h.listener.ListenerFilters, &listenerv3.ListenerFilter{Name: "foo", ConfigType: &listenerv3.ListenerFilter_TypedConfig{TypedConfig: packed(buffer)}})
		}},
		{"listener: name in place of an address", asked, `(?i)malformed`, `(?i)malformed`, func(h *hand) { h.listener.Address.GetSocketAddress().Address = "name.example.com" }},
		{"listener: port out of range", rule, `CH-ENVOY-001 address.socket_address.port_value`, `goo.gle/debug`, func(h *hand) {
			h.listener.Address.GetSocketAddress().PortSpecifier = &corev3.SocketAddress_PortValue{PortValue: 70000}
		}},
		{"listener: its own access log that is a FIFO", asked, `no regular file but a FIFO`, hangs, func(h *hand) {
			h.listener.AccessLog = []*accesslogv3.AccessLog{{Name: "envoy.access_loggers.file", ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: packed(&filev3.FileAccessLog{Path: fifo})}}}
		}},
		{"listener: its own access log that cannot be opened", asked, `/absent/log`, `/absent/log`, func(h *hand) {
			h.listener.AccessLog = []*accesslogv3.AccessLog{{Name: "envoy.access_loggers.file", ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: packed(&filev3.FileAccessLog{Path: "/absent/log"})}}}
		}},
		{"listener: default chain with an unknown filter", asked, `(?i)registered|implementation`, `(?i)registered|implementation`, func(h *hand) {
			h.listener.DefaultFilterChain = &listenerv3.FilterChain{Filters: []*listenerv3.Filter{{Name: "foo", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: packed(buffer)}}}}
		}},
		{"listener: address of another", rule, `listener "guilty" has the same address`, notAsked, func(h *hand) {
			h.listener.PerConnectionBufferLimitBytes = wrapperspb.UInt32(1 << 20)
			h.added = append(h.added, another(h, 443))
		}},
		{"listener: address of another, which does not bind", rule, `listener "guilty" has the same address`, notAsked, func(h *hand) {
			l := another(h, 443)
			l.BindToPort = wrapperspb.Bool(false)
			h.added = append(h.added, l)
		}},
		{"listener: address of no machine here", harmless, "", "", func(h *hand) { h.added = append(h.added, another(h, 8443)) }},
	}
}

func rateLimitService(cluster string) *serviceconfigv3.RateLimitServiceConfig {
	return &serviceconfigv3.RateLimitServiceConfig{GrpcService: grpcTo(cluster), TransportApiVersion: corev3.ApiVersion_V3}
}

func oauth(cluster, token, hmac string) *oauthv3.OAuth2 {
	everything := &matcherv3.PathMatcher{Rule: &matcherv3.PathMatcher_Path{Path: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: "/x"}}}}
	return &oauthv3.OAuth2{Config: &oauthv3.OAuth2Config{TokenEndpoint: httpTo(cluster), AuthorizationEndpoint: "https://x.example.com/", RedirectUri: "https://y.example.com/x",
		RedirectPathMatcher: everything, SignoutPath: everything, Credentials: &oauthv3.OAuth2Credentials{ClientId: "x", TokenSecret: overSDS(token),
			TokenFormation: &oauthv3.OAuth2Credentials_HmacSecret{HmacSecret: overSDS(hmac)}}}}
}
