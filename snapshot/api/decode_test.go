package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
)

// decode decodes a document and fails the test when it has findings.
func decode(t *testing.T, doc string) *snapshot.Object {
	t.Helper()
	o, found := api.Decode([]byte(doc), snapshot.Source{}, nil)
	if o == nil || len(found) > 0 {
		t.Fatalf("%s: %v", doc, found)
	}
	return o
}

// lines writes findings as "severity code object path: message (help)".
func lines(found []snapshot.Diagnostic) []string {
	var out []string
	for _, d := range found {
		d.Position = snapshot.Position{}
		out = append(out, d.String())
	}
	return out
}

func TestDecodeObject(t *testing.T) {
	src := snapshot.Source{Position: snapshot.Position{File: "a.yaml", Line: 3}}
	o, found := api.Decode([]byte(samples["Mapping"]), src, nil)
	if len(found) > 0 {
		t.Fatal(found)
	}
	weight, retries, timeout := int64(20), int64(3), v3alpha1.Milliseconds(5000)
	want := &snapshot.Object{
		Ref:        snapshot.Ref{Group: "getambassador.io", Kind: "Mapping", Namespace: "shop", Name: "quote-backend-17"},
		APIVersion: "getambassador.io/v3alpha1",
		UID:        "6f9619ff-8b86-d011-b42d-00cf4fc964ff",
		Generation: 3,
		Created:    time.Date(2025, 3, 1, 10, 0, 0, 0, time.UTC),
		Labels:     map[string]string{"app": "quote", "team": "shop"},
		Spec: &v3alpha1.MappingSpec{
			Hostname:          "shop-17.example.com",
			Prefix:            "/backend-api/17/",
			Service:           "http://quote.shop:8080",
			Timeout:           &timeout,
			AddRequestHeaders: map[string]v3alpha1.AddedHeader{"x-shop": {Value: "17"}},
			RetryPolicy:       &v3alpha1.RetryPolicy{RetryOn: "5xx", NumRetries: &retries},
			Weight:            &weight,
			Labels: v3alpha1.DomainMap{"ambassador": {{"group": {{RequestHeaders: &v3alpha1.MappingLabelRequestHeaders{
				Key: "user", HeaderName: "x-user"}}}}}},
		},
		Source: src,
	}
	if diff := cmp.Diff(want, o, cmpopts.IgnoreFields(snapshot.Object{}, "Raw", "Hash")); diff != "" {
		t.Error(diff)
	}
	raw := `{"apiVersion":"getambassador.io/v3alpha1","kind":"Mapping","metadata":{"creationTimestamp":"2025-03-01T10:00:00Z","generation":3,` +
		`"labels":{"app":"quote","team":"shop"},"name":"quote-backend-17","namespace":"shop","uid":"6f9619ff-8b86-d011-b42d-00cf4fc964ff"},` +
		`"spec":{"add_request_headers":{"x-shop":{"value":"17"}},"hostname":"shop-17.example.com","labels":{"ambassador":[{"group":[{"request_headers":` +
		`{"header_name":"x-user","key":"user"}}]}]},"prefix":"/backend-api/17/","retry_policy":{"num_retries":3,"retry_on":"5xx"},` +
		`"service":"http://quote.shop:8080","timeout_ms":5000,"weight":20}}`
	if diff := cmp.Diff(raw, string(o.Raw)); diff != "" {
		t.Error(diff)
	}
}

// TestDecodeFaults holds one document for each way to be wrong.
func TestDecodeFaults(t *testing.T) {
	const head = `{"apiVersion":"getambassador.io/v3alpha1","kind":"Mapping","metadata":{"name":"m","namespace":"n"},"spec":`
	tests := []struct {
		name, doc string
		object    bool // whether there is one in spite of the findings
		want      []string
	}{
		{"empty", ``, false, []string{"error CH-API-001: not well-formed JSON at byte 0: unexpected EOF"}},
		{"cut off", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":{`, false,
			[]string{"error CH-API-001 Service/default/s spec: not well-formed JSON at byte 68: unexpected EOF"}},
		{"list", `[]`, false, []string{"error CH-API-001: expected an object, found a list (write one JSON object)"}},
		{"name twice", head + `{"prefix":"/","service":"a","service":"b"}}`, false,
			[]string{`error CH-API-001 Mapping/n/m spec.service: the name "service" is there twice (keep one of the two)`}},
		{"name twice in a list", head + `{"prefix":"/","service":"a","health_checks":[{},{"timeout":"1s","timeout":"1s"}]}}`, false,
			[]string{`error CH-API-001 Mapping/n/m spec.health_checks[1].timeout: the name "timeout" is there twice (keep one of the two)`}},
		{"invalid UTF-8", head + "{\"prefix\":\"\xff\",\"service\":\"a\"}}", false,
			[]string{"error CH-API-001 Mapping/n/m spec.prefix: not well-formed JSON at byte 117: invalid UTF-8"}},
		{"too deep", `{"kind":"X","apiVersion":"v1","metadata":{"name":"x"},"a":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`, false,
			[]string{"error CH-API-001 X/x: nested too deeply (nest at most 1,000 deep)"}},

		{"nothing", `{}`, false, []string{"error CH-API-002 apiVersion: apiVersion in body is required", "error CH-API-002 kind: kind in body is required"}},
		{"kind is a number", `{"apiVersion":"v1","kind":7,"metadata":{"name":"x"}}`, false, []string{"error CH-API-002 /x kind: expected a string, found a number"}},
		{"no name", `{"apiVersion":"getambassador.io/v3alpha1","kind":"Mapping","spec":{}}`, false,
			[]string{"error CH-API-002 Mapping/default/ metadata.name: metadata.name in body is required"}},
		{"name with a slash", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"a/b","namespace":"c d"}}`, false, []string{
			`error CH-API-002 Service/c d/a/b metadata.name: "a/b" is not a name (use lower-case letters, digits, '-' and '.')`,
			`error CH-API-002 Service/c d/a/b metadata.namespace: "c d" is not a name (use lower-case letters, digits, '-' and '.')`}},
		{"metadata is a list", `{"apiVersion":"v1","kind":"Service","metadata":[]}`, false,
			[]string{"error CH-API-004 Service/default/ metadata: expected an object, found a list"}},
		{"label is a number", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"s","labels":{"a.b/c":7},"creationTimestamp":"today","generation":"x"}}`, false, []string{
			`error CH-API-004 Service/default/s metadata.creationTimestamp: expected a time such as "2006-01-02T15:04:05Z", found a string: "today"`,
			`error CH-API-004 Service/default/s metadata.generation: expected an integer, found a string: "x"`,
			`error CH-API-004 Service/default/s metadata.labels["a.b/c"]: expected a string, found a number: 7 (put the value in quotes: "7")`}},

		{"unknown version", `{"apiVersion":"getambassador.io/v4","kind":"Mapping","metadata":{"name":"m"}}`, false,
			[]string{`error CH-API-003 Mapping/default/m apiVersion: Mapping has no version "v4" (use v3alpha1 or v2 or v1)`}},
		{"Host in v1", `{"apiVersion":"getambassador.io/v1","kind":"Host","metadata":{"name":"h"}}`, false,
			[]string{`error CH-API-003 Host/default/h apiVersion: Host has no version "v1" (use v3alpha1 or v2)`}},
		{"Listener in v2", `{"apiVersion":"getambassador.io/v2","kind":"Listener","metadata":{"name":"l"}}`, false,
			[]string{`error CH-API-003 Listener/default/l apiVersion: Listener has no version "v2" (use v3alpha1)`}},
		{"Service in v2", `{"apiVersion":"v2","kind":"Service","metadata":{"name":"s"}}`, false,
			[]string{`error CH-API-003 Service/default/s apiVersion: Service has no version "v2" (use v1)`}},

		{"number as text", head + `{"prefix":"/","service":"a","timeout_ms":"3000"}}`, false,
			[]string{`error CH-API-004 Mapping/n/m spec.timeout_ms: expected an integer, found a string: "3000" (write it without quotes: 3000)`}},
		{"fraction", head + `{"prefix":"/","service":"a","timeout_ms":1.5}}`, false,
			[]string{"error CH-API-004 Mapping/n/m spec.timeout_ms: expected an integer, found a number: 1.5"}},
		{"boolean as text", head + `{"prefix":"/","service":"a","grpc":"yes"}}`, false,
			[]string{`error CH-API-004 Mapping/n/m spec.grpc: expected true or false, found a string: "yes" (write true or false without quotes)`}},
		{"text as number", head + `{"prefix":"/","service":8080}}`, false,
			[]string{`error CH-API-004 Mapping/n/m spec.service: expected a string, found a number: 8080 (put the value in quotes: "8080")`}},
		{"list as text", head + `{"prefix":"/","service":"a","ambassador_id":"edge"}}`, false, // B091
			[]string{`error CH-API-004 Mapping/n/m spec.ambassador_id: expected a list of strings, found a string: "edge" (write it as a list: ["edge"])`}},
		{"item of a list", head + `{"prefix":"/","service":"a","cors":{"origins":["a",1]}}}`, false,
			[]string{`error CH-API-004 Mapping/n/m spec.cors.origins[1]: expected a string, found a number: 1 (put the value in quotes: "1")`}},
		{"duration", head + `{"prefix":"/","service":"a","health_checks":[{"timeout":3,"health_check":{"http":{"path":"/"}}}]}}`, false,
			[]string{`error CH-API-004 Mapping/n/m spec.health_checks[0].timeout: expected a duration such as "1m30s", found a number: 3`}},
		{"two wrong types and an unknown name", head + `{"prefix":[],"service":{},"x":1}}`, false, []string{
			"error CH-API-004 Mapping/n/m spec.prefix: expected a string, found a list",
			"error CH-API-004 Mapping/n/m spec.service: expected a string, found an object",
			`warning CH-API-005 Mapping/n/m spec.x: unknown field "x"; it has no effect`}},
		{"spec is a list", head + `[]}`, false, []string{"error CH-API-004 Mapping/n/m spec: expected an object, found a list"}},
		{"port out of range of its type", `{"apiVersion":"getambassador.io/v3alpha1","kind":"Listener","metadata":{"name":"l"},"spec":{"port":3000000000,"securityModel":"XFP","hostBinding":{}}}`, false,
			[]string{"error CH-API-004 Listener/default/l spec.port: expected an integer from -2147483648 to 2147483647, found a number: 3000000000"}},
		{"negative unsigned", `{"apiVersion":"getambassador.io/v3alpha1","kind":"Listener","metadata":{"name":"l"},"spec":{"port":1,"securityModel":"XFP","hostBinding":{},"http2MaxConcurrentStreams":-1}}`, false,
			[]string{"error CH-API-004 Listener/default/l spec.http2MaxConcurrentStreams: expected an integer from 0 to 4294967295, found a number: -1"}},

		{"misspelt", head + `{"prefx":"/","prefix":"/","service":"a","timeoutMs":1,"zzz":1,"retry_policy":{"retryOn":"5xx"}}}`, true, []string{
			`warning CH-API-005 Mapping/n/m spec.prefx: unknown field "prefx"; it has no effect (did you mean "prefix"?)`,
			`warning CH-API-005 Mapping/n/m spec.retry_policy.retryOn: unknown field "retryOn"; it has no effect (did you mean "retry_on"?)`,
			`warning CH-API-005 Mapping/n/m spec.timeoutMs: unknown field "timeoutMs"; it has no effect (did you mean "timeout_ms"?)`,
			`warning CH-API-005 Mapping/n/m spec.zzz: unknown field "zzz"; it has no effect`}},
		{"beside spec", `{"apiVersion":"getambassador.io/v3alpha1","kind":"Mapping","metadata":{"name":"m"},"prefix":"/","Spec":{},"spec":{"prefix":"/","service":"a"}}`, true, []string{
			`warning CH-API-005 Mapping/default/m Spec: unknown field "Spec"; it has no effect (did you mean "spec"?)`,
			`warning CH-API-005 Mapping/default/m prefix: unknown field "prefix"; it has no effect (did you mean "spec.prefix"?)`}},

		{"required", head + `{"hostname":"a"}}`, false, []string{
			"error CH-API-006 Mapping/n/m spec.prefix: spec.prefix in body is required",
			"error CH-API-006 Mapping/n/m spec.service: spec.service in body is required"}},
		{"no spec", `{"apiVersion":"getambassador.io/v3alpha1","kind":"TCPMapping","metadata":{"name":"m"}}`, false, []string{
			"error CH-API-006 TCPMapping/default/m spec.port: spec.port in body is required",
			"error CH-API-006 TCPMapping/default/m spec.service: spec.service in body is required"}},
		{"old label", `{"apiVersion":"getambassador.io/v2","kind":"Mapping","metadata":{"name":"old","namespace":"app"},"spec":{"prefix":"/old/","service":"quote","labels":` + // B089
			`{"ambassador":[{"header_request_label":{"host":{"header":":authority","omit_if_not_present":true}}}]}}}`, true, []string{
			`warning CH-API-007 Mapping/app/old spec.labels.ambassador[0].header_request_label: expected a list of labels; this part of the labels has no effect ` +
				`(write a label as "name", {"key": {"header": "x-name"}} or {"generic_key": "value"})`}},

		{"service port", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":{"ports":[{"port":"http"},{"port":1,"targetPort":[]}]}}`, false, []string{
			`error CH-API-004 Service/default/s spec.ports[0].port: expected an integer, found a string: "http"`,
			"error CH-API-004 Service/default/s spec.ports[1].targetPort: expected an integer or a string, found a list"}},
		{"secret value", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"tls.key":"hush!","a":"YQ=="},"stringData":{"pin":1234}}`, false, []string{
			"error CH-API-004 Secret/default/s stringData.pin: expected a string, found a number",
			`error CH-API-008 Secret/default/s data["tls.key"]: the value is not base64 (encode it, or write it as it is under stringData)`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			src := snapshot.Source{Position: snapshot.Position{File: "in.yaml", Line: 7}}
			o, found := api.Decode([]byte(test.doc), src, nil)
			if (o != nil) != test.object {
				t.Errorf("object is %v", o)
			}
			if diff := cmp.Diff(test.want, lines(found)); diff != "" {
				t.Error(diff)
			}
			for _, d := range found {
				if d.Position != src.Position {
					t.Errorf("%v is at %v", d, d.Position)
				}
			}
		})
	}
}

// TestDecodeUnknownFieldsAreDropped shows that a name that means nothing reaches no policy.
func TestDecodeUnknownFieldsAreDropped(t *testing.T) {
	doc := `{"apiVersion":"getambassador.io/v3alpha1","kind":"Mapping","metadata":{"name":"m"},"spec":{"prefix":"/","service":"a","cors":{"origins":["b"],"c":1},"x":{"y":[1]}}}`
	o, found := api.Decode([]byte(doc), snapshot.Source{}, nil)
	if len(found) != 2 || strings.Contains(string(o.Raw), `"x"`) || strings.Contains(string(o.Raw), `"c"`) {
		t.Errorf("%v, %s", found, o.Raw)
	}
	clean := decode(t, `{"apiVersion":"getambassador.io/v3alpha1","kind":"Mapping","metadata":{"name":"m"},"spec":{"prefix":"/","service":"a","cors":{"origins":["b"]}}}`)
	if o.Hash != clean.Hash {
		t.Error("hash differs from that of the object without them")
	}
}

// TestDecodeBounds shows that a text with very many faults is read in bounded time and gives a bounded answer.
func TestDecodeBounds(t *testing.T) {
	many := func(format string) string {
		var b strings.Builder
		for i := range 50_000 {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	const head = `{"apiVersion":"getambassador.io/v2","kind":"Mapping","name":"m","spec":{"prefix":"/","service":"s",`
	parent := &snapshot.Object{Ref: snapshot.Ref{Kind: "Service", Namespace: "n", Name: "s"}}
	for name, test := range map[string]struct {
		doc  string
		last snapshot.Severity
	}{
		"unknown fields":  {head + many(`"field_%d":1`) + "}}", snapshot.Warning},
		"flat fields":     {`{"apiVersion":"getambassador.io/v2","kind":"Mapping","name":"m","prefix":"/","service":"s",` + many(`"field_%d":1`) + "}", snapshot.Warning},
		"wrong types":     {head + `"headers":{` + many(`"x-%d":1`) + "}}}", snapshot.Error},
		"broken rules":    {head + `"circuit_breakers":[` + many(`{"priority":"p%d"}`) + "]}}", snapshot.Error},
		"labels":          {head + `"labels":{"d":[` + many(`"l%d"`) + "]}}}", snapshot.Warning},
		"boolean headers": {head + `"zzz":[],"headers":{` + many(`"x-%d":true`) + `},"regex_headers":{` + many(`"y-%d":7`) + "}}}", snapshot.Error},
	} {
		o, found := api.Decode([]byte(test.doc), snapshot.Source{}, parent)
		if len(found) != 101 || found[100].Code.ID != "CH-API-010" || found[100].Severity != test.last || (o == nil) != (test.last == snapshot.Error) {
			t.Errorf("%s: %d findings, the last %v", name, len(found), found[len(found)-1])
		}
	}
}

func TestDecodeAnnotation(t *testing.T) {
	parent := decode(t, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"quote","namespace":"shop","labels":{"app":"quote"}},"spec":{}}`)
	parent.Source.Position = snapshot.Position{File: "svc.yaml", Line: 1}
	tests := []struct{ name, doc, ref, labels string }{
		{"flat", `{"apiVersion":"ambassador/v1","kind":"Mapping","name":"m","prefix":"/","service":"quote"}`, "Mapping/shop/m", "quote"},
		{"flat, own place", `{"apiVersion":"getambassador.io/v3alpha1","kind":"Mapping","name":"m","namespace":"other","metadata_labels":{"app":"x"},"prefix":"/","service":"quote"}`, "Mapping/other/m", "x"},
		{"nested", `{"apiVersion":"getambassador.io/v2","kind":"Mapping","metadata":{"name":"m"},"spec":{"prefix":"/","service":"quote"}}`, "Mapping/shop/m", "quote"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o, found := api.Decode([]byte(test.doc), snapshot.Source{}, parent)
			if o == nil || len(found) > 0 {
				t.Fatal(found)
			}
			spec := o.Spec.(*v3alpha1.MappingSpec)
			if o.Ref.String() != test.ref || o.Labels["app"] != test.labels || spec.Prefix != "/" || spec.Service != "quote" || o.Parent != parent {
				t.Errorf("got %v %v %+v", o.Ref, o.Labels, spec)
			}
		})
	}
	_, found := api.Decode([]byte(`{"apiVersion":"ambassador/v1","kind":"Mapping","name":"m","prefix":"/"}`), snapshot.Source{}, parent)
	want := []string{"svc.yaml:1: error CH-API-006 Mapping/shop/m spec.service: spec.service in body is required"}
	if len(found) != 1 || found[0].String() != want[0] {
		t.Errorf("got %v, want %v", found, want)
	}
}
