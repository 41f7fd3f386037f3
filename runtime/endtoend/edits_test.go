package endtoend

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/snapshot/porttest"
)

// probe asks one URL all the time over connections that are kept, and counts what was not answered as it should be.
type probe struct {
	name          string
	url, host     string
	backend, path string
	client        *http.Client
	asked, failed atomic.Int64
	first         atomic.Pointer[string]
}

func (p *probe) run(ctx context.Context) {
	for ctx.Err() == nil {
		if wrong := p.once(); wrong != "" && ctx.Err() == nil {
			p.failed.Add(1)
			p.first.CompareAndSwap(nil, &wrong)
		}
		p.asked.Add(1)
		time.Sleep(2 * time.Millisecond)
	}
}

// wrong is the first answer that was not as it should be.
func (p *probe) wrong() string {
	if first := p.first.Load(); first != nil {
		return *first
	}
	return "none"
}

func (p *probe) once() string {
	r, err := http.NewRequest(http.MethodGet, p.url, nil)
	if err != nil {
		return err.Error()
	}
	r.Host = p.host
	resp, err := p.client.Do(r)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	var e echo
	if err := json.Unmarshal(body, &e); err != nil || resp.StatusCode != 200 || e.Backend != p.backend || e.Path != p.path {
		return fmt.Sprintf("%d %s", resp.StatusCode, body)
	}
	return ""
}

// TestEdits makes 200 random edits of the folder under constant traffic: what is not edited is never answered wrong, each
// edit takes effect, and edits of routes, endpoints and certificates never touch a listener.
func TestEdits(t *testing.T) {
	ports := porttest.Free(t, 2)
	clear, secure := ports[0], ports[1]
	a, b := newBackend(t, "a", nil), newBackend(t, "b", nil)
	backends := map[string]*backend{"a": a, "b": b}
	ca := newAuthority(t)
	slice := func(port int) string {
		return fmt.Sprintf("apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: eds-1, namespace: app, labels: {kubernetes.io/service-name: eds}}\naddressType: IPv4\nports: [{port: %d}]\nendpoints: [{addresses: [127.0.0.1]}]\n", port)
	}
	mapping := func(name, host, path, to string) string {
		return object("Mapping", name, fmt.Sprintf(`hostname: "%s", prefix: %s, service: "127.0.0.1:%d", timeout_ms: 20000`, host, path, backends[to].port))
	}
	g := start(t, map[string]string{
		"listeners.yaml": join(object("Listener", "clear", fmt.Sprintf("port: %d, protocol: HTTP, securityModel: XFP, hostBinding: {namespace: {from: ALL}}", clear)),
			object("Listener", "secure", fmt.Sprintf("port: %d, protocol: HTTPS, securityModel: XFP, hostBinding: {namespace: {from: ALL}}", secure))),
		"hosts.yaml": join(object("Host", "web", "hostname: web.example.com, requestPolicy: {insecure: {action: Route}}"),
			object("Host", "tls", "hostname: tls.example.com, tlsSecret: {name: tls}")),
		"secret.yaml":    ca.secret("tls", "tls.example.com"),
		"still.yaml":     join(mapping("still-web", "web.example.com", "/still/", "a"), mapping("still-tls", "tls.example.com", "/still/", "b")),
		"edited.yaml":    mapping("edited", "web.example.com", "/edited/", "a"),
		"service.yaml":   "apiVersion: v1\nkind: Service\nmetadata: {name: eds, namespace: app}\nspec: {ports: [{port: 80}]}\n",
		"endpoints.yaml": slice(a.port),
		"eds.yaml":       object("Mapping", "eds", "hostname: web.example.com, prefix: /eds/, resolver: endpoint, service: eds"),
	})
	insecure := &tls.Config{InsecureSkipVerify: true, ServerName: "tls.example.com"}
	httpURL, tlsURL := fmt.Sprintf("http://127.0.0.1:%d", clear), fmt.Sprintf("https://127.0.0.1:%d", secure)
	probes := []*probe{
		{name: "kept connections", url: httpURL + "/still/x", host: "web.example.com", backend: "a", path: "/x", client: &http.Client{Transport: &http.Transport{}}},
		{name: "new connections", url: httpURL + "/still/x", host: "web.example.com", backend: "a", path: "/x", client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}},
		{name: "TLS", url: tlsURL + "/still/y", host: "tls.example.com", backend: "b", path: "/y", client: &http.Client{Transport: &http.Transport{TLSClientConfig: insecure}}},
		{name: "HTTP/2", url: tlsURL + "/still/y", host: "tls.example.com", backend: "b", path: "/y", client: &http.Client{Transport: &http.Transport{TLSClientConfig: insecure.Clone(), ForceAttemptHTTP2: true}}},
		{name: "new TLS connections", url: tlsURL + "/still/y", host: "tls.example.com", backend: "b", path: "/y", client: &http.Client{Transport: &http.Transport{TLSClientConfig: insecure.Clone(), DisableKeepAlives: true}}},
	}
	for _, p := range probes {
		p.client.Timeout = time.Minute
		eventually(t, p.name+" is answered", func() bool { return p.once() == "" })
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var running sync.WaitGroup
	for _, p := range probes {
		running.Go(func() { p.run(ctx) })
	}

	served := func(url, host, backend string) func() bool {
		return func() bool {
			got, err := ask(t, "GET", url, host, nil)
			return err == nil && got.status == 200 && got.echo.Backend == backend
		}
	}
	answered := func(url, host string, status int) func() bool {
		return func() bool {
			got, err := ask(t, "GET", url, host, nil)
			return err == nil && got.status == status
		}
	}
	added, modified := g.stat("listener_manager.listener_added"), g.stat("listener_manager.listener_modified")
	r := rand.New(rand.NewPCG(1, 2))
	there, broken := map[string]bool{}, false
	kinds := map[string]int{}
	const edits = 200
	for i := range edits {
		to := []string{"a", "b"}[r.IntN(2)]
		kind := []string{"route", "endpoint", "certificate", "new route", "broken file", "bad object"}[r.IntN(6)]
		kinds[kind]++
		switch kind {
		case "route":
			g.write("edited.yaml", mapping("edited", "web.example.com", "/edited/", to))
			eventually(t, "the route leads to the other backend", served(httpURL+"/edited/x", "web.example.com", to))
		case "endpoint":
			g.write("endpoints.yaml", slice(backends[to].port))
			eventually(t, "the endpoints changed", served(httpURL+"/eds/x", "web.example.com", to))
		case "certificate":
			cert, _ := ask(t, "GET", tlsURL+"/still/x", "tls.example.com", nil)
			g.write("secret.yaml", ca.secret("tls", "tls.example.com"))
			eventually(t, "the certificate is another", func() bool {
				now, err := ask(t, "GET", tlsURL+"/still/x", "tls.example.com", nil)
				return err == nil && now.cert.SerialNumber.Cmp(cert.cert.SerialNumber) != 0
			})
		case "new route":
			n := fmt.Sprintf("new-%d", r.IntN(5))
			if there[n] {
				g.remove(n + ".yaml")
				eventually(t, "the route is gone", answered(httpURL+"/"+n+"/x", "web.example.com", 404))
			} else {
				g.write(n+".yaml", mapping(n, "web.example.com", "/"+n+"/", to))
				eventually(t, "the new route is served", served(httpURL+"/"+n+"/x", "web.example.com", to))
			}
			there[n] = !there[n]
		case "broken file":
			text := "a: [\n"
			if broken {
				text = mapping("mended", "web.example.com", "/mended/", to)
			}
			g.write("broken.yaml", text)
			if broken {
				eventually(t, "the mended file is served", served(httpURL+"/mended/x", "web.example.com", to))
			}
			broken = !broken
		case "bad object":
			g.write("bad.yaml", object("Mapping", "bad", fmt.Sprintf(`hostname: web.example.com, prefix: "/bad[%d(", prefix_regex: true, service: x`, i)))
		}
	}
	cancel()
	running.Wait()
	for _, p := range probes {
		if n := p.failed.Load(); n > 0 || p.asked.Load() < edits {
			t.Errorf("%s: %d of %d requests for what was not edited failed, the first: %s", p.name, n, p.asked.Load(), p.wrong())
		}
		t.Logf("%s: %d requests", p.name, p.asked.Load())
	}
	t.Logf("edits: %v", kinds)
	if n := g.stat("listener_manager.listener_added"); n != added {
		t.Errorf("%d listeners were added", n-added)
	}
	if n := g.stat("listener_manager.listener_modified"); n != modified {
		t.Errorf("%d listener updates came from edits of routes, endpoints and certificates", n-modified)
	}
	for _, refused := range []string{"listener_manager.lds.update_rejected", "cluster_manager.cds.update_rejected"} {
		if n := g.stat(refused); n != 0 {
			t.Errorf("%s is %d", refused, n)
		}
	}
}
