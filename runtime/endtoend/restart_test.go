package endtoend

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/snapshot/porttest"
)

// TestHotRestart: a setting that Envoy reads at its start, and then SIGHUP, have it restarted hot under traffic; not one request fails.
// Without a base id the same change is told of.
func TestHotRestart(t *testing.T) {
	port := porttest.Free(t, 1)[0]
	b := newBackend(t, "b", nil)
	module := func(size int) string {
		return object("Module", "ambassador", fmt.Sprintf("config: {regex_max_size: %d}", size))
	}
	files := map[string]string{
		"base.yaml": join(object("Listener", "l", fmt.Sprintf("port: %d, protocol: HTTP, securityModel: XFP, hostBinding: {namespace: {from: ALL}}", port)),
			object("Host", "h", `hostname: "*", requestPolicy: {insecure: {action: Route}}`),
			object("Mapping", "m", fmt.Sprintf(`hostname: "*", prefix: /, service: "127.0.0.1:%d", timeout_ms: 20000`, b.port))),
		"module.yaml": module(300),
	}
	traffic := func(ctx context.Context, wait *sync.WaitGroup) []*probe {
		url := fmt.Sprintf("http://127.0.0.1:%d/x", port)
		probes := []*probe{
			{name: "kept connections", url: url, host: "web.example.com", backend: "b", path: "/x", client: &http.Client{Transport: &http.Transport{}}},
			{name: "new connections", url: url, host: "web.example.com", backend: "b", path: "/x", client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}},
			{name: "long responses", url: strings.Replace(url, "/x", "/slow", 1), host: "web.example.com", backend: "b", path: "/slow", client: &http.Client{Transport: &http.Transport{}}},
		}
		for _, p := range probes {
			eventually(t, p.name+" is answered", func() bool { return p.once() == "" })
			wait.Go(func() { p.run(ctx) })
		}
		return probes
	}
	t.Run("cold", func(t *testing.T) {
		g := start(t, files)
		eventually(t, "it is served", func() bool { return b.hits.Load() >= 0 && g.finding("CH-RUN-001", "Module/ambassador") == "" })
		g.write("module.yaml", module(400))
		eventually(t, "the finding", func() bool { return strings.Contains(g.finding("CH-RUN-001", "Module/ambassador"), "--envoy-base-id") })
		g.write("module.yaml", module(300))
		eventually(t, "the finding is gone", func() bool { return g.finding("CH-RUN-001", "Module/ambassador") == "" })
	})
	t.Run("hot", func(t *testing.T) {
		g := start(t, files, "--envoy-base-id", fmt.Sprint(30_000+os.Getpid()%10_000), "--drain-time", "6s")
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var running sync.WaitGroup
		probes := traffic(ctx, &running)
		epoch := func(is string) func() bool {
			return func() bool { return strings.Contains(g.envoy("/server_info"), `"restart_epoch": `+is) }
		}
		eventually(t, "the first Envoy tells its epoch", epoch("0"))
		// 300 instructions are allowed, this needs a hundred more: Envoy is not shown it before it has the setting.
		large := object("Mapping", "large", fmt.Sprintf(`hostname: "*", prefix: "/(%s|y)", prefix_regex: true, service: "127.0.0.1:%d", add_request_headers: {x-told: {value: large}}`, strings.Repeat("z", 390), b.port))
		g.write("large.yaml", large)
		g.write("module.yaml", module(400))
		eventually(t, "the second Envoy serves", epoch("1"))
		eventually(t, "it has the setting", func() bool { return strings.Contains(g.envoy("/runtime"), `"400"`) })
		eventually(t, "what needs the setting is served", func() bool {
			a, err := ask(t, "GET", fmt.Sprintf("http://127.0.0.1:%d/%s", port, strings.Repeat("z", 390)), "web.example.com", nil)
			return err == nil && fmt.Sprint(a.echo.Header["X-Told"]) == "[large]" && g.finding("CH-PROOF-010", "Mapping/large") == ""
		})
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the third Envoy serves", epoch("2"))
		time.Sleep(time.Second)
		cancel()
		running.Wait()
		for _, p := range probes {
			if n := p.failed.Load(); n > 0 {
				t.Errorf("%s: %d of %d requests failed, the first: %s", p.name, n, p.asked.Load(), p.wrong())
			}
			t.Logf("%s: %d requests", p.name, p.asked.Load())
		}
		if text := g.finding("CH-RUN-001", "Module/ambassador"); text != "" {
			t.Errorf("finding %s", text)
		}
	})
}

// envoy asks Envoy's admin interface, "" when it does not answer.
func (g *gateway) envoy(path string) string {
	r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", g.admin, path))
	if err != nil {
		return ""
	}
	defer r.Body.Close()
	text, _ := io.ReadAll(r.Body) // another Envoy may take its place now
	return string(text)
}
