package wasm

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/wasmtest"
)

// example is one of the SDK's examples, with an input and what must be in the output.
type example struct {
	name     string
	phase    abi.Phase
	settings string
	items    []abi.Item
	want     []string
}

func object(kind, apiVersion, name, labels, spec string) abi.Item {
	short, _, _ := strings.Cut(kind, ".")
	text := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"namespace":"shop","labels":%s},"spec":%s}`, apiVersion, short, name, labels, spec)
	return abi.Item{Kind: kind, Namespace: "shop", Name: name, Value: json.RawMessage(text)}
}

func node(kind, name, rest string) abi.Item {
	return abi.Item{Kind: kind, Name: name, Value: json.RawMessage(fmt.Sprintf(`{"name":%q%s}`, name, rest))}
}

// routes returns the routes of a virtual host, every third from the Mapping m.
func routes(n int) string {
	var b strings.Builder
	b.WriteString(`,"domains":["*"],"routes":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":"r%d","match":{"pathKind":"prefix","path":"/r%d/"},"forward":{"clusters":[{"cluster":"c%d"}],"timeoutMillis":3000},"origins":[{"group":"getambassador.io","kind":"Mapping","namespace":"shop","name":"%s"}]}`,
			i, i, i, []string{"m", "n", "o"}[i%3])
	}
	b.WriteByte(']')
	return b.String()
}

func examples() []example {
	return []example{
		{
			name: "lower", phase: abi.Lower,
			items: []abi.Item{
				object("MaintenancePage.pages.example.com", "pages.example.com/v1", "noon", `{}`, `{"hostname":"shop.example.com","body":"Back at noon."}`),
				object("RedirectList.pages.example.com", "pages.example.com/v1", "moved", `{}`, `{"redirects":[{"from":"/a","to":"https://www.example.com/b"}]}`),
			},
			want: []string{`"body":"Back at noon."`, `"path_redirect":"/b"`},
		},
		{
			name: "header", phase: abi.IR, settings: `{"label":"team","header":"x-team"}`,
			items: []abi.Item{
				object("Mapping.getambassador.io", "getambassador.io/v3alpha1", "m", `{"team":"red"}`, `{}`),
				node("ir/VirtualHost", "vh", routes(30)),
			},
			want: []string{`{"name":"x-team","value":"red"}`},
		},
		{
			name: "cluster", phase: abi.XDS, settings: `{"limit":77}`,
			items: []abi.Item{node("xds/envoy.config.cluster.v3.Cluster", "c", `,"typedExtensionProtocolOptions":{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions":{"commonHttpProtocolOptions":{}}}`)},
			want:  []string{`"maxRequestsPerConnection":77`},
		},
		{
			name: "assemblyscript", phase: abi.IR,
			items: []abi.Item{node("ir/Cluster", "a", `,"discovery":"strict_dns"`), node("ir/Cluster", "b", `,"discovery":"eds"`)},
			want:  []string{`"discovery":"strict_dns","name":"a","respectDnsTtl":true`, `{"name":"b","discovery":"eds"}`},
		},
		{
			name: "wat", phase: abi.IR,
			items: []abi.Item{node("ir/VirtualHost", "vh", `,"routes":[{"direct":{"status":503}}]`)},
			want:  []string{"the unit has a direct response"},
		},
	}
}

// build returns an example's module. Those in Go are made here.
func build(t testing.TB, name string) []byte {
	t.Helper()
	if ready, _ := filepath.Glob(filepath.Join("sdk", "examples", name, "*.wasm")); len(ready) > 0 && filepath.Base(ready[0]) != "module.wasm" {
		module, err := os.ReadFile(ready[0])
		if err != nil {
			t.Fatal(err)
		}
		return module
	}
	return wasmtest.Example(t, name, "1.0.0")
}

func (e example) unit() Unit {
	return Unit{Key: e.name, Hash: HashItems(e.items), Items: func() []abi.Item { return e.items }}
}

func (e example) spec(module []byte) Spec {
	s := Spec{Name: e.name, Source: &memory{module: module}, Grant: grantAll()}
	if e.settings != "" {
		s.Settings = json.RawMessage(e.settings)
	}
	return s
}

// TestExamples brings every example of the SDK up and runs it.
func TestExamples(t *testing.T) {
	for _, e := range examples() {
		t.Run(e.name, func(t *testing.T) {
			h := newTestHost(t, nil)
			s := apply1(t, h, e.spec(build(t, e.name)))
			if s.Live == nil {
				t.Fatalf("at %s: %v", s.Candidate.Stage, s.Candidate.Err)
			}
			set := h.Acquire()
			defer set.Release()
			o := set.Run(context.Background(), e.phase, []Unit{e.unit()})[0]
			if len(o.Failures) > 0 {
				t.Fatal(o.Failures[0].Err)
			}
			text := fmt.Sprint(o.Findings)
			for _, i := range o.Items {
				text += string(i.Value)
			}
			for _, want := range e.want {
				if !strings.Contains(text, want) {
					t.Errorf("%s is missing in %s", want, text)
				}
			}
			c := find(t, h, e.name).Counts
			t.Logf("%d units of fuel, %v, %d pages, compiled in %v", c.MaxFuel, c.MaxTime, c.Pages, s.Live.CompileTime)
		})
	}
}

// TestExamplesEquivalence runs every example metered, plain and in the interpreter: the bytes are the same.
func TestExamplesEquivalence(t *testing.T) {
	for _, e := range examples() {
		t.Run(e.name, func(t *testing.T) {
			module := build(t, e.name)
			var first string
			for _, guard := range []Guard{guardNone, GuardFuel, GuardInterpreter} {
				m, done := bare(t, module, guard, e)
				out := m.raw(t, e)
				done()
				if first == "" {
					first = out
				}
				if out != first || out == "" {
					t.Errorf("%s:\n%s\nwant\n%s", guard, out, first)
				}
			}
		})
	}
}

// bareModule is a module without a host around it.
type bareModule struct{ *module }

func bare(t testing.TB, binary []byte, guard Guard, e example) (bareModule, func()) {
	t.Helper()
	info, err := Inspect(binary)
	if err != nil {
		t.Fatal(err)
	}
	c, err := compile(context.Background(), info, binary, guard, 512, "")
	if err != nil {
		t.Fatal(err)
	}
	spec := e.spec(binary)
	spec.Grant.Limits = abi.Limits{Fuel: 1 << 40, Milliseconds: 60_000, InputBytes: 64 << 20, OutputBytes: 64 << 20}
	m, err := newModule(spec, c, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	m.limits.Fuel, m.limits.Milliseconds, m.limits.OutputBytes, m.limits.InputBytes = 1<<40, 60_000, 64<<20, 64<<20
	return bareModule{m}, func() { m.close(); c.close() }
}

// raw runs the module on the example's input and returns the bytes that it answers.
func (m bareModule) raw(t testing.TB, e example) string {
	t.Helper()
	input, err := encodeRequest(&abi.Request{Phase: e.phase, Unit: e.name, Items: e.items})
	if err != nil {
		t.Fatal(err)
	}
	i, err := m.pool.lease(context.Background(), false)
	if err != nil {
		t.Fatal(err)
	}
	out, spent, err := i.call(context.Background(), exportTranslate, input, budgetOf(m.limits))
	m.pool.release(i, err == nil, spent)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestUnits bounds what a Go guest is charged: the counter stands for work, and most of what metering costs is going down
// with it. What that is in time, BenchmarkOverhead tells.
func TestUnits(t *testing.T) {
	e := examples()[1]
	e.items[1] = node("ir/VirtualHost", "vh", routes(500))
	m, done := bare(t, build(t, e.name), GuardFuel, e)
	defer done()
	input, err := encodeRequest(&abi.Request{Phase: e.phase, Unit: e.name, Items: e.items})
	if err != nil {
		t.Fatal(err)
	}
	i, err := m.pool.lease(context.Background(), true)
	if err != nil {
		t.Fatal(err)
	}
	_, spent, err := i.call(context.Background(), exportTranslate, input, budgetOf(m.limits))
	m.pool.release(i, err == nil, spent)
	if err != nil {
		t.Fatal(err)
	}
	if each := float64(spent.fuel) / float64(len(input)); each < 5 || each > 50 {
		t.Errorf("%.1f units for a byte of JSON; 5 to 50 were wanted", each)
	} else {
		t.Logf("%.1f units for a byte of JSON", each)
	}
}
