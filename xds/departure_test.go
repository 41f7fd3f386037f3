package xds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// TestRemovedClustersStayForRequestsUnderWay: first the route is replaced, then comes the grace, then the removal. The publication counts
// as taken before.
func TestRemovedClustersStayForRequestsUnderWay(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		const grace = 30 * time.Minute
		s := newServer(Options{RemovalGrace: grace})
		set := with(small(), res(ir.TypeRouteConfig, "r1", "1", "c1"))
		c := drive(t, s, set, delta)
		n := s.Publish(with(without(set, set[ir.TypeCluster][0], set[ir.TypeEndpoint][0]), res(ir.TypeRouteConfig, "r1", "2", "c2")))
		c.pass(0)
		route := c.sends(ir.TypeRouteConfig)[0]
		c.pass(grace + time.Minute)
		c.sends() // without an answer for the route nothing goes
		c.ack(route)
		settled(t, s, n)
		c.pass(grace - time.Minute)
		c.sends()
		c.pass(2 * time.Minute)
		c.removes("c1", "e1", "c2")

		s.Publish(set) // it comes back
		c.pass(0)
		for _, r := range c.sends(ir.TypeCluster, ir.TypeEndpoint) {
			c.ack(r)
		}
		c.ack(c.sends(ir.TypeRouteConfig)[0])
		s.Publish(with(without(set, set[ir.TypeCluster][0]), res(ir.TypeRouteConfig, "r1", "2")))
		c.pass(0)
		c.ack(c.sends(ir.TypeRouteConfig)[0])
		c.pass(grace - time.Minute)
		n = s.Publish(set) // and once more, before its time is up
		c.pass(0)
		c.ack(c.sends(ir.TypeRouteConfig)[0])
		settled(t, s, n)
		c.pass(2 * grace)
		c.sends()
	})
}

// TestRemovedClustersGoByThemselves: nothing has to happen for the removal when its time has come.
func TestRemovedClustersGoByThemselves(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		s := newServer(Options{RemovalGrace: 200 * time.Millisecond})
		set := with(small(), res(ir.TypeRouteConfig, "r1", "1", "c1"))
		s.Publish(set)
		c := connect(t, serve(t, s), delta)
		c.boot(set)
		begun := time.Now()
		n := s.Publish(with(without(set, set[ir.TypeCluster][0]), res(ir.TypeRouteConfig, "r1", "2", "c2")))
		c.expect(ir.TypeRouteConfig, []string{"r1"})
		settled(t, s, n)
		if delta {
			c.expect(ir.TypeCluster, nil, "c1")
		} else {
			c.expect(ir.TypeCluster, []string{"c2"})
		}
		if took := time.Since(begun); took < s.grace {
			t.Errorf("the cluster went after %v", took)
		}
	})
}

// TestWhatARefusedRouteUsesStays: a client that refuses a route configuration goes on with the one before, and with its clusters.
func TestWhatARefusedRouteUsesStays(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		s := newServer(Options{})
		set := with(small(), res(ir.TypeRouteConfig, "r1", "1", "c1"))
		c := drive(t, s, set, delta)
		next := with(without(set, set[ir.TypeCluster][0]), res(ir.TypeRouteConfig, "r1", "2", "c2"))
		n := s.Publish(next)
		c.pass(0)
		c.answer(c.sends(ir.TypeRouteConfig)[0], "no")
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var refusal *Refusal
		if err := s.Acknowledged(ctx, n); !errors.As(err, &refusal) {
			t.Fatalf("Acknowledged returned %v", err)
		}
		c.pass(2 * s.barrier)
		c.sends()
		s.Publish(with(next, res(ir.TypeRouteConfig, "r1", "3", "c2")))
		c.pass(0)
		c.ack(c.sends(ir.TypeRouteConfig)[0])
		c.pass(2 * s.barrier)
		c.removes("c1", "", "c2")
	})
}

// TestTooManyRemovedClustersDoNotStay: what is kept for requests under way has a bound.
func TestTooManyRemovedClustersDoNotStay(t *testing.T) {
	s := newServer(Options{RemovalGrace: time.Hour})
	set := small()
	many := all(set)
	for i := range maxDeparting + 10 {
		many = append(many, cluster(fmt.Sprintf("m%04d", i), "1", ""))
	}
	s.Publish(world(many...))
	c := connect(t, serve(t, s), true)
	c.boot(world(many...))
	settled(t, s, s.Publish(world(many[:len(many)-20]...)))
	c.silent()
	n := s.Publish(set)
	a := c.next(ir.TypeCluster)
	if len(a.removed) != 20 {
		t.Errorf("%d clusters were removed, want the 20 that went first", len(a.removed))
	}
	c.silent()
	c.ack(a)
	settled(t, s, n)
}

// A client that reconnects tells of its clusters before a publication and of its routes after it: a cluster that is not served any
// more stays until the route that leads there has been replaced.
func TestWhatAReconnectingClientHoldsGoesInOrder(t *testing.T) {
	s := newServer(Options{RemovalGrace: time.Millisecond})
	s.pace.resume, s.pace.part, s.pace.fresh = time.Second, time.Hour, time.Hour
	s.Publish(world(res(ir.TypeListener, "l", "1")))
	c := &driven{t: t, now: time.Now(), names: map[string][]string{}}
	s.pace.now = func() time.Time { return c.now }
	c.st = &stream{server: s, wire: c, subs: map[string]*subscription{}, goal: s.newest(), wake: make(chan struct{}, 1)}
	c.handle(&request{typeURL: ir.TypeCluster, held: map[string]string{"old": "1"}})
	s.Publish(world(res(ir.TypeListener, "l", "1"), cluster("new", "1", "e"), res(ir.TypeEndpoint, "e", "1"), res(ir.TypeRouteConfig, "r", "2", "new")))
	c.pass(0)
	c.handle(&request{typeURL: ir.TypeRouteConfig, subscribe: []string{"r"}, held: map[string]string{"r": "1"}})
	var did []string
	var warms *reply // the client answers it when the new cluster is warm
	for i := range 10 {
		for len(c.sent) > 0 {
			r := c.sent[0]
			c.sent = c.sent[1:]
			for _, is := range r.resources {
				did = append(did, is.Name)
			}
			for _, name := range r.removed {
				did = append(did, "-"+name)
			}
			if warms == nil && r.typeURL == ir.TypeCluster {
				warms = r
			} else {
				c.ack(r)
			}
		}
		if c.pass(time.Second); i == 5 {
			c.ack(warms)
		}
	}
	if want := []string{"new", "r", "-old"}; !slices.Equal(did, want) {
		t.Errorf("the client is told of %v, want %v", did, want)
	}
}

// A route that was to be replaced and then goes: the cluster that it leads to, which had gone before, stays for as long as the route.
func TestAClusterStaysForARouteThatGoesAfterIt(t *testing.T) {
	s := newServer(Options{RemovalGrace: time.Millisecond})
	s.pace.part, s.pace.fresh = time.Hour, time.Hour
	l, old := res(ir.TypeListener, "l", "1"), cluster("old", "1", "")
	c := drive(t, s, world(l, old, res(ir.TypeRouteConfig, "r", "1", "old")), true)
	s.Publish(world(l, cluster("new", "1", ""), res(ir.TypeRouteConfig, "r", "2", "new")))
	c.pass(0)
	warms := c.sends(ir.TypeCluster)[0] // r waits for it
	s.Publish(world(l, cluster("new", "1", "")))
	c.pass(0)
	c.ack(warms)
	var gone []string
	for range 4 {
		c.pass(time.Second)
		for len(c.sent) > 0 {
			r := c.sent[0]
			c.sent, gone = c.sent[1:], append(gone, r.removed...)
			c.ack(r)
		}
	}
	if want := []string{"r", "old"}; !slices.Equal(gone, want) {
		t.Errorf("removed are %v, want %v", gone, want)
	}
}

// Endpoints are always the newest, of a publication that the stream never takes up too: what they came with is not forgotten.
func TestEndpointsOfAPublicationThatIsSkipped(t *testing.T) {
	s := newServer(Options{RemovalGrace: time.Millisecond})
	l := res(ir.TypeListener, "l", "1")
	c := drive(t, s, world(l), true)
	c.handle(&request{typeURL: ir.TypeEndpoint, subscribe: []string{"e"}})
	for _, r := range c.sends(ir.TypeEndpoint) {
		c.ack(r)
	}
	s.PublishEndpoints([]*ir.Resource{res(ir.TypeEndpoint, "e", "1")}, nil)
	c.st.touch([]string{"e"})
	c.pass(0)
	c.ack(c.sends(ir.TypeEndpoint)[0])
	s.Publish(world(l, cluster("c", "1", "e"), res(ir.TypeEndpoint, "e", "1")))
	sub := c.st.subs[ir.TypeEndpoint]
	c.st.touch([]string{"e"})
	c.st.moveEndpoints(s.newest()) // while the stream is at the publication before
	if err := c.st.send(sub, c.now); err != nil {
		t.Fatal(err)
	}
	s.Publish(world(l))
	var gone []string
	for range 3 {
		c.pass(time.Second)
		for len(c.sent) > 0 {
			r := c.sent[0]
			c.sent, gone = c.sent[1:], append(gone, r.removed...)
			c.ack(r)
		}
	}
	if !slices.Equal(gone, []string{"e"}) {
		t.Errorf("removed are %v, want [e]", gone)
	}
}
