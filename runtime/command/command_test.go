package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// working is a small working input.
const working = `apiVersion: getambassador.io/v3alpha1
kind: Listener
metadata: {name: clear, namespace: default}
spec:
  port: 8080
  protocol: HTTP
  securityModel: XFP
  hostBinding: {namespace: {from: ALL}}
---
apiVersion: getambassador.io/v3alpha1
kind: Host
metadata: {name: shop, namespace: default}
spec:
  hostname: shop.example.com
  requestPolicy: {insecure: {action: Route}}
---
apiVersion: getambassador.io/v3alpha1
kind: Mapping
metadata: {name: shop, namespace: default}
spec:
  hostname: shop.example.com
  prefix: /shop/
  service: 127.0.0.1:9000
`

// brokenMapping is one more object, with an error.
const brokenMapping = `---
apiVersion: getambassador.io/v3alpha1
kind: Mapping
metadata: {name: broken, namespace: default}
spec:
  hostname: shop.example.com
  prefix: /broken(
  prefix_regex: true
  rewrite: ""
  service: 127.0.0.1:9000
`

// call runs one command line with Envoy switched off unless args say otherwise.
func call(t *testing.T, stdin string, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = Run(t.Context(), append([]string{"chancery"}, args...), strings.NewReader(stdin), &o, &e)
	return code, o.String(), e.String()
}

func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// quiet keeps the machine's own settings out of a test.
func quiet(t *testing.T) {
	t.Helper()
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if name != "CHANCERY_ENVOY" && (strings.HasPrefix(name, "CHANCERY_") || strings.HasPrefix(name, "AMBASSADOR_")) {
			t.Setenv(name, "")
		}
	}
	t.Setenv("CHANCERY_STATE_DIR", t.TempDir())
	t.Setenv("KUBECONFIG", "/no/such")
}

func TestExitCodes(t *testing.T) {
	quiet(t)
	good, bad := writeFile(t, "good.yaml", working), writeFile(t, "bad.yaml", working+brokenMapping)
	unused := writeFile(t, "warn.yaml", working+"  prefixx: /\n")
	for _, c := range []struct {
		name string
		args []string
		code int
		out  string // what standard output says
		err  string // what standard error says
	}{
		{"help", []string{"--help"}, 0, "Available Commands", ""},
		{"nothing", nil, 0, "Available Commands", ""},
		{"unknown command", []string{"chek", good}, 2, "", `unknown command "chek", did you mean "check"`},
		{"unknown flag", []string{"check", "--frob", good}, 2, "", "unknown flag: --frob; see \"chancery check --help\""},
		{"bad setting", []string{"check", "--health-port", "x", good}, 2, "", `flag --health-port: setting "health-port": "x" is no whole number`},

		{"check good", []string{"check", "--envoy", "none", good}, 0, "", "no findings; "},
		{"check bad", []string{"check", "--envoy", "none", bad}, 1, "Mapping/default/broken", "1 error; "},
		{"check no path", []string{"check"}, 2, "", "check needs at least one PATH"},
		{"check missing path", []string{"check", "--envoy", "none", "/no/such"}, 2, "", "/no/such"},
		{"check format", []string{"check", "--format", "xml", good}, 2, "", `--format "xml" is not known`},
		{"check missing Envoy", []string{"check", "--envoy", "/no/envoy", good}, 2, "", `envoy "/no/envoy" cannot be run`},
		{"check warning", []string{"check", "--envoy", "none", unused}, 0, "warning", "1 warning"},
		{"check warning fails", []string{"check", "--envoy", "none", "--fail-on-warning", unused}, 4, "warning", ""},
		{"check error before warning", []string{"check", "--envoy", "none", "--fail-on-warning", bad, unused}, 1, "", ""},

		{"compile", []string{"compile", good}, 0, `"staticResources"`, ""},
		{"compile bad", []string{"compile", bad}, 1, `"staticResources"`, "Mapping/default/broken"},
		{"compile nothing", []string{"compile"}, 2, "", "compile needs at least one PATH"},
		{"compile part", []string{"compile", "--emit", "soup", good}, 2, "", `--emit "soup" is not known; right is one of static, bootstrap`},
		{"compile format", []string{"compile", "--format", "xml", good}, 2, "", "right is json or yaml"},
		{"compile both", []string{"compile", "-o", t.TempDir(), "--emit", "ir", good}, 2, "", "leave out --emit"},
		{"compile into a file", []string{"compile", "-o", good, good}, 3, "", "writing the result"},

		{"explain request", []string{"explain", good, "--", "GET", "http://shop.example.com:8080/shop/x", "-H", "host: shop.example.com"}, 0, "Mapping/default/shop", ""},
		{"explain default method", []string{"explain", good, "--", "http://shop.example.com:8080/none"}, 0, "404", ""},
		{"explain header", []string{"explain", good, "--", "http://x:8080/", "-H", "host: shop.example.com", "-Hx-a: b"}, 0, "shop.example.com", ""},
		{"explain nothing", []string{"explain", good}, 2, "", "needs a request after"},
		{"explain no path", []string{"explain", "--", "GET", "http://x/"}, 2, "", "explain needs at least one PATH"},
		{"explain over errors", []string{"explain", bad, "--", "GET", "http://shop.example.com:8080/shop/x"}, 1, "", "1 of the input's findings are errors"},
		{"explain bad URL", []string{"explain", good, "--", "GET", "shop"}, 2, "", "not absolute"},
		{"explain bad header", []string{"explain", good, "--", "http://x/", "-H", "nothing"}, 2, "", "has no colon"},
		{"explain header without value", []string{"explain", good, "--", "http://x/", "-H"}, 2, "", "-H needs a value"},
		{"explain option", []string{"explain", good, "--", "-k", "http://x/"}, 2, "", `only -H is an option, not "-k"`},
		{"explain too much", []string{"explain", good, "--", "a", "b", "c"}, 2, "", "[METHOD] URL"},
		{"explain object", []string{"explain", good, "--object", "mapping/default/shop"}, 0, "prefix /shop/ → forward to", ""},
		{"explain object JSON", []string{"explain", good, "--object", "Host/shop", "--format", "json"}, 0, `"kind": "virtual host"`, ""},
		{"explain no object", []string{"explain", good, "--object", "Mapping/x"}, 2, "", `no object "Mapping/x"`},
		{"explain both", []string{"explain", good, "--object", "Mapping/x", "--", "http://x/"}, 2, "", "not both"},
		{"explain format", []string{"explain", good, "--object", "Mapping/shop", "--format", "xml"}, 2, "", "right is text or json"},

		{"diff same", []string{"diff", good, good}, 0, "no difference", ""},
		{"diff", []string{"diff", good, bad}, 1, "Mapping.getambassador.io/default/broken", "new: "},
		{"diff one", []string{"diff", good}, 2, "", "diff needs two PATHs"},
		{"diff two stdin", []string{"diff", "-", "-"}, 2, "", "only one of the two"},
		{"diff format", []string{"diff", "--format", "xml", good, good}, 2, "", "right is text or json"},

		{"settings", []string{"settings", "--drain-time", "7s"}, 0, "flag --drain-time", ""},
		{"settings JSON", []string{"settings", "--format", "json"}, 0, `"name": "ambassador-id"`, ""},
		{"settings format", []string{"settings", "--format", "xml"}, 2, "", "right is text or json"},
		{"settings argument", []string{"settings", "x"}, 2, "", "takes no arguments"},
		{"version", []string{"version"}, 0, "chancery " + Version, ""},
		{"version JSON", []string{"version", "--format", "json", "--envoy", "none"}, 0, `"envoy": "none"`, ""},
		{"version format", []string{"version", "--format", "xml"}, 2, "", "right is text or json"},
		{"completion", []string{"completion", "bash"}, 0, "bash completion", ""},

		{"status of nobody", []string{"status", "--health-port", "1", "--health-address", "127.0.0.1"}, 3, "", "no Chancery answers on 127.0.0.1:1"},
		{"status format", []string{"status", "--format", "xml"}, 2, "", "right is text or json"},
		{"serve nothing", []string{"serve"}, 2, "", "serve needs at least one PATH"},
		{"serve stdin", []string{"serve", "--envoy", "none", "-"}, 2, "", "standard input cannot be watched"},
		{"serve missing path", []string{"serve", "--envoy", "none", "/no/such"}, 2, "", "/no/such"},
		{"serve missing Envoy", []string{"serve", "--envoy", "/no/envoy", good}, 2, "", "cannot be run"},
		{"entrypoint", []string{"entrypoint"}, 2, "", "entrypoint needs a Kubernetes cluster"},
		{"entrypoint with a path", []string{"entrypoint", "x"}, 2, "", "takes no arguments"},
		{"apiext", []string{"apiext"}, 2, "", "apiext needs a Kubernetes cluster"},
		{"apiext of two", []string{"apiext", "a", "b"}, 2, "", "apiext takes one SERVICE, found 2: a b"},
		{"apiext selector", []string{"apiext", "a", "--crd-label-selector", "a b"}, 2, "", "right is a=b,c=d"},
		{"kubestatus", []string{"kubestatus", "Mapping"}, 2, "", "kubestatus needs a Kubernetes cluster"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := call(t, "", c.args...)
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if !strings.Contains(out, c.out) {
				t.Errorf("standard output has no %q", c.out)
			}
			if !strings.Contains(errs, c.err) {
				t.Errorf("standard error has no %q", c.err)
			}
			if t.Failed() {
				t.Logf("standard output:\n%s\nstandard error:\n%s", out, errs)
			}
		})
	}
}

func TestNameOfProgramPicksCommand(t *testing.T) {
	quiet(t)
	for name, want := range map[string]struct {
		code int
		text string
	}{
		"/usr/bin/version": {0, "chancery " + Version},
		"entrypoint":       {2, "entrypoint needs a Kubernetes cluster"},
		"/usr/bin/apiext":  {2, "apiext needs a Kubernetes cluster"},
		"other":            {0, "Available Commands"},
	} {
		var out bytes.Buffer
		code := Run(t.Context(), []string{name}, strings.NewReader(""), &out, &out)
		if code != want.code || !strings.Contains(out.String(), want.text) {
			t.Errorf("%s: exit code %d, %q", name, code, out.String())
		}
	}
}

func TestHiddenCommandsAreNotListed(t *testing.T) {
	_, out, _ := call(t, "", "--help")
	for _, name := range []string{"demo", "codes"} {
		if strings.Contains(out, "\n  "+name) {
			t.Errorf("%s is listed", name)
		}
	}
}

func TestCompileWritesAllParts(t *testing.T) {
	quiet(t)
	dir := filepath.Join(t.TempDir(), "deep/out")
	code, out, errs := call(t, working+brokenMapping, "compile", "-o", dir, "--timings", "-")
	if code != exitErrors || out != "" {
		t.Fatalf("exit code %d, %q, %q", code, out, errs)
	}
	for name, mode := range map[string]os.FileMode{"static": 0o600, "ads": 0o600, "bootstrap": 0o644, "clustermap": 0o644, "ir": 0o644, "diagnostics": 0o644} {
		path := filepath.Join(dir, name+".json")
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(data) || !bytes.HasSuffix(data, []byte("\n")) {
			t.Errorf("%s is no JSON text", name)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != mode {
			t.Errorf("%s has mode %v, want %v", name, info.Mode().Perm(), mode)
		}
		_, printed, _ := call(t, working+brokenMapping, "compile", "--emit", name, "-")
		if printed != string(data) {
			t.Errorf("--emit %s prints other bytes than -o writes", name)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != len(emitted) {
		t.Errorf("left over: %v", entries)
	}
	var diagnostics struct {
		Diagnostics []struct {
			Severity, Code, Path, Message string
			Object                        struct{ Kind, Namespace, Name, Position, APIVersion string }
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, "diagnostics.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &diagnostics); err != nil {
		t.Fatal(err)
	}
	if len(diagnostics.Diagnostics) != 1 {
		t.Fatalf("diagnostics %s", data)
	}
	d := diagnostics.Diagnostics[0]
	if d.Severity != "error" || d.Path != "spec.prefix" || d.Object.Name != "broken" || d.Object.APIVersion != "getambassador.io/v3alpha1" || !strings.HasSuffix(d.Object.Position, ":30") {
		t.Errorf("diagnostic %+v", d)
	}
	lines := strings.Split(strings.TrimSpace(errs), "\n")
	var times map[string]int
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &times); err != nil {
		t.Fatalf("last line of standard error: %v: %q", err, lines)
	}
	if times["totalNanos"] <= 0 || times["objects"] < 4 || times["resources"] == 0 {
		t.Errorf("timings %v", times)
	}
}

func TestYAMLSaysTheSame(t *testing.T) {
	quiet(t)
	_, asYAML, errs := call(t, working, "compile", "--emit", "ir", "--format", "yaml", "-")
	if !strings.Contains(asYAML, "\nlisteners:\n") {
		t.Errorf("YAML %s\n%s", asYAML, errs)
	}
}

func TestCheckFormats(t *testing.T) {
	quiet(t)
	path := writeFile(t, "bad.yaml", working+brokenMapping)
	for format, want := range map[string]string{
		"text": path + ":30: error: ", "json": `"position": "` + path + ":30", "junit": `failures="1"`, "sarif": `"startLine": 30`,
		"github": "::error file=" + path + ",line=30,", "tap": "not ok 1 - ",
	} {
		code, out, _ := call(t, "", "check", "--envoy", "none", "--format", format, path)
		if code != exitErrors || !strings.Contains(out, want) {
			t.Errorf("%s: exit code %d, no %q in\n%s", format, code, want, out)
		}
	}
}

// TestCheckAsksEnvoy takes a program that stands in for Envoy, for what a real one never refuses of ours.
func TestCheckAsksEnvoy(t *testing.T) {
	quiet(t)
	path := writeFile(t, "good.yaml", working)
	refuses := `echo "error initializing configuration '$4': listener default/clear is not to its taste" >&2; exit 1`
	for name, c := range map[string]struct {
		script    string
		code      int
		out, errs string
	}{
		"content": {"exit 0", exitFine, "", "no findings"},
		"refuses": {refuses, exitErrors, path + ":1: error: listener default/clear is not to its taste [CH-PROOF-001]\n    in Listener/default/clear", "1 error"},
		"crashes": {"kill -SEGV $$", exitFailure, "", "asking Envoy"},
	} {
		envoy := writeFile(t, "envoy", "#!/bin/sh\n"+c.script+"\n")
		if err := os.Chmod(envoy, 0o700); err != nil {
			t.Fatal(err)
		}
		code, out, errs := call(t, "", "check", "--envoy", envoy, path)
		if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(errs, c.errs) {
			t.Errorf("%s: exit code %d\n%s%s", name, code, out, errs)
		}
	}
}

// TestCheckWithRealEnvoy has the quickstart proved.
func TestCheckWithRealEnvoy(t *testing.T) {
	findEnvoy(t)
	quiet(t)
	dir := t.TempDir()
	certificate(t, dir)
	code, out, errs := call(t, "", "check", "--timings", "../../testdata/quickstart", dir)
	var times map[string]int
	lines := strings.Split(strings.TrimSpace(errs), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &times); err != nil {
		t.Fatal(err)
	}
	if code != exitFine || out != "" || times["validateNanos"] == 0 {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
}

func TestInterruptedCompile(t *testing.T) {
	quiet(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	code := Run(ctx, []string{"chancery", "compile", "-"}, strings.NewReader(working), &out, &errs)
	if code != exitFailure || !strings.Contains(errs.String(), "interrupted") {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
}

func TestCodesPageIsFresh(t *testing.T) {
	page, err := os.ReadFile("../CODES.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != codesPage() {
		t.Error("runtime/CODES.md is out of date; run `make generate`")
	}
}

func TestQuickstartIsClean(t *testing.T) {
	quiet(t)
	dir := t.TempDir()
	certificate(t, dir)
	code, out, errs := call(t, "", "check", "--envoy", "none", "../../testdata/quickstart", dir)
	if code != exitFine || out != "" {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
}

// TestCheckNamesWhatEnvoyRefuses has several faults found in one run, each with its object and field, that only Envoy can find.
func TestCheckNamesWhatEnvoyRefuses(t *testing.T) {
	findEnvoy(t)
	quiet(t)
	text := working
	for i, value := range []string{"%REQ(a?b?c)%", "%PROTOCOL(x)%"} {
		text += fmt.Sprintf("\n---\napiVersion: getambassador.io/v3alpha1\nkind: Mapping\nmetadata: {name: bad-%d}\nspec: {hostname: \"*\", prefix: /bad-%d/, service: echo, add_request_headers: {x-a: {value: \"%s\"}}}\n", i, i, value)
	}
	code, out, errs := call(t, "", "check", writeFile(t, "bad.yaml", text))
	for _, want := range []string{"Mapping/default/bad-0 spec.add_request_headers.x-a.value", "More than 1 alternative header", "Mapping/default/bad-1", "PROTOCOL does not take any parameters", "CH-PROOF-010"} {
		if code != exitErrors || !strings.Contains(out, want) {
			t.Errorf("exit code %d, no %q in\n%s%s", code, want, out, errs)
		}
	}
}
