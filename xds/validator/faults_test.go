package validator

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/envoy"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// who is the object that a fault is put into; everything else of the program comes from others.
var who = snapshot.Ref{Kind: "Fault", Name: "guilty"}

var by = []ir.Origin{who}

// sound is a program with one of everything, whose guilty parts are still innocent.
type sound struct {
	*ir.Program
	route    *ir.Route
	forward  *ir.Forward
	host     *ir.VirtualHost
	cluster  *ir.Cluster
	secret   *ir.Secret
	anchors  *ir.Secret
	set      *ir.EndpointSet
	listener *ir.Listener
	chain    *ir.FilterChain
	settings *ir.HTTPSettings
}

func newSound(cert, key string) *sound {
	other := []ir.Origin{{Kind: "Other", Name: "innocent"}}
	s := &sound{Program: &ir.Program{Version: ir.Version}, settings: &ir.HTTPSettings{Origins: by}}
	s.forward = &ir.Forward{Clusters: []ir.WeightedCluster{{Cluster: "other"}}, TimeoutMillis: 3000}
	s.route = &ir.Route{Name: "guilty", Match: ir.Match{PathKind: ir.PathPrefix, Path: "/guilty/"}, Forward: s.forward, Origins: by}
	innocent := &ir.Route{Name: "innocent", Match: ir.Match{PathKind: ir.PathPrefix, Path: "/"}, Forward: &ir.Forward{Clusters: []ir.WeightedCluster{{Cluster: "other"}}, TimeoutMillis: 3000}, Origins: other}
	s.host = &ir.VirtualHost{Name: "guilty", Domains: []string{"guilty.example.com"}, Routes: []*ir.Route{s.route, innocent}, Origins: by}
	s.set = &ir.EndpointSet{Name: "guilty", Endpoints: []ir.Endpoint{{Address: "192.0.2.1", Port: 80}}, Origins: by}
	s.cluster = &ir.Cluster{Name: "guilty", Discovery: ir.DiscoveryEDS, EndpointSet: "guilty", ConnectTimeoutMillis: 3000, Origins: by}
	s.secret = &ir.Secret{Name: "guilty", Certificate: []byte(cert), Key: []byte(key), Origins: by}
	s.anchors = &ir.Secret{Name: "guilty/ca", CA: []byte(cert), Origins: by}
	s.chain = &ir.FilterChain{Name: "guilty", Match: ir.ChainMatch{ServerNames: []string{"guilty.example.com"}, Transport: "tls"}, TLS: &ir.DownstreamTLS{Certificates: []string{"guilty"}, Validation: "guilty/ca"},
		HTTP: &ir.HTTPChain{RouteConfig: "routes", StatPrefix: "x", Settings: s.settings}, Origins: by}
	s.listener = &ir.Listener{Name: "guilty", Address: "192.0.2.1", Port: 443, TLSInspector: true, Chains: []*ir.FilterChain{s.chain,
		{Name: "innocent", Match: ir.ChainMatch{Transport: "raw_buffer"}, HTTP: &ir.HTTPChain{RouteConfig: "routes", StatPrefix: "x", Settings: &ir.HTTPSettings{}}, Origins: other}}, Origins: by}
	s.Clusters = []*ir.Cluster{s.cluster, {Name: "other", Discovery: ir.DiscoveryStrictDNS, Host: "other.example.com", Port: 80, ConnectTimeoutMillis: 3000, Origins: other}}
	s.EndpointSets = []*ir.EndpointSet{s.set}
	s.Secrets = []*ir.Secret{s.secret, s.anchors}
	s.RouteConfigs = []*ir.RouteConfig{{Name: "routes", Origins: by, VirtualHosts: []*ir.VirtualHost{s.host, {Name: "innocent", Domains: []string{"innocent.example.com"}, Routes: []*ir.Route{innocent}, Origins: other}}}}
	s.Listeners = []*ir.Listener{s.listener}
	return s
}

// Who finds a fault.
const (
	rule     = "a rule" // in process: the unit is never made
	asked    = "Envoy"  // the validator refuses the unit
	harmless = "nobody" // Envoy takes it and serves as if it were not there; no request goes wrong
)

// TestFaults puts the faults of the study of Envoy 1.40 (what it refuses, and what it takes without a word) into a sound program,
// one at a time: each is found by a rule or by the validating Envoy before the traffic's sees it, each on its own object, and
// what is left is proven as a whole.
func TestFaults(t *testing.T) {
	cert, key := pairOf(t)
	_, otherKey := pairOf(t)
	header := func(name, value string) func(*sound) {
		return func(s *sound) { s.route.RequestHeaders.Add = []ir.HeaderValue{{Name: name, Value: value}} }
	}
	lua := func(code string) func(*sound) {
		return func(s *sound) {
			s.chain.HTTP.Filters = []*ir.Filter{{Name: ir.FilterLua, Origins: by, Config: &ir.Lua{Script: code}}}
		}
	}
	slash := "/"
	minus := int64(-1)
	faults := []struct {
		name, finder string
		put          func(*sound)
	}{
		// Routes that Envoy refuses.
		{"bad regex", rule, func(s *sound) { s.route.Match = ir.Match{PathKind: ir.PathRegex, Path: "[a-"} }},
		{"regex with look-ahead", rule, func(s *sound) { s.route.Match = ir.Match{PathKind: ir.PathRegex, Path: "/(?=a)"} }},
		{"regex too large", rule, func(s *sound) { s.route.Match = ir.Match{PathKind: ir.PathRegex, Path: "/(a|b|c|d){1000}"} }},
		{"regex of a megabyte", rule, func(s *sound) {
			s.route.Match = ir.Match{PathKind: ir.PathRegex, Path: "/" + strings.Repeat("x", 1<<20)}
		}},
		{"regex of wide classes", asked, func(s *sound) { s.route.Match = ir.Match{PathKind: ir.PathRegex, Path: `/(\pL|\pN|\pS){1,14}b`} }},
		{"bad header regex", rule, func(s *sound) { s.route.Match.Headers = []ir.ValueMatch{{Name: "x", Kind: ir.ValueRegex, Value: "("}} }},
		{"bad query regex", rule, func(s *sound) { s.route.Match.Query = []ir.ValueMatch{{Name: "x", Kind: ir.ValueRegex, Value: "("}} }},
		{"bad origin regex", rule, func(s *sound) { s.route.CORS = &ir.CORS{OriginRegex: []string{"("}} }},
		{"unknown cluster", rule, func(s *sound) { s.forward.Clusters[0].Cluster = "nope" }},
		{"unknown mirror", rule, func(s *sound) { s.forward.Mirrors = []ir.Mirror{{Cluster: "nope"}} }},
		{"unknown weighted cluster", rule, func(s *sound) {
			s.forward.Clusters = []ir.WeightedCluster{{Cluster: "other", Weight: 1}, {Cluster: "nope", Weight: 1}}
		}},
		{"weights of zero", rule, func(s *sound) { s.forward.Clusters = []ir.WeightedCluster{{Cluster: "other"}, {Cluster: "guilty"}} }},
		{"weights above 32 bits", rule, func(s *sound) {
			s.forward.Clusters = []ir.WeightedCluster{{Cluster: "other", Weight: 1 << 31}, {Cluster: "guilty", Weight: 1 << 31}}
		}},
		{"no target", rule, func(s *sound) { s.forward.Clusters = nil }},
		{"domain twice", rule, func(s *sound) {
			s.host.Domains = []string{"innocent.example.com", "guilty.example.com"}
			slices.Reverse(s.RouteConfigs[0].VirtualHosts)
		}},
		{"domain twice, other case", rule, func(s *sound) {
			s.host.Domains = []string{"INNOCENT.example.com", "guilty.example.com"}
			slices.Reverse(s.RouteConfigs[0].VirtualHosts)
		}},
		{"unclosed command", rule, header("x-a", "%BAD(")},
		{"unknown command", asked, header("x-a", "%UNKNOWN%")},
		{"command with too many alternatives", asked, header("x-a", "%REQ(a?b?c)%")},
		{"header :path", rule, header(":path", "x")},
		{"header host", rule, header("Host", "x")},
		{"header name with a space", rule, header("x a", "x")},
		{"header name of nothing", rule, header("", "x")},
		{"header value with a line break", rule, header("x-a", "a\r\nb: c")},
		{"removal of :path", rule, func(s *sound) { s.route.RequestHeaders.Remove = []string{":path"} }},
		{"removal of a bad name", rule, func(s *sound) { s.route.ResponseHeaders.Remove = []string{"a b"} }},
		{"unknown filter for a route", rule, func(s *sound) { s.route.Filters = map[string]any{"foo": struct{}{}} }},
		{"two rewrites", rule, func(s *sound) {
			s.forward.PrefixRewrite, s.forward.RegexRewrite = &slash, &ir.RegexRewrite{Pattern: "a", Substitution: "b"}
		}},
		{"rewrite to an absent group", rule, func(s *sound) { s.forward.RegexRewrite = &ir.RegexRewrite{Pattern: "(a)", Substitution: `\7`} }},
		{"negative timeout", rule, func(s *sound) { s.forward.TimeoutMillis = -1 }},
		{"negative idle timeout", rule, func(s *sound) { s.forward.IdleTimeoutMillis = &minus }},
		{"negative try timeout", rule, func(s *sound) { s.forward.Retry = &ir.RetryPolicy{On: "5xx", PerTryTimeoutMillis: &minus} }},
		{"retry_on: foo", rule, func(s *sound) { s.forward.Retry = &ir.RetryPolicy{On: "foo"} }},
		{"body too long", rule, func(s *sound) {
			s.route.Forward, s.route.Direct = nil, &ir.DirectResponse{Status: 200, Body: strings.Repeat("x", 4097)}
		}},
		{"status out of range", rule, func(s *sound) { s.route.Forward, s.route.Direct = nil, &ir.DirectResponse{Status: 99} }},
		{"redirect with no code of one", rule, func(s *sound) { s.route.Forward, s.route.Redirect = nil, &ir.Redirect{Code: 200} }},
		{"upgrade twice", asked, func(s *sound) { s.forward.Upgrades = []string{"websocket", "WebSocket"} }},
		{"two actions", rule, func(s *sound) { s.route.Direct = &ir.DirectResponse{Status: 200} }},
		{"no action", rule, func(s *sound) { s.route.Forward = nil }},
		{"text that is no UTF-8", rule, func(s *sound) { s.route.Match.Path = "/\xff" }},
		{"unknown priority", rule, func(s *sound) { s.forward.Priority = "urgent" }},
		{"hash of nothing", rule, func(s *sound) { s.forward.Hash = []ir.HashPolicy{{}} }},
		// Hosts.
		{"no domain", rule, func(s *sound) { s.host.Domains = nil }},
		{"two stars in a domain", rule, func(s *sound) { s.host.Domains = []string{"*.example.*"} }},
		{"domain a*b", rule, func(s *sound) { s.host.Domains = []string{"a*b.example.com"} }},
		// Clusters.
		{"name where an address must be", asked, func(s *sound) {
			s.cluster.Discovery, s.cluster.Host, s.cluster.Port = ir.DiscoveryStatic, "name.example.com", 80
		}},
		{"EDS without a set", rule, func(s *sound) { s.cluster.EndpointSet = "nope" }},
		{"name of a bootstrap cluster", rule, func(s *sound) { s.cluster.Name = "xds_cluster" }},
		{"unknown discovery", rule, func(s *sound) { s.cluster.Discovery = "carrier pigeon" }},
		{"unknown balancer", rule, func(s *sound) { s.cluster.LoadBalancer = "dice" }},
		{"priority of a breaker twice", rule, func(s *sound) {
			s.cluster.CircuitBreakers = []ir.CircuitBreaker{{Priority: "default"}, {Priority: "default"}}
		}},
		{"negative connect timeout", rule, func(s *sound) { s.cluster.ConnectTimeoutMillis = -1 }},
		{"health check without interval", rule, func(s *sound) {
			s.cluster.HealthChecks = []ir.HealthCheck{{TimeoutMillis: 1, HealthyThreshold: 1, UnhealthyThreshold: 1, HTTP: &ir.HTTPHealthCheck{Path: "/"}}}
		}},
		{"unknown secret of a cluster", rule, func(s *sound) { s.cluster.TLS = &ir.UpstreamTLS{Certificate: "nope"} }},
		{"names verified without anchors", rule, func(s *sound) { s.cluster.TLS = &ir.UpstreamTLS{VerifySAN: []string{"a"}} }},
		{"upstream TLS minimum above maximum", rule, func(s *sound) {
			s.cluster.TLS = &ir.UpstreamTLS{Params: ir.TLSParams{MinVersion: "1.3", MaxVersion: "1.2"}}
		}},
		{"upstream cipher unknown", asked, func(s *sound) { s.cluster.TLS = &ir.UpstreamTLS{Params: ir.TLSParams{CipherSuites: []string{"NOPE"}}} }},
		// Endpoints.
		{"endpoint that is a name", rule, func(s *sound) { s.set.Endpoints[0].Address = "name.example.com" }},
		{"endpoint without a port", rule, func(s *sound) { s.set.Endpoints[0].Port = 70000 }},
		// Secrets.
		{"key of another certificate", asked, func(s *sound) { s.secret.Key = []byte(otherKey) }},
		{"garbage certificate", asked, func(s *sound) {
			s.secret.Certificate = []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
		}},
		{"certificate without a key", rule, func(s *sound) { s.secret.Key = nil }},
		{"garbage anchors", asked, func(s *sound) { s.anchors.CA = []byte("nonsense") }},
		{"certificate file that is absent", asked, func(s *sound) {
			s.secret.Certificate, s.secret.Key, s.secret.CertificateFile, s.secret.KeyFile = nil, nil, "/absent/crt", "/absent/key"
		}},
		{"certificate file that is a device", rule, func(s *sound) {
			s.secret.Certificate, s.secret.Key, s.secret.CertificateFile, s.secret.KeyFile = nil, nil, "/dev/zero", "/dev/zero"
		}},
		// Envoy serves it and every client refuses it: the front end warns (CH-TLS-005), for Envoy will not.
		{"expired certificate", harmless, func(s *sound) { s.secret.Certificate, s.secret.Key = expired(t) }},
		{"both certificate and anchors", rule, func(s *sound) { s.secret.CA = []byte(cert) }},
		// Listeners and chains.
		{"listener's address no address", rule, func(s *sound) { s.listener.Address = "name.example.com" }},
		{"listener's port out of range", rule, func(s *sound) { s.listener.Port = 70000 }},
		{"no chains", rule, func(s *sound) { s.listener.Chains = nil }},
		{"same address twice", rule, func(s *sound) {
			twin := *s.listener
			twin.Name, twin.Chains = "guilty2", s.listener.Chains[:1]
			s.Listeners = append(s.Listeners, &twin)
		}},
		{"equal chain matches", rule, func(s *sound) {
			twin := *s.chain
			twin.Name = "guilty2"
			s.listener.Chains = append(s.listener.Chains[:1:1], &twin, s.listener.Chains[1])
		}},
		{"partial server name", rule, func(s *sound) { s.chain.Match.ServerNames = []string{"a*.example.com"} }},
		{"server name without inspector", rule, func(s *sound) { s.listener.TLSInspector = false }},
		{"unknown certificate", rule, func(s *sound) { s.chain.TLS.Certificates = []string{"nope"} }},
		{"anchors in place of a certificate", rule, func(s *sound) { s.chain.TLS.Certificates = []string{"guilty/ca"} }},
		{"unknown anchors", rule, func(s *sound) { s.chain.TLS.Validation = "nope" }},
		{"unknown cipher", asked, func(s *sound) { s.chain.TLS.Params.CipherSuites = []string{"NOPE"} }},
		{"unknown curve", asked, func(s *sound) { s.chain.TLS.Params.Curves = []string{"NOPE"} }},
		{"TLS minimum above maximum", rule, func(s *sound) { s.chain.TLS.Params = ir.TLSParams{MinVersion: "1.3", MaxVersion: "1.2"} }},
		{"unknown TLS version", rule, func(s *sound) { s.chain.TLS.Params.MinVersion = "1.9" }},
		{"unknown route configuration", rule, func(s *sound) { s.chain.HTTP.RouteConfig = "nope" }},
		{"neither HTTP nor TCP", rule, func(s *sound) { s.chain.HTTP = nil }},
		{"TCP to an unknown cluster", rule, func(s *sound) {
			s.chain.HTTP, s.chain.TCP = nil, &ir.TCPChain{StatPrefix: "x", Clusters: []ir.WeightedCluster{{Cluster: "nope"}}}
		}},
		{"unknown filter", rule, func(s *sound) { s.chain.HTTP.Filters = []*ir.Filter{{Name: "foo", Origins: by}} }},
		{"access log format", asked, func(s *sound) {
			s.settings.AccessLogs = []ir.AccessLog{{Type: "file", Path: "/dev/stdout", Format: "%NOPE%"}}
		}},
		{"access log that cannot be opened", asked, func(s *sound) { s.settings.AccessLogs = []ir.AccessLog{{Type: "file", Path: "/absent/log"}} }},
		{"access log in a directory's place", asked, func(s *sound) { s.settings.AccessLogs = []ir.AccessLog{{Type: "file", Path: "/tmp"}} }},
		{"access log of an unknown type", rule, func(s *sound) { s.settings.AccessLogs = []ir.AccessLog{{Type: "smoke"}} }},
		{"access log into the kernel", rule, func(s *sound) { s.settings.AccessLogs = []ir.AccessLog{{Type: "file", Path: "/proc/self/mem"}} }},
		{"script that does not parse", asked, lua("function (")},
		{"script that loops at load", rule, lua("while true do end")},
		{"script that ends the process", rule, lua("os.exit(1)")},
		{"script that loops within its functions", harmless, lua("function envoy_on_request(h) while h:headers():get('x') do break end end")},
		{"TLS maximum below Envoy's minimum", rule, func(s *sound) { s.chain.TLS.Params.MaxVersion = "1.1" }},
		{"range of addresses of 33 bits", rule, func(s *sound) {
			s.chain.HTTP.Filters = []*ir.Filter{{Name: ir.FilterRBAC, Origins: by, Config: &ir.AddressRules{Allow: []ir.AddressRange{{Prefix: "192.0.2.0", Bits: 33}}}}}
		}},
		{"authorisation by an unknown cluster", rule, func(s *sound) {
			s.chain.HTTP.Filters = []*ir.Filter{{Name: ir.FilterExtAuthz, Origins: by, Config: &ir.ExtAuthz{Cluster: "nope", GRPC: true, TimeoutMillis: 1000}}}
		}},
		{"rate limits of an unknown cluster", rule, func(s *sound) {
			s.chain.HTTP.Filters = []*ir.Filter{{Name: ir.FilterRateLimit, Origins: by, Config: &ir.RateLimit{Cluster: "nope", Domain: "x", TimeoutMillis: 20}}}
		}},
		{"traces to a cluster that is there", harmless, func(s *sound) {
			s.chain.HTTP.Tracing = &ir.Tracing{Driver: "zipkin", Cluster: "other", Endpoint: "/api", EndpointVersion: "HTTP_JSON", Origins: by}
		}},
		{"traces by datadog to a cluster that is there", harmless, func(s *sound) {
			s.chain.HTTP.Tracing = &ir.Tracing{Driver: "datadog", Cluster: "other", ServiceName: "x", Origins: by}
		}},
		{"traces by OpenTelemetry to a cluster that is there", harmless, func(s *sound) {
			s.chain.HTTP.Tracing = &ir.Tracing{Driver: "opentelemetry", Cluster: "other", ServiceName: "x", Origins: by}
		}},
		{"HTTP/3", harmless, func(s *sound) {
			s.Listeners = append(s.Listeners, &ir.Listener{Name: "quic", Address: "192.0.2.1", Port: 443, UDP: true, Origins: by, Chains: []*ir.FilterChain{s.chain}})
		}},
		{"HTTP/3 with an unknown cipher", asked, func(s *sound) {
			quic := *s.chain
			quic.Name, quic.TLS = "quic", &ir.DownstreamTLS{Certificates: []string{"guilty"}, Params: ir.TLSParams{CipherSuites: []string{"NOPE"}}}
			s.Listeners = append(s.Listeners, &ir.Listener{Name: "quic", Address: "192.0.2.1", Port: 443, UDP: true, Origins: by, Chains: []*ir.FilterChain{&quic}})
		}},
		{"TCP to a cluster that is there", harmless, func(s *sound) {
			s.chain.HTTP, s.chain.TCP = nil, &ir.TCPChain{StatPrefix: "x", Clusters: []ir.WeightedCluster{{Cluster: "other"}}}
		}},
		{"services that are there", harmless, func(s *sound) {
			s.chain.HTTP.Filters = []*ir.Filter{{Name: ir.FilterExtAuthz, Origins: by, Config: &ir.ExtAuthz{Cluster: "other", GRPC: true, TimeoutMillis: 1000}},
				{Name: ir.FilterRateLimit, Origins: by, Config: &ir.RateLimit{Cluster: "other", Domain: "x", TimeoutMillis: 20}}}
			s.chain.HTTP.AccessLogs = []ir.AccessLog{{Type: "grpc_http", Cluster: "other", LogName: "x", Origins: by}}
		}},
		{"traces to an unknown cluster", rule, func(s *sound) { s.chain.HTTP.Tracing = &ir.Tracing{Driver: "zipkin", Cluster: "nope", Origins: by} }},
		{"access log to an unknown cluster", rule, func(s *sound) {
			s.chain.HTTP.AccessLogs = []ir.AccessLog{{Type: "grpc_http", Cluster: "nope", LogName: "x", Origins: by}}
		}},
		{"header size limit", rule, func(s *sound) { s.settings.MaxRequestHeadersKB = 100_000 }},
		{"streams", rule, func(s *sound) { s.chain.HTTP.MaxConcurrentStreams = 1 << 31 }},
		{"underscores", rule, func(s *sound) { s.settings.HeadersWithUnderscoresAction = "SHRUG" }},
		{"stat prefix of nothing", rule, func(s *sound) { s.chain.HTTP.StatPrefix = "" }},
	}
	v := open(t, nil)
	found := map[string]int{}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			s := newSound(cert, key)
			f.put(s)
			e := envoy.NewEmitter(envoy.Options{})
			out := e.Emit(s.Program)
			finder := harmless
			if len(out.Diagnostics) > 0 {
				finder = rule
			}
			for round := 0; ; round++ {
				verdicts := judge(t, v, out.Changed...)
				if len(verdicts.Refused) == 0 {
					break
				}
				if finder != rule {
					finder = asked
				}
				if round == 5 {
					t.Fatalf("no end: %v", verdicts.Refused)
				}
				e.Refuse(verdicts.Refused)
				out = e.Emit(s.Program)
			}
			if finder != f.finder {
				t.Errorf("found by %s, want %s: %v", finder, f.finder, out.Diagnostics)
			}
			found[finder]++
			if finder != harmless && !slices.ContainsFunc(out.Diagnostics, func(d snapshot.Diagnostic) bool { return d.Object == who }) {
				t.Errorf("nothing is said about the guilty object: %v", out.Diagnostics)
			}
			if refused := whole(t, v, out.Resources); len(refused) > 0 {
				t.Errorf("as a whole, Envoy refuses what is left: %v", refused)
			}
			innocent := false
			for _, r := range out.Resources[ir.TypeRouteConfig] {
				innocent = innocent || strings.Contains(string(r.Value), "innocent.example.com")
			}
			if !innocent {
				t.Error("the innocent host is not served any more")
			}
		})
	}
	t.Logf("%d faults: %v", len(faults), found)
}

// expired returns a certificate of the day before yesterday, and its key.
func expired(t *testing.T) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"guilty.example.com"}, NotBefore: time.Now().AddDate(0, 0, -3), NotAfter: time.Now().AddDate(0, 0, -2)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
}
