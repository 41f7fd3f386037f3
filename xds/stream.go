package xds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/chancery-gateway/chancery/translators/ir"
)

const (
	// maxTypes bounds the types that one client may ask for.
	maxTypes = 64
	// maxTouched bounds the endpoint sets that are noted one by one for a client that does not read; beyond, all are compared.
	maxTouched = 8192
	// resumeGrace is how long after a reconnecting client's last new subscription clusters stay that are no longer served:
	// the routes that still use them are replaced in that time.
	resumeGrace = 250 * time.Millisecond
)

// stream is one client's connection. Everything but touched and shown belongs to the goroutine of attend.
type stream struct {
	server *Server
	wire   wire
	id     uint64
	nonces uint64
	subs   map[string]*subscription
	// others are the subscribed types outside before and after, in the order of arrival.
	others []string
	// goal is the publication that the client is brought to; alarm is when the clock wakes the stream, zero for never.
	goal  *state
	alarm time.Time
	// keepUntil is before when nothing is removed: the client, which has resumed, still tells what it holds.
	keepUntil time.Time
	resumed   bool
	// departures are what the goal does not have any more, the oldest first.
	departures []*departure
	// coldNames are the clusters that nothing may lead to yet; warmth counts its changes, unsure says that there may be one.
	coldNames map[string]struct{}
	warmth    uint64
	unsure    bool
	// rewarmed are endpoint sets of clusters that were sent before the client asked for any endpoints on this stream.
	rewarmed map[string]struct{}
	settled  uint64
	// gone ends with the stream.
	gone   context.Context
	asking asking
	// fit makes what is served fit for a client that is older; nil for others.
	fit func(*ir.Resource) (*ir.Resource, string)

	wake chan struct{}
	mu   sync.Mutex
	// touched are endpoint sets that changed; flooded says that there were too many to note.
	touched map[string]struct{}
	flooded bool
	shown   NodeStatus
}

// attend runs a stream to its end.
func (s *Server) attend(ctx context.Context, w wire) error {
	st := &stream{server: s, wire: w, subs: map[string]*subscription{}, rewarmed: map[string]struct{}{}, wake: make(chan struct{}, 1)}
	st.shown = NodeStatus{Since: time.Now(), Delta: w.delta()}
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		st.shown.Address = p.Addr.String()
	}
	s.mu.Lock()
	s.serial++
	st.id = s.serial
	s.streams[st] = struct{}{}
	st.goal = s.state
	s.mu.Unlock()
	s.books.mu.Lock()
	s.books.Opened++
	s.books.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.streams, st)
		s.mu.Unlock()
		if s.onStatus != nil {
			s.onStatus()
		}
	}()
	s.log.Debug("xDS stream opened", "stream", st.id, "address", st.shown.Address, "delta", w.delta())
	err := st.run(ctx)
	if err != nil && !errors.Is(err, io.EOF) && status.Code(err) != codes.Canceled && ctx.Err() == nil {
		s.log.Warn("xDS stream failed", "stream", st.id, "node", st.node(), "error", err)
	} else {
		s.log.Debug("xDS stream closed", "stream", st.id, "node", st.node())
		err = nil
	}
	return err
}

// run reads requests and sends what is due. Only this goroutine sends; a client that stops reading stops it alone.
func (st *stream) run(ctx context.Context) error {
	requests := make(chan *request)
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	st.gone = ctx
	go func() {
		for {
			q, err := st.wire.recv()
			if err != nil {
				ended <- err
				return
			}
			select {
			case requests <- q:
			case <-ctx.Done():
				return
			}
		}
	}()
	clock := time.NewTimer(time.Hour)
	defer clock.Stop()
	var early *request // came before there was anything to serve; those behind it wait in the stream
	for {
		until, err := st.advance(time.Now())
		if err != nil {
			return err
		}
		if early != nil && st.goal != nil {
			if err := st.handle(early, time.Now()); err != nil {
				return err
			}
			early = nil
			continue
		}
		st.show()
		incoming := requests
		if early != nil {
			incoming = nil
		}
		var alarm <-chan time.Time
		if !until.IsZero() {
			clock.Reset(time.Until(until))
			alarm = clock.C
		}
		select {
		case q := <-incoming:
			if st.goal == nil {
				st.meet(q)
				early = q
				continue
			}
			if err := st.handle(q, time.Now()); err != nil {
				return err
			}
		case <-st.wake:
		case <-alarm:
		case err := <-ended:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// touch notes endpoint sets that changed and wakes the stream. It never waits for the client.
func (st *stream) touch(names []string) {
	st.mu.Lock()
	for _, name := range names {
		if st.flooded = st.flooded || len(st.touched) >= maxTouched; st.flooded {
			st.touched = nil
			break
		}
		if st.touched == nil {
			st.touched = map[string]struct{}{}
		}
		st.touched[name] = struct{}{}
	}
	st.mu.Unlock()
	select {
	case st.wake <- struct{}{}:
	default:
	}
}

// handle takes one request: its answer to a response, its change of the subscription, and the response that this asks for.
func (st *stream) handle(q *request, now time.Time) error {
	st.meet(q)
	if q.typeURL == "" {
		return status.Error(codes.InvalidArgument, "a request on an aggregated stream must have a type URL")
	}
	sub, first := st.subs[q.typeURL], false
	if sub == nil {
		if len(st.subs) >= maxTypes {
			return status.Errorf(codes.ResourceExhausted, "more than %d types on one stream", maxTypes)
		}
		sub, first = newSubscription(q.typeURL), true
		if st.goal != nil {
			sub.era = st.goal.seq
		}
		st.subs[q.typeURL] = sub
		if !contains(before, q.typeURL) && !contains(after, q.typeURL) {
			st.others = append(st.others, q.typeURL)
		}
		if st.resumed {
			st.keepUntil = now.Add(st.server.pace.resume)
		}
	}
	if q.nonce != "" && !first {
		st.answered(sub, q, now)
	}
	st.subscribe(sub, q, first, now)
	return nil
}

func (st *stream) subscribe(sub *subscription, q *request, first bool, now time.Time) {
	if st.wire.delta() {
		sub.subscribeDelta(q, first)
	} else {
		if q.nonce != "" && !first && q.nonce != sub.nonce {
			// Stale: the client will answer the newer response with its whole subscription. But what it has dropped by now
			// it no longer holds, even if that answer asks for it again.
			sub.dropMissing(q.names)
			return
		}
		sub.subscribeWhole(q)
		if first && sub.wildcard && q.version != "" && st.goal != nil {
			if list := st.list(sub); q.version == digest(list, nil) {
				for _, r := range list {
					sub.sent[r.Name] = r
				}
				sub.answered, sub.ackedVersion = true, q.version
			}
		}
	}
	if first {
		st.greet(sub, q, now)
	}
	if st.goal != nil && sub.seen == nil {
		sub.mark(st.goal.set[sub.typeURL])
	}
}

// greet does what the first request of a type asks for besides its subscription.
func (st *stream) greet(sub *subscription, q *request, now time.Time) {
	if sub.typeURL == ir.TypeEndpoint {
		for name := range st.rewarmed {
			sub.touch(name, true)
		}
		st.rewarmed = nil
	}
	if len(q.held) > 0 || q.version != "" {
		// A client that was connected before already routes: new routes wait for its clusters, old clusters for its routes.
		st.resumed, st.keepUntil = true, now.Add(st.server.pace.resume)
	}
}

// blind reports that a client which was connected before has not yet told of its clusters.
func (st *stream) blind(now time.Time) bool {
	return st.resumed && st.subs[ir.TypeCluster] == nil && now.Before(st.keepUntil)
}

func (st *stream) types() []string {
	var all []string
	for _, group := range [][]string{before, after, st.others} {
		for _, t := range group {
			if st.subs[t] != nil {
				all = append(all, t)
			}
		}
	}
	return all
}

// meet takes note of who the client is.
func (st *stream) meet(q *request) {
	if q.node != nil && st.node() == "" {
		st.introduce(q.node)
	}
}

func (st *stream) introduce(n *core.Node) {
	v := n.GetUserAgentBuildVersion().GetVersion()
	st.mu.Lock()
	defer st.mu.Unlock()
	st.shown.ID, st.shown.Cluster = n.GetId(), n.GetCluster()
	if v != nil {
		st.shown.Version = fmt.Sprintf("%d.%d.%d", v.GetMajorNumber(), v.GetMinorNumber(), v.GetPatch())
		if st.server.fit != nil {
			st.fit = st.server.fit(st.shown.Version)
		}
	}
}

func (st *stream) node() string {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.shown.ID
}

func (st *stream) nextNonce() string {
	st.nonces++
	return strconv.FormatUint(st.id, 36) + "-" + strconv.FormatUint(st.nonces, 36)
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
