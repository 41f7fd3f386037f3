package deploy_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/runtime/deploy"
	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
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

func TestRestartsWithoutAPIServer(t *testing.T) {
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
			port := freePorts(t, 1)[0]
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
			time.Sleep(2 * time.Second) // until the good state is on disk
			wrong := g.traffic("/m/")
			c.KillAPIServer()
			time.Sleep(time.Second)
			if !outlives && wrong() > 0 {
				t.Error("requests failed while the API server was away")
			}
			g.kill()
			begun := time.Now()
			g.start()
			g.answers("/m/", 200, "one /m/")
			t.Logf("answers %s after a restart without an API server", time.Since(begun).Round(time.Millisecond))
			g.ready()
			if err := c.StartAPIServer(); err != nil {
				t.Fatal(err)
			}
			client.Apply(fmt.Sprintf(mapping, "late", address, at))
			t.Logf("a Mapping made afterwards is live after %s", g.answers("/late/", 200, "one /late/").Round(time.Millisecond))
			if outlives && wrong() > 0 {
				t.Error("requests failed")
			}
		})
	}
}
