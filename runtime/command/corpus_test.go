package command

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// corpusFrame is what the sound object of each broken input hangs on.
const corpusFrame = `apiVersion: getambassador.io/v3alpha1
kind: Listener
metadata: {name: frame, namespace: frame}
spec: {port: 8080, protocol: HTTP, securityModel: XFP, hostBinding: {namespace: {from: ALL}}}
---
apiVersion: getambassador.io/v3alpha1
kind: Host
metadata: {name: frame, namespace: frame}
spec: {hostname: "*", requestPolicy: {insecure: {action: Route}}}
---
apiVersion: getambassador.io/v3alpha1
kind: Mapping
metadata: {name: sound, namespace: frame}
spec: {hostname: "*", prefix: /sound/, service: web}
`

// TestCorpus compiles each broken input beside sound ones: one clear finding, the right exit code, no panic, and
// everything else in the output.
func TestCorpus(t *testing.T) {
	quiet(t)
	type input struct{ name, content, code string }
	var inputs []input
	files, err := filepath.Glob("../../testdata/broken/*.want")
	objects, failed := filepath.Glob("../../testdata/broken/objects/*.want")
	if len(files) < 30 || len(objects) < 20 {
		t.Fatalf("corpus: %d files and %d objects, %v", len(files), len(objects), errors.Join(err, failed))
	}
	files = append(files, objects...)
	for _, want := range files {
		code, err := os.ReadFile(want)
		if err != nil {
			t.Fatal(err)
		}
		found, err := filepath.Glob(strings.TrimSuffix(want, ".want") + ".[yj]*")
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: %v, %v", want, found, err)
		}
		content, err := os.ReadFile(found[0])
		if err != nil {
			t.Fatal(err)
		}
		id, _, _ := strings.Cut(strings.TrimSpace(string(code)), ":")
		inputs = append(inputs, input{filepath.Base(found[0]), string(content), id})
	}
	inputs = append(inputs,
		input{"deep nesting", "apiVersion: getambassador.io/v3alpha1\nkind: Mapping\nmetadata: {name: bad}\nspec: {labels: " + strings.Repeat("[", 500) + strings.Repeat("]", 500) + "}\n", "CH-FILE-"},
		input{"10 MB", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: big}\ndata:\n" + strings.Repeat("  - "+strings.Repeat("x", 1000)+"\n", 10_000) + "  a: [\n", "CH-FILE-"},
	)
	for _, in := range inputs {
		t.Run(in.name, func(t *testing.T) {
			dir, out := t.TempDir(), t.TempDir()
			for name, content := range map[string]string{"frame.yaml": corpusFrame, "input" + filepath.Ext("x"+in.name): in.content} {
				if !strings.HasSuffix(name, ".json") && !strings.HasSuffix(name, ".yaml") {
					name = "input.yaml"
				}
				if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			code, _, errs := call(t, "", "compile", dir, "-o", out)
			var doc struct {
				Diagnostics []struct {
					Severity, Code, Message string
					Object                  struct{ Position string }
				}
			}
			text, err := os.ReadFile(filepath.Join(out, "diagnostics.json"))
			if err != nil {
				t.Fatalf("exit code %d: %v\n%s", code, err, errs)
			}
			if err := json.Unmarshal(text, &doc); err != nil {
				t.Fatal(err)
			}
			grave, matching := 0, 0
			for _, d := range doc.Diagnostics {
				if d.Severity == "info" && !strings.HasPrefix(d.Code, in.code) {
					continue
				}
				if d.Severity == "error" {
					grave++
				}
				matching++
				if !strings.HasPrefix(d.Code, in.code) || d.Message == "" || !strings.HasPrefix(filepath.Base(d.Object.Position), "input.") {
					t.Errorf("finding %+v, want code %s at a line of the input", d, in.code)
				}
			}
			if matching != 1 {
				t.Errorf("%d findings: %s", matching, text)
			}
			if want := min(grave, 1); code != want {
				t.Errorf("exit code %d, want %d", code, want)
			}
			static, err := os.ReadFile(filepath.Join(out, "static.json"))
			if err != nil || !strings.Contains(string(static), `"/sound/"`) {
				t.Errorf("the sound object is not in the output: %v", err)
			}
		})
	}
}
