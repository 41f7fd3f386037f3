package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/wasm/wasmtest"
)

const lowered = `
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
apiVersion: pages.example.com/v1
kind: MaintenancePage
metadata: {name: noon, namespace: default}
spec: {prefix: /closed/, body: Back at noon.}
---
apiVersion: pages.example.com/v1
kind: RedirectList
metadata: {name: moved, namespace: default}
spec: {redirects: [{from: /old/, to: "https://www.example.com/new"}]}
---
apiVersion: pages.example.com/v1
kind: RedirectList
metadata: {name: fine, namespace: default}
spec: {redirects: [{from: /fine/, to: "https://www.example.com/fine"}]}
`

// TestPoliciesOnModules: policies hold for what modules read and for what they make. A denied object of a kind that only a module knows takes
// what was made of it along; a core object that a module makes is denied as one of the manifests would be, and its source is told.
func TestPoliciesOnModules(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	in := write("in/in.yaml", lowered)
	write("modules/lower.wasm", string(wasmtest.Example(t, "lower", "1.0.0")))
	rule := func(kind, condition string) string {
		return "# METADATA\n# title: A test\n# custom:\n#   severity: high\n#   match: {kinds: [" + kind + "]}\npackage chancery.admission.test\n\n" +
			"# METADATA\n# title: the rule\ndeny contains {\"msg\": \"not here\", \"path\": \"metadata.name\"} if " + condition + "\n"
	}
	for _, c := range []struct {
		name, rule    string
		gone, present []string
		object        string
	}{
		{name: "nothing", rule: rule("Host", `input.object.metadata.name == "other"`), present: []string{"Back at noon.", "/old/", "/fine/"}},
		{name: "the source of a fragment", rule: rule("MaintenancePage", `input.object.metadata.name == "noon"`),
			gone: []string{"Back at noon."}, present: []string{"/old/", "/fine/"}, object: "MaintenancePage"},
		{name: "the source of an object", rule: rule("RedirectList", `input.object.metadata.name == "moved"`),
			gone: []string{"/old/"}, present: []string{"Back at noon.", "/fine/"}, object: "RedirectList"},
		{name: "the object that was made", rule: rule("Mapping", `input.object.metadata.name == "redirect-moved-0"`),
			gone: []string{"/old/"}, present: []string{"Back at noon.", "/fine/"}, object: "redirect-moved-0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rules := t.TempDir()
			if err := os.WriteFile(filepath.Join(rules, "test.rego"), []byte(c.rule), 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{in, "--modules", filepath.Join(dir, "modules"), "--policies", rules, "--state-dir", filepath.Join(dir, "state")}
			code, out := runText(t, append([]string{"compile", "--emit", "ir"}, args...)...)
			for _, text := range c.gone {
				if strings.Contains(out, text) && strings.Contains(out, `"path":"`+text) || text == "Back at noon." && strings.Contains(out, text) {
					t.Errorf("%q goes on:\n%s", text, out)
				}
			}
			for _, text := range c.present {
				if !strings.Contains(out, text) {
					t.Errorf("%q does not go on:\n%s", text, out)
				}
			}
			if want := map[bool]int{true: exitErrors, false: exitFine}[c.object != ""]; code != want {
				t.Errorf("exit code %d, not %d", code, want)
			}
			if _, found := runText(t, append([]string{"check", "--envoy", "none"}, args...)...); c.object != "" && (!strings.Contains(found, "not here") || !strings.Contains(found, c.object)) {
				t.Errorf("check says:\n%s", found)
			}
		})
	}
}
