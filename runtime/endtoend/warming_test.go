package endtoend

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/snapshot/porttest"
	"github.com/chancery-gateway/chancery/xds"
)

// TestASlowServiceHoldsUpNobody: while the cluster of a new Mapping waits for a health check that is never answered, other edits are
// live, and what the Mapping replaces still serves.
func TestASlowServiceHoldsUpNobody(t *testing.T) {
	port := porttest.Free(t, 1)[0]
	a, b := newBackend(t, "a", nil), newBackend(t, "b", nil)
	deaf, err := net.Listen("tcp", "127.0.0.1:0") // connections wait for ever
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	mapping := func(name string, to int, more string) string {
		return object("Mapping", name, fmt.Sprintf(`hostname: "*", prefix: /%s/, service: "127.0.0.1:%d"%s`, name, to, more))
	}
	g := start(t, map[string]string{
		"base.yaml": join(object("Listener", "l", fmt.Sprintf("port: %d, protocol: HTTP, securityModel: XFP, hostBinding: {namespace: {from: ALL}}", port)),
			object("Host", "h", `hostname: "*", requestPolicy: {insecure: {action: Route}}`)),
		"service.yaml": join("apiVersion: v1\nkind: Service\nmetadata: {name: deaf, namespace: app}\nspec: {ports: [{port: 80}]}\n",
			fmt.Sprintf("apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: deaf-1, namespace: app, labels: {kubernetes.io/service-name: deaf}}\naddressType: IPv4\nports: [{port: %d}]\nendpoints: [{addresses: [127.0.0.1]}]\n", deaf.Addr().(*net.TCPAddr).Port)),
		"slow.yaml":  mapping("slow", a.port, ""),
		"other.yaml": mapping("other", a.port, ""),
	})
	served := func(path string, by string) func() bool {
		return func() bool {
			got, err := ask(t, "GET", fmt.Sprintf("http://127.0.0.1:%d/%s/", port, path), "any.example.com", nil)
			return err == nil && got.status == 200 && got.echo.Backend == by
		}
	}
	eventually(t, "both are served", func() bool { return served("slow", "a")() && served("other", "a")() })
	begun := time.Now()
	g.write("slow.yaml", object("Mapping", "slow", `hostname: "*", prefix: /slow/, resolver: endpoint, service: deaf, `+
		`health_checks: [{timeout: 600s, interval: 600s, health_check: {http: {path: /health}}}]`))
	eventually(t, "the new cluster is being warmed", func() bool { return g.stat("cluster_manager.warming_clusters") == 1 })
	for i := range 3 {
		by := []*backend{b, a}[i%2]
		g.write("other.yaml", mapping("other", by.port, ""))
		eventually(t, "the other edit is live", served("other", by.name))
		name := fmt.Sprint("new-", i)
		g.write(name+".yaml", mapping(name, by.port, ""))
		eventually(t, "a new Mapping is live", served(name, by.name))
		if !served("slow", "a")() && time.Since(begun) < xds.DefaultBarrierTimeout { // after which nothing waits any more
			t.Error("what is to be replaced is not served")
		}
	}
	if g.stat("cluster_manager.warming_clusters") != 1 {
		t.Error("the cluster is not being warmed any more: nothing was shown")
	}
}
