package index

import (
	"strings"
	"testing"
)

// TestPrints: fields that are equal have equal prints, those that are not do not, and absent ones have none.
func TestPrints(t *testing.T) {
	var f Fields
	whole, prefix, host, kind := f.Add(Path{"spec"}), f.Add(Path{"spec", "prefix"}), f.Add(Path{"spec", "host"}), f.Add(Path{"kind"})
	prints := func(text string) []Print { return f.Prints(NewDocument([]byte(text))) }
	a, b := prints(`{"kind":"M","spec":{"prefix":"/a/","other":1}}`), prints(`{"kind":"M","spec":{"other":2,"prefix":"/a/","host":null}}`)
	if a[kind] != b[kind] || a[prefix] != b[prefix] || a[whole] == b[whole] || a[host] != (Print{}) || b[host] == (Print{}) {
		t.Errorf("%v\n%v", a, b)
	}
	if c := prints(`{"spec":"text"}`); c[prefix] != (Print{}) || c[whole] == (Print{}) {
		t.Error(c)
	}
	if c, d := prints(`{"spec":{"prefix":"/a/","prefix":"/b/"}}`), prints(`{"spec":{"prefix":"/b/"}}`); c[prefix] == d[prefix] || c[prefix] == a[prefix] {
		t.Error("a name that is there twice looks like one that is there once")
	}
	for _, text := range []string{"", "[]", "{", `{"a":1e9}`, `{"a":` + strings.Repeat("1", maxDigits+1) + `}`, `{"a":` + strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1) + `}`} {
		if prints(text) != nil {
			t.Errorf("%.20s has prints", text)
		}
	}
}

// FuzzPrints: whatever has prints can be read as a value.
func FuzzPrints(f *testing.F) {
	for _, text := range []string{`{"spec":{"prefix":"/a/"}}`, `{"a":1.5,"b":"1e9","c":[{"d":null}]}`, `{"a":"\"1e","b":-0}`, `{"a":1E5}`, `{"\u0061":{"a":"\\"}}`} {
		f.Add([]byte(text))
	}
	var fields Fields
	fields.Add(Path{"spec", "prefix"})
	fields.Add(Path{"a"})
	f.Fuzz(func(t *testing.T, text []byte) {
		if fields.Prints(NewDocument(text)) == nil {
			return
		}
		if _, err := Value(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	})
}
