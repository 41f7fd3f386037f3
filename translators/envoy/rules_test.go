package envoy

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// fate is what is left of a unit.
type fate int

const (
	gone fate = iota
	answers503
	stays
)

func TestGuiltyRoutes(t *testing.T) {
	type edit = func(*ir.Route)
	tests := []struct {
		name string
		edit edit
		code *snapshot.Code
		path string
		fate fate
	}{
		{"header name", func(r *ir.Route) { r.RequestHeaders.Add = []ir.HeaderValue{{Name: "x y", Value: "1"}} }, codeHeaderName, "request_headers_to_add", answers503},
		{"pseudo header", func(r *ir.Route) { r.ResponseHeaders.Add = []ir.HeaderValue{{Name: ":path", Value: "1"}} }, codeHeaderName, "response_headers_to_add", answers503},
		{"header line break", func(r *ir.Route) { r.RequestHeaders.Add = []ir.HeaderValue{{Name: "x", Value: "a\nb"}} }, codeRule, "request_headers_to_add", answers503},
		{"header too long", func(r *ir.Route) {
			r.ResponseHeaders.Add = []ir.HeaderValue{{Name: "x", Value: strings.Repeat("x", 16385)}}
		}, codeRule, "response_headers_to_add", answers503},
		{"headers too many", func(r *ir.Route) {
			r.RequestHeaders.Add = slices.Repeat([]ir.HeaderValue{{Name: "x", Value: "1"}}, 1001)
		}, codeRule, "request_headers_to_add", answers503},
		{"host header", func(r *ir.Route) { r.RequestHeaders.Remove = []string{"Host"} }, codeHeaderName, "request_headers_to_remove", answers503},
		{"format", func(r *ir.Route) { r.RequestHeaders.Add = []ir.HeaderValue{{Name: "x", Value: "%BAD("}} }, codeFormat, "request_headers_to_add", answers503},
		{"percent", func(r *ir.Route) { r.RequestHeaders.Add = []ir.HeaderValue{{Name: "x", Value: "100%"}} }, codeFormat, "request_headers_to_add", answers503},
		{"retry word", func(r *ir.Route) { r.Forward.Retry = &ir.RetryPolicy{On: "5xx,foo"} }, codeRetryOn, "route.retry_policy.retry_on", answers503},
		{"weights zero", func(r *ir.Route) { r.Forward.Clusters = []ir.WeightedCluster{{Cluster: "a"}, {Cluster: "b"}} }, codeWeights, "route.weighted_clusters", answers503},
		{"weights overflow", func(r *ir.Route) {
			r.Forward.Clusters = []ir.WeightedCluster{{Cluster: "a", Weight: 1 << 31}, {Cluster: "b", Weight: 1 << 31}}
		}, codeWeights, "route.weighted_clusters", answers503},
		{"no target", func(r *ir.Route) { r.Forward.Clusters = nil }, codeWeights, "route.weighted_clusters", answers503},
		{"group", func(r *ir.Route) { r.Forward.RegexRewrite = &ir.RegexRewrite{Pattern: "/(a)", Substitution: "\\7"} }, codeSubstitution, "route.regex_rewrite.substitution", answers503},
		{"rewrite pattern", func(r *ir.Route) { r.Forward.RegexRewrite = &ir.RegexRewrite{Pattern: "(", Substitution: ""} }, codeRegex, "route.regex_rewrite.pattern", answers503},
		{"timeout", func(r *ir.Route) { r.Forward.TimeoutMillis = -1 }, codeValue, "route.timeout", answers503},
		{"retry timeout", func(r *ir.Route) { r.Forward.Retry = &ir.RetryPolicy{On: "5xx", PerTryTimeoutMillis: p(int64(-1))} }, codeValue, "route.retry_policy.per_try_timeout", answers503},
		{"priority", func(r *ir.Route) { r.Forward.Priority = "low" }, codeValue, "route.priority", answers503},
		{"host rewrite", func(r *ir.Route) { r.Forward.HostRewrite = "a\nb" }, codeRule, "route.host_rewrite_literal", answers503},
		{"hash", func(r *ir.Route) { r.Forward.Hash = []ir.HashPolicy{{}} }, codeValue, "route.hash_policy", answers503},
		{"cookie name", func(r *ir.Route) { r.Forward.Hash = []ir.HashPolicy{{Cookie: &ir.HashCookie{}}} }, codeRule, "route.hash_policy[0].cookie.name", answers503},
		{"cors regex", func(r *ir.Route) { r.CORS = &ir.CORS{OriginRegex: []string{"["}} }, codeRegex, "cors.allow_origin_string_match", answers503},
		{"filter", func(r *ir.Route) { r.Filters = map[string]any{"envoy.filters.http.nope": 1} }, codeFilter, "typed_per_filter_config", answers503},
		{"no action", func(r *ir.Route) { r.Forward = nil }, codeValue, "action", answers503},
		{"two actions", func(r *ir.Route) { r.Direct = &ir.DirectResponse{Status: 200} }, codeValue, "action", answers503},
		{"status", func(r *ir.Route) { r.Forward, r.Direct = nil, &ir.DirectResponse{Status: 99} }, codeRule, "direct_response.status", answers503},
		{"body", func(r *ir.Route) {
			r.Forward, r.Direct = nil, &ir.DirectResponse{Status: 200, Body: strings.Repeat("x", 4097)}
		}, codeValue, "direct_response.body", answers503},
		{"redirect code", func(r *ir.Route) { r.Forward, r.Redirect = nil, &ir.Redirect{Code: 200} }, codeValue, "redirect.response_code", answers503},
		{"redirect host", func(r *ir.Route) { r.Forward, r.Redirect = nil, &ir.Redirect{Host: "a\rb"} }, codeRule, "redirect.host_redirect", answers503},
		{"not UTF-8", func(r *ir.Route) { r.Forward.HostRewrite = "\xff" }, codeRule, "", answers503},
		{"missing cluster", func(r *ir.Route) { r.Forward.Clusters[0].Cluster = "nope" }, codeMissing, "route.cluster", answers503},
		{"missing mirror", func(r *ir.Route) { r.Forward.Mirrors = []ir.Mirror{{Cluster: "nope"}} }, codeMissing, "route.request_mirror_policies.cluster", stays},
		{"missing member", func(r *ir.Route) {
			r.Forward.Clusters = []ir.WeightedCluster{{Cluster: "a", Weight: 9}, {Cluster: "nope", Weight: 1}}
		}, codeMissing, "route.cluster", stays},
		{"match regex", func(r *ir.Route) { r.Match = ir.Match{PathKind: ir.PathRegex, Path: "[a-"} }, codeRegex, "match.safe_regex", gone},
		{"match program", func(r *ir.Route) { r.Match = ir.Match{PathKind: ir.PathRegex, Path: "/[a-z]{300}"} }, codeProgram, "match.safe_regex", gone},
		{"rewrite program", func(r *ir.Route) {
			r.Forward.RegexRewrite = &ir.RegexRewrite{Pattern: strings.Repeat("a", 250), Substitution: ""}
		}, codeProgram, "route.regex_rewrite.pattern", answers503},
		{"program within the limit", func(r *ir.Route) {
			r.Forward.RegexRewrite = &ir.RegexRewrite{Pattern: strings.Repeat("a", 190), Substitution: ""}
		}, nil, "", stays},
		{"match look-ahead", func(r *ir.Route) { r.Match = ir.Match{PathKind: ir.PathRegex, Path: "(?=a)"} }, codeRegex, "match.safe_regex", gone},
		{"match kind", func(r *ir.Route) { r.Match.PathKind = "glob" }, codeValue, "match", gone},
		{"match header", func(r *ir.Route) { r.Match.Headers = []ir.ValueMatch{{Name: "x y", Kind: ir.ValuePresent}} }, codeHeaderName, "match.headers", gone},
		{"match empty prefix", func(r *ir.Route) { r.Match.Headers = []ir.ValueMatch{{Name: "x", Kind: ir.ValuePrefix}} }, codeRule, "match.headers[0].string_match.prefix", gone},
		{"inverted query", func(r *ir.Route) { r.Match.Query = []ir.ValueMatch{{Name: "x", Kind: ir.ValuePresent, Invert: true}} }, codeValue, "match.query_parameters", gone},
		{"fraction", func(r *ir.Route) { r.Match.Fraction = &ir.Fraction{Numerator: 1, Denominator: 7} }, codeValue, "match.runtime_fraction", gone},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			prog := small()
			guilty := *prog.RouteConfigs[0].VirtualHosts[0].Routes[0]
			f := *guilty.Forward
			f.Clusters = slices.Clone(f.Clusters)
			guilty.Forward = &f
			c.edit(&guilty)
			bad := withRoute(prog, 0, 0, &guilty)
			out := emit(t, bad)
			blamed(t, out, c.code, c.path, "a")
			routes := decodeRoutes(t, out)
			others := routes
			if c.fate != gone {
				others = routes[1:]
				direct := routes[0].GetDirectResponse()
				if (direct.GetStatus() == 503) != (c.fate == answers503) || routes[0].GetMatch().GetPrefix() != "/a/" {
					t.Errorf("the guilty route became %v", routes[0])
				}
			}
			if len(others) != 1 || !proto.Equal(others[0], decodeRoutes(t, emit(t, prog))[1]) {
				t.Errorf("the innocent routes became %v", others)
			}
			unchangedBut(t, out, emit(t, prog), ir.TypeRouteConfig, unavailable)
		})
	}
}

// blamed checks that the one finding has this code, protobuf path and object; a nil code wants none.
func blamed(t *testing.T, out Output, code *snapshot.Code, path, object string) {
	t.Helper()
	if code == nil {
		clean(t, out)
		return
	}
	found := false
	for _, d := range out.Diagnostics {
		if d.Code == code && d.Object.Name == object && (path == "" || strings.Contains(d.Message, ": "+path+": ")) && d.Severity == snapshot.Error {
			found = true
		}
	}
	if !found {
		t.Errorf("want %s at %s on %s, got %v", code.ID, path, object, out.Diagnostics)
	}
}

// unchangedBut checks that no resource but those of one type, and one of a name, differs.
func unchangedBut(t *testing.T, got, want Output, except, name string) {
	t.Helper()
	for url, list := range want.Resources {
		if url == except {
			continue
		}
		for _, w := range list {
			if g := find(got.Resources[url], w.Name); w.Name != name && (g == nil || string(g.Value) != string(w.Value)) {
				t.Errorf("%s %q has changed", url, w.Name)
			}
		}
	}
}

func decodeRoutes(t *testing.T, out Output) []*routev3.Route {
	t.Helper()
	rc := &routev3.RouteConfiguration{}
	if err := proto.Unmarshal(out.Resources[ir.TypeRouteConfig][0].Value, rc); err != nil {
		t.Fatal(err)
	}
	return rc.VirtualHosts[0].Routes
}

func TestMemberOfASplitIsMissing(t *testing.T) {
	prog := small()
	r := *prog.RouteConfigs[0].VirtualHosts[0].Routes[0]
	r.Forward = &ir.Forward{Clusters: []ir.WeightedCluster{{Cluster: "a", Weight: 9}, {Cluster: "nope", Weight: 1}}}
	out := emit(t, withRoute(prog, 0, 0, &r))
	split := decodeRoutes(t, out)[0].GetRoute().GetWeightedClusters().GetClusters()
	if len(split) != 2 || split[0].GetName() != "a" || split[1].GetName() != unavailable || split[1].GetWeight().GetValue() != 1 {
		t.Errorf("the split became %v", split)
	}
	stand := find(out.Resources[ir.TypeCluster], unavailable)
	c := &clusterv3.Cluster{}
	if stand == nil || proto.Unmarshal(stand.Value, c) != nil || len(c.GetLoadAssignment().GetEndpoints()) != 0 {
		t.Errorf("the unavailable cluster is %v", c)
	}
	if !slices.IsSortedFunc(out.Resources[ir.TypeCluster], func(a, b *ir.Resource) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("clusters are not sorted")
	}
}

func TestGuiltyNodes(t *testing.T) {
	second := func(prog *ir.Program) *ir.FilterChain { return prog.Listeners[0].Chains[1] }
	tests := []struct {
		name string
		edit func(*ir.Program)
		code *snapshot.Code
		path string
		// object is to blame; url and lost say which resource is not there for it.
		object, url, lost string
	}{
		{"cluster lb", func(p *ir.Program) { p.Clusters[0].LoadBalancer = "x" }, codeValue, "lb_policy", "everything", ir.TypeCluster, "dns"},
		{"cluster rule", func(p *ir.Program) { p.Clusters[0].ConnectTimeoutMillis = -1 }, codeRule, "connect_timeout", "everything", ir.TypeCluster, "dns"},
		{"cluster breaker twice", func(p *ir.Program) { p.Clusters[0].CircuitBreakers[1].Priority = "default" }, codeValue, "circuit_breakers.thresholds.priority", "everything", ir.TypeCluster, "dns"},
		{"cluster packed rule", func(p *ir.Program) { p.Clusters[0].DNSFamily = "v5" }, codeValue, "cluster_type.dns_lookup_family", "everything", ir.TypeCluster, "dns"},
		{"cluster TLS versions", func(p *ir.Program) { p.Clusters[1].TLS.Params.MaxVersion = "1.1" }, codeTLSVersions, "tls_params", "regex", ir.TypeCluster, "eds"},
		{"cluster secret", func(p *ir.Program) { p.Clusters[1].TLS.Certificate = "nope" }, codeMissing, "transport_socket", "regex", ir.TypeCluster, "eds"},
		{"cluster SAN without anchors", func(p *ir.Program) { p.Clusters[1].TLS.Validation = "" }, codeValue, "transport_socket.common_tls_context", "regex", ir.TypeCluster, "eds"},
		{"cluster endpoints", func(p *ir.Program) { p.Clusters[1].EndpointSet = "nope" }, codeMissing, "eds_cluster_config.service_name", "regex", ir.TypeCluster, "eds"},
		{"cluster discovery", func(p *ir.Program) { p.Clusters[4].Discovery = "magic" }, codeValue, "type", "exact", ir.TypeCluster, "static"},
		{"cluster port", func(p *ir.Program) { p.Clusters[4].Port = 70000 }, codeRule, "load_assignment.endpoints[0].lb_endpoints[0].endpoint.address.socket_address.port_value", "exact", ir.TypeCluster, "static"},
		{"cluster health check", func(p *ir.Program) { p.Clusters[1].HealthChecks[0].TimeoutMillis = 0 }, codeRule, "health_checks[0].timeout", "regex", ir.TypeCluster, "eds"},
		{"reserved name", func(p *ir.Program) { p.Clusters[4].Name = "xds_cluster" }, codeReserved, "name", "exact", ir.TypeCluster, "xds_cluster"},
		{"endpoint address", func(p *ir.Program) { p.EndpointSets[0].Endpoints[0].Address = "host.name" }, codeValue, "endpoints", "e", ir.TypeEndpoint, "k8s/default/e/80"},
		{"secret without key", func(p *ir.Program) { p.Secrets[1].Key = nil }, codeValue, "tls_certificate.private_key", "cert", ir.TypeSecret, "default/cert"},
		{"secret of nothing", func(p *ir.Program) { p.Secrets[0].CA = nil }, codeValue, "type", "ca", ir.TypeSecret, "default/ca/ca"},
		{"chain match twice", func(p *ir.Program) { p.Listeners[0].Chains[2].Match.ServerNames = []string{"ONE.example.org"} }, codeChainMatch, "filter_chain_match", "t", "chain", "tls-tcp"},
		{"chain TLS versions", func(p *ir.Program) { second(p).TLS.Params.MaxVersion = "1.0" }, codeTLSVersions, "tls_params", "one", "chain", "tls-one"},
		{"chain TLS version name", func(p *ir.Program) { second(p).TLS.Params.MinVersion = "2" }, codeValue, "tls_params.tls_minimum_protocol_version", "one", "chain", "tls-one"},
		{"chain secret", func(p *ir.Program) { second(p).TLS.Validation = "nope" }, codeMissing, "transport_socket", "one", "chain", "tls-one"},
		{"chain routes", func(p *ir.Program) { second(p).HTTP.RouteConfig = "nope" }, codeMissing, "http_connection_manager.rds.route_config_name", "one", "chain", "tls-one"},
		{"chain wildcard", func(p *ir.Program) { second(p).Match.ServerNames = []string{"a*.example.com"} }, codeValue, "filter_chain_match.server_names", "one", "chain", "tls-one"},
		{"chain filter", func(p *ir.Program) { second(p).HTTP.Filters = []*ir.Filter{{Name: "nope"}} }, codeFilter, "http_filters", "one", "chain", "tls-one"},
		{"chain stat prefix", func(p *ir.Program) { second(p).HTTP.StatPrefix = "" }, codeRule, "http_connection_manager.stat_prefix", "one", "chain", "tls-one"},
		{"chain access log", func(p *ir.Program) { second(p).HTTP.Settings.AccessLogs = []ir.AccessLog{{Type: "file"}} }, codeRule, "access_log.path", "one", "chain", "tls-one"},
		{"chain access log format", func(p *ir.Program) {
			second(p).HTTP.Settings.AccessLogs = []ir.AccessLog{{Type: "file", Path: "/dev/null", Format: "%REQ(a"}}
		}, codeFormat, "access_log.log_format.text_format_source", "one", "chain", "tls-one"},
		{"chain settings are another object's", func(p *ir.Program) {
			second(p).HTTP.Settings.HeadersWithUnderscoresAction, second(p).HTTP.Settings.Origins = "x", from("Module", "ambassador")
		}, codeValue, "common_http_protocol_options.headers_with_underscores_action", "ambassador", "chain", "tls-one"},
		{"chain certificate details", func(p *ir.Program) { second(p).HTTP.Settings.ForwardClientCertDetails = "x" }, codeValue, "forward_client_cert_details", "one", "chain", "tls-one"},
		{"no inspector", func(p *ir.Program) { p.Listeners[0].TLSInspector = false }, codeInspector, "filter_chain_match.server_names", "one", "chain", "tls-one"},
		{"listener port", func(p *ir.Program) { p.Listeners[2].Port = 70000 }, codeRule, "address.socket_address.port_value", "t", ir.TypeListener, "tcp"},
		{"listener address", func(p *ir.Program) { p.Listeners[2].Address = "localhost" }, codeValue, "address.socket_address.address", "t", ir.TypeListener, "tcp"},
		{"listener clash", func(p *ir.Program) { p.Listeners[2].Port = 18080 }, codeAddress, "address", "t", ir.TypeListener, "tcp"},
		{"listener without chains", func(p *ir.Program) { p.Listeners[2].Chains = nil }, codeNoChain, "filter_chains", "t", ir.TypeListener, "tcp"},
		{"domain twice", func(p *ir.Program) { p.RouteConfigs[0].VirtualHosts[1].Domains = []string{"ONE.example.com", "*"} }, codeDomain, "domains", "star", "", ""},
		{"domain empty", func(p *ir.Program) { p.RouteConfigs[0].VirtualHosts[1].Domains = nil }, codeRule, "domains", "star", "", ""},
		{"name twice", func(p *ir.Program) { p.Clusters[4].Name = "dns" }, codeDuplicate, "name", "exact", ir.TypeCluster, "static"},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			prog := full()
			c.edit(prog)
			out := emit(t, prog)
			blamed(t, out, c.code, c.path, c.object)
			if c.url == "chain" {
				if slices.Contains(chainNames(t, out, "http"), c.lost) {
					t.Errorf("filter chain %q is there", c.lost)
				}
			} else if c.url != "" && find(out.Resources[c.url], c.lost) != nil {
				t.Errorf("%s %q is there", c.url, c.lost)
			}
			for _, l := range out.Resources[ir.TypeListener] {
				m := &listenerv3.Listener{}
				if err := proto.Unmarshal(l.Value, m); err != nil || m.ValidateAll() != nil || len(m.FilterChains) == 0 {
					t.Errorf("listener %q: %v", l.Name, err)
				}
			}
			if err := WriteStatic(io.Discard, prog.Bootstrap, out.Resources); err != nil {
				t.Errorf("what is left does not hold together: %v", err)
			}
			same(t, NewEmitter(Options{}).Emit(prog), out)
		})
	}
}

func chainNames(t *testing.T, out Output, listener string) []string {
	t.Helper()
	r := find(out.Resources[ir.TypeListener], listener)
	if r == nil {
		return nil
	}
	m := &listenerv3.Listener{}
	if err := proto.Unmarshal(r.Value, m); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range m.FilterChains {
		names = append(names, c.Name)
	}
	return names
}

// TestFaultsSpread: a refused secret closes the chains that name it, a refused endpoint set its cluster, that the routes.
func TestFaultsSpread(t *testing.T) {
	prog := full()
	prog.Secrets[1].Key = nil
	out := emit(t, prog)
	if got := chainNames(t, out, "http"); !slices.Equal(got, []string{"clear"}) {
		t.Errorf("chains without their certificate: %v", got)
	}
	if find(out.Resources[ir.TypeListener], "quic") != nil {
		t.Error("a listener without a chain is there")
	}

	prog = small()
	prog.EndpointSets[0].Endpoints[0].Address = "x"
	out = emit(t, prog)
	if r := decodeRoutes(t, out)[1]; r.GetDirectResponse().GetStatus() != 503 {
		t.Errorf("the route to a refused cluster is %v", r)
	}
	for _, object := range []string{"b"} {
		blamed(t, out, codeMissing, "route.cluster", object)
	}
}

// TestDomainTwiceKeepsTheRest: the second virtual host loses the domain alone.
func TestDomainTwiceKeepsTheRest(t *testing.T) {
	prog := full()
	prog.RouteConfigs[0].VirtualHosts[1].Domains = []string{"*", "One.Example.com"}
	out := emit(t, prog)
	rc := &routev3.RouteConfiguration{}
	if err := proto.Unmarshal(find(out.Resources[ir.TypeRouteConfig], "clear").Value, rc); err != nil {
		t.Fatal(err)
	}
	if got := rc.VirtualHosts[1].Domains; !slices.Equal(got, []string{"*"}) {
		t.Errorf("got %v", got)
	}
}

func TestFormat(t *testing.T) {
	for value, good := range map[string]bool{
		"": true, "plain": true, "%%": true, "100%%": true, "%PROTOCOL%": true, "a%REQ(X-A?Y)%b%%": true, "%REQ(X):10%": true,
		"%START_TIME(%Y/%m)%": true, "%DYNAMIC_METADATA(a:b)%": true, "%CEL(f(x) == ')' )%": true,
		"%": false, "%%%": false, "%a%": false, "%REQ(X": false, "%REQ(X)": false, "%REQ(X):a%": false, "50% off": false,
	} {
		var f faults
		format("x", value, &f)
		if (len(f) == 0) != good {
			t.Errorf("%q: good is %v", value, len(f) == 0)
		}
	}
}

// TestProgramSizeLimit: another limit is another answer, for what was emitted before too, and Envoy agrees.
func TestProgramSizeLimit(t *testing.T) {
	prog := small()
	r := *prog.RouteConfigs[0].VirtualHosts[0].Routes[0]
	r.Match = ir.Match{PathKind: ir.PathRegex, Path: strings.Repeat("a", 210)}
	prog = withRoute(prog, 0, 0, &r)
	e := NewEmitter(Options{})
	blamed(t, e.Emit(prog), codeProgram, "match.safe_regex", "a")
	wide := *prog
	wide.Bootstrap = &ir.Bootstrap{RegexMaxSize: 230}
	out := clean(t, e.Emit(&wide))
	for limit, good := range map[uint32]bool{230: true, 200: false} {
		var text bytes.Buffer
		if err := WriteStatic(&text, &ir.Bootstrap{RegexMaxSize: limit}, out.Resources); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "envoy.json")
		if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		log, err := exec.Command(findEnvoy(t), "--mode", "validate", "-c", file, "--disable-hot-restart").CombinedOutput()
		if (err == nil) != good {
			t.Errorf("limit %d: Envoy says %v: %s", limit, err, log)
		}
	}
	blamed(t, e.Emit(prog), codeProgram, "match.safe_regex", "a")
}

// TestHeaderRulesAreStricterThanProtobuf: what headersToAdd lets pass, the protobuf rules that checkRoute leaves out let pass too.
func TestHeaderRulesAreStricterThanProtobuf(t *testing.T) {
	passed := 0
	for c := range 256 {
		for _, h := range []ir.HeaderValue{{Name: "x" + string([]byte{byte(c)}), Value: "v"}, {Name: "x", Value: string([]byte{byte(c)})}, {Name: string(rune(c))}} {
			var f, g faults
			for _, m := range headersToAdd("request", []ir.HeaderValue{h}, &f) {
				g.check("", m)
			}
			if len(f) == 0 && len(g) > 0 {
				t.Errorf("%+v passes, but protobuf says %v", h, g)
			}
			if len(f) == 0 {
				passed++
			}
		}
	}
	if passed < 200 {
		t.Errorf("only %d pass", passed)
	}
}
