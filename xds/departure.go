package xds

import (
	"slices"
	"time"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// departure is what one publication no longer has. It stays with the client until everything that leads there has been replaced, the
// client has answered that, and what was under way then has had its time.
type departure struct {
	// seq is the publication's number.
	seq   uint64
	names map[*subscription][]string
	// told is the number of the last response that leads traffic away; 0 while there are more to come. due is when the time is up,
	// which runs from the answer to that; zero before.
	told uint64
	due  time.Time
	// kept: it is there only because the client refused what replaces it.
	kept bool
}

// maxDeparting is how many clusters may stay beyond the number of those that are served.
const maxDeparting = 1024

// leave books that a resource is no longer served. What leads to clusters and was to be replaced before may lead to some that left
// meanwhile: these go with it.
func (st *stream) leave(sub *subscription, name string) {
	if era := sub.dirty[name]; !contains(before, sub.typeURL) && era < st.goal.seq {
		st.gather(era)
	}
	n := len(st.departures)
	if n == 0 || st.departures[n-1].seq != st.goal.seq || st.departures[n-1].told > 0 {
		st.departures = append(st.departures, &departure{seq: st.goal.seq, names: map[*subscription][]string{}})
		n++
	}
	d := st.departures[n-1]
	d.names[sub] = append(d.names[sub], name)
	sub.departing[name] = d
}

// depart removes what may go by now.
func (st *stream) depart(now time.Time) error {
	if len(st.departures) == 0 {
		return nil
	}
	if st.resumed && !st.keepUntil.IsZero() {
		if now.Before(st.keepUntil) {
			st.wakeAt(st.keepUntil)
			return nil
		}
		st.keepUntil = time.Time{}
		st.gather(0)
	}
	oldest := st.oldestDirty()
	for _, d := range st.departures {
		if d.told == 0 {
			if oldest <= d.seq {
				break
			}
			d.told = max(1, st.nonces)
		}
	}
	for len(st.departures) > 0 {
		d := st.departures[0]
		if d.told == 0 || st.answersMissing(d.told) {
			return nil
		}
		if d.due.IsZero() {
			d.due = now.Add(st.server.grace)
		}
		if sub := st.subs[ir.TypeCluster]; sub != nil && len(sub.departing) > maxDeparting+len(st.goal.set[ir.TypeCluster]) {
			d.due = now // too many do not stay
		}
		if now.Before(d.due) {
			st.wakeAt(d.due)
			return nil
		}
		st.departures = st.departures[1:]
		for _, types := range [][]string{after, st.others, before} {
			for _, t := range types {
				if sub := st.subs[t]; sub != nil {
					if err := st.remove(sub, d, now); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// gather makes one of all departures since a publication. A client that has just reconnected tells of what it holds type by type, and
// what is served may change in between: it had told of a cluster before, and of the route that still leads there after. Together
// they go in order.
func (st *stream) gather(since uint64) {
	all := &departure{seq: st.goal.seq, names: map[*subscription][]string{}}
	st.departures = slices.DeleteFunc(st.departures, func(d *departure) bool {
		if d.kept || d.seq < since {
			return false
		}
		for sub, names := range d.names {
			for _, name := range names {
				if sub.departing[name] == d {
					all.names[sub] = append(all.names[sub], name)
					sub.departing[name] = all
				}
			}
		}
		return true
	})
	if len(all.names) > 0 {
		st.departures = append(st.departures, all)
	}
}

// oldestDirty is the lowest number of a publication of which some listener, route or setting has not been sent.
func (st *stream) oldestDirty() uint64 {
	oldest := ^uint64(0)
	for t, sub := range st.subs {
		if contains(before, t) {
			continue
		}
		for _, era := range sub.dirty {
			oldest = min(oldest, era)
		}
	}
	return oldest
}

// answersMissing reports whether the client still owes an answer to a listener, route or setting up to that response.
func (st *stream) answersMissing(number uint64) bool {
	for t, sub := range st.subs {
		if contains(before, t) {
			continue
		}
		for i := range sub.unanswered {
			if r := &sub.unanswered[i]; r.number <= number && !r.overdue {
				return true
			}
		}
	}
	return false
}

// remove takes those resources of a departure away from the client that have not come back. What it still uses because it refused
// the replacement stays for another while.
func (st *stream) remove(sub *subscription, d *departure, now time.Time) error {
	names := slices.DeleteFunc(d.names[sub], func(name string) bool { return sub.departing[name] != d })
	if len(names) == 0 {
		return nil
	}
	used := st.usedByRefusing(names)
	stay := &departure{seq: d.seq, told: d.told, due: now.Add(st.server.barrier), kept: true, names: map[*subscription][]string{}}
	var gone []string
	for _, name := range names {
		if used[name] {
			stay.names[sub] = append(stay.names[sub], name)
			sub.departing[name] = stay
			continue
		}
		delete(sub.departing, name)
		if sub.sent[name] != nil {
			gone = append(gone, name)
		}
		sub.drop(name)
	}
	if len(stay.names) > 0 {
		st.departures = append(st.departures, stay)
	}
	if len(gone) == 0 || !st.wire.delta() && !sub.wildcard {
		return nil // in the state of the world, what was asked for by name has no word for its removal
	}
	slices.Sort(gone)
	return st.respond(sub, nil, gone, nil)
}

// usedByRefusing returns those of the names that a listener or route configuration mentions which the client kept.
func (st *stream) usedByRefusing(names []string) map[string]bool {
	var used map[string]bool
	for t, sub := range st.subs {
		if contains(before, t) {
			continue
		}
		for name := range sub.refused {
			kept := sub.acked[name]
			if kept == nil {
				continue
			}
			refers(kept.Value, func(text []byte) bool {
				if slices.Contains(names, string(text)) {
					if used == nil {
						used = map[string]bool{}
					}
					used[string(text)] = true
				}
				return false
			})
		}
	}
	return used
}
