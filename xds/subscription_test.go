package xds

import (
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/chancery-gateway/chancery/translators/ir"
)

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
		c.ack(c.next(ir.TypeCluster))
		c.expect(ir.TypeEndpoint, []string{"e2"})
		c.silent()
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
	t.Parallel()
	s := newServer(Options{})
	s.pace.resume = 5 * time.Second // until the client has told of all that it holds, on any machine
	set := small()
	s.Publish(set)
	conn := serve(t, s)
	c := connect(t, conn, true)
	c.boot(set)
	c.cancel()

	// Meanwhile: c1 changed, c2 gone, c3 new, the route changed.
	s.Publish(without(with(set, cluster("c1", "2", "e1"), cluster("c3", "1", ""), res(ir.TypeRouteConfig, "r1", "2", "c3")),
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

// A client that reconnects and has everything is sent nothing, not even where it is there before a restarted server knows what to serve.
func TestReconnectWithNothingNewIsSilent(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		for _, early := range []bool{false, true} {
			s := newServer(Options{})
			n := uint64(1)
			if !early {
				s.Publish(small())
			}
			c := connect(t, serve(t, s), delta)
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
			if early {
				eventually(t, "the client is known", func() bool { st := s.Status(); return len(st) == 1 && st[0].ID == testNode.Id })
				s.Publish(small())
			}
			settled(t, s, n)
			c.silent()
			s.Publish(with(small(), cluster("c1", "2", "")))
			c.ack(c.next(ir.TypeCluster))
			if got := s.Counters().Types[ir.TypeListener].Resources; got > 0 {
				t.Errorf("%d listeners were sent again", got)
			}
		}
	})
}

// A restarted server is asked before it has anything: the client keeps what it has, and the order holds when it comes.
func TestReconnectBeforeThePublication(t *testing.T) {
	t.Parallel()
	s := newServer(Options{})
	s.pace.resume = 5 * time.Second // until the client has told of all that it holds, on any machine
	c := connect(t, serve(t, s), true)
	c.sendDelta(&discovery.DeltaDiscoveryRequest{TypeUrl: ir.TypeCluster, InitialResourceVersions: map[string]string{"c1": "1", "old": "1"}})
	c.sendDelta(&discovery.DeltaDiscoveryRequest{TypeUrl: ir.TypeListener, InitialResourceVersions: map[string]string{"l1": "1"}})
	c.sendDelta(&discovery.DeltaDiscoveryRequest{TypeUrl: ir.TypeRouteConfig, ResourceNamesSubscribe: []string{"r1"}, InitialResourceVersions: map[string]string{"r1": "0"}})
	c.silent()
	n := s.Publish(with(small(), res(ir.TypeRouteConfig, "r1", "1", "c2")))
	a := c.peek(ir.TypeCluster, []string{"c2"})
	c.silent()
	c.ack(a)
	c.expect(ir.TypeRouteConfig, []string{"r1"})
	c.expect(ir.TypeCluster, nil, "old")
	settled(t, s, n)
}
