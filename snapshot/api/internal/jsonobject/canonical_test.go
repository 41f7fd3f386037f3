package jsonobject

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

var texts = []string{
	`{}`, `[]`, `""`, `0`, `-0`, `-12.5e+10`, `1E3`, `true`, `false`, `null`,
	` { "b" : 1 , "a" : [ 1 , 2 , { "d" : null , "c" : "x" } ] } `,
	`{"b":{"z":1,"y":2},"a":{"x":{"b":1,"a":2},"c":3}}`,
	`{"é":1,"z":2,"\u00e8":3,"\n":4,"/":"\/","q":"\ud83d\ude00"}`,
	`{"ab":1,"a":2,"a\"":3,"a!":4}`,
	`[[],{},[{}],[""],"],}"]`,
	`{"a":1,"a":2}`, `{"a":1,"b":2,"a":3}`, `{"a":1,"\u0061":2}`,
	``, ` `, `{`, `}`, `[`, `]`, `{"a"}`, `{"a":}`, `{"a":1,}`, `[1,]`, `[,1]`, `[1 2]`, `{"a":1 "b":2}`, `{a:1}`, `{"a":1}}`, `{} {}`,
	`01`, `1.`, `.5`, `1e`, `+1`, `-`, `tru`, `nulls`, `"`, `"a`, `"\`, `"\x"`, `"\ud800"`, "\"\x01\"", "\"\xff\"", "{\"\xff\":1}", `"\u12"`, `[1}`, `{"a":[}`,
	strings.Repeat("[", 900) + strings.Repeat("]", 900),
}

// judge compares AppendCanonical with the library's own formatter, which is slower and checks everything.
func judge(t *testing.T, text string) {
	t.Helper()
	want, err := jsontext.AppendFormat(nil, text, jsontext.ReorderRawObjects(true))
	got, ok := AppendCanonical([]byte("before"), jsontext.Value(text))
	if ok != (err == nil) {
		if ok || strings.Count(text, "[")+strings.Count(text, "{") <= deepest {
			t.Fatalf("%q: ok is %v, the library says %v", text, ok, err)
		}
		return
	}
	if !ok {
		return
	}
	if string(got[:6]) != "before" {
		t.Fatalf("%q: overwrote what was there: %s", text, got)
	}
	got = got[6:]
	again, _ := AppendCanonical(nil, want)
	if string(again) != string(got) {
		t.Fatalf("%q:\ngot  %s\nwant %s", text, got, again)
	}
	if twice, ok := AppendCanonical(nil, got); !ok || string(twice) != string(got) {
		t.Fatalf("%q: a second pass changes %s to %s", text, got, twice)
	}
	if o, ok := Parse(got); ok && string(o.Encode()) != string(got) {
		t.Fatalf("members of %s make %s", got, o.Encode())
	}
	if items, ok := ParseList(got); ok && string(EncodeList(items)) != string(got) {
		t.Fatalf("items of %s make %s", got, EncodeList(items))
	}
}

func TestAppendCanonical(t *testing.T) {
	for _, text := range texts {
		judge(t, text)
	}
	got, ok := AppendCanonical(nil, jsontext.Value(` { "b" : [ 1.0 , "\u0041\/" ] , "a" : { "d" : 1 , "c" : 2 } } `))
	if want := `{"a":{"c":2,"d":1},"b":[1.0,"A/"]}`; !ok || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, ok, want)
	}
	if _, ok := AppendCanonical(nil, jsontext.Value(strings.Repeat("[", 1001)+strings.Repeat("]", 1001))); ok {
		t.Error("1,001 levels are taken")
	}
}

func FuzzAppendCanonical(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { judge(t, text) })
}

// FuzzParse shows that text which is not well formed, against the terms, still ends without a panic.
func FuzzParse(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if o, ok := Parse(jsontext.Value(text)); ok {
			o.Encode()
		}
		if items, ok := ParseList(jsontext.Value(text)); ok {
			EncodeList(items)
		}
		Text(jsontext.Value(text))
	})
}

func TestObject(t *testing.T) {
	o, ok := Parse(jsontext.Value(` { "a" : 1 , "b" : [ 2 ] , "c\"" : {} } `))
	if !ok {
		t.Fatal("not parsed")
	}
	o.Set("a", jsontext.Value("9"))
	o.Set("d", Quote("x\ny"))
	o.Rename("b", `c"`)
	o.Rename("none", "a")
	if v := o.Delete("none"); v != nil {
		t.Errorf("deleted %s", v)
	}
	if got, want := string(o.Encode()), `{"a":9,"c\"":[ 2 ],"d":"x\ny"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if text, ok := Text(o.Get("d")); !ok || text != "x\ny" {
		t.Errorf("text is %q", text)
	}
	for _, other := range []string{"", "1", "[]", `"{}"`} {
		if _, ok := Parse(jsontext.Value(other)); ok {
			t.Errorf("%q is taken for an object", other)
		}
	}
}
