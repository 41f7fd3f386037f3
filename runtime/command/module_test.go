package command

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// newModule starts a new module by the command and builds it with the standard toolchain.
func newModule(t *testing.T, name string, flags ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if code, out := runText(t, append([]string{"module", "new", dir}, flags...)...); code != 0 {
		t.Fatalf("module new says %d\n%s", code, out)
	}
	build := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-ldflags", "-s -w", "-o", "module.wasm", ".")
	build.Dir, build.Env = dir, append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=-mod=mod", "GOWORK=off")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, text)
	}
	if code, out := runText(t, "module", "pack", filepath.Join(dir, "module.wasm"), "--manifest", filepath.Join(dir, "manifest.json")); code != 0 {
		t.Fatalf("module pack says %d\n%s", code, out)
	}
	return dir
}

// runText runs a command and returns its exit code and all that it printed.
func runText(t *testing.T, args ...string) (int, string) {
	t.Helper()
	var out strings.Builder
	code := Run(t.Context(), append([]string{"chancery"}, args...), strings.NewReader(""), &out, &out)
	return code, out.String()
}

const greeting = `
apiVersion: getambassador.io/v3alpha1
kind: Listener
metadata: {name: l, namespace: default}
spec: {port: 8080, protocol: HTTP, securityModel: XFP, hostBinding: {namespace: {from: ALL}}}
---
apiVersion: getambassador.io/v3alpha1
kind: Host
metadata: {name: h, namespace: default}
spec: {hostname: "*", requestPolicy: {insecure: {action: Route}}}
---
apiVersion: example.com/v1
kind: Greeting
metadata: {name: hello, namespace: default}
spec: {path: /hello, text: Good morning.}
`

// TestModuleCommands goes the way of an author: new, build, inspect, verify, test, run, bench, sign, and every wrong turn on it.
func TestModuleCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a module several times")
	}
	dir := newModule(t, "greeter")
	module := filepath.Join(dir, "module.wasm")
	t.Setenv("CHANCERY_STATE_DIR", t.TempDir())
	in := filepath.Join(t.TempDir(), "in.yaml")
	if err := os.WriteFile(in, []byte(greeting), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "broken.wasm")
	if err := os.WriteFile(broken, []byte("\x00asm\x01\x00\x00\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	keys := t.TempDir()
	narrow := filepath.Join(t.TempDir(), "narrow.json")
	if err := os.WriteFile(narrow, []byte(`{"grant": {"phases": ["ir"], "reads": ["*"], "namespaces": ["*"]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"module", "new", dir}, 2, []string{"exists"}},
		{[]string{"module", "new", filepath.Join(dir, "Not A Name")}, 2, []string{"lower-case"}},
		{[]string{"module", "new", "x", "--phase", "link"}, 2, []string{"lower, ir or xds"}},
		{[]string{"module", "inspect"}, 2, []string{"takes one module"}},
		{[]string{"module", "inspect", filepath.Join(dir, "nothing.wasm")}, 2, []string{"nothing.wasm"}},
		{[]string{"module", "inspect", broken}, 1, []string{"CH-WASM-023", "what to do"}},
		{[]string{"module", "inspect", module}, 0, []string{"greeter 0.1.0", "sha256:", "Greeting.example.com", "greeting-*", "guard", "fuel"}},
		{[]string{"module", "verify", module}, 0, []string{"is good"}},
		{[]string{"module", "verify", module, "--sha256", strings.Repeat("ab", 32)}, 1, []string{"CH-WASM-003"}},
		{[]string{"module", "verify", module, "--sha256", "abc"}, 2, []string{"--sha256"}},
		{[]string{"module", "verify", module, "--translator", narrow}, 1, []string{"CH-WASM-030", "phase lower"}},
		{[]string{"module", "test", dir}, 0, []string{"ok", "1 case, 0 failed"}},
		{[]string{"module", "test", keys}, 2, []string{"no module"}},
		{[]string{"module", "run", module, "--from", in}, 0, []string{"add ir/RouteFragment default/greeting-hello", "prefix /hello", "answer 200", "no connection would be drained"}},
		{[]string{"module", "run", module}, 2, []string{"--from"}},
		{[]string{"module", "run", module, "--from", in, "--settings", "{"}, 2, []string{"no JSON"}},
		{[]string{"module", "run", module, "--from", in, "--settings", `{"x": 1}`}, 1, []string{"settings"}},
		{[]string{"module", "bench", module, "--from", in, "--rounds", "2"}, 0, []string{"Greeting.example.com", "fuel", "none", "PAGES"}},
		{[]string{"module", "sign", module}, 2, []string{"--key"}},
		{[]string{"module", "sign", module, "--generate", filepath.Join(keys, "me")}, 0, []string{".sig"}},
		{[]string{"module", "sign", module, "--generate", filepath.Join(keys, "me")}, 2, []string{"exists"}},
		{[]string{"module", "verify", module, "--module-keys", keys}, 0, []string{"signature good"}},
		{[]string{"explain", in, "--modules", dir, "--module-keys", keys, "--object", "Greeting/default/hello"}, 0, []string{"greeting-hello", "module module", "phase lower", "the answer of Greeting hello"}},
		{[]string{"check", in, "--envoy", "none"}, 0, []string{"unknown"}},
		{[]string{"module", "rollback", "x", "--health-port", "1"}, 3, []string{"no Chancery answers"}},
	} {
		code, out := runText(t, c.args...)
		if code != c.code {
			t.Errorf("%v says %d, want %d\n%s", c.args, code, c.code, out)
		}
		for _, w := range c.want {
			if !strings.Contains(out, w) {
				t.Errorf("%v does not say %q:\n%s", c.args, w, out)
			}
		}
	}
	if code, out := runText(t, "check", in, "--modules", dir, "--module-keys", keys, "--envoy", "none"); code != 0 || strings.Contains(out, "unknown") {
		t.Errorf("check with the module says %d\n%s", code, out)
	}

	// Another byte, and the signature is none any more.
	text, err := os.ReadFile(module)
	if err == nil {
		text[len(text)-1] ^= 1
		err = os.WriteFile(module, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if code, out := runText(t, "module", "verify", module, "--module-keys", keys); code != 1 || !strings.Contains(out, "CH-WASM-0") {
		t.Errorf("a changed module verifies: %d\n%s", code, out)
	}
	if code, out := runText(t, "check", in, "--modules", dir, "--module-keys", keys, "--envoy", "none"); code != 1 || !strings.Contains(out, "is refused at ") {
		t.Errorf("check with a changed module says %d\n%s", code, out)
	}
}

// TestScaffolds: what "module new" writes is complete for every phase.
func TestScaffolds(t *testing.T) {
	for phase := range scaffolds {
		dir := filepath.Join(t.TempDir(), "a-"+phase)
		if code, out := runText(t, "module", "new", dir, "--phase", phase); code != 0 {
			t.Fatalf("%s: %d\n%s", phase, code, out)
		}
		vet := exec.Command("go", "test", ".")
		vet.Dir, vet.Env = dir, append(os.Environ(), "GOWORK=off")
		if text, err := vet.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", phase, err, text)
		}
		for _, name := range []string{"manifest.json", "testdata/first/request.json", "testdata/first/want.json"} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || !json.Valid(text) {
				t.Errorf("%s: %s: %v\n%s", phase, name, err, text)
			}
		}
		if formatted, err := exec.Command("gofmt", "-l", dir).CombinedOutput(); err != nil || len(formatted) > 0 {
			t.Errorf("%s: not formatted: %s %v", phase, formatted, err)
		}
	}
}
