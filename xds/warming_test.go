package xds

import (
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// slow is a cluster that becomes warm when DNS answers.
func slow(t testing.TB, name string) *ir.Resource {
	return pack(t, name, &clusterv3.Cluster{Name: name, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STRICT_DNS}})
}

// TestOnlyWhatNeedsAWarmingClusterWaits: a listener, a route configuration and an extension setting that lead to a cluster which is
// not warm stay as they are; all others change at once, publication after publication.
func TestOnlyWhatNeedsAWarmingClusterWaits(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		s := newServer(Options{})
		set := with(small(), res(ir.TypeRouteConfig, "r2", "1"))
		s.Publish(set)
		c := connect(t, serve(t, s), delta)
		c.boot(set)
		set = with(set, slow(t, "cold"), res(ir.TypeRouteConfig, "r1", "2", "cold"), res(ir.TypeRouteConfig, "r2", "2"))
		s.Publish(set)
		a := c.next(ir.TypeCluster) // no answer yet
		c.expect(ir.TypeRouteConfig, []string{"r2"})
		c.silent()
		set = with(set, res(ir.TypeListener, "l1", "2"), res(ir.TypeRouteConfig, "r2", "3"))
		s.Publish(set)
		c.expect(ir.TypeListener, []string{"l1"})
		c.expect(ir.TypeRouteConfig, []string{"r2"})
		set = with(set, res(ir.TypeListener, "l1", "3", "cold"), res(ir.TypeRouteConfig, "r2", "4", "c1"))
		n := s.Publish(set)
		c.expect(ir.TypeRouteConfig, []string{"r2"})
		c.silent()
		c.ack(a)
		c.expect(ir.TypeListener, []string{"l1"})
		c.expect(ir.TypeRouteConfig, []string{"r1"})
		settled(t, s, n)
	})
}

// TestOneWarmingClusterHoldsBackNoOther: Envoy answers none of its clusters while one of them waits for DNS. Those that need nothing but
// what has been sent are led to all the same, in the order in which Envoy takes it up.
func TestOneWarmingClusterHoldsBackNoOther(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		s := newServer(Options{})
		set := with(small(), res(ir.TypeRouteConfig, "r2", "1"), res(ir.TypeRouteConfig, "r3", "1"), res(ir.TypeSecret, "ca", "1"))
		s.Publish(set)
		c := connect(t, serve(t, s), delta)
		c.boot(set)
		static := pack(t, "static", &clusterv3.Cluster{Name: "static"})
		checked := pack(t, "checked", &clusterv3.Cluster{Name: "checked", AltStatName: "ca"}) // mentions a secret
		set = with(set, slow(t, "cold"), static, checked, cluster("eds", "1", "e3"), res(ir.TypeEndpoint, "e3", "1"),
			res(ir.TypeRouteConfig, "r1", "2", "static"), res(ir.TypeRouteConfig, "r2", "2", "eds"), res(ir.TypeRouteConfig, "r3", "2", "checked"))
		n := s.Publish(set)
		a := c.next(ir.TypeCluster)
		c.expect(ir.TypeRouteConfig, []string{"r1"})
		c.silent()
		c.subscribe(ir.TypeEndpoint, "e3")
		c.expect(ir.TypeEndpoint, []string{"e3"})
		c.expect(ir.TypeRouteConfig, []string{"r2"})
		c.silent()
		c.ack(a)
		c.expect(ir.TypeRouteConfig, []string{"r3"})
		settled(t, s, n)
	})
}

// TestClustersBehindASilentOneWaitLess: what leads to the later one goes first.
func TestClustersBehindASilentOneWaitLess(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		s := newServer(Options{BarrierTimeout: 3 * time.Hour})
		set := with(small(), res(ir.TypeExtension, "x", "1"))
		c := drive(t, s, set, delta)
		c.ask(ir.TypeExtension, "x")
		set = with(set, slow(t, "silent"), res(ir.TypeListener, "l1", "2", "silent"))
		s.Publish(set)
		c.pass(0)
		c.sends(ir.TypeCluster)
		set = with(set, slow(t, "later"), res(ir.TypeExtension, "x", "2", "later"))
		s.Publish(set)
		c.pass(0)
		c.sends(ir.TypeCluster)
		c.pass(55 * time.Minute)
		c.sends()
		c.pass(10 * time.Minute)
		c.ack(c.sends(ir.TypeExtension)[0])
		c.pass(110 * time.Minute)
		c.sends()
		c.pass(10 * time.Minute)
		c.ack(c.sends(ir.TypeListener)[0])
		if got := s.Counters().Timeouts; got != 2 {
			t.Errorf("%d timeouts counted", got)
		}
	})
}

func table(hosts ...*routev3.VirtualHost) *routev3.RouteConfiguration {
	return &routev3.RouteConfiguration{Name: "r1", VirtualHosts: hosts}
}

func host(name string, routes ...*routev3.Route) *routev3.VirtualHost {
	return &routev3.VirtualHost{Name: name, Domains: []string{name}, Routes: routes}
}

func named(name string, r *routev3.Route) *routev3.Route { r.Name = name; return r }

// TestSplice: what the client has of a route stands in for what cannot be led to yet.
func TestSplice(t *testing.T) {
	moved := host("h", forward("/", "a"))
	moved.Domains = []string{"h", "x"}
	headed := host("h", forward("/", "a"))
	headed.RequestMirrorPolicies = []*routev3.RouteAction_RequestMirrorPolicy{{Cluster: "cold"}}
	for _, tt := range []struct {
		name             string
		have, want, form *routev3.RouteConfiguration
	}{
		{"a route more", table(host("h", forward("/", "a"))), table(host("h", forward("/new", "cold"), forward("/", "b"))), table(host("h", forward("/", "b")))},
		{"a route led elsewhere", table(host("h", forward("/m", "a"), forward("/", "a"))), table(host("h", forward("/m", "cold"), forward("/", "b"))),
			table(host("h", forward("/m", "a"), forward("/", "b")))},
		{"a route moved and led elsewhere", table(host("h", named("m", forward("/m", "a")), forward("/", "a"))),
			table(host("h", forward("/", "b"), named("m", forward("/n", "cold")))), table(host("h", forward("/", "b"), named("m", forward("/m", "a"))))},
		{"a route of the same object more", table(host("h", named("m", forward("/m", "a")))),
			table(host("h", named("m", forward("/n", "cold")), named("m", forward("/m", "b")))), table(host("h", named("m", forward("/m", "b"))))},
		{"a split", table(host("h", forward("/", "a"))), table(host("h", split("/", "a", "cold"))), table(host("h", forward("/", "a")))},
		{"a host more", table(host("h", forward("/", "a"))), table(host("h", forward("/", "b")), host("new", forward("/", "cold"), forward("/x", "a"))), table(host("h", forward("/", "b")))},
		{"a host less", table(host("g", forward("/", "a")), host("h", forward("/", "a"))), table(host("h", forward("/", "cold"))), table(host("h", forward("/", "a")))},
		{"a domain moved to a host more", table(moved), table(host("h", forward("/", "b")), host("x", forward("/", "cold"))), table(moved)},
		{"a host's own setting", table(host("h", forward("/", "b"))), table(headed), table(host("h", forward("/", "b")))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := splice(pack(t, "r1", tt.have), pack(t, "r1", tt.want), among(map[string]bool{"cold": true}))
			var form routev3.RouteConfiguration
			if err := proto.Unmarshal(got.Value, &form); err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(&form, tt.form) {
				t.Errorf("got  %v\nwant %v", &form, tt.form)
			}
		})
	}
}

func split(prefix string, to ...string) *routev3.Route {
	r, w := forward(prefix, ""), &routev3.WeightedCluster{}
	for _, name := range to {
		w.Clusters = append(w.Clusters, &routev3.WeightedCluster_ClusterWeight{Name: name})
	}
	r.GetRoute().ClusterSpecifier = &routev3.RouteAction_WeightedClusters{WeightedClusters: w}
	return r
}

// TestPartOfARouteConfiguration: one that leads to a warming cluster and has other edits too is sent without what waits, once for all
// that comes meanwhile, and whole when the cluster is warm.
func TestPartOfARouteConfiguration(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		s := newServer(Options{})
		s.pace.part = 250 * time.Millisecond
		rc := func(routes ...*routev3.Route) *ir.Resource { return pack(t, "r1", table(host("*", routes...))) }
		set := with(small(), rc(forward("/", "c1")))
		s.Publish(set)
		w := &tableClient{client: connect(t, serve(t, s), delta), delta: delta}
		w.boot(set)
		set = with(set, slow(t, "cold"), rc(forward("/new", "cold"), forward("/", "c2")))
		begun := time.Now()
		s.Publish(set)
		a := w.next(ir.TypeCluster)
		part := w.next(ir.TypeRouteConfig)
		if time.Since(begun) < s.pace.part {
			t.Error("Envoy has no time to answer before it is sent a part")
		}
		if got, whole := part.got["r1"], set[ir.TypeRouteConfig][0].Version; delta && got == whole {
			t.Error("the whole was sent while the cluster was not warm")
		}
		w.ack(part)
		w.silent()
		set = with(set, rc(forward("/new", "cold"), forward("/x", "c1"), forward("/", "c2")))
		n := s.Publish(set)
		w.ack(w.next(ir.TypeRouteConfig))
		w.silent()
		w.ack(a)
		if got := w.expectRoutes(); delta && got != set[ir.TypeRouteConfig][0].Version {
			t.Errorf("version %s came at the end", got)
		}
		settled(t, s, n)
	})
}

// tableClient is a client of real route configurations, whose names are not where body puts them.
type tableClient struct {
	*client
	delta bool
}

func (c *tableClient) boot(set ir.ResourceSet) {
	c.t.Helper()
	c.client.boot(without(set, set[ir.TypeRouteConfig][0]))
	c.subscribe(ir.TypeRouteConfig, "r1")
	c.ack(c.next(ir.TypeRouteConfig))
}

func (c *tableClient) expectRoutes() string {
	c.t.Helper()
	a := c.next(ir.TypeRouteConfig)
	c.ack(a)
	return a.got["r1"]
}

// TestResumedClientIsNotLedToClustersItMayNotHave: a client that reconnects may ask for its routes before it tells of its clusters.
func TestResumedClientIsNotLedToClustersItMayNotHave(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		s := newServer(Options{})
		s.Publish(with(small(), res(ir.TypeRouteConfig, "r1", "2", "c2")))
		c := connect(t, serve(t, s), delta)
		c.resume(ir.TypeRouteConfig, map[string]string{"r1": "1"}, "r1")
		c.silent()
		c.resume(ir.TypeCluster, map[string]string{"c1": "1"})
		a := c.next(ir.TypeCluster)
		c.silent()
		c.ack(a)
		c.expect(ir.TypeRouteConfig, []string{"r1"})
	})
}

// TestTheClockKnowsOfWhatWasJustSent: a wait that begins ends by itself, even if nothing ever happens again.
func TestTheClockKnowsOfWhatWasJustSent(t *testing.T) {
	s := newServer(Options{BarrierTimeout: time.Minute})
	set := small()
	c := drive(t, s, set, true)
	s.Publish(with(set, slow(t, "cold"), res(ir.TypeListener, "l1", "2", "cold")))
	until := c.pass(0)
	if until.IsZero() || until.After(time.Now().Add(time.Minute)) {
		t.Fatalf("the stream is woken at %v", until)
	}
	c.sends(ir.TypeCluster)
	c.pass(until.Add(time.Second).Sub(c.now))
	c.sends(ir.TypeListener)
}
