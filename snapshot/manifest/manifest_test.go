package manifest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/chancery-gateway/chancery/snapshot"
)

// show renders documents as "line JSON" or "line !CODE@line message".
func show(docs []Document) string {
	var b strings.Builder
	for _, d := range docs {
		if d.Err != nil {
			fmt.Fprintf(&b, "%d !%s@%d\n", d.Position.Line, d.Err.Code.ID, d.Err.Position.Line)
		} else {
			fmt.Fprintf(&b, "%d %s\n", d.Position.Line, d.JSON)
		}
	}
	return b.String()
}

func TestDocuments(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", ""},
		{"empty documents", "---\n---\n# comment\n---\n\n...\n---\n~\n--- # c\n", ""},
		{"several", "a: 1\n---\n# c\n\nb: 2\n--- # c\nc: 3\n...\n---\nd: 4", "1 {\"a\":1}\n5 {\"b\":2}\n7 {\"c\":3}\n10 {\"d\":4}\n"},
		{"byte order mark and CRLF", "\ufeffa: 1\r\n---\r\nb:\r\n- x\r\n", "1 {\"a\":1}\n3 {\"b\":[\"x\"]}\n"},
		{"directives", "%YAML 1.2\n---\na: 1\n", "3 {\"a\":1}\n"},
		{"content behind the marker", "--- {a: 1}\n--- {b: 2}\n", "1 {\"a\":1}\n2 {\"b\":2}\n"},
		{"marker in a block scalar", "a: |\n  x\n  ---\n  y\n---\nb: 2\n", "1 {\"a\":\"x\\n---\\ny\\n\"}\n6 {\"b\":2}\n"},
		{"a broken one between sound ones", "a: 1\n---\nb: c: d\n---\ne: 2\n", "1 {\"a\":1}\n3 !CH-FILE-001@3\n5 {\"e\":2}\n"},
		{"list", "kind: List\nitems:\n- a: 1\n  b: 2\n# c\n- c: 3\n", "3 {\"a\":1,\"b\":2}\n6 {\"c\":3}\n"},
		{"list with block scalars", "kind: MappingList\nitems:\n- a: |\n    x\n- c: 3\n", "3 {\"a\":\"x\\n\"}\n5 {\"c\":3}\n"},
		{"empty list", "kind: List\nitems: []\n", ""},
		{"null list", "kind: List\nitems:\n---\nkind: List\nitems: ~\n---\n{\"kind\": \"List\", \"items\": null}\n", ""},
		{"no list", "kind: Mapping\nitems:\n- a: 1\n", "1 {\"kind\":\"Mapping\",\"items\":[{\"a\":1}]}\n"},
		{"anchors and merge", "a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  c: 3\n", "1 {\"a\":{\"b\":1,\"c\":2},\"d\":{\"c\":3,\"b\":1}}\n"},
		{"several merges", "x: &x {a: 1}\ny: &y {a: 2, b: 2}\nz: {<<: [*x, *y]}\n", "1 {\"x\":{\"a\":1},\"y\":{\"a\":2,\"b\":2},\"z\":{\"a\":1,\"b\":2}}\n"},
		{"tags", "a: !!str 1\nb: !!int \"2\"\nc: !!float 1\nd: !!binary aGk=\ne: !!bool \"true\"\nf: !!null \"\"\n", "1 {\"a\":\"1\",\"b\":2,\"c\":1,\"d\":\"hi\",\"e\":true,\"f\":null}\n"},
		{"a value that is not what its tag says", "a: 1\nb: !!int x\n", "1 !CH-FILE-001@2\n"},
		{"JSON", " {\"a\": [1, {\"b\": null}]}\n", "1  {\"a\": [1, {\"b\": null}]}\n"},
		{"JSON values", "{\"a\":1}{\"b\":2}\n\n{\n\"c\":3}\n", "1 {\"a\":1}\n1 {\"b\":2}\n3 {\n\"c\":3}\n"},
		{"JSON between markers", "{\"a\":1}\n---\n{\"b\":2}\n", "1 {\"a\":1}\n3 {\"b\":2}\n"},
		{"JSON list", "{\"kind\":\"List\",\n\"items\":[{\"a\":1},\n{\"b\":2}]}", "2 {\"a\":1}\n3 {\"b\":2}\n"},
		{"YAML in flow style", "{a: 1, b: [x, y]}\n", "1 {\"a\":1,\"b\":[\"x\",\"y\"]}\n"},
		{"JSON with a comment is YAML", "{\"a\": 1} # c\n", "1 {\"a\":1}\n"},
		{"not UTF-8", "a: 1\n---\nb: \xff\n---\nc: 3\n", "1 {\"a\":1}\n3 !CH-FILE-003@3\n5 {\"c\":3}\n"},
		{"surrogate escape", "a: \"\\ud800\"\n", "1 !CH-FILE-001@1\n"},
		{"Emissary's snapshot", "{\"Kubernetes\":{\"Mapping\":[{\"metadata\":{\"name\":\"a\"}},\n{\"kind\":\"Mapping\",\"apiVersion\":\"x/v1\"}],\"service\":null,\"annotations\":{\"x\":[{}]},\"ConfigMaps\":[{}]},\n\"Invalid\":[{\"kind\":\"Host\"}],\"Deltas\":[{}]}",
			"1 {\"apiVersion\":\"getambassador.io/v3alpha1\",\"kind\":\"Mapping\",\"metadata\":{\"name\":\"a\"}}\n2 {\"kind\":\"Mapping\",\"apiVersion\":\"x/v1\"}\n3 {\"kind\":\"Host\"}\n"},
	} {
		if got := show(Documents("f", []byte(c.text))); got != strings.ReplaceAll(c.want, "1  {", "1 {") {
			t.Errorf("%s:\ngot\n%swant\n%s", c.name, got, c.want)
		}
	}
}

// TestScalars checks that each plain scalar means what go.yaml.in/yaml/v3 decodes it to.
func TestScalars(t *testing.T) {
	for _, in := range []string{"0", "-0", "+1", "12", "-12", "0123", "08", "0o17", "-0o17", "0x1F", "-0x1f", "0b101", "-0b11", "1_000", "_1", "1__0", "1.0", "1.", ".5", "-.5", "+.5",
		"1e3", "1e-7", "1e21", "1e400", "1.5e300", "123456789012345678901", "18446744073709551615", "-9223372036854775808", "9223372036854775808", "1:30", "1-2", "1,2", "0x", "0b2", "0o9",
		"yes", "No", "on", "OFF", "y", "n", "true", "True", "TRUE", "tRue", "false", "null", "Null", "~", "nil", "-", "--", "-x", ".", "..", "...x", ".x", "+", "+x", "1.2.3", "1e", "e1", "0.0", "-0.0",
		"2001-12-14", "2001-12-14T21:59:43Z", "2001-12-14 21:59:43", "2001-13-14", "0x1p-2", "1_000.5", "0_7", "00", "1_", "0xG", "Infinity", "inf", "nan"} {
		var want any
		if err := yaml.Unmarshal([]byte("["+in+"]"), &want); err != nil || strings.Contains(in, ",") {
			continue
		}
		value := want.([]any)[0]
		if _, isTime := value.(interface{ UnixNano() int64 }); isTime {
			value = in
		}
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		got, _, ok := resolve(nil, in)
		if !ok || string(got) != string(text) {
			t.Errorf("%s: got %s, want %s", in, got, text)
		}
	}
	for _, in := range []string{".inf", "-.inf", "+.Inf", ".NaN"} {
		if _, _, ok := resolve(nil, in); ok {
			t.Errorf("%s has a JSON form", in)
		}
	}
}

func TestLocate(t *testing.T) {
	const text = `apiVersion: getambassador.io/v3alpha1
kind: Mapping
metadata:
  name: x
  annotations:
    a.b/c.d: e
spec:
  cors:
    origins:
    - a
    - b
  headers:
    x-foo: 1
    x.y: {z: 2}
`
	for _, c := range []struct {
		path string
		want int
	}{
		{"", 0}, {"kind", 1}, {"spec", 6}, {"spec.cors.origins[1]", 10}, {"spec.cors.origins[7]", 8}, {"spec.headers.x-foo", 12}, {"spec.headers.x.y.z", 13},
		{"spec.headers.none", 11}, {"spec.prefix", 6}, {"nothing.at.all", 0}, {"metadata.annotations.a.b/c.d", 5}, {`metadata.annotations["a.b/c.d"]`, 5}, {"spec.cors[x", 7}, {"[", 0}, {"..", 0},
	} {
		if got := Locate([]byte(text), c.path); got != c.want {
			t.Errorf("%q: line %d, want %d", c.path, got, c.want)
		}
	}
	for _, c := range []struct {
		text, path string
		want       int
	}{
		{"- a: 1\n  spec:\n    b: 2\n", "spec.b", 2}, {"kind: Mapping\nprefix: /\n", "spec.prefix", 1}, {"{\"a\":\n{\"b\":\n1}}", "a.b", 1}, {": :", "a", 0}, {"", "a", 0},
		{"a: &x\n  b: 1\nc: *x\n", "c.b", 1}, {"a: &a\n  b: *a\n", "a.b.b.b.b", 1},
	} {
		if got := Locate([]byte(c.text), c.path); got != c.want {
			t.Errorf("%q of %q: line %d, want %d", c.path, c.text, got, c.want)
		}
	}
}

func TestAnnotations(t *testing.T) {
	const text = `apiVersion: v1
kind: Service
metadata:
  name: web
  namespace: shop
  annotations:
    getambassador.io/config: |
      ---
      apiVersion: ambassador/v1
      kind: Mapping
      name: one
      prefix: /
      ---
      apiVersion: getambassador.io/v3alpha1
      kind: Mapping
      name: two
      namespace: other
      metadata_labels: {a: b}
      hostname: "*"
      ---
      a: b: c
`
	parent := &snapshot.Object{Ref: snapshot.Ref{Kind: "Service", Namespace: "shop", Name: "web"}, Labels: map[string]string{"z": "1", "y": "2"},
		Source: snapshot.Source{Position: snapshot.Position{File: "f", Line: 101}, Text: []byte(text)}}
	var doc struct {
		Metadata struct{ Annotations map[string]string }
	}
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	parent.Annotations = doc.Metadata.Annotations
	want := `109 {"apiVersion":"getambassador.io/v1","kind":"Mapping","metadata":{"name":"one","namespace":"shop","labels":{"y":"2","z":"1"}},"spec":{"prefix":"/"}}
114 {"apiVersion":"getambassador.io/v3alpha1","kind":"Mapping","metadata":{"name":"two","namespace":"other","labels":{"a":"b"}},"spec":{"hostname":"*"}}
121 !CH-FILE-001@121
`
	docs := Annotations(parent)
	if got := show(docs); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	d := snapshot.Diagnostic{Path: "spec.hostname"}
	Resolve(snapshot.Source{Position: docs[1].Position, Text: docs[1].Text}, &d)
	if d.Position.Line != 119 {
		t.Errorf("a field of an object in an annotation is on line %d, want 119", d.Position.Line)
	}
	parent.Source = snapshot.Source{}
	if got := Annotations(parent); len(got) != 3 || got[0].Position != (snapshot.Position{}) {
		t.Errorf("without a source: %s", show(got))
	}
	parent.Annotations = map[string]string{Annotation: `{"apiVersion":"getambassador.io/v2","kind":"Mapping","metadata":{"name":"x"},"spec":{"prefix":"/"}}`}
	parent.Kind = "Ingress"
	if got, want := show(Annotations(parent)), `0 {"apiVersion":"getambassador.io/v2","kind":"Mapping","spec":{"prefix":"/"},"metadata":{"name":"x","namespace":"shop","labels":{"y":"2","z":"1"}}}`+"\n"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	parent.Kind = "Deployment"
	if got := Annotations(parent); got != nil {
		t.Errorf("a Deployment carries %s", show(got))
	}
}

// TestDepth checks that the three readers allow the same depth.
func TestDepth(t *testing.T) {
	for _, levels := range []int{MaxDepth, MaxDepth + 1} {
		for name, text := range map[string]string{
			"block": "a:\n" + strings.Repeat("- ", levels-1) + "x\n",
			"flow":  "a: " + strings.Repeat("[", levels-1) + "x" + strings.Repeat("]", levels-1) + "\n",
			"JSON":  `{"a":` + strings.Repeat("[", levels-1) + "1" + strings.Repeat("]", levels-1) + "}",
		} {
			docs := Documents("f", []byte(text))
			if deep := docs[0].Err != nil && docs[0].Err.Code == TooDeep; deep != (levels > MaxDepth) {
				t.Errorf("%s of %d levels: %s", name, levels, show(docs))
			}
		}
	}
}

// TestBrokenYAMLIsExplained: the parser's words alone help nobody.
func TestBrokenYAMLIsExplained(t *testing.T) {
	for text, want := range map[string]string{
		"a: [\n":              "a value is missing, or a bracket is not closed",
		"a: 1\n\tb: 2\n":      "YAML is indented with spaces",
		"\ta: 1\n":            "YAML is indented with spaces",
		"a: {b: 1\nc: 2\n":    "a bracket is not closed, or a comma is missing",
		"a:\n  b: 1\n c: 2\n": "check the indentation and the quotes of this line and the one before",
		"a: b: c\n":           "a value with ': ' in it needs quotes; else the indentation is wrong",
	} {
		docs := Documents("f", []byte(text))
		if len(docs) != 1 || docs[0].Err == nil || docs[0].Err.Help != want {
			t.Errorf("%q: %s%+v, want help %q", text, show(docs), docs, want)
		}
	}
}

func TestFailuresAreBounded(t *testing.T) {
	docs := Documents("f", []byte(strings.Repeat("---\na: b: c\n", 5000)))
	if last := docs[len(docs)-1]; len(docs) != maxFailures+1 || last.Err == nil || last.Err.Code != TooBig {
		t.Errorf("%d documents, the last of which is %+v", len(docs), last.Err)
	}
	if docs := Documents("f", []byte(strings.Repeat("{\"a\": b}\n", 5000))); len(docs) != maxFailures+1 {
		t.Errorf("%d documents of JSON lines", len(docs))
	}
}

// FuzzDocuments checks what holds for every text: no panic, valid JSON objects, positions inside the file, and that
// the text of a document reads as the document.
func FuzzDocuments(f *testing.F) {
	for _, text := range seeds {
		f.Add([]byte(text))
	}
	names, _ := filepath.Glob(filepath.Join("..", "..", "testdata", "broken", "*.*"))
	for _, name := range names {
		if data, err := os.ReadFile(name); err == nil {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 1<<14 {
			return
		}
		lines := 1 + strings.Count(string(text), "\n")
		for _, d := range Documents("f", text) {
			if d.Position.Line < 1 || d.Position.Line > lines {
				t.Fatalf("line %d of %d", d.Position.Line, lines)
			}
			if d.Err != nil {
				if at := d.Err.Position.Line; at < 1 || at > lines || d.Err.Message == "" || d.JSON != nil {
					t.Fatalf("%s at line %d of %d, JSON %q", d.Err, at, lines, d.JSON)
				}
				continue
			}
			if !json.Valid(d.JSON) || !utf8.Valid(d.JSON) || d.JSON[0] != '{' {
				t.Fatalf("no JSON object: %q", d.JSON)
			}
			for key, at := range fields(d.JSON) {
				if !json.Valid(key) || !json.Valid(d.JSON[at.start:at.end]) {
					t.Fatalf("field %q of %q", key, d.JSON)
				}
				Locate(d.Text, unescape(key)+"[0].x")
			}
			Annotations(&snapshot.Object{Ref: snapshot.Ref{Kind: "Service"}, Annotations: map[string]string{Annotation: string(d.JSON)}})
		}
	})
}
