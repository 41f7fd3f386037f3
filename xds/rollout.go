package xds

import (
	"time"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// phase is the step of a rollout that a stream is in.
type phase uint8

const (
	// idle: everything of the goal has been sent.
	idle phase = iota
	// making: clusters, endpoints and secrets are sent, their answer is awaited.
	making
	// routing: listeners and routes are sent, their answer is awaited; then comes the removal of what nothing uses any more.
	routing
)

// before are the types that routes and listeners lean on, after those that lean on them, each in the order of sending.
var (
	before = []string{ir.TypeCluster, ir.TypeEndpoint, ir.TypeSecret}
	after  = []string{ir.TypeExtension, ir.TypeListener, ir.TypeRouteConfig}
)

// source is the publication that a type is served from; nil while it is held back.
func (st *stream) source(typeURL string) *state {
	if contains(before, typeURL) {
		return st.goal
	}
	return st.made
}

// advance does whatever is due by now and returns when the clock has to wake the stream next; the zero time for never.
func (st *stream) advance(now time.Time) (time.Time, error) {
	for {
		newest := st.server.newest()
		if newest == nil {
			return time.Time{}, nil
		}
		if err := st.moveEndpoints(newest); err != nil {
			return time.Time{}, err
		}
		switch st.phase {
		case idle:
			if st.goal == newest {
				if err := st.flush(true, before, after, st.others); err != nil {
					return time.Time{}, err
				}
				st.settle()
				return time.Time{}, nil
			}
			if st.goal == nil {
				st.keepUntil = now.Add(resumeGrace)
				if !st.resumed {
					// An Envoy that starts holds itself until its first clusters are warm: no step waits.
					st.made = newest
				}
			}
			st.goal = newest
			if err := st.bring(st.goal, before); err != nil {
				return time.Time{}, err
			}
			st.phase = making
		case making:
			if until := st.held(now, ir.TypeCluster); !until.IsZero() && st.made != st.goal {
				return until, nil
			}
			st.overdue(now, ir.TypeCluster)
			st.made = st.goal
			if err := st.bring(st.made, after, st.others); err != nil {
				return time.Time{}, err
			}
			st.phase = routing
		case routing:
			if until := st.held(now, after...); !until.IsZero() {
				return until, nil
			}
			if st.resumed && now.Before(st.keepUntil) {
				return st.keepUntil, nil
			}
			st.overdue(now, after...)
			st.phase, st.resumed = idle, false
			if err := st.flush(true, before, after, st.others); err != nil {
				return time.Time{}, err
			}
		}
	}
}

// moveEndpoints sends endpoint sets that changed, whatever the rollout waits for.
func (st *stream) moveEndpoints(newest *state) error {
	st.mu.Lock()
	touched, flooded := st.touched, st.flooded
	st.touched, st.flooded = nil, false
	st.mu.Unlock()
	sub := st.subs[ir.TypeEndpoint]
	if sub == nil || st.goal == nil {
		return nil
	}
	for name := range touched {
		sub.touch(name, false)
	}
	if flooded {
		sub.restart()
		for name := range sub.names {
			sub.touch(name, false)
		}
	}
	sub.mark(newest.set[ir.TypeEndpoint])
	return st.send(sub, false)
}

// bring marks what differs from the publication in each type and sends it, removals aside.
func (st *stream) bring(s *state, groups ...[]string) error {
	for _, types := range groups {
		for _, t := range types {
			if sub := st.subs[t]; sub != nil {
				if t != ir.TypeEndpoint {
					sub.mark(s.set[t])
				}
				if err := st.send(sub, false); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// flush sends what is marked in each type.
func (st *stream) flush(removals bool, groups ...[]string) error {
	for _, types := range groups {
		for _, t := range types {
			if sub := st.subs[t]; sub != nil {
				if err := st.send(sub, removals); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// held is when the clock ends the wait for the answers of the types.
func (st *stream) held(now time.Time, types ...string) time.Time {
	var until time.Time
	for _, t := range types {
		if sub := st.subs[t]; sub != nil {
			if u := sub.heldUntil(st.server.barrier, now); u.After(until) {
				until = u
			}
		}
	}
	return until
}

// overdue books the responses that the clock no longer waits for, each once.
func (st *stream) overdue(now time.Time, types ...string) {
	for _, t := range types {
		sub := st.subs[t]
		if sub == nil {
			continue
		}
		for i := range sub.unanswered {
			r := &sub.unanswered[i]
			if r.overdue || now.Sub(r.at) < st.server.barrier {
				continue
			}
			r.overdue = true
			st.server.books.mu.Lock()
			st.server.books.Timeouts++
			st.server.books.mu.Unlock()
			st.server.log.Warn("Envoy has not answered in time, going on", "node", st.node(), "type", shortType(t), "version", r.version, "limit", st.server.barrier)
		}
	}
}

// settle notes that the client has answered the whole goal.
func (st *stream) settle() {
	if st.settled >= st.goal.seq {
		return
	}
	for _, t := range []string{ir.TypeCluster, ir.TypeListener} {
		if st.subs[t] == nil && len(st.goal.set[t]) > 0 {
			return
		}
	}
	var refused []NACK
	for _, t := range st.types() {
		sub := st.subs[t]
		if len(sub.unanswered) > 0 {
			return
		}
		refused = append(refused, sub.refusals()...)
	}
	st.settled = st.goal.seq
	st.server.acknowledged.answer(st.settled, refused)
}
