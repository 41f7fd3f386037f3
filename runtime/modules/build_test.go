package modules

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/snapshot/manifest"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/emissary"
	"github.com/chancery-gateway/chancery/wasm"
	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/source"
	"github.com/chancery-gateway/chancery/wasm/wasmtest"
)

// cacheDir keeps compiled code for all tests of a run.
var cacheDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "modules")
	if err != nil {
		panic(err)
	}
	cacheDir = filepath.Join(dir, "cache")
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// example builds one of the SDK's examples and returns its path.
func example(t testing.TB, name string) string {
	t.Helper()
	out := filepath.Join(filepath.Dir(cacheDir), name+".wasm")
	if err := os.WriteFile(out, wasmtest.Example(t, name, "1.0.0"), 0o600); err != nil {
		t.Fatal(err)
	}
	return out
}

func spec(t testing.TB, name, settings string) wasm.Spec {
	s := wasm.Spec{Name: name, Source: source.File{Path: example(t, name)}, Grant: full}
	s.Grant.Limits = abi.Limits{Milliseconds: 60_000} // the machine may be busy
	if settings != "" {
		s.Settings = json.RawMessage(settings)
	}
	return s
}

// start brings modules up.
func start(t testing.TB, specs ...wasm.Spec) *Modules {
	t.Helper()
	m, err := New(Options{Specs: specs, Namespaces: []string{"gateways"}, CacheDir: cacheDir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	m.Take(snapshot.Empty())
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if err := m.Settle(ctx); err != nil {
		t.Fatal(err)
	}
	for _, d := range m.Findings() {
		t.Fatal(d)
	}
	return m
}

func newCompiler(m *Modules) *translators.Compiler {
	o := translators.Options{FrontEnds: []translators.FrontEnd{emissary.New(emissary.Options{})}}
	if m != nil {
		o.Extender = m
	}
	return translators.New(o)
}

func parse(t testing.TB, text string) []*snapshot.Object {
	t.Helper()
	var out []*snapshot.Object
	for _, d := range manifest.Documents("in.yaml", []byte(text)) {
		if d.Err != nil {
			t.Fatal(d.Err)
		}
		o, ds := api.Decode(d.JSON, snapshot.Source{Position: d.Position, Text: d.Text}, nil)
		if o == nil {
			t.Fatal(ds)
		}
		out = append(out, o)
	}
	return out
}

func world(t testing.TB, text string) *snapshot.Snapshot {
	return snapshot.Empty().Derive(parse(t, text), nil, nil)
}

const base = `
apiVersion: getambassador.io/v3alpha1
kind: Listener
metadata: {name: l, namespace: gw}
spec: {port: 8080, protocol: HTTP, securityModel: XFP, hostBinding: {namespace: {from: ALL}}}
---
apiVersion: getambassador.io/v3alpha1
kind: Host
metadata: {name: h, namespace: gw}
spec: {hostname: "shop.example.com", requestPolicy: {insecure: {action: Route}}}
---
apiVersion: getambassador.io/v3alpha1
kind: Mapping
metadata: {name: m, namespace: shop, labels: {team: red}}
spec: {hostname: "shop.example.com", prefix: /m/, service: "backend:8000", cluster_idle_timeout_ms: 60000}
---
apiVersion: getambassador.io/v3alpha1
kind: Mapping
metadata: {name: n, namespace: shop}
spec: {hostname: "shop.example.com", prefix: /n/, service: "other:8000"}
---
apiVersion: pages.example.com/v1
kind: MaintenancePage
metadata: {name: noon, namespace: shop}
spec: {hostname: shop.example.com, prefix: /closed/, body: Back at noon.}
---
apiVersion: pages.example.com/v1
kind: RedirectList
metadata: {name: moved, namespace: shop}
spec: {hostname: shop.example.com, redirects: [{from: /old/, to: "https://www.example.com/new"}]}
`

func contains(t *testing.T, what, text string, wants ...string) {
	t.Helper()
	for _, w := range wants {
		if !strings.Contains(text, w) {
			t.Errorf("%s lacks %s", what, w)
		}
	}
}
