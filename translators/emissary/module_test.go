package emissary

import (
	"strings"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

func lowerModule(t *testing.T, config string) (*ir.Fragments, *settings) {
	t.Helper()
	w := newWorld(t, `{kind: Module, metadata: {name: ambassador}, spec: {config: {`+config+`}}}`)
	return w.lower(t, "Module/ambassador"), w.module(snapshot.NewView(w.snapshot))
}

func TestModuleDefaults(t *testing.T) {
	f, s := lowerModule(t, "")
	want(t, f, "")
	equal(t, "bootstrap", f.Bootstrap, `{"adminPort":8001,"readyPort":8006,"nodeId":"chancery","nodeCluster":"default-gw","regexMaxSize":200,"origins":[{"group":"getambassador.io","kind":"Module","namespace":"app","name":"ambassador"}]}`)
	h := *s.http
	h.AccessLogs, h.Origins = nil, nil
	equal(t, "http", h, `{"useRemoteAddress":true,"serverName":"envoy"}`)
	equal(t, "log", s.http.AccessLogs[0].Path, `"/dev/fd/1"`)
	if !strings.HasPrefix(s.http.AccessLogs[0].Format, "ACCESS [%START_TIME%] ") || !strings.HasSuffix(s.http.AccessLogs[0].Format, "\"%UPSTREAM_HOST%\"\n") {
		t.Errorf("format %q", s.http.AccessLogs[0].Format)
	}
	if checkFormat(s.http.AccessLogs[0].Format) != nil {
		t.Error("the default format does not pass our own check")
	}
	for _, text := range accessLogFields {
		if err := checkFormat(text); err != nil {
			t.Error(err)
		}
	}
}

func TestModuleKeys(t *testing.T) {
	f, s := lowerModule(t, `
		use_remote_address: false, server_name: mine, strip_matching_host_port: "yes", merge_slashes: true, reject_requests_with_escaped_slashes: true,
		enable_http10: true, allow_chunked_length: true, preserve_external_request_id: true, suppress_envoy_headers: true,
		header_case_overrides: [X-FOO], headers_with_underscores_action: REJECT_REQUEST, max_request_headers_kb: 96, listener_idle_timeout_ms: 1000,
		forward_client_cert_details: SANITIZE_SET, set_current_client_cert_details: {subject: true, dns: true, uri: false},
		envoy_log_type: json, envoy_log_format: {a: "%PROTOCOL%"}, envoy_log_path: /tmp/log,
		admin_port: 9001, regex_max_size: 300, runtime_flags: {"http.max_requests_per_io_cycle": 1},
		cluster_request_timeout_ms: 7, cluster_idle_timeout_ms: 8, cluster_max_connection_lifetime_ms: 9, enable_ipv4: false, enable_ipv6: true,
		circuit_breakers: [{max_requests: 3}], keepalive: {time: 4, interval: 5, probes: 6}, load_balancer: {policy: least_request},
		retry_policy: {retry_on: 5xx}, cors: {origins: ["*"]}, add_linkerd_headers: true, buffer_limit_bytes: 77`)
	want(t, f, "")
	h := *s.http
	h.Origins = nil
	equal(t, "http", h, `{"serverName":"mine","stripMatchingHostPort":true,"mergeSlashes":true,"rejectEscapedSlashes":true,"acceptHttp10":true,"allowChunkedLength":true,`+
		`"preserveExternalRequestId":true,"headerCaseOverrides":["X-FOO"],"headersWithUnderscoresAction":"REJECT_REQUEST","maxRequestHeadersKb":96,"idleTimeoutMillis":1000,`+
		`"suppressEnvoyHeaders":true,"forwardClientCertDetails":"SANITIZE_SET","setCurrentClientCertDetails":["subject","dns"],"accessLogs":[{"type":"file","path":"/tmp/log","json":{"a":"%PROTOCOL%"}}]}`)
	if f.Bootstrap.AdminPort != 9001 || f.Bootstrap.RegexMaxSize != 300 || f.Bootstrap.Runtime["http.max_requests_per_io_cycle"] == nil {
		t.Errorf("bootstrap %+v", f.Bootstrap)
	}

	m := lowerMapping(t, `prefix: /, rewrite: "", service: web`, `{kind: Module, metadata: {name: ambassador}, spec: {config: {
		cluster_request_timeout_ms: 7, cluster_idle_timeout_ms: 8, enable_ipv4: false, enable_ipv6: true, circuit_breakers: [{max_requests: 3}],
		keepalive: {time: 4}, load_balancer: {policy: least_request}, retry_policy: {retry_on: 5xx}, cors: {origins: ["*"]}, header_case_overrides: [X-FOO]}}}`)
	want(t, m, "")
	equal(t, "cluster", without(cluster(t, m)), `{"name":"","statName":"web_app","discovery":"strict_dns","host":"web.app","port":80,"service":"web","namespace":"app","connectTimeoutMillis":3000,`+
		`"idleTimeoutMillis":8,"dnsFamily":"v6","loadBalancer":"least_request","circuitBreakers":[{"priority":"default","maxRequests":3}],"keepalive":{"time":4},"headerCase":["X-FOO"]}`)
	r := route(t, m).Route
	equal(t, "forward", r.Forward, `{"clusters":[{"cluster":"`+cluster(t, m).Name+`"}],"timeoutMillis":7,"retry":{"on":"5xx"}}`)
	equal(t, "cors", r.CORS, `{"origins":["*"]}`)
}

// An invalid key costs that key; every other holds.
func TestModuleInvalidKeys(t *testing.T) {
	for config, expected := range map[string]string{
		`use_remote_address: 7`:                                        "error CH-MODULE-001 spec.config.use_remote_address",
		`server_name: [1]`:                                             "error CH-MODULE-001 spec.config.server_name",
		`regex_max_size: big`:                                          "error CH-MODULE-001 spec.config.regex_max_size",
		`admin_port: 70000`:                                            "error CH-MODULE-001 spec.config.admin_port",
		`cluster_request_timeout_ms: -1`:                               "error CH-MODULE-001 spec.config.cluster_request_timeout_ms",
		`circuit_breakers: [{max_requests: -1}]`:                       "error CH-MODULE-001 spec.config.circuit_breakers[0].max_requests",
		`circuit_breakers: [{max_sessions: 1}]`:                        "error CH-MODULE-001 spec.config.circuit_breakers",
		`keepalive: {probes: x}`:                                       "error CH-MODULE-001 spec.config.keepalive.probes",
		`load_balancer: {policy: ring_hash}`:                           "error CH-MODULE-001 spec.config.load_balancer",
		`retry_policy: {retry_on: whim}`:                               "error CH-MODULE-001 spec.config.retry_policy.retry_on",
		`cors: {origins: [""]}`:                                        "error CH-MODULE-001 spec.config.cors.origins[0]",
		`envoy_log_type: xml`:                                          "error CH-MODULE-001 spec.config.envoy_log_type",
		`envoy_log_format: {a: b}`:                                     "error CH-MODULE-001 spec.config.envoy_log_format",
		`envoy_log_format: "50%"`:                                      "error CH-MODULE-001 spec.config.envoy_log_format",
		`envoy_log_type: json, envoy_log_format: text`:                 "error CH-MODULE-001 spec.config.envoy_log_format",
		`forward_client_cert_details: MAYBE`:                           "error CH-MODULE-001 spec.config.forward_client_cert_details",
		`set_current_client_cert_details: {subject: 1}`:                "error CH-MODULE-001 spec.config.set_current_client_cert_details.subject",
		`set_current_client_cert_details: {colour: true}`:              "warning CH-MODULE-003 spec.config.set_current_client_cert_details.colour",
		`header_case_overrides: [X-A], proper_case: true`:              "error CH-MODULE-001 spec.config.header_case_overrides",
		`runtime_flags: {a: [1]}`:                                      "error CH-MODULE-001 spec.config.runtime_flags.a",
		`diagnostics: {enabled: true, service: "a}"}`:                  "error CH-MODULE-001 spec.config.diagnostics.service",
		`defaults: {httpmapping: {add_request_headers: {Host: x}}}`:    "error CH-MODULE-001 spec.config.defaults.httpmapping.add_request_headers[Host]",
		`defaults: {httpmapping: {timeout_ms: 5}}`:                     "warning CH-MODULE-003 spec.config.defaults.httpmapping.timeout_ms",
		`gzip: {enabled: true}, use_proxy_proto: true, no_such_key: 1`: "warning CH-MODULE-003 spec.config.gzip.enabled; warning CH-MODULE-003 spec.config.no_such_key; warning CH-MODULE-002 spec.config.use_proxy_proto",
	} {
		t.Run(config, func(t *testing.T) {
			f, s := lowerModule(t, config+`, merge_slashes: true`)
			want(t, f, expected)
			if !s.http.MergeSlashes || f.Bootstrap == nil {
				t.Error("other keys are lost")
			}
		})
	}
}

func TestModuleChoice(t *testing.T) {
	w := newWorld(t, `
{kind: Module, metadata: {name: ambassador, namespace: a}, spec: {ambassador_id: [other], config: {server_name: foreign}}}
---
{kind: Module, metadata: {name: ambassador, namespace: b}, spec: {config: {server_name: first}}}
---
{kind: Module, metadata: {name: ambassador, namespace: c}, spec: {config: {server_name: second}}}
---
{kind: Module, metadata: {name: tls, namespace: a}, spec: {config: {}}}
`)
	v := snapshot.NewView(w.snapshot)
	s := w.module(v)
	if s.http.ServerName != "first" {
		t.Errorf("%s counts", s.http.ServerName)
	}
	if w.module(v) != s {
		t.Error("the settings are made anew for an equal Module")
	}
	if w.lower(t, "Module/a/ambassador") != nil {
		t.Error("another installation's Module is lowered")
	}
	want(t, w.lower(t, "Module/b/ambassador"), "")
	for _, ignored := range []string{"Module/c/ambassador", "Module/a/tls"} {
		f := w.lower(t, ignored)
		if f.Bootstrap != nil || !strings.HasPrefix(findings(f), "warning CH-MODULE-004") {
			t.Errorf("%s: %s", ignored, findings(f))
		}
	}
}

func TestAmbient(t *testing.T) {
	cert, key := newPair(t, time.Now().Add(time.Hour))
	const listening = `{kind: Listener, metadata: {name: l}, spec: {port: 8080, protocol: HTTP, securityModel: XFP, hostBinding: {namespace: {from: ALL}}}}`
	fallback := secretDoc("gw/fallback-self-signed-cert", "kubernetes.io/tls", "tls.crt", cert, "tls.key", key)
	for _, c := range []struct{ name, docs, host, findings string }{
		{"nothing", ``, "* route clear", ""}, // and nothing to say of it to who has Gateways alone
		{"a Mapping alone", `{kind: Mapping, metadata: {name: m}, spec: {hostname: a.b, prefix: /, service: s}}`, "* route clear", "info CH-HOST-006"},
		{"a Listener alone", listening, "* route clear", "info CH-HOST-006"},
		{"another installation's Listener", `{kind: Listener, metadata: {name: l}, spec: {ambassador_id: [x], port: 8080, protocol: HTTP, securityModel: XFP, hostBinding: {namespace: {from: ALL}}}}`, "* route clear", ""},
		{"fallback certificate", fallback + "\n---\n" + listening, "* redirect tls", "info CH-HOST-006"},
		{"broken fallback certificate", secretDoc("gw/fallback-self-signed-cert", "Opaque", "tls.crt", cert), "* redirect closed", "error CH-TLS-003"},
		{"a Host", `{kind: Host, metadata: {name: h}, spec: {hostname: a.b}}`, "", ""},
		// A Host that cannot be served is a Host all the same: nothing opens up.
		{"an unusable Host", `{kind: Host, metadata: {name: h}, spec: {hostname: a.b, tlsSecret: {name: none}}}`, "", ""},
		{"another installation's Host", `{kind: Host, metadata: {name: h}, spec: {ambassador_id: [x], hostname: a.b}}` + "\n---\n" + listening, "* route clear", "info CH-HOST-006"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, c.docs)
			f := w.Ambient(snapshot.NewView(w.snapshot))
			want(t, f, c.findings)
			got := ""
			if len(f.Hosts) > 0 {
				h := f.Hosts[0]
				state := "clear"
				if h.Closed != "" {
					state = "closed"
				} else if h.TLS != nil {
					state = "tls"
				}
				got = h.Domain + " " + string(h.Insecure) + " " + state
				if !h.Synthesized || h.Origin == nil {
					t.Errorf("%+v", h)
				}
			}
			if got != c.host {
				t.Errorf("host %q, want %q", got, c.host)
			}
			if f.Bootstrap == nil || f.Bootstrap.ReadyPort != 8006 {
				t.Errorf("bootstrap %+v", f.Bootstrap)
			}
		})
	}
}

// A Host that fails its schema is a Host all the same: nothing opens up because of a typo in the only one.
func TestAmbientRefusedHost(t *testing.T) {
	w := newWorld(t, ``)
	refused := snapshot.Diagnostic{Severity: snapshot.Error, Object: snapshot.Ref{Group: snapshot.EmissaryGroup, Kind: "Host", Namespace: "app", Name: "h"}}
	s := w.snapshot.Derive(nil, nil, []snapshot.Diagnostic{refused})
	if f := w.Ambient(snapshot.NewView(s)); len(f.Hosts) > 0 || len(f.Routes) != 3 {
		t.Errorf("%d hosts, %d routes", len(f.Hosts), len(f.Routes))
	}
}

func TestProbes(t *testing.T) {
	for config, expected := range map[string]string{
		``: "/ambassador/v0/check_alive>/ambassador/v0/check_alive 127.0.0.1; /ambassador/v0/check_ready>/ambassador/v0/check_ready 127.0.0.1; /ambassador/v0/>/ambassador/v0/ 127.0.0.1",
		`liveness_probe: {enabled: false}, readiness_probe: {enabled: true, prefix: /r, rewrite: /x, service: "probe:90"}, diagnostics: {enabled: false}`: "/r>/x probe",
		`diagnostics: {enabled: true, allow_non_local: true}, liveness_probe: {}, readiness_probe: {enabled: false}`:                                      "/ambassador/v0/>/ambassador/v0/ 127.0.0.1",
	} {
		w := newWorld(t, `{kind: Module, metadata: {name: ambassador}, spec: {config: {`+config+`}}}`)
		f := w.Ambient(snapshot.NewView(w.snapshot))
		if f.Bootstrap != nil {
			t.Error("the bootstrap is the Module's")
		}
		var got []string
		for _, r := range f.Routes {
			if r.Hosts.Kind != ir.HostEvery || r.Route.Forward.TimeoutMillis != 10000 {
				t.Errorf("%+v", r)
			}
			host := ""
			for _, c := range f.Clusters {
				if c.Name == r.Route.Forward.Clusters[0].Cluster {
					host = c.Host
				}
			}
			got = append(got, r.Route.Match.Path+">"+*r.Route.Forward.PrefixRewrite+" "+host)
		}
		if strings.Join(got, "; ") != expected {
			t.Errorf("%s\n got %s\nwant %s", config, strings.Join(got, "; "), expected)
		}
		if len(f.Clusters) > 1 {
			t.Errorf("%d clusters", len(f.Clusters))
		}
	}
}

// No kind is passed over in silence.
func TestOtherKinds(t *testing.T) {
	w := newWorld(t, `
{kind: AuthService, metadata: {name: x}, spec: {auth_service: "auth:80", proto: http}}
---
{kind: RateLimitService, metadata: {name: x}, spec: {service: rl, protocol_version: v3}}
---
{kind: LogService, metadata: {name: x}, spec: {service: log, driver: tcp, protocol_version: v3}}
---
{kind: TracingService, metadata: {name: x}, spec: {service: t, driver: zipkin}}
---
{kind: DevPortal, metadata: {name: x}, spec: {}}
---
{kind: ConsulResolver, metadata: {name: x}, spec: {address: "consul:8500", datacenter: dc1}}
---
{kind: KubernetesEndpointResolver, metadata: {name: x}}
`)
	for kind, expected := range map[string]string{
		"AuthService": "", "RateLimitService": "", "LogService": "", "TracingService": "",
		"DevPortal": "warning CH-KIND-001", "ConsulResolver": "", "KubernetesEndpointResolver": "",
	} {
		want(t, w.lower(t, kind+"/x"), expected)
	}
}
