package xds

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// TestManyClientsManyPublications is B063: 50 clients that keep changing their subscriptions, 200 publications a second,
// one client that never reads. No client is forgotten over others, and all end at the last publication.
func TestManyClientsManyPublications(t *testing.T) {
	const clients, sets, every = 50, 20, 5 * time.Millisecond
	length := 3 * time.Second
	if testing.Short() {
		length = 500 * time.Millisecond
	}
	s := newServer(Options{})
	conn := serve(t, s)
	publication := func(version string) ir.ResourceSet {
		list := []*ir.Resource{cluster("c0", version, "e0"), res(ir.TypeListener, "l1", "1"), res(ir.TypeRouteConfig, "r1", version)}
		for i := range sets {
			list = append(list, res(ir.TypeEndpoint, fmt.Sprintf("e%02d", i), version))
		}
		return world(list...)
	}
	s.Publish(publication("0"))

	stuck, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stuck.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: ir.TypeCluster}); err != nil {
		t.Fatal(err)
	}

	var wg sync.WaitGroup
	last := make([]atomic.Value, clients)
	got := make([]atomic.Int64, clients)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range clients {
		c := connect(t, conn, i%2 == 0)
		c.subscribe(ir.TypeCluster)
		c.subscribe(ir.TypeRouteConfig, "r1")
		c.subscribe(ir.TypeEndpoint, "e00")
		wg.Go(func() {
			turn := time.NewTicker(3 * every)
			defer turn.Stop()
			for n := 0; ; {
				select {
				case a, ok := <-c.answer:
					if !ok {
						return
					}
					c.ack(a)
					got[i].Add(1)
					if v, ok := a.got["r1"]; ok {
						last[i].Store(v)
					}
				case <-turn.C:
					name := fmt.Sprintf("e%02d", 1+n/2%(sets-1))
					if n%2 == 0 {
						c.subscribe(ir.TypeEndpoint, name)
					} else {
						c.unsubscribe(ir.TypeEndpoint, name)
					}
					n++
				case <-ctx.Done():
					return
				}
			}
		})
	}
	final, rounds := "", 0
	begin, seen, since := time.Now(), make([]int64, clients), time.Now()
	for n := 1; time.Since(begin) < length || rounds < 3; n++ {
		final = strconv.Itoa(n)
		at := time.Now()
		s.Publish(publication(final))
		s.PublishEndpoints([]*ir.Resource{res(ir.TypeEndpoint, "e00", final+"b")}, nil)
		behind := -1
		for i := range seen {
			if got[i].Load() == seen[i] {
				behind = i
			}
		}
		switch {
		case behind < 0: // everybody has got something since
			for i := range seen {
				seen[i] = got[i].Load()
			}
			since, rounds = time.Now(), rounds+1
		case time.Since(since) > patience:
			t.Fatalf("client %d gets nothing while publications go on", behind)
		}
		time.Sleep(max(0, every-time.Since(at)))
	}
	deadline := time.Now().Add(patience)
	for i := range last {
		for last[i].Load() != final {
			if time.Now().After(deadline) {
				t.Fatalf("client %d ended at %v, want %s", i, last[i].Load(), final)
			}
			time.Sleep(time.Millisecond)
		}
	}
	cancel()
	wg.Wait()
}

// TestClientThatStopsReading costs bounded memory, delays nobody, and gets the newest state when it reads again.
func TestClientThatStopsReading(t *testing.T) {
	const size, publications = 256 << 10, 400
	s := newServer(Options{})
	conn, other := serve(t, s), serve(t, s)
	publication := func(version string) ir.ResourceSet {
		big := cluster("c1", version, "")
		big.Value = body("c1", version, string(make([]byte, size)))
		return world(big, res(ir.TypeListener, "l1", "1"))
	}
	s.Publish(publication("0"))
	stuck, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stuck.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: ir.TypeCluster}); err != nil {
		t.Fatal(err)
	}
	c := connect(t, other, true)
	c.subscribe(ir.TypeCluster)
	c.expect(ir.TypeCluster, []string{"c1"})
	c.subscribe(ir.TypeListener)
	c.expect(ir.TypeListener, []string{"l1"})
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for n := range publications {
		p := s.Publish(publication(strconv.Itoa(n + 1)))
		c.expect(ir.TypeCluster, []string{"c1"})
		settled(t, s, p)
		names := make([]string, 100)
		for i := range names {
			names[i] = fmt.Sprintf("e-%d-%d", n, i)
		}
		var moved []*ir.Resource
		for _, name := range names {
			moved = append(moved, res(ir.TypeEndpoint, name, "1"))
		}
		s.PublishEndpoints(moved, nil)
	}
	// What is under way just now and what pools keep goes again; what is kept for a client that does not read does not.
	eventually(t, "the heap is as it was", func() bool { return int64(heap())-int64(before) < 16<<20 })
	s.mu.RLock()
	for st := range s.streams {
		st.mu.Lock()
		if len(st.touched) > maxTouched {
			t.Errorf("%d names noted for one client", len(st.touched))
		}
		st.mu.Unlock()
	}
	s.mu.RUnlock()
	for got := 1; ; got++ {
		r, err := stuck.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if r.GetResources()[0].GetVersion() == strconv.Itoa(publications) {
			break
		}
		if got > 5 {
			t.Fatal("more than five old responses were kept for a client that did not read")
		}
		if err := stuck.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: ir.TypeCluster, ResponseNonce: r.GetNonce()}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFloodOfEndpoints changes more endpoint sets at once than are noted one by one.
func TestFloodOfEndpoints(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		s := newServer(Options{})
		set := large(maxTouched + 100)
		s.Publish(set)
		names := namesOf(set[ir.TypeEndpoint])
		c := connect(t, serve(t, s), delta)
		c.subscribe(ir.TypeEndpoint, names...)
		c.expect(ir.TypeEndpoint, names)
		moved := []*ir.Resource{res(ir.TypeEndpoint, "not subscribed", "1")}
		for _, name := range names {
			moved = append(moved, res(ir.TypeEndpoint, name, "2"))
		}
		s.PublishEndpoints(moved, nil)
		a := c.expect(ir.TypeEndpoint, names)
		for _, name := range names {
			if a.got[name] != "2" {
				t.Fatalf("%s has version %s", name, a.got[name])
			}
		}
		c.silent()
	})
}

// TestStreamsLeaveNothingBehind: goroutines and books of ended streams go.
func TestStreamsLeaveNothingBehind(t *testing.T) {
	s := newServer(Options{})
	s.Publish(small())
	conn := serve(t, s)
	c := connect(t, conn, true)
	c.boot(small())
	idle := runtime.NumGoroutine()
	for i := range 50 {
		c := connect(t, conn, i%2 == 0)
		c.subscribe(ir.TypeCluster)
		c.next(ir.TypeCluster) // half-way: not answered
		c.cancel()
	}
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		streams, goroutines := s.Counters().Streams, runtime.NumGoroutine()
		if streams == 1 && goroutines <= idle+2 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d streams and %d goroutines are left, %d before", streams, goroutines, idle)
		}
	}
	if got := s.Counters().Opened; got != 51 {
		t.Errorf("%d streams counted", got)
	}
}

// TestHostileRequests may end their stream, nothing else.
func TestHostileRequests(t *testing.T) {
	s := newServer(Options{})
	set := small()
	s.Publish(set)
	conn := serve(t, s)
	for _, q := range []*discovery.DeltaDiscoveryRequest{
		{},
		{TypeUrl: "nonsense", ResponseNonce: "x"},
		{TypeUrl: ir.TypeCluster, ResourceNamesSubscribe: []string{"", "*", "*"}, ResourceNamesUnsubscribe: []string{"", "*", "x"}},
		{TypeUrl: ir.TypeEndpoint, InitialResourceVersions: map[string]string{"": "", "*": "1"}},
	} {
		c := connect(t, conn, true)
		c.sendDelta(q)
	}
	for _, q := range []*discovery.DiscoveryRequest{
		{},
		{TypeUrl: "nonsense", VersionInfo: "1", ResponseNonce: "x"},
		{TypeUrl: ir.TypeCluster, ResourceNames: []string{"", "*", "*"}, VersionInfo: "x"},
	} {
		c := connect(t, conn, false)
		c.sendWhole(q)
	}
	many := connect(t, conn, true)
	for i := range maxTypes + 1 {
		many.t = discard{t}
		many.sendDelta(&discovery.DeltaDiscoveryRequest{TypeUrl: "type." + strconv.Itoa(i)})
	}
	for range many.answer { // ends when the server ends the stream
	}
	connect(t, conn, true).boot(set)
	for typ := range s.Counters().Types {
		if typ != OtherTypes && !contains(before, typ) && !contains(after, typ) {
			t.Errorf("a client's type %q is in the counters", typ)
		}
	}
}

// discard lets a client's failing sends pass.
type discard struct{ testing.TB }

func (discard) Fatal(...any) {}
