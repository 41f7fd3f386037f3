package xds

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// TestRemovedClustersStayForRequestsUnderWay: first the route is replaced, then comes the grace, then the removal. The publication counts
// as taken before.
func TestRemovedClustersStayForRequestsUnderWay(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		const grace = 400 * time.Millisecond
		s := newServer(Options{RemovalGrace: grace})
		set := with(small(), res(ir.TypeRouteConfig, "r1", "1", "c1"))
		s.Publish(set)
		c := connect(t, serve(t, s), delta)
		c.boot(set)
		n := s.Publish(with(without(set, set[ir.TypeCluster][0], set[ir.TypeEndpoint][0]), res(ir.TypeRouteConfig, "r1", "2", "c2")))
		a := c.peek(ir.TypeRouteConfig, []string{"r1"})
		time.Sleep(2 * grace)
		c.silent() // without an answer for the route nothing goes
		c.ack(a)
		settled(t, s, n)
		if delta {
			c.expect(ir.TypeCluster, nil, "c1")
			c.expect(ir.TypeEndpoint, nil, "e1")
		} else {
			c.expect(ir.TypeCluster, []string{"c2"})
		}
		c.silent()

		s.Publish(set) // it comes back
		c.ack(c.next(ir.TypeCluster))
		c.expect(ir.TypeEndpoint, []string{"e1"})
		c.expect(ir.TypeRouteConfig, []string{"r1"})
		s.Publish(with(without(set, set[ir.TypeCluster][0]), res(ir.TypeRouteConfig, "r1", "2")))
		begun := time.Now()
		c.expect(ir.TypeRouteConfig, []string{"r1"})
		n = s.Publish(set) // and once more, before its time is up
		c.expect(ir.TypeRouteConfig, []string{"r1"})
		settled(t, s, n)
		time.Sleep(time.Until(begun.Add(2 * grace)))
		c.silent()
	})
}

// TestWhatARefusedRouteUsesStays: a client that refuses a route configuration goes on with the one before, and with its clusters.
func TestWhatARefusedRouteUsesStays(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		s := newServer(Options{BarrierTimeout: 300 * time.Millisecond})
		set := with(small(), res(ir.TypeRouteConfig, "r1", "1", "c1"))
		s.Publish(set)
		c := connect(t, serve(t, s), delta)
		c.boot(set)
		next := with(without(set, set[ir.TypeCluster][0]), res(ir.TypeRouteConfig, "r1", "2", "c2"))
		n := s.Publish(next)
		c.reply(c.next(ir.TypeRouteConfig), "no")
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var refusal *Refusal
		if err := s.Acknowledged(ctx, n); !errors.As(err, &refusal) {
			t.Fatalf("Acknowledged returned %v", err)
		}
		time.Sleep(500 * time.Millisecond)
		c.silent()
		s.Publish(with(next, res(ir.TypeRouteConfig, "r1", "3", "c2")))
		c.expect(ir.TypeRouteConfig, []string{"r1"})
		if delta {
			c.expect(ir.TypeCluster, nil, "c1")
		} else {
			c.expect(ir.TypeCluster, []string{"c2"})
		}
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
