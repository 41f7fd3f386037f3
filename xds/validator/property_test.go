package validator

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/chancery-gateway/chancery/translators/envoy"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// faults are what passes the back end's rules and what Envoy refuses, by the kind of unit that they make guilty.
var (
	badHeaders = []string{"%REQ(a?b?c)%", "%PROTOCOL(x)%", "%CEL(1+)%", "%FILTER_STATE(a:B:c:d)%"}
)

// world draws programs.
type world struct {
	*rand.Rand
	cert, key, other string
	guilty           map[string]bool // "kind name"
}

func (w *world) blame(kind ir.UnitKind, name string) { w.guilty[string(kind)+" "+name] = true }

func (w *world) route(name, cluster string, bad bool) *ir.Route {
	r := &ir.Route{Name: name, Match: ir.Match{PathKind: ir.PathPrefix, Path: "/" + name + "/"}, Origins: []ir.Origin{{Kind: "Mapping", Name: name}},
		Forward: &ir.Forward{Clusters: []ir.WeightedCluster{{Cluster: cluster}}, TimeoutMillis: int64(w.IntN(5000))}}
	switch w.IntN(6) {
	case 0:
		r.Match = ir.Match{PathKind: ir.PathRegex, Path: "/" + name + "/[0-9]+"}
	case 1:
		r.Match.Headers = []ir.ValueMatch{{Name: "x-a", Kind: ir.ValueExact, Value: name}, {Name: ":method", Kind: ir.ValueRegex, Value: "GET|PUT"}}
	case 2:
		r.Match.Query = []ir.ValueMatch{{Name: "q", Kind: ir.ValuePresent}}
	case 3:
		rewrite := "/"
		r.Forward.PrefixRewrite, r.Forward.Retry = &rewrite, &ir.RetryPolicy{On: "5xx,reset"}
	case 4:
		r.Forward, r.Redirect = nil, &ir.Redirect{HTTPS: true, Code: 301}
	case 5:
		r.CORS = &ir.CORS{Origins: []string{"https://a.example.com"}}
	}
	r.RequestHeaders.Add = []ir.HeaderValue{{Name: "x-told", Value: "%REQ(x-a)%"}}
	if bad {
		w.blame(ir.UnitRoute, name)
		r.RequestHeaders.Add = append(r.RequestHeaders.Add, ir.HeaderValue{Name: "x-bad", Value: badHeaders[w.IntN(len(badHeaders))]})
	}
	return r
}

// program draws a program of the given number of routes, with faults in so many of its units.
func (w *world) program(routes, hosts, faults int) *ir.Program {
	w.guilty = map[string]bool{}
	const clusters = 3
	at := map[int]bool{} // which of the units are bad: routes, then secrets, then chains, then clusters
	for len(at) < faults {
		at[w.IntN(routes+2*hosts+clusters)] = true
	}
	p := &ir.Program{Version: ir.Version}
	for i := range clusters {
		name := "c" + strconv.Itoa(i)
		c := &ir.Cluster{Name: name, Discovery: ir.DiscoveryStrictDNS, Host: name + ".example.com", Port: 80, ConnectTimeoutMillis: 3000,
			TLS: &ir.UpstreamTLS{SNI: name}, Origins: []ir.Origin{{Kind: "Mapping", Name: name}}}
		if w.IntN(2) == 0 {
			c.TLS = nil // then it has the form of others
		}
		if at[routes+2*hosts+i] {
			c.TLS = &ir.UpstreamTLS{SNI: "x", Params: ir.TLSParams{CipherSuites: []string{"NO-SUCH-CIPHER"}}}
			w.blame(ir.UnitCluster, name)
		}
		p.Clusters = append(p.Clusters, c)
	}
	listener := &ir.Listener{Name: "l", Address: "192.0.2.1", Port: 443, TLSInspector: true}
	n := 0
	for h := range hosts {
		name := fmt.Sprintf("h%d", h)
		v := &ir.VirtualHost{Name: name, Domains: []string{name + ".example.com"}}
		for n < routes*(h+1)/hosts {
			v.Routes = append(v.Routes, w.route("r"+strconv.Itoa(n), "c"+strconv.Itoa(w.IntN(3)), at[n]))
			n++
		}
		key := w.key
		if at[routes+h] {
			key = w.other
			w.blame(ir.UnitSecret, name)
		}
		p.Secrets = append(p.Secrets, &ir.Secret{Name: name, Certificate: []byte(w.cert + "# " + name + "\n"), Key: []byte(key)})
		tls := &ir.DownstreamTLS{Certificates: []string{name}}
		if at[routes+hosts+h] {
			tls.Params.CipherSuites = []string{"NO-SUCH-CIPHER"}
			w.blame(ir.UnitChain, name)
		}
		p.RouteConfigs = append(p.RouteConfigs, &ir.RouteConfig{Name: name, VirtualHosts: []*ir.VirtualHost{v}})
		listener.Chains = append(listener.Chains, &ir.FilterChain{Name: name, Match: ir.ChainMatch{ServerNames: v.Domains, Transport: "tls"}, TLS: tls,
			HTTP: &ir.HTTPChain{RouteConfig: name, StatPrefix: "x", Settings: &ir.HTTPSettings{}}})
	}
	p.Listeners = []*ir.Listener{listener}
	return p
}

// whole shows Envoy complete resources, as the traffic's would get them, and returns the texts of what is refused.
func whole(t *testing.T, v *Validator, set ir.ResourceSet) map[string]string {
	t.Helper()
	v.turn.Lock()
	defer v.turn.Unlock()
	c, err := v.running(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	refused := map[string]string{}
	var clusters []string
	for _, url := range []string{ir.TypeSecret, ir.TypeEndpoint, ir.TypeCluster, ir.TypeRouteConfig, ir.TypeListener} {
		for _, r := range set[url] {
			if url == ir.TypeEndpoint {
				if text := wholeEndpoints(t, v, c, r); text != "" {
					refused[url+" "+r.Name] = text
				}
				continue
			}
			shown := &candidate{unit: &ir.Unit{Name: r.Name, Value: r.Value}}
			name, good := r.Name, []byte(nil)
			switch url {
			case ir.TypeSecret:
				name, good, shown.unit.Kind = probeCertificate, c.good.certificate, ir.UnitSecret
				if isAnchors(shown.unit) {
					name, good = probeAnchors, c.good.anchors
				}
			case ir.TypeCluster:
				shown.unit.Kind = ir.UnitCluster
			case ir.TypeListener:
				shown.unit.Kind = ir.UnitListener
			case ir.TypeRouteConfig:
				name = probeRoutes
			}
			if shown.unit.Kind != "" {
				shown.inspection = inspect(shown.unit)
			}
			p := &probe{answered: make(chan struct{}), budget: v.options.budget(1000)}
			c.serial++
			if err := c.send(&discovery.DeltaDiscoveryResponse{TypeUrl: url, Resources: []*discovery.Resource{resource(url, name, named(shown.value(), name))}}, p); err != nil {
				t.Fatal(err)
			}
			if !c.wait(p) {
				t.Fatalf("Envoy ended: %s", c.exit)
			}
			if p.refusal != "" {
				refused[url+" "+r.Name] = p.refusal
			}
			var after *discovery.DeltaDiscoveryResponse
			switch url {
			case ir.TypeSecret:
				after = &discovery.DeltaDiscoveryResponse{TypeUrl: url, Resources: []*discovery.Resource{resource(url, name, named(good, name))}}
			case ir.TypeRouteConfig:
				continue
			case ir.TypeCluster: // others may want it to be there
				clusters = append(clusters, name)
				continue
			default:
				after = &discovery.DeltaDiscoveryResponse{TypeUrl: url, RemovedResources: []string{name}}
			}
			if err := c.send(after, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.send(&discovery.DeltaDiscoveryResponse{TypeUrl: ir.TypeCluster, RemovedResources: clusters}, nil); err != nil {
		t.Fatal(err)
	}
	return refused
}

// wholeEndpoints shows Envoy a cluster and then its endpoints, and returns what it says to these.
func wholeEndpoints(t *testing.T, v *Validator, c *child, r *ir.Resource) string {
	t.Helper()
	ask := func(url, name string, value []byte) string {
		p := &probe{answered: make(chan struct{}), budget: v.options.budget(1)}
		if err := c.send(&discovery.DeltaDiscoveryResponse{TypeUrl: url, Resources: []*discovery.Resource{resource(url, name, value)}}, p); err != nil {
			t.Fatal(err)
		}
		if !c.wait(p) {
			t.Fatalf("Envoy ended: %s", c.exit)
		}
		return p.refusal
	}
	cluster := eds(r.Name, func(c *clusterv3.Cluster) { c.EdsClusterConfig.ServiceName = r.Name })
	if text := ask(ir.TypeCluster, r.Name, cluster.Value); text != "" {
		t.Fatal(text)
	}
	text := ask(ir.TypeEndpoint, r.Name, r.Value)
	if err := c.send(&discovery.DeltaDiscoveryResponse{TypeUrl: ir.TypeCluster, RemovedResources: []string{r.Name}}, nil); err != nil {
		t.Fatal(err)
	}
	return text
}

// TestWholeIsItsParts: over random programs with no, one, three and twenty faults, of which some end or hang Envoy, exactly the guilty units are refused; Envoy refuses a complete resource
// just when a unit of it is refused; and what the back end makes without the guilty is accepted as a whole.
func TestWholeIsItsParts(t *testing.T) {
	programs := 2000
	if testing.Short() {
		programs = 100
	}
	v := open(t, nil)
	w := &world{}
	w.cert, w.key = pairOf(t)
	_, w.other = pairOf(t)
	counts := map[string]int{}
	for i := range programs {
		w.Rand = rand.New(rand.NewPCG(uint64(i), 7))
		k := []int{0, 1, 3, 1}[i%4]
		routes := 1 + w.IntN(12)
		if i%20 == 1 {
			k, routes = 20, 20+w.IntN(30)
		}
		p := w.program(routes, 1+w.IntN(2), k)
		counts[fmt.Sprint("k=", k)]++
		lethal := ""
		switch i % 400 {
		case 2:
			lethal = "local o = os; o['exit'](1)"
		case 203:
			lethal = "(function() while true do end end)()"
		}
		if lethal != "" { // in the first chain, whatever else is wrong with it
			c := p.Listeners[0].Chains[0]
			c.HTTP.Filters = []*ir.Filter{{Name: ir.FilterLua, Config: &ir.Lua{Script: lethal + fmt.Sprint(" -- ", i)}}}
			w.blame(ir.UnitChain, c.Name)
			w.blame(ir.UnitExtension, ir.FilterLua)
			counts["lethal"]++
		}
		e := envoy.NewEmitter(envoy.Options{})
		out := e.Emit(p)
		verdicts := judge(t, v, out.Changed...)
		compareGuilt(t, i, w.guilty, verdicts)
		if len(out.Diagnostics) > 0 {
			t.Fatalf("program %d: the rules found something: %v", i, out.Diagnostics)
		}
		if lethal == "" {
			if refused := whole(t, v, out.Resources); (len(refused) > 0) != (len(w.guilty) > 0) {
				t.Errorf("program %d: guilty %v, but as a whole %v", i, w.guilty, refused)
			}
		}
		for rounds := 0; len(verdicts.Refused) > 0; rounds++ {
			if rounds == 5 {
				t.Fatalf("program %d: no end of refusals: %v", i, verdicts.Refused)
			}
			e.Refuse(verdicts.Refused)
			out = e.Emit(p)
			verdicts = judge(t, v, out.Changed...)
		}
		if refused := whole(t, v, out.Resources); len(refused) > 0 {
			t.Errorf("program %d: without the guilty %v Envoy still refuses %v", i, w.guilty, refused)
		}
		if t.Failed() {
			return
		}
	}
	for _, what := range []string{"k=0", "k=1", "k=3", "k=20", "lethal"} {
		if counts[what] == 0 {
			t.Errorf("no program has %s", what)
		}
	}
	t.Logf("%d programs, %v, %+v", programs, counts, v.Status().Metrics)
}

func compareGuilt(t *testing.T, i int, guilty map[string]bool, v Verdicts) {
	t.Helper()
	found := map[string]bool{}
	for u, text := range v.Refused {
		found[string(u.Kind)+" "+u.Name] = true
		if !guilty[string(u.Kind)+" "+u.Name] {
			t.Errorf("program %d: %s %q is innocent: %s", i, u.Kind, u.Name, text)
		}
	}
	for g := range guilty {
		if !found[g] {
			t.Errorf("program %d: %s was accepted", i, g)
		}
	}
}

// TestGuiltyAmongMany finds none, one, three and twenty guilty routes among five thousand exactly.
func TestGuiltyAmongMany(t *testing.T) {
	v := open(t, nil)
	for _, k := range []int{0, 1, 3, 20} {
		w := &world{Rand: rand.New(rand.NewPCG(uint64(k), 1)), guilty: map[string]bool{}}
		var units []*ir.Unit
		bad := w.Perm(5000)[:k]
		for i := range 5000 {
			name := fmt.Sprintf("k%d-%d", k, i)
			if slices.Contains(bad, i) {
				w.blame(ir.UnitRoute, name)
				units = append(units, regex(name, fmt.Sprintf("/[%d", i)))
			} else {
				units = append(units, prefix(name))
			}
		}
		before := v.Status().Metrics
		compareGuilt(t, k, w.guilty, judge(t, v, units...))
		after := v.Status().Metrics
		if n := after.Responses - before.Responses; n > uint64(5000/chunk+1+k*chunk) {
			t.Errorf("%d guilty took %d responses", k, n)
		}
		t.Logf("%d guilty of 5,000: %s, %d responses", k, after.Took-before.Took, after.Responses-before.Responses)
	}
}
