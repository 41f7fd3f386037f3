package envoy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"sync"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/translators/ir"
)

func p[T any](v T) *T { return &v }

func from(kind, name string) []ir.Origin {
	return []ir.Origin{{Group: "getambassador.io", Kind: kind, Namespace: "default", Name: name}}
}

// pair is a certificate with its key.
type pair struct{ cert, key []byte }

var testPair = sync.OnceValue(func() pair {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	t := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, DNSNames: []string{"*.example.com"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		panic(err)
	}
	k, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err)
	}
	return pair{
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: k}),
	}
})

// forward is the shortest action that forwards.
func forward(cluster string) *ir.Forward {
	return &ir.Forward{Clusters: []ir.WeightedCluster{{Cluster: cluster}}, TimeoutMillis: 3000}
}

func prefix(path string) ir.Match { return ir.Match{PathKind: ir.PathPrefix, Path: path} }

// small is a program of one listener, one host, two routes and two clusters.
func small() *ir.Program {
	settings := &ir.HTTPSettings{UseRemoteAddress: true}
	return &ir.Program{
		Version: ir.Version,
		Clusters: []*ir.Cluster{
			{Name: "a", Discovery: ir.DiscoveryStrictDNS, Host: "a.default", Port: 80, ConnectTimeoutMillis: 3000, Origins: from("Mapping", "a")},
			{Name: "b", Discovery: ir.DiscoveryEDS, EndpointSet: "k8s/default/b/80", ConnectTimeoutMillis: 3000, Origins: from("Mapping", "b")},
		},
		EndpointSets: []*ir.EndpointSet{{Name: "k8s/default/b/80", Endpoints: []ir.Endpoint{{Address: "10.0.0.1", Port: 8080}}, Origins: from("Service", "b")}},
		RouteConfigs: []*ir.RouteConfig{{
			Name: "clear", Origins: from("Listener", "http"),
			VirtualHosts: []*ir.VirtualHost{{Name: "star", Domains: []string{"*"}, Origins: from("Host", "star"), Routes: []*ir.Route{
				{Name: "a", Match: prefix("/a/"), Forward: forward("a"), Origins: from("Mapping", "a")},
				{Name: "b", Match: prefix("/b/"), Forward: forward("b"), Origins: from("Mapping", "b")},
			}}},
		}},
		Listeners: []*ir.Listener{{Name: "http", Address: "0.0.0.0", Port: 18080, TLSInspector: true, Origins: from("Listener", "http"),
			Chains: []*ir.FilterChain{{Name: "clear", HTTP: &ir.HTTPChain{RouteConfig: "clear", StatPrefix: "ingress_http", Settings: settings}, Origins: from("Host", "star")}}}},
	}
}

// full is a program that sets every field of the IR that the back end reads.
func full() *ir.Program {
	settings := &ir.HTTPSettings{
		UseRemoteAddress: true, ServerName: "chancery", StripMatchingHostPort: true, MergeSlashes: true, RejectEscapedSlashes: true,
		AcceptHTTP10: true, AllowChunkedLength: true, PreserveExternalRequestID: true, ProperCase: true, HeadersWithUnderscoresAction: "DROP_HEADER",
		MaxRequestHeadersKB: 80, IdleTimeoutMillis: p(int64(60000)), SuppressEnvoyHeaders: true, ForwardClientCertDetails: "SANITIZE_SET",
		SetCurrentClientCertDetails: []string{"subject", "cert", "chain", "dns", "uri"},
		AccessLogs: []ir.AccessLog{
			{Type: "file", Path: "/dev/null"},
			{Type: "file", Path: "/dev/null", Format: "%REQ(:METHOD)% %RESPONSE_CODE%\n"},
			{Type: "file", Path: "/dev/null", JSON: map[string]string{"code": "%RESPONSE_CODE%", "method": "%REQ(:METHOD)%"}, TypedJSON: true},
		},
	}
	other := &ir.HTTPSettings{HeaderCaseOverrides: []string{"X-HELLO"}}
	tls := &ir.DownstreamTLS{
		Certificates: []string{"default/cert"}, Validation: "default/ca/ca", RequireClientCertificate: true,
		Params: ir.TLSParams{MinVersion: "1.2", MaxVersion: "1.3", CipherSuites: []string{"ECDHE-ECDSA-AES128-GCM-SHA256"}, Curves: []string{"P-256"}, ALPN: []string{"h2", "http/1.1"}},
	}
	changes := ir.HeaderChanges{
		Add:    []ir.HeaderValue{{Name: "x-a", Value: "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%"}, {Name: "x-b", Value: "100%%", Append: true}, {Name: "x-c", Value: "%REQ(X-D?X-E):10%"}, {Name: "x-e"}},
		Remove: []string{"x-f"},
	}
	routes := []*ir.Route{
		{Name: "everything", Origins: from("Mapping", "everything"),
			Match: ir.Match{PathKind: ir.PathPrefix, Path: "/every/", IgnoreCase: true, Fraction: &ir.Fraction{Numerator: 30, Denominator: 100},
				Headers: []ir.ValueMatch{
					{Name: ":method", Kind: ir.ValueExact, Value: "GET"}, {Name: ":authority", Kind: ir.ValueSuffix, Value: ".example.com", IgnoreCase: true},
					{Name: "x-r", Kind: ir.ValueRegex, Value: "a.*"}, {Name: "x-p", Kind: ir.ValuePrefix, Value: "p", Invert: true}, {Name: "x-q", Kind: ir.ValuePresent},
				},
				Query: []ir.ValueMatch{{Name: "q", Kind: ir.ValueExact, Value: "1"}, {Name: "r", Kind: ir.ValueRegex, Value: "[0-9]+"}, {Name: "s", Kind: ir.ValuePresent}}},
			Forward: &ir.Forward{
				Clusters:      []ir.WeightedCluster{{Cluster: "dns", Weight: 70, RequestHeaders: changes}, {Cluster: "eds", Weight: 30, ResponseHeaders: changes}},
				PrefixRewrite: p("/"), HostRewrite: "upstream.example.com", TimeoutMillis: 0, IdleTimeoutMillis: p(int64(0)),
				Retry:    &ir.RetryPolicy{On: "5xx,connect-failure", NumRetries: p(uint32(3)), PerTryTimeoutMillis: p(int64(250))},
				Priority: "high", Upgrades: []string{"websocket", "spdy/3.1"},
				Mirrors: []ir.Mirror{{Cluster: "static", Fraction: &ir.Fraction{Numerator: 500000, Denominator: 1000000}}},
				Hash: []ir.HashPolicy{{Cookie: &ir.HashCookie{Name: "c", Path: "/", TTLSeconds: p(int64(60))}}, {Header: "x-user"}, {SourceIP: true},
					{Cookie: &ir.HashCookie{Name: "d"}}},
			},
			RequestHeaders: changes, ResponseHeaders: changes,
			CORS: &ir.CORS{Origins: []string{"https://a.example.com", "*"}, OriginRegex: []string{"https://.*\\.b\\.com"}, Methods: "GET, POST", Headers: "x-h", ExposeHeaders: "x-x", MaxAge: "600", Credentials: p(true)},
		},
		{Name: "regex", Origins: from("Mapping", "regex"), Match: ir.Match{PathKind: ir.PathRegex, Path: "/r/[a-z]+/.*"},
			Forward: &ir.Forward{Clusters: []ir.WeightedCluster{{Cluster: "eds"}}, RegexRewrite: &ir.RegexRewrite{Pattern: "^/r/([a-z]+)/(.*)$", Substitution: "/\\2/\\1"}, AutoHostRewrite: true, TimeoutMillis: 1500}},
		{Name: "segments", Origins: from("Mapping", "segments"), Match: ir.Match{PathKind: ir.PathSegments, Path: "/seg/"},
			Forward: &ir.Forward{Clusters: []ir.WeightedCluster{{Cluster: "logical"}}, PrefixRewrite: p("/"), TimeoutMillis: 3000}},
		{Name: "exact", Origins: from("Mapping", "exact"), Match: ir.Match{PathKind: ir.PathExact, Path: "/exact"}, Forward: forward("static")},
		{Name: "one target with headers", Origins: from("Mapping", "one"), Match: prefix("/one/"),
			Forward: &ir.Forward{Clusters: []ir.WeightedCluster{{Cluster: "static", RequestHeaders: changes}}, TimeoutMillis: 3000}},
		{Name: "redirect https", Origins: from("Host", "h"), Match: prefix("/redirect/https"), Redirect: &ir.Redirect{HTTPS: true, Code: 301}},
		{Name: "redirect all", Origins: from("Mapping", "r1"), Match: prefix("/redirect/all"), Redirect: &ir.Redirect{Scheme: "https", Host: "x.example.com", Port: 8443, Path: "/new", Code: 302}},
		{Name: "redirect prefix", Origins: from("Mapping", "r2"), Match: prefix("/redirect/prefix"), Redirect: &ir.Redirect{Host: "x.example.com", PrefixRewrite: p("/p/"), Code: 307}},
		{Name: "redirect regex", Origins: from("Mapping", "r3"), Match: prefix("/redirect/regex"), Redirect: &ir.Redirect{RegexRewrite: &ir.RegexRewrite{Pattern: "/(.*)", Substitution: "/x/\\1"}, Code: 308}},
		{Name: "direct", Origins: from("Host", "h"), Match: prefix("/direct"), Direct: &ir.DirectResponse{Status: 404, Body: "no\n"}},
	}
	strict := &ir.UpstreamTLS{SNI: "up.example.com", Certificate: "default/cert", Validation: "default/ca/ca", VerifySAN: []string{"up.example.com"}, Params: ir.TLSParams{MinVersion: "1.2", ALPN: []string{"h2"}}}
	return &ir.Program{
		Version: ir.Version,
		Bootstrap: &ir.Bootstrap{AdminPort: 18001, ReadyPort: 18006, NodeID: "node", NodeCluster: "cluster", RegexMaxSize: 300,
			Runtime: map[string]any{"http.max_requests_per_io_cycle": 1.0}},
		Secrets: []*ir.Secret{
			{Name: "default/ca/ca", CA: testPair().cert, Origins: from("Secret", "ca")},
			{Name: "default/cert", Certificate: testPair().cert, Key: testPair().key, Origins: from("Secret", "cert")},
		},
		EndpointSets: []*ir.EndpointSet{
			{Name: "k8s/default/e/80", Endpoints: []ir.Endpoint{{Address: "10.0.0.1", Port: 8080, Zone: "z1"}, {Address: "10.0.0.2", Port: 8080, Zone: "z2"}, {Address: "fd00::1", Port: 8080}}, Origins: from("Service", "e")},
			{Name: "k8s/default/empty/80", Origins: from("Service", "empty")},
		},
		Clusters: []*ir.Cluster{
			{Name: "dns", StatName: "dns_default", Discovery: ir.DiscoveryStrictDNS, Host: "localhost", Port: 80, ConnectTimeoutMillis: 3000, IdleTimeoutMillis: p(int64(10000)), MaxConnectionMillis: p(int64(20000)),
				DNSFamily: "auto", RespectDNSTTL: true, LoadBalancer: "least_request",
				CircuitBreakers: []ir.CircuitBreaker{{Priority: "default", MaxConnections: p(uint32(1)), MaxPendingRequests: p(uint32(2)), MaxRequests: p(uint32(3)), MaxRetries: p(uint32(4))}, {Priority: "high"}},
				Keepalive:       &ir.Keepalive{Probes: p(uint32(3)), Time: p(uint32(60)), Interval: p(uint32(10))}, HeaderCase: []string{"X-HELLO"}, Origins: from("Mapping", "everything")},
			{Name: "eds", Discovery: ir.DiscoveryEDS, EndpointSet: "k8s/default/e/80", ConnectTimeoutMillis: 500, LoadBalancer: "ring_hash", HTTP2: true, TLS: strict,
				HealthChecks: []ir.HealthCheck{
					{TimeoutMillis: 3000, IntervalMillis: 5000, HealthyThreshold: 1, UnhealthyThreshold: 2, HTTP: &ir.HTTPHealthCheck{Path: "/h", Host: "h", RequestHeaders: ir.HeaderChanges{Add: []ir.HeaderValue{{Name: "x-h", Value: "1"}}, Remove: []string{"x-i"}}, ExpectedStatuses: []ir.StatusRange{{From: 200, To: 300}}}},
					{TimeoutMillis: 3000, IntervalMillis: 5000, HealthyThreshold: 1, UnhealthyThreshold: 2, GRPC: &ir.GRPCHealthCheck{Service: "s", Authority: "a"}},
				}, Origins: from("Mapping", "regex")},
			{Name: "empty", Discovery: ir.DiscoveryEDS, EndpointSet: "k8s/default/empty/80", ConnectTimeoutMillis: 500, LoadBalancer: "round_robin", TLS: &ir.UpstreamTLS{}, Origins: from("Mapping", "x")},
			{Name: "logical", Discovery: ir.DiscoveryLogicalDNS, Host: "localhost", Port: 443, ConnectTimeoutMillis: 3000, DNSFamily: "v6", LoadBalancer: "round_robin", TLS: &ir.UpstreamTLS{SNI: "l", Validation: "default/ca/ca"}, Origins: from("Mapping", "segments")},
			{Name: "static", Discovery: ir.DiscoveryStatic, Host: "127.0.0.1", Port: 8877, ConnectTimeoutMillis: 3000, LoadBalancer: "maglev", Origins: from("Mapping", "exact")},
		},
		RouteConfigs: []*ir.RouteConfig{
			{Name: "clear", Origins: from("Listener", "http"), VirtualHosts: []*ir.VirtualHost{
				{Name: "one", Domains: []string{"*.example.com", "one.example.com", "one.example.com:8080"}, Routes: routes, Origins: from("Host", "one")},
				{Name: "star", Domains: []string{"*"}, Origins: from("Host", "star")},
			}},
			{Name: "tls", Origins: from("Host", "one"), VirtualHosts: []*ir.VirtualHost{{Name: "one", Domains: []string{"*"}, HTTP3Port: 18443, Routes: routes, Origins: from("Host", "one")}}},
		},
		Listeners: []*ir.Listener{
			{Name: "http", Address: "127.0.0.1", Port: 18080, ProxyProtocol: true, TLSInspector: true, BufferLimit: 65536, Origins: from("Listener", "http"),
				Chains: []*ir.FilterChain{
					{Name: "clear", Match: ir.ChainMatch{Transport: "raw_buffer"}, HTTP: &ir.HTTPChain{RouteConfig: "clear", StatPrefix: "ingress_http", TrustedHops: 1, MaxConcurrentStreams: 100, Settings: settings, Filters: []*ir.Filter{{Name: ir.FilterCORS}}}, Origins: from("Host", "one")},
					{Name: "tls-one", Match: ir.ChainMatch{ServerNames: []string{"*.example.com", "one.example.org"}, Transport: "tls"}, TLS: tls, HTTP: &ir.HTTPChain{RouteConfig: "tls", StatPrefix: "ingress_https", Settings: other}, Origins: from("Host", "one")},
					{Name: "tls-tcp", Match: ir.ChainMatch{ServerNames: []string{"tcp.example.org"}, Transport: "tls"}, TLS: &ir.DownstreamTLS{Certificates: []string{"default/cert"}}, TCP: &ir.TCPChain{StatPrefix: "tcp", Clusters: []ir.WeightedCluster{{Cluster: "dns", Weight: 3}, {Cluster: "static", Weight: 1}}, IdleTimeoutMillis: p(int64(0))}, Origins: from("TCPMapping", "t")},
				}},
			{Name: "quic", Address: "127.0.0.1", Port: 18443, UDP: true, Origins: from("Listener", "quic"), Chains: []*ir.FilterChain{
				{Name: "quic", Match: ir.ChainMatch{Transport: "quic"}, TLS: &ir.DownstreamTLS{Certificates: []string{"default/cert"}}, HTTP: &ir.HTTPChain{RouteConfig: "tls", StatPrefix: "ingress_quic", Settings: other}, Origins: from("Host", "one")},
			}},
			{Name: "tcp", Address: "127.0.0.1", Port: 18081, Origins: from("TCPMapping", "t"), Chains: []*ir.FilterChain{
				{Name: "tcp", TCP: &ir.TCPChain{StatPrefix: "tcp", Clusters: []ir.WeightedCluster{{Cluster: "static"}}}, Origins: from("TCPMapping", "t")},
			}},
		},
	}
}

func emit(t testing.TB, prog *ir.Program) Output {
	t.Helper()
	return NewEmitter(Options{}).Emit(prog)
}

// clean fails the test on any diagnostic.
func clean(t testing.TB, out Output) Output {
	t.Helper()
	for _, d := range out.Diagnostics {
		t.Errorf("unexpected: %s", d)
	}
	return out
}
