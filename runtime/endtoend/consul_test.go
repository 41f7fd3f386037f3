package endtoend

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/snapshot/consul/consultest"
	"github.com/chancery-gateway/chancery/snapshot/porttest"
)

// metric reads one of the program's own numbers.
func (g *gateway) metric(name string) int {
	g.t.Helper()
	r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", g.health))
	if err != nil {
		g.t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^` + name + ` ([0-9.e+]+)$`).FindSubmatch(text)
	if m == nil {
		g.t.Fatalf("there is no %s", name)
	}
	n, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		g.t.Fatal(err)
	}
	return int(n)
}

// Services of a real Consul are answered from the first request on, follow it without a compile and without a failed
// request, and go on without it.
func TestConsul(t *testing.T) {
	agent := consultest.Start(t, "dc12")
	port := porttest.Free(t, 1)[0]
	ca := newAuthority(t)
	cert, key := ca.issue("web")
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	a, b := newBackend(t, "a", nil), newBackend(t, "b", nil)
	secure := newBackend(t, "secure", &tls.Config{Certificates: []tls.Certificate{pair}})
	agent.Register("web", "web-a", "127.0.0.1", "10.0.0.1", a.port, true)
	agent.Register("node", "node-a", "", "127.0.0.1", a.port, true)
	agent.Register("safe", "safe-a", "127.0.0.1", "10.0.0.1", secure.port, true)
	agent.Register("raw", "raw-a", "127.0.0.1", "10.0.0.1", a.port, true)
	tcp := porttest.Free(t, 1)[0]
	t.Setenv("CONSUL_WATCHER_PORT", agent.Address[len("127.0.0.1:"):])
	g := start(t, map[string]string{
		"a.yaml": join(object("Listener", "l", fmt.Sprintf("port: %d, protocol: HTTP, securityModel: INSECURE, hostBinding: {namespace: {from: ALL}}", port)),
			object("Host", "h", `hostname: "*", requestPolicy: {insecure: {action: Route}}`),
			object("ConsulResolver", "dc", `address: "127.0.0.1:$CONSUL_WATCHER_PORT", datacenter: dc12`),
			object("TLSContext", "ctx", `sni: web, ca_secret: web`),
			fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: web, namespace: app}\nstringData: {ca.crt: %q}\n", ca.pem()),
			object("Mapping", "web", `hostname: "*", prefix: /web/, service: web, resolver: dc, load_balancer: {policy: round_robin}`),
			object("Mapping", "node", `hostname: "*", prefix: /node/, service: node, resolver: dc, timeout_ms: 20000`),
			object("Mapping", "safe", `hostname: "*", prefix: /safe/, service: safe, resolver: dc, tls: ctx`),
			object("Mapping", "none", `hostname: "*", prefix: /none/, service: none, resolver: dc`),
			object("TCPMapping", "raw", fmt.Sprintf(`port: %d, service: raw, resolver: dc`, tcp))),
	})
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	by := func(path, backend string) bool {
		got, err := ask(t, "GET", url+path, "", nil)
		return err == nil && got.status == 200 && got.echo.Backend == backend
	}
	for path, backend := range map[string]string{"/web/x": "a", "/node/x": "a", "/safe/x": "secure"} {
		if !by(path, backend) {
			t.Errorf("%s is not answered by %s from the start", path, backend)
		}
	}
	if got, err := ask(t, "GET", fmt.Sprintf("http://127.0.0.1:%d/raw", tcp), "", nil); err != nil || got.echo.Backend != "a" {
		t.Errorf("TCP: %v %v", got, err)
	}
	if got, err := ask(t, "GET", url+"/none/x", "", nil); err != nil || got.status != 503 {
		t.Errorf("a service without instances: %v %v", got, err)
	}

	compiles, fast := g.metric("chancery_compiles_total"), g.metric("chancery_endpoint_updates_total")
	p := &probe{name: "node", url: url + "/node/y", backend: "a", path: "/y", client: &http.Client{Timeout: time.Minute}}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() { p.run(ctx) })
	for i := range 10 {
		now, id, before := b, "b", "a"
		if i%2 == 1 {
			now, id, before = a, "a", "b"
		}
		agent.Register("web", "web-"+id, "127.0.0.1", "10.0.0.1", now.port, true)
		agent.Deregister("web-" + before)
		eventually(t, "the instance is followed", func() bool {
			for range 4 {
				if !by("/web/x", id) {
					return false
				}
			}
			return true
		})
	}
	if n := g.metric("chancery_compiles_total") - compiles; n > 0 {
		t.Errorf("%d compiles for changes of endpoints", n)
	}
	if n := g.metric("chancery_endpoint_updates_total") - fast; n < 10 {
		t.Errorf("%d fast updates for 10 moves", n)
	}
	agent.Kill()
	time.Sleep(500 * time.Millisecond)
	if !by("/web/x", "a") {
		t.Error("without the agent its last answer does not count")
	}
	cancel()
	running.Wait()
	if n := p.failed.Load(); n > 0 {
		t.Errorf("%d of %d requests failed: %s", n, p.asked.Load(), p.wrong())
	}
	agent.Restart()
	agent.Register("web", "web-b", "127.0.0.1", "10.0.0.1", b.port, true)
	eventually(t, "the new agent is followed", func() bool { return by("/web/x", "b") })
}
