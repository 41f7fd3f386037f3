package endtoend

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/chancery-gateway/chancery/runtime/command"
	"github.com/chancery-gateway/chancery/snapshot/porttest"
	"github.com/chancery-gateway/chancery/wasm/wasmtest"
)

// modulesOf returns what the diagnostics page says of modules.
func (g *gateway) modulesOf() (all []struct {
	Name      string
	Live      *struct{ Version, Digest string }
	Candidate *struct{ Digest, Stage, Version, Code, Reason string }
}) {
	g.t.Helper()
	r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/ambassador/v0/diag/?json=true&filter=modules", g.health))
	if err != nil {
		g.t.Fatal(err)
	}
	defer r.Body.Close()
	if r.StatusCode == http.StatusNotFound {
		return nil
	}
	if err := json.NewDecoder(r.Body).Decode(&all); err != nil {
		g.t.Fatal(err)
	}
	return all
}

// put puts a file into a folder at once.
func put(t testing.TB, path string, content []byte) {
	t.Helper()
	temp := filepath.Join(filepath.Dir(path), ".new")
	if err := os.WriteFile(temp, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temp, path); err != nil {
		t.Fatal(err)
	}
}

// TestModules: a module is put into the watched folder of a running Chancery, a request sees its effect; it is replaced while requests run, none
// of which fails; a worse one is refused with its reason while the live one goes on; one command rolls back.
func TestModules(t *testing.T) {
	const header = `{"settings": {"label": "team", "header": "x-team"}, "shadow": {}, "grant": {"phases": ["ir"], "reads": ["*"], "writes": [{"kind": "ir/VirtualHost"}], "namespaces": ["*"], "limits": {"milliseconds": 60000}}}`
	first := wasmtest.Example(t, "header", "1.0.0")
	second := wasmtest.Example(t, "header", "1.1.0", "header{settings.Header, value}", `header{settings.Header, "second " + value}`)
	worse := wasmtest.Example(t, "header", "1.2.0", "labels := map[origin]string{}", "labels := map[origin]string{}\n\tif len(in.Items) > 0 {\n\t\tpanic(\"worse\")\n\t}")
	lower := wasmtest.Example(t, "lower", "1.0.0")

	port := porttest.Free(t, 1)[0]
	b := newBackend(t, "b", nil)
	dir := t.TempDir()
	g := start(t, map[string]string{"base.yaml": join(
		object("Listener", "l", fmt.Sprintf("port: %d, protocol: HTTP, securityModel: XFP, hostBinding: {namespace: {from: ALL}}", port)),
		object("Host", "h", `hostname: "*", requestPolicy: {insecure: {action: Route}}`),
		strings.Replace(object("Mapping", "m", fmt.Sprintf(`hostname: "*", prefix: /, service: "127.0.0.1:%d", timeout_ms: 20000`, b.port)), "metadata: {", "metadata: {labels: {team: red}, ", 1),
		"apiVersion: pages.example.com/v1\nkind: MaintenancePage\nmetadata: {name: noon, namespace: default}\nspec: {hostname: \"*\", prefix: /closed/, body: Back at noon.}",
	)}, "--modules", dir)
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	team := func() string {
		a, err := ask(t, "GET", url+"/", "any.example.com", nil)
		if err != nil {
			return err.Error()
		}
		return a.header.Get("x-team")
	}
	eventually(t, "a request without modules", func() bool { return team() == "" && b.hits.Load() > 0 })

	put(t, filepath.Join(dir, "header.json"), []byte(header))
	put(t, filepath.Join(dir, "header.wasm"), first)
	eventually(t, "the module's effect", func() bool { return team() == "red" })

	var failed, asked atomic.Int64
	var why sync.Map
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for range 3 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				a, err := ask(t, "GET", url+"/", "any.example.com", nil)
				asked.Add(1)
				if err != nil || a.status != http.StatusOK || a.header.Get("x-team") == "" {
					failed.Add(1)
					why.Store(fmt.Sprint(err, a.status, a.header), true)
				}
			}
		})
	}
	put(t, filepath.Join(dir, "header.wasm"), second)
	eventually(t, "the second version's effect", func() bool { return team() == "second red" })
	put(t, filepath.Join(dir, "lower.wasm"), lower)
	eventually(t, "the lowered page", func() bool {
		r, err := http.Get(url + "/closed/x")
		if err != nil {
			return false
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		return err == nil && r.StatusCode == http.StatusServiceUnavailable && string(text) == "Back at noon."
	})

	live := ""
	put(t, filepath.Join(dir, "header.wasm"), worse)
	eventually(t, "the refusal", func() bool {
		for _, m := range g.modulesOf() {
			if m.Name == "header" && m.Candidate != nil && m.Candidate.Version == "1.2.0" && m.Candidate.Reason != "" && m.Live != nil {
				live = m.Live.Version + " " + m.Candidate.Stage + " " + m.Candidate.Reason
				return true
			}
		}
		return false
	})
	if !strings.HasPrefix(live, "1.1.0 shadow") || !strings.Contains(live, "worse") {
		t.Errorf("the live version and the reason: %s", live)
	}
	if got := team(); got != "second red" {
		t.Errorf("after the refusal x-team is %q", got)
	}
	run := func(args ...string) (int, string) {
		var out strings.Builder
		code := command.Run(t.Context(), append(append([]string{"chancery"}, args...), "--health-port", fmt.Sprint(g.health), "--state-dir", g.state), strings.NewReader(""), &out, &out)
		return code, out.String()
	}
	if code, text := run("status"); code != 0 || !strings.Contains(text, "module header 1.1.0") || !strings.Contains(text, "refused at shadow: 1.2.0") {
		t.Errorf("status says %d\n%s", code, text)
	}
	if code, text := run("module", "rollback", "header"); code != 0 {
		t.Errorf("rollback says %d\n%s", code, text)
	}
	eventually(t, "the first version's effect again", func() bool { return team() == "red" })
	close(stop)
	clients.Wait()
	if failed.Load() > 0 || asked.Load() < 50 {
		reasons := ""
		why.Range(func(k, _ any) bool { reasons += fmt.Sprintln(k); return true })
		t.Errorf("%d of %d requests failed:\n%s", failed.Load(), asked.Load(), reasons)
	}
	t.Logf("%d requests, none failed", asked.Load())
	if code, text := run("module", "rollback", "nobody"); code != 1 || !strings.Contains(text, "nobody") {
		t.Errorf("rolling back an unknown module says %d\n%s", code, text)
	}
}
