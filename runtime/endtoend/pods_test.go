package endtoend

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/snapshot/porttest"
)

// pod is one short-lived server at an address of its own.
type pod struct {
	address string
	server  *http.Server
	born    time.Time
	// met is the time from birth to the first request, in nanoseconds.
	met atomic.Int64
}

func newPod(t *testing.T, number, port int, service string) *pod {
	t.Helper()
	p := &pod{address: fmt.Sprintf("127.%d.%d.%d", 1+number/62500, 1+number/250%250, 1+number%250)}
	l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", p.address, port))
	if err != nil {
		t.Fatal(err)
	}
	p.born = time.Now()
	p.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.met.CompareAndSwap(0, int64(time.Since(p.born)))
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(echo{Backend: service, Path: r.URL.Path})
	})}
	go p.server.Serve(l)
	return p
}

// TestPodsComeAndGo: two thousand pods a minute come, and as many go, behind twenty services under traffic. No compile runs, no
// request fails, and endpoints follow on the fast path.
func TestPodsComeAndGo(t *testing.T) {
	const services, each, every = 20, 4, 29 * time.Millisecond
	length := 8 * time.Second
	if os.Getenv("CI") != "" {
		length = 30 * time.Second
	}
	ports := porttest.Free(t, 2)
	name := func(i int) string { return fmt.Sprintf("s%02d", i) }
	slice := func(i int, pods []*pod) string {
		var all []string
		for _, p := range pods {
			all = append(all, fmt.Sprintf("{addresses: [%s]}", p.address))
		}
		return fmt.Sprintf("apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: %[1]s-1, namespace: app, labels: {kubernetes.io/service-name: %[1]s}}\naddressType: IPv4\nports: [{port: %[2]d}]\nendpoints: [%[3]s]\n",
			name(i), ports[1], strings.Join(all, ", "))
	}
	files := map[string]string{"base.yaml": join(object("Listener", "l", fmt.Sprintf("port: %d, protocol: HTTP, securityModel: XFP, hostBinding: {namespace: {from: ALL}}", ports[0])),
		object("Host", "h", `hostname: "*", requestPolicy: {insecure: {action: Route}}`))}
	alive := make([][]*pod, services)
	var old []*pod
	count := 0
	born := func(i int) {
		alive[i] = append(alive[i], newPod(t, count, ports[1], name(i)))
		count++
	}
	for i := range services {
		for range each {
			born(i)
		}
		files["service-"+name(i)+".yaml"] = fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: %s, namespace: app}\nspec: {ports: [{port: 80}]}\n", name(i))
		files["mapping-"+name(i)+".yaml"] = object("Mapping", name(i), fmt.Sprintf(`hostname: "*", prefix: /%[1]s/, resolver: endpoint, service: %[1]s, timeout_ms: 20000`, name(i)))
		files["slice-"+name(i)+".yaml"] = slice(i, alive[i])
	}
	g := start(t, files)
	var running, leaving sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var probes []*probe
	for i := range services {
		p := &probe{name: name(i), url: fmt.Sprintf("http://127.0.0.1:%d/%s/x", ports[0], name(i)), host: "any.example.com", backend: name(i), path: "/x",
			client: &http.Client{Transport: &http.Transport{DisableKeepAlives: i%4 == 0}, Timeout: time.Minute}}
		probes = append(probes, p)
		eventually(t, p.name+" is answered", func() bool { return p.once() == "" })
	}
	before := g.measurements()
	for _, p := range probes {
		running.Go(func() { p.run(ctx) })
	}
	dice := rand.New(rand.NewPCG(5, 6))
	var asking sync.Mutex
	var clusters string // what Envoy knows
	var known time.Time
	listed := func(p *pod) bool {
		asking.Lock()
		defer asking.Unlock()
		if time.Since(known) > 200*time.Millisecond {
			clusters, known = g.envoy("/clusters"), time.Now()
		}
		return clusters == "" || strings.Contains(clusters, fmt.Sprintf("::%s:%d::", p.address, ports[1]))
	}
	begun, steps := time.Now(), 0
	for turn := time.NewTicker(every); time.Since(begun) < length; <-turn.C {
		i := dice.IntN(services)
		gone := alive[i][0]
		alive[i] = alive[i][1:]
		born(i)
		g.write("slice-"+name(i)+".yaml", slice(i, alive[i]))
		old = append(old, gone)
		steps++
		leaving.Go(func() { // as a kubelet does it: the pod serves on for a while, here until Envoy knows that it goes
			time.Sleep(2 * time.Second)
			eventually(t, "the pod is left alone", func() bool { return !listed(gone) })
			gone.server.Shutdown(context.Background())
		})
	}
	took := time.Since(begun)
	for i := range services {
		for _, p := range alive[i] {
			eventually(t, "the newest pods are asked", func() bool { return p.met.Load() > 0 })
		}
	}
	leaving.Wait()
	cancel()
	running.Wait()
	after := g.measurements()
	for _, p := range probes {
		if n := p.failed.Load(); n > 0 {
			t.Errorf("%s: %d of %d requests failed, the first: %s", p.name, n, p.asked.Load(), p.wrong())
		}
	}
	for _, total := range []string{"chancery_compiles_total", "chancery_xds_refusals_total"} {
		if n := after[total] - before[total]; n != 0 {
			t.Errorf("%s grew by %v", total, n)
		}
	}
	if n := after["chancery_endpoint_updates_total"] - before["chancery_endpoint_updates_total"]; n < 10 {
		t.Errorf("only %v updates of endpoints", n)
	}
	for i := range services {
		for _, p := range alive[i] {
			p.server.Close()
		}
	}
	var met []time.Duration
	asked := int64(0)
	for _, p := range old[len(old)/10:] {
		if d := time.Duration(p.met.Load()); d > 0 {
			met = append(met, d)
		}
	}
	for _, p := range probes {
		asked += p.asked.Load()
	}
	if len(met) == 0 {
		t.Fatal("none of those that went was ever asked")
	}
	slices.Sort(met)
	t.Logf("%d pods came and went in %s (%.0f a minute), %d requests; from a pod's birth to its first request: half within %s, 99 of 100 within %s",
		steps, took.Round(time.Second), float64(steps)/took.Minutes(), asked, met[len(met)/2].Round(time.Millisecond), met[len(met)*99/100].Round(time.Millisecond))
	for _, s := range []string{"wait", "endpoints", "publish", "send-endpoints"} {
		t.Logf("%s: %s", s, stageOf(after, s).since(stageOf(before, s)))
	}
}
