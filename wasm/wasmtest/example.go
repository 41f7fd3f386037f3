// Package wasmtest makes modules for tests: the SDK's examples, and small ones of hand-written code.
package wasmtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/fuel"
)

var examples struct {
	sync.Mutex
	built map[string][]byte
}

// Example builds an example of the SDK that is written in Go, with the manifest's version set and the source changed by the
// replacements. A second call for the same answers from memory.
func Example(t testing.TB, name, version string, replacements ...string) []byte {
	t.Helper()
	examples.Lock()
	defer examples.Unlock()
	key := fmt.Sprint(name, version, replacements)
	if m := examples.built[key]; m != nil {
		return m
	}
	_, here, _, _ := runtime.Caller(0)
	from := filepath.Join(filepath.Dir(here), "..", "sdk", "examples", name)
	source, err := os.ReadFile(filepath.Join(from, "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := os.ReadFile(filepath.Join(from, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	changed := string(source)
	for i := 0; i < len(replacements); i += 2 {
		if !strings.Contains(changed, replacements[i]) {
			t.Fatalf("the source of %s has no %q", name, replacements[i])
		}
		changed = strings.Replace(changed, replacements[i], replacements[i+1], 1)
	}
	dir := from
	if changed != string(source) {
		if dir, err = os.MkdirTemp(from, "built-"); err != nil { // inside this Go module, whose SDK it imports
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(t.TempDir(), "module.wasm")
	build := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-ldflags", "-s -w", "-o", out, ".")
	build.Dir, build.Env = dir, append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, text)
	}
	module, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	module, err = fuel.DropSections(module, abi.ManifestSection)
	if err != nil {
		t.Fatal(err)
	}
	const was = `"version": "1.0.0"`
	if !strings.Contains(string(manifest), was) {
		t.Fatalf("the manifest of %s has no %s", name, was)
	}
	text := strings.Replace(string(manifest), was, `"version": "`+version+`"`, 1)
	module = fuel.AppendSection(module, fuel.Section{Name: abi.ManifestSection, Content: []byte(text)})
	if examples.built == nil {
		examples.built = map[string][]byte{}
	}
	examples.built[key] = module
	return module
}
