package emissary

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/translators/ir"
)

func route(t *testing.T, f *ir.Fragments) *ir.RouteFragment {
	t.Helper()
	if len(f.Routes) != 1 {
		t.Fatalf("%d routes, want 1: %v", len(f.Routes), f.Diagnostics)
	}
	return f.Routes[0]
}

func TestMappingDefaults(t *testing.T) {
	f := lowerMapping(t, `hostname: "*", prefix: /backend/, service: backend`)
	want(t, f, "")
	r := route(t, f)
	cluster := f.Clusters[0].Name
	equal(t, "route", r.Route, `{"name":"app/m","match":{"pathKind":"prefix","path":"/backend/"},`+
		`"forward":{"clusters":[{"cluster":"`+cluster+`"}],"prefixRewrite":"/","timeoutMillis":3000},`+
		`"origins":[{"group":"getambassador.io","kind":"Mapping","namespace":"app","name":"m"}]}`)
	if r.Weight != nil || r.Shadow || r.Authority != nil {
		t.Errorf("weight %v, shadow %v, authority %v", r.Weight, r.Shadow, r.Authority)
	}
	if r.Hosts != (ir.HostPattern{Kind: ir.HostGlob, Value: "*"}) {
		t.Errorf("hosts %+v", r.Hosts)
	}
}

func TestMappingHosts(t *testing.T) {
	for _, c := range []struct{ spec, hosts, authority, findings string }{
		{`hostname: "*"`, `{"Kind":0,"Value":"*","Port":""}`, `null`, ""},
		{``, `{"Kind":2,"Value":"","Port":""}`, `null`, ""},
		{`hostname: Foo.Example.com`, `{"Kind":0,"Value":"foo.example.com","Port":""}`, `{"name":":authority","kind":"exact","value":"foo.example.com","ignoreCase":true}`, ""},
		{`hostname: "*.example.com"`, `{"Kind":0,"Value":"*.example.com","Port":""}`, `{"name":":authority","kind":"suffix","value":".example.com","ignoreCase":true}`, ""},
		{`hostname: "foo.*"`, `{"Kind":0,"Value":"foo.*","Port":""}`, `{"name":":authority","kind":"prefix","value":"foo.","ignoreCase":true}`, ""},
		{`host: "app.example.com:8080"`, `{"Kind":0,"Value":"app.example.com","Port":":8080"}`, `{"name":":authority","kind":"exact","value":"app.example.com:8080","ignoreCase":true}`, ""},
		{`host: '^api(\.x)?\.example\.com$', host_regex: true`, `{"Kind":1,"Value":"^api(\\.x)?\\.example\\.com$","Port":""}`, `{"name":":authority","kind":"regex","value":"^api(\\.x)?\\.example\\.com$"}`, ""},
		{`headers: {":authority": a.example.com}`, `{"Kind":0,"Value":"a.example.com","Port":""}`, `{"name":":authority","kind":"exact","value":"a.example.com","ignoreCase":true}`, ""},
		{`host: b.example.com, headers: {":authority": a.example.com}`, `{"Kind":0,"Value":"b.example.com","Port":""}`, `{"name":":authority","kind":"exact","value":"b.example.com","ignoreCase":true}`, ""},
		{`host: b.example.com, hostname: "*"`, `{"Kind":0,"Value":"*","Port":""}`, `null`, "warning CH-MAPPING-007 spec.host"},
	} {
		t.Run(c.spec, func(t *testing.T) {
			spec := `prefix: /, service: s`
			if c.spec != "" {
				spec += ", " + c.spec
			}
			f := lowerMapping(t, spec)
			want(t, f, c.findings)
			r := route(t, f)
			equal(t, "hosts", r.Hosts, c.hosts)
			equal(t, "authority", r.Authority, c.authority)
		})
	}
}

func TestMappingRefuses(t *testing.T) {
	for spec, expected := range map[string]string{
		`host: "*.example.com"`:                                  "error CH-MAPPING-001 spec.host",
		`headers: {":authority": "*"}`:                           "error CH-MAPPING-001 spec.headers[:authority]",
		`hostname: "a*b.example.com"`:                            "error CH-MAPPING-001 spec.hostname",
		`hostname: "*.example.*"`:                                "error CH-MAPPING-001 spec.hostname",
		`hostname: "foo.*:80"`:                                   "error CH-MAPPING-001 spec.hostname",
		`hostname: "a.example.com:99999"`:                        "error CH-MAPPING-001 spec.hostname",
		`host: "*.apps.example.com", host_regex: true`:           "error CH-MAPPING-002 spec.host",
		`host: "am.{{CLUSTER}}.*(", host_regex: true`:            "error CH-MAPPING-002 spec.host",
		`regex_headers: {x-a: "["}`:                              "error CH-MAPPING-002 spec.regex_headers[x-a]",
		`regex_query_parameters: {q: "(?P<"}`:                    "error CH-MAPPING-002 spec.regex_query_parameters[q]",
		`method: "(", method_regex: true`:                        "error CH-MAPPING-002 spec.method",
		`regex_rewrite: {pattern: "/(a)", substitution: "/\\2"}`: "error CH-MAPPING-002 spec.regex_rewrite.substitution",
		`regex_rewrite: {pattern: "*", substitution: "/"}`:       "error CH-MAPPING-002 spec.regex_rewrite.pattern",
		`headers: {"x y": z}`:                                    "error CH-MAPPING-003 spec.headers[x y]",
		`add_request_headers: {Host: {value: x}}`:                "error CH-MAPPING-003 spec.add_request_headers[Host]",
		`add_response_headers: {x-a: {value: "50%"}}`:            "error CH-MAPPING-003 spec.add_response_headers[x-a].value",
		`remove_request_headers: [":path"]`:                      "error CH-MAPPING-003 spec.remove_request_headers[0]",
		`weight: 101`:                                            "error CH-MAPPING-004 spec.weight",
		`weight: -1`:                                             "error CH-MAPPING-004 spec.weight",
		`priority: urgent`:                                       "error CH-MAPPING-004 spec.priority",
		`retry_policy: {retry_on: 5xx, per_try_timeout: soon}`:   "error CH-MAPPING-004 spec.retry_policy.per_try_timeout",
		`cors: {origins: [""]}`:                                  "error CH-MAPPING-004 spec.cors.origins[0]",
		`allow_upgrade: [""]`:                                    "error CH-MAPPING-004 spec.allow_upgrade[0]",
		`timeout_ms: -5`:                                         "error CH-CLUSTER-007 spec.timeout_ms",
		`connect_timeout_ms: 0`:                                  "error CH-CLUSTER-007 spec.connect_timeout_ms",
		`circuit_breakers: [{max_requests: -1}]`:                 "error CH-CLUSTER-007 spec.circuit_breakers[0].max_requests",
		`circuit_breakers: [{}, {}]`:                             "error CH-CLUSTER-007 spec.circuit_breakers[1].priority",
		`resolver: no-such`:                                      "error CH-CLUSTER-002 spec.resolver",
		`tls: no-such`:                                           "error CH-CLUSTER-003 spec.tls",
		`load_balancer: {policy: ring_hash, header: x}`:          "error CH-CLUSTER-006 spec.load_balancer",
		`resolver: endpoint, load_balancer: {policy: ring_hash}`: "warning CH-CLUSTER-009 spec.service; error CH-CLUSTER-006 spec.load_balancer",
		`resolver: endpoint, load_balancer: {policy: maglev, header: x, source_ip: true}`: "warning CH-CLUSTER-009 spec.service; error CH-CLUSTER-006 spec.load_balancer",
	} {
		t.Run(spec, func(t *testing.T) {
			f := lowerMapping(t, "prefix: /, service: s, "+spec)
			want(t, f, expected)
			if len(f.Routes)+len(f.Clusters)+len(f.EndpointSets)+len(f.Secrets) > 0 {
				t.Errorf("a refused Mapping leaves fragments: %+v", f)
			}
		})
	}
}

// Where a redirect goes is a host; a path has fields of its own.
func TestRedirectHost(t *testing.T) {
	want(t, lowerMapping(t, `prefix: /, service: x/path, host_redirect: true`), "error CH-CLUSTER-001 spec.service")
}

// A stray character costs the Mapping that has it (B079), with the field in the message.
func TestMappingServiceTypo(t *testing.T) {
	f := lowerMapping(t, `hostname: other.example.com, prefix: /, grpc: true, service: "example.org}:443", host_rewrite: "example.org}"`)
	want(t, f, "error CH-CLUSTER-001 spec.service")
	if !strings.Contains(f.Diagnostics[0].Message, "spec.service: invalid host") {
		t.Errorf("message %q", f.Diagnostics[0].Message)
	}
}

// A glob where an expression stands is told what it should have been (B082).
func TestGlobAsRegexHint(t *testing.T) {
	f := lowerMapping(t, `host: "*.apps.example.com", host_regex: true, prefix: /, service: a`)
	message := f.Diagnostics[0].Message
	if !strings.Contains(message, "missing argument to repetition operator: *") || !strings.Contains(message, `".*"`) {
		t.Errorf("message %q", message)
	}
}

// An expression that Envoy would refuse for its size costs one Mapping; the Module's limit decides (B083).
func TestRegexSize(t *testing.T) {
	var networks []string
	for i := range 12 {
		networks = append(networks, fmt.Sprintf("(10[.]%d[.][0-9]{1,3}[.][0-9]{1,3})", i))
	}
	expr := strings.Join(networks, "|")
	spec := `prefix: /, service: a, regex_headers: {x-forwarded-for: "` + expr + `"}`
	want(t, lowerMapping(t, spec), "error CH-MAPPING-002 spec.regex_headers[x-forwarded-for]")
	want(t, lowerMapping(t, spec, `{kind: Module, metadata: {name: ambassador}, spec: {config: {regex_max_size: 400}}}`), "")
}

func TestMappingWarnings(t *testing.T) {
	for spec, expected := range map[string]string{
		`labels: {ambassador: [{g: [{remote_address: {key: remote_address}}]}]}`: "info CH-MAPPING-009 spec.labels",
		`bypass_auth: true, auth_context_extensions: {a: b}`:                     "warning CH-MAPPING-007 spec.auth_context_extensions",
		`docs: {path: /x}`:       "warning CH-MAPPING-007 spec.docs",
		`envoy_override: {a: 1}`: "warning CH-MAPPING-007 spec.envoy_override",
		`modules: [{a: 1}]`:      "warning CH-MAPPING-007 spec.modules",
		`outlier_detection: x`:   "warning CH-MAPPING-007 spec.outlier_detection",
		`error_response_overrides: [{on_status_code: 404, body: {text_format: x}}]`: "warning CH-MAPPING-007 spec.error_response_overrides",
		`path_redirect: /x`:                                  "warning CH-MAPPING-005 spec.path_redirect",
		`service: "https://s"`:                               "info CH-CLUSTER-004 spec.service",
		`prefix: "/a.*", prefix_regex: true`:                 "info CH-MAPPING-006 spec.prefix_regex",
		`service: "http://s/path"`:                           "warning CH-CLUSTER-001 spec.service",
		`prefix: a`:                                          "warning CH-MAPPING-008 spec.prefix",
		`health_checks: [{health_check: {http: {path: /}}}]`: "warning CH-CLUSTER-008 spec.health_checks",
		`dns_type: magic`:                                    "error CH-CLUSTER-007 spec.dns_type",
		`rewrite: /x, regex_rewrite: {pattern: /, substitution: /}`: "warning CH-MAPPING-006 spec.rewrite",
		`host_rewrite: h, auto_host_rewrite: true`:                  "warning CH-MAPPING-006 spec.auto_host_rewrite",
	} {
		t.Run(spec, func(t *testing.T) {
			base := ""
			if !strings.Contains(spec, "prefix:") {
				base += "prefix: /, "
			}
			if !strings.Contains(spec, "service:") {
				base += "service: s, "
			}
			f := lowerMapping(t, base+spec)
			want(t, f, expected)
			route(t, f)
		})
	}
}

func TestMappingForward(t *testing.T) {
	for _, c := range []struct{ spec, want string }{
		{`rewrite: ""`, `"timeoutMillis":3000`},
		{`rewrite: /x/`, `"prefixRewrite":"/x/","timeoutMillis":3000`},
		{`regex_rewrite: {pattern: "/(a)/", substitution: "/\\1"}`, `"regexRewrite":{"pattern":"/(a)/","substitution":"/\\1"},"timeoutMillis":3000`},
		{`rewrite: "", timeout_ms: 0, idle_timeout_ms: 0`, `"timeoutMillis":0,"idleTimeoutMillis":0`},
		{`rewrite: "", host_rewrite: x.example.org, priority: high`, `"hostRewrite":"x.example.org","timeoutMillis":3000,"priority":"high"`},
		{`rewrite: "", auto_host_rewrite: true`, `"autoHostRewrite":true,"timeoutMillis":3000`},
		{`rewrite: "", allow_upgrade: [websocket, WebSocket, spdy/3.1]`, `"timeoutMillis":3000,"upgrades":["websocket","spdy/3.1"]`},
		{`rewrite: "", use_websocket: false`, `"timeoutMillis":3000,"upgrades":["websocket"]`},
		{`rewrite: "", retry_policy: {retry_on: 5xx, num_retries: 3, per_try_timeout: 0.25s}`, `"timeoutMillis":3000,"retry":{"on":"5xx","numRetries":3,"perTryTimeoutMillis":250}`},
	} {
		t.Run(c.spec, func(t *testing.T) {
			f := lowerMapping(t, "prefix: /, service: s, "+c.spec)
			want(t, f, "")
			equal(t, "forward", route(t, f).Route.Forward, `{"clusters":[{"cluster":"`+f.Clusters[0].Name+`"}],`+c.want+`}`)
		})
	}
}

func TestMappingMatch(t *testing.T) {
	for _, c := range []struct{ spec, want string }{
		{`prefix: /a, prefix_exact: true, case_sensitive: false`, `{"pathKind":"exact","path":"/a","ignoreCase":true}`},
		{`prefix: "/a/[0-9]+", prefix_regex: true, rewrite: ""`, `{"pathKind":"regex","path":"/a/[0-9]+"}`},
		{`prefix: /a, method: GET, headers: {X-B: c, A: d}, regex_headers: {Z: "e.*"}`,
			`{"pathKind":"prefix","path":"/a","headers":[{"name":":method","kind":"exact","value":"GET"},{"name":"a","kind":"exact","value":"d"},{"name":"x-b","kind":"exact","value":"c"},{"name":"z","kind":"regex","value":"e.*"}]}`},
		{`prefix: /a, query_parameters: {q: v}, regex_query_parameters: {p: "w.*"}`,
			`{"pathKind":"prefix","path":"/a","query":[{"name":"p","kind":"regex","value":"w.*"},{"name":"q","kind":"exact","value":"v"}]}`},
		{`prefix: /a, method: "GET|HEAD", method_regex: true`, `{"pathKind":"prefix","path":"/a","headers":[{"name":":method","kind":"regex","value":"GET|HEAD"}]}`},
	} {
		f := lowerMapping(t, "service: s, "+c.spec)
		want(t, f, "")
		equal(t, c.spec, route(t, f).Route.Match, c.want)
	}
}

func TestMappingHeaderChanges(t *testing.T) {
	module := `{kind: Module, metadata: {name: ambassador}, spec: {config: {defaults: {httpmapping: {add_request_headers: {x-d: {value: d, append: false}}, remove_response_headers: [server]}}}}}`
	f := lowerMapping(t, `prefix: /, service: "s:81", add_linkerd_headers: true`, module)
	want(t, f, "")
	equal(t, "request", route(t, f).Route.RequestHeaders, `{"add":[{"name":"x-d","value":"d"},{"name":"l5d-dst-override","value":"s.app:81","append":true}]}`)
	equal(t, "response", route(t, f).Route.ResponseHeaders, `{"remove":["server"]}`)

	f = lowerMapping(t, `prefix: /, service: s, add_request_headers: {}, remove_response_headers: [x-e]`, module)
	equal(t, "request", route(t, f).Route.RequestHeaders, `{}`)
	equal(t, "response", route(t, f).Route.ResponseHeaders, `{"remove":["x-e"]}`)
}

func TestMappingCORS(t *testing.T) {
	f := lowerMapping(t, `prefix: /, service: s, cors: {origins: ["*", "https://a"], methods: [GET, POST], headers: [x-a], exposed_headers: [x-b], credentials: true, max_age: "86400"}`)
	want(t, f, "")
	equal(t, "cors", route(t, f).Route.CORS, `{"origins":["*","https://a"],"methods":"GET, POST","headers":"x-a","exposeHeaders":"x-b","maxAge":"86400","credentials":true}`)
}

// Redirects have exactly one action and need no cluster (B003, B004, B005).
func TestMappingRedirect(t *testing.T) {
	for _, c := range []struct{ spec, want, findings string }{
		{`service: www.example.org, prefix_redirect: /company/about`, `{"host":"www.example.org","prefixRewrite":"/company/about","code":301}`, ""},
		{`service: www.example.org`, `{"host":"www.example.org","code":301}`, ""},
		{`service: "https://new.example.com"`, `{"scheme":"https","host":"new.example.com","code":301}`, ""},
		{`service: "new.example.com:8443", redirect_response_code: 308`, `{"host":"new.example.com","port":8443,"code":308}`, ""},
		{`service: x, path_redirect: /p, prefix_redirect: /q`, `{"host":"x","path":"/p","code":301}`, "error CH-MAPPING-005 spec.prefix_redirect"},
		{`service: x, prefix_redirect: /q, regex_redirect: {pattern: a, substitution: b}`, `{"host":"x","prefixRewrite":"/q","code":301}`, "error CH-MAPPING-005 spec.regex_redirect"},
		{`service: x, regex_redirect: {pattern: "/(a)", substitution: "/\\1/b"}`, `{"host":"x","regexRewrite":{"pattern":"/(a)","substitution":"/\\1/b"},"code":301}`, ""},
	} {
		t.Run(c.spec, func(t *testing.T) {
			f := lowerMapping(t, `hostname: "*", prefix: /old/about, host_redirect: true, `+c.spec)
			want(t, f, c.findings)
			r := route(t, f).Route
			equal(t, "redirect", r.Redirect, c.want)
			if r.Forward != nil || len(f.Clusters) > 0 {
				t.Errorf("a redirect has a cluster: %+v %v", r.Forward, f.Clusters)
			}
		})
	}
	f := lowerMapping(t, `prefix: /, service: x, host_redirect: true, shadow: true, weight: 7`)
	want(t, f, "warning CH-MAPPING-005 spec.host_redirect")
	if r := route(t, f); !r.Shadow || *r.Weight != 7 || r.Route.Forward == nil {
		t.Errorf("shadow %v weight %v", r.Shadow, r.Weight)
	}
}

// Settings stay with their branch, and branches of one match share a group (B019, B020, B021, B028).
func TestMappingBranches(t *testing.T) {
	w := newWorld(t, `
{kind: Mapping, metadata: {name: a}, spec: {hostname: "*", prefix: /q/, service: web, add_request_headers: {x-rev: {value: "1"}}}}
---
{kind: Mapping, metadata: {name: b}, spec: {hostname: "*", prefix: /q/, service: web, weight: 50, case_sensitive: false, timeout_ms: 9, host_rewrite: ext.example.org, add_request_headers: {x-rev: {value: "2"}}}}
---
{kind: Mapping, metadata: {name: s}, spec: {hostname: "*", prefix: /q/, service: sampler, shadow: true, weight: 1}}
---
{kind: Mapping, metadata: {name: other}, spec: {hostname: "*", prefix: /q/, service: web, method: GET}}
`)
	a, b, s, other := route(t, w.lower(t, "Mapping/a")), route(t, w.lower(t, "Mapping/b")), route(t, w.lower(t, "Mapping/s")), route(t, w.lower(t, "Mapping/other"))
	if a.Group != b.Group || a.Order != b.Order || s.Group != a.Group {
		t.Error("branches of one match are in different groups")
	}
	if other.Group == a.Group || other.Order <= a.Order {
		t.Error("a narrower match shares the group or comes later")
	}
	if *b.Weight != 50 || a.Weight != nil || !s.Shadow || *s.Weight != 1 {
		t.Error("weights are lost")
	}
	if a.Route.Forward.HostRewrite != "" || b.Route.Forward.HostRewrite != "ext.example.org" || b.Route.Forward.TimeoutMillis != 9 {
		t.Error("settings left their branch")
	}
	if a.Route.RequestHeaders.Add[0].Value != "1" || b.Route.RequestHeaders.Add[0].Value != "2" || len(b.Route.RequestHeaders.Add) != 1 {
		t.Error("headers left their branch")
	}
}

// The order is total, and knows neither the objects' names nor the order of input (B013).
func TestOrder(t *testing.T) {
	ordered := []string{
		`hostname: "*", prefix: /, precedence: 2`,
		`hostname: "*", prefix: /a/much/longer/regular/expression/.*, prefix_regex: true, rewrite: ""`,
		`hostname: "*", prefix: /longer/than/the/rest`,
		`hostname: "*", prefix: /abc, headers: {x-org-id: acme-test}`,
		`hostname: "*", prefix: /abc, regex_headers: {x-org-id: ".*"}`,
		`hostname: "*", prefix: /abc, query_parameters: {a: b}`,
		`hostname: "*", prefix: /abc, prefix_exact: true`,
		`hostname: "*", prefix: /abc`,
		`hostname: "*", prefix: "/abb", prefix_exact: false`,
		`hostname: "*", prefix: "/a.c", prefix_regex: true, rewrite: ""`,
		`hostname: foo.example.com, prefix: /ab`,
		`hostname: "*.example.com", prefix: /ab`,
		`hostname: "*", prefix: /ab, regex_headers: {":authority": "ab.*"}`,
		`hostname: "*", prefix: /ab, regex_headers: {":authority": "a.*"}`,
		`hostname: "*", prefix: /ab`,
		`hostname: "*", prefix: /long/but/unloved, precedence: -1`,
	}
	type entry struct{ spec, order, group string }
	var entries []entry
	for _, spec := range ordered {
		r := route(t, lowerMapping(t, "service: s, "+spec))
		entries = append(entries, entry{spec, r.Order, r.Group})
	}
	rand.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(b.order, a.order) })
	for i, e := range entries {
		if e.spec != ordered[i] {
			t.Errorf("place %d has %s, want %s", i, e.spec, ordered[i])
		}
	}
}

// Concatenation cannot make two matches one group.
func TestGroupsDoNotCollide(t *testing.T) {
	seen := map[string]string{}
	for _, spec := range []string{
		`prefix: /a, headers: {b: c}`, `prefix: /ab, headers: {c: ""}`, `prefix: /a, headers: {bc: ""}`, `prefix: /abc`,
		`prefix: /a, query_parameters: {b: c}`, `prefix: /a, regex_headers: {b: c}`, `prefix: /a`, `prefix: /a, prefix_exact: true`,
		`prefix: /a, precedence: 1`, `prefix: /a, hostname: "*"`, `prefix: /a, hostname: a.b`, `prefix: /a, hostname: "a.b:80"`, `prefix: /a, host: a.b, host_regex: true`,
	} {
		g := route(t, lowerMapping(t, "service: s, "+spec)).Group
		if other, taken := seen[g]; taken {
			t.Errorf("%s and %s share a group", spec, other)
		}
		seen[g] = spec
	}
}

func TestAmbassadorID(t *testing.T) {
	for ids, mine := range map[string]bool{`[]`: false, `[edge]`: true, `[other]`: false, `[other, edge]`: true, `[_automatic_]`: true, `[_automatic_, other]`: false} {
		w := newWorld(t, `{kind: Mapping, metadata: {name: m}, spec: {ambassador_id: `+ids+`, prefix: /, service: s}}`, func(o *Options) { o.AmbassadorID = "edge" })
		if got := w.lower(t, "Mapping/m") != nil; got != mine {
			t.Errorf("%s: lowered %v", ids, got)
		}
	}
	w := newWorld(t, `{kind: Mapping, metadata: {name: m}, spec: {prefix: /, service: s}}`, func(o *Options) { o.SingleNamespace = true })
	if w.lower(t, "Mapping/m") != nil {
		t.Error("an object of another namespace is lowered in single-namespace mode")
	}
}
