package command

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/chancery-gateway/chancery/wasm"
)

var labelName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// wanted holds the outcome of each phase's golden case.
//
//go:embed scaffold/*.json
var wanted embed.FS

// scaffold is what a new module of a phase starts with.
type scaffold struct{ reads, writes, code, request string }

var scaffolds = map[string]scaffold{
	"lower": {
		reads:  `"Greeting.example.com"`,
		writes: `{"kind": "ir/RouteFragment", "operations": ["add"], "namePrefix": "greeting-"}`,
		code: `// translate turns every Greeting into a route that answers with its text:
//
//	apiVersion: example.com/v1
//	kind: Greeting
//	metadata: {name: hello, namespace: default}
//	spec: {path: /hello, text: "Good morning."}
func translate(in *sdk.Input, out *sdk.Output) error {
	for _, item := range in.Of("Greeting.example.com") {
		var g struct {
			Spec struct {
				Path string ` + "`json:\"path\"`" + `
				Text string ` + "`json:\"text\"`" + `
			} ` + "`json:\"spec\"`" + `
		}
		if err := item.Decode(&g); err != nil {
			return err
		}
		if g.Spec.Path == "" {
			out.Error(item, "spec.path", "the path is missing", "as in /hello")
			continue
		}
		name := "greeting-" + item.Name
		out.Add("ir/RouteFragment", item.Namespace, name, map[string]any{
			"name": name, "hostname": "*",
			"route": map[string]any{
				"name":   name,
				"match":  map[string]any{"pathKind": "prefix", "path": g.Spec.Path},
				"direct": map[string]any{"status": 200, "body": g.Spec.Text},
			},
		}, item, "the answer of Greeting "+item.Name)
	}
	return nil
}
`,
		request: `{"phase": "lower", "unit": "Greeting.example.com", "items": [
  {"kind": "Greeting.example.com", "namespace": "default", "name": "hello",
   "value": {"apiVersion": "example.com/v1", "kind": "Greeting", "metadata": {"name": "hello", "namespace": "default"}, "spec": {"path": "/hello", "text": "Good morning."}}}
]}
`,
	},
	"ir": {
		reads:  `"ir/VirtualHost"`,
		writes: `{"kind": "ir/VirtualHost", "operations": ["patch"], "fields": ["/routes/*/responseHeaders"]}`,
		code: `// translate adds a response header to every route.
func translate(in *sdk.Input, out *sdk.Output) error {
	for _, item := range in.Of("ir/VirtualHost") {
		var host struct {
			Routes []struct {
				ResponseHeaders struct {
					Add []json.RawMessage ` + "`json:\"add\"`" + `
				} ` + "`json:\"responseHeaders\"`" + `
			} ` + "`json:\"routes\"`" + `
		}
		if err := item.Decode(&host); err != nil {
			return err
		}
		header := map[string]string{"name": "x-module", "value": "NAME"}
		var steps []sdk.Step
		for i, route := range host.Routes {
			if len(route.ResponseHeaders.Add) == 0 {
				steps = append(steps, sdk.Add(sdk.Path("routes", i, "responseHeaders"), map[string]any{"add": []any{header}}))
			} else {
				steps = append(steps, sdk.Add(sdk.Path("routes", i, "responseHeaders", "add", "-"), header))
			}
		}
		out.Patch(item, "every response says who made it", steps...)
	}
	return nil
}
`,
		request: `{"phase": "ir", "unit": "any", "items": [
  {"kind": "ir/VirtualHost", "name": "*", "value": {"name": "*", "domains": ["*"], "routes": [{"name": "r", "match": {"pathKind": "prefix", "path": "/"}, "direct": {"status": 200}, "origins": []}]}}
]}
`,
	},
	"xds": {
		reads:  `"xds/envoy.config.cluster.v3.Cluster"`,
		writes: `{"kind": "xds/envoy.config.cluster.v3.Cluster", "operations": ["patch"], "fields": ["/perConnectionBufferLimitBytes"]}`,
		code: `// translate bounds the buffer of every upstream connection.
func translate(in *sdk.Input, out *sdk.Output) error {
	for _, item := range in.Of("xds/envoy.config.cluster.v3.Cluster") {
		out.Patch(item, "upstream connections buffer at most 64 KiB", sdk.Add("/perConnectionBufferLimitBytes", 65536))
	}
	return nil
}
`,
		request: `{"phase": "xds", "unit": "any", "items": [
  {"kind": "xds/envoy.config.cluster.v3.Cluster", "name": "c", "value": {"name": "c", "connectTimeout": "3s"}}
]}
`,
	},
}

func (a *app) moduleNewCommand() *cobra.Command {
	var phase string
	c := &cobra.Command{
		Use:   "new DIR",
		Short: "Start a new module in Go: source, manifest, Makefile, test and a golden case",
		Long: `Writes a small module that works, to a new folder, with the SDK beside it: nothing else is fetched. "make" builds module.wasm with the standard
Go toolchain, "make test" runs its tests and golden cases.`,
		Example: `  chancery module new pages && cd pages && make test
  chancery module new team-header --phase ir`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("module new takes the folder to make; see %q", c.CommandPath()+" --help")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			s, known := scaffolds[phase]
			if !known {
				return usage("--phase %q is not known; right is lower, ir or xds", phase)
			}
			dir := args[0]
			name := filepath.Base(filepath.Clean(dir))
			if !labelName.MatchString(name) {
				return usage("%q is no name of a module: lower-case letters, digits and dashes", name)
			}
			if err := os.Mkdir(dir, 0o755); err != nil {
				return usage("%w", err)
			}
			self, err := os.Executable()
			if err != nil || strings.Contains(self, " ") {
				self = "chancery"
			}
			if err := s.write(dir, name, phase, self); err != nil {
				return failure("%w", err)
			}
			fmt.Fprintf(a.out, "%s is ready: cd %s && make test\n", dir, dir)
			return nil
		},
	}
	c.Flags().StringVar(&phase, "phase", "lower", "where it runs: lower (kinds of your own), ir (the linked program), xds (Envoy's resources)")
	return c
}

func (s scaffold) write(dir, name, phase, self string) error {
	extra := ""
	if strings.Contains(s.code, "json.") {
		extra = "\t\"encoding/json\"\n\n"
	}
	want, err := wanted.ReadFile("scaffold/" + phase + ".json")
	if err != nil {
		return err
	}
	files := map[string]string{
		"testdata/first/want.json": strings.ReplaceAll(string(want), "NAME", name),
		"main.go": "// " + name + " is a module for Chancery.\npackage main\n\nimport (\n" + extra + "\t\"github.com/chancery-gateway/chancery/wasm/sdk\"\n)\n\n" +
			"func main() {} // never runs: the module is a library\n\nfunc init() {\n\tsdk.Register(sdk.Translator{Translate: translate})\n}\n\n" + strings.ReplaceAll(s.code, "NAME", name),
		"main_test.go": `package main

import (
	"os"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/wasm/sdk"
)

// TestTranslate runs the translator natively, as any other Go code.
func TestTranslate(t *testing.T) {
	request, err := os.ReadFile("testdata/first/request.json")
	if err != nil {
		t.Fatal(err)
	}
	if answer := string(sdk.Run(request)); !strings.Contains(answer, "\"operations\"") {
		t.Errorf("the translator does nothing: %s", answer)
	}
}
`,
		"manifest.json": fmt.Sprintf(`{
  "abi": "1.0",
  "name": %q,
  "version": "0.1.0",
  "description": "What it does, in one sentence.",
  "features": ["json"],
  "phases": [%q],
  "reads": [%s],
  "writes": [%s]
}
`, name, phase, s.reads, s.writes),
		"Makefile": `CHANCERY ?= ` + self + `

module.wasm: $(wildcard *.go) manifest.json
	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -trimpath -ldflags "-s -w" -o $@ .
	$(CHANCERY) module pack $@ --manifest manifest.json

test: module.wasm
	go test .
	$(CHANCERY) module test .

clean:
	rm -f module.wasm

.PHONY: test clean
`,
		"go.mod":                      "module " + name + "\n\ngo 1.26\n\nrequire github.com/chancery-gateway/chancery v0.0.0\n\nreplace github.com/chancery-gateway/chancery => ./chancery\n",
		"chancery/go.mod":             "module github.com/chancery-gateway/chancery\n\ngo 1.26\n",
		"testdata/first/request.json": s.request,
	}
	err = fs.WalkDir(wasm.SDK, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := fs.ReadFile(wasm.SDK, path)
		files["chancery/wasm/"+path] = string(text)
		return err
	})
	if err != nil {
		return err
	}
	for path, text := range files {
		at := filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
