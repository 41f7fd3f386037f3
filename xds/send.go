package xds

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// target is what the client should hold under a name now, nil for nothing. A refused secret is stood in for by the last
// form that was acknowledged: Envoy keeps a refused one in its provider and then rejects innocent listener edits.
func (st *stream) target(sub *subscription, name string) *ir.Resource {
	now := st.served(sub.typeURL, name)
	if sub.typeURL != ir.TypeSecret || now == nil {
		return now
	}
	f, refused := sub.refused[name]
	if !refused || f.version != now.Version {
		return now
	}
	good := sub.acked[name]
	if good == nil {
		st.server.mu.RLock()
		good = st.server.good[name]
		st.server.mu.RUnlock()
	}
	if good == nil || good.Version == now.Version {
		return now
	}
	return good
}

// served is what is published under a name. Endpoints are always the newest.
func (st *stream) served(typeURL, name string) *ir.Resource {
	if st.goal == nil {
		return nil
	}
	if typeURL != ir.TypeEndpoint {
		return st.fitting(typeURL, name, st.goal.find(typeURL, name))
	}
	st.server.mu.RLock()
	defer st.server.mu.RUnlock()
	return st.server.endpoints(name)
}

// published is when the present form of a resource was published, at the latest.
func (st *stream) published(typeURL, name string) time.Time {
	if typeURL == ir.TypeEndpoint {
		st.server.mu.RLock()
		defer st.server.mu.RUnlock()
		if m, ok := st.server.moved[name]; ok {
			return m.at
		}
	}
	return st.goal.at
}

// late reports that an endpoint set does not exist yet although a served cluster takes its endpoints from it: Envoy
// is left waiting, and with it whatever routes to the cluster.
func (st *stream) late(sub *subscription, name string) bool {
	if sub.typeURL != ir.TypeEndpoint {
		return false
	}
	st.server.mu.RLock()
	defer st.server.mu.RUnlock()
	return st.server.awaited[name] > 0
}

// send sends what differs among the marked names. What is not served any more departs later, but an unknown name that the client
// has just asked for is told as such at once, and a listener that takes over another's address can only come together with the
// other's removal.
func (st *stream) send(sub *subscription, now time.Time) error {
	if st.goal == nil || len(sub.dirty) == 0 && (sub.answered || !sub.wildcard) {
		return nil
	}
	if !contains(before, sub.typeURL) && st.blind(now) {
		st.wakeAt(st.keepUntil)
		return nil
	}
	var changed []*ir.Resource
	var removed, looked []string
	unknown := false
	for name := range sub.dirty {
		want, have := st.target(sub, name), sub.sent[name]
		_, forced := sub.forced[name]
		stays := false // the name stays marked
		switch {
		case want != nil:
			delete(sub.departing, name)
			if forced || have == nil || have.Version != want.Version {
				form := st.form(sub, want, have, now)
				if form == nil {
					continue
				}
				changed = append(changed, form)
				stays = form != want
			}
			if !stays {
				sub.clear(st.served(sub.typeURL, name))
			}
		case st.late(sub, name):
			if have == nil {
				break // there is nothing to say until it comes
			}
			continue // what the client holds stays until it comes, or nobody waits for it any more
		case forced:
			unknown = true
			removed = append(removed, name)
		case have == nil:
		case sub.typeURL == ir.TypeListener, sub.claimed(have):
			removed = append(removed, name)
		case sub.departing[name] == nil:
			st.leave(sub, name)
		}
		delete(sub.forced, name)
		if !stays {
			delete(sub.dirty, name)
			looked = append(looked, name)
		}
	}
	if sub.typeURL == ir.TypeEndpoint && st.goal != st.server.newest() {
		// Endpoints are the newest, and so may be of a publication that has not been adopted; the one that will be may have them
		// no more, and differ in nothing from what was adopted before.
		for _, name := range looked {
			sub.touch(name, false)
		}
	}
	slices.SortFunc(changed, byName)
	slices.Sort(removed)
	fresh := st.freshly(sub, changed)
	sent := Sent{Type: sub.typeURL}
	for _, r := range changed {
		if have := sub.sent[r.Name]; have != nil && have.Version != r.Version || have == nil && sub.wildcard && sub.nonce != "" {
			sent.Changed++
			sent.Waited = max(sent.Waited, now.Sub(st.published(sub.typeURL, r.Name)))
		}
		sub.sent[r.Name] = r
	}
	for _, name := range removed {
		delete(sub.departing, name)
		sub.drop(name)
	}
	needed := len(changed) > 0 || len(removed) > 0 && (st.wire.delta() || sub.wildcard || unknown) || sub.wildcard && !sub.answered
	if !needed {
		return nil
	}
	sub.answered = true
	if sub.typeURL == ir.TypeSecret && !(sub.wildcard && !st.wire.delta()) {
		// One secret a response: Envoy's refusal does not say which one it means.
		for len(changed) > 1 {
			if err := st.respond(sub, changed[:1:1], nil, nil); err != nil {
				return err
			}
			changed = changed[1:]
		}
	}
	if err := st.respond(sub, changed, removed, fresh); err != nil {
		return err
	}
	if sent.Changed > 0 && st.server.onSent != nil {
		sent.Node, sent.Waited = st.node(), sent.Waited+time.Since(now)
		st.server.onSent(sent)
	}
	if sub.typeURL == ir.TypeCluster {
		return st.rewarm(changed, now)
	}
	return nil
}

// respond sends one response. fresh are the clusters in it that the client does not have.
func (st *stream) respond(sub *subscription, changed []*ir.Resource, removed []string, fresh []warming) error {
	out := &reply{typeURL: sub.typeURL, nonce: st.nextNonce(), resources: changed, removed: removed}
	if sub.wildcard && !st.wire.delta() {
		// In the state of the world, what a wildcard response leaves out is removed.
		out.resources = slices.SortedFunc(maps.Values(sub.sent), byName)
		out.version = digest(out.resources, nil)
	} else if len(changed) == 1 && len(removed) == 0 {
		out.version = changed[0].Version
	} else {
		out.version = digest(changed, removed)
	}
	now := st.server.pace.now()
	if len(sub.unanswered) >= maxUnanswered {
		sub.land(sub.unanswered[0])
		sub.unanswered = slices.Delete(sub.unanswered, 0, 1)
	}
	sub.unanswered = append(sub.unanswered, response{number: st.nonces, nonce: out.nonce, version: out.version, resources: changed, removed: removed, fresh: fresh, at: now})
	sub.nonce, sub.sentVersion, sub.sentAt = out.nonce, out.version, now
	switch sub.typeURL {
	case ir.TypeEndpoint:
		for _, r := range changed {
			sub.order[r.Name] = st.nonces
		}
		st.unsure = true
	case ir.TypeCluster:
		st.unsure = true
	case ir.TypeSecret:
	default:
		for _, r := range changed {
			sub.flying[r.Name] = st.nonces
		}
	}
	st.server.books.count(sub.typeURL, func(c *TypeCounters) {
		c.Responses++
		c.Resources += uint64(len(out.resources))
		c.Removed += uint64(len(removed))
		for _, r := range out.resources {
			c.Bytes += uint64(len(r.Value))
		}
	})
	err := st.wire.send(out)
	// A client that did not read for a while gets its whole time to answer.
	sub.unanswered[len(sub.unanswered)-1].at = st.server.pace.now()
	return err
}

// rewarm sends the endpoints of changed clusters right behind them: Envoy warms a changed cluster only with endpoints that
// came after it, and does not ask for them.
func (st *stream) rewarm(clusters []*ir.Resource, now time.Time) error {
	sub := st.subs[ir.TypeEndpoint]
	for _, c := range clusters {
		switch {
		case c.EndpointSet == "":
		case sub != nil:
			sub.touch(c.EndpointSet, true)
		case st.rewarmed != nil:
			st.rewarmed[c.EndpointSet] = struct{}{}
		}
	}
	if sub == nil {
		return nil
	}
	return st.send(sub, now)
}

// answered does the books for a client's answer, if it is one.
func (st *stream) answered(sub *subscription, q *request, now time.Time) {
	responses := sub.answer(q.nonce, !st.wire.delta())
	if len(responses) == 0 {
		return
	}
	if sub.typeURL == ir.TypeCluster {
		st.unsure = true
		for i := range responses {
			st.asking.forgetWarm(&responses[i])
		}
	}
	r := responses[len(responses)-1]
	if q.nack {
		st.nacked(sub, r, q.refused, now)
		responses = responses[:len(responses)-1]
	}
	for _, r := range responses {
		sub.took(r, now)
		if sub.typeURL == ir.TypeSecret && len(r.resources) > 0 {
			st.server.keep(r.resources)
		}
		st.server.books.count(sub.typeURL, func(c *TypeCounters) { c.ACKs++ })
		if st.server.onACK != nil {
			st.server.onACK(ACK{Node: st.node(), Type: sub.typeURL, Version: r.version, Resources: len(r.resources), Took: now.Sub(r.at)})
		}
	}
}

func (st *stream) nacked(sub *subscription, r response, text string, now time.Time) {
	n := NACK{Node: st.node(), Type: sub.typeURL, Version: r.version, Text: text, At: now}
	suspects := blamed(r.resources, text)
	for _, res := range suspects {
		n.Names = append(n.Names, res.Name)
		n.Origins = append(n.Origins, res.Origins...)
	}
	slices.SortFunc(n.Origins, ir.Origin.Compare)
	n.Origins = slices.Compact(n.Origins)
	for _, res := range suspects {
		if sub.wants(res.Name) {
			sub.refused[res.Name] = refusal{version: res.Version, nack: n}
		}
		if sub.typeURL == ir.TypeSecret {
			sub.touch(res.Name, false)
		}
	}
	st.server.books.count(sub.typeURL, func(c *TypeCounters) { c.NACKs++ })
	st.server.log.Error("Envoy refused a response", "node", n.Node, "type", shortType(n.Type), "names", strings.Join(n.Names, ","), "error", n.Text)
	if st.server.onNACK != nil {
		st.server.onNACK(n)
	}
}

// keep notes acknowledged secrets as good.
func (s *Server) keep(secrets []*ir.Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range secrets {
		if s.state.find(ir.TypeSecret, r.Name) != nil {
			s.good[r.Name] = r
		}
	}
}

// clear drops the refusal of a resource that has another form now.
func (s *subscription) clear(now *ir.Resource) {
	if now == nil {
		return
	}
	if f, ok := s.refused[now.Name]; ok && f.version != now.Version {
		delete(s.refused, now.Name)
	}
}

// claimed reports that the client itself said it holds the named endpoint set or other non-wildcard resource, when it reconnected.
func (s *subscription) claimed(have *ir.Resource) bool { return have.Value == nil && !s.wildcard }

// refusals lists the refusals that stand, one for each NACK.
func (s *subscription) refusals() []NACK {
	var all []NACK
	for _, name := range slices.Sorted(maps.Keys(s.refused)) {
		n := s.refused[name].nack
		if !slices.ContainsFunc(all, func(m NACK) bool { return m.At.Equal(n.At) && m.Version == n.Version && m.Text == n.Text }) {
			all = append(all, n)
		}
	}
	return all
}

// show refreshes what Status tells.
func (st *stream) show() {
	types := make([]TypeStatus, 0, len(st.subs))
	other := false
	for _, t := range st.types() {
		sub := st.subs[t]
		other = other || sub.fitted != nil && sub.lacking == nil
		types = append(types, TypeStatus{
			Type: t, SentVersion: sub.sentVersion, Sent: len(sub.sent), SentAt: sub.sentAt,
			AckedVersion: sub.ackedVersion, AckedAt: sub.ackedAt, Unanswered: len(sub.unanswered), Refused: sub.refusals(), Lacks: sub.lacks(),
		})
	}
	st.mu.Lock()
	st.shown.Types, st.shown.Publication = types, st.settled
	st.mu.Unlock()
	if other && st.server.onStatus != nil {
		st.server.onStatus()
	}
}

func (st *stream) status() NodeStatus {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.shown
}
