package xds

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	router "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/chancery-gateway/chancery/snapshot/porttest"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// findEnvoy returns the Envoy binary: CHANCERY_ENVOY, then PATH, then the repository's cache. It skips the test without
// one, except in continuous integration.
func findEnvoy(t *testing.T) string {
	t.Helper()
	if p := os.Getenv("CHANCERY_ENVOY"); p != "" {
		return p
	}
	if p, err := exec.LookPath("envoy"); err == nil {
		return p
	}
	dir, err := os.Getwd()
	for ; err == nil && dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			if found, _ := filepath.Glob(filepath.Join(dir, ".cache/venv/lib/python3*/site-packages/envoy/_bin/envoy")); len(found) > 0 {
				return found[0]
			}
			break
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("no Envoy binary: set CHANCERY_ENVOY")
	}
	t.Skip("no Envoy binary: set CHANCERY_ENVOY")
	return ""
}

// bed is one real Envoy that takes its configuration from a server on a Unix socket.
type bed struct {
	t             *testing.T
	socket        string
	admin, port   int
	tlsPort       int
	hello, hallo  *httptest.Server
	server        *Server
	stop          func()
	good, refused atomic.Int64
	failure       atomic.Value
}

func newBed(t *testing.T, delta bool) *bed { return newBedAt(t, delta, 9) }

// newBedAt is newBed with a DNS server at that port.
func newBedAt(t *testing.T, delta bool, dns int) *bed {
	envoy := findEnvoy(t)
	backend := func(text string) *httptest.Server {
		b := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) }))
		t.Cleanup(b.Close)
		return b
	}
	// Unix socket paths are short, so not below t.TempDir.
	dir, err := os.MkdirTemp("", "xds")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	p := porttest.Free(t, 3)
	b := &bed{t: t, socket: filepath.Join(dir, "s"), admin: p[0], port: p[1], tlsPort: p[2], hello: backend("hello"), hallo: backend("hallo")}
	api := "GRPC"
	if delta {
		api = "DELTA_GRPC"
	}
	bootstrap := fmt.Sprintf(`
node: {id: bed, cluster: chancery}
admin: {address: {socket_address: {address: 127.0.0.1, port_value: %d}}}
typed_dns_resolver_config:
  name: envoy.network.dns_resolver.cares
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig
    resolvers: [{socket_address: {address: 127.0.0.1, port_value: %d}}]
    dns_resolver_options: {no_default_search_domain: true}
    query_tries: 200 # five seconds each or more: a silent server stays silent for the whole test
dynamic_resources:
  ads_config: {api_type: %s, transport_api_version: V3, grpc_services: [{envoy_grpc: {cluster_name: xds}}]}
  cds_config: {ads: {}, resource_api_version: V3}
  lds_config: {ads: {}, resource_api_version: V3}
static_resources:
  clusters:
  - name: xds
    type: STATIC
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    load_assignment: {cluster_name: xds, endpoints: [{lb_endpoints: [{endpoint: {address: {pipe: {path: %s}}}}]}]}
`, b.admin, dns, api, b.socket)
	cfg := filepath.Join(dir, "bootstrap.yaml")
	if err := os.WriteFile(cfg, []byte(bootstrap), 0o600); err != nil {
		t.Fatal(err)
	}
	b.serve(b.anew())
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(envoy, "-c", cfg, "--disable-hot-restart", "--concurrency", "1", "-l", "warning")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		b.stop()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("Envoy's log:\n%s", text)
		}
	})
	return b
}

// anew returns a server as the program has it, but that its patience with Envoy never ends: what comes, does not come of that.
func (b *bed) anew() *Server {
	warm := func(ctx context.Context, _ NodeStatus, clusters []string) []string {
		return WarmAt(ctx, fmt.Sprint("127.0.0.1:", b.admin), clusters)
	}
	return New(Options{BarrierTimeout: time.Hour, Warm: warm, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
}

// serve puts a server on the socket, in place of the one before.
func (b *bed) serve(s *Server) {
	os.Remove(b.socket)
	l, err := net.Listen("unix", b.socket)
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l, nil) }()
	b.server = s
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			b.t.Error(err)
		}
	})
}

func pack(t testing.TB, name string, m proto.Message) *ir.Resource {
	t.Helper()
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	r := &ir.Resource{Type: "type.googleapis.com/" + string(proto.MessageName(m)), Name: name, Value: body}
	r.Version = digest([]*ir.Resource{{Name: name, Version: string(body)}}, nil)
	return r
}

func anyOf(t testing.TB, m proto.Message) *anypb.Any {
	t.Helper()
	a, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// ads is the stream; Envoy waits for what comes over it without an end, so that nothing comes about by waiting.
func ads() *core.ConfigSource {
	return &core.ConfigSource{ResourceApiVersion: core.ApiVersion_V3, InitialFetchTimeout: durationpb.New(0), ConfigSourceSpecifier: &core.ConfigSource_Ads{Ads: &core.AggregatedConfigSource{}}}
}

func socketAddress(port int) *core.Address {
	return &core.Address{Address: &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{
		Address: "127.0.0.1", PortSpecifier: &core.SocketAddress_PortValue{PortValue: uint32(port)}}}}
}

func (b *bed) cluster(name string, timeout time.Duration) *ir.Resource {
	r := pack(b.t, name, &clusterv3.Cluster{
		Name: name, ConnectTimeout: durationpb.New(timeout),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig:     &clusterv3.Cluster_EdsClusterConfig{EdsConfig: ads(), ServiceName: name + "/endpoints"},
	})
	r.EndpointSet = name + "/endpoints"
	return r
}

func (b *bed) endpoints(name string, to *httptest.Server) *ir.Resource {
	name += "/endpoints"
	return pack(b.t, name, assignment(name, socketAddress(portOf(to)).GetSocketAddress()))
}

// route sends everything to one cluster and answers with the edition in a header.
func (b *bed) route(to, edition string) *ir.Resource {
	return pack(b.t, "routes", b.routes(to, edition))
}

func (b *bed) routes(to, edition string) *routev3.RouteConfiguration {
	return &routev3.RouteConfiguration{Name: "routes", VirtualHosts: []*routev3.VirtualHost{{
		Name: "all", Domains: []string{"*"},
		ResponseHeadersToAdd: []*core.HeaderValueOption{{Header: &core.HeaderValue{Key: "x-edition", Value: edition}}},
		Routes:               []*routev3.Route{forward("/", to)},
	}}}
}

func forward(prefix, to string) *routev3.Route {
	return &routev3.Route{
		Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: prefix}},
		Action: &routev3.Route_Route{Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: to}}},
	}
}

func (b *bed) listener(name string, port int, secret string, edit ...func(*listenerv3.Listener)) *ir.Resource {
	l := &listenerv3.Listener{Name: name, Address: socketAddress(port), FilterChains: []*listenerv3.FilterChain{{
		Filters: []*listenerv3.Filter{{Name: "hcm", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: anyOf(b.t, &hcm.HttpConnectionManager{
			StatPrefix:     name,
			RouteSpecifier: &hcm.HttpConnectionManager_Rds{Rds: &hcm.Rds{ConfigSource: ads(), RouteConfigName: "routes"}},
			HttpFilters:    []*hcm.HttpFilter{{Name: "router", ConfigType: &hcm.HttpFilter_TypedConfig{TypedConfig: anyOf(b.t, &router.Router{})}}},
		})}}},
	}}}
	if secret != "" {
		l.FilterChains[0].TransportSocket = &core.TransportSocket{Name: "tls", ConfigType: &core.TransportSocket_TypedConfig{
			TypedConfig: anyOf(b.t, &tlsv3.DownstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{
				TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{{Name: secret, SdsConfig: ads()}}}})}}
	}
	for _, f := range edit {
		f(l)
	}
	return pack(b.t, name, l)
}

// keyPair makes a self-signed certificate for the name.
func keyPair(t *testing.T, name string) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}

func (b *bed) secret(name string, cert, key []byte) *ir.Resource {
	inline := func(v []byte) *core.DataSource {
		return &core.DataSource{Specifier: &core.DataSource_InlineBytes{InlineBytes: v}}
	}
	return pack(b.t, name, &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_TlsCertificate{
		TlsCertificate: &tlsv3.TlsCertificate{CertificateChain: inline(cert), PrivateKey: inline(key)}}})
}

// eventually waits for the condition.
func (b *bed) eventually(what string, ok func() bool) { b.t.Helper(); eventually(b.t, what, ok) }

var direct = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}

// get returns status, body and edition of one request on a new connection.
func (b *bed) get(path string) (code int, text, edition string) {
	r, err := direct.Get(fmt.Sprintf("http://127.0.0.1:%d%s", b.port, path))
	if err != nil {
		return 0, err.Error(), ""
	}
	defer r.Body.Close()
	all, _ := io.ReadAll(r.Body)
	return r.StatusCode, string(all), r.Header.Get("x-edition")
}

func (b *bed) stat(name string) string {
	b.t.Helper()
	r, err := direct.Get(fmt.Sprintf("http://127.0.0.1:%d/stats?filter=^%s$", b.admin, name))
	if err != nil {
		b.t.Fatal(err)
	}
	defer r.Body.Close()
	all, _ := io.ReadAll(r.Body)
	_, value, _ := strings.Cut(strings.TrimSpace(string(all)), ": ")
	return value
}

// traffic sends requests to the paths in turn until the returned function is called: one connection kept alive, one new for each request. That
// function fails the test if any request failed.
func (b *bed) traffic(paths ...string) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, fresh := range []bool{true, false} {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: fresh}, Timeout: patience}
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				r, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d%s", b.port, paths[i%len(paths)]))
				if err != nil {
					b.refused.Add(1)
					b.failure.Store(err.Error())
					continue
				}
				text, _ := io.ReadAll(r.Body)
				r.Body.Close()
				if r.StatusCode != http.StatusOK {
					b.refused.Add(1)
					b.failure.Store(fmt.Sprint(r.StatusCode, " ", string(text)))
				} else {
					b.good.Add(1)
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	return func() {
		b.t.Helper()
		cancel()
		wg.Wait()
		if n := b.refused.Load(); n > 0 || b.good.Load() == 0 {
			b.t.Errorf("%d of %d requests failed, the last with %v", n, n+b.good.Load(), b.failure.Load())
		}
	}
}
