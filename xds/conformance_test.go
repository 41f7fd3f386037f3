package xds

import (
	"fmt"
	"testing"
	"time"

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

		next := without(with(set, cluster("c3", "1", "e3"), res(ir.TypeEndpoint, "e3", "1"), res(ir.TypeRouteConfig, "r1", "2", "c3")),
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
		s := newServer(Options{BarrierTimeout: time.Hour})
		set := small()
		c := drive(t, s, set, delta)
		s.Publish(with(set, cluster("c3", "1", ""), res(ir.TypeListener, "l1", "2", "c3")))
		c.pass(0)
		c.sends(ir.TypeCluster) // never answered
		c.pass(50 * time.Minute)
		c.sends()
		c.pass(20 * time.Minute)
		c.ack(c.sends(ir.TypeListener)[0])
		// A response that is overdue once does not hold the next publication again.
		s.Publish(with(set, cluster("c3", "1", ""), res(ir.TypeListener, "l1", "3", "c3")))
		c.pass(0)
		c.ack(c.sends(ir.TypeListener)[0])
		if got := s.Counters().Timeouts; got != 1 {
			t.Errorf("%d timeouts counted", got)
		}
	})
}

// Never more than one form of a listener, route configuration or setting is under way: a client that is slow is sent the newest
// when it has answered, not what there was in between.
func TestNewestWinsWhileAnAnswerIsOutstanding(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		for _, typ := range after {
			s := newServer(Options{})
			set := with(small(), res(typ, "x", "0"))
			s.Publish(set)
			c := connect(t, serve(t, s), delta)
			c.boot(set)
			if typ == ir.TypeExtension {
				c.subscribe(typ, "x")
				c.expect(typ, []string{"x"})
			}
			before := s.Counters().Types[typ]
			var first answer
			var n uint64
			for i := range 100 {
				set = with(set, res(typ, "x", fmt.Sprint(i+1)))
				n = s.Publish(set)
				if i == 0 {
					first = c.next(typ)
				}
			}
			c.silent()
			c.ack(first)
			if got := c.expect(typ, first.names); got.got["x"] != "100" {
				t.Errorf("%s: after the answer came version %s", shortType(typ), got.got["x"])
			}
			settled(t, s, n)
			c.silent()
			now := s.Counters().Types[typ]
			if sent, bytes := now.Responses-before.Responses, now.Bytes-before.Bytes; sent != 2 || bytes > 2*uint64(len(first.names)*len(body("x", "100"))) {
				t.Errorf("%s: %d responses of %d bytes for 100 publications", shortType(typ), sent, bytes)
			}
		}
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

// A compile takes its time: endpoints that moved meanwhile are newer than its result.
func TestEndpointsNewerThanTheSetStay(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		s := newServer(Options{})
		set := small()
		s.Publish(set)
		c := connect(t, serve(t, s), delta)
		c.boot(set)
		s.PublishEndpoints([]*ir.Resource{res(ir.TypeEndpoint, "e1", "2")}, nil)
		c.expect(ir.TypeEndpoint, []string{"e1"})
		mark := s.EndpointMark()
		set = with(set, res(ir.TypeEndpoint, "e1", "2"), res(ir.TypeRouteConfig, "r1", "2"))
		s.PublishEndpoints([]*ir.Resource{res(ir.TypeEndpoint, "e2", "2")}, nil)
		c.expect(ir.TypeEndpoint, []string{"e2"})
		s.PublishSince(set, mark)
		c.expect(ir.TypeRouteConfig, []string{"r1"})
		c.silent()
		if got := find(s.Served()[ir.TypeEndpoint], "e2").Version; got != "2" {
			t.Errorf("served endpoints went back to %s", got)
		}
		// The next set was compiled with them, or with something newer.
		set = with(set, res(ir.TypeEndpoint, "e2", "3"))
		n := s.PublishSince(set, s.EndpointMark())
		if got := c.expect(ir.TypeEndpoint, []string{"e2"}); got.got["e2"] != "3" {
			t.Errorf("got %v", got)
		}
		settled(t, s, n)
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
