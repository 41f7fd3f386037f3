package validator

import (
	"bytes"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	bufferv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/buffer/v3"
	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// findEnvoy returns the path of an Envoy; the test is skipped without one, except in CI.
func findEnvoy(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("CHANCERY_ENVOY"); path != "" {
		return path
	}
	if path, err := exec.LookPath("envoy"); err == nil {
		return path
	}
	dir, err := os.Getwd()
	for ; err == nil && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
			continue
		}
		found, _ := filepath.Glob(filepath.Join(dir, ".cache/venv/lib/python3*/site-packages/envoy/_bin/envoy"))
		if len(found) > 0 {
			return found[0]
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("no Envoy: set CHANCERY_ENVOY")
	}
	t.Skip("no Envoy")
	return ""
}

func open(t testing.TB, change func(*Options)) *Validator {
	t.Helper()
	o := Options{Envoy: findEnvoy(t), Version: "1.40.0", Runtime: map[string]any{"re2.max_program_size.error_level": 200}, Deadline: slowness * time.Second}
	var log bytes.Buffer
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	if change != nil {
		change(&o)
	}
	v, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return v
}

func judge(t testing.TB, v *Validator, units ...*ir.Unit) Verdicts {
	t.Helper()
	out, err := v.Judge(t.Context(), units)
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Unjudged) > 0 {
		t.Fatalf("%d units were not judged", len(out.Unjudged))
	}
	return out
}

func unit(kind ir.UnitKind, name string, m proto.Message) *ir.Unit {
	return &ir.Unit{Kind: kind, Name: name, Value: encoded(m)}
}

func direct(status uint32) *routev3.Route_DirectResponse {
	return &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: status}}
}

func prefix(name string) *ir.Unit {
	return unit(ir.UnitRoute, name, &routev3.Route{Name: name, Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/" + name}}, Action: direct(200)})
}

func regex(name, pattern string) *ir.Unit {
	return unit(ir.UnitRoute, name, &routev3.Route{Name: name, Action: direct(200),
		Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: pattern}}}})
}

func luaRoute(name, code string) *ir.Unit {
	return unit(ir.UnitRoute, name, &routev3.Route{Name: name, Action: direct(200), Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/" + name}},
		TypedPerFilterConfig: map[string]*anypb.Any{"envoy.filters.http.lua": packed(&luav3.LuaPerRoute{Override: &luav3.LuaPerRoute_SourceCode{
			SourceCode: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: code}}}})}})
}

// filtered is a route with settings for a filter.
func filtered(filter string, settings *anypb.Any) *ir.Unit {
	return unit(ir.UnitRoute, "for "+filter, &routev3.Route{Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}}, Action: direct(200),
		TypedPerFilterConfig: map[string]*anypb.Any{filter: settings}})
}

func eds(name string, change func(*clusterv3.Cluster)) *ir.Unit {
	c := &clusterv3.Cluster{Name: name, ConnectTimeout: durationpb.New(time.Second), ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{EdsConfig: overADS, ServiceName: "k8s/" + name}}
	if change != nil {
		change(c)
	}
	return unit(ir.UnitCluster, name, c)
}

func upstreamTLS(certificate, anchors string) func(*clusterv3.Cluster) {
	return func(c *clusterv3.Cluster) {
		c.TransportSocket = &corev3.TransportSocket{Name: "envoy.transport_sockets.tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: packed(&tlsv3.UpstreamTlsContext{
			CommonTlsContext: &tlsv3.CommonTlsContext{TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{overSDS(certificate)},
				ValidationContextType: &tlsv3.CommonTlsContext_ValidationContextSdsSecretConfig{ValidationContextSdsSecretConfig: overSDS(anchors)}}})}}
	}
}

func certificate(name, cert, key string) *ir.Unit {
	inline := func(s string) *corev3.DataSource {
		return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: []byte(s)}}
	}
	return unit(ir.UnitSecret, name, &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{CertificateChain: inline(cert), PrivateKey: inline(key)}}})
}

// pairOf returns the PEM texts of a good secret.
func pairOf(t testing.TB) (cert, key string) {
	t.Helper()
	g, err := newGood()
	if err != nil {
		t.Fatal(err)
	}
	var s tlsv3.Secret
	if err := proto.Unmarshal(g.certificate, &s); err != nil {
		t.Fatal(err)
	}
	return string(s.GetTlsCertificate().CertificateChain.GetInlineBytes()), string(s.GetTlsCertificate().PrivateKey.GetInlineBytes())
}

func head(name, address string, port uint32) []byte {
	return encoded(&listenerv3.Listener{Name: name, Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: address, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port}}}}})
}

func chainUnit(name string, frame []byte, change func(*listenerv3.FilterChain)) *ir.Unit {
	m := &hcmv3.HttpConnectionManager{StatPrefix: "x", RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{ConfigSource: overADS, RouteConfigName: "real"}},
		HttpFilters: []*hcmv3.HttpFilter{{Name: "envoy.filters.http.router", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: &anypb.Any{TypeUrl: "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}}}}
	c := &listenerv3.FilterChain{Name: name, FilterChainMatch: &listenerv3.FilterChainMatch{ServerNames: []string{name + ".example.com"}},
		Filters: []*listenerv3.Filter{{Name: "envoy.filters.network.http_connection_manager", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: packed(m)}}}}
	if change != nil {
		change(c)
	}
	return &ir.Unit{Kind: ir.UnitChain, Name: name, Frame: frame, Value: encoded(c)}
}

func ciphers(suites ...string) func(*listenerv3.FilterChain) {
	return func(c *listenerv3.FilterChain) {
		c.TransportSocket = &corev3.TransportSocket{Name: "envoy.transport_sockets.tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: packed(&tlsv3.DownstreamTlsContext{
			CommonTlsContext: &tlsv3.CommonTlsContext{TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{overSDS("app/cert")}, TlsParams: &tlsv3.TlsParameters{CipherSuites: suites}}})}}
	}
}

// suspect is a unit and what Envoy is to say of it, as a regular expression; "" is nothing.
type suspect struct {
	want string
	unit *ir.Unit
}

// suspects returns units of every kind, guilty and innocent.
func suspects(t testing.TB) []suspect {
	cert, key := pairOf(t)
	_, otherKey := pairOf(t)
	outside := head("outside", "192.0.2.1", 80) // an address of no host, and a privileged port
	checked := func(c *clusterv3.Cluster) {
		c.HealthChecks = []*corev3.HealthCheck{{Timeout: durationpb.New(time.Second), Interval: durationpb.New(time.Second), HealthyThreshold: wrapperspb.UInt32(1),
			UnhealthyThreshold: wrapperspb.UInt32(1), HealthChecker: &corev3.HealthCheck_TcpHealthCheck_{TcpHealthCheck: &corev3.HealthCheck_TcpHealthCheck{}}}}
	}
	dns := func(host string, kind clusterv3.Cluster_DiscoveryType) func(*clusterv3.Cluster) {
		return func(c *clusterv3.Cluster) {
			c.ClusterDiscoveryType, c.EdsClusterConfig = &clusterv3.Cluster_Type{Type: kind}, nil
			c.LoadAssignment = &endpointv3.ClusterLoadAssignment{ClusterName: c.Name, Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
				HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
					SocketAddress: &corev3.SocketAddress{Address: host, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 80}}}}}}}}}}}
		}
	}
	extension := func(name string, m proto.Message) *ir.Unit {
		return unit(ir.UnitExtension, name, &corev3.TypedExtensionConfig{Name: name, TypedConfig: packed(m)})
	}
	return []suspect{
		{"", prefix("plain")},
		{"", regex("fine", "/a[0-9]+")},
		{`missing \]`, regex("bracket", "/[a-")},
		{`program size of`, regex("large", "/(a|b|c|d){1000}")},
		{"", luaRoute("lua", "function envoy_on_request(h) end")},
		{`script load error`, luaRoute("syntax", "function (")},
		{`registered implementation`, filtered("unknown", &anypb.Any{TypeUrl: "type.googleapis.com/no.such.Message"})},
		{`max_interval`, unit(ir.UnitRoute, "back-off", &routev3.Route{Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
			Action: &routev3.Route_Route{Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: "x"}, RetryPolicy: &routev3.RetryPolicy{RetryOn: "5xx",
				RetryBackOff: &routev3.RetryPolicy_RetryBackOff{BaseInterval: durationpb.New(time.Second), MaxInterval: durationpb.New(time.Millisecond)}}}}})},
		{"", unit(ir.UnitHost, "h1", &routev3.VirtualHost{Name: "h1", Domains: []string{"a.example.com", "*.example.com"}})},
		{`Duplicate entry of domain`, &ir.Unit{Kind: ir.UnitHost, Name: "twice", Frame: []byte("other"), Value: encoded(&routev3.VirtualHost{Name: "twice", Domains: []string{"b.example.com", "B.example.com"}})}},
		{"", eds("plain", nil)},
		{"", eds("tls", upstreamTLS("app/client", "app/client/ca"))},
		{"", eds("checked", checked)},
		{`(?i)cipher`, eds("tls cipher", func(c *clusterv3.Cluster) {
			upstreamTLS("app/client", "app/client/ca")(c)
			var m tlsv3.UpstreamTlsContext
			if err := c.TransportSocket.GetTypedConfig().UnmarshalTo(&m); err != nil {
				t.Fatal(err)
			}
			m.CommonTlsContext.TlsParams = &tlsv3.TlsParameters{CipherSuites: []string{"NO-SUCH-CIPHER"}}
			c.TransportSocket.GetTypedConfig().Value = encoded(&m)
		})},
		{"", eds("dns", dns("no.such.host.invalid", clusterv3.Cluster_STRICT_DNS))},
		{"", eds("logical", dns("no.such.host.invalid", clusterv3.Cluster_LOGICAL_DNS))},
		{"", eds("static", func(c *clusterv3.Cluster) { dns("192.0.2.7", clusterv3.Cluster_STATIC)(c); checked(c) })},
		{`malformed IP address`, eds("name", dns("no.such.host.invalid", clusterv3.Cluster_STATIC))},
		{"", eds(adsCluster, nil)},
		{`cluster 'provided' did not provide one`, eds("provided", func(c *clusterv3.Cluster) {
			dns("192.0.2.7", clusterv3.Cluster_STATIC)(c)
			c.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
		})},
		{"", certificate("good", cert, key)},
		{`(?i)key`, certificate("mismatch", cert, otherKey)},
		{`(?i)certificate`, certificate("garbage", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", key)},
		{"", certificate("good again", cert+"\n", key)},
		{"", unit(ir.UnitSecret, "ca", &tlsv3.Secret{Name: "ca", Type: &tlsv3.Secret_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{
			TrustedCa: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: cert}}}}})},
		{`(?i)certificate|CA`, unit(ir.UnitSecret, "bad ca", &tlsv3.Secret{Name: "bad ca", Type: &tlsv3.Secret_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{
			TrustedCa: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: "nonsense"}}}}})},
		{"", unit(ir.UnitListener, "outside", mustListener(outside))},
		{"", chainUnit("one", outside, nil)},
		{"", chainUnit("two", outside, ciphers("ECDHE-ECDSA-AES128-GCM-SHA256"))},
		{`(?i)cipher`, chainUnit("three", outside, ciphers("NO-SUCH-CIPHER"))},
		{`partial`, chainUnit("four", outside, func(c *listenerv3.FilterChain) { c.FilterChainMatch.ServerNames = []string{"a*.example.com"} })},
		{"", chainUnit("five", head("elsewhere", "192.0.2.1", 80), nil)}, // one address, two listeners: not at a time
		{"", unit(ir.UnitEndpoints, "e", &endpointv3.ClusterLoadAssignment{ClusterName: "e", Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{endpointAt("192.0.2.1", 80)}}}})},
		{`malformed IP address`, unit(ir.UnitEndpoints, "f", &endpointv3.ClusterLoadAssignment{ClusterName: "f", Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{endpointAt("a.example.com", 80)}}}})},
		{"", unit(ir.UnitEndpoints, "none", &endpointv3.ClusterLoadAssignment{ClusterName: "none"})},
		{"", extension("cors", &corsv3.Cors{})},
		{`script load error`, extension("lua", &luav3.Lua{DefaultSourceCode: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: "function ("}}})},
		{`(?i)type`, extension("no HTTP filter", &tcpv3.TcpProxy{StatPrefix: "x", ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: "x"}})},
		{`(?i)private key`, unit(ir.UnitSecret, "no certificate", &tlsv3.Secret{Name: "no certificate", Type: &tlsv3.Secret_GenericSecret{GenericSecret: &tlsv3.GenericSecret{Secret: inText("x")}}})},
		{`MaxRequestBytes: value is required`, extension("rules", &bufferv3.Buffer{})},
	}
}

func mustListener(b []byte) *listenerv3.Listener {
	var l listenerv3.Listener
	if err := proto.Unmarshal(b, &l); err != nil {
		panic(err)
	}
	return &l
}

func compare(t *testing.T, all []suspect, got Verdicts) {
	t.Helper()
	for _, s := range all {
		text, refused := got.Refused[s.unit]
		switch {
		case s.want == "" && refused:
			t.Errorf("%s %q is innocent, but: %s", s.unit.Kind, s.unit.Name, text)
		case s.want != "" && !refused:
			t.Errorf("%s %q was accepted, want %q", s.unit.Kind, s.unit.Name, s.want)
		case s.want != "" && !regexp.MustCompile(s.want).MatchString(text):
			t.Errorf("%s %q: %q does not match %q", s.unit.Kind, s.unit.Name, text, s.want)
		}
		if strings.Contains(text, "Error adding") || strings.Contains(text, "PRIVATE KEY") {
			t.Errorf("%s %q: text %q", s.unit.Kind, s.unit.Name, text)
		}
	}
}

func unitsOf(all []suspect) []*ir.Unit {
	var us []*ir.Unit
	for _, s := range all {
		us = append(us, s.unit)
	}
	return us
}

// TestVerdicts shows every kind of unit to a real Envoy, the guilty among innocents, with and without namespaces, and then
// again in the other order, so that no verdict depends on what was loaded before.
func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		name string
		how  Confinement
	}{{"confined", Confine}, {"unconfined", Unconfined}} {
		t.Run(c.name, func(t *testing.T) {
			all := suspects(t)
			v := open(t, func(o *Options) { o.Confinement = c.how })
			compare(t, all, judge(t, v, unitsOf(all)...))
			if s := v.Status(); c.how == Unconfined && s.Confined || !s.Running || s.Starts != 1 || s.CacheHits != 0 {
				t.Errorf("status %+v", s)
			}
			before := v.Status().Responses
			compare(t, all, judge(t, v, unitsOf(all)...))
			if v.Status().Responses != before {
				t.Error("known verdicts were asked for again")
			}
			v.cache = newCache("", [32]byte{1})
			slices.Reverse(all)
			compare(t, all, judge(t, v, unitsOf(all)...))
		})
	}
}
