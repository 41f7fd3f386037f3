package endtoend

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/runtime/command"
	"github.com/chancery-gateway/chancery/snapshot/porttest"
	"github.com/chancery-gateway/chancery/wasm"
	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/trust"
	"github.com/chancery-gateway/chancery/wasm/wasmtest"
)

// pageModule is a module that answers /closed/ with a text for the MaintenancePage noon.
func pageModule(version, body string, change func(*wasmtest.Guest)) []byte {
	g := wasmtest.Guest{Manifest: wasmtest.Manifest(), Answer: fmt.Sprintf(`{"operations":[{"op":"add","kind":"ir/RouteFragment","namespace":"default","name":"noon",`+
		`"value":{"name":"noon","hostname":"*","route":{"name":"noon","match":{"pathKind":"prefix","path":"/closed/"},"direct":{"status":503,"body":%q}}},`+
		`"origin":{"kind":"MaintenancePage.pages.example.com","namespace":"default","name":"noon"},"reason":"a test"}]}`, body)}
	g.Manifest.Name, g.Manifest.Version, g.Manifest.Phases = "page", version, []abi.Phase{abi.Lower}
	g.Manifest.Reads, g.Manifest.Writes = []string{"MaintenancePage.pages.example.com"}, []abi.Scope{{Kind: "ir/RouteFragment"}}
	if change != nil {
		change(&g)
	}
	return g.Bytes()
}

// TestRefusedModules offers a running Chancery bad versions of a live module, one for each way of being bad. Each is refused at its stage, with
// the reason in the status, on the diagnostics page and on the command line; the live one keeps its digest, and requests their answers.
func TestRefusedModules(t *testing.T) {
	keys, strangers := t.TempDir(), t.TempDir()
	signer := func(dir string) func([]byte) []byte {
		private, public, err := trust.GenerateKey()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "key.pub"), public, 0o600); err != nil {
			t.Fatal(err)
		}
		key, err := trust.ParsePrivateKey(private)
		if err != nil {
			t.Fatal(err)
		}
		return func(module []byte) []byte {
			info, err := wasm.Inspect(module)
			if err != nil {
				return nil // it is refused before anyone looks at the signature
			}
			signature, err := trust.Sign(key, wasm.StatementOf(info), nil)
			if err != nil {
				t.Fatal(err)
			}
			return signature
		}
	}
	sign, forge := signer(keys), signer(strangers)

	port := porttest.Free(t, 1)[0]
	b := newBackend(t, "b", nil)
	dir := t.TempDir()
	offer := func(name string, module, signature []byte) {
		put(t, filepath.Join(dir, name+".wasm.sig"), signature)
		put(t, filepath.Join(dir, name+".wasm"), module)
	}
	offer("page", pageModule("1.0.0", "count-0", nil), sign(pageModule("1.0.0", "count-0", nil)))
	put(t, filepath.Join(dir, "header.json"), []byte(`{"settings": {"label": "team", "header": "x-team"}, "shadow": {"maxChanged": 1}, "grant": {"phases": ["ir"], "reads": ["*"], "writes": [{"kind": "ir/VirtualHost"}], "namespaces": ["*"], "limits": {"milliseconds": 60000}}}`))
	header := wasmtest.Example(t, "header", "1.0.0")
	offer("header", header, sign(header))
	labelled := func(name, host string) string {
		return strings.Replace(object("Mapping", name, fmt.Sprintf(`hostname: %s, prefix: /, service: "127.0.0.1:%d"`, host, b.port)), "metadata: {", "metadata: {labels: {team: red}, ", 1)
	}
	files := []string{
		object("Listener", "l", fmt.Sprintf("port: %d, protocol: HTTP, securityModel: XFP, hostBinding: {namespace: {from: ALL}}", port)),
		"apiVersion: pages.example.com/v1\nkind: MaintenancePage\nmetadata: {name: noon, namespace: default}\nspec: {}\n",
	}
	for _, name := range []string{"a", "b", "c"} {
		files = append(files, object("Host", name, fmt.Sprintf(`hostname: %s.example.com, requestPolicy: {insecure: {action: Route}}`, name)), labelled(name, name+".example.com"))
	}
	g := start(t, map[string]string{"base.yaml": join(files...)}, "--modules", dir, "--module-keys", keys)
	served := func() (closed, team string) {
		r, err := http.NewRequest("GET", fmt.Sprintf("http://127.0.0.1:%d/closed/x", port), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "a.example.com"
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return err.Error(), ""
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			return err.Error(), ""
		}
		a, err := ask(t, "GET", fmt.Sprintf("http://127.0.0.1:%d/", port), "a.example.com", nil)
		if err != nil {
			return err.Error(), ""
		}
		return fmt.Sprint(answer.StatusCode, " ", string(text)), a.header.Get("x-team")
	}
	eventually(t, "the effects of the good modules", func() bool { closed, team := served(); return closed == "503 count-0" && team == "red" })
	live := func(name string) string {
		for _, m := range g.modulesOf() {
			if m.Name == name && m.Live != nil {
				return m.Live.Digest
			}
		}
		return ""
	}
	digests := map[string]string{"page": live("page"), "header": live("header")}

	good := pageModule("1.0.1", "other", nil)
	counted := func(g *wasmtest.Guest) {
		g.Translate = wasmtest.Counting(g.Answer, strings.Index(g.Answer, "count-")+len("count-"))
	}
	second := wasmtest.Example(t, "header", "1.1.0", "header{settings.Header, value}", `header{settings.Header, "second " + value}`)
	for _, c := range []struct {
		what, module, version, stage, code string
		binary, signature                  []byte
	}{
		{what: "a signature of a stranger", version: "1.0.1", stage: "verify", code: "CH-WASM-006", binary: good, signature: forge(good)},
		{what: "a signature of another module", version: "1.0.1", stage: "verify", code: "CH-WASM-005", binary: good, signature: sign(pageModule("1.0.1", "else", nil))},
		{what: "an ABI that nobody knows", stage: "inspect", code: "CH-WASM-025",
			binary: pageModule("1.0.2", "", func(g *wasmtest.Guest) { g.Manifest.ABI = "9.0" })},
		{what: "a trap in self_test", version: "1.0.3", stage: "self_test", code: "CH-WASM-040",
			binary: pageModule("1.0.3", "", func(g *wasmtest.Guest) { g.SelfTest = wasmtest.Trap })},
		{what: "a self_test that never ends", version: "1.0.4", stage: "self_test", code: "CH-WASM-042",
			binary: pageModule("1.0.4", "", func(g *wasmtest.Guest) { g.SelfTest, g.Manifest.Limits.Milliseconds = wasmtest.Spin, 20 })},
		{what: "an answer that is no JSON", version: "1.0.5", stage: "shadow", code: "CH-WASM-049",
			binary: pageModule("1.0.5", "", func(g *wasmtest.Guest) { g.Answer = "no" })},
		{what: "a write outside of the scope", version: "1.0.6", stage: "shadow", code: "CH-WASM-061",
			binary: pageModule("1.0.6", "", func(g *wasmtest.Guest) { g.Manifest.Writes[0].NamePrefix = "page-" })},
		{what: "another answer each time", version: "1.0.7", stage: "shadow", code: "CH-WASM-071", binary: pageModule("1.0.7", "count-0", counted)},
		{what: "a result that the compiler cannot take", version: "1.0.8", stage: "shadow", code: "CH-WASM-063",
			binary: pageModule("1.0.8", "", func(g *wasmtest.Guest) { g.Answer = strings.Replace(g.Answer, `"prefix"`, `"sideways"`, 1) })},
		{what: "too large a change", module: "header", version: "1.1.0", stage: "shadow", code: "CH-WASM-072", binary: second},
	} {
		t.Run(c.what, func(t *testing.T) {
			if c.module == "" {
				c.module = "page"
			}
			if c.signature == nil {
				c.signature = sign(c.binary)
			}
			digest := wasm.DigestOf(c.binary)
			offer(c.module, c.binary, c.signature)
			var last string
			defer func() {
				if t.Failed() {
					t.Log(last)
				}
			}()
			eventually(t, "the refusal on the diagnostics page", func() bool {
				for _, m := range g.modulesOf() {
					if m.Name != c.module || m.Candidate == nil {
						continue
					}
					text, err := json.Marshal(m)
					if err != nil {
						t.Fatal(err)
					}
					last = string(text)
					if n := m.Candidate; n.Digest == digest.String() && n.Version == c.version && n.Stage == c.stage && n.Code == c.code && n.Reason != "" {
						return true
					}
				}
				return false
			})
			for name, was := range digests {
				if now := live(name); now != was {
					t.Errorf("the live digest of %s was %s and is %s", name, was, now)
				}
			}
			var out strings.Builder
			if code := command.Run(t.Context(), []string{"chancery", "status", "--health-port", fmt.Sprint(g.health), "--state-dir", g.state}, strings.NewReader(""), &out, &out); code != 0 {
				t.Errorf("status exits with %d", code)
			}
			if want := fmt.Sprintf("refused at %s: %s", c.stage, c.version); !strings.Contains(out.String(), want) || !strings.Contains(out.String(), c.code) {
				t.Errorf("status does not say %q with %s:\n%s", want, c.code, out.String())
			}
			eventually(t, "the finding", func() bool {
				return strings.Contains(g.log.String(), fmt.Sprintf("(%s) is refused at %s: %s", digest.Short(), c.stage, c.code))
			})
			if closed, team := served(); closed != "503 count-0" || team != "red" {
				t.Errorf("requests are answered with %q and %q", closed, team)
			}
		})
	}
}
