package envoy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// large is a program of n routes with a cluster each, on hosts virtual hosts of one clear-text configuration.
func large(n, hosts int) *ir.Program {
	prog := small()
	prog.Clusters, prog.RouteConfigs[0].VirtualHosts = nil, nil
	for i := range n {
		prog.Clusters = append(prog.Clusters, &ir.Cluster{
			Name: fmt.Sprintf("cluster_svc_%06d_default", i), StatName: fmt.Sprintf("svc_%d_default", i), Discovery: ir.DiscoveryEDS,
			EndpointSet: "k8s/default/b/80", ConnectTimeoutMillis: 3000, Origins: from("Mapping", fmt.Sprintf("m-%d", i)),
		})
	}
	for h := range hosts {
		v := &ir.VirtualHost{Name: fmt.Sprintf("host-%04d", h), Domains: []string{fmt.Sprintf("h%d.example.com", h)}, Origins: from("Host", fmt.Sprintf("h-%d", h))}
		for i := h; i < n; i += hosts {
			v.Routes = append(v.Routes, aRoute(i, prog.Clusters[i].Name))
		}
		prog.RouteConfigs[0].VirtualHosts = append(prog.RouteConfigs[0].VirtualHosts, v)
	}
	return prog
}

func aRoute(i int, cluster string) *ir.Route {
	r := &ir.Route{
		Name:           fmt.Sprintf("Mapping/default/m-%d", i),
		Match:          ir.Match{PathKind: ir.PathPrefix, Path: fmt.Sprintf("/path-%d/", i)},
		Forward:        &ir.Forward{Clusters: []ir.WeightedCluster{{Cluster: cluster}}, PrefixRewrite: p("/"), TimeoutMillis: 3000, Retry: &ir.RetryPolicy{On: "5xx", NumRetries: p(uint32(2))}},
		RequestHeaders: ir.HeaderChanges{Add: []ir.HeaderValue{{Name: "x-client", Value: "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%"}}},
		Origins:        from("Mapping", fmt.Sprintf("m-%d", i)),
	}
	if i%5 == 0 {
		r.Match.Headers = []ir.ValueMatch{{Name: "x-tenant", Kind: ir.ValueExact, Value: fmt.Sprintf("t%d", i)}}
	}
	if i%10 == 0 {
		r.Match.PathKind, r.Match.Path = ir.PathRegex, fmt.Sprintf("/path-%d/[a-z]+/.*", i)
	}
	return r
}

// withRoute returns the program with one route of one virtual host replaced; everything else keeps its pointer.
func withRoute(prog *ir.Program, host, route int, r *ir.Route) *ir.Program {
	next, rc := *prog, *prog.RouteConfigs[0]
	v := *rc.VirtualHosts[host]
	v.Routes = slices.Clone(v.Routes)
	v.Routes[route] = r
	rc.VirtualHosts = slices.Clone(rc.VirtualHosts)
	rc.VirtualHosts[host] = &v
	next.RouteConfigs = slices.Clone(prog.RouteConfigs)
	next.RouteConfigs[0] = &rc
	return &next
}

// same checks that two outputs are equal in every byte and finding.
func same(t *testing.T, got, want Output) {
	t.Helper()
	if len(got.Resources) != len(want.Resources) {
		t.Fatalf("types: got %d, want %d", len(got.Resources), len(want.Resources))
	}
	for url, list := range want.Resources {
		if len(got.Resources[url]) != len(list) {
			t.Fatalf("%s: got %d resources, want %d", url, len(got.Resources[url]), len(list))
		}
		for i, w := range list {
			g := got.Resources[url][i]
			if g.Name != w.Name || g.Version != w.Version || string(g.Value) != string(w.Value) || g.EndpointSet != w.EndpointSet || !slices.Equal(g.Origins, w.Origins) {
				t.Fatalf("%s %q differs from %q", url, g.Name, w.Name)
			}
		}
	}
	if !slices.Equal(got.Diagnostics, want.Diagnostics) {
		t.Fatalf("diagnostics:\ngot  %v\nwant %v", got.Diagnostics, want.Diagnostics)
	}
}

func TestSplicedBytesAreTheMessages(t *testing.T) {
	prog := large(100, 7)
	out := clean(t, emit(t, prog))
	got := &routev3.RouteConfiguration{}
	if err := proto.Unmarshal(out.Resources[ir.TypeRouteConfig][0].Value, got); err != nil {
		t.Fatal(err)
	}
	want, _ := messages(prog)
	if !proto.Equal(got, want[0]) {
		t.Error("the spliced route configuration differs from the one built at once")
	}
	if err := got.ValidateAll(); err != nil {
		t.Error(err)
	}
}

// messages builds a program's route configurations and clusters without memo or splicing.
func messages(prog *ir.Program) ([]*routev3.RouteConfiguration, []*clusterv3.Cluster) {
	var f faults
	all := func(string) bool { return true }
	var rcs []*routev3.RouteConfiguration
	for _, rc := range prog.RouteConfigs {
		m := &routev3.RouteConfiguration{Name: rc.Name, ValidateClusters: wrapperspb.Bool(false)}
		for _, v := range rc.VirtualHosts {
			h := &routev3.VirtualHost{Name: v.Name, Domains: v.Domains}
			for _, r := range v.Routes {
				h.Routes = append(h.Routes, decoded(&routev3.Route{}, func(w *encoding) { w.route(r, all, services{}, &f) }))
			}
			m.VirtualHosts = append(m.VirtualHosts, h)
		}
		rcs = append(rcs, m)
	}
	var clusters []*clusterv3.Cluster
	for _, c := range prog.Clusters {
		clusters = append(clusters, decoded(&clusterv3.Cluster{}, func(w *encoding) { w.cluster(c, &f) }))
	}
	return rcs, clusters
}

// decoded returns the message that is encoded.
func decoded[M proto.Message](m M, encode func(w *encoding)) M {
	w := &encoding{}
	encode(w)
	if err := proto.Unmarshal(w.b, m); err != nil {
		panic(err)
	}
	return m
}

func TestOneChangedRoute(t *testing.T) {
	prog := large(1000, 10)
	e := NewEmitter(Options{})
	first := clean(t, e.Emit(prog))
	if first.Units != (Units{Routes: 1000, VirtualHosts: 10, RouteConfigs: 1, Clusters: 1000, EndpointSets: 1, Chains: 1, Listeners: 1}) {
		t.Errorf("first: %+v", first.Units)
	}
	if again := e.Emit(prog); again.Emitted != 0 {
		t.Errorf("nothing changed, but %+v was emitted", again.Units)
	}
	next := withRoute(prog, 3, 17, aRoute(5000, prog.Clusters[4].Name))
	second := clean(t, e.Emit(next))
	if second.Units != (Units{Routes: 1, VirtualHosts: 1, RouteConfigs: 1}) {
		t.Errorf("one route changed, but %+v was emitted", second.Units)
	}
	same(t, second, emit(t, next))
	for url, list := range first.Resources {
		for i, r := range list {
			if kept := second.Resources[url][i] == r; kept == (url == ir.TypeRouteConfig) {
				t.Errorf("%s %q: kept its pointer: %v", url, r.Name, kept)
			}
		}
	}
	back := e.Emit(prog)
	same(t, back, first)
}

func TestSharedListIsMadeOnce(t *testing.T) {
	prog := small()
	routes := prog.RouteConfigs[0].VirtualHosts[0].Routes
	for i := range 50 {
		prog.RouteConfigs = append(prog.RouteConfigs, &ir.RouteConfig{Name: fmt.Sprintf("tls-%02d", i), VirtualHosts: []*ir.VirtualHost{
			{Name: "v", Domains: []string{fmt.Sprintf("h%d.example.com", i)}, Routes: routes}}})
	}
	e := NewEmitter(Options{})
	out := clean(t, e.Emit(prog))
	if out.Units.Routes != 2 || out.Units.VirtualHosts != 51 || len(e.memo.lists) != 1 {
		t.Errorf("got %+v and %d lists", out.Units, len(e.memo.lists))
	}
	next := *prog
	next.RouteConfigs = slices.Clone(prog.RouteConfigs)
	shared := []*ir.Route{routes[0], aRoute(1, "b")}
	for i, rc := range prog.RouteConfigs {
		c, v := *rc, *rc.VirtualHosts[0]
		v.Routes = shared
		c.VirtualHosts = []*ir.VirtualHost{&v}
		next.RouteConfigs[i] = &c
	}
	second := clean(t, e.Emit(&next))
	if second.Units.Routes != 1 || second.Units.RouteConfigs != 51 {
		t.Errorf("got %+v", second.Units)
	}
	same(t, second, emit(t, &next))
}

func TestSharedVirtualHostIsRefreshedEverywhere(t *testing.T) {
	prog := small()
	prog.RouteConfigs = append(prog.RouteConfigs, &ir.RouteConfig{Name: "tls", VirtualHosts: prog.RouteConfigs[0].VirtualHosts})
	e := NewEmitter(Options{})
	clean(t, e.Emit(prog))
	without := *prog
	without.Clusters = prog.Clusters[:1]
	same(t, e.Emit(&without), emit(t, &without))
	same(t, e.Emit(prog), emit(t, prog))
}

func TestMemoDoesNotGrow(t *testing.T) {
	prog := large(200, 4)
	e := NewEmitter(Options{})
	e.Emit(prog)
	for i := range 2000 {
		prog = withRoute(prog, i%4, i%50, aRoute(i, prog.Clusters[i%200].Name))
		l := *prog.Listeners[0]
		c := *l.Chains[0]
		l.Chains = []*ir.FilterChain{&c}
		prog.Listeners = []*ir.Listener{&l}
		e.Emit(prog)
	}
	if n := len(e.memo.routes); n > 2*200+slack {
		t.Errorf("the memo has %d routes for 200", n)
	}
	if len(e.memo.lists) != 4 || len(e.memo.hosts) != 4 || len(e.memo.configs) != 1 {
		t.Errorf("the memo has %d lists, %d hosts and %d configurations for 4, 4 and 1", len(e.memo.lists), len(e.memo.hosts), len(e.memo.configs))
	}
	if n := len(e.chains.chains); n > 2+slack {
		t.Errorf("the memo has %d chains for 1", n)
	}
}

// TestWarmEqualsCold: random edits, faults included, each compared with an emission from nothing.
func TestWarmEqualsCold(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	prog := large(60, 6)
	e := NewEmitter(Options{})
	spare := []*ir.Cluster{}
	for step := range 1500 {
		next := *prog
		switch r.IntN(10) {
		case 0: // A cluster goes.
			if len(next.Clusters) > 20 {
				i := r.IntN(len(next.Clusters))
				spare = append(spare, next.Clusters[i])
				next.Clusters = slices.Delete(slices.Clone(next.Clusters), i, i+1)
			}
		case 1: // One comes back.
			if len(spare) > 0 {
				next.Clusters = append(slices.Clone(next.Clusters), spare[0])
				spare = spare[1:]
				slices.SortFunc(next.Clusters, func(a, b *ir.Cluster) int { return strings.Compare(a.Name, b.Name) })
			}
		case 2: // A cluster changes, perhaps for the worse.
			i := r.IntN(len(next.Clusters))
			c := *next.Clusters[i]
			c.ConnectTimeoutMillis = int64(r.IntN(3000)) - 300
			next.Clusters = slices.Clone(next.Clusters)
			next.Clusters[i] = &c
		case 3: // A virtual host comes, goes, or takes another's domain.
			rc := *next.RouteConfigs[0]
			rc.VirtualHosts = slices.Clone(rc.VirtualHosts)
			i := r.IntN(len(rc.VirtualHosts))
			v := *rc.VirtualHosts[i]
			switch {
			case r.IntN(3) == 0 && len(rc.VirtualHosts) > 2:
				rc.VirtualHosts = slices.Delete(rc.VirtualHosts, i, i+1)
			case r.IntN(2) == 0:
				v.Name = fmt.Sprintf("new-%06d", step)
				v.Domains = []string{fmt.Sprintf("N%d.example.com", r.IntN(8))}
				rc.VirtualHosts = append(rc.VirtualHosts, &v)
			default:
				v.Domains = []string{fmt.Sprintf("n%d.example.com", r.IntN(8)), fmt.Sprintf("x%d.example.com", step)}
				rc.VirtualHosts[i] = &v
			}
			next.RouteConfigs = []*ir.RouteConfig{&rc}
		case 4: // The endpoint set comes and goes.
			if len(next.EndpointSets) == 0 {
				next.EndpointSets = small().EndpointSets
			} else if r.IntN(4) == 0 {
				next.EndpointSets = nil
			}
		case 5: // A virtual host takes another's list.
			rc := *next.RouteConfigs[0]
			rc.VirtualHosts = slices.Clone(rc.VirtualHosts)
			v := *rc.VirtualHosts[0]
			v.Routes = rc.VirtualHosts[r.IntN(len(rc.VirtualHosts))].Routes
			rc.VirtualHosts[0] = &v
			next.RouteConfigs = []*ir.RouteConfig{&rc}
		default: // A route changes; it may split over two clusters, mirror, or be at fault.
			host := r.IntN(len(next.RouteConfigs[0].VirtualHosts))
			if n := len(next.RouteConfigs[0].VirtualHosts[host].Routes); n > 0 {
				x := aRoute(step, fmt.Sprintf("cluster_svc_%06d_default", r.IntN(60)))
				switch r.IntN(5) {
				case 0:
					x.Forward.Clusters = []ir.WeightedCluster{{Cluster: fmt.Sprintf("cluster_svc_%06d_default", r.IntN(60)), Weight: 1}, {Cluster: fmt.Sprintf("cluster_svc_%06d_default", r.IntN(60)), Weight: 2}}
				case 1:
					x.Forward.Mirrors = []ir.Mirror{{Cluster: fmt.Sprintf("cluster_svc_%06d_default", r.IntN(60))}}
				case 2:
					x.Forward.Retry.On = "foo"
				}
				next = *withRoute(&next, host, r.IntN(n), x)
			}
		}
		prog = &next
		same(t, e.Emit(prog), emit(t, prog))
		uses, hosts := 0, 0
		for _, l := range e.memo.lists {
			uses += l.uses
		}
		for _, c := range e.memo.configs {
			hosts += len(c.hosts)
		}
		if uses != hosts {
			t.Fatalf("step %d: lists count %d uses by %d virtual hosts", step, uses, hosts)
		}
	}
	e.Emit(nil)
	if len(e.memo.lists)+len(e.memo.hosts)+len(e.memo.configs) != 0 {
		t.Errorf("the memo keeps %d lists, %d hosts and %d configurations of nothing", len(e.memo.lists), len(e.memo.hosts), len(e.memo.configs))
	}
}

func TestOrderOfNodesDoesNotMatter(t *testing.T) {
	prog := full()
	want := emit(t, prog)
	slices.Reverse(prog.Clusters)
	slices.Reverse(prog.Secrets)
	slices.Reverse(prog.RouteConfigs)
	slices.Reverse(prog.EndpointSets)
	slices.Reverse(prog.Listeners)
	got := emit(t, prog)
	same(t, got, want)
	same(t, emit(t, full()), want)
}

func TestNothing(t *testing.T) {
	e := NewEmitter(Options{})
	for _, prog := range []*ir.Program{nil, {}, small(), nil} {
		same(t, e.Emit(prog), emit(t, prog))
	}
}
