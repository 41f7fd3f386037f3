package xds

import (
	"context"
	"errors"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/chancery-gateway/chancery/translators/ir"
)

func small() ir.ResourceSet {
	return world(
		cluster("c1", "1", "e1"), cluster("c2", "1", "e2"),
		res(ir.TypeEndpoint, "e1", "1"), res(ir.TypeEndpoint, "e2", "1"),
		res(ir.TypeListener, "l1", "1"), res(ir.TypeRouteConfig, "r1", "1"),
	)
}

// with returns the set with the resources in place of those of the same name.
func with(set ir.ResourceSet, resources ...*ir.Resource) ir.ResourceSet {
	return world(append(all(without(set, resources...)), resources...)...)
}

func without(set ir.ResourceSet, gone ...*ir.Resource) ir.ResourceSet {
	var kept []*ir.Resource
next:
	for _, r := range all(set) {
		for _, g := range gone {
			if g.Type == r.Type && g.Name == r.Name {
				continue next
			}
		}
		kept = append(kept, r)
	}
	return world(kept...)
}

func all(set ir.ResourceSet) []*ir.Resource {
	var out []*ir.Resource
	for _, list := range set {
		out = append(out, list...)
	}
	return out
}

func TestFirstFetchIsHeldUntilSomethingIsPublished(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		s := newServer(Options{})
		c := connect(t, serve(t, s), delta)
		c.subscribe(ir.TypeCluster)
		c.subscribe(ir.TypeListener)
		c.silent()
		n := s.Publish(world(cluster("c1", "1", ""), res(ir.TypeListener, "l1", "1")))
		c.expect(ir.TypeCluster, []string{"c1"})
		c.expect(ir.TypeListener, []string{"l1"})
		settled(t, s, n)
	})
}

func TestEmptyWildcardIsAnswered(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		s := newServer(Options{})
		s.Publish(ir.ResourceSet{})
		c := connect(t, serve(t, s), delta)
		c.subscribe(ir.TypeCluster)
		c.expect(ir.TypeCluster, nil)
		c.subscribe(ir.TypeListener, "*")
		c.expect(ir.TypeListener, nil)
		c.silent()
	})
}

func TestRouteChangeSendsNothingElse(t *testing.T) { // B065
	both(t, func(t *testing.T, delta bool) {
		s := newServer(Options{})
		set := small()
		s.Publish(set)
		c := connect(t, serve(t, s), delta)
		c.boot(set)
		before := s.Counters()
		n := s.Publish(with(set, res(ir.TypeRouteConfig, "r1", "2")))
		if a := c.expect(ir.TypeRouteConfig, []string{"r1"}); a.got["r1"] != "2" {
			t.Errorf("got version %q", a.got["r1"])
		}
		settled(t, s, n)
		c.silent()
		after := s.Counters()
		for _, typ := range []string{ir.TypeCluster, ir.TypeEndpoint, ir.TypeListener, ir.TypeSecret} {
			if a, b := before.Types[typ], after.Types[typ]; a.Bytes != b.Bytes || a.Responses != b.Responses {
				t.Errorf("%s: %+v became %+v", shortType(typ), a, b)
			}
		}
		if got := after.Types[ir.TypeRouteConfig].Resources - before.Types[ir.TypeRouteConfig].Resources; got != 1 {
			t.Errorf("%d route configurations sent", got)
		}
	})
}

func TestEqualVersionsAreNoChange(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		s := newServer(Options{})
		s.Publish(small())
		c := connect(t, serve(t, s), delta)
		c.boot(small())
		settled(t, s, s.Publish(small()))
		c.silent()
	})
}

// A cluster that comes and one that goes: made before the route moves, broken after it has moved.
func TestMakeBeforeBreak(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		s := newServer(Options{})
		set := small()
		s.Publish(set)
		c := connect(t, serve(t, s), delta)
		c.boot(set)

		next := without(with(set, cluster("c3", "1", "e3"), res(ir.TypeEndpoint, "e3", "1"), res(ir.TypeRouteConfig, "r1", "2")),
			set[ir.TypeCluster][0], set[ir.TypeEndpoint][0])
		n := s.Publish(next)
		made := []string{"c3"}
		if !delta {
			made = []string{"c1", "c2", "c3"}
		}
		a := c.peek(ir.TypeCluster, made)
		c.subscribe(ir.TypeEndpoint, "e3")
		c.expect(ir.TypeEndpoint, []string{"e3"})
		c.silent() // the route waits for the cluster
		c.ack(a)
		a = c.peek(ir.TypeRouteConfig, []string{"r1"})
		c.silent() // the removal waits for the route
		c.ack(a)
		if delta {
			c.expect(ir.TypeCluster, nil, "c1")
			c.expect(ir.TypeEndpoint, nil, "e1")
		} else {
			c.expect(ir.TypeCluster, []string{"c2", "c3"})
		}
		settled(t, s, n)
	})
}

func TestBarrierIsBoundedByTheClock(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		s := newServer(Options{BarrierTimeout: 200 * time.Millisecond})
		set := small()
		s.Publish(set)
		c := connect(t, serve(t, s), delta)
		c.boot(set)
		start := time.Now()
		s.Publish(with(set, cluster("c3", "1", ""), res(ir.TypeRouteConfig, "r1", "2")))
		c.next(ir.TypeCluster) // never answered
		c.expect(ir.TypeRouteConfig, []string{"r1"})
		if took := time.Since(start); took < 190*time.Millisecond {
			t.Errorf("the route came after %v", took)
		}
		// A response that is overdue once does not hold the next publication again.
		start = time.Now()
		s.Publish(with(set, cluster("c3", "1", ""), res(ir.TypeRouteConfig, "r1", "3")))
		c.expect(ir.TypeRouteConfig, []string{"r1"})
		if took := time.Since(start); took > 150*time.Millisecond {
			t.Errorf("the second route came after %v", took)
		}
		if got := s.Counters().Timeouts; got != 1 {
			t.Errorf("%d timeouts counted", got)
		}
	})
}

func TestPublicationsCollapseDuringAWait(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		s := newServer(Options{})
		set := small()
		s.Publish(set)
		c := connect(t, serve(t, s), delta)
		c.boot(set)
		set = with(set, cluster("c2", "2", "e2"))
		s.Publish(set)
		a := c.next(ir.TypeCluster)
		c.expect(ir.TypeEndpoint, []string{"e2"})
		var n uint64
		for _, v := range []string{"2", "3", "4", "5"} {
			set = with(set, res(ir.TypeRouteConfig, "r1", v))
			n = s.Publish(set)
		}
		c.silent()
		c.ack(a)
		if got := c.expect(ir.TypeRouteConfig, []string{"r1"}); got.got["r1"] != "5" {
			t.Errorf("got route version %s, want the newest", got.got["r1"])
		}
		settled(t, s, n)
		c.silent()
	})
}

func TestEndpointsPassEveryWait(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		s := newServer(Options{})
		set := small()
		s.Publish(set)
		c := connect(t, serve(t, s), delta)
		c.boot(set)
		s.Publish(with(set, cluster("c2", "2", "")))
		a := c.next(ir.TypeCluster) // unanswered
		s.PublishEndpoints([]*ir.Resource{res(ir.TypeEndpoint, "e1", "2")}, nil)
		if got := c.expect(ir.TypeEndpoint, []string{"e1"}); got.got["e1"] != "2" {
			t.Errorf("got endpoints %s", got.got["e1"])
		}
		// So do the endpoints of a whole publication.
		s.Publish(with(set, cluster("c2", "2", ""), res(ir.TypeEndpoint, "e1", "3")))
		if got := c.expect(ir.TypeEndpoint, []string{"e1"}); got.got["e1"] != "3" {
			t.Errorf("got endpoints %s", got.got["e1"])
		}
		c.ack(a)
		c.silent()
	})
}

func TestEndpointsOfAPublicationReplaceTheFastPath(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		s := newServer(Options{})
		set := small()
		s.Publish(set)
		c := connect(t, serve(t, s), delta)
		c.boot(set)
		s.PublishEndpoints([]*ir.Resource{res(ir.TypeEndpoint, "e1", "2"), res(ir.TypeEndpoint, "e9", "1")}, nil)
		c.expect(ir.TypeEndpoint, []string{"e1"})
		if served := s.Served(); find(served[ir.TypeEndpoint], "e1").Version != "2" || find(served[ir.TypeEndpoint], "e9") == nil {
			t.Error("Served does not hold the endpoint changes")
		}
		s.PublishEndpoints([]*ir.Resource{res(ir.TypeEndpoint, "e1", "2")}, nil)
		c.silent() // no change
		s.Publish(set)
		if got := c.expect(ir.TypeEndpoint, []string{"e1"}); got.got["e1"] != "1" {
			t.Errorf("got endpoints %s", got.got["e1"])
		}
		if find(s.Served()[ir.TypeEndpoint], "e9") != nil {
			t.Error("an endpoint set outside the publication is still served")
		}
	})
}

func TestChangedClusterGetsItsEndpointsAgain(t *testing.T) { // B059
	both(t, func(t *testing.T, delta bool) {
		s := newServer(Options{})
		set := small()
		s.Publish(set)
		c := connect(t, serve(t, s), delta)
		c.boot(set)
		s.Publish(with(set, cluster("c2", "2", "e2")))
		a := c.next(ir.TypeCluster)
		c.expect(ir.TypeEndpoint, []string{"e2"})
		c.ack(a)
		c.silent()
		// A new cluster on an endpoint set that the client has already: the same.
		s.Publish(with(set, cluster("c2", "2", "e2"), cluster("c3", "1", "e1")))
		c.ack(c.next(ir.TypeCluster))
		c.expect(ir.TypeEndpoint, []string{"e1"})
		c.silent()
	})
}

func TestClusterThatComesBackGetsItsEndpoints(t *testing.T) { // B058
	both(t, func(t *testing.T, delta bool) {
		s := newServer(Options{})
		set := small()
		s.Publish(set)
		c := connect(t, serve(t, s), delta)
		c.boot(set)
		gone := without(set, set[ir.TypeCluster][1], set[ir.TypeEndpoint][1])
		s.Publish(gone)
		if delta {
			c.expect(ir.TypeCluster, nil, "c2")
			c.expect(ir.TypeEndpoint, nil, "e2")
		} else {
			c.expect(ir.TypeCluster, []string{"c1"})
		}
		c.unsubscribe(ir.TypeEndpoint, "e2")
		c.silent()
		s.Publish(set)
		c.ack(c.next(ir.TypeCluster))
		c.subscribe(ir.TypeEndpoint, "e2")
		c.expect(ir.TypeEndpoint, []string{"e2"})
		c.silent()
	})
}

func TestUnknownNamesAreAnsweredAtOnce(t *testing.T) { // B061
	both(t, func(t *testing.T, delta bool) {
		s := newServer(Options{})
		s.Publish(without(small(), res(ir.TypeCluster, "c2", ""), res(ir.TypeEndpoint, "e2", "")))
		c := connect(t, serve(t, s), delta)
		c.subscribe(ir.TypeEndpoint, "e1", "e2")
		c.expect(ir.TypeEndpoint, []string{"e1"}, "e2")
		c.subscribe(ir.TypeCluster)
		c.expect(ir.TypeCluster, []string{"c1"})
		c.expect(ir.TypeEndpoint, []string{"e1"}) // sent again behind its cluster
		c.subscribe(ir.TypeRouteConfig, "nowhere")
		c.expect(ir.TypeRouteConfig, nil, "nowhere")
		c.silent()
		// It may come later.
		s.Publish(small())
		c.ack(c.next(ir.TypeEndpoint))
		c.ack(c.next(ir.TypeCluster))
		c.expect(ir.TypeEndpoint, []string{"e2"})
	})
}

// The endpoints of a served cluster are late, not unknown: saying "none" would let Envoy route to an empty cluster.
func TestLateEndpointsAreNotDenied(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		s := newServer(Options{})
		s.Publish(without(small(), res(ir.TypeEndpoint, "e2", "")))
		c := connect(t, serve(t, s), delta)
		c.subscribe(ir.TypeCluster)
		c.expect(ir.TypeCluster, []string{"c1", "c2"})
		c.subscribe(ir.TypeEndpoint, "e1", "e2")
		c.expect(ir.TypeEndpoint, []string{"e1"})
		c.silent()
		s.PublishEndpoints([]*ir.Resource{res(ir.TypeEndpoint, "e2", "1")}, nil)
		c.expect(ir.TypeEndpoint, []string{"e2"})
	})
}

func TestSubscriptions(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		s := newServer(Options{})
		set := world(res(ir.TypeRouteConfig, "r1", "1"), res(ir.TypeRouteConfig, "r2", "1"), res(ir.TypeRouteConfig, "r3", "1"))
		s.Publish(set)
		c := connect(t, serve(t, s), delta)
		c.subscribe(ir.TypeRouteConfig, "r1")
		c.expect(ir.TypeRouteConfig, []string{"r1"})
		c.subscribe(ir.TypeRouteConfig, "r2") // late
		c.expect(ir.TypeRouteConfig, []string{"r2"})
		s.Publish(with(set, res(ir.TypeRouteConfig, "r3", "2"), res(ir.TypeRouteConfig, "r2", "2")))
		c.expect(ir.TypeRouteConfig, []string{"r2"})
		c.unsubscribe(ir.TypeRouteConfig, "r1")
		c.silent()
		s.Publish(with(set, res(ir.TypeRouteConfig, "r1", "3"), res(ir.TypeRouteConfig, "r2", "2")))
		c.silent()
		c.subscribe(ir.TypeRouteConfig, "r1") // again
		if a := c.expect(ir.TypeRouteConfig, []string{"r1"}); a.got["r1"] != "3" {
			t.Errorf("got %s", a.got["r1"])
		}
		if delta {
			c.subscribe(ir.TypeRouteConfig, "r1") // subscribed already: delta sends it again
			c.expect(ir.TypeRouteConfig, []string{"r1"})
		}
		c.silent()
	})
}

func TestWildcards(t *testing.T) {
	t.Run("delta", func(t *testing.T) {
		s := newServer(Options{})
		s.Publish(small())
		c := connect(t, serve(t, s), true)
		c.subscribe(ir.TypeCluster, "c1")
		c.expect(ir.TypeCluster, []string{"c1"})
		c.subscribe(ir.TypeCluster, "*")
		c.expect(ir.TypeCluster, []string{"c2"})
		c.unsubscribe(ir.TypeCluster, "c1") // still in the wildcard: sent once more
		c.expect(ir.TypeCluster, []string{"c1"})
		c.unsubscribe(ir.TypeCluster, "*")
		c.silent()
		s.Publish(with(small(), cluster("c1", "2", "")))
		c.silent()
	})
	t.Run("sotw", func(t *testing.T) {
		s := newServer(Options{})
		s.Publish(small())
		c := connect(t, serve(t, s), false)
		c.subscribe(ir.TypeCluster)
		c.expect(ir.TypeCluster, []string{"c1", "c2"})
		c.subscribe(ir.TypeCluster, "c1") // named from now on
		c.silent()
		s.Publish(with(small(), cluster("c2", "2", "")))
		c.silent()
		c.unsubscribe(ir.TypeCluster, "c1") // an empty list is none by now
		c.silent()
		s.Publish(with(small(), cluster("c1", "2", "")))
		c.silent()
		c.subscribe(ir.TypeCluster, "*")
		c.expect(ir.TypeCluster, []string{"c1", "c2"})
	})
}

func TestDuplicateAndStaleNoncesAreIgnored(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		var acks, nacks int
		s := newServer(Options{OnACK: func(ACK) { acks++ }, OnNACK: func(NACK) { nacks++ }})
		set := small()
		s.Publish(set)
		c := connect(t, serve(t, s), delta)
		c.subscribe(ir.TypeCluster)
		a := c.expect(ir.TypeCluster, []string{"c1", "c2"})
		c.ack(a)
		c.reply(a, "too late to say no")
		c.reply(answer{typeURL: ir.TypeCluster, nonce: "made up"}, "never sent")
		c.silent()
		s.Publish(with(set, cluster("c1", "2", "")))
		b := c.next(ir.TypeCluster)
		c.ack(a)
		c.ack(b)
		c.silent()
		if got := s.Counters().Types[ir.TypeCluster]; got.ACKs != 2 || got.NACKs != 0 {
			t.Errorf("%d ACKs and %d NACKs counted", got.ACKs, got.NACKs)
		}
	})
}

// A state-of-the-world client that is busy may answer the newest response only: Envoy does so while clusters warm.
func TestOneAnswerStandsForTheOlderOnes(t *testing.T) {
	s := newServer(Options{})
	set := small()
	s.Publish(set)
	c := connect(t, serve(t, s), false)
	c.boot(set)
	s.PublishEndpoints([]*ir.Resource{res(ir.TypeEndpoint, "e1", "2")}, nil)
	c.next(ir.TypeEndpoint)
	s.PublishEndpoints([]*ir.Resource{res(ir.TypeEndpoint, "e2", "2")}, nil)
	c.expect(ir.TypeEndpoint, []string{"e2"})
	settled(t, s, s.Publish(with(set, res(ir.TypeEndpoint, "e1", "2"), res(ir.TypeEndpoint, "e2", "2"))))
}

func TestReconnectDelta(t *testing.T) {
	s := newServer(Options{})
	set := small()
	s.Publish(set)
	conn := serve(t, s)
	c := connect(t, conn, true)
	c.boot(set)
	c.cancel()

	// Meanwhile: c1 changed, c2 gone, c3 new, the route changed.
	s.Publish(without(with(set, cluster("c1", "2", "e1"), cluster("c3", "1", ""), res(ir.TypeRouteConfig, "r1", "2")),
		set[ir.TypeCluster][1], set[ir.TypeEndpoint][1]))
	c = connect(t, conn, true)
	c.sendDelta(&discovery.DeltaDiscoveryRequest{TypeUrl: ir.TypeCluster, InitialResourceVersions: map[string]string{"c1": "1", "c2": "1"}})
	a := c.peek(ir.TypeCluster, []string{"c1", "c3"})
	c.sendDelta(&discovery.DeltaDiscoveryRequest{TypeUrl: ir.TypeEndpoint, ResourceNamesSubscribe: []string{"e1", "e2"},
		InitialResourceVersions: map[string]string{"e1": "1", "e2": "1"}})
	c.expect(ir.TypeEndpoint, []string{"e1"}, "e2") // e1 again, for its cluster changed
	c.sendDelta(&discovery.DeltaDiscoveryRequest{TypeUrl: ir.TypeListener, InitialResourceVersions: map[string]string{"l1": "1"}})
	c.sendDelta(&discovery.DeltaDiscoveryRequest{TypeUrl: ir.TypeRouteConfig, ResourceNamesSubscribe: []string{"r1"},
		InitialResourceVersions: map[string]string{"r1": "1"}})
	c.silent() // the route waits for the clusters
	c.ack(a)
	a = c.peek(ir.TypeRouteConfig, []string{"r1"})
	c.silent() // the removal waits for the route
	c.ack(a)
	c.expect(ir.TypeCluster, nil, "c2")
	c.silent()
}

func TestReconnectWithNothingNewIsSilent(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		s := newServer(Options{})
		n := s.Publish(small())
		conn := serve(t, s)
		c := connect(t, conn, delta)
		if delta {
			c.sendDelta(&discovery.DeltaDiscoveryRequest{TypeUrl: ir.TypeCluster, InitialResourceVersions: map[string]string{"c1": "1", "c2": "1"}})
			c.sendDelta(&discovery.DeltaDiscoveryRequest{TypeUrl: ir.TypeEndpoint, ResourceNamesSubscribe: []string{"e1", "e2"},
				InitialResourceVersions: map[string]string{"e1": "1", "e2": "1"}})
			c.sendDelta(&discovery.DeltaDiscoveryRequest{TypeUrl: ir.TypeListener, InitialResourceVersions: map[string]string{"l1": "1"}})
		} else {
			for _, typ := range []string{ir.TypeCluster, ir.TypeListener} {
				c.sendWhole(&discovery.DiscoveryRequest{TypeUrl: typ, VersionInfo: digest(small()[typ], nil)})
			}
		}
		c.silent()
		settled(t, s, n)
		s.Publish(with(small(), cluster("c1", "2", "")))
		c.ack(c.next(ir.TypeCluster))
	})
}

// A restarted server is asked before it has anything: the client keeps what it has, and the order holds when it comes.
func TestReconnectBeforeThePublication(t *testing.T) {
	s := newServer(Options{})
	c := connect(t, serve(t, s), true)
	c.sendDelta(&discovery.DeltaDiscoveryRequest{TypeUrl: ir.TypeCluster, InitialResourceVersions: map[string]string{"c1": "1", "old": "1"}})
	c.sendDelta(&discovery.DeltaDiscoveryRequest{TypeUrl: ir.TypeListener, InitialResourceVersions: map[string]string{"l1": "1"}})
	c.sendDelta(&discovery.DeltaDiscoveryRequest{TypeUrl: ir.TypeRouteConfig, ResourceNamesSubscribe: []string{"r1"}, InitialResourceVersions: map[string]string{"r1": "0"}})
	c.silent()
	n := s.Publish(small())
	a := c.peek(ir.TypeCluster, []string{"c2"})
	c.silent()
	c.ack(a)
	c.expect(ir.TypeRouteConfig, []string{"r1"})
	c.expect(ir.TypeCluster, nil, "old")
	settled(t, s, n)
}

func TestNACKIsRememberedWithOrigins(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		var told []NACK
		s := newServer(Options{OnNACK: func(n NACK) { told = append(told, n) }})
		set := small()
		s.Publish(set)
		c := connect(t, serve(t, s), delta)
		c.boot(set)
		n := s.Publish(with(set, cluster("c1", "2", ""), cluster("c2", "2", "")))
		c.reply(c.next(ir.TypeCluster), "Error adding/updating cluster(s) c2: no such thing")
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var refusal *Refusal
		if err := s.Acknowledged(ctx, n); !errors.As(err, &refusal) || len(refusal.NACKs) != 1 {
			t.Fatalf("Acknowledged returned %v", err)
		}
		got := refusal.NACKs[0]
		if got.Node != "envoy-1" || got.Type != ir.TypeCluster || len(got.Names) != 1 || got.Names[0] != "c2" || len(got.Origins) != 1 || got.Origins[0].Name != "c2" {
			t.Errorf("refusal %+v", got)
		}
		if len(told) != 1 || told[0].Text != got.Text {
			t.Errorf("hook was told %v", told)
		}
		c.silent() // not sent again and again
		if st := s.Status(); len(st) != 1 || len(st[0].Types[0].Refused) != 1 || st[0].ID != "envoy-1" {
			t.Errorf("status %+v", st)
		}
		n = s.Publish(with(set, cluster("c1", "2", ""), cluster("c2", "3", "")))
		c.ack(c.next(ir.TypeCluster))
		settled(t, s, n)
		c.silent()
		if st := s.Status(); len(st[0].Types[0].Refused) != 0 {
			t.Errorf("the refusal outlived its resource: %+v", st[0].Types[0])
		}
	})
}

func TestRefusedSecretIsReplacedAtOnce(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		s := newServer(Options{})
		set := with(small(), res(ir.TypeSecret, "s1", "1"), res(ir.TypeSecret, "s2", "1"))
		s.Publish(set)
		conn := serve(t, s)
		c := connect(t, conn, delta)
		c.boot(set)
		// Two secrets change; each comes alone, so that a refusal tells which.
		bad := with(set, res(ir.TypeSecret, "s1", "2"), res(ir.TypeSecret, "s2", "2"))
		n := s.Publish(bad)
		a := c.peek(ir.TypeSecret, []string{"s1"})
		b := c.peek(ir.TypeSecret, []string{"s2"})
		if a.got["s1"] != "2" {
			t.Fatalf("got %v", a.got)
		}
		c.reply(a, "Failed to load certificate chain from <inline>")
		c.ack(b)
		if got := c.expect(ir.TypeSecret, []string{"s1"}); got.got["s1"] != "1" {
			t.Errorf("stand-in %v", got.got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var refusal *Refusal
		if err := s.Acknowledged(ctx, n); !errors.As(err, &refusal) || refusal.NACKs[0].Names[0] != "s1" {
			t.Fatalf("Acknowledged returned %v", err)
		}
		s.Publish(with(bad, res(ir.TypeRouteConfig, "r1", "2")))
		c.expect(ir.TypeRouteConfig, []string{"r1"}) // the refused form is not tried again
		n = s.Publish(with(bad, res(ir.TypeSecret, "s1", "3")))
		if got := c.expect(ir.TypeSecret, []string{"s1"}); got.got["s1"] != "3" {
			t.Errorf("got %v", got.got)
		}
		c.expect(ir.TypeRouteConfig, []string{"r1"})
		settled(t, s, n)
	})
}

func TestRefusedSecretInOrder(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		s := newServer(Options{})
		set := with(small(), res(ir.TypeSecret, "s1", "1"))
		s.Publish(set)
		conn := serve(t, s)
		c := connect(t, conn, delta)
		c.boot(set)
		bad := with(set, res(ir.TypeSecret, "s1", "2"))
		s.Publish(bad)
		c.reply(c.peek(ir.TypeSecret, []string{"s1"}), "key does not match")
		if got := c.expect(ir.TypeSecret, []string{"s1"}); got.got["s1"] != "1" {
			t.Errorf("stand-in %v", got.got)
		}
		// Taken back: the refusal ends, and there is nothing to send.
		n := s.Publish(set)
		settled(t, s, n)
		c.silent()
		// Another Envoy refuses as its first form what this one knew: it gets the form that anyone has acknowledged.
		s.Publish(bad)
		c.reply(c.peek(ir.TypeSecret, []string{"s1"}), "key does not match")
		c.expect(ir.TypeSecret, []string{"s1"})
		d := connect(t, conn, delta)
		d.subscribe(ir.TypeSecret, "s1")
		d.reply(d.peek(ir.TypeSecret, []string{"s1"}), "key does not match")
		if got := d.expect(ir.TypeSecret, []string{"s1"}); got.got["s1"] != "1" {
			t.Errorf("stand-in %v", got.got)
		}
	})
}

func TestListenerSwapIsOneResponse(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		s := newServer(Options{})
		set := small()
		s.Publish(set)
		c := connect(t, serve(t, s), delta)
		c.boot(set)
		s.Publish(with(without(set, set[ir.TypeListener][0]), res(ir.TypeListener, "l2", "1")))
		c.expect(ir.TypeListener, []string{"l2"}, "l1")
		c.silent()
	})
}
