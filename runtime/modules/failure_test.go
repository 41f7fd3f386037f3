package modules

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/ir"
	"github.com/chancery-gateway/chancery/wasm"
	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/source"
	"github.com/chancery-gateway/chancery/wasm/wasmtest"
)

// handWritten returns the spec of a hand-written guest.
func handWritten(t *testing.T, g wasmtest.Guest, phase abi.Phase, kind string) wasm.Spec {
	t.Helper()
	g.Manifest = wasmtest.Manifest()
	g.Manifest.Phases, g.Manifest.Reads, g.Manifest.Writes = []abi.Phase{phase}, []string{kind}, []abi.Scope{{Kind: kind}}
	path := filepath.Join(t.TempDir(), "guest.wasm")
	if err := os.WriteFile(path, g.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	s := wasm.Spec{Name: "guest", Source: source.File{Path: path}, Grant: full}
	s.Grant.Limits = abi.Limits{Milliseconds: 60_000}
	return s
}

// TestFailurePolicies: a module that fails on a unit costs that unit what its policy says, in each phase that has units of the program. The guest
// fails at every second call of an instance; the first one is fine.
func TestFailurePolicies(t *testing.T) {
	for _, phase := range []struct {
		phase abi.Phase
		kind  string
	}{{abi.IR, kindVirtualHost}, {abi.XDS, kindPrefixXDS + "envoy.config.route.v3.RouteConfiguration"}} {
		for _, c := range []struct {
			policy wasm.FailurePolicy
			// kept says that what was good before stays, and not what was changed.
			kept     bool
			severity snapshot.Severity
			became   string
			counted  func(wasm.Counts) int64
		}{
			{"", true, snapshot.Error, "what its last good answer gave is kept", func(n wasm.Counts) int64 { return n.Kept }},
			{wasm.OnFailureKeep, true, snapshot.Error, "what its last good answer gave is kept", func(n wasm.Counts) int64 { return n.Kept }},
			{wasm.OnFailureSkip, false, snapshot.Warning, "it goes on without the module", func(n wasm.Counts) int64 { return n.Skipped }},
			{wasm.OnFailureBlock, true, snapshot.Error, "it does not go on; what was good before stays", func(n wasm.Counts) int64 { return n.Blocked }},
		} {
			t.Run(string(phase.phase)+" "+c.policy.String(), func(t *testing.T) {
				s := handWritten(t, wasmtest.Guest{Translate: wasmtest.TrapEvery(2)}, phase.phase, phase.kind)
				s.Failure = c.policy
				m := start(t, s)
				compiler := newCompiler(m)
				served := func(r *translators.Result) string {
					for _, x := range r.Resources[ir.TypeRouteConfig] {
						if strings.Contains(string(x.Value), "shop.example.com") {
							return string(x.Value)
						}
					}
					return ""
				}
				compiler.Compile(world(t, base))
				edited := func(prefix string) *translators.Result {
					return compiler.Compile(world(t, strings.Replace(base, "prefix: /m/", "prefix: "+prefix, 1)))
				}
				r := edited("/second/")
				if got := served(r); strings.Contains(got, "/m/") != c.kept || strings.Contains(got, "/second/") == c.kept {
					t.Errorf("after the failure is served:\n%q", got)
				}
				if strings.Contains(served(r), "503") || !strings.Contains(served(r), "/n/") {
					t.Errorf("the host does not serve what it did:\n%q", served(r))
				}
				i := slices.IndexFunc(r.Diagnostics, func(d snapshot.Diagnostic) bool { return d.Code == codeFailed })
				if i < 0 || r.Diagnostics[i].Severity != c.severity || !strings.Contains(r.Diagnostics[i].Message, c.became) || !strings.Contains(r.Diagnostics[i].Message, "CH-WASM-040") {
					t.Errorf("what is said is %v", r.Diagnostics)
				}
				if n := m.Host().Status()[0].Counts; c.counted(n) != 1 || n.Kept+n.Skipped+n.Blocked != 1 || n.Errors["CH-WASM-040"] != 1 {
					t.Errorf("counted: %+v", n)
				}
				if got := served(edited("/third/")); !strings.Contains(got, "/third/") { // another instance, whose first call is fine
					t.Errorf("after the failure has passed is served:\n%q", got)
				}
			})
		}
		t.Run(string(phase.phase)+" never good", func(t *testing.T) {
			r := newCompiler(start(t, handWritten(t, wasmtest.Guest{Translate: wasmtest.Trap}, phase.phase, phase.kind))).Compile(world(t, base))
			found := false
			for _, x := range r.Resources[ir.TypeRouteConfig] {
				found = found || len(x.Value) > 0 && strings.Contains(string(x.Value), "\xf7\x03") // 503 as a varint
				if strings.Contains(string(x.Value), "/m/") {
					t.Error("what the module never saw goes on")
				}
			}
			if !found {
				t.Error("no host answers 503")
			}
		})
	}
}
