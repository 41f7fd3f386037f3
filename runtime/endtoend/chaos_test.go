package endtoend

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/runtime/command"
	"github.com/chancery-gateway/chancery/runtime/supervisor"
	"github.com/chancery-gateway/chancery/snapshot/porttest"
)

// TestMain lets this test's binary be the program itself, so that a test can kill it.
func TestMain(m *testing.M) {
	if os.Getenv("CHANCERY_TEST_PROGRAM") != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		os.Exit(command.Run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// mortal is a gateway whose program is a process of its own, and whose Envoy outlives it.
type mortal struct {
	*gateway
	args    []string
	state   string // the directory
	ads     int    // the port
	process *exec.Cmd
	output  *os.File // no pipe, which the Envoy that outlives the program would hold
}

func startMortal(t *testing.T, files map[string]string) *mortal {
	t.Helper()
	envoy, err := supervisor.Find(os.Getenv("CHANCERY_ENVOY"))
	if err != nil {
		if os.Getenv("CI") == "" {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	p := porttest.Free(t, 4)
	m := &mortal{gateway: &gateway{t: t, dir: t.TempDir(), health: p[0], admin: p[1]}, ads: p[3]}
	for name, content := range files {
		m.write(name, content)
	}
	if m.output, err = os.Create(t.TempDir() + "/log"); err != nil {
		t.Fatal(err)
	}
	m.state = t.TempDir()
	m.args = []string{"serve", m.dir, "--bind-address", "127.0.0.1", "--health-address", "127.0.0.1", "--health-port", strconv.Itoa(m.health), "--admin-port", strconv.Itoa(m.admin),
		"--ready-port", strconv.Itoa(p[2]), "--ads-address", fmt.Sprint("127.0.0.1:", p[3]), "--envoy-concurrency", "2", "--shutdown-grace", "1s",
		"--state-dir", m.state, "--envoy", envoy, "--envoy-outlives"}
	m.launch()
	t.Cleanup(func() {
		m.process.Process.Signal(syscall.SIGTERM)
		if err := m.process.Wait(); err != nil {
			t.Errorf("the program ends with %v", err)
		}
		if t.Failed() {
			text := m.said()
			t.Logf("log:\n%s", text[max(0, len(text)-12000):])
		}
	})
	m.ready()
	return m
}

func (m *mortal) launch() {
	m.t.Helper()
	self, err := os.Executable()
	if err != nil {
		m.t.Fatal(err)
	}
	m.process = exec.Command(self, m.args...)
	m.process.Env = append(os.Environ(), "CHANCERY_TEST_PROGRAM=1")
	m.process.Stderr = m.output
	if err := m.process.Start(); err != nil {
		m.t.Fatal(err)
	}
}

// said returns the log of all lives.
func (m *mortal) said() string {
	m.t.Helper()
	text, err := os.ReadFile(m.output.Name())
	if err != nil {
		m.t.Fatal(err)
	}
	return string(text)
}

func (m *mortal) ready() {
	m.t.Helper()
	eventually(m.t, "ready", func() bool {
		r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/ambassador/v0/check_ready", m.health))
		if err != nil {
			return false
		}
		r.Body.Close()
		return r.StatusCode == http.StatusOK
	})
}

// kill ends the program without a warning.
func (m *mortal) kill() {
	m.process.Process.Kill()
	m.process.Wait() // by the signal
}

// murder kills the program and starts it again.
func (m *mortal) murder(pause time.Duration) {
	m.t.Helper()
	m.kill()
	time.Sleep(pause)
	m.launch()
	m.ready()
}

// validator returns the process of the validating Envoy, 0 for none.
func (m *mortal) validator() int {
	r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/ambassador/v0/diag/?json=true", m.health))
	if err != nil {
		return 0
	}
	defer r.Body.Close()
	var all struct{ Validator struct{ PID int } }
	if json.NewDecoder(r.Body).Decode(&all) != nil {
		return 0
	}
	return all.Validator.PID
}

// socket is a WebSocket that stays open: what is written comes back.
func socket(ctx context.Context, t *testing.T, address, host, path string) func() error {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", path, host)
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("upgrade: %v %v", err, resp)
	}
	return func() error {
		defer conn.Close()
		for i := 0; ctx.Err() == nil; i++ {
			conn.SetDeadline(time.Now().Add(time.Minute))
			if _, err := fmt.Fprintf(conn, "%d\n", i); err != nil {
				return fmt.Errorf("after %d messages: %w", i, err)
			}
			if back, err := in.ReadString('\n'); err != nil || back != fmt.Sprintf("%d\n", i) {
				return fmt.Errorf("after %d messages: %q %w", i, back, err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		return nil
	}
}

// chaosTime is a quarter of a minute, a minute in CI, and what CHANCERY_SOAK says for `make soak`.
func chaosTime(t *testing.T) time.Duration {
	t.Helper()
	if text := os.Getenv("CHANCERY_SOAK"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if os.Getenv("CI") != "" {
		return time.Minute
	}
	return 15 * time.Second
}

// TestChaos edits at random, throws bad objects in, and kills the validator and the program itself, under constant traffic of every
// kind: nothing that was not edited fails, nothing refused reaches the traffic's Envoy, and no edit touches a listener.
func TestChaos(t *testing.T) {
	ports := porttest.Free(t, 2)
	a, b := newBackend(t, "a", nil), newBackend(t, "b", nil)
	backends := map[string]*backend{"a": a, "b": b}
	ca := newAuthority(t)
	slice := func(to string) string {
		return fmt.Sprintf("apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: eds-1, namespace: app, labels: {kubernetes.io/service-name: eds}}\naddressType: IPv4\nports: [{port: %d}]\nendpoints: [{addresses: [127.0.0.1]}]\n", backends[to].port)
	}
	mapping := func(name, host, path, to, more string) string {
		return object("Mapping", name, fmt.Sprintf(`hostname: "%s", prefix: %s, service: "127.0.0.1:%d"%s`, host, path, backends[to].port, more))
	}
	m := startMortal(t, map[string]string{
		"listeners.yaml": join(object("Listener", "clear", fmt.Sprintf("port: %d, protocol: HTTP, securityModel: XFP, hostBinding: {namespace: {from: ALL}}", ports[0])),
			object("Listener", "secure", fmt.Sprintf("port: %d, protocol: HTTPS, securityModel: XFP, hostBinding: {namespace: {from: ALL}}", ports[1]))),
		"hosts.yaml": join(object("Host", "web", "hostname: web.example.com, requestPolicy: {insecure: {action: Route}}"),
			object("Host", "tls", "hostname: tls.example.com, tlsSecret: {name: tls}")),
		"secret.yaml":    ca.secret("tls", "tls.example.com"),
		"still.yaml":     join(mapping("still-web", "web.example.com", "/still/", "a", ", allow_upgrade: [websocket], timeout_ms: 20000"), mapping("still-tls", "tls.example.com", "/still/", "b", ", timeout_ms: 20000")),
		"edited.yaml":    mapping("edited", "web.example.com", "/edited/", "a", ""),
		"service.yaml":   "apiVersion: v1\nkind: Service\nmetadata: {name: eds, namespace: app}\nspec: {ports: [{port: 80}]}\n",
		"endpoints.yaml": slice("a"),
		"eds.yaml":       object("Mapping", "eds", "hostname: web.example.com, prefix: /eds/, resolver: endpoint, service: eds"),
	})
	insecure := func() *tls.Config { return &tls.Config{InsecureSkipVerify: true, ServerName: "tls.example.com"} }
	web, secure := fmt.Sprintf("http://127.0.0.1:%d", ports[0]), fmt.Sprintf("https://127.0.0.1:%d", ports[1])
	probes := []*probe{
		{name: "kept connections", url: web + "/still/x", host: "web.example.com", backend: "a", path: "/x", client: &http.Client{Transport: &http.Transport{}}},
		{name: "new connections", url: web + "/still/x", host: "web.example.com", backend: "a", path: "/x", client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}},
		{name: "long responses", url: web + "/still/slow", host: "web.example.com", backend: "a", path: "/slow", client: &http.Client{Transport: &http.Transport{}}},
		{name: "responses that drip", url: web + "/still/drip", host: "web.example.com", backend: "a", path: "/drip", client: &http.Client{Transport: &http.Transport{}}},
		{name: "HTTP/2", url: secure + "/still/y", host: "tls.example.com", backend: "b", path: "/y", client: &http.Client{Transport: &http.Transport{TLSClientConfig: insecure(), ForceAttemptHTTP2: true}}},
		{name: "new TLS connections", url: secure + "/still/y", host: "tls.example.com", backend: "b", path: "/y", client: &http.Client{Transport: &http.Transport{TLSClientConfig: insecure(), DisableKeepAlives: true}}},
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var running sync.WaitGroup
	for _, p := range probes {
		p.client.Timeout = time.Minute
		eventually(t, p.name+" is answered", func() bool { return p.once() == "" })
		running.Go(func() { p.run(ctx) })
	}
	var broken error
	echo := socket(ctx, t, fmt.Sprintf("127.0.0.1:%d", ports[0]), "web.example.com", "/still/ws")
	running.Go(func() { broken = echo() })

	answered := func(path, backend string) func() bool {
		return func() bool {
			got, err := ask(t, "GET", web+path, "web.example.com", nil)
			return err == nil && got.status == 200 && got.echo.Backend == backend
		}
	}
	added, modified := m.stat("listener_manager.listener_added"), m.stat("listener_manager.listener_modified")
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 2))
	kinds := map[string]int{}
	length := chaosTime(t)
	begun := time.Now()
	var goroutines, heap float64
	for i := 0; time.Since(begun) < length || len(kinds) < 12; i++ {
		to := []string{"a", "b"}[r.IntN(2)]
		all := []string{"route", "cluster", "endpoint", "certificate", "host", "bad route", "bad certificate", "bad object", "broken file", "kill validator", "disconnect"}
		if time.Since(begun) < length/2 || kinds["kill program"] == 0 {
			all = append(all, "kill program")
		} else if goroutines == 0 {
			eventually(t, "all its parts are there", func() bool { return m.validator() > 0 && len(m.adsSockets()) > 0 })
			goroutines, heap = m.measure("go_goroutines"), m.measure("go_memstats_heap_inuse_bytes")
		}
		kind := all[r.IntN(len(all))]
		if i < len(all) {
			kind = all[i]
		}
		kinds[kind]++
		switch kind {
		case "route", "cluster":
			more := ""
			if kind == "cluster" {
				more = fmt.Sprintf(", connect_timeout_ms: %d", 2000+r.IntN(1000))
			}
			m.write("edited.yaml", mapping("edited", "web.example.com", "/edited/", to, more))
			eventually(t, "the route leads to the other backend", answered("/edited/x", to))
		case "endpoint":
			m.write("endpoints.yaml", slice(to))
			eventually(t, "the endpoints changed", answered("/eds/x", to))
		case "certificate":
			was, err := ask(t, "GET", secure+"/still/x", "tls.example.com", nil)
			if err != nil {
				t.Fatal(err)
			}
			m.write("secret.yaml", ca.secret("tls", "tls.example.com"))
			eventually(t, "the certificate is another", func() bool {
				now, err := ask(t, "GET", secure+"/still/x", "tls.example.com", nil)
				return err == nil && now.cert.SerialNumber.Cmp(was.cert.SerialNumber) != 0
			})
		case "host":
			name := fmt.Sprintf("host-%d", i)
			m.write("new-host.yaml", join(object("Host", "more", fmt.Sprintf("hostname: %s.example.com, requestPolicy: {insecure: {action: Route}}", name)),
				mapping("more", name+".example.com", "/", to, "")))
			eventually(t, "the new host is served", func() bool {
				got, err := ask(t, "GET", web+"/x", name+".example.com", nil)
				return err == nil && got.status == 200 && got.echo.Backend == to
			})
		case "bad route":
			m.write("bad.yaml", mapping("bad", "web.example.com", fmt.Sprintf("/bad-%d/", i), to, `, add_request_headers: {x-a: {value: "`+refusedByEnvoy+`"}}`))
			eventually(t, "the bad route is found", func() bool {
				return m.finding("CH-PROOF-010", "Mapping/bad")+m.finding("CH-PROOF-011", "Mapping/bad") != ""
			})
			m.remove("bad.yaml")
		case "bad certificate":
			m.write("secret.yaml", strings.Replace(ca.secret("tls", "tls.example.com"), "tls.key: ", "tls.key: AAAA", 1))
			eventually(t, "the bad certificate is found", func() bool { return m.finding("CH-PROOF-011", "Secret/tls") != "" })
			m.write("secret.yaml", ca.secret("tls", "tls.example.com"))
			eventually(t, "the finding is gone", func() bool { return m.finding("CH-PROOF-011", "Secret/tls") == "" })
		case "bad object":
			m.write("bad-object.yaml", object("Mapping", "worse", fmt.Sprintf(`hostname: web.example.com, prefix: "/still[%d(", prefix_regex: true, service: x`, i)))
		case "broken file":
			m.write("broken.yaml", []string{"a: [\n", mapping("mended", "web.example.com", "/mended/", to, "")}[i%2])
		case "disconnect":
			if m.disconnect() == 0 {
				kinds[kind]-- // Envoy is not connected at this moment
			}
		case "kill validator":
			if pid := m.validator(); pid > 0 {
				syscall.Kill(pid, syscall.SIGKILL) // may be gone
			}
		case "kill program":
			m.murder(time.Duration(r.IntN(500)) * time.Millisecond)
		}
	}
	cancel()
	running.Wait()
	if broken != nil {
		t.Errorf("WebSocket: %v", broken)
	}
	for _, p := range probes {
		if n := p.failed.Load(); n > 0 {
			t.Errorf("%s: %d of %d requests for what was not edited failed, the first: %s", p.name, n, p.asked.Load(), p.wrong())
		}
		t.Logf("%s: %d requests", p.name, p.asked.Load())
	}
	if kinds["disconnect"] == 0 {
		t.Error("no xDS connection was broken")
	}
	t.Logf("%v in %s: goroutines %.0f to %.0f, heap %.1f to %.1f MiB", kinds, time.Since(begun).Round(time.Second), goroutines, m.measure("go_goroutines"),
		heap/(1<<20), m.measure("go_memstats_heap_inuse_bytes")/(1<<20))
	// What works or ends just now goes; what was left behind does not.
	eventually(t, fmt.Sprintf("no more goroutines than the %.0f of half-time, and some", goroutines), func() bool { return m.measure("go_goroutines") <= goroutines+20 })
	eventually(t, fmt.Sprintf("a heap like the one of half-time, %.0f bytes", heap), func() bool { return m.measure("go_memstats_heap_inuse_bytes") <= 2*heap+(32<<20) })
	if n, k := m.stat("listener_manager.listener_added"), m.stat("listener_manager.listener_modified"); n != added || k != modified {
		t.Errorf("%d listeners were added and %d modified by edits of routes, clusters, endpoints and certificates", n-added, k-modified)
	}
	for _, refused := range []string{"listener_manager.lds.update_rejected", "cluster_manager.cds.update_rejected"} {
		if n := m.stat(refused); n != 0 {
			t.Errorf("%s is %d", refused, n)
		}
	}
	if strings.Contains(m.said(), "Envoy refuses a resource") {
		t.Error("something refused reached the traffic's Envoy")
	}
}
