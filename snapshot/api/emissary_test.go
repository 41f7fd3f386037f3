package api_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
)

func document(version, kind, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"getambassador.io/%s","kind":%q,"metadata":{"name":"x","namespace":"n"},"spec":%s}`, version, kind, spec)
}

// TestDecodeVersions shows that one object in several versions and spellings is one object.
func TestDecodeVersions(t *testing.T) {
	tests := []struct {
		name, kind string
		specs      map[string][]string // by version
	}{
		{"ambassador_id", "Mapping", map[string][]string{ // B088, B091
			"v1":       {`{"prefix":"/","service":"s","ambassador_id":"edge"}`},
			"v2":       {`{"prefix":"/","service":"s","ambassador_id":"edge"}`, `{"prefix":"/","service":"s","ambassador_id":["--apiVersion-v3alpha1-only--edge"]}`},
			"v3alpha1": {`{"prefix":"/","service":"s","ambassador_id":["edge"],"hostname":"*"}`, `{"prefix":"/","service":"s","hostname":"*","ambassador_id":["--apiVersion-v3alpha1-only--edge"]}`, `{"prefix":"/","service":"s","hostname":"*","ambassadorId":["edge"]}`},
		}},
		{"Host tls", "Host", map[string][]string{
			"v2":       {`{"hostname":"a","tls":{"minTlsVersion":"v1.2","v3CRLSecret":"c"},"selector":{"matchLabels":{"a":"b"}}}`},
			"v3alpha1": {`{"hostname":"a","tls":{"min_tls_version":"v1.2","crl_secret":"c"},"mappingSelector":{"matchLabels":{"a":"b"}}}`, `{"hostname":"a","tls":{"minTlsVersion":"v1.2","crlSecret":"c"},"mappingSelector":{"matchLabels":{"a":"b"}}}`},
		}},
		{"TracingService", "TracingService", map[string][]string{
			"v1":       {`{"driver":"zipkin","service":"z","tag_headers":["x-a"]}`},
			"v2":       {`{"driver":"zipkin","service":"z","v3CustomTags":[{"tag":"x-a","request_header":{"name":"x-a"}}]}`},
			"v3alpha1": {`{"driver":"zipkin","service":"z","custom_tags":[{"tag":"x-a","request_header":{"name":"x-a"}}]}`},
		}},
		{"LogService", "LogService", map[string][]string{
			"v2":       {`{"driver":"http","service":"l","v3ProtocolVersion":"v3"}`},
			"v3alpha1": {`{"driver":"http","service":"l","protocol_version":"v3"}`},
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			want := decode(t, document("v3alpha1", test.kind, test.specs["v3alpha1"][0]))
			for version, specs := range test.specs {
				for _, spec := range specs {
					o := decode(t, document(version, test.kind, spec))
					if o.APIVersion != "getambassador.io/"+version {
						t.Errorf("APIVersion is %s", o.APIVersion)
					}
					if diff := cmp.Diff(string(want.Raw), string(o.Raw)); diff != "" || o.Hash != want.Hash {
						t.Errorf("%s %s: %s", version, spec, diff)
					}
					if diff := cmp.Diff(want.Spec, o.Spec); diff != "" {
						t.Errorf("%s %s: %s", version, spec, diff)
					}
				}
			}
		})
	}
}

// TestDecodeV2Labels shows that no label, whatever its shape, keeps a Mapping out (B089).
func TestDecodeV2Labels(t *testing.T) {
	for _, labels := range []string{`null`, `7`, `"x"`, `[]`, `{}`, `{"d":null}`, `{"d":[]}`, `{"d":[null]}`, `{"d":[{}]}`, `{"d":[{"g":null}]}`, `{"d":[{"g":[]}]}`,
		`{"d":[{"g":[null]}]}`, `{"d":[{"g":[[]]}]}`, `{"d":[{"g":[{"":{"header":"x"}}]}]}`, `{"d":[{"g":{"host":{"header":":authority"}}}]}`, `{"d":[{"g":[""]}]}`,
		`{"d":[{"g":[{"generic_key":""}]}]}`, `{"d":[{"g":[{"a":{"header":"x","omit_if_not_present":"y"}}]}]}`, `{"d":{"g":["x"]}}`, `{"":[{"":["x"]}]}`} {
		o, found := api.Decode([]byte(document("v2", "Mapping", `{"prefix":"/","service":"s","labels":`+labels+`}`)), snapshot.Source{}, nil)
		if o == nil {
			t.Errorf("%s: %v", labels, found)
		}
	}
}

func TestDecodeModule(t *testing.T) {
	o := decode(t, document("v3alpha1", "Module", `{"config":{"a":1,"b":[true,null],"c":{"d":"e"}}}`))
	want := map[string]any{"a": 1.0, "b": []any{true, nil}, "c": map[string]any{"d": "e"}}
	if diff := cmp.Diff(want, o.Spec.(*v3alpha1.ModuleSpec).Config); diff != "" {
		t.Error(diff)
	}
}

// TestDecodeMutations changes parts of proper documents by chance and shows that nothing panics, that an object and an
// error exclude each other, that the same text gives the same findings, and that Raw decodes to the same object.
func TestDecodeMutations(t *testing.T) {
	seeds := []string{
		samples["Mapping"], samples["Service"], samples["EndpointSlice"], samples["MappingV2"],
		document("v2", "Host", `{"hostname":"a","ambassadorId":"x","selector":{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"a","operator":"Exists"}]},"tls":{"minTlsVersion":"v1.2"},"requestPolicy":{"insecure":{"action":"Route"}}}`),
		document("v3alpha1", "Listener", `{"port":8443,"protocol":"HTTPS","protocolStack":["TLS","TCP"],"securityModel":"XFP","hostBinding":{"namespace":{"from":"ALL"},"selector":{"matchLabels":{"a":"b"}}}}`),
		document("v2", "Mapping", `{"prefix":"/","service":"s","labels":{"d":[{"g":["x",{"a":{"header":"b"}},{"generic_key":"c"}]}]},"cors":{"origins":"a,b","methods":"GET"},"v3health_checks":[{"timeout":"1s","health_check":{"http":{"path":"/","expected_statuses":[{"min":200,"max":299}]}}}],"query_parameters":{"q":true}}`),
		document("v2", "TracingService", `{"driver":"zipkin","service":"z","tag_headers":["a"],"config":{"v3PropagationModes":["B3"],"trace_id_128bit":true},"sampling":{"random":5}}`),
		document("v3alpha1", "AuthService", `{"auth_service":"a","include_body":{"max_bytes":1,"allow_partial":true},"status_on_error":{"code":500},"circuit_breakers":[{"priority":"high"}]}`),
	}
	rounds := 4000
	if testing.Short() {
		rounds = 400
	}
	chance := rand.New(rand.NewPCG(1, 2))
	for range rounds {
		var tree any
		if err := json.Unmarshal([]byte(seeds[chance.IntN(len(seeds))]), &tree); err != nil {
			t.Fatal(err)
		}
		for range 1 + chance.IntN(3) {
			tree = mutate(chance, tree)
		}
		doc, err := json.Marshal(tree, json.Deterministic(true))
		if err != nil {
			t.Fatal(err)
		}
		o, found := api.Decode(doc, snapshot.Source{}, nil)
		failed := slices.ContainsFunc(found, func(d snapshot.Diagnostic) bool { return d.Severity == snapshot.Error })
		if failed == (o != nil) {
			t.Fatalf("%s: object %v, findings %v", doc, o, found)
		}
		indented := jsontext.Value(doc).Clone()
		if err := indented.Indent(); err != nil {
			t.Fatal(err)
		}
		again, same := api.Decode(indented, snapshot.Source{}, nil)
		if diff := cmp.Diff(found, same); diff != "" && doc[0] == '{' {
			t.Fatalf("%s: findings differ: %s", doc, diff)
		}
		if o == nil || o.Raw == nil {
			continue
		}
		if again.Hash != o.Hash {
			t.Fatalf("%s: white space changes the hash", doc)
		}
		if back, found := api.Decode(o.Raw, snapshot.Source{}, nil); back == nil || back.Hash != o.Hash {
			t.Fatalf("%s: Raw decodes to %v, %v", o.Raw, back, found)
		}
	}
}

// mutate returns the value with one part changed, renamed or removed.
func mutate(chance *rand.Rand, v any) any {
	odd := []any{nil, true, false, "", "x", "true", 0.0, -1.5, 1e300, []any{}, []any{"x", 1.0}, map[string]any{}, map[string]any{"x": "y"}}
	switch v := v.(type) {
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		if len(names) == 0 || chance.IntN(20) == 0 {
			break
		}
		slices.Sort(names)
		name := names[chance.IntN(len(names))]
		switch chance.IntN(10) {
		case 0:
			delete(v, name)
		case 1:
			v[name+"s"] = v[name]
			delete(v, name)
		default:
			v[name] = mutate(chance, v[name])
		}
		return v
	case []any:
		if len(v) == 0 || chance.IntN(10) == 0 {
			break
		}
		i := chance.IntN(len(v))
		v[i] = mutate(chance, v[i])
		return v
	}
	return odd[chance.IntN(len(odd))]
}
