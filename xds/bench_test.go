package xds

import (
	"fmt"
	"strconv"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// large is a set of n clusters with an endpoint set each, n/10 route configurations and one listener.
func large(n int) ir.ResourceSet {
	list := []*ir.Resource{res(ir.TypeListener, "l1", "1")}
	for i := range n {
		c, e := fmt.Sprintf("cluster-%06d", i), fmt.Sprintf("endpoints-%06d", i)
		list = append(list, cluster(c, "1", e), res(ir.TypeEndpoint, e, "1"))
		if i%10 == 0 {
			list = append(list, res(ir.TypeRouteConfig, fmt.Sprintf("routes-%06d", i), "1"))
		}
	}
	return world(list...)
}

// BenchmarkEndpoint is the time from PublishEndpoints of one changed set to the client's Recv.
func BenchmarkEndpoint(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		for _, delta := range []bool{true, false} {
			b.Run(fmt.Sprintf("n=%d/delta=%v", n, delta), func(b *testing.B) {
				s, c, set := booted(b, n, delta)
				name := set[ir.TypeEndpoint][n/2].Name
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					s.PublishEndpoints([]*ir.Resource{res(ir.TypeEndpoint, name, "v"+strconv.Itoa(i))}, nil)
					a := c.next(ir.TypeEndpoint)
					if delta { // else it would list all names, and what the server does about that would be measured beside
						b.StopTimer()
						c.ack(a)
						b.StartTimer()
					}
				}
			})
		}
	}
}

// BenchmarkPublishEndpoints is the call alone.
func BenchmarkPublishEndpoints(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			s := newServer(Options{})
			set := large(n)
			s.Publish(set)
			name := set[ir.TypeEndpoint][n/2].Name
			for i := 0; b.Loop(); i++ {
				s.PublishEndpoints([]*ir.Resource{res(ir.TypeEndpoint, name, "v"+strconv.Itoa(i))}, nil)
			}
		})
	}
}

// BenchmarkRoute is the time from Publish of a set with one changed route configuration to the client's Recv.
func BenchmarkRoute(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			s, c, set := booted(b, n, true)
			routes := set[ir.TypeRouteConfig]
			var publication uint64
			for i := 0; b.Loop(); i++ {
				next := append([]*ir.Resource(nil), routes...)
				next[len(next)/2] = res(ir.TypeRouteConfig, next[len(next)/2].Name, "v"+strconv.Itoa(i))
				set[ir.TypeRouteConfig] = next
				publication = s.Publish(set)
				a := c.next(ir.TypeRouteConfig)
				b.StopTimer()
				c.ack(a)
				settled(b, s, publication)
				b.StartTimer()
			}
		})
	}
}

func booted(b *testing.B, n int, delta bool) (*Server, *client, ir.ResourceSet) {
	b.Helper()
	s := newServer(Options{})
	set := large(n)
	p := s.Publish(set)
	c := connect(b, serve(b, s), delta)
	if !delta {
		// A state-of-the-world client lists all names with each request; the server has no need of it here.
		c.names[ir.TypeEndpoint] = namesOf(set[ir.TypeEndpoint])
		c.sendWhole(&discovery.DiscoveryRequest{TypeUrl: ir.TypeEndpoint, ResourceNames: c.names[ir.TypeEndpoint]})
		c.drain(ir.TypeEndpoint, c.names[ir.TypeEndpoint])
		c.subscribe(ir.TypeListener) // requests are handled in order: by now all before are
		c.next(ir.TypeListener)
		return s, c, set
	}
	c.boot(set)
	settled(b, s, p)
	return s, c, set
}
