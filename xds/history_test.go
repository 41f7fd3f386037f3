package xds

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// TestRandomHistory drives clients of either protocol through random publications, endpoint changes, subscriptions and
// reconnects; whatever happened, each ends with exactly what is served under what it subscribed to.
func TestRandomHistory(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		for seed := range uint64(12) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel() // each waits at its end until what it held before its last reconnect may go
				history(t, delta, time.Duration(seed%3)*2*time.Millisecond, rand.New(rand.NewPCG(seed, 7)))
			})
		}
	})
}

func history(t *testing.T, delta bool, grace time.Duration, dice *rand.Rand) {
	s := newServer(Options{RemovalGrace: grace})
	s.pace.part, s.pace.fresh = partAfter, newAfter
	s.pace.resume = 5 * time.Second // until the client has told of all that it holds, on any machine
	conn := serve(t, s)
	draw := func() ir.ResourceSet {
		list := []*ir.Resource{res(ir.TypeListener, "l", fmt.Sprint(dice.IntN(2)))}
		for i := range 6 {
			if dice.IntN(3) > 0 {
				e := fmt.Sprintf("e%d", i)
				list = append(list, cluster(fmt.Sprintf("c%d", i), fmt.Sprint(dice.IntN(3)), e), res(ir.TypeEndpoint, e, fmt.Sprint(dice.IntN(3))))
			}
			if dice.IntN(2) > 0 { // some lead to a cluster that is there
				to := list[dice.IntN(len(list))]
				list = append(list, res(ir.TypeRouteConfig, fmt.Sprintf("r%d", i), fmt.Sprintf("%d %s", dice.IntN(3), to.Name), to.Name))
			}
		}
		return world(list...)
	}
	s.Publish(draw())
	names := map[string][]string{ir.TypeEndpoint: nil, ir.TypeRouteConfig: nil}
	for i := range 6 {
		names[ir.TypeEndpoint] = append(names[ir.TypeEndpoint], fmt.Sprintf("e%d", i))
		names[ir.TypeRouteConfig] = append(names[ir.TypeRouteConfig], fmt.Sprintf("r%d", i))
	}
	holds := map[string]map[string]string{}
	var c *client
	dial := func() {
		var versions map[string]string
		if c != nil {
			c.cancel()
			versions = c.seen
		}
		c = connect(t, conn, delta)
		for _, typ := range []string{ir.TypeCluster, ir.TypeEndpoint, ir.TypeListener, ir.TypeRouteConfig} {
			if delta {
				c.sendDelta(&discovery.DeltaDiscoveryRequest{TypeUrl: typ, ResourceNamesSubscribe: names[typ], InitialResourceVersions: maps.Clone(holds[typ])})
			} else {
				c.names[typ] = names[typ]
				c.sendWhole(&discovery.DiscoveryRequest{TypeUrl: typ, ResourceNames: names[typ], VersionInfo: versions[typ]})
			}
		}
	}
	dial()
	take := func(a answer) {
		m := holds[a.typeURL]
		if m == nil || !delta && (a.typeURL == ir.TypeCluster || a.typeURL == ir.TypeListener) {
			m = map[string]string{}
			holds[a.typeURL] = m
		}
		for k, v := range a.got {
			m[k] = v
		}
		for _, k := range a.removed {
			delete(m, k)
		}
		for name, version := range holds[ir.TypeRouteConfig] {
			_, to, _ := strings.Cut(version, " ")
			if _, there := holds[ir.TypeCluster][to]; delta && strings.HasPrefix(to, "c") && !there {
				t.Fatalf("after %v the client's route configuration %s leads to cluster %s, which it does not have", a, name, to)
			}
		}
		c.ack(a)
	}
	for range 120 {
		switch dice.IntN(12) {
		case 0, 1, 2:
			s.Publish(draw())
		case 3, 4, 5:
			i := dice.IntN(6)
			s.PublishEndpoints([]*ir.Resource{res(ir.TypeEndpoint, fmt.Sprintf("e%d", i), fmt.Sprint(dice.IntN(3)))}, nil)
		case 6:
			dial()
		case 7:
			name := fmt.Sprintf("e%d", dice.IntN(6))
			c.unsubscribe(ir.TypeEndpoint, name)
			delete(holds[ir.TypeEndpoint], name)
			c.subscribe(ir.TypeEndpoint, name)
		default:
			select {
			case a := <-c.answer:
				take(a)
			case <-time.After(time.Millisecond):
			}
		}
	}
	n := s.Publish(draw())
	for done := false; !done; {
		select {
		case a := <-c.answer:
			take(a)
		default:
			ok, _, changed := s.acknowledged.at(n)
			if done = ok; !ok {
				select {
				case a := <-c.answer:
					take(a)
				case <-changed:
				case <-time.After(patience):
					t.Fatalf("publication %d was never settled: %+v", n, s.Status())
				}
			}
		}
	}
	differs := func() (all []string) {
		for typ, list := range s.Served() {
			for _, r := range list {
				if got := holds[typ][r.Name]; got != r.Version {
					all = append(all, fmt.Sprintf("%s %s: the client holds %q, served is %q", shortType(typ), r.Name, got, r.Version))
				}
			}
			if (delta || typ == ir.TypeCluster || typ == ir.TypeListener) && len(holds[typ]) != len(list) {
				all = append(all, fmt.Sprintf("%s: the client holds %v, served are %v", shortType(typ), holds[typ], namesOf(list)))
			}
		}
		return all
	}
	for end := time.Now().Add(patience); grace > 0 && len(differs()) > 0 && time.Now().Before(end); { // what is gone stays for a moment
		select {
		case a := <-c.answer:
			take(a)
		case <-time.After(time.Millisecond):
		}
	}
	for _, d := range differs() {
		t.Error(d)
	}
}
