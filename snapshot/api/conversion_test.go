package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/snapshot/api/internal/jsonobject"
)

func convert(t *testing.T, object jsontext.Value, version string) jsontext.Value {
	t.Helper()
	out, err := api.Convert(object, "getambassador.io/"+version)
	if err != nil {
		t.Fatalf("%s to %s: %v", object, version, err)
	}
	return out
}

// canonical returns the text by which two objects are equal.
func canonical(t *testing.T, object jsontext.Value) string {
	t.Helper()
	text, ok := jsonobject.AppendCanonical(nil, object)
	if !ok {
		t.Fatalf("no JSON: %s", object)
	}
	return string(text)
}

// roundTrips checks everything that conversion promises of one object. The dice say which ways are taken.
func roundTrips(t *testing.T, kind, version string, object jsontext.Value, d *dice) {
	t.Helper()
	want := canonical(t, object)
	for _, by := range convertible[kind] {
		there := convert(t, object, by)
		if again := convert(t, object, by); !bytes.Equal(there, again) {
			t.Fatalf("%s becomes %s and %s", object, there, again)
		}
		if got := canonical(t, convert(t, there, version)); got != want {
			t.Fatalf("by %s\nthere %s\ngot   %s\nwant  %s", by, there, got, want)
		}
		metadataStays(t, object, there)
	}
	// Any way that ends where it began, and with every version seen on the way always the same.
	seen, at := map[string]string{version: want}, object
	for range 6 {
		by := one(d, convertible[kind]...)
		at = convert(t, at, by)
		text := canonical(t, at)
		if before, known := seen[by]; known && before != text {
			t.Fatalf("version %s is\n%s\nand later\n%s\nof %s", by, before, text, want)
		}
		seen[by] = text
	}
	edited(t, kind, version, object)
}

// metadataStays checks that nothing but two annotations changed, which is all that the API server allows.
func metadataStays(t *testing.T, before, after jsontext.Value) {
	t.Helper()
	read := func(text jsontext.Value) map[string]any {
		var o struct {
			Kind     string         `json:"kind"`
			Metadata map[string]any `json:"metadata"`
			Status   any            `json:"status"`
		}
		if err := json.Unmarshal(text, &o); err != nil {
			t.Fatal(err)
		}
		annotations, _ := o.Metadata["annotations"].(map[string]any)
		delete(annotations, api.KeptV2)
		delete(annotations, api.KeptV3alpha1)
		if len(annotations) == 0 {
			delete(o.Metadata, "annotations")
		}
		return map[string]any{"kind": o.Kind, "metadata": o.Metadata, "status": o.Status}
	}
	a, err := json.Marshal(read(before))
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(read(after))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Fatalf("%s becomes %s", a, b)
	}
}

// edited checks that whoever changes one field in another version changes that field alone.
func edited(t *testing.T, kind, version string, object jsontext.Value) {
	t.Helper()
	set := func(object jsontext.Value) jsontext.Value {
		o, _ := jsonobject.Parse(object)
		spec, ok := jsonobject.Parse(o.Get("spec"))
		if !ok {
			return object
		}
		spec.Set("edited", jsontext.Value(`{"by":"hand"}`))
		o.Set("spec", spec.Encode())
		return o.Encode()
	}
	for _, by := range convertible[kind] {
		got := canonical(t, convert(t, set(convert(t, object, by)), version))
		if want := canonical(t, set(object)); got != want {
			t.Fatalf("edited in %s\ngot  %s\nwant %s", by, got, want)
		}
	}
}

func TestConversionLosesNothing(t *testing.T) {
	rounds := 100
	if testing.Short() {
		rounds = 30
	}
	for _, kind := range kindsInOrder() {
		for _, version := range convertible[kind] {
			t.Run(kind+" "+version, func(t *testing.T) {
				random := rand.New(rand.NewPCG(7, 7))
				text := make([]byte, 600)
				for range rounds {
					for i := range text {
						text[i] = byte(random.Uint32())
					}
					d := &dice{bytes: slices.Clone(text)}
					roundTrips(t, kind, version, d.specimen(kind, version), d)
				}
			})
		}
	}
}

func FuzzConversionLosesNothing(f *testing.F) {
	kinds := kindsInOrder()
	for i := range kinds {
		f.Add(uint8(i), uint8(i), []byte("0123456789012345678901234567890123456789"))
	}
	f.Fuzz(func(t *testing.T, k, v uint8, text []byte) {
		kind := kinds[int(k)%len(kinds)]
		version := convertible[kind][int(v)%len(convertible[kind])]
		d := &dice{bytes: text}
		roundTrips(t, kind, version, d.specimen(kind, version), d)
	})
}

// FuzzConversionOfAnySpec is the same for specs that no schema describes.
func FuzzConversionOfAnySpec(f *testing.F) {
	kinds := kindsInOrder()
	for i, spec := range []string{
		`{"labels":{"d":[{"g":["x",{"a":{"header":"b"}},{"generic_key":"","v3Key":1}],"h":{}},[]],"e":{}},"tls":true,"service":"q","headers":{"x":true}}`,
		`{"labels":[1],"host":{},"host_regex":"true","headers":["a"],"v2BoolHeaders":{"a":1},"cors":[{}]}`,
		`{"labels":{"d":[{"v2Unrecognized":[{"v2Unrecognized":{"a":1}}]},{"g":[{"request_headers":{"key":"generic_key","header_name":"h"}}]}]}}`,
		`{"ambassadorId":"x","ambassador_id":7,"tls":{"v3CRLSecret":"y","crl_secret":"z"},"selector":null,"mappingSelector":null}`,
		`{"tag_headers":["a"],"custom_tags":null,"v3CustomTags":[],"config":"x"}`,
		`{"v2ExplicitTLS":{"tls":"bool:true","serviceScheme":"http://"},"service":"HTTPS://a","tls":""}`, `[]`, `null`, `{"":""}`,
	} {
		f.Add(uint8(i), uint8(2), spec)
		f.Add(uint8(8), uint8(i), spec)
	}
	f.Fuzz(func(t *testing.T, k, v uint8, spec string) {
		text, ok := jsonobject.AppendCanonical(nil, jsontext.Value(spec))
		if !ok || !jsontext.Value(text).IsValid() {
			return
		}
		kind := kinds[int(k)%len(kinds)]
		version := convertible[kind][int(v)%len(convertible[kind])]
		object := `{"apiVersion":"getambassador.io/` + version + `","kind":"` + kind + `","metadata":{"name":"a"},"spec":` + string(text) + `}`
		if strings.Contains(spec, `"edited"`) {
			return // the name that the test itself uses
		}
		roundTrips(t, kind, version, jsontext.Value(object), &dice{bytes: []byte(spec)})
	})
}

// What is read in the other version: Emissary's rules.
func TestConversionToOlderVersions(t *testing.T) {
	for _, x := range []struct{ name, kind, spec, want string }{
		{"ids are marked", "Module", `{"ambassador_id":["a","b"]}`, `{"ambassador_id":["--apiVersion-v3alpha1-only--a","--apiVersion-v3alpha1-only--b"]}`},
		{"the default id", "ConsulResolver", `{"address":"c"}`, `{"address":"c","ambassador_id":["--apiVersion-v3alpha1-only--default"]}`},
		{"no ids", "Module", `{"ambassador_id":[]}`, `{"ambassador_id":[]}`},
		{"tls by name", "AuthService", `{"ambassador_id":[],"auth_service":"http://a","tls":"ctx"}`, `{"ambassador_id":[],"auth_service":"http://a","tls":"ctx"}`},
		{"tls true", "AuthService", `{"ambassador_id":[],"auth_service":"https://a","v2ExplicitTLS":{"tls":"bool:true","serviceScheme":"http://"}}`, `{"ambassador_id":[],"auth_service":"http://a","tls":true}`},
		{"tls true, but the service became clear text", "AuthService", `{"ambassador_id":[],"auth_service":"a","v2ExplicitTLS":{"tls":"bool:true","serviceScheme":""}}`, `{"ambassador_id":[],"auth_service":"a"}`},
		{"tls false", "RateLimitService", `{"ambassador_id":[],"service":"a","v2ExplicitTLS":{"tls":"bool:false"},"grpc":{}}`, `{"ambassador_id":[],"service":"a","tls":false,"v3GRPC":{}}`},
		{"scheme not to be believed", "RateLimitService", `{"ambassador_id":[],"service":"https://a","v2ExplicitTLS":{"serviceScheme":"http://"}}`, `{"ambassador_id":[],"service":"https://a"}`},
		{"TCPMapping by name", "TCPMapping", `{"ambassador_id":[],"port":1,"service":"https://a","tls":"ctx"}`, `{"ambassador_id":[],"port":1,"service":"a","tls":"ctx"}`},
		{"TCPMapping true", "TCPMapping", `{"ambassador_id":[],"service":"https://a","v2ExplicitTLS":{"tls":"bool:true"}}`, `{"ambassador_id":[],"service":"a","tls":true}`},
		{"TCPMapping by scheme", "TCPMapping", `{"ambassador_id":[],"service":"https://a"}`, `{"ambassador_id":[],"service":"https://a"}`},
		{"hostname", "Mapping", `{"ambassador_id":[],"hostname":"a","host":"b","host_regex":true,"service":"s"}`, `{"ambassador_id":[],"host":"a","host_regex":false,"service":"s"}`},
		{"every host", "Mapping", `{"ambassador_id":[],"hostname":"*","service":"s"}`, `{"ambassador_id":[],"service":"s"}`},
		{"no host", "Mapping", `{"ambassador_id":[],"service":"s"}`, `{"ambassador_id":[],"host":"_skip_mapping_with_empty_host_","service":"s"}`},
		{"regex", "Mapping", `{"ambassador_id":[],"host":"a.*","host_regex":true,"service":"s"}`, `{"ambassador_id":[],"host":"a.*","host_regex":true,"service":"s"}`},
		{"present headers", "Mapping", `{"ambassador_id":[],"hostname":"*","headers":{"c":"d"},"regex_headers":{"a":".*","b":"x+"},"v2BoolHeaders":["a","b","c"]}`,
			`{"ambassador_id":[],"headers":{"a":true,"b":true,"c":"d"},"regex_headers":{"b":"x+"}}`},
		{"present parameters", "Mapping", `{"ambassador_id":[],"hostname":"*","regex_query_parameters":{"a":".*"},"v2BoolQueryParameters":["a"]}`, `{"ambassador_id":[],"query_parameters":{"a":true}}`},
		{"origins", "Mapping", `{"ambassador_id":[],"hostname":"*","cors":{"origins":["a","b"],"v2CommaSeparatedOrigins":true}}`, `{"ambassador_id":[],"cors":{"origins":"a,b"}}`},
		{"added headers", "Mapping", `{"ambassador_id":[],"hostname":"*","add_request_headers":{"a":{"value":"1","v2Representation":"string"},"b":{"v2Representation":"null"},"c":{"value":"2","append":false,"v2Representation":"string"}}}`,
			`{"add_request_headers":{"a":"1","b":null,"c":{"append":false,"value":"2"}},"ambassador_id":[]}`},
		{"labels", "Mapping", `{"ambassador_id":[],"hostname":"*","labels":{"d":[{"g":[{"remote_address":{"key":"remote_address"}},{"request_headers":{"key":"k","header_name":"h","omit_if_not_present":true}},{"generic_key":{"value":"v","v2Shorthand":true}},{"generic_key":{"value":"v","key":"k"}}]}]}}`,
			`{"ambassador_id":[],"labels":{"d":[{"g":["remote_address",{"k":{"header":"h","omit_if_not_present":true}},"v",{"generic_key":"v","v3Key":"k"}]}]}}`},
		{"younger fields", "Mapping", `{"ambassador_id":[],"hostname":"*","stats_name":"s","health_checks":[{"health_check":{}}]}`, `{"ambassador_id":[],"v3StatsName":"s","v3health_checks":[{"health_check":{}}]}`},
		{"selector of a Host", "Host", `{"ambassador_id":[],"mappingSelector":{"matchLabels":{"a":"b"}},"selector":{},"tls":{"crl_secret":"c"}}`, `{"ambassador_id":[],"selector":{"matchLabels":{"a":"b"}},"tls":{"v3CRLSecret":"c"}}`},
		{"deprecated selector of a Host", "Host", `{"ambassador_id":[],"selector":{"matchLabels":{"a":"b"}}}`, `{"ambassador_id":[],"selector":{"matchLabels":{"a":"b"}}}`},
		{"tags", "TracingService", `{"ambassador_id":[],"tag_headers":["x"],"config":{"propagation_modes":["B3"]}}`, `{"ambassador_id":[],"config":{"v3PropagationModes":["B3"]},"v3CustomTags":[{"request_header":{"name":"x"},"tag":"x"}]}`},
	} {
		t.Run(x.name, func(t *testing.T) {
			object := jsontext.Value(`{"apiVersion":"getambassador.io/v3alpha1","kind":"` + x.kind + `","metadata":{"name":"a"},"spec":` + x.spec + `}`)
			o, _ := jsonobject.Parse(convert(t, object, "v2"))
			if got := canonical(t, o.Get("spec")); got != canonical(t, jsontext.Value(x.want)) {
				t.Errorf("got  %s\nwant %s", got, x.want)
			}
		})
	}
}

// What nobody changed needs no annotation, where the fields that Emissary has for it are enough.
func TestConversionKeepsOnlyWhatItMust(t *testing.T) {
	for _, x := range []struct{ spec, want string }{
		{`{"hostname":"a","prefix":"/","service":"https://a","tls":"","timeout_ms":1}`, `{"spec":{"service":"https://a","tls":""}}`},
		{`{"hostname":"a","prefix":"/","service":"a","stats_name":"s","labels":{"d":[{"g":[{"generic_key":{"value":"v"}}]}]}}`, ``},
		{`{"ambassador_id":["default"],"hostname":"a"}`, `{"spec":{"ambassador_id":["default"]}}`},
		{`{"hostname":"a","host":"b"}`, `{"spec":{"hostname":"a","host":"b"}}`},
	} {
		object := jsontext.Value(`{"apiVersion":"getambassador.io/v3alpha1","kind":"Mapping","metadata":{"name":"a"},"spec":` + x.spec + `}`)
		var got struct {
			Metadata struct {
				Annotations map[string]string `json:"annotations"`
			} `json:"metadata"`
		}
		if err := json.Unmarshal(convert(t, object, "v2"), &got); err != nil {
			t.Fatal(err)
		}
		if kept := got.Metadata.Annotations[api.KeptV3alpha1]; kept != x.want {
			t.Errorf("%s: kept %s, want %s", x.spec, kept, x.want)
		}
	}
}

// What was kept does not undo what somebody changed in the other version.
func TestAnEditOfWhatWasKeptCounts(t *testing.T) {
	for _, x := range []struct{ name, kind, version, spec, other, edit, want string }{
		{"host", "Mapping", "v2", `{"ambassador_id":"a","host":"*","prefix":"/","service":"s"}`, "v3alpha1", `{"hostname":"b"}`, `{"ambassador_id":"a","host":"b","prefix":"/","service":"s"}`},
		{"hostname", "Mapping", "v3alpha1", `{"hostname":"a","host":"b","prefix":"/","service":"s","tls":""}`, "v2", `{"host":"c"}`, `{"hostname":"c","prefix":"/","service":"s","tls":""}`},
		{"one label of two", "Mapping", "v2", `{"ambassador_id":[],"host":"a","labels":{"d":[{"g":[{"a":{"header":"x"},"b":{"header":"y"}}]}]}}`, "v3alpha1",
			`{"labels":{"d":[{"g":[{"request_headers":{"key":"a","header_name":"z"}}]}]}}`, `{"ambassador_id":[],"host":"a","labels":{"d":[{"g":[{"a":{"header":"z"}}]}]}}`},
		{"ids", "Module", "v2", `{"ambassador_id":"a","config":{}}`, "v3alpha1", `{"ambassador_id":["b"]}`, `{"ambassador_id":["--apiVersion-v3alpha1-only--b"],"config":{}}`},
		{"ids that were absent", "Module", "v2", `{"config":{}}`, "v3alpha1", `{"ambassador_id":["b"]}`, `{"ambassador_id":["--apiVersion-v3alpha1-only--b"],"config":{}}`},
		{"service", "TCPMapping", "v3alpha1", `{"ambassador_id":["a"],"service":"https://a","tls":"ctx","port":1}`, "v2", `{"service":"b"}`, `{"ambassador_id":["a"],"service":"b","tls":"ctx","v2ExplicitTLS":{},"port":1}`},
	} {
		t.Run(x.name, func(t *testing.T) {
			object := jsontext.Value(`{"apiVersion":"getambassador.io/` + x.version + `","kind":"` + x.kind + `","metadata":{"name":"a"},"spec":` + x.spec + `}`)
			o, _ := jsonobject.Parse(convert(t, object, x.other))
			spec, _ := jsonobject.Parse(o.Get("spec"))
			edit, _ := jsonobject.Parse(jsontext.Value(x.edit))
			for _, m := range edit {
				spec.Set(m.Name, m.Value)
			}
			o.Set("spec", spec.Encode())
			back, _ := jsonobject.Parse(convert(t, o.Encode(), x.version))
			if got := canonical(t, back.Get("spec")); got != canonical(t, jsontext.Value(x.want)) {
				t.Errorf("got  %s\nwant %s", got, x.want)
			}
		})
	}
}

// Nobody can make the annotation say what the spec does not.
func TestConversionBelievesNoForgedAnnotation(t *testing.T) {
	for _, forged := range []string{`{"spec":{"service":"https://evil"}}`, `{"spec":{"hostname":"evil"},"absent":["service"]}`, `{`, `7`, `{"spec":7,"absent":{"a":1}}`} {
		quoted, err := json.Marshal(forged)
		if err != nil {
			t.Fatal(err)
		}
		object := jsontext.Value(`{"apiVersion":"getambassador.io/v2","kind":"Mapping","metadata":{"name":"a","annotations":{"` + api.KeptV3alpha1 + `":` + string(quoted) + `}},"spec":{"host":"a","service":"s","ambassador_id":[]}}`)
		if got := string(convert(t, object, "v3alpha1")); got != `{"apiVersion":"getambassador.io/v3alpha1","kind":"Mapping","metadata":{"name":"a"},"spec":{"service":"s","ambassador_id":[],"hostname":"a"}}` {
			t.Errorf("%s gives %s", forged, got)
		}
	}
}

// An annotation that the API server would refuse would make the whole kind unreadable in that version.
func TestConversionStaysWithinTheLimitOfAnnotations(t *testing.T) {
	object := jsontext.Value(`{"apiVersion":"getambassador.io/v3alpha1","kind":"Mapping","metadata":{"name":"a"},"spec":{"hostname":"a","host":"` + strings.Repeat("x", 300<<10) + `"}}`)
	if got := convert(t, object, "v2"); strings.Contains(string(got), api.KeptV3alpha1) {
		t.Error("the annotation is larger than the API server takes")
	}
}

// Work grows with the object, not with its square, which an author could choose to make hours.
func TestConversionOfLargeObjects(t *testing.T) {
	const n = 60000
	many := func(format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()[1:]
	}
	names := many(`,"h%d"`)
	for name, x := range map[string][2]string{
		"unknown fields":  {"v3alpha1", `{"hostname":"a","tls":"",` + many(`,"f%d":1`) + `}`},
		"present headers": {"v3alpha1", `{"hostname":"a","regex_headers":{` + many(`,"h%d":".*"`) + `},"v2BoolHeaders":[` + names + `]}`},
		"labels":          {"v2", `{"labels":{"d":[{"g":[` + many(`,"label %d"`) + `]}]}}`},
		"ids":             {"v2", `{"ambassador_id":[` + names + `],"ambassadorId":[` + names + `]}`},
	} {
		t.Run(name, func(t *testing.T) {
			object := jsontext.Value(`{"apiVersion":"getambassador.io/` + x[0] + `","kind":"Mapping","metadata":{"name":"a"},"spec":` + x[1] + `}`)
			other := map[string]string{"v2": "v3alpha1", "v3alpha1": "v2"}[x[0]]
			convert(t, convert(t, object, other), x[0])
		})
	}
}

func TestConversionOfTheWrongObject(t *testing.T) {
	for _, x := range []struct{ object, version, want string }{
		{`[]`, "getambassador.io/v2", "the object is a list, not a JSON object"},
		{`{"kind":"Mapping"}`, "getambassador.io/v2", `"" is no version of the group getambassador.io`},
		{`{"apiVersion":"apps/v1","kind":"Deployment"}`, "getambassador.io/v2", `"apps/v1" is no version of the group getambassador.io`},
		{`{"apiVersion":"getambassador.io/v2","kind":"Gadget"}`, "getambassador.io/v1", `the group getambassador.io has no kind "Gadget"`},
		{`{"apiVersion":"getambassador.io/v9","kind":"Mapping"}`, "getambassador.io/v1", `Mapping has no version "v9", only v3alpha1, v2, v1`},
		{`{"apiVersion":"getambassador.io/v2","kind":"Host"}`, "getambassador.io/v1", `Host has no version "v1", only v3alpha1, v2`},
		{`{"apiVersion":"getambassador.io/v3alpha1","kind":"Listener"}`, "other.io/v2", `"other.io/v2" is no version of the group getambassador.io`},
	} {
		if _, err := api.Convert(jsontext.Value(x.object), x.version); err == nil || err.Error() != x.want {
			t.Errorf("%s gives %v, want %s", x.object, err, x.want)
		}
	}
}

func BenchmarkConvert(b *testing.B) {
	for _, x := range []struct{ name, object, version string }{
		{"v2 to v3alpha1", `{"apiVersion":"getambassador.io/v2","kind":"Mapping","metadata":{"name":"a","namespace":"b"},"spec":{"ambassador_id":"edge","prefix":"/shop/","service":"shop:8080","host":"shop.example.com","tls":true,"timeout_ms":3000,"headers":{"x-a":true},"cors":{"origins":"a,b"},"add_request_headers":{"x-b":"c"},"labels":{"ambassador":[{"l":["remote_address",{"h":{"header":"x-h"}}]}]}}}`, "getambassador.io/v3alpha1"},
		{"v3alpha1 to v2", `{"apiVersion":"getambassador.io/v3alpha1","kind":"Mapping","metadata":{"name":"a","namespace":"b"},"spec":{"prefix":"/shop/","service":"https://shop:8080","hostname":"shop.example.com","timeout_ms":3000,"regex_headers":{"x-a":".*"},"cors":{"origins":["a","b"]},"add_request_headers":{"x-b":{"value":"c"}},"labels":{"ambassador":[{"l":[{"remote_address":{"key":"remote_address"}}]}]}}}`, "getambassador.io/v2"},
	} {
		b.Run(x.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := api.Convert(jsontext.Value(x.object), x.version); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
