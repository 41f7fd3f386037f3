package manifest

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// seeds are texts at the edges of what the fast scanner reads.
var seeds = []string{
	"a: 1\nb: two\n", "a:\n  b:\n    c: [ ]\n    d: {}\n    e: []\n", "a:\n- b\n- c: d\n  e: f\n-\n- - g\n  - h\n",
	"a: yes\nb: off\nc: on\nd: y\ne: True\nf: NULL\ng: ~\nh:\n", "a: 0123\nb: 1_000\nc: 0x1F\nd: 0o17\ne: 0b11\nf: -0\ng: +7\nh: 1e3\ni: 1.0\n",
	"a: 2001-12-14\nb: 2001-12-14t21:59:43.10-05:00\nc: 99999999999999999999\nd: 18446744073709551615\n", "a: .inf\n", "a: .5\nb: 1__2\nc: 0_1\nd: 1e400\n",
	"a: 'it''s'\nb: \"x\\n\\\"y\\\"\"\nc: \"\\u0041\"\nd: 'back\\slash \"quoted\"'\n", "a: b # comment\n# c\n  # d\nb: c#d\n", "a: b:c\nb: http://x/y?z=#f\n",
	"a: b: c\n", "a: 1\na: 2\n", "1: a\n", "true: a\n", "null: a\n", "2001-12-14: a\n", "<<: {a: b}\nc: d\n", "a: &x\n  b: c\nd: *x\ne:\n  <<: *x\n  f: g\n",
	"a: |\n  text\n  more\nb: >-\n  folded\n  text\n", "a: two\n  lines\n", "a: \"two\n  lines\"\n", "a:\n  plain\n", "a: [1, 2, {b: c}]\n", "a:\tb\n", "\ta: b\n", "a: b\t\n",
	"a: b\r\nc:\r\n  - d\r\n", "a: b\rc: d\n", "? a\n: b\n", "- a\n- b\n", "a\n", "a: !!str 1\nb: !!int \"2\"\nc: !x y\n", "a: *nope\n", "a: é\nb: “x” — y\n# – ü\n",
	"a: x\u0085y\n", "a: x\u2028y\n", "# x\u2028y\na: b\n", "a: \ufeffb\n", "a: \x7f\n", "a: {{ .Values.x }}\n", "a: '{{ x }}'\n", "key with space: v\n\"quoted key\": v\n'single': v\n",
	"a : b\n", "a:b\n", "a: -\n", "a: - b\n", "a: -b\n", "- -\n- -x\n", "a: --- b\n", "a:\n  - b\n c: d\n", "a:\n    b: c\n  d: e\n", "a:\n- b\n  c: d\n", "- - a\n  b: c\n",
	"a: @x\n", "a: `x`\n", "a: %x\n", "a: ,x\n", "a: ]\n", "a: []x\n", "a: [] # c\n", "a: \"x\"y\n", "a: 'x' y\n", "items:\n- a: b\n- c: d\n", "a: x #\n", "a: #x\n", "a: \"\\/\"\n",
	"  a: b\n  c: d\n", "  a: b\nc: d\n", "a: b\n  # deep comment\nc: d\n", "a:\n  # only a comment\nb: c\n", "a: =\n", "a: ?x\n", "a: ? x\n", "a: :x\n", "a: x:\n", "~: a\n", ": a\n", "[]: a\n",
	"\r!tag\tvalue", "--- ---   e: f\n", "--- %x\n", "--- ...\n", "items:\n-  \n ctems:\n c: d\n", "items:\n- # c\n  a: b\n",
}

// agree fails the test where the scanner reads a document otherwise than the full parser.
func agree(t *testing.T, text []byte) {
	t.Helper()
	var docs [][]byte
	split(text, func(_ int, doc []byte) { docs = append(docs, doc) })
	for _, doc := range docs {
		scanner := plain{src: doc}
		done := scanner.document()
		f := full{text: doc}
		p := f.document()
		if p == nil && !f.empty && !json.Valid(f.out) {
			t.Fatalf("the full parser made invalid JSON of %q: %s", doc, f.out)
		}
		if !done {
			continue
		}
		if p != nil && strings.Contains(p.message, "the parser failed") {
			continue // a known weakness of the library with comments
		}
		if p != nil {
			t.Fatalf("%q: the scanner reads %s, the full parser says %s", doc, scanner.out, p.message)
		}
		if !bytes.Equal(scanner.out, f.out) {
			t.Fatalf("%q:\nscanner %s\nfull    %s", doc, scanner.out, f.out)
		}
		if len(scanner.head.items) != len(f.list) {
			t.Fatalf("%q: the scanner sees %d items, the full parser %d", doc, len(scanner.head.items), len(f.list))
		}
		for i := range f.list {
			if scanner.head.items[i] != f.list[i] {
				t.Fatalf("%q: item %d is %+v for the scanner, %+v for the full parser", doc, i, scanner.head.items[i], f.list[i])
			}
		}
	}
}

func TestParsersAgree(t *testing.T) {
	for _, text := range seeds {
		agree(t, []byte(text))
	}
}

func TestScannerReads(t *testing.T) {
	for text, want := range map[string]string{
		"a: 1\nb: two\n": `{"a":1,"b":"two"}`,
		"a:\n- b\n- c: d\n  e: f\n-\n- - g\n  - h\n":  `{"a":["b",{"c":"d","e":"f"},null,["g","h"]]}`,
		"a: yes\nb: off\nc: True\nd: ~\ne:\n":         `{"a":"yes","b":"off","c":true,"d":null,"e":null}`,
		"a: 0123\nb: 1_000\nc: 0x1F\nd: 2001-12-14\n": `{"a":83,"b":1000,"c":31,"d":"2001-12-14"}`,
		"a: 'it''s \\'\nb: \"x\\ny\" # c\n":           `{"a":"it's \\","b":"x\ny"}`,
		"a: []\r\nb: {}\r\n\r\n# c\r\n":               `{"a":[],"b":{}}`,
		"url: http://a/b#c\nk: “x” — y\n":             `{"url":"http://a/b#c","k":"“x” — y"}`,
	} {
		p := plain{src: []byte(text)}
		if !p.document() {
			t.Errorf("%q: the scanner gives up", text)
		} else if string(p.out) != want {
			t.Errorf("%q: got %s, want %s", text, p.out, want)
		}
	}
}

// FuzzParsers checks that the scanner, where it does not give up, reads what the full parser reads.
func FuzzParsers(f *testing.F) {
	for _, text := range seeds {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 4096 || !utf8.Valid(text) {
			return
		}
		agree(t, text)
	})
}
