package wasm

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/fault"
)

// TestPatch takes the examples of RFC 6902, appendix A, as far as they use add, replace and remove.
func TestPatch(t *testing.T) {
	for _, c := range []struct{ doc, op, path, value, want string }{
		{`{"foo":"bar"}`, "add", "/baz", `"qux"`, `{"baz":"qux","foo":"bar"}`},
		{`{"foo":["bar","baz"]}`, "add", "/foo/1", `"qux"`, `{"foo":["bar","qux","baz"]}`},
		{`{"baz":"qux","foo":"bar"}`, "remove", "/baz", ``, `{"foo":"bar"}`},
		{`{"foo":["bar","qux","baz"]}`, "remove", "/foo/1", ``, `{"foo":["bar","baz"]}`},
		{`{"baz":"qux","foo":"bar"}`, "replace", "/baz", `"boo"`, `{"baz":"boo","foo":"bar"}`},
		{`{"foo":"bar"}`, "add", "/child", `{"grandchild":{}}`, `{"child":{"grandchild":{}},"foo":"bar"}`},
		{`{"foo":["bar"]}`, "add", "/foo/-", `["abc","def"]`, `{"foo":["bar",["abc","def"]]}`},
		{`{"a/b":1,"m~n":2}`, "replace", "/a~1b", `3`, `{"a/b":3,"m~n":2}`},
		{`{"m~n":2}`, "remove", "/m~0n", ``, `{}`},
		{`{"":{"a":1}}`, "replace", "//a", `2`, `{"":{"a":2}}`},
		{`{"n":10000000000000000000000001}`, "add", "/x", `0.1`, `{"n":10000000000000000000000001,"x":0.1}`},
		{`{"foo":"bar"}`, "add", "/baz/bat", `1`, ""},
		{`{"foo":"bar"}`, "remove", "/baz", ``, ""},
		{`{"foo":"bar"}`, "replace", "/baz", `1`, ""},
		{`{"foo":["a"]}`, "add", "/foo/2", `1`, ""},
		{`{"foo":["a"]}`, "add", "/foo/01", `1`, ""},
		{`{"foo":["a"]}`, "replace", "/foo/-", `1`, ""},
		{`{"foo":["a"]}`, "replace", "/foo/1", `1`, ""},
		{`{"foo":["a"]}`, "add", "/foo/99999999999999999999", `1`, ""},
		{`{"foo":"bar"}`, "add", "/foo/x", `1`, ""},
		{`{"foo":"bar"}`, "remove", "", ``, ""},
	} {
		doc, err := decodeDocument([]byte(c.doc))
		if err != nil {
			t.Fatal(err)
		}
		var value any
		if c.value != "" {
			if value, err = decodeDocument([]byte(c.value)); err != nil {
				t.Fatal(err)
			}
		}
		at, err := parsePointer(c.path)
		if err == nil {
			doc, _, err = change(doc, c.op, at, value)
		}
		got := ""
		if err == nil {
			text, err := encodeDocument(doc)
			if err != nil {
				t.Fatal(err)
			}
			got = string(text)
		}
		if got != c.want {
			t.Errorf("%s %s on %s: %s (%v), want %s", c.op, c.path, c.doc, got, err, c.want)
		}
	}
}

func everything() *scope {
	return &scope{manifest: masks([]abi.Scope{{Kind: "*"}}), grant: masks([]abi.Scope{{Kind: "*"}}), namespaces: []string{"*"}}
}

func visibleAll(*abi.Item) bool { return false }

func TestScope(t *testing.T) {
	items := []abi.Item{
		{Kind: "ir/VirtualHost", Name: "vh", Value: json.RawMessage(`{"name":"vh","routes":[{"a":1},{"b":2}]}`)},
		{Kind: "Mapping.getambassador.io", Namespace: "blue", Name: "m", Value: json.RawMessage(`{"apiVersion":"getambassador.io/v3alpha1","kind":"Mapping","metadata":{"name":"m","namespace":"blue"},"spec":{"prefix":"/"}}`)},
		{Kind: "ir/Cluster", Name: "c", ReadOnly: true, Value: json.RawMessage(`{"name":"c"}`)},
	}
	patch := func(path, value string) abi.Operation {
		return abi.Operation{Op: abi.Patch, Kind: "ir/VirtualHost", Name: "vh", Patch: []abi.Step{{Op: abi.Add, Path: path, Value: json.RawMessage(value)}}}
	}
	origin := &abi.Origin{Kind: "ir/VirtualHost", Name: "vh"}
	mapping := func(name, namespace string) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"apiVersion":"getambassador.io/v3alpha1","kind":"Mapping","metadata":{"name":%q,"namespace":%q}}`, name, namespace))
	}
	fields := []abi.Scope{{Kind: "ir/VirtualHost", Fields: []string{"/routes/*/headers"}}}
	prefixed := []abi.Scope{{Kind: "Mapping.getambassador.io", NamePrefix: "x-", Operations: []abi.Op{abi.Add}}}
	for _, c := range []struct {
		name       string
		manifest   []abi.Scope
		namespaces []string
		op         abi.Operation
		code       *snapshot.Code
	}{
		{"field in scope", fields, nil, patch("/routes/1/headers", `[]`), nil},
		{"field below the scope", fields, nil, abi.Operation{Op: abi.Patch, Kind: "ir/VirtualHost", Name: "vh", Patch: []abi.Step{
			{Op: abi.Add, Path: "/routes/0/headers", Value: json.RawMessage(`{}`)}, {Op: abi.Add, Path: "/routes/0/headers/x", Value: json.RawMessage(`1`)}}}, nil},
		{"field beside the scope", fields, nil, patch("/routes/1/path", `"/"`), fault.Scope},
		{"field above the scope", fields, nil, patch("/routes/0", `{"headers":[]}`), fault.Scope},
		{"whole document", fields, nil, patch("", `{"name":"vh"}`), fault.Scope},
		{"removal of what holds the scope", fields, nil, abi.Operation{Op: abi.Patch, Kind: "ir/VirtualHost", Name: "vh", Patch: []abi.Step{{Op: abi.Remove, Path: "/routes/0"}}}, fault.Scope},
		{"removal of the item", fields, nil, abi.Operation{Op: abi.Remove, Kind: "ir/VirtualHost", Name: "vh"}, fault.Scope},
		{"replacement in scope", fields, nil, abi.Operation{Op: abi.Replace, Kind: "ir/VirtualHost", Name: "vh", Value: json.RawMessage(`{"routes":[{"a":1,"headers":[]},{"b":2}],"name":"vh"}`)}, nil},
		{"replacement beyond scope", fields, nil, abi.Operation{Op: abi.Replace, Kind: "ir/VirtualHost", Name: "vh", Value: json.RawMessage(`{"routes":[{"a":2},{"b":2}],"name":"vh"}`)}, fault.Scope},
		{"replacement with fewer routes", fields, nil, abi.Operation{Op: abi.Replace, Kind: "ir/VirtualHost", Name: "vh", Value: json.RawMessage(`{"routes":[{"a":1}],"name":"vh"}`)}, fault.Scope},
		{"name with the prefix", prefixed, nil, abi.Operation{Op: abi.Add, Kind: "Mapping.getambassador.io", Namespace: "blue", Name: "x-1", Value: mapping("x-1", "blue"), Origin: origin}, nil},
		{"name without the prefix", prefixed, nil, abi.Operation{Op: abi.Add, Kind: "Mapping.getambassador.io", Namespace: "blue", Name: "y", Value: mapping("y", "blue"), Origin: origin}, fault.Scope},
		{"name in disguise", prefixed, nil, abi.Operation{Op: abi.Add, Kind: "Mapping.getambassador.io", Namespace: "blue", Name: "x-1", Value: mapping("y", "blue"), Origin: origin}, fault.Operation},
		{"namespace in disguise", prefixed, []string{"blue"}, abi.Operation{Op: abi.Add, Kind: "Mapping.getambassador.io", Namespace: "blue", Name: "x-1", Value: mapping("x-1", "red"), Origin: origin}, fault.Operation},
		{"kind in disguise", prefixed, nil, abi.Operation{Op: abi.Add, Kind: "Mapping.getambassador.io", Namespace: "blue", Name: "x-1", Value: json.RawMessage(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x-1","namespace":"blue"}}`), Origin: origin}, fault.Operation},
		{"namespace not granted", prefixed, []string{"red"}, abi.Operation{Op: abi.Add, Kind: "Mapping.getambassador.io", Namespace: "blue", Name: "x-1", Value: mapping("x-1", "blue"), Origin: origin}, fault.Scope},
		{"operation not allowed", prefixed, nil, abi.Operation{Op: abi.Remove, Kind: "Mapping.getambassador.io", Namespace: "blue", Name: "m"}, fault.Scope},
		{"origin that is not there", prefixed, nil, abi.Operation{Op: abi.Add, Kind: "Mapping.getambassador.io", Namespace: "blue", Name: "x-1", Value: mapping("x-1", "blue"), Origin: &abi.Origin{Kind: "X", Name: "y"}}, fault.Operation},
		{"item that exists", []abi.Scope{{Kind: "*"}}, nil, abi.Operation{Op: abi.Add, Kind: "Mapping.getambassador.io", Namespace: "blue", Name: "m", Value: mapping("m", "blue"), Origin: origin}, fault.Operation},
		{"read-only item", []abi.Scope{{Kind: "*"}}, nil, abi.Operation{Op: abi.Remove, Kind: "ir/Cluster", Name: "c"}, fault.Scope},
		{"origins in a patch", []abi.Scope{{Kind: "*"}}, nil, patch("/routes/0/origins", `[]`), fault.Scope},
		{"value that is no object", []abi.Scope{{Kind: "*"}}, nil, abi.Operation{Op: abi.Replace, Kind: "ir/VirtualHost", Name: "vh", Value: json.RawMessage(`7`)}, fault.Operation},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := everything()
			s.manifest = masks(c.manifest)
			if c.namespaces != nil {
				s.namespaces = c.namespaces
			}
			before := fmt.Sprint(items)
			after, writes, err := apply(context.Background(), items, []abi.Operation{c.op}, s, visibleAll)
			if fault.CodeOf(err) != c.code {
				t.Fatalf("%v", err)
			}
			if err == nil && (len(writes) == 0 || fmt.Sprint(after) == before) {
				t.Error("nothing was written")
			}
			if fmt.Sprint(items) != before {
				t.Error("the input was changed")
			}
		})
	}
}

// TestManySmallSteps: a patch that asks for much work with few bytes is ended.
func TestManySmallSteps(t *testing.T) {
	items := []abi.Item{{Kind: "ir/VirtualHost", Name: "vh", Value: json.RawMessage(`{"name":"vh","a":[]}`)}}
	op := abi.Operation{Op: abi.Patch, Kind: "ir/VirtualHost", Name: "vh"}
	for range 90_000 {
		op.Patch = append(op.Patch, abi.Step{Op: abi.Add, Path: "/a/0", Value: json.RawMessage(`1`)})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := processorTime()
	_, _, err := apply(ctx, items, []abi.Operation{op}, everything(), visibleAll)
	if took := processorTime() - start; !fault.Is(err, fault.Deadline) || took > time.Second {
		t.Errorf("%v after %v", err, took)
	}
}

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"plain ü":         "plain ü",
		"\x1b[31mred\x00": `\x1b[31mred\x00`,
		"two\nlines\r":    `two\nlines\x0d`,
		"bad \xff utf-8":  `bad \xff utf-8`,
		"turned \u202e x": `turned \u{00202e} x`,
		"zero\u200bwidth": `zero\u{00200b}width`,
	} {
		if got := escape(in, 100); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
	if got := escape(strings.Repeat("x", 500), 10); got != "xxxxxxxxxx…" {
		t.Errorf("%s", got)
	}
}

// FuzzApply feeds responses of any form to the host. Whatever is accepted has changed nothing but what the scope names.
func FuzzApply(f *testing.F) {
	f.Add([]byte(setHeader("x")))
	f.Add([]byte(`{"operations":[{"op":"add","kind":"ir/Route","name":"x-1","value":{"name":"x-1"},"origin":{"kind":"ir/VirtualHost","name":"vh"},"reason":"r"}]}`))
	f.Add([]byte(`{"operations":[{"op":"replace","kind":"ir/VirtualHost","name":"vh","value":{"name":"vh","note":{"a":[1]},"routes":[{"h":1},{}]},"reason":"r"}]}`))
	f.Add([]byte(`{"operations":[{"op":"patch","kind":"ir/VirtualHost","name":"vh","patch":[{"op":"remove","path":"/routes/0/h"},{"op":"add","path":"/routes/1/h","value":{}}],"reason":"r"}]}`))
	f.Add([]byte(`{"operations":[{"op":"remove","kind":"ir/VirtualHost","name":"vh","reason":"r"}],"diagnostics":[{"severity":"info","message":"m"}]}`))
	items := []abi.Item{
		{Kind: "ir/VirtualHost", Name: "vh", Value: json.RawMessage(`{"name":"vh","routes":[{"h":{"a":1},"p":"/"},{"p":"/x"}]}`)},
		{Kind: "ir/Cluster", Name: "c", Value: json.RawMessage(`{"name":"c"}`)},
	}
	s := everything()
	s.manifest = masks([]abi.Scope{
		{Kind: "ir/VirtualHost", Operations: []abi.Op{abi.Patch, abi.Replace}, Fields: []string{"/note", "/routes/*/h"}},
		{Kind: "ir/Route", Operations: []abi.Op{abi.Add, abi.Remove, abi.Patch}, NamePrefix: "x-"},
	})
	allowed := []pointer{{"note"}, {"routes", "*", "h"}}
	f.Fuzz(func(t *testing.T, output []byte) {
		r, err := parseResponse(output)
		if err != nil {
			if fault.CodeOf(err) == nil {
				t.Fatalf("an error without code: %v", err)
			}
			return
		}
		before := fmt.Sprint(items)
		after, writes, err := apply(context.Background(), items, r.Operations, s, visibleAll)
		if fmt.Sprint(items) != before {
			t.Fatal("the input was changed")
		}
		if err != nil {
			if fault.CodeOf(err) == nil {
				t.Fatalf("an error without code: %v", err)
			}
			return
		}
		seen := map[itemKey]bool{}
		for _, i := range after {
			k := keyOf(&i)
			seen[k] = true
			at := slices.IndexFunc(items, func(o abi.Item) bool { return keyOf(&o) == k })
			if at < 0 {
				if i.Kind != "ir/Route" || !strings.HasPrefix(i.Name, "x-") {
					t.Fatalf("%v was added", k)
				}
				continue
			}
			was, _ := decodeDocument(items[at].Value)
			is, err := decodeDocument(i.Value)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range differences(was, is, nil) {
				covered := slices.ContainsFunc(allowed, func(a pointer) bool { return a.covers(d) })
				if i.Kind != "ir/VirtualHost" || !covered {
					t.Fatalf("%v field %s was changed; writes %v", k, d, writes)
				}
			}
		}
		for _, i := range items {
			if !seen[keyOf(&i)] {
				t.Fatalf("%v was removed", keyOf(&i))
			}
		}
	})
}

// FuzzManifest: no manifest makes the host panic, and none is taken that the host could not write again.
func FuzzManifest(f *testing.F) {
	text, err := json.Marshal(testManifest())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"abi":"1.0","name":"a","version":"1.0.0-rc.1","phases":["ir"],"reads":["xds/a.b.C"],"settings":{"$ref":"http://x"}}`))
	f.Add([]byte(`{"abi":"1.0","name":"a","version":"1.0.0","phases":["ir"],"reads":[],"settings":{"pattern":"(((("}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := ParseManifest(text)
		if err != nil {
			if fault.CodeOf(err) == nil {
				t.Fatalf("an error without code: %v", err)
			}
			return
		}
		again, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseManifest(again); err != nil {
			t.Fatalf("%s became %s: %v", text, again, err)
		}
	})
}
