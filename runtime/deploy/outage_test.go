package deploy_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/runtime/deploy"
	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
	"github.com/chancery-gateway/chancery/snapshot/porttest"
)

// traffic asks for a path all the time and counts the answers that are not right.
func (g *gateway) traffic(path string) (wrong func() int64) {
	var all, bad atomic.Int64
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			default:
			}
			if status, body := g.get(path); status != 200 {
				if bad.Add(1) == 1 {
					g.t.Logf("the first wrong answer: %d %q", status, body)
				}
			}
			all.Add(1)
			time.Sleep(2 * time.Millisecond)
		}
	}()
	return func() int64 {
		close(done)
		<-ended
		g.t.Logf("%d requests, %d wrong answers", all.Load(), bad.Load())
		return bad.Load()
	}
}

// readiness returns what the program says of itself when it is asked whether it is ready.
func (g *gateway) readiness() string {
	g.t.Helper()
	r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/ambassador/v0/check_ready", g.health))
	if err != nil {
		g.t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return string(text)
}

// link is a network between the program and the API server that can be cut.
type link struct {
	t       testing.TB
	target  string
	address string

	mu       sync.Mutex
	listener net.Listener
	open     []net.Conn
}

func newLink(t testing.TB, target string) *link {
	t.Helper()
	l := &link{t: t, target: target, address: fmt.Sprintf("127.0.0.1:%d", porttest.Free(t, 1)[0])}
	l.mend()
	t.Cleanup(l.cut)
	return l
}

// mend lets connections through.
func (l *link) mend() {
	l.t.Helper()
	at, err := net.Listen("tcp", l.address)
	if err != nil {
		l.t.Fatal(err)
	}
	l.mu.Lock()
	l.listener = at
	l.mu.Unlock()
	go func() {
		for {
			from, err := at.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", l.target)
			if err != nil {
				from.Close()
				continue
			}
			l.mu.Lock()
			l.open = append(l.open, from, to)
			l.mu.Unlock()
			for _, pair := range [][2]net.Conn{{from, to}, {to, from}} {
				go func() {
					_, _ = io.Copy(pair[0], pair[1]) // until either end closes
					pair[0].Close()
				}()
			}
		}
	}()
}

// cut closes what is open and lets nothing through.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listener.Close()
	for _, c := range l.open {
		c.Close()
	}
	l.open = nil
}

// TestTroubleOfTheAPIServerCostsNoRequest: a network that is cut while objects change and what was watched from is forgotten
// (410 Gone), an API server that is killed, and a definition that is lost.
func TestTroubleOfTheAPIServerCostsNoRequest(t *testing.T) {
	t.Parallel()
	kubetest.Shared(t) // skips where there are no servers
	c, err := kubetest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	client := kubetest.NewClient(t, c.Config())
	client.Apply(string(deploy.CRDs))
	port := porttest.Free(t, 1)[0]
	address, at := backend(t, "one")
	mapping := func(name string) string {
		return fmt.Sprintf(`{apiVersion: getambassador.io/v3alpha1, kind: Mapping, metadata: {name: %[1]s}, spec: {hostname: "*", prefix: /%[1]s/, service: "http://%[2]s:%[3]d", rewrite: ""}}`, name, address, at)
	}
	client.Apply(fmt.Sprintf(`
{apiVersion: getambassador.io/v3alpha1, kind: Listener, metadata: {name: l}, spec: {port: %d, protocol: HTTP, securityModel: INSECURE, hostBinding: {namespace: {from: ALL}}}}
---
{apiVersion: getambassador.io/v3alpha1, kind: Host, metadata: {name: h}, spec: {hostname: "*", requestPolicy: {insecure: {action: Route}}}}
---
`, port) + mapping("m") + "\n---\n" + mapping("goes"))
	config := c.Config()
	network := newLink(t, strings.TrimPrefix(config.Host, "https://"))
	config.Host = "https://" + network.address
	g := entrypoint(t, config, port)
	g.ready()
	g.answers("/m/", 200, "one /m/")
	wrong := g.traffic("/m/")
	restart := func() {
		c.KillAPIServer()
		if err := c.StartAPIServer(); err != nil {
			t.Fatal(err)
		}
	}

	network.cut()
	for i := range 20 {
		client.Apply(mapping(fmt.Sprintf("meanwhile%d", i)))
	}
	client.Delete(mapping("goes"))
	restart() // it remembers nothing of what was watched from
	g.answers("/goes/", 200, "one")
	begun := time.Now()
	network.mend()
	g.answers("/goes/", 404, "")
	g.answers("/meanwhile19/", 200, "one")
	t.Logf("all that happened meanwhile is live %s after the network is back", time.Since(begun).Round(time.Millisecond))

	restart()
	client.Apply(mapping("restarted"))
	t.Logf("a Mapping made after a restart of the API server is live after %s", g.answers("/restarted/", 200, "one").Round(time.Millisecond))

	if err := c.Wipe("/registry/apiextensions.k8s.io/customresourcedefinitions/mappings.getambassador.io"); err != nil {
		t.Fatal(err)
	}
	kubetest.Eventually(t, patience, "the loss is reported", func(context.Context) bool { return strings.Contains(g.log.String(), "CH-KUBE-002") })
	g.answers("/m/", 200, "one")
	client.Apply(string(deploy.CRDs))
	client.Apply(mapping("again"))
	t.Logf("a Mapping made after the definition is back is live after %s", g.answers("/again/", 200, "one").Round(time.Millisecond))
	if wrong() > 0 {
		t.Error("requests failed")
	}
}

func TestRestartsWithoutAPIServer(t *testing.T) {
	t.Parallel()
	kubetest.Shared(t) // skips where there are no servers
	for name, outlives := range map[string]bool{"Envoy ends with Chancery": false, "Envoy outlives Chancery": true} {
		t.Run(name, func(t *testing.T) {
			c, err := kubetest.Start()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			client := kubetest.NewClient(t, c.Config())
			client.Apply(string(deploy.CRDs))
			port := porttest.Free(t, 1)[0]
			address, at := backend(t, "one")
			mapping := `{apiVersion: getambassador.io/v3alpha1, kind: Mapping, metadata: {name: %[1]s}, spec: {hostname: "*", prefix: /%[1]s/, service: "http://%[2]s:%[3]d", rewrite: ""}}`
			client.Apply(fmt.Sprintf(`
{apiVersion: getambassador.io/v3alpha1, kind: Listener, metadata: {name: l}, spec: {port: %d, protocol: HTTP, securityModel: INSECURE, hostBinding: {namespace: {from: ALL}}}}
---
{apiVersion: getambassador.io/v3alpha1, kind: Host, metadata: {name: h}, spec: {hostname: "*", requestPolicy: {insecure: {action: Route}}}}
---
`, port) + fmt.Sprintf(mapping, "m", address, at))
			var args []string
			if outlives {
				args = append(args, "--envoy-outlives")
			}
			g := entrypoint(t, c.Config(), port, args...)
			g.ready()
			g.answers("/m/", 200, "one /m/")
			kubetest.Eventually(t, patience, "the good state is on disk", func(context.Context) bool {
				files, _ := filepath.Glob(filepath.Join(g.state, "*", "last-good.xds"))
				return slices.ContainsFunc(files, func(f string) bool {
					text, err := os.ReadFile(f)
					return err == nil && bytes.Contains(text, []byte("/m/"))
				})
			})
			wrong := g.traffic("/m/")
			c.KillAPIServer()
			time.Sleep(time.Second)
			if !outlives && wrong() > 0 {
				t.Error("requests failed while the API server was away")
			}
			g.kill()
			if !outlives { // it dies with Chancery, but has sockets to close
				kubetest.Eventually(t, patience, "Envoy is gone", func(context.Context) bool {
					c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", g.admin))
					if err == nil {
						c.Close()
					}
					return err != nil
				})
			}
			begun := time.Now()
			g.start()
			g.answers("/m/", 200, "one /m/")
			t.Logf("answers %s after a restart without an API server", time.Since(begun).Round(time.Millisecond))
			g.ready()
			if said := g.readiness(); !strings.Contains(said, "last good state of an earlier run") {
				t.Errorf("what is served is not marked as stale: %q", said)
			}
			if err := c.StartAPIServer(); err != nil {
				t.Fatal(err)
			}
			client.Apply(fmt.Sprintf(mapping, "late", address, at))
			t.Logf("a Mapping made afterwards is live after %s", g.answers("/late/", 200, "one /late/").Round(time.Millisecond))
			kubetest.Eventually(t, patience, "what is served is not marked as stale any more", func(context.Context) bool {
				return !strings.Contains(g.readiness(), "last good state")
			})
			if outlives && wrong() > 0 {
				t.Error("requests failed")
			}
		})
	}
}
