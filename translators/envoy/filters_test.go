package envoy

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// allFilters are all filters with all their settings, in the order of the front ends.
func allFilters() []*ir.Filter {
	return []*ir.Filter{
		{Name: ir.FilterGRPCBridge}, {Name: ir.FilterGRPCWeb},
		{Name: ir.FilterGRPCStats, Config: &ir.GRPCStats{Services: []ir.GRPCService{{Name: "a.B", Methods: []string{"C"}}}, UpstreamStats: true}},
		{Name: ir.FilterLua, Config: &ir.Lua{Script: "function envoy_on_request(h) end"}},
		{Name: ir.FilterCompressor, Config: &ir.Compressor{MemoryLevel: 2, WindowBits: 10, MinContentLength: 100, ContentTypes: []string{"text/css"}, DisableOnETag: true,
			RemoveAcceptEncoding: true, Level: "BEST_SPEED", Strategy: "RLE"}},
		{Name: ir.FilterBuffer, Config: &ir.Buffer{MaxRequestBytes: 5}},
		{Name: ir.FilterRBAC, Config: &ir.AddressRules{Allow: []ir.AddressRange{{Prefix: "10.0.0.0", Bits: 8, Peer: true}, {Prefix: "2001:db8::", Bits: 32}}, Deny: []ir.AddressRange{{Prefix: "10.1.0.0", Bits: 16}}}},
		{Name: ir.FilterCORS},
		{Name: ir.FilterExtAuthz, Config: &ir.ExtAuthz{Cluster: "a", URI: "http://auth:80", PathPrefix: "/check", TimeoutMillis: 5000, RequestHeaders: []string{"cookie", "x-foo"}, AnswerHeaders: []string{"location"},
			AddHeaders: []ir.HeaderValue{{Name: "x-a", Value: "1"}}, Body: &ir.ExtAuthzBody{MaxBytes: 4096, Partial: true}, FailureModeAllow: true, StatusOnError: 503}, Origins: from("AuthService", "auth")},
		{Name: ir.FilterRateLimit, Config: &ir.RateLimit{Cluster: "a", Domain: "d", TimeoutMillis: 20, FailureModeDeny: true, ResourceExhausted: true}, Origins: from("RateLimitService", "rl")},
	}
}

// filtered is a program whose one listener has all filters, an access log service and tracing.
func filtered() *ir.Program {
	prog := small()
	prog.Bootstrap = &ir.Bootstrap{AdminPort: 18001, ReadyPort: 18006}
	h := prog.Listeners[0].Chains[0].HTTP
	h.Filters = allFilters()
	h.AccessLogs = []ir.AccessLog{
		{Type: "grpc_http", Cluster: "a", LogName: "log", FlushMillis: 1000, FlushBytes: 9, RequestHeaders: []string{"x-a"}, ResponseHeaders: []string{"x-b"}, Trailers: []string{"x-c"}},
		{Type: "grpc_tcp", Cluster: "a", LogName: "log"},
	}
	h.Tracing = tracers()[0]
	routes := prog.RouteConfigs[0].VirtualHosts[0]
	routes.Routes = append(slices.Clone(routes.Routes),
		&ir.Route{Name: "bypass", Match: prefix("/bypass"), Forward: forward("a"), Filters: map[string]any{ir.FilterExtAuthz: &ir.ExtAuthzRoute{Disabled: true}}},
		&ir.Route{Name: "context", Match: prefix("/context"), Forward: forward("a"), Filters: map[string]any{ir.FilterExtAuthz: &ir.ExtAuthzRoute{Context: map[string]string{"a": "b"}}}},
		&ir.Route{Name: "own", Own: true, Match: prefix("/own"), Redirect: &ir.Redirect{HTTPS: true, Code: 301}},
		&ir.Route{Name: "limited", Match: prefix("/limited"), Forward: forward("a"), Filters: map[string]any{ir.FilterRateLimit: &ir.RateLimitRoute{Descriptors: []ir.RateLimitDescriptor{
			{Actions: []ir.RateLimitAction{{Kind: ir.RateLimitSourceCluster}, {Kind: ir.RateLimitDestinationCluster}, {Kind: ir.RateLimitRemoteAddress}}},
			{Actions: []ir.RateLimitAction{{Kind: ir.RateLimitGeneric, Value: "v"}, {Kind: ir.RateLimitGeneric, Key: "k", Value: "v"}, {Kind: ir.RateLimitHeader, Key: "h", Header: "x-h", Optional: true}}},
		}}}},
	)
	return prog
}

func tracers() []*ir.Tracing {
	return []*ir.Tracing{
		{Driver: "zipkin", Cluster: "a", Endpoint: "/api/v2/spans", EndpointVersion: "HTTP_JSON", Hostname: "z", TraceID128Bit: true, SharedSpan: p(false), Client: p(1.0), Random: p(2.0), Overall: p(3.0),
			Tags: []ir.TracingTag{{Tag: "a", Kind: "literal", Value: "v"}, {Tag: "b", Kind: "environment", Source: "E", Value: "d"}, {Tag: "c", Kind: "request_header", Source: "x-h"}}},
		{Driver: "datadog", Cluster: "a", ServiceName: "s"},
		{Driver: "opentelemetry", Cluster: "a", ServiceName: "s"},
	}
}

func TestEnvoyTakesFilters(t *testing.T) {
	check := func(name string, prog *ir.Program) {
		t.Run(name, func(t *testing.T) {
			out := clean(t, emit(t, prog))
			var text bytes.Buffer
			if err := WriteStatic(&text, prog.Bootstrap, out.Resources); err != nil {
				t.Fatal(err)
			}
			validate(t, text.Bytes())
		})
	}
	check("all", filtered())
	for _, tracer := range tracers()[1:] {
		prog := filtered()
		prog.Listeners[0].Chains[0].HTTP.Tracing = tracer
		check(tracer.Driver, prog)
	}
	prog := filtered()
	prog.Listeners[0].Chains[0].HTTP.Filters = []*ir.Filter{
		{Name: ir.FilterGRPCStats, Config: &ir.GRPCStats{AllMethods: true}}, {Name: ir.FilterCompressor, Config: &ir.Compressor{}},
		{Name: ir.FilterRBAC, Config: &ir.AddressRules{Closed: "why"}}, {Name: ir.FilterExtAuthz, Config: &ir.ExtAuthz{Closed: "why"}},
		{Name: ir.FilterRateLimit, Config: &ir.RateLimit{Domain: "d", TimeoutMillis: 20, FailureModeDeny: true}},
	}
	check("closed", prog)
	prog = filtered()
	prog.Listeners[0].Chains[0].HTTP.Filters = []*ir.Filter{
		{Name: ir.FilterRBAC, Config: &ir.AddressRules{Deny: []ir.AddressRange{{Prefix: "10.1.0.0", Bits: 16}}}},
		{Name: ir.FilterExtAuthz, Config: &ir.ExtAuthz{Cluster: "a", GRPC: true, TimeoutMillis: 7}},
	}
	check("grpc", prog)
}

func TestGoldenFilters(t *testing.T) {
	prog := filtered()
	prog.Listeners[0].Chains[0].HTTP.Filters[3].Origins = from("Module", "script")
	out := clean(t, emit(t, prog))
	if o := find(out.Resources[ir.TypeListener], prog.Listeners[0].Name).Origins; !slices.Equal(o, sortOrigins(from("Listener", "http"), from("Module", "script"))) {
		t.Errorf("the script's object is not to blame for the listener: %v", o)
	}
	golden(t, "listener-filters", ir.TypeListener, find(out.Resources[ir.TypeListener], prog.Listeners[0].Name).Value)
	for _, r := range routesOf(t, out, prog.RouteConfigs[0].Name) {
		if r.TypedPerFilterConfig != nil {
			golden(t, "filtered-route-"+r.Name, typePrefix+"envoy.config.route.v3.Route", wire(t, r))
		}
	}
	prog.Listeners[0].Chains[0].HTTP.Filters = []*ir.Filter{{Name: ir.FilterExtAuthz, Config: &ir.ExtAuthz{Closed: "why"}}, {Name: ir.FilterRBAC, Config: &ir.AddressRules{Closed: "why"}}}
	out = clean(t, emit(t, prog))
	golden(t, "listener-closed", ir.TypeListener, find(out.Resources[ir.TypeListener], prog.Listeners[0].Name).Value)
}

func routesOf(t *testing.T, out Output, config string) []*routev3.Route {
	t.Helper()
	rc := &routev3.RouteConfiguration{}
	if err := proto.Unmarshal(find(out.Resources[ir.TypeRouteConfig], config).Value, rc); err != nil {
		t.Fatal(err)
	}
	return rc.VirtualHosts[0].Routes
}

// managerOf returns the connection manager of the only chain.
func managerOf(t *testing.T, out Output, listener string) *hcmv3.HttpConnectionManager {
	t.Helper()
	l, m := &listenerv3.Listener{}, &hcmv3.HttpConnectionManager{}
	if err := proto.Unmarshal(find(out.Resources[ir.TypeListener], listener).Value, l); err != nil {
		t.Fatal(err)
	}
	if err := l.FilterChains[0].Filters[0].GetTypedConfig().UnmarshalTo(m); err != nil {
		t.Fatal(err)
	}
	return m
}

// Services whose cluster does not exist: authentication refuses, limits fall to their failure mode, logs and tracing are left out.
func TestLostServices(t *testing.T) {
	prog := filtered()
	h := prog.Listeners[0].Chains[0].HTTP
	lost := *h
	lost.Filters = allFilters()
	lost.Filters[8].Config = &ir.ExtAuthz{Cluster: "gone", URI: "http://auth:80", TimeoutMillis: 5}
	lost.Filters[9].Config = &ir.RateLimit{Cluster: "gone", Domain: "d", TimeoutMillis: 20}
	lost.AccessLogs = []ir.AccessLog{{Type: "grpc_http", Cluster: "gone", LogName: "log", Origins: from("LogService", "log")}}
	lost.Tracing = &ir.Tracing{Driver: "zipkin", Cluster: "gone", Endpoint: "/", Origins: from("TracingService", "t")}
	next := *prog
	l, c := *prog.Listeners[0], *prog.Listeners[0].Chains[0]
	c.HTTP, l.Chains, next.Listeners = &lost, []*ir.FilterChain{&c}, []*ir.Listener{&l}
	e := NewEmitter(Options{})
	clean(t, e.Emit(prog))
	out := e.Emit(&next)
	same(t, out, emit(t, &next))
	var got []string
	for _, d := range out.Diagnostics {
		got = append(got, d.Code.ID+" "+d.Object.Kind)
	}
	if text := strings.Join(got, ", "); text != "CH-ENVOY-002 AuthService, CH-ENVOY-002 LogService, CH-ENVOY-002 RateLimitService, CH-ENVOY-002 TracingService" {
		t.Errorf("findings %v", out.Diagnostics)
	}
	m := managerOf(t, out, l.Name)
	if len(m.AccessLog) != len(h.Settings.AccessLogs) || m.Tracing != nil || m.LocalReplyConfig == nil {
		t.Errorf("%d logs, tracing %v, replies %v", len(m.AccessLog), m.Tracing, m.LocalReplyConfig)
	}
	if find(out.Resources[ir.TypeCluster], unavailable) == nil {
		t.Error("nobody stands in for the lost services")
	}
	var text bytes.Buffer
	if err := WriteStatic(&text, prog.Bootstrap, out.Resources); err != nil {
		t.Fatal(err)
	}
	validate(t, text.Bytes())
}

// The gateway's own answers are exempt from authentication, and say so only where there is any.
func TestOwnAnswersAreNotAsked(t *testing.T) {
	prog := filtered()
	e := NewEmitter(Options{})
	with := e.Emit(prog)
	plain := *prog
	l, c, h := *prog.Listeners[0], *prog.Listeners[0].Chains[0], *prog.Listeners[0].Chains[0].HTTP
	h.Filters = []*ir.Filter{{Name: ir.FilterCORS}}
	c.HTTP, l.Chains, plain.Listeners = &h, []*ir.FilterChain{&c}, []*ir.Listener{&l}
	without := e.Emit(&plain)
	same(t, without, emit(t, &plain))
	same(t, e.Emit(prog), with)
	count := func(out Output) (n int) {
		for _, r := range routesOf(t, out, prog.RouteConfigs[0].Name) {
			if r.TypedPerFilterConfig[ir.FilterExtAuthz] != nil {
				n++
			}
		}
		return n
	}
	if count(with) != 3 || count(without) != 0 {
		t.Errorf("%d and %d routes with settings", count(with), count(without))
	}
}

func TestFilterFaults(t *testing.T) {
	for _, x := range []*ir.Filter{
		{Name: "envoy.filters.http.nosuch"}, {Name: ir.FilterLua}, {Name: ir.FilterBuffer, Config: &ir.Lua{}}, {Name: ir.FilterLua, Config: map[string]any{}},
		{Name: ir.FilterBuffer, Config: &ir.Buffer{}}, {Name: ir.FilterRBAC, Config: &ir.AddressRules{}},
		{Name: ir.FilterRBAC, Config: &ir.AddressRules{Allow: []ir.AddressRange{{Prefix: "10.0.0.0", Bits: 33}}}},
		{Name: ir.FilterCompressor, Config: &ir.Compressor{Level: "MOST"}}, {Name: ir.FilterCompressor, Config: &ir.Compressor{WindowBits: 99}},
		{Name: ir.FilterExtAuthz, Config: &ir.ExtAuthz{Cluster: "a", URI: "http://x", TimeoutMillis: 0}},
		{Name: ir.FilterExtAuthz, Config: &ir.ExtAuthz{Cluster: "a", URI: "http://x", TimeoutMillis: 5, StatusOnError: 299}},
		{Name: ir.FilterExtAuthz, Config: &ir.ExtAuthz{Cluster: "a", URI: "http://x", TimeoutMillis: 5, AddHeaders: []ir.HeaderValue{{Name: ":path"}}}},
		{Name: ir.FilterRateLimit, Config: &ir.RateLimit{TimeoutMillis: 5}},
	} {
		x.Origins = from("Module", "guilty")
		prog := filtered()
		prog.Listeners[0].Chains[0].HTTP.Filters = []*ir.Filter{x}
		out := emit(t, prog)
		if l := find(out.Resources[ir.TypeListener], prog.Listeners[0].Name); l != nil && (!dispensable(x) || strings.Contains(string(l.Value), x.Name)) {
			t.Errorf("%s %+v is served", x.Name, x.Config)
		}
		if !slices.ContainsFunc(out.Diagnostics, func(d snapshot.Diagnostic) bool { return d.Object.Name == "guilty" }) {
			t.Errorf("%s %+v: nobody is blamed: %v", x.Name, x.Config, out.Diagnostics)
		}
	}
	for name, c := range map[string]any{
		ir.FilterExtAuthz:   &ir.RateLimitRoute{},
		ir.FilterBuffer:     &ir.Buffer{MaxRequestBytes: 1},
		ir.FilterRateLimit:  &ir.RateLimitRoute{Descriptors: []ir.RateLimitDescriptor{{Actions: []ir.RateLimitAction{{Kind: "whim"}}}}},
		ir.FilterCompressor: map[string]any{},
	} {
		prog := filtered()
		v := prog.RouteConfigs[0].VirtualHosts[0]
		v.Routes = []*ir.Route{{Name: "bad", Match: prefix("/"), Forward: forward("a"), Filters: map[string]any{name: c}, Origins: from("Mapping", "guilty")}}
		out := emit(t, prog)
		if r := routesOf(t, out, prog.RouteConfigs[0].Name); len(r) != 1 || r[0].GetDirectResponse().GetStatus() != 503 || len(out.Diagnostics) == 0 {
			t.Errorf("%s: %v %v", name, r, out.Diagnostics)
		}
	}
}
