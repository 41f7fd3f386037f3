package endtoend

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/runtime/command"
	"github.com/chancery-gateway/chancery/runtime/supervisor"
	"github.com/chancery-gateway/chancery/snapshot/porttest"
)

// probeOf asks check_alive or check_ready; 0 when nobody answers.
func (g *gateway) probeOf(name string) (int, string) {
	r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/ambassador/v0/check_%s", g.health, name))
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	text, _ := io.ReadAll(r.Body)
	return r.StatusCode, strings.TrimSpace(string(text))
}

func (g *gateway) envoyPID() int {
	r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/ambassador/v0/diag/?filter=envoy_status", g.health))
	if err != nil {
		return 0
	}
	defer r.Body.Close()
	var status struct{ Process struct{ PID int } }
	if json.NewDecoder(r.Body).Decode(&status) != nil {
		return 0
	}
	return status.Process.PID
}

// TestAliveAndReady: ready means that an Envoy has acknowledged the first proven configuration and serves now; alive means that Chancery
// itself works, whatever becomes of Envoy.
func TestAliveAndReady(t *testing.T) {
	real, err := supervisor.Find(os.Getenv("CHANCERY_ENVOY"))
	if err != nil {
		if os.Getenv("CI") == "" {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	// The traffic's Envoy starts when the file is there.
	dir := t.TempDir()
	script, gate := filepath.Join(dir, "envoy"), filepath.Join(dir, "gate")
	text := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in *chancery-validator-*) ;; *drain-time*) while [ ! -e %s ]; do sleep 0.05; done;; esac\nexec %s \"$@\"\n", gate, real)
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	p := porttest.Free(t, 4)
	b := newBackend(t, "b", nil)
	g := &gateway{t: t, dir: t.TempDir(), health: p[0], admin: p[1], log: &buffer{}, code: make(chan int, 1)}
	g.write("base.yaml", join(object("Listener", "l", fmt.Sprintf("port: %d, protocol: HTTP, securityModel: XFP, hostBinding: {namespace: {from: ALL}}", p[2])),
		object("Host", "h", `hostname: "*", requestPolicy: {insecure: {action: Route}}`),
		object("Mapping", "m", fmt.Sprintf(`hostname: "*", prefix: /, service: "127.0.0.1:%d"`, b.port))))
	ctx, end := context.WithCancel(context.Background())
	defer end()
	go func() {
		g.code <- command.Run(ctx, []string{"chancery", "serve", g.dir, "--bind-address", "127.0.0.1", "--health-address", "127.0.0.1", "--health-port", strconv.Itoa(g.health),
			"--admin-port", strconv.Itoa(g.admin), "--ready-port", strconv.Itoa(p[3]), "--ads-address", "127.0.0.1:0", "--envoy-concurrency", "1", "--envoy", script,
			"--drain-time", "60s", "--shutdown-grace", "50s", "--state-dir", t.TempDir()}, strings.NewReader(""), io.Discard, g.log)
	}()
	is := func(alive, ready int, why string) func() bool {
		return func() bool {
			a, _ := g.probeOf("alive")
			r, text := g.probeOf("ready")
			return a == alive && r == ready && strings.Contains(text, why)
		}
	}
	eventually(t, "the configuration waits for Envoy", is(200, 503, "waiting for Envoy to acknowledge the first configuration"))
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "ready", is(200, 200, "are ready"))

	pid := 0
	eventually(t, "Envoy's process is told of", func() bool { pid = g.envoyPID(); return pid > 0 })
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an Envoy that stands still is not ready", is(200, 503, "does not answer"))
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	eventually(t, "ready again", is(200, 200, ""))
	g.write("bad.yaml", "a: [\n")
	g.write("worse.yaml", object("Mapping", "worse", `hostname: "*", prefix: "/[", prefix_regex: true, service: x`))
	eventually(t, "the fault is found", func() bool { return strings.Contains(g.log.String(), "Mapping/app/worse") })
	if !is(200, 200, "")() {
		t.Error("bad input makes it unready")
	}
	if err := os.Remove(gate); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "without Envoy it is alive, not ready", is(200, 503, ""))
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "ready with another Envoy", is(200, 200, ""))

	// The end: first nobody is sent here any more, then the listeners drain, and the request in flight comes to its end.
	url := fmt.Sprintf("http://127.0.0.1:%d", p[2])
	long, kept := make(chan int, 1), &http.Client{Transport: &http.Transport{}}
	hits := b.hits.Load()
	go func() {
		once := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		r, err := once.Get(url + "/drip")
		if err != nil {
			long <- 0
			return
		}
		defer r.Body.Close()
		if _, err := io.ReadAll(r.Body); err != nil {
			long <- 1
			return
		}
		long <- r.StatusCode
	}()
	eventually(t, "a request is in flight", func() bool { return b.hits.Load() > hits })
	r, err := kept.Get(url + "/kept")
	if err != nil || r.Close {
		t.Fatalf("a kept connection: %v", err)
	}
	io.Copy(io.Discard, r.Body)
	r.Body.Close()
	end()
	eventually(t, "not ready, with the reason", is(200, 503, "ending"))
	eventually(t, "Envoy's own check fails", func() bool {
		r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/ready", p[3]))
		if err != nil {
			return true
		}
		defer r.Body.Close()
		return r.StatusCode == http.StatusServiceUnavailable
	})
	if r, err := kept.Get(url + "/kept"); err == nil { // it is still answered, and told to go elsewhere
		if r.StatusCode != 200 || !r.Close {
			t.Errorf("while it drains: %s, close %v", r.Status, r.Close)
		}
		r.Body.Close()
	}
	kept.CloseIdleConnections()
	select {
	case status := <-long:
		if status != 200 {
			t.Errorf("the request in flight: %d", status)
		}
	case <-time.After(2 * time.Minute):
		t.Error("the request in flight never ends")
	}
	select {
	case code := <-g.code:
		if code != 0 {
			t.Errorf("the program ends with %d", code)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("the program does not end")
	}
	if text := g.log.String(); strings.Contains(text, "it is killed") {
		t.Errorf("log:\n%s", text)
	}
}
