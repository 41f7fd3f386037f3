package simulator

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// TestAgainstEnvoy runs random programs on a real Envoy and compares every answer with the simulator's. CHANCERY_SEED
// draws others than the usual ones.
func TestAgainstEnvoy(t *testing.T) {
	envoyPath(t)
	seed := uint64(1)
	if s := os.Getenv("CHANCERY_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("CHANCERY_SEED: %v", err)
		}
		seed = n
	}
	defer func() {
		if t.Failed() {
			t.Logf("repeat with CHANCERY_SEED=%d", seed)
		}
	}()
	listeners, requests := 120, 6000
	if testing.Short() {
		listeners, requests = 30, 1000
	}
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 1)), backends: startBackends(t, 4)}
	certificate, key := selfSigned(t)
	p := g.program(listeners, certificate, key)
	ports := startEnvoy(t, staticConfig(t, p))
	for _, l := range p.Listeners {
		l.Port = ports[l.Name]
	}
	c := &client{connections: map[string]*wire{}}
	defer c.close()
	kinds := map[OutcomeKind]int{}
	failures := 0
	for range requests {
		l := p.Listeners[g.IntN(len(p.Listeners))]
		r := g.request(l)
		trace := Simulate(p, r)
		have, err := c.send(net.JoinHostPort(l.Address, strconv.Itoa(int(l.Port))), r)
		if err != nil {
			t.Fatalf("%s at %s: %v", r, l.Name, err)
		}
		sum := 0.0
		for _, o := range trace.Outcomes {
			sum += o.Share
		}
		kinds[trace.Outcomes[0].Kind]++
		if problem := explains(&trace, have, g.backends); problem != "" || math.Abs(sum-100) > 1e-6 {
			t.Errorf("%s at %s headers %v sni %q: shares add up to %g; %s\nhave %+v\nwant %s", r, l.Name, r.Headers, r.SNI, sum, problem, have, trace.Text())
			if failures++; failures >= 10 {
				t.FailNow()
			}
		}
	}
	t.Log(kinds)
	for _, k := range []OutcomeKind{Forwarded, Redirected, Answered, NotFound, Intercepted, Refused} {
		if kinds[k] < requests/500 {
			t.Errorf("only %d outcomes of kind %q: the generator misses its aim", kinds[k], k)
		}
	}
}

// explains says why no outcome of the trace explains the answer, or "".
func explains(trace *Trace, a answer, backends []uint32) string {
	var problems []string
	for i := range trace.Outcomes {
		o := &trace.Outcomes[i]
		problem := differs(o, trace, a, backends)
		if problem == "" && o.Share > 0 {
			return ""
		}
		problems = append(problems, fmt.Sprintf("outcome %d: %s", i, problem))
	}
	return strings.Join(problems, "; ")
}

func differs(o *Outcome, trace *Trace, a answer, backends []uint32) string {
	if (o.Kind == Refused) != a.refused {
		return "one of them is refused"
	}
	if a.refused {
		return ""
	}
	// An answer in between may get a route's headers or not.
	if a.route != o.Route && o.Kind != Intercepted {
		return fmt.Sprintf("route %q, not %q", a.route, o.Route)
	}
	if o.Kind != Forwarded {
		switch {
		case a.upstream != "":
			return "it was forwarded"
		case int(o.Status) != a.status:
			return fmt.Sprintf("status %d, not %d", a.status, o.Status)
		case o.Location != a.location:
			return fmt.Sprintf("location %q, not %q", a.location, o.Location)
		case o.Kind == Answered && trace.Path != a.path:
			return fmt.Sprintf("path %q, not %q", a.path, trace.Path)
		case o.Kind == Answered && o.Body != a.body:
			return fmt.Sprintf("body %q, not %q", a.body, o.Body)
		}
		return ""
	}
	if o.Path != a.seenPath {
		return fmt.Sprintf("upstream sees path %q, not %q", a.seenPath, o.Path)
	}
	if o.Host != a.seenHost {
		return fmt.Sprintf("upstream sees host %q, not %q", a.seenHost, o.Host)
	}
	for _, c := range o.Clusters {
		for i, port := range backends {
			if c.Share > 0 && c.Name == clusterName(i) && strconv.Itoa(int(port)) == a.upstream {
				return ""
			}
		}
	}
	return fmt.Sprintf("upstream %s answered", a.upstream)
}

// TestSharesAgainstEnvoy counts where requests go when fractions and weights meet.
func TestSharesAgainstEnvoy(t *testing.T) {
	envoyPath(t)
	g := &generator{Rand: rand.New(rand.NewPCG(7, 7)), backends: startBackends(t, 4)}
	fraction := func(n, d uint32) *ir.Fraction { return &ir.Fraction{Numerator: n, Denominator: d} }
	route := func(f *ir.Fraction, clusters ...ir.WeightedCluster) *ir.Route {
		return &ir.Route{Name: "r", Match: ir.Match{PathKind: ir.PathPrefix, Path: "/", Fraction: f}, Forward: &ir.Forward{Clusters: clusters, TimeoutMillis: 10_000}}
	}
	to := func(i int, weight uint32) ir.WeightedCluster {
		return ir.WeightedCluster{Cluster: clusterName(i), Weight: weight}
	}
	cases := [][]*ir.Route{
		{route(fraction(30, 100), to(0, 1)), route(fraction(50, 100), to(1, 1)), route(nil, to(2, 1))},
		{route(fraction(20, 100), to(0, 1)), route(fraction(500_000, 1_000_000), to(1, 1)), route(nil, to(2, 1))},
		{route(fraction(30, 100), to(0, 50), to(1, 50)), route(nil, to(2, 50), to(3, 50))},
		{route(fraction(40, 100), to(0, 1), to(1, 2)), route(nil, to(2, 7), to(3, 13))},
		{route(nil, to(0, 1), to(1, 1), to(2, 2), to(3, 6))},
	}
	p := g.program(0, nil, nil)
	p.Secrets = nil
	for i, routes := range cases {
		name := fmt.Sprintf("case-%d", i)
		p.Listeners = append(p.Listeners, &ir.Listener{Name: name, Address: fmt.Sprintf("127.0.2.%d", i+1), Chains: []*ir.FilterChain{
			{Name: name, HTTP: &ir.HTTPChain{RouteConfig: name, StatPrefix: "test", Settings: &ir.HTTPSettings{UseRemoteAddress: true}}}}})
		p.RouteConfigs = append(p.RouteConfigs, &ir.RouteConfig{Name: name, VirtualHosts: []*ir.VirtualHost{{Name: "v", Domains: []string{"*"}, Routes: routes}}})
	}
	ports := startEnvoy(t, staticConfig(t, p))
	c := &client{connections: map[string]*wire{}}
	defer c.close()
	const n = 3000
	for _, l := range p.Listeners {
		l.Port = ports[l.Name]
		r := Request{Method: "GET", Scheme: "http", Host: "h", Path: "/", Listener: l.Name, Port: l.Port}
		trace := Simulate(p, r)
		count := map[string]int{}
		for range n {
			a, err := c.send(net.JoinHostPort(l.Address, strconv.Itoa(int(l.Port))), r)
			if err != nil {
				t.Fatal(err)
			}
			count[a.upstream]++
		}
		for i, port := range g.backends {
			share := trace.Share(clusterName(i)) / 100
			have := float64(count[strconv.Itoa(int(port))]) / n
			// Six standard deviations: by chance less than once in 10^8 runs.
			if math.Abs(have-share) > 6*math.Sqrt(share*(1-share)/n) {
				t.Errorf("%s: cluster %d has %.1f %% of %d requests, want %.1f %%\n%s", l.Name, i, have*100, n, share*100, trace.Text())
			}
		}
	}
}
