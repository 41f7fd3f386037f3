package emissary

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// world is a snapshot with a front end over it.
type world struct {
	*FrontEnd
	snapshot *snapshot.Snapshot
}

// newWorld reads YAML documents. apiVersion defaults to v3alpha1 and the namespace to "app"; the gateway's own is "gw".
func newWorld(t testing.TB, text string, edit ...func(*Options)) *world {
	t.Helper()
	o := Options{Namespace: "gw"}
	for _, e := range edit {
		e(&o)
	}
	d := yaml.NewDecoder(strings.NewReader(text))
	var objects []*snapshot.Object
	for {
		var doc map[string]any
		if err := d.Decode(&doc); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("bad test input: %v", err)
		}
		if doc == nil {
			continue
		}
		if doc["apiVersion"] == nil {
			doc["apiVersion"] = "getambassador.io/v3alpha1"
		}
		meta := doc["metadata"].(map[string]any)
		if meta["namespace"] == nil {
			meta["namespace"] = "app"
		}
		raw, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		object, found := api.Decode(raw, snapshot.Source{}, nil)
		if object == nil {
			t.Fatalf("bad test object: %v", found)
		}
		objects = append(objects, object)
	}
	return &world{FrontEnd: New(o), snapshot: snapshot.Empty().Derive(objects, nil, nil)}
}

// lower lowers the object "Kind/namespace/name", or "Kind/name" in namespace app.
func (w *world) lower(t testing.TB, ref string) *ir.Fragments {
	t.Helper()
	parts := strings.Split(ref, "/")
	if len(parts) == 2 {
		parts = []string{parts[0], "app", parts[1]}
	}
	o := w.snapshot.Get(snapshot.GroupKind{Group: snapshot.EmissaryGroup, Kind: parts[0]}, parts[1], parts[2])
	if o == nil {
		t.Fatalf("no object %s", ref)
	}
	return w.Lower(o, snapshot.NewView(w.snapshot))
}

// mapping lowers Mapping app/m with the given spec (the inside of a flow mapping) and further documents.
func lowerMapping(t testing.TB, spec string, more ...string) *ir.Fragments {
	t.Helper()
	docs := append([]string{fmt.Sprintf("{kind: Mapping, metadata: {name: m}, spec: {%s}}", spec)}, more...)
	return newWorld(t, strings.Join(docs, "\n---\n")).lower(t, "Mapping/m")
}

// findings writes diagnostics as "severity code path".
func findings(f *ir.Fragments) string {
	var lines []string
	for _, d := range f.Diagnostics {
		line := d.Severity.String() + " " + d.Code.ID
		if d.Path != "" {
			line += " " + d.Path
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}

// want compares the findings, which are written as findings writes them.
func want(t *testing.T, f *ir.Fragments, expected string) {
	t.Helper()
	if got := findings(f); got != expected {
		t.Errorf("findings\n got %q\nwant %q\n%v", got, expected, f.Diagnostics)
	}
}

// compact writes a value as JSON, for comparison.
func compact(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// equal compares a value's JSON form.
func equal(t *testing.T, what string, got any, expected string) {
	t.Helper()
	if text := compact(t, got); text != expected {
		t.Errorf("%s\n got %s\nwant %s", what, text, expected)
	}
}
