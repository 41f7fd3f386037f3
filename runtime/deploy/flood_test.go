package deploy_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// soakVariable makes the tests of churn as long as it says, such as 10m; without it they take as long as continuous
// integration has the time for.
const soakVariable = "CHANCERY_SOAK"

// soak returns how long churn goes on.
func soak(t testing.TB, usual time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv(soakVariable)
	if text == "" {
		return usual
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s: %v", soakVariable, err)
	}
	return d
}

// TestPodsFlood changes 2,000 pods a minute: of a Service whose pods answer, each a slice of its own, and of one with a
// thousand pods in ten slices.
func TestPodsFlood(t *testing.T) {
	c, client, ns, port := bed(t)
	const perMinute, alive = 2000, 6
	address := ""
	var ports []int
	for range alive {
		var p int
		address, p = backend(t, "pod")
		ports = append(ports, p)
	}
	client.Apply(fmt.Sprintf(`
{apiVersion: v1, kind: Service, metadata: {name: quote, namespace: %[1]s}, spec: {ports: [{name: http, port: 80, targetPort: http}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: big, namespace: %[1]s}, spec: {ports: [{name: http, port: 80, targetPort: http}]}}
---
{apiVersion: getambassador.io/v3alpha1, kind: Mapping, metadata: {name: big, namespace: %[1]s}, spec: {hostname: "*", prefix: /big/, service: big, resolver: endpoint}}
`, ns) + "---" + fmt.Sprintf(oneMapping, ns, "always"))
	pod := func(i int) string { return fmt.Sprintf(slice, ns, fmt.Sprintf("pod-%d", i), address, ports[i%alive]) }
	crowd := func(s, round int) string {
		var all []string
		for i := range 100 {
			all = append(all, fmt.Sprintf("{addresses: [10.%d.%d.%d]}", 1+s, round%250, 1+i))
		}
		return fmt.Sprintf(`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: big-%d, namespace: %s, labels: {kubernetes.io/service-name: big}}, addressType: IPv4, ports: [{name: http, port: 8080, protocol: TCP}], endpoints: [%s]}`,
			s, ns, strings.Join(all, ", "))
	}
	for i := range alive {
		client.Apply(pod(i))
	}
	for s := range 10 {
		client.Apply(crowd(s, 0))
	}
	g := entrypoint(t, c.Config(), port, "--namespace", ns, "--single-namespace")
	g.ready()
	g.answers("/always/", 200, "pod")
	g.quiet()
	compiles, fast, work := g.metric("chancery_compiles_total"), g.metric("chancery_endpoint_updates_total"), g.stage("endpoints")
	before := g.memory()
	wrong := g.traffic("/always/")
	begun, changes := time.Now(), 0
	tick := time.NewTicker(time.Minute / perMinute)
	defer tick.Stop()
	oldest, next := 0, alive
	for long := soak(t, 15*time.Second); time.Since(begun) < long; <-tick.C {
		switch changes % 4 {
		case 0:
			client.Apply(pod(next))
			next++
		case 1:
			client.Delete(pod(oldest))
			oldest++
		default:
			client.Apply(crowd(changes/2%10, changes))
		}
		changes++
	}
	took := time.Since(begun)
	if wrong() > 0 {
		t.Error("requests failed")
	}
	g.quiet()
	n := g.metric("chancery_endpoint_updates_total") - fast
	t.Logf("%d changes in %s (%.0f a minute), %v updates of endpoints, %.3f ms of work each, memory %d MiB before and %d after", changes, took.Round(time.Millisecond),
		float64(changes)/took.Minutes(), n, 1000*(g.stage("endpoints")-work)/n, before, g.memory())
	if n == 0 {
		t.Error("endpoints were not updated")
	}
	if n := g.metric("chancery_compiles_total") - compiles; n != 0 {
		t.Errorf("%v compiles ran", n)
	}
}
