package emissary

import (
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
	api "github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
	"github.com/chancery-gateway/chancery/translators/ir"
)

const aListener = `{kind: Listener, metadata: {name: l}, spec: {port: 8080, protocol: HTTP, securityModel: XFP, hostBinding: {namespace: {from: ALL}}}}`

// chainOf lowers a Listener beside the documents and returns its chain.
func chainOf(t *testing.T, docs ...string) *ir.HTTPChain {
	t.Helper()
	w := newWorld(t, strings.Join(append(docs, aListener), "\n---\n"))
	return w.lower(t, "Listener/l").Listeners[0].Chain
}

// filter returns the configuration of the chain's filter of this name; nil where there is none.
func filter(c *ir.HTTPChain, name string) any {
	for _, x := range c.Filters {
		if x.Name == name {
			return x.Config
		}
	}
	return nil
}

func TestFilterOrder(t *testing.T) {
	c := chainOf(t,
		`{kind: Module, metadata: {name: ambassador}, spec: {config: {enable_grpc_http11_bridge: true, enable_grpc_web: true, grpc_stats: {}, lua_scripts: "function envoy_on_request(h) end", gzip: {}, buffer: {max_request_bytes: 9}, ip_allow: [{remote: 10.0.0.0/8}]}}}`,
		`{kind: AuthService, metadata: {name: a}, spec: {auth_service: auth}}`,
		`{kind: RateLimitService, metadata: {name: r}, spec: {service: rl, protocol_version: v3}}`)
	var got []string
	for _, x := range c.Filters {
		got = append(got, strings.TrimPrefix(x.Name, "envoy.filters.http."))
		if len(x.Origins) != 1 {
			t.Errorf("%s is from %v", x.Name, x.Origins)
		}
	}
	const order = "grpc_http1_bridge grpc_web grpc_stats lua compressor buffer rbac cors ext_authz ratelimit"
	if strings.Join(got, " ") != order {
		t.Errorf("got  %s\nwant %s", strings.Join(got, " "), order)
	}
}

func TestModuleFilters(t *testing.T) {
	for _, c := range []struct{ config, name, want, findings string }{
		{`gzip: {}`, ir.FilterCompressor, `{}`, ""},
		{`gzip: {memory_level: 2, window_bits: 10, min_content_length: 100, content_type: [text/css], disable_on_etag_header: true, remove_accept_encoding_header: true, compression_level: BEST, compression_strategy: RLE}`, ir.FilterCompressor,
			`{"memoryLevel":2,"windowBits":10,"minContentLength":100,"contentTypes":["text/css"],"disableOnEtag":true,"removeAcceptEncoding":true,"level":"BEST_COMPRESSION","strategy":"RLE"}`, ""},
		{`gzip: {memory_level: 10, compression_level: MOST}`, ir.FilterCompressor, `{}`, "error CH-MODULE-001 spec.config.gzip.memory_level; error CH-MODULE-001 spec.config.gzip.compression_level"},
		{`buffer: {max_request_bytes: "5"}`, ir.FilterBuffer, `{"maxRequestBytes":5}`, ""},
		{`buffer: {}`, ir.FilterBuffer, `null`, "error CH-MODULE-001 spec.config.buffer.max_request_bytes"},
		{`buffer: {max_request_bytes: -1}`, ir.FilterBuffer, `null`, "error CH-MODULE-001 spec.config.buffer.max_request_bytes"},
		{`lua_scripts: "function envoy_on_request(h) end"`, ir.FilterLua, `{"script":"function envoy_on_request(h) end"}`, ""},
		{`lua_scripts: [x]`, ir.FilterLua, `null`, "error CH-MODULE-001 spec.config.lua_scripts"},
		{`grpc_stats: {all_methods: true, upstream_stats: true}`, ir.FilterGRPCStats, `{"allMethods":true,"upstreamStats":true}`, ""},
		{`grpc_stats: {all_methods: true, services: [{name: a.B, method_names: [C]}]}`, ir.FilterGRPCStats, `{"services":[{"name":"a.B","methods":["C"]}]}`, ""},
		{`grpc_stats: {i_am: unknown}`, ir.FilterGRPCStats, `{}`, "warning CH-MODULE-003 spec.config.grpc_stats.i_am"},
		{`ip_allow: [{peer: 10.1.2.3/8}, {remote: "2001:db8::/32"}, {remote: 192.0.2.1}]`, ir.FilterRBAC,
			`{"allow":[{"prefix":"10.0.0.0","bits":8,"peer":true},{"prefix":"2001:db8::","bits":32},{"prefix":"192.0.2.1","bits":32}]}`, ""},
		{`ip_deny: [{peer: 10.0.0.0/8}]`, ir.FilterRBAC, `{"deny":[{"prefix":"10.0.0.0","bits":8,"peer":true}]}`, ""},
		{`ip_deny: []`, ir.FilterRBAC, `null`, ""},
		// What cannot be read never opens.
		{`ip_allow: []`, ir.FilterRBAC, `{"closed":"ip_allow has no readable range"}`, ""},
		{`ip_allow: [{peer: 10.0.0.0/8}, {peer: nonsense}]`, ir.FilterRBAC, `{"allow":[{"prefix":"10.0.0.0","bits":8,"peer":true}]}`, "error CH-MODULE-001 spec.config.ip_allow[1]"},
		{`ip_allow: [{peer: 10.0.0.0/33}]`, ir.FilterRBAC, `{"closed":"ip_allow has no readable range"}`, "error CH-MODULE-001 spec.config.ip_allow[0]; error CH-MODULE-001 spec.config.ip_allow"},
		{`ip_allow: all`, ir.FilterRBAC, `{"closed":"ip_allow has no readable range"}`, "error CH-MODULE-001 spec.config.ip_allow; error CH-MODULE-001 spec.config.ip_allow"},
		{`ip_deny: [{peer: 10.0.0.0/8}, {via: 10.0.0.0/8}]`, ir.FilterRBAC, `{"deny":[{"prefix":"10.0.0.0","bits":8,"peer":true}],"closed":"ip_deny cannot be read"}`, "error CH-MODULE-001 spec.config.ip_deny[1]; error CH-MODULE-001 spec.config.ip_deny"},
		{`ip_allow: [{peer: 10.0.0.0/8}], ip_deny: [{peer: 10.1.0.0/16}]`, ir.FilterRBAC, `{"allow":[{"prefix":"10.0.0.0","bits":8,"peer":true}],"deny":[{"prefix":"10.1.0.0","bits":16,"peer":true}]}`, ""},
		{`enable_grpc_web: false`, ir.FilterGRPCWeb, `null`, "warning CH-MODULE-001 spec.config.enable_grpc_web"},
	} {
		t.Run(c.config, func(t *testing.T) {
			f, s := lowerModule(t, c.config)
			want(t, f, c.findings)
			equal(t, c.name, filter(&ir.HTTPChain{Filters: s.filters}, c.name), c.want)
		})
	}
}

func TestAuthService(t *testing.T) {
	const answer = `"answerHeaders":["authorization","location","proxy-authenticate","set-cookie","www-authenticate"]`
	const request = `"requestHeaders":["authorization","cookie","from","proxy-authorization","user-agent","x-forwarded-for","x-forwarded-host","x-forwarded-proto"]`
	for _, c := range []struct{ spec, want, findings string }{
		{`auth_service: auth`, `{"cluster":"C","uri":"http://a.app","timeoutMillis":5000,` + request + `,` + answer + `}`, ""},
		{`auth_service: "https://auth:8443", path_prefix: /check, timeout_ms: 100, failure_mode_allow: true, status_on_error: {code: 503}, allow_request_body: true, add_auth_headers: {x-b: "2", x-a: "1"}, add_linkerd_headers: true, allowed_request_headers: [X-Foo, Cookie]`,
			`{"cluster":"C","uri":"https://a.app","pathPrefix":"/check","timeoutMillis":100,"requestHeaders":["authorization","cookie","from","proxy-authorization","user-agent","x-foo","x-forwarded-for","x-forwarded-host","x-forwarded-proto"],` + answer +
				`,"addHeaders":[{"name":"x-a","value":"1"},{"name":"x-b","value":"2"},{"name":"l5d-dst-override","value":"auth.app:8443"}],"body":{"maxBytes":4096,"partial":true},"failureModeAllow":true,"statusOnError":503}`,
			"info CH-CLUSTER-004 spec.auth_service"},
		{`auth_service: auth, proto: grpc, protocol_version: v3, include_body: {max_bytes: 7, allow_partial: false}`, `{"cluster":"C","grpc":true,"timeoutMillis":5000,"body":{"maxBytes":7}}`, ""},
		{`auth_service: auth, proto: grpc, protocol_version: v3, path_prefix: /x, allowed_request_headers: [a]`, `{"cluster":"C","grpc":true,"timeoutMillis":5000}`, "warning CH-SERVICE-003 spec.path_prefix; warning CH-SERVICE-003 spec.allowed_request_headers"},
		{`auth_service: auth, allow_request_body: true, include_body: {max_bytes: 7, allow_partial: true}`, `{"cluster":"C","uri":"http://a.app","timeoutMillis":5000,` + request + `,` + answer + `,"body":{"maxBytes":7,"partial":true}}`, "warning CH-SERVICE-003 spec.allow_request_body"},
		{`auth_service: auth, allowed_request_headers: ["x y"], status_on_error: {code: 299}`, `{"cluster":"C","uri":"http://a.app","timeoutMillis":5000,` + request + `,` + answer + `}`, "error CH-SERVICE-002 spec.status_on_error.code; error CH-SERVICE-002 spec.allowed_request_headers[0]"},
		// What cannot be built closes.
		{`auth_service: "auth}"`, "closed", "error CH-CLUSTER-001 spec.auth_service; error CH-AUTH-001"},
		{`auth_service: auth, tls: nowhere`, "closed", "error CH-CLUSTER-003 spec.tls; error CH-AUTH-001"},
		{`auth_service: auth, proto: grpc`, "closed", "error CH-SERVICE-002 spec.protocol_version; error CH-AUTH-001"},
		{`auth_service: auth, proto: grpc, protocol_version: v2`, "closed", "error CH-SERVICE-002 spec.protocol_version; error CH-AUTH-001"},
		{`auth_service: auth, timeout_ms: 0`, "closed", "error CH-SERVICE-002 spec.timeout_ms; error CH-AUTH-001"},
		{`auth_service: auth, timeout_ms: -5`, "closed", "error CH-CLUSTER-007 spec.timeout_ms; error CH-AUTH-001"},
		{`auth_service: auth, path_prefix: check`, "closed", "error CH-SERVICE-002 spec.path_prefix; error CH-AUTH-001"},
		{`auth_service: auth, include_body: {max_bytes: 0, allow_partial: true}`, "closed", "error CH-SERVICE-002 spec.include_body.max_bytes; error CH-AUTH-001"},
		{`auth_service: auth, add_auth_headers: {":path": x}`, "closed", "error CH-SERVICE-002 spec.add_auth_headers[:path]; error CH-AUTH-001"},
		{`auth_service: auth, circuit_breakers: [{priority: default}, {priority: default}]`, "closed", "error CH-CLUSTER-007 spec.circuit_breakers[1].priority; error CH-AUTH-001"},
	} {
		t.Run(c.spec, func(t *testing.T) {
			w := newWorld(t, aListener+"\n---\n{kind: AuthService, metadata: {name: a}, spec: {"+c.spec+"}}")
			f := w.lower(t, "AuthService/a")
			want(t, f, c.findings)
			listener := w.lower(t, "Listener/l")
			want(t, listener, "")
			x := filter(listener.Listeners[0].Chain, ir.FilterExtAuthz).(*ir.ExtAuthz)
			if c.want == "closed" {
				if x.Closed == "" || x.Cluster != "" || len(f.Clusters)+len(f.Secrets) > 0 {
					t.Errorf("not closed: %+v with %d clusters", x, len(f.Clusters))
				}
				return
			}
			if x.Cluster != cluster(t, f).Name || cluster(t, f).HTTP2 != x.GRPC {
				t.Errorf("the filter asks %q, there is %+v", x.Cluster, cluster(t, f))
			}
			x.Cluster = "C"
			equal(t, "filter", x, c.want)
		})
	}
}

// The AuthService that counts is the gateway's own, then the older; others of its namespace share its load where they ask alike.
func TestSeveralAuthServices(t *testing.T) {
	w := newWorld(t, strings.Join([]string{aListener,
		`{kind: AuthService, metadata: {name: a, namespace: aaa}, spec: {auth_service: hijack}}`,
		`{kind: AuthService, metadata: {name: b, namespace: gw}, spec: {auth_service: "one:81"}}`,
		`{kind: AuthService, metadata: {name: c, namespace: gw}, spec: {auth_service: 10.0.0.7, add_linkerd_headers: true}}`,
		`{kind: AuthService, metadata: {name: d, namespace: gw}, spec: {auth_service: two, timeout_ms: 1}}`,
		`{kind: AuthService, metadata: {name: e, namespace: gw}, spec: {auth_service: "bad}"}}`,
		`{kind: AuthService, metadata: {name: f, namespace: gw}, spec: {auth_service: foreign, ambassador_id: [other]}}`,
	}, "\n---\n"))
	want(t, w.lower(t, "AuthService/aaa/a"), "error CH-SERVICE-001")
	want(t, w.lower(t, "AuthService/gw/d"), "error CH-SERVICE-001")
	want(t, w.lower(t, "AuthService/gw/c"), "")
	want(t, w.lower(t, "AuthService/gw/e"), "error CH-CLUSTER-001 spec.auth_service")
	lead := w.lower(t, "AuthService/gw/b")
	want(t, lead, "")
	c := cluster(t, lead)
	if len(c.Origins) != 2 {
		t.Errorf("cluster %s from %v", c.Name, c.Origins)
	}
	if c.Host != "one" || c.Port != 81 || compact(t, c.More) != `[{"host":"10.0.0.7","port":80}]` {
		t.Errorf("targets %s:%d and %v", c.Host, c.Port, c.More)
	}
	chain := w.lower(t, "Listener/l").Listeners[0].Chain
	x := filter(chain, ir.FilterExtAuthz).(*ir.ExtAuthz)
	if x.Cluster != c.Name || compact(t, x.AddHeaders) != `[{"name":"l5d-dst-override","value":"one:81"}]` {
		t.Errorf("%+v", x)
	}
	if n := len(chain.Filters[len(chain.Filters)-1].Origins); n != 3 {
		t.Errorf("from %d AuthServices", n)
	}
}

// An AuthService that its source refused closes, where there is no other.
func TestRefusedAuthService(t *testing.T) {
	refused := snapshot.Diagnostic{Severity: snapshot.Error, Object: snapshot.Ref{Group: snapshot.EmissaryGroup, Kind: "AuthService", Namespace: "app", Name: "x"}}
	lower := func(docs string) *ir.Fragments {
		w := newWorld(t, docs)
		s := w.snapshot.Derive(nil, nil, []snapshot.Diagnostic{refused})
		return w.Lower(s.Get(api.KindListener, "app", "l"), snapshot.NewView(s))
	}
	f := lower(aListener)
	want(t, f, "warning CH-AUTH-001")
	if x, _ := filter(f.Listeners[0].Chain, ir.FilterExtAuthz).(*ir.ExtAuthz); x == nil || x.Closed == "" {
		t.Errorf("open: %+v", x)
	}
	f = lower(aListener + "\n---\n{kind: AuthService, metadata: {name: other}, spec: {auth_service: auth}}")
	if x, _ := filter(f.Listeners[0].Chain, ir.FilterExtAuthz).(*ir.ExtAuthz); x == nil || x.Cluster == "" {
		t.Errorf("the other is not asked: %+v", x)
	}
}

func TestRouteAuth(t *testing.T) {
	for spec, expected := range map[string]string{
		`service: s`:                                  `null`,
		`service: s, bypass_auth: true`:               `{"envoy.filters.http.ext_authz":{"disabled":true}}`,
		`service: s, auth_context_extensions: {a: b}`: `{"envoy.filters.http.ext_authz":{"context":{"a":"b"}}}`,
		`service: s, host_redirect: true`:             `null`,
		`service: s, host_redirect: true, path_redirect: /test/, bypass_auth: true`:            `{"envoy.filters.http.ext_authz":{"disabled":true}}`,
		`service: s, bypass_auth: false, auth_context_extensions: {}`:                          `null`,
		`service: s, shadow: false, bypass_auth: true, weight: 5, auth_context_extensions: {}`: `{"envoy.filters.http.ext_authz":{"disabled":true}}`,
	} {
		f := lowerMapping(t, "prefix: /, "+spec)
		want(t, f, "")
		equal(t, spec, route(t, f).Route.Filters, expected)
	}
}

func TestRateLimitService(t *testing.T) {
	for _, c := range []struct{ spec, want, findings string }{
		{`service: rl, protocol_version: v3`, `{"cluster":"C","domain":"ambassador","timeoutMillis":20}`, ""},
		{`service: "rl:5000", protocol_version: v3, domain: d, timeout_ms: 500, failure_mode_deny: true, grpc: {use_resource_exhausted_code: true}`, `{"cluster":"C","domain":"d","timeoutMillis":500,"failureModeDeny":true,"resourceExhausted":true}`, ""},
		{`service: rl`, `null`, "error CH-SERVICE-002 spec.protocol_version; error CH-RATELIMIT-002"},
		{`service: rl, tls: nowhere, protocol_version: v3`, `null`, "error CH-CLUSTER-003 spec.tls; error CH-RATELIMIT-002"},
		{`service: rl, protocol_version: v2, failure_mode_deny: true`, `{"domain":"ambassador","timeoutMillis":20,"failureModeDeny":true}`, "error CH-SERVICE-002 spec.protocol_version; error CH-RATELIMIT-001"},
	} {
		w := newWorld(t, aListener+"\n---\n{kind: RateLimitService, metadata: {name: r}, spec: {"+c.spec+"}}")
		f := w.lower(t, "RateLimitService/r")
		want(t, f, c.findings)
		x, _ := filter(w.lower(t, "Listener/l").Listeners[0].Chain, ir.FilterRateLimit).(*ir.RateLimit)
		if x != nil && x.Cluster != "" {
			if x.Cluster != cluster(t, f).Name || !cluster(t, f).HTTP2 {
				t.Errorf("%s asks %q", c.spec, x.Cluster)
			}
			x.Cluster = "C"
		}
		equal(t, c.spec, x, c.want)
	}
	w := newWorld(t, `
{kind: RateLimitService, metadata: {name: a}, spec: {service: rl, protocol_version: v3}}
---
{kind: RateLimitService, metadata: {name: b}, spec: {service: rl, protocol_version: v3}}
`)
	want(t, w.lower(t, "RateLimitService/a"), "")
	want(t, w.lower(t, "RateLimitService/b"), "error CH-SERVICE-001")
}

func TestLabels(t *testing.T) {
	const rls = `{kind: RateLimitService, metadata: {name: r}, spec: {service: rl, protocol_version: v3}}`
	const defaults = `{kind: Module, metadata: {name: ambassador}, spec: {config: {default_labels: {ambassador: {defaults: [{remote_address: {key: remote_address}}]}, other: {defaults: [{generic_key: {value: o}}]}}}}}`
	for _, c := range []struct {
		labels   string
		docs     []string
		want     string
		findings string
	}{
		{"", []string{rls}, `null`, ""},
		{"", []string{rls, defaults}, `[{"actions":[{"kind":"remote_address"}]}]`, ""},
		{`labels: {ambassador: [{one: [{generic_key: {value: v}}, {request_headers: {key: k, header_name: X-H, omit_if_not_present: true}}]}, {two: [{source_cluster: {key: source_cluster}}, {destination_cluster: {key: destination_cluster}}, {generic_key: {key: g, value: w}}]}]}`, []string{rls},
			`[{"actions":[{"kind":"generic_key","value":"v"},{"kind":"request_header","key":"k","header":"X-H","optional":true}]},{"actions":[{"kind":"source_cluster"},{"kind":"destination_cluster"},{"kind":"generic_key","key":"g","value":"w"}]}]`, ""},
		{`labels: {ambassador: [{one: [{generic_key: {value: v}}]}]}`, []string{rls, defaults}, `[{"actions":[{"kind":"remote_address"},{"kind":"generic_key","value":"v"}]}]`, ""},
		{`labels: {other: [{one: [{generic_key: {value: v}}]}]}`, []string{rls, defaults}, `null`, "warning CH-MAPPING-009 spec.labels[other]"},
		{`labels: {other: [{one: [{generic_key: {value: v}}]}]}`, []string{`{kind: RateLimitService, metadata: {name: r}, spec: {service: rl, protocol_version: v3, domain: other}}`, defaults}, `[{"actions":[{"kind":"generic_key","value":"o"},{"kind":"generic_key","value":"v"}]}]`, ""},
		{`labels: {ambassador: [{one: [{request_headers: {key: k, header_name: X-H, omit_if_not_present: true}}]}]}`, []string{rls},
			`[{"actions":[{"kind":"request_header","key":"k","header":"X-H"}]}]`, "info CH-MAPPING-009 spec.labels[ambassador][0].one"},
		{`labels: {ambassador: [{one: [{generic_key: {value: v}}]}]}`, nil, `null`, "info CH-MAPPING-009 spec.labels"},
	} {
		spec := "prefix: /, service: s"
		if c.labels != "" {
			spec += ", " + c.labels
		}
		// Twice with one front end: the defaults must not pile up.
		w := newWorld(t, strings.Join(append(c.docs, "{kind: Mapping, metadata: {name: m}, spec: {"+spec+"}}"), "\n---\n"))
		for range 2 {
			f := w.lower(t, "Mapping/m")
			want(t, f, c.findings)
			got, _ := route(t, f).Route.Filters[ir.FilterRateLimit].(*ir.RateLimitRoute)
			if got == nil {
				got = &ir.RateLimitRoute{}
			}
			equal(t, c.labels, got.Descriptors, c.want)
		}
	}
	f := lowerMapping(t, `prefix: /, service: s, labels: {ambassador: [{one: [{request_headers: {key: k, header_name: "x y"}}]}]}`, rls)
	want(t, f, "error CH-MAPPING-009 spec.labels[ambassador][0].one[0].request_headers.header_name")
}

func TestLogService(t *testing.T) {
	for _, c := range []struct{ spec, want, findings string }{
		{`service: log, driver: http, protocol_version: v3`, `{"type":"grpc_http","cluster":"C","logName":"x","flushMillis":1000,"flushBytes":16384,"origins":[{"group":"getambassador.io","kind":"LogService","namespace":"app","name":"x"}]}`, ""},
		{`service: log, driver: http, protocol_version: v3, flush_interval_time: 2, flush_interval_byte_size: 9, driver_config: {additional_log_headers: [{header_name: X-A}, {header_name: x-b, during_request: false, during_trailer: false}, {header_name: "no name"}]}`,
			`{"type":"grpc_http","cluster":"C","logName":"x","flushMillis":2000,"flushBytes":9,"requestHeaders":["x-a"],"responseHeaders":["x-a","x-b"],"trailers":["x-a"],"origins":[{"group":"getambassador.io","kind":"LogService","namespace":"app","name":"x"}]}`, "error CH-SERVICE-002 spec.driver_config.additional_log_headers[2].header_name"},
		{`service: log, driver: tcp, protocol_version: v3, driver_config: {additional_log_headers: [{header_name: x}]}`, `{"type":"grpc_tcp","cluster":"C","logName":"x","flushMillis":1000,"flushBytes":16384,"origins":[{"group":"getambassador.io","kind":"LogService","namespace":"app","name":"x"}]}`, "warning CH-SERVICE-003 spec.driver_config.additional_log_headers"},
		{`service: log, driver: http`, ``, "error CH-SERVICE-002 spec.protocol_version"},
		{`service: log, protocol_version: v3`, ``, "error CH-SERVICE-002 spec.driver"},
		{`service: log, driver: http, protocol_version: v3, flush_interval_time: 0, flush_interval_byte_size: -1`, ``, "error CH-SERVICE-002 spec.flush_interval_time; error CH-SERVICE-002 spec.flush_interval_byte_size"},
	} {
		w := newWorld(t, aListener+"\n---\n{kind: LogService, metadata: {name: x}, spec: {"+c.spec+"}}")
		f := w.lower(t, "LogService/x")
		want(t, f, c.findings)
		l := w.lower(t, "Listener/l").Listeners[0]
		if c.want == "" {
			if len(l.Chain.AccessLogs) > 0 || len(f.Clusters) > 0 {
				t.Errorf("%s: a log %+v", c.spec, l.Chain.AccessLogs)
			}
			continue
		}
		if !cluster(t, f).HTTP2 || l.Chain.AccessLogs[0].Cluster != cluster(t, f).Name {
			t.Errorf("%s: logs to %q", c.spec, l.Chain.AccessLogs[0].Cluster)
		}
		if tcp := l.Chain.AccessLogs[0].Type == "grpc_tcp"; tcp != (len(l.TCPAccessLogs) == 1) {
			t.Errorf("%s: TCP logs %+v", c.spec, l.TCPAccessLogs)
		}
		l.Chain.AccessLogs[0].Cluster = "C"
		equal(t, c.spec, l.Chain.AccessLogs[0], c.want)
	}
}

func TestTracingService(t *testing.T) {
	const origins = `"origins":[{"group":"getambassador.io","kind":"TracingService","namespace":"app","name":"x"}]`
	for _, c := range []struct{ spec, want, findings string }{
		{`driver: zipkin, service: "z:9411"`, `{"driver":"zipkin","cluster":"C","endpoint":"/api/v2/spans","endpointVersion":"HTTP_JSON","traceId128bit":true,` + origins + `}`, ""},
		{`driver: zipkin, service: z, config: {trace_id_128bit: false, shared_span_context: false, collector_endpoint: /x, collector_endpoint_version: HTTP_PROTO, collector_hostname: h}, sampling: {client: 1, random: 2, overall: 3}, custom_tags: [{tag: a, literal: {value: v}}, {tag: b, environment: {name: E}}, {tag: c, request_header: {name: x-h, default_value: d}}]`,
			`{"driver":"zipkin","cluster":"C","endpoint":"/x","endpointVersion":"HTTP_PROTO","hostname":"h","sharedSpanContext":false,"client":1,"random":2,"overall":3,"tags":[{"tag":"a","kind":"literal","value":"v"},{"tag":"b","kind":"environment","source":"E"},{"tag":"c","kind":"request_header","source":"x-h","value":"d"}],` + origins + `}`, ""},
		{`driver: datadog, service: dd`, `{"driver":"datadog","cluster":"C","serviceName":"ambassador",` + origins + `}`, ""},
		{`driver: opentelemetry, service: otel, config: {service_name: edge}, tag_headers: [x]`, `{"driver":"opentelemetry","cluster":"C","serviceName":"edge",` + origins + `}`, "warning CH-SERVICE-003 spec.tag_headers"},
		{`driver: lightstep, service: l`, `null`, "error CH-SERVICE-002 spec.driver"},
		{`driver: zipkin, service: z, config: {collector_endpoint_version: HTTP_JSON_V1}`, `null`, "error CH-SERVICE-002 spec.config.collector_endpoint_version"},
		{`driver: zipkin, service: z, sampling: {random: 101}`, `null`, "error CH-SERVICE-002 spec.sampling.random"},
		{`driver: zipkin, service: z, custom_tags: [{tag: t}]`, `null`, "error CH-SERVICE-002 spec.custom_tags[0]"},
	} {
		w := newWorld(t, aListener+"\n---\n{kind: TracingService, metadata: {name: x}, spec: {"+c.spec+"}}")
		f := w.lower(t, "TracingService/x")
		want(t, f, c.findings)
		x := w.lower(t, "Listener/l").Listeners[0].Chain.Tracing
		if x != nil {
			if x.Cluster != cluster(t, f).Name || cluster(t, f).HTTP2 != (x.Driver == "opentelemetry") {
				t.Errorf("%s: %+v", c.spec, cluster(t, f))
			}
			x.Cluster = "C"
		}
		equal(t, c.spec, x, c.want)
	}
}

// Where Datadog traces, JSON logs have the trace's identifiers; the Module's own settings stay as they are.
func TestDatadogLogs(t *testing.T) {
	const module = `{kind: Module, metadata: {name: ambassador}, spec: {config: {envoy_log_type: json, envoy_log_format: {a: "%PROTOCOL%"}}}}`
	const plain = `[{"type":"file","path":"/dev/fd/1","json":{"a":"%PROTOCOL%"}}]`
	for driver, expected := range map[string]string{
		"zipkin":  plain,
		"datadog": `[{"type":"file","path":"/dev/fd/1","json":{"a":"%PROTOCOL%","dd.span_id":"%REQ(X-DATADOG-PARENT-ID)%","dd.trace_id":"%REQ(X-DATADOG-TRACE-ID)%"}}]`,
	} {
		w := newWorld(t, strings.Join([]string{aListener, module, `{kind: TracingService, metadata: {name: x}, spec: {service: t, driver: ` + driver + `}}`}, "\n---\n"))
		equal(t, driver, w.lower(t, "Listener/l").Listeners[0].Chain.Settings.AccessLogs, expected)
		equal(t, "the Module's", w.module(snapshot.NewView(w.snapshot)).http.AccessLogs, plain)
	}
}
