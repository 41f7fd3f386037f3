// Package xds serves Envoy: an aggregated discovery service in both protocols (delta and state of the world) with its own
// state per stream, make-before-break ordering, a fast path for endpoints, and the books of what each Envoy was sent, took
// and refused.
package xds

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"math"
	"net"
	"slices"
	"sync"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// DefaultBarrierTimeout equals Envoy's default initial_fetch_timeout: after it, Envoy itself lets a cluster go live
// without its endpoints (Envoy docs: config.core.v3.ConfigSource).
const DefaultBarrierTimeout = 15 * time.Second

// maxRequestBytes bounds one discovery request: a reconnecting client lists a name and a version for all that it holds.
const maxRequestBytes = 32 << 20

// Options are the settings of a Server. The zero value is usable.
type Options struct {
	// Logger takes what happens to streams; nil is slog.Default.
	Logger *slog.Logger
	// BarrierTimeout bounds how long the steps that depend on a response wait for its answer; 0 is DefaultBarrierTimeout.
	BarrierTimeout time.Duration
	// RemovalGrace is how long a client keeps what is not served any more after everything that leads there has been replaced, for
	// the sake of requests under way. It ends early for what goes beyond twice as many clusters as are served, and 1024 more.
	RemovalGrace time.Duration
	// OnACK and OnNACK are told of every answer of a client. They run on the stream's own goroutine, so they must return
	// soon, and several may run at a time; either may be nil.
	OnACK  func(ACK)
	OnNACK func(NACK)
	// OnSent is told, in the same way, of every response that brings a client a change.
	OnSent func(Sent)
	// OnStatus is told, in the same way, that Status lacks an Envoy that it had, or that one does without something else than before.
	OnStatus func()
	// Warm, which may be nil, asks an Envoy which clusters are warm while one of those that it was sent holds back its answer.
	Warm Warm
	// Fit returns what clusters and listeners become for an Envoy of that version, and what it does without, "" for nothing: a pure
	// function of the resource, which keeps its name and has a version of its own where it is another. It is nil for an Envoy that takes
	// them as they are. Fit may be nil, which is that for all.
	Fit func(version string) func(*ir.Resource) (fit *ir.Resource, lacks string)
}

// move is one endpoint set as PublishEndpoints left it, nil for removed, and its number.
type move struct {
	to     *ir.Resource
	number uint64
	at     time.Time
}

// Server is the discovery service. All methods are safe for concurrent use.
type Server struct {
	discovery.UnimplementedAggregatedDiscoveryServiceServer
	log      *slog.Logger
	barrier  time.Duration
	grace    time.Duration
	onACK    func(ACK)
	onNACK   func(NACK)
	onSent   func(Sent)
	onStatus func()
	warm     Warm
	fit      func(string) func(*ir.Resource) (*ir.Resource, string)
	books    books

	mu    sync.RWMutex
	state *state // nil until the first Publish
	// moved holds the endpoint sets that are newer than the last publication's; moves counts them.
	moved map[string]move
	moves uint64
	// awaited counts the served clusters that take their endpoints from a set.
	awaited map[string]int
	// good holds the last secret of each name that some client acknowledged.
	good    map[string]*ir.Resource
	streams map[*stream]struct{}
	serial  uint64

	acknowledged watermark
	pace         pace
}

// New returns a server that has nothing to serve yet: streams are held, not answered with nothing, until the first Publish.
func New(o Options) *Server {
	s := &Server{
		log: o.Logger, barrier: o.BarrierTimeout, grace: o.RemovalGrace, onACK: o.OnACK, onNACK: o.OnNACK, onSent: o.OnSent, onStatus: o.OnStatus, warm: o.Warm, fit: o.Fit,
		awaited: map[string]int{}, good: map[string]*ir.Resource{}, streams: map[*stream]struct{}{},
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	if s.barrier <= 0 {
		s.barrier = DefaultBarrierTimeout
	}
	s.pace = pace{resume: resumeGrace, part: partAfter, fresh: newAfter, now: time.Now}
	return s
}

// Publish replaces everything that is served and returns the number of the publication, for Acknowledged. A resource whose
// Version, a content hash, equals the present one's is unchanged. Publish never waits for a client. What PublishEndpoints
// did before is replaced too; PublishSince keeps it.
func (s *Server) Publish(set ir.ResourceSet) uint64 { return s.PublishSince(set, math.MaxUint64) }

// EndpointMark returns a mark of the present moment for PublishSince: to be taken just before the snapshot is, from which the set
// will be compiled.
func (s *Server) EndpointMark() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.moves
}

// PublishSince is Publish for a set whose endpoints are as old as the mark: endpoint sets that PublishEndpoints has changed
// since then stay, for they are newer than the set's.
func (s *Server) PublishSince(set ir.ResourceSet, mark uint64) uint64 {
	var old ir.ResourceSet
	if now := s.newest(); now != nil {
		old = now.set
	}
	next := &state{set: ordered(set, old), at: time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != nil {
		old, next.seq = s.state.set, s.state.seq
	}
	next.seq++
	differences(old[ir.TypeCluster], next.set[ir.TypeCluster], func(a, b *ir.Resource) {
		if a != nil && a.EndpointSet != "" {
			if s.awaited[a.EndpointSet]--; s.awaited[a.EndpointSet] <= 0 {
				delete(s.awaited, a.EndpointSet)
			}
		}
		if b != nil && b.EndpointSet != "" {
			s.awaited[b.EndpointSet]++
		}
	})
	differences(old[ir.TypeSecret], next.set[ir.TypeSecret], func(a, b *ir.Resource) {
		if b == nil {
			delete(s.good, a.Name)
		}
	})
	moved := make([]string, 0, len(s.moved))
	for name, m := range s.moved {
		if m.number <= mark {
			moved = append(moved, name)
		}
	}
	for _, name := range moved {
		delete(s.moved, name)
	}
	s.state = next
	for st := range s.streams {
		st.touch(moved)
	}
	return next.seq
}

// PublishEndpoints replaces single endpoint sets at once, past every wait: changed ones, and those that are gone. A service
// that merely has no endpoint left is a changed set that is empty, for Envoy keeps the endpoints of a removed one. Its cost
// does not depend on how much is served. Before the first Publish it does nothing.
func (s *Server) PublishEndpoints(changed []*ir.Resource, removed []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == nil {
		return
	}
	now := time.Now()
	names := make([]string, 0, len(changed)+len(removed))
	put := func(name string, r *ir.Resource) {
		if is := s.endpoints(name); is == r || is != nil && r != nil && is.Version == r.Version {
			return
		}
		if s.moved == nil {
			s.moved = map[string]move{}
		}
		s.moves++
		s.moved[name] = move{r, s.moves, now}
		names = append(names, name)
	}
	for _, r := range changed {
		if r != nil {
			put(r.Name, r)
		}
	}
	for _, name := range removed {
		put(name, nil)
	}
	if len(names) == 0 {
		return
	}
	for st := range s.streams {
		st.touch(names)
	}
}

// endpoints returns the newest endpoint set of the name. The caller holds the lock.
func (s *Server) endpoints(name string) *ir.Resource {
	if m, ok := s.moved[name]; ok {
		return m.to
	}
	return s.state.find(ir.TypeEndpoint, name)
}

// Served returns what is served now, endpoint changes included; nil before the first Publish.
func (s *Server) Served() ir.ResourceSet {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.state == nil {
		return nil
	}
	set := make(ir.ResourceSet, len(s.state.set)+1)
	for t, list := range s.state.set {
		set[t] = list
	}
	if len(s.moved) > 0 {
		list := slices.DeleteFunc(slices.Clone(set[ir.TypeEndpoint]), func(r *ir.Resource) bool {
			_, moved := s.moved[r.Name]
			return moved
		})
		for _, m := range s.moved {
			if m.to != nil {
				list = append(list, m.to)
			}
		}
		slices.SortFunc(list, byName)
		set[ir.TypeEndpoint] = list
	}
	return set
}

func (s *Server) newest() *state {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.state
}

// Register adds the aggregated discovery service to a gRPC server.
func (s *Server) Register(g *grpc.Server) {
	discovery.RegisterAggregatedDiscoveryServiceServer(g, s)
}

// Serve answers on the listener until the context ends, then closes it and every stream of it, and returns nil. security is
// the TLS configuration, with client certificates where it asks for them; nil serves clear text, for loopback and Unix
// sockets only.
func (s *Server) Serve(ctx context.Context, l net.Listener, security *tls.Config) error {
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxRequestBytes),
		// A peer that vanished without a word is noticed by pings; Envoy's own pings are welcome.
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
	}
	if security != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(security)))
	}
	g := grpc.NewServer(options...)
	s.Register(g)
	stop := context.AfterFunc(ctx, g.Stop)
	defer stop()
	if err := g.Serve(l); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serve xDS on %s: %w", l.Addr(), err)
	}
	return nil
}

// StreamAggregatedResources implements the state-of-the-world protocol.
func (s *Server) StreamAggregatedResources(g discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	return s.attend(g.Context(), sotwWire{g})
}

// DeltaAggregatedResources implements the incremental protocol.
func (s *Server) DeltaAggregatedResources(g discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	return s.attend(g.Context(), deltaWire{g})
}
