package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/wasmtest"
)

// objecting is a module that makes nothing of a MaintenancePage, but finds fault with the one that is called noon when it is asked.
func objecting() []byte {
	g := wasmtest.Guest{Manifest: wasmtest.Manifest(), Translate: wasmtest.Packed(0, 0),
		Answer: `{"diagnostics":[{"severity":"error","item":{"kind":"MaintenancePage.pages.example.com","namespace":"default","name":"noon"},"path":"spec.body","message":"the text is too short","help":"say more"}]}`}
	g.Validate = wasmtest.Packed(wasmtest.AnswerAt, uint32(len(g.Answer)))
	g.Manifest.Phases, g.Manifest.Reads = []abi.Phase{abi.Lower}, []string{"MaintenancePage.pages.example.com"}
	g.Manifest.Writes = []abi.Scope{{Kind: "ir/RouteFragment"}}
	return g.Bytes()
}

// TestValidateExport: check and the admission webhook ask a module's validate about objects of the kinds that it reads; a compile does not.
func TestValidateExport(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string][]byte{"modules/objecting.wasm": objecting(), "in/in.yaml": []byte(lowered)} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	flags := []string{"--modules", filepath.Join(dir, "modules"), "--state-dir", filepath.Join(dir, "state")}
	run := func(args ...string) (int, string) { t.Helper(); return runText(t, append(args, flags...)...) }
	in := filepath.Join(dir, "in")
	if code, out := run("check", in, "--envoy", "none"); code != exitErrors || strings.Count(out, "the text is too short") != 1 || !strings.Contains(out, "in.yaml:15") {
		t.Errorf("check exits with %d and says\n%s", code, out)
	}
	if code, out := run("compile", in, "--emit", "ir"); code != exitFine || strings.Contains(out, "too short") {
		t.Errorf("compile exits with %d and says\n%s", code, out)
	}
	review := func(name string) string {
		object := map[string]any{"apiVersion": "pages.example.com/v1", "kind": "MaintenancePage", "metadata": map[string]any{"name": name, "namespace": "default"}, "spec": map[string]any{"body": "x"}}
		text, err := json.Marshal(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": map[string]any{"uid": "1", "operation": "CREATE", "object": object}})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name+".json")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if code, out := run("check", "--admission-review", review("noon")); code != exitErrors || !strings.Contains(out, `"allowed": false`) || !strings.Contains(out, "spec.body: module objecting: the text is too short") {
		t.Errorf("the review of a bad object exits with %d and says\n%s", code, out)
	}
	if code, out := run("check", "--admission-review", review("other")); code != exitFine || !strings.Contains(out, `"allowed": true`) {
		t.Errorf("the review of a good object exits with %d and says\n%s", code, out)
	}
}
