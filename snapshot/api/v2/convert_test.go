package v2_test

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/chancery-gateway/chancery/snapshot/api/internal/jsonobject"
	v2 "github.com/chancery-gateway/chancery/snapshot/api/v2"
)

func TestConvert(t *testing.T) {
	tests := []struct {
		name, kind, spec, want string
		warnings               []string
	}{
		{name: "ambassador_id string", kind: "Module", spec: `{"ambassador_id":"edge","config":{}}`, want: `{"ambassador_id":["edge"],"config":{}}`},
		{name: "ambassador_id list", kind: "Module", spec: `{"ambassador_id":["edge","other"]}`, want: `{"ambassador_id":["edge","other"]}`},
		{name: "ambassador_id marker", kind: "Module", spec: `{"ambassador_id":["--apiVersion-v3alpha1-only--edge","x"]}`, want: `{"ambassador_id":["edge","x"]}`},
		{name: "ambassador_id marker of none", kind: "Module", spec: `{"ambassador_id":["--apiVersion-v3alpha1-only--default"]}`, want: `{}`},
		{name: "ambassador_id null", kind: "Module", spec: `{"ambassador_id":null}`, want: `{"ambassador_id":null}`},
		{name: "ambassador_id empty", kind: "Module", spec: `{"ambassador_id":[]}`, want: `{"ambassador_id":[]}`},
		{name: "ambassador_id wrong", kind: "Module", spec: `{"ambassador_id":7}`, want: `{"ambassador_id":7}`},
		{name: "ambassador_id wrong item", kind: "Module", spec: `{"ambassador_id":[7]}`, want: `{"ambassador_id":[7]}`},
		{name: "ambassadorId appended", kind: "Host", spec: `{"ambassador_id":["a"],"ambassadorId":"b"}`, want: `{"ambassador_id":["a","b"]}`},
		{name: "ambassadorId alone", kind: "Host", spec: `{"ambassadorId":["b"]}`, want: `{"ambassador_id":["b"]}`},

		// tls and service: Emissary's tables.
		{name: "tls absent", kind: "AuthService", spec: `{"auth_service":"a"}`, want: `{"auth_service":"a"}`},
		{name: "tls absent, https", kind: "AuthService", spec: `{"auth_service":"https://a"}`, want: `{"auth_service":"https://a"}`},
		{name: "tls context", kind: "AuthService", spec: `{"auth_service":"http://a","tls":"ctx"}`, want: `{"auth_service":"http://a","tls":"ctx","v2ExplicitTLS":{}}`},
		{name: "tls true", kind: "AuthService", spec: `{"auth_service":"a:80","tls":true}`, want: `{"auth_service":"https://a:80","v2ExplicitTLS":{"tls":"bool:true","serviceScheme":""}}`},
		{name: "tls true, http", kind: "RateLimitService", spec: `{"service":"HTTP://a","tls":true}`, want: `{"service":"https://a","v2ExplicitTLS":{"tls":"bool:true","serviceScheme":"HTTP://"}}`},
		{name: "tls true, https", kind: "RateLimitService", spec: `{"service":"HTTPS://a","tls":true}`, want: `{"service":"HTTPS://a","v2ExplicitTLS":{"tls":"bool:true"}}`},
		{name: "tls false", kind: "RateLimitService", spec: `{"service":"a","tls":false}`, want: `{"service":"a","v2ExplicitTLS":{"tls":"bool:false"}}`},
		{name: "tls false, https", kind: "RateLimitService", spec: `{"service":"https://a","tls":false}`, want: `{"service":"https://a","v2ExplicitTLS":{"tls":"bool:false"}}`},
		{name: "tls empty", kind: "RateLimitService", spec: `{"service":"a","tls":""}`, want: `{"service":"a","v2ExplicitTLS":{"tls":"string"}}`},
		{name: "tls null", kind: "RateLimitService", spec: `{"service":"a","tls":null}`, want: `{"service":"a","v2ExplicitTLS":{"tls":"null"}}`},
		{name: "tls wrong", kind: "RateLimitService", spec: `{"service":"a","tls":1}`, want: `{"service":"a","tls":1}`},
		{name: "tls true, service wrong", kind: "RateLimitService", spec: `{"service":1,"tls":true}`, want: `{"service":1,"v2ExplicitTLS":{"tls":"bool:true"}}`},
		{name: "TCPMapping has no scheme", kind: "TCPMapping", spec: `{"port":1,"service":"a","tls":true}`, want: `{"port":1,"service":"https://a","v2ExplicitTLS":{"tls":"bool:true"}}`},
		{name: "TCPMapping without tls", kind: "TCPMapping", spec: `{"port":1,"service":"a"}`, want: `{"port":1,"service":"a"}`},

		{name: "names", kind: "AuthService", spec: `{"v3StatsName":"s","v3CircuitBreakers":[]}`, want: `{"stats_name":"s","circuit_breakers":[]}`},
		{name: "names", kind: "LogService", spec: `{"v3StatsName":"s","v3ProtocolVersion":"v3"}`, want: `{"stats_name":"s","protocol_version":"v3"}`},
		{name: "names", kind: "RateLimitService", spec: `{"v3StatsName":"s","v3GRPC":{}}`, want: `{"stats_name":"s","grpc":{}}`},
		{name: "names", kind: "TLSContext", spec: `{"v3CRLSecret":"s"}`, want: `{"crl_secret":"s"}`},
		{name: "names", kind: "TCPMapping", spec: `{"v3StatsName":"s"}`, want: `{"stats_name":"s"}`},
		{name: "names", kind: "Host", spec: `{"selector":{"matchLabels":{}},"tls":{"v3CRLSecret":"s"}}`, want: `{"mappingSelector":{"matchLabels":{}},"tls":{"crl_secret":"s"}}`},
		{name: "younger names are dropped", kind: "TLSContext", spec: `{"crl_secret":"s"}`, want: `{}`,
			warnings: []string{"spec.crl_secret: unknown field in getambassador.io/v2; it has no effect"}},
		{name: "younger names are dropped", kind: "Host", spec: `{"tls":{"crl_secret":"s"}}`, want: `{"tls":{}}`,
			warnings: []string{"spec.tls.crl_secret: unknown field in getambassador.io/v2; it has no effect"}},
		{name: "younger names are dropped", kind: "TracingService", spec: `{"config":{"propagation_modes":["B3"]}}`, want: `{"config":{}}`,
			warnings: []string{"spec.config.propagation_modes: unknown field in getambassador.io/v2; it has no effect"}},

		{name: "tag_headers", kind: "TracingService", spec: `{"tag_headers":["x-a"],"config":{"v3PropagationModes":["B3"]},"v3StatsName":"s"}`,
			want: `{"config":{"propagation_modes":["B3"]},"stats_name":"s","custom_tags":[{"tag":"x-a","request_header":{"name":"x-a"}}]}`},
		{name: "tag_headers beside custom tags", kind: "TracingService", spec: `{"tag_headers":["x-a"],"v3CustomTags":[{"tag":"t"}]}`, want: `{"custom_tags":[{"tag":"t"}]}`,
			warnings: []string{"spec.tag_headers: tag_headers and v3CustomTags are both set; tag_headers has no effect"}},

		{name: "host absent", kind: "Mapping", spec: `{"prefix":"/"}`, want: `{"prefix":"/","hostname":"*"}`},
		{name: "host empty", kind: "Mapping", spec: `{"host":""}`, want: `{"hostname":"*"}`},
		{name: "host literal", kind: "Mapping", spec: `{"host":"a.example.com","host_regex":false}`, want: `{"host_regex":false,"hostname":"a.example.com"}`},
		{name: "host regex", kind: "Mapping", spec: `{"host":"a.*","host_regex":true}`, want: `{"host":"a.*","host_regex":true}`},
		{name: "host sentinel", kind: "Mapping", spec: `{"host":"_skip_mapping_with_empty_host_"}`, want: `{}`},
		{name: "host wrong", kind: "Mapping", spec: `{"host":1}`, want: `{"host":1}`},
		{name: "hostname is younger", kind: "Mapping", spec: `{"hostname":"a"}`, want: `{"hostname":"*"}`,
			warnings: []string{"spec.hostname: unknown field in getambassador.io/v2; it has no effect"}},

		{name: "names", kind: "Mapping", spec: `{"host":"a","v3health_checks":[],"v3StatsName":"s"}`, want: `{"health_checks":[],"stats_name":"s","hostname":"a"}`},
		{name: "headers", kind: "Mapping", spec: `{"host":"a","headers":{"z":true,"b":"1","c":false,"a":true},"regex_headers":{"z":"x+"}}`,
			want: `{"headers":{"b":"1"},"regex_headers":{"z":"x+","a":".*"},"v2BoolHeaders":["a","z"],"hostname":"a"}`},
		{name: "headers all true", kind: "Mapping", spec: `{"host":"a","headers":{"z":true}}`, want: `{"regex_headers":{"z":".*"},"v2BoolHeaders":["z"],"hostname":"a"}`},
		{name: "headers wrong", kind: "Mapping", spec: `{"host":"a","headers":{"z":true},"regex_headers":1}`, want: `{"headers":{"z":true},"regex_headers":1,"hostname":"a"}`},
		{name: "query parameters", kind: "Mapping", spec: `{"host":"a","query_parameters":{"q":true,"r":"2"}}`,
			want: `{"query_parameters":{"r":"2"},"regex_query_parameters":{"q":".*"},"v2BoolQueryParameters":["q"],"hostname":"a"}`},
		{name: "lists", kind: "Mapping", spec: `{"host":"a","remove_request_headers":"x","remove_response_headers":["y"]}`,
			want: `{"remove_request_headers":["x"],"remove_response_headers":["y"],"hostname":"a"}`},
		{name: "cors strings", kind: "Mapping", spec: `{"host":"a","cors":{"origins":"http://a,http://b","methods":"GET","headers":"X","exposed_headers":"Y"}}`,
			want: `{"cors":{"origins":["http://a","http://b"],"methods":["GET"],"headers":["X"],"exposed_headers":["Y"],"v2CommaSeparatedOrigins":true},"hostname":"a"}`},
		{name: "cors lists", kind: "Mapping", spec: `{"host":"a","cors":{"origins":["http://a"]}}`, want: `{"cors":{"origins":["http://a"]},"hostname":"a"}`},
		{name: "added headers", kind: "Mapping", spec: `{"host":"a","add_request_headers":{"a":"1","b":{"value":"2","append":false},"c":null}}`,
			want: `{"add_request_headers":{"a":{"value":"1","v2Representation":"string"},"b":{"value":"2","append":false},"c":{"v2Representation":"null"}},"hostname":"a"}`},

		{name: "labels", kind: "Mapping", spec: `{"host":"a","labels":{"ambassador":[{"g":["source_cluster","destination_cluster","remote_address","mine",
				{"user":{"header":"x-user","omit_if_not_present":true}},{"generic_key":"v","v3Key":"k"},{"generic_key":"v"}]}]}}`,
			want: `{"labels":{"ambassador":[{"g":[{"source_cluster":{"key":"source_cluster"}},{"destination_cluster":{"key":"destination_cluster"}},{"remote_address":{"key":"remote_address"}},` +
				`{"generic_key":{"value":"mine","v2Shorthand":true}},{"request_headers":{"key":"user","header_name":"x-user","omit_if_not_present":true}},` +
				`{"generic_key":{"value":"v","key":"k"}},{"generic_key":{"value":"v"}}]}]},"hostname":"a"}`},
		{name: "labels with several headers", kind: "Mapping", spec: `{"host":"a","labels":{"d":[{"g":[{"b":{"header":"x-b"},"a":{"header":"x-a"}}]}]}}`,
			want: `{"labels":{"d":[{"g":[{"request_headers":{"key":"a","header_name":"x-a"}},{"request_headers":{"key":"b","header_name":"x-b"}}]}]},"hostname":"a"}`},
		{name: "labels with several groups in one item", kind: "Mapping", spec: `{"host":"a","labels":{"d":[{"h":["y"],"g":["x"]}]}}`,
			want: `{"labels":{"d":[{"g":[{"generic_key":{"value":"x","v2Shorthand":true}}]},{"h":[{"generic_key":{"value":"y","v2Shorthand":true}}]}]},"hostname":"a"}`},
		{name: "labels null", kind: "Mapping", spec: `{"host":"a","labels":null}`, want: `{"labels":null,"hostname":"a"}`},
		{name: "group of old shape", kind: "Mapping", spec: `{"host":"a","labels":{"d":[{"g":{"host":{"header":":authority"}}}]}}`,
			want:     `{"labels":{"d":[{"g":[{"v2Unrecognized":{"host":{"header":":authority"}}}]}]},"hostname":"a"}`,
			warnings: []string{"spec.labels.d[0].g: expected a list of labels; this part of the labels has no effect"}},
		{name: "label of unknown shape", kind: "Mapping", spec: `{"host":"a","labels":{"d.e":[{"g":[7,{},{"a":{"head":"x"}},"",{"generic_key":1}]}]}}`,
			want: `{"labels":{"d.e":[{"g":[{"v2Unrecognized":7},{"v2Unrecognized":{}},{"v2Unrecognized":{"a":{"head":"x"}}},{"v2Unrecognized":""},{"v2Unrecognized":{"generic_key":1}}]}]},"hostname":"a"}`,
			warnings: []string{
				`spec.labels["d.e"][0].g[0]: expected a string, a header label or a generic_key; this part of the labels has no effect`,
				`spec.labels["d.e"][0].g[1]: expected a string, a header label or a generic_key; this part of the labels has no effect`,
				`spec.labels["d.e"][0].g[2]: expected a string, a header label or a generic_key; this part of the labels has no effect`,
				`spec.labels["d.e"][0].g[3]: expected a label that is not empty; this part of the labels has no effect`,
				`spec.labels["d.e"][0].g[4]: expected a string, a header label or a generic_key; this part of the labels has no effect`}},
		{name: "group that is a string", kind: "Mapping", spec: `{"host":"a","labels":{"d":["g"]}}`,
			want:     `{"labels":{"d":[{"v2Unrecognized":[{"v2Unrecognized":"g"}]}]},"hostname":"a"}`,
			warnings: []string{"spec.labels.d[0]: expected an object with one group; this part of the labels has no effect"}},
		{name: "domain that is a string", kind: "Mapping", spec: `{"host":"a","labels":{"d":"g"}}`,
			want:     `{"labels":{"d":[{"v2Unrecognized":[{"v2Unrecognized":"g"}]}]},"hostname":"a"}`,
			warnings: []string{"spec.labels.d: expected a list of groups; this part of the labels has no effect"}},
		{name: "labels that are a list", kind: "Mapping", spec: `{"host":"a","labels":["x"]}`,
			want:     `{"labels":{"v2Unrecognized":[{"v2Unrecognized":[{"v2Unrecognized":["x"]}]}]},"hostname":"a"}`,
			warnings: []string{"spec.labels: expected an object of domains; this part of the labels has no effect"}},

		{name: "no object", kind: "Mapping", spec: `[]`, want: `[]`},
		{name: "nothing to do", kind: "ConsulResolver", spec: `{"address":"a","x":1}`, want: `{"address":"a","x":1}`},
	}
	for _, test := range tests {
		t.Run(test.kind+" "+test.name, func(t *testing.T) {
			var warnings []string
			got := v2.Convert(test.kind, jsontext.Value(test.spec), func(path, message, help string) {
				warnings = append(warnings, path+": "+message)
				if help == "" {
					t.Errorf("%s has no help", message)
				}
			})
			if diff := cmp.Diff(test.want, compact(t, got)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.warnings, warnings); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func compact(t *testing.T, v jsontext.Value) string {
	t.Helper()
	v = v.Clone()
	if err := v.Compact(); err != nil {
		t.Fatalf("%v: %s", err, v)
	}
	return string(v)
}

// FuzzConvert shows that conversion of any well-formed spec gives a well-formed spec, the same each time, and that a
// second conversion of the identifiers changes nothing.
func FuzzConvert(f *testing.F) {
	kinds := []string{"Mapping", "Host", "TracingService", "TCPMapping", "AuthService"}
	for i, spec := range []string{
		`{"host":"a","labels":{"d":[{"g":["x",{"a":{"header":"b"}}]}]},"tls":true,"service":"q","headers":{"x":true}}`,
		`{"ambassadorId":"x","tls":{"v3CRLSecret":"y"}}`, `{"tag_headers":["a"]}`, `{"tls":null,"service":"https://a"}`, `{"v3StatsName":1}`,
	} {
		f.Add(uint8(i), spec)
	}
	f.Fuzz(func(t *testing.T, kind uint8, spec string) {
		text, ok := jsonobject.AppendCanonical(nil, jsontext.Value(spec))
		if !ok {
			return
		}
		convert := func() jsontext.Value {
			return v2.Convert(kinds[int(kind)%len(kinds)], text, func(string, string, string) {})
		}
		got := convert()
		if !got.IsValid() {
			t.Fatalf("%s becomes %s", spec, got)
		}
		if again := convert(); string(got) != string(again) {
			t.Fatalf("%s becomes %s and %s", spec, got, again)
		}
	})
}
