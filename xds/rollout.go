package xds

import (
	"slices"
	"time"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// before are the types that routes and listeners lean on, after those that lean on them, each in the order of sending.
var (
	before = []string{ir.TypeCluster, ir.TypeEndpoint, ir.TypeSecret}
	after  = []string{ir.TypeExtension, ir.TypeListener, ir.TypeRouteConfig}
)

// advance does whatever is due by now and returns when the clock has to wake the stream next; the zero time for never.
func (st *stream) advance(now time.Time) (time.Time, error) {
	st.alarm = time.Time{}
	newest := st.server.newest()
	if newest == nil {
		return time.Time{}, nil
	}
	st.hear()
	st.adopt(newest)
	st.moveEndpoints(newest)
	st.expire(now)
	for _, t := range st.types() {
		if err := st.send(st.subs[t], now); err != nil {
			return time.Time{}, err
		}
	}
	if err := st.depart(now); err != nil {
		return time.Time{}, err
	}
	st.expire(now) // what was sent just now has its time too
	st.ask(now)
	st.settle()
	return st.alarm, nil
}

// adopt takes up a publication: what differs from the one before is marked. Nothing waits for what an older one still has under way.
func (st *stream) adopt(newest *state) {
	if st.goal == newest {
		return
	}
	st.goal = newest
	for _, t := range st.types() {
		sub := st.subs[t]
		sub.era = newest.seq
		sub.mark(newest.set[t])
	}
}

// moveEndpoints marks the endpoint sets that changed by themselves.
func (st *stream) moveEndpoints(newest *state) {
	st.mu.Lock()
	touched, flooded := st.touched, st.flooded
	st.touched, st.flooded = nil, false
	st.mu.Unlock()
	sub := st.subs[ir.TypeEndpoint]
	if sub == nil {
		return
	}
	for name := range touched {
		sub.touch(name, false)
	}
	if flooded {
		sub.restart()
		for name := range sub.names {
			sub.touch(name, false)
		}
		sub.mark(newest.set[ir.TypeEndpoint])
	}
}

// wakeAt asks the clock to wake the stream at that time or sooner.
func (st *stream) wakeAt(t time.Time) {
	if st.alarm.IsZero() || t.Before(st.alarm) {
		st.alarm = t
	}
}

// expire ends the waits for responses that have had no answer for too long, and books each once. Clusters behind others that are not
// warm wait a third of the time: what holds up their answer is not theirs, and most are warm long since.
func (st *stream) expire(now time.Time) {
	for t, sub := range st.subs {
		if t != ir.TypeCluster && contains(before, t) {
			continue // nothing waits for these
		}
		limit := st.server.barrier
		for i := range sub.unanswered {
			r := &sub.unanswered[i]
			if r.overdue && t == ir.TypeCluster {
				limit = st.server.barrier / 3
			}
			if r.overdue || t == ir.TypeCluster && len(r.fresh) == 0 {
				continue
			}
			if until := r.at.Add(limit); now.Before(until) {
				st.wakeAt(until)
				if t == ir.TypeCluster {
					limit = st.server.barrier / 3 // the answer of those behind is held up by this one's clusters
				}
				continue
			}
			r.overdue = true
			sub.land(*r)
			st.unsure = true
			st.server.books.mu.Lock()
			st.server.books.Timeouts++
			st.server.books.mu.Unlock()
			st.server.log.Warn("Envoy has not answered in time, going on", "node", st.node(), "type", shortType(t), "version", r.version, "limit", limit)
		}
	}
}

// settle notes that the client has answered the whole goal. What merely stays for requests in flight does not count.
func (st *stream) settle() {
	if st.settled >= st.goal.seq {
		return
	}
	for _, t := range []string{ir.TypeCluster, ir.TypeListener} {
		if st.subs[t] == nil && len(st.goal.set[t]) > 0 {
			return
		}
	}
	if st.server.grace == 0 && slices.ContainsFunc(st.departures, func(d *departure) bool { return !d.kept }) {
		return
	}
	var refused []NACK
	for _, t := range st.types() {
		sub := st.subs[t]
		if len(sub.unanswered) > 0 || !contains(before, t) && len(sub.dirty) > 0 {
			return
		}
		refused = append(refused, sub.refusals()...)
	}
	st.settled = st.goal.seq
	st.server.acknowledged.answer(st.settled, refused)
}
