package deploy_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
	"github.com/chancery-gateway/chancery/snapshot/porttest"
)

// create makes objects with several clients at a time.
func create(t testing.TB, client *kubetest.Client, n int, manifest func(i int) string) {
	t.Helper()
	var working sync.WaitGroup
	next := make(chan int)
	for range 6 {
		working.Go(func() {
			for i := range next {
				for _, o := range kubetest.Objects(t, []byte(manifest(i))) {
					if _, err := client.Of(o).Create(context.Background(), o, metav1.CreateOptions{}); err != nil {
						t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
					}
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	working.Wait()
}

// median returns the middle and the greatest of the durations.
func median(all []time.Duration) string {
	slices.Sort(all)
	return fmt.Sprintf("median %s, worst %s", all[len(all)/2].Round(10*time.Microsecond), all[len(all)-1].Round(10*time.Microsecond))
}

// legs are the stages from the snapshot to the Envoy's answer, in their order; lower, link and emit are parts of compile, and
// all together are apply.
var legs = []string{"wait", "lower", "link", "emit", "compile", "prove", "publish", "send", "acknowledge", "apply"}

// trace gathers the time of each leg of many applies.
type trace map[string][]time.Duration

// add takes up one apply: the time of its write, the time to the answer, and the stages before and after.
func (p trace) add(write, answer time.Duration, before, after map[string]float64) {
	for _, l := range legs {
		p[l] = append(p[l], time.Duration((after[l]-before[l])*float64(time.Second)))
	}
	apply := p["apply"][len(p["apply"])-1]
	p["write"] = append(p["write"], write)
	p["around"] = append(p["around"], max(0, answer-apply))
	p["all"] = append(p["all"], answer)
}

func (p trace) print(t *testing.T) {
	t.Helper()
	t.Logf("%-44s %s", "write to the API server", median(p["write"]))
	for _, l := range legs {
		t.Logf("  %-42s %s", l, median(p[l]))
	}
	t.Logf("%-44s %s", "write, watch and snapshot, and the answer", median(p["around"]))
	t.Logf("%-44s %s", "from the begin of the write to the answer", median(p["all"]))
}

// stages returns the seconds that each stage has taken so far.
func (g *gateway) stages() map[string]float64 {
	g.t.Helper()
	all := map[string]float64{}
	for _, m := range stageSum.FindAllStringSubmatch(g.metrics(), -1) {
		v, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			g.t.Fatal(err)
		}
		all[m[1]] = v
	}
	return all
}

var stageSum = regexp.MustCompile(`(?m)^chancery_stage_duration_seconds_sum\{stage="([a-z-]+)"\} (\S+)$`)

// scaleVariable holds the number of Mappings and Services of the greater run, where the machine has the time: 5000 take
// some minutes.
const scaleVariable = "DEPLOY_TEST_SCALE"

func TestAtScale(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	scale := 1000
	if text := os.Getenv(scaleVariable); text != "" {
		var err error
		if scale, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	c, client, ns, port := bed(t)
	address, one := backend(t, "one")
	made := 0
	fill := func(to int) {
		begun := time.Now()
		from := made
		create(t, client, to-from, func(i int) string {
			i += from
			return fmt.Sprintf(`
{apiVersion: v1, kind: Service, metadata: {name: s%[2]d, namespace: %[1]s}, spec: {ports: [{name: http, port: 80, targetPort: http}]}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: s%[2]d-x, namespace: %[1]s, labels: {kubernetes.io/service-name: s%[2]d}}, addressType: IPv4,
 ports: [{name: http, port: 8080, protocol: TCP}], endpoints: [{addresses: [10.0.%[3]d.1]}, {addresses: [10.0.%[3]d.2]}, {addresses: [10.0.%[3]d.3]}, {addresses: [10.0.%[3]d.4]}]}
---
{apiVersion: getambassador.io/v3alpha1, kind: Mapping, metadata: {name: s%[2]d, namespace: %[1]s}, spec: {hostname: "*", prefix: /s%[2]d/, service: s%[2]d, resolver: endpoint, timeout_ms: 5000}}
`, ns, i, i%250)
		})
		made = to
		t.Logf("%d Mappings, Services and slices of 4 made in %s", to-from, time.Since(begun).Round(time.Millisecond))
	}
	fill(min(1000, scale/2))
	client.Apply("{apiVersion: v1, kind: Service, metadata: {name: quote, namespace: " + ns + "}, spec: {ports: [{name: http, port: 80, targetPort: http}]}}\n---" +
		fmt.Sprintf(slice, ns, "quote-x", address, one) + "---" + fmt.Sprintf(oneMapping, ns, "always"))
	door := porttest.Free(t, 1)[0]
	g := entrypoint(t, c.Config(), port, "--namespace", ns, "--single-namespace", "--webhook-address", fmt.Sprintf("127.0.0.1:%d", door))
	begun := time.Now()
	g.ready()
	t.Logf("ready with %d Mappings after %s", made, time.Since(begun).Round(time.Millisecond))
	measure := func() {
		g.answers("/always/", 200, "one")
		g.quiet()
		var live, told []time.Duration
		path := trace{}
		compiles := g.metric("chancery_compiles_total")
		times := 30
		if scale > 1000 {
			times = 100
		}
		for i := range times {
			name := fmt.Sprintf("new%d-%d", made, i)
			before := g.stages()
			begun := time.Now()
			client.Apply(fmt.Sprintf(oneMapping, ns, name))
			written := time.Since(begun)
			g.answers("/"+name+"/", 200, "one")
			live = append(live, time.Since(begun))
			path.add(written, live[len(live)-1], before, g.stages())
			if i%10 == 0 {
				kubetest.Eventually(t, patience, "status", func(context.Context) bool { return state(t, client, "Mapping", ns, name) == "Running" })
				told = append(told, time.Since(begun))
			}
			time.Sleep(110 * time.Millisecond) // each is a change after quiet
		}
		t.Logf("%d Mappings: applied to answered: %s; to status: %s", made, median(live), median(told))
		path.print(t)
		t.Logf("%v compiles for %d Mappings", g.metric("chancery_compiles_total")-compiles, times)
		var moved []time.Duration
		work := g.stage("endpoints")
		compiles = g.metric("chancery_compiles_total")
		_, two := backend(t, "two")
		for i := range 20 {
			name, at := "two", two
			if i%2 == 1 {
				name, at = "one", one
			}
			begun := time.Now()
			client.Apply(fmt.Sprintf(slice, ns, "quote-x", address, at))
			g.answers("/always/", 200, name)
			moved = append(moved, time.Since(begun))
			time.Sleep(110 * time.Millisecond)
		}
		t.Logf("an endpoint changed: %s; work %.3f ms each, %v compiles", median(moved), 1000*(g.stage("endpoints")-work)/20, g.metric("chancery_compiles_total")-compiles)
		t.Logf("memory: %d MiB", g.memory())
	}
	measure()
	fill(scale)
	measure()
	if m := g.memory(); m > 400 {
		t.Errorf("%d MiB at %d Mappings; at most 400 are right for 5,000, their Services and 20,000 endpoints", m, scale)
	}
	parallelApplies(t, g, guard(t, c, client, ns, door), made)
	churn(t, g, client, ns, address, one)
}

// cpu returns the time that the program has run on the processor, its own and the kernel's for it, to a hundredth of a second.
func (g *gateway) cpu() time.Duration {
	g.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", g.process.Process.Pid))
	if err != nil {
		g.t.Skip(err)
	}
	all := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // from the state on
	ticks := 0
	for _, field := range all[11:13] {
		n, err := strconv.Atoi(field)
		if err != nil {
			g.t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// parallelApplies applies 50 Mappings at once through the webhook.
func parallelApplies(t *testing.T, g *gateway, author *author, there int) {
	t.Helper()
	const name = "chancery_admission_review_seconds_"
	seconds, count, compiles, cpu := g.metric(name+"sum"), g.metric(name+"count"), g.metric("chancery_admission_compiles_total"), g.cpu()
	took := make([]time.Duration, 50)
	var working sync.WaitGroup
	for i := range took {
		o := author.object("v3alpha1", "Mapping", fmt.Sprintf("parallel%d", i), fmt.Sprintf(`hostname: "*", prefix: /parallel%d/, service: s%d, resolver: endpoint`, i, i))
		client := author.Of(o)
		body := must(t, o)
		working.Go(func() {
			begun := time.Now()
			force := true
			if _, err := client.Patch(t.Context(), o.GetName(), types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: "kubetest", Force: &force}); err != nil {
				t.Error(err)
			}
			took[i] = time.Since(begun)
		})
	}
	working.Wait()
	n := g.metric(name+"count") - count
	t.Logf("50 parallel applies at %d Mappings: %s; %v reviews of %.2f ms on average, waiting included, with %v compiles; the program used %s of CPU", there, median(took), n,
		1000*(g.metric(name+"sum")-seconds)/n, g.metric("chancery_admission_compiles_total")-compiles, g.cpu()-cpu)
	if n != 100 { // each at both doors
		t.Errorf("%v reviews were answered", n)
	}
	if n := g.metric("chancery_admission_compiles_total") - compiles; n > 2*50 { // the object, and at worst what was applied before it
		t.Errorf("%v compiles for 50 objects", n)
	}
}

// churn edits Mappings and endpoints, and looks whether memory stays as it is.
func churn(t *testing.T, g *gateway, client *kubetest.Client, ns, address string, at int) {
	t.Helper()
	var halves [2]int
	wrong := g.traffic("/always/")
	begun, edits := time.Now(), 0
	for long := soak(t, 20*time.Second); time.Since(begun) < long; edits++ {
		client.Apply(strings.Replace(fmt.Sprintf(oneMapping, ns, fmt.Sprintf("churn%d", edits%20)), "rewrite", fmt.Sprintf("timeout_ms: %d, rewrite", 1000+edits), 1))
		client.Apply(fmt.Sprintf(slice, ns, fmt.Sprintf("churn%d", edits%5), address, at))
		if edits%5 == 4 {
			client.Delete(fmt.Sprintf(slice, ns, "churn0", address, at))
		}
		time.Sleep(50 * time.Millisecond)
		half := &halves[min(1, int(2*time.Since(begun)/long))]
		*half = max(*half, g.memory())
	}
	t.Logf("%d edits in %s: at most %d MiB in the first half, %d in the second", edits, time.Since(begun).Round(time.Second), halves[0], halves[1])
	if halves[1] > halves[0]*11/10+16 {
		t.Error("memory grows")
	}
	if wrong() > 0 {
		t.Error("requests failed")
	}
}
