package v3alpha1_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
)

// TestCheck holds, for each kind, a spec that is right and one spec for each rule that it can break.
func TestCheck(t *testing.T) {
	tests := []struct {
		kind, spec string
		want       []string // "path: message"
	}{
		{"Mapping", `{"prefix":"/","service":"quote"}`, nil},
		{"Mapping", `{}`, []string{"spec.prefix: spec.prefix in body is required", "spec.service: spec.service in body is required"}},
		{"Mapping", `{"prefix":"/","service":"q","circuit_breakers":[{"priority":"high"},{"priority":"low"}]}`,
			[]string{`spec.circuit_breakers[1].priority: spec.circuit_breakers[1].priority in body should be one of [default high], found "low"`}},
		{"Mapping", `{"prefix":"/","service":"q","retry_policy":{"retry_on":"4xx"}}`, []string{
			`spec.retry_policy.retry_on: spec.retry_policy.retry_on in body should be one of [5xx gateway-error connect-failure retriable-4xx refused-stream retriable-status-codes], found "4xx"`}},
		{"Mapping", `{"prefix":"/","service":"q","redirect_response_code":300}`,
			[]string{"spec.redirect_response_code: spec.redirect_response_code in body should be one of [301 302 303 307 308], found 300"}},
		{"Mapping", `{"prefix":"/","service":"q","redirect_response_code":308}`, nil},
		{"Mapping", `{"prefix":"/","service":"q","health_checks":[]}`,
			[]string{"spec.health_checks: spec.health_checks in body should have at least 1 items"}},
		{"Mapping", `{"prefix":"/","service":"q","health_checks":[{"timeout":"3s"}]}`,
			[]string{"spec.health_checks[0].health_check: spec.health_checks[0].health_check in body should have exactly 1 property, found 0"}},
		{"Mapping", `{"prefix":"/","service":"q","health_checks":[{"health_check":{"http":{"path":"/"},"grpc":{"upstream_name":"a"}}}]}`,
			[]string{"spec.health_checks[0].health_check: spec.health_checks[0].health_check in body should have exactly 1 property, found 2"}},
		{"Mapping", `{"prefix":"/","service":"q","health_checks":[{"health_check":{"http":{"expected_statuses":[{"min":99,"max":600}]}}}]}`, []string{
			"spec.health_checks[0].health_check.http.path: spec.health_checks[0].health_check.http.path in body is required",
			"spec.health_checks[0].health_check.http.expected_statuses[0].min: spec.health_checks[0].health_check.http.expected_statuses[0].min in body should be greater than or equal to 100, found 99",
			"spec.health_checks[0].health_check.http.expected_statuses[0].max: spec.health_checks[0].health_check.http.expected_statuses[0].max in body should be less than or equal to 599, found 600"}},
		{"Mapping", `{"prefix":"/","service":"q","health_checks":[{"health_check":{"grpc":{}}}]}`,
			[]string{"spec.health_checks[0].health_check.grpc.upstream_name: spec.health_checks[0].health_check.grpc.upstream_name in body is required"}},
		{"Mapping", `{"prefix":"/","service":"q","error_response_overrides":[]}`,
			[]string{"spec.error_response_overrides: spec.error_response_overrides in body should have at least 1 items"}},
		{"Mapping", `{"prefix":"/","service":"q","error_response_overrides":[{}, {"on_status_code":399,"body":{"text_format_source":{}}}]}`, []string{
			"spec.error_response_overrides[0].on_status_code: spec.error_response_overrides[0].on_status_code in body is required",
			"spec.error_response_overrides[0].body: spec.error_response_overrides[0].body in body is required",
			"spec.error_response_overrides[1].on_status_code: spec.error_response_overrides[1].on_status_code in body should be greater than or equal to 400, found 399",
			"spec.error_response_overrides[1].body.text_format_source.filename: spec.error_response_overrides[1].body.text_format_source.filename in body is required"}},
		{"Mapping", `{"prefix":"/","service":"q","load_balancer":{"cookie":{}}}`, []string{
			"spec.load_balancer.policy: spec.load_balancer.policy in body is required",
			"spec.load_balancer.cookie.name: spec.load_balancer.cookie.name in body is required"}},
		{"Mapping", `{"prefix":"/","service":"q","load_balancer":{"policy":"random"}}`,
			[]string{`spec.load_balancer.policy: spec.load_balancer.policy in body should be one of [round_robin ring_hash maglev least_request], found "random"`}},
		{"Mapping", `{"prefix":"/","service":"q","add_request_headers":{"x-a":{"value":"1","v2Representation":"list"}}}`,
			[]string{`spec.add_request_headers.x-a.v2Representation: spec.add_request_headers.x-a.v2Representation in body should be one of [string null], found "list"`}},
		{"Mapping", `{"prefix":"/","service":"q","v2ExplicitTLS":{"tls":"yes","serviceScheme":"ftp://"}}`, []string{
			`spec.v2ExplicitTLS.tls: spec.v2ExplicitTLS.tls in body should be one of [null bool:true bool:false string], found "yes"`,
			`spec.v2ExplicitTLS.serviceScheme: spec.v2ExplicitTLS.serviceScheme in body should match '^([hH][tT][tT][pP][sS]?://)?$', found "ftp://"`}},
		{"Mapping", `{"prefix":"/","service":"q","v2ExplicitTLS":{"tls":"bool:true","serviceScheme":"HTTPS://"}}`, nil},
		{"Mapping", `{"prefix":"/","service":"q","labels":{"d":[{"g":[{"remote_address":{"key":"remote_address"}},{"generic_key":{"value":"v"}}]}]}}`, nil},
		{"Mapping", `{"prefix":"/","service":"q","labels":{"d":[{"a":[],"b":[]}]}}`,
			[]string{"spec.labels.d[0]: spec.labels.d[0] in body should have exactly 1 property, found 2"}},
		{"Mapping", `{"prefix":"/","service":"q","labels":{"d":[{"g":[{}]}]}}`,
			[]string{"spec.labels.d[0].g[0]: spec.labels.d[0].g[0] in body should have exactly 1 property, found 0"}},
		{"Mapping", `{"prefix":"/","service":"q","labels":{"d":[{"g":[{"source_cluster":{"key":"x"}},{"request_headers":{}},{"generic_key":{}},{"destination_cluster":{}}]}]}}`, []string{
			`spec.labels.d[0].g[0].source_cluster.key: spec.labels.d[0].g[0].source_cluster.key in body should be one of [source_cluster], found "x"`,
			"spec.labels.d[0].g[1].request_headers.key: spec.labels.d[0].g[1].request_headers.key in body is required",
			"spec.labels.d[0].g[1].request_headers.header_name: spec.labels.d[0].g[1].request_headers.header_name in body is required",
			"spec.labels.d[0].g[2].generic_key.value: spec.labels.d[0].g[2].generic_key.value in body is required",
			"spec.labels.d[0].g[3].destination_cluster.key: spec.labels.d[0].g[3].destination_cluster.key in body is required"}},

		{"TCPMapping", `{"port":443,"service":"db"}`, nil},
		{"TCPMapping", `{}`, []string{"spec.port: spec.port in body is required", "spec.service: spec.service in body is required"}},
		{"TCPMapping", `{"port":443,"service":"db","circuit_breakers":[{"priority":"x"}]}`,
			[]string{`spec.circuit_breakers[0].priority: spec.circuit_breakers[0].priority in body should be one of [default high], found "x"`}},

		{"Host", `{}`, nil},
		{"Host", `{"hostname":"a.example.com","requestPolicy":{"insecure":{"action":"Redirekt"}}}`, []string{
			`spec.requestPolicy.insecure.action: spec.requestPolicy.insecure.action in body should be one of [Redirect Reject Route], found "Redirekt"`}},
		{"Host", `{"selector":{"matchExpressions":[{}]},"mappingSelector":{"matchExpressions":[{"key":"a"}]},"previewUrl":{"type":"Query"}}`, []string{
			"spec.selector.matchExpressions[0].key: spec.selector.matchExpressions[0].key in body is required",
			"spec.selector.matchExpressions[0].operator: spec.selector.matchExpressions[0].operator in body is required",
			"spec.mappingSelector.matchExpressions[0].operator: spec.mappingSelector.matchExpressions[0].operator in body is required",
			`spec.previewUrl.type: spec.previewUrl.type in body should be one of [Path], found "Query"`}},

		{"Listener", `{"port":8443,"protocol":"HTTPS","securityModel":"XFP","hostBinding":{"namespace":{"from":"ALL"}}}`, nil},
		{"Listener", `{}`, []string{"spec.port: spec.port in body is required", "spec.securityModel: spec.securityModel in body is required",
			"spec.hostBinding: spec.hostBinding in body is required"}},
		{"Listener", `{"port":65536,"protocol":"QUIC","protocolStack":["TLS","SSL"],"securityModel":"open","http2MaxConcurrentStreams":0,"hostBinding":{"namespace":{"from":"HERE"}}}`, []string{
			"spec.port: spec.port in body should be less than or equal to 65535, found 65536",
			`spec.protocol: spec.protocol in body should be one of [HTTP HTTPS HTTPPROXY HTTPSPROXY TCP TLS UDP], found "QUIC"`,
			`spec.protocolStack[1]: spec.protocolStack[1] in body should be one of [HTTP PROXY TLS TCP UDP], found "SSL"`,
			`spec.securityModel: spec.securityModel in body should be one of [XFP SECURE INSECURE], found "open"`,
			"spec.http2MaxConcurrentStreams: spec.http2MaxConcurrentStreams in body should be greater than or equal to 1, found 0",
			`spec.hostBinding.namespace.from: spec.hostBinding.namespace.from in body should be one of [SELF ALL SELECTOR], found "HERE"`}},

		{"TLSContext", `{"min_tls_version":"v1.2","max_tls_version":"v1.3"}`, nil},
		{"TLSContext", `{"min_tls_version":"1.2","max_tls_version":"TLSv1_3"}`, []string{
			`spec.min_tls_version: spec.min_tls_version in body should be one of [v1.0 v1.1 v1.2 v1.3], found "1.2"`,
			`spec.max_tls_version: spec.max_tls_version in body should be one of [v1.0 v1.1 v1.2 v1.3], found "TLSv1_3"`}},

		{"Module", `{"config":{}}`, nil},
		{"Module", `{}`, []string{"spec.config: spec.config in body is required"}},

		{"AuthService", `{"auth_service":"auth","proto":"grpc","protocol_version":"v3","include_body":{"max_bytes":0,"allow_partial":false}}`, nil},
		{"AuthService", `{"proto":"ws","protocol_version":"v1","include_body":{}}`, []string{
			"spec.auth_service: spec.auth_service in body is required",
			`spec.proto: spec.proto in body should be one of [http grpc], found "ws"`,
			"spec.include_body.max_bytes: spec.include_body.max_bytes in body is required",
			"spec.include_body.allow_partial: spec.include_body.allow_partial in body is required",
			`spec.protocol_version: spec.protocol_version in body should be one of [v2 v3], found "v1"`}},

		{"RateLimitService", `{"service":"rl","protocol_version":"v3"}`, nil},
		{"RateLimitService", `{"protocol_version":"3"}`, []string{"spec.service: spec.service in body is required",
			`spec.protocol_version: spec.protocol_version in body should be one of [v2 v3], found "3"`}},

		{"LogService", `{}`, nil},
		{"LogService", `{"driver":"udp","protocol_version":"v4"}`, []string{
			`spec.protocol_version: spec.protocol_version in body should be one of [v2 v3], found "v4"`,
			`spec.driver: spec.driver in body should be one of [tcp http], found "udp"`}},

		{"TracingService", `{"driver":"zipkin","service":"zipkin","custom_tags":[{"tag":"a","literal":{"value":"b"}}]}`, nil},
		{"TracingService", `{"driver":"jaeger","custom_tags":[{},{"tag":"a","literal":{}},{"tag":"b","environment":{}},{"tag":"c","request_header":{}}],
			"config":{"collector_endpoint_version":"v2","propagation_modes":["B3","W3C"]}}`, []string{
			`spec.driver: spec.driver in body should be one of [lightstep zipkin datadog opentelemetry], found "jaeger"`,
			"spec.service: spec.service in body is required",
			"spec.custom_tags[0].tag: spec.custom_tags[0].tag in body is required",
			"spec.custom_tags[1].literal.value: spec.custom_tags[1].literal.value in body is required",
			"spec.custom_tags[2].environment.name: spec.custom_tags[2].environment.name in body is required",
			"spec.custom_tags[3].request_header.name: spec.custom_tags[3].request_header.name in body is required",
			`spec.config.collector_endpoint_version: spec.config.collector_endpoint_version in body should be one of [HTTP_JSON_V1 HTTP_JSON HTTP_PROTO], found "v2"`,
			`spec.config.propagation_modes[1]: spec.config.propagation_modes[1] in body should be one of [ENVOY LIGHTSTEP B3 TRACE_CONTEXT], found "W3C"`}},

		{"KubernetesServiceResolver", `{}`, nil},
		{"KubernetesEndpointResolver", `{}`, nil},
		{"ConsulResolver", `{}`, nil},

		{"DevPortal", `{"naming_scheme":"name.prefix","search":{"type":"all-content"}}`, nil},
		{"DevPortal", `{"naming_scheme":"x","search":{"type":"y"}}`, []string{
			`spec.naming_scheme: spec.naming_scheme in body should be one of [namespace.name name.prefix], found "x"`,
			`spec.search.type: spec.search.type in body should be one of [title-only all-content], found "y"`}},
	}
	for _, test := range tests {
		t.Run(test.kind+test.spec, func(t *testing.T) {
			spec := v3alpha1.New(snapshot.GroupKind{Group: snapshot.EmissaryGroup, Kind: test.kind})
			if err := json.Unmarshal([]byte(test.spec), spec, json.RejectUnknownMembers(true)); err != nil {
				t.Fatal(err)
			}
			var got []string
			spec.Check(func(path, message, help string) {
				got = append(got, path+": "+message)
				if help == "" && !strings.HasSuffix(message, "is required") {
					t.Errorf("%s has no help", message)
				}
			})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNew(t *testing.T) {
	for _, k := range []snapshot.GroupKind{{Kind: "Mapping"}, {Group: "example.com", Kind: "Mapping"}, {Group: snapshot.EmissaryGroup, Kind: "Maping"}} {
		if spec := v3alpha1.New(k); spec != nil {
			t.Errorf("New(%s) is %T", k, spec)
		}
	}
}

func TestAmbassadorIDMatches(t *testing.T) {
	tests := []struct {
		list v3alpha1.AmbassadorID
		id   string
		want bool
	}{
		{nil, "default", true},
		{nil, "edge", false},
		{v3alpha1.AmbassadorID{}, "default", true},
		{v3alpha1.AmbassadorID{"edge", "other"}, "other", true},
		{v3alpha1.AmbassadorID{"edge"}, "default", false},
		{v3alpha1.AmbassadorID{"_automatic_"}, "any", true},
		{v3alpha1.AmbassadorID{"edge", "_automatic_"}, "any", false},
	}
	for _, test := range tests {
		if got := test.list.Matches(test.id); got != test.want {
			t.Errorf("%v matches %q: %v", test.list, test.id, got)
		}
	}
}

func TestDurations(t *testing.T) {
	var spans struct {
		M v3alpha1.Milliseconds
		S v3alpha1.Seconds
		D v3alpha1.Duration
	}
	if err := json.Unmarshal([]byte(`{"M":1500,"S":9223372036854775807,"D":"1m30s"}`), &spans); err != nil {
		t.Fatal(err)
	}
	if m, s, d := spans.M.Duration().String(), spans.S.Duration(), spans.D.Duration().Seconds(); m != "1.5s" || s <= 0 || d != 90 {
		t.Errorf("got %v, %v, %v", m, s, d)
	}
	if text, err := json.Marshal(spans.D); err != nil || string(text) != `"1m30s"` {
		t.Errorf("duration writes as %s, %v", text, err)
	}
}
