package endtoend

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/runtime/metrics"
	"github.com/chancery-gateway/chancery/snapshot/porttest"
)

// measurements returns all lines of the program's own metrics and Envoy's, values by name with labels.
func (g *gateway) measurements() map[string]float64 {
	g.t.Helper()
	r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", g.health))
	if err != nil {
		g.t.Fatal(err)
	}
	defer r.Body.Close()
	all := map[string]float64{}
	in := bufio.NewReader(r.Body)
	for {
		line, err := in.ReadString('\n')
		if at := strings.LastIndexByte(line, ' '); at > 0 && line[0] != '#' {
			if n, err := strconv.ParseFloat(strings.TrimSpace(line[at+1:]), 64); err == nil {
				all[line[:at]] = n
			}
		}
		if err == io.EOF {
			return all
		}
		if err != nil {
			g.t.Fatal(err)
		}
	}
}

// measure reads one of the program's own measurements.
func (g *gateway) measure(name string) float64 {
	g.t.Helper()
	n, found := g.measurements()[name]
	if !found {
		g.t.Fatalf("no measurement %s", name)
	}
	return n
}

// stage is the histogram of one stage.
type stage struct {
	count, sum float64
	bounds     []float64 // sorted
	below      []float64 // the number at or below each bound
}

func stageOf(all map[string]float64, name string) stage {
	const metric = "chancery_stage_duration_seconds"
	s := stage{count: all[metric+`_count{stage="`+name+`"}`], sum: all[metric+`_sum{stage="`+name+`"}`]}
	prefix := metric + `_bucket{stage="` + name + `",le="`
	at := map[float64]float64{}
	for line, n := range all {
		if text, ok := strings.CutPrefix(line, prefix); ok {
			bound, err := strconv.ParseFloat(strings.TrimSuffix(text, `"}`), 64)
			if err == nil {
				at[bound] = n
				s.bounds = append(s.bounds, bound)
			}
		}
	}
	slices.Sort(s.bounds)
	for _, b := range s.bounds {
		s.below = append(s.below, at[b])
	}
	return s
}

// since returns what was counted after an earlier reading.
func (s stage) since(old stage) stage {
	s.count, s.sum = s.count-old.count, s.sum-old.sum
	s.below = slices.Clone(s.below)
	for i := range old.below {
		s.below[i] -= old.below[i]
	}
	return s
}

// quantile returns the bound under which that share lies.
func (s stage) quantile(q float64) time.Duration {
	for i, n := range s.below {
		if n >= q*s.count && !math.IsInf(s.bounds[i], 1) {
			return time.Duration(s.bounds[i] * float64(time.Second))
		}
	}
	return time.Hour
}

func (s stage) String() string {
	mean := time.Duration(0)
	if s.count > 0 {
		mean = time.Duration(s.sum / s.count * float64(time.Second))
	}
	return fmt.Sprintf("%.0f times, mean %s, half within %s, 99 of 100 within %s", s.count, mean.Round(time.Microsecond), s.quantile(0.5), s.quantile(0.99))
}

// TestEveryStageIsMeasured: one edit of a route passes each of its stages once, one of endpoints each of its own, and the histograms
// hold the times.
func TestEveryStageIsMeasured(t *testing.T) {
	port := porttest.Free(t, 1)[0]
	a, b := newBackend(t, "a", nil), newBackend(t, "b", nil)
	slice := func(to *backend) string {
		return fmt.Sprintf("apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: eds-1, namespace: app, labels: {kubernetes.io/service-name: eds}}\naddressType: IPv4\nports: [{port: %d}]\nendpoints: [{addresses: [127.0.0.1]}]\n", to.port)
	}
	mapping := func(header string) string {
		return object("Mapping", "eds", fmt.Sprintf(`hostname: "*", prefix: /, resolver: endpoint, service: eds, add_request_headers: {x-told: {value: "%s"}}`, header))
	}
	g := start(t, map[string]string{
		"base.yaml": join(object("Listener", "l", fmt.Sprintf("port: %d, protocol: HTTP, securityModel: XFP, hostBinding: {namespace: {from: ALL}}", port)),
			object("Host", "h", `hostname: "*", requestPolicy: {insecure: {action: Route}}`)),
		"service.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: eds, namespace: app}\nspec: {ports: [{port: 80}]}\n",
		"slice.yaml":   slice(a),
		"mapping.yaml": mapping("first"),
	})
	is := func(backend, header string) func() bool {
		return func() bool {
			got, err := ask(t, "GET", fmt.Sprintf("http://127.0.0.1:%d/", port), "any.example.com", nil)
			return err == nil && got.echo.Backend == backend && got.echo.Header.Get("X-Told") == header
		}
	}
	eventually(t, "it is served", is("a", "first"))
	counts := func(before map[string]float64) map[string]float64 {
		now, all := g.measurements(), map[string]float64{}
		for _, s := range metrics.Stages {
			one := stageOf(now, s[0])
			all[s[0]] = one.count - stageOf(before, s[0]).count
			if n := len(one.below); one.count > 0 && (n < 10 || one.below[n-1] != one.count || !slices.IsSorted(one.below) || one.sum <= 0) {
				t.Errorf("stage %s: %+v", s[0], one)
			}
		}
		return all
	}
	apply := func() float64 { return stageOf(g.measurements(), "apply").count }
	eventually(t, "the first configuration is acknowledged and saved", func() bool { return apply() > 0 && stageOf(g.measurements(), "save").count > 0 })

	before, applied := g.measurements(), apply()
	g.write("mapping.yaml", mapping("second"))
	eventually(t, "the route is edited", is("a", "second"))
	eventually(t, "it is acknowledged", func() bool { return apply() > applied })
	stages := []string{"wait", "lower", "link", "emit", "compile", "prove", "publish", "send", "acknowledge", "apply"}
	eventually(t, "each stage is counted", func() bool { // which may be after Envoy has what comes of it
		now := counts(before)
		return !slices.ContainsFunc(stages, func(name string) bool { return now[name] == 0 })
	})
	got := counts(before)
	for _, name := range stages {
		if got[name] != 1 {
			t.Errorf("an edit of a route: %v times %s", got[name], name)
		}
	}
	if got["endpoints"]+got["send-endpoints"] != 0 {
		t.Errorf("an edit of a route: %v", got)
	}
	now := g.measurements()
	if all, part := stageOf(now, "apply").since(stageOf(before, "apply")).sum, stageOf(now, "compile").since(stageOf(before, "compile")).sum; all < part {
		t.Errorf("the whole took %v s, the compile %v s", all, part)
	}

	before = g.measurements()
	g.write("slice.yaml", slice(b))
	eventually(t, "the endpoints changed", is("b", "second"))
	wanted := map[string]float64{"wait": 1, "endpoints": 1, "publish": 1, "send-endpoints": 1, "acknowledge": 1, "compile": 0, "send": 0, "apply": 0}
	eventually(t, "each stage is counted", func() bool {
		got = counts(before)
		for name, want := range wanted {
			if got[name] < want {
				return false
			}
		}
		return true
	})
	for name, want := range wanted {
		if got[name] != want {
			t.Errorf("a change of endpoints: %v times %s, want %v", got[name], name, want)
		}
	}
}
