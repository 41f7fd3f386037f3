package xds

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// patience is how long tests wait for what must come.
const patience = time.Minute

// quiet is how long a client listens before it believes that nothing comes.
const quiet = 60 * time.Millisecond

// res makes a resource that refers to the names.
func res(typeURL, name, version string, refers ...string) *ir.Resource {
	return &ir.Resource{Type: typeURL, Name: name, Version: version, Value: body(name, version, refers...),
		Origins: []ir.Origin{{Group: snapshot.EmissaryGroup, Kind: "Mapping", Namespace: "app", Name: name}}}
}

func cluster(name, version, endpoints string) *ir.Resource {
	r := res(ir.TypeCluster, name, version)
	r.EndpointSet = endpoints
	return r
}

// world builds a set from "type/name@version" resources.
func world(resources ...*ir.Resource) ir.ResourceSet {
	set := ir.ResourceSet{}
	for _, r := range resources {
		set[r.Type] = append(set[r.Type], r)
	}
	for _, list := range set {
		slices.SortFunc(list, byName)
	}
	return set
}

// serve starts the server on an in-memory listener and returns a dialler.
func serve(t testing.TB, s *Server) *grpc.ClientConn {
	t.Helper()
	l := bufconn.Listen(1 << 20)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l, nil) }()
	conn, err := grpc.NewClient("passthrough:///xds", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return conn
}

// newServer returns a server on which nothing happens because time has passed, unless the test says so: what comes, comes of an event.
func newServer(o Options) *Server {
	if o.BarrierTimeout == 0 {
		o.BarrierTimeout = time.Hour
	}
	o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	s := New(o)
	s.pace = pace{time.Hour, time.Hour, time.Hour, time.Now}
	return s
}

// answer is a response of either protocol, reduced to what tests look at.
type answer struct {
	typeURL, nonce, version string
	got                     map[string]string // name → version; in state of the world by order of the names
	names                   []string
	removed                 []string
}

func (a answer) String() string {
	s := shortType(a.typeURL) + fmt.Sprint(a.names)
	if len(a.removed) > 0 {
		s += " -" + fmt.Sprint(a.removed)
	}
	return s
}

// client is a scripted xDS client of either protocol. In state of the world it tells resources by their bodies (see body).
type client struct {
	t      testing.TB
	delta  bool
	node   *core.Node
	names  map[string][]string // state of the world: the subscription per type
	nonce  map[string]string
	seen   map[string]string
	answer chan answer
	cancel context.CancelFunc
	d      discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	w      discovery.AggregatedDiscoveryService_StreamAggregatedResourcesClient
}

func connect(t testing.TB, conn *grpc.ClientConn, delta bool) *client {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c := &client{t: t, delta: delta, node: testNode, names: map[string][]string{}, nonce: map[string]string{}, seen: map[string]string{}, answer: make(chan answer, 4096), cancel: cancel}
	t.Cleanup(cancel)
	var err error
	api := discovery.NewAggregatedDiscoveryServiceClient(conn)
	if delta {
		c.d, err = api.DeltaAggregatedResources(ctx)
	} else {
		c.w, err = api.StreamAggregatedResources(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	go c.read()
	return c
}

func (c *client) read() {
	defer close(c.answer)
	for {
		a := answer{got: map[string]string{}}
		if c.delta {
			r, err := c.d.Recv()
			if err != nil {
				return
			}
			a.typeURL, a.nonce, a.version, a.removed = r.GetTypeUrl(), r.GetNonce(), r.GetSystemVersionInfo(), r.GetRemovedResources()
			for _, x := range r.GetResources() {
				a.names = append(a.names, x.GetName())
				a.got[x.GetName()] = x.GetVersion()
			}
		} else {
			r, err := c.w.Recv()
			if err != nil {
				return
			}
			a.typeURL, a.nonce, a.version = r.GetTypeUrl(), r.GetNonce(), r.GetVersionInfo()
			for _, x := range r.GetResources() {
				name, version := splitBody(x.GetValue())
				a.names = append(a.names, name)
				a.got[name] = version
			}
		}
		c.answer <- a
	}
}

// body makes a message from which a state-of-the-world client can tell name and version.
func body(name, version string, refers ...string) []byte {
	var b []byte
	for i, text := range append([]string{name, version}, refers...) {
		b = protowire.AppendTag(b, protowire.Number(101+i), protowire.BytesType)
		b = protowire.AppendString(b, text)
	}
	return b
}

func splitBody(b []byte) (name, version string) { return string(first(b, 101)), string(first(b, 102)) }

var testNode = &core.Node{Id: "envoy-1", Cluster: "ambassador"}

func (c *client) sendDelta(q *discovery.DeltaDiscoveryRequest) {
	c.t.Helper()
	q.Node = c.node
	if err := c.d.Send(q); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) sendWhole(q *discovery.DiscoveryRequest) {
	c.t.Helper()
	q.Node = c.node
	if err := c.w.Send(q); err != nil {
		c.t.Fatal(err)
	}
}

// subscribe adds names; none means all.
func (c *client) subscribe(typeURL string, names ...string) {
	c.t.Helper()
	if c.delta {
		c.sendDelta(&discovery.DeltaDiscoveryRequest{TypeUrl: typeURL, ResourceNamesSubscribe: names})
		return
	}
	for _, n := range names {
		if !slices.Contains(c.names[typeURL], n) {
			c.names[typeURL] = append(c.names[typeURL], n)
		}
	}
	c.sendWhole(&discovery.DiscoveryRequest{TypeUrl: typeURL, ResourceNames: c.names[typeURL], ResponseNonce: c.nonce[typeURL], VersionInfo: c.seen[typeURL]})
}

// resume is the first request of a type by a client that was connected before and holds these versions.
func (c *client) resume(typeURL string, held map[string]string, names ...string) {
	c.t.Helper()
	if c.delta {
		c.sendDelta(&discovery.DeltaDiscoveryRequest{TypeUrl: typeURL, ResourceNamesSubscribe: names, InitialResourceVersions: held})
		return
	}
	c.names[typeURL] = names
	c.sendWhole(&discovery.DiscoveryRequest{TypeUrl: typeURL, ResourceNames: names, VersionInfo: "of another time"})
}

func (c *client) unsubscribe(typeURL string, names ...string) {
	c.t.Helper()
	if c.delta {
		c.sendDelta(&discovery.DeltaDiscoveryRequest{TypeUrl: typeURL, ResourceNamesUnsubscribe: names})
		return
	}
	c.names[typeURL] = slices.DeleteFunc(c.names[typeURL], func(n string) bool { return slices.Contains(names, n) })
	c.sendWhole(&discovery.DiscoveryRequest{TypeUrl: typeURL, ResourceNames: c.names[typeURL], ResponseNonce: c.nonce[typeURL], VersionInfo: c.seen[typeURL]})
}

func (c *client) reply(a answer, refusal string) {
	c.t.Helper()
	var detail *status.Status
	if refusal != "" {
		detail = &status.Status{Code: 13, Message: refusal}
	}
	if c.delta {
		c.sendDelta(&discovery.DeltaDiscoveryRequest{TypeUrl: a.typeURL, ResponseNonce: a.nonce, ErrorDetail: detail})
		return
	}
	c.nonce[a.typeURL] = a.nonce
	if refusal == "" {
		c.seen[a.typeURL] = a.version
	}
	c.sendWhole(&discovery.DiscoveryRequest{TypeUrl: a.typeURL, ResourceNames: c.names[a.typeURL], ResponseNonce: a.nonce, VersionInfo: c.seen[a.typeURL], ErrorDetail: detail})
}

func (c *client) ack(a answer) { c.t.Helper(); c.reply(a, "") }

// next returns the next response, which must be of the type.
func (c *client) next(typeURL string) answer {
	c.t.Helper()
	select {
	case a, ok := <-c.answer:
		if !ok {
			c.t.Fatal("the stream ended")
		}
		if a.typeURL != typeURL {
			c.t.Fatalf("response %v, want one of type %s", a, shortType(typeURL))
		}
		return a
	case <-time.After(patience):
		c.t.Fatalf("no response of type %s", shortType(typeURL))
	}
	return answer{}
}

// expect takes the next response, compares it and acknowledges it.
func (c *client) expect(typeURL string, names []string, removed ...string) answer {
	c.t.Helper()
	a := c.peek(typeURL, names, removed...)
	c.ack(a)
	return a
}

// peek is expect without the acknowledgement.
func (c *client) peek(typeURL string, names []string, removed ...string) answer {
	c.t.Helper()
	a := c.next(typeURL)
	if !slices.Equal(a.names, names) || c.delta && !slices.Equal(a.removed, removed) {
		c.t.Fatalf("response %v, want %v -%v", a, names, removed)
	}
	return a
}

func (c *client) silent() {
	c.t.Helper()
	select {
	case a, ok := <-c.answer:
		if ok {
			c.t.Fatalf("unexpected response %v", a)
		}
		c.t.Fatal("the stream ended")
	case <-time.After(quiet):
	}
}

// boot subscribes as Envoy does at its start and takes everything of the set.
func (c *client) boot(set ir.ResourceSet) {
	c.t.Helper()
	c.subscribe(ir.TypeCluster)
	c.expect(ir.TypeCluster, namesOf(set[ir.TypeCluster]))
	for _, t := range []string{ir.TypeEndpoint, ir.TypeSecret} {
		if names := namesOf(set[t]); len(names) > 0 {
			c.subscribe(t, names...)
			c.drain(t, names)
		}
	}
	c.subscribe(ir.TypeListener)
	c.expect(ir.TypeListener, namesOf(set[ir.TypeListener]))
	if names := namesOf(set[ir.TypeRouteConfig]); len(names) > 0 {
		c.subscribe(ir.TypeRouteConfig, names...)
		c.expect(ir.TypeRouteConfig, names)
	}
}

// drain takes responses of the type until all names have come.
func (c *client) drain(typeURL string, names []string) {
	c.t.Helper()
	missing := map[string]bool{}
	for _, n := range names {
		missing[n] = true
	}
	for len(missing) > 0 {
		a := c.next(typeURL)
		for _, n := range a.names {
			delete(missing, n)
		}
		c.ack(a)
	}
}

func namesOf(list []*ir.Resource) []string {
	var names []string
	for _, r := range list {
		names = append(names, r.Name)
	}
	return names
}

// both runs a test in either protocol.
func both(t *testing.T, f func(t *testing.T, delta bool)) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(map[string]bool{"delta": true, "sotw": false})) {
		t.Run(name, func(t *testing.T) { f(t, name == "delta") })
	}
}

// eventually waits for the condition.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

func settled(t testing.TB, s *Server, publication uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Acknowledged(ctx, publication); err != nil {
		t.Fatalf("publication %d: %v", publication, err)
	}
}
