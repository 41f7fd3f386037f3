package xds

import (
	"maps"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/proto"

	"github.com/chancery-gateway/chancery/translators/ir"
)

const (
	// partAfter is how long a route configuration waits for the clusters that it needs before what does not need them goes ahead.
	// Most clusters are warm by then, and Envoy is spared a second update.
	partAfter = 250 * time.Millisecond
	// newAfter is how long a resource that the client does not have yet waits for its clusters: a listener that other hosts share may
	// wait for it.
	newAfter = 2 * time.Second
)

// pace holds resumeGrace, partAfter and newAfter for a server, and its clock; tests have their own.
type pace struct {
	resume, part, fresh time.Duration
	now                 func() time.Time
}

// warming is a cluster that is new to the client and not known to be warm: a route that leads there would answer 503.
type warming struct {
	cluster *ir.Resource
	// outside: its warmth depends on more than what this stream sends, such as an answer of DNS.
	outside bool
}

// freshly lists the clusters of a response to come that the client does not have. An Envoy that starts holds itself until its first
// clusters are warm.
func (st *stream) freshly(sub *subscription, clusters []*ir.Resource) []warming {
	if sub.typeURL != ir.TypeCluster || sub.nonce == "" && !st.resumed {
		return nil
	}
	var fresh []warming
	for _, c := range clusters {
		if sub.sent[c.Name] == nil {
			fresh = append(fresh, warming{c, st.fromOutside(c)})
		}
	}
	return fresh
}

// fromOutside reports whether a cluster becomes warm by more than its own endpoints.
func (st *stream) fromOutside(r *ir.Resource) bool {
	var c clusterv3.Cluster
	if proto.Unmarshal(r.Value, &c) != nil {
		return true
	}
	known := c.GetClusterType() == nil && (c.GetType() == clusterv3.Cluster_STATIC || c.GetType() == clusterv3.Cluster_EDS)
	return !known || len(c.GetHealthChecks()) > 0 ||
		refers(r.Value, func(text []byte) bool { return st.goal.find(ir.TypeSecret, string(text)) != nil })
}

// cold are the clusters that nothing may lead to yet. As a rule that is all that are new in a response without an answer, for Envoy
// answers when they are warm. But one that waits for the outside holds back the answer for all: then the others count as
// warm by the order of what was sent, for Envoy takes up responses in that order.
func (st *stream) cold() map[string]struct{} {
	sub := st.subs[ir.TypeCluster]
	if !st.unsure || sub == nil {
		return st.coldNames
	}
	st.unsure = false
	var names map[string]struct{}
	outside := false
	each := func(do func(r *response, w warming)) {
		for i := range sub.unanswered {
			if r := &sub.unanswered[i]; !r.overdue {
				for _, w := range r.fresh {
					if st.asking.warm[w.cluster.Name] != r.number {
						do(r, w)
					}
				}
			}
		}
	}
	each(func(r *response, w warming) { outside = outside || w.outside || !st.supplied(r, w) })
	each(func(r *response, w warming) {
		if outside && !w.outside && st.supplied(r, w) {
			return
		}
		if names == nil {
			names = map[string]struct{}{}
		}
		names[w.cluster.Name] = struct{}{}
	})
	if !maps.Equal(names, st.coldNames) {
		st.coldNames = names
		st.warmth++
	}
	return st.coldNames
}

// supplied reports that a cluster's endpoints were sent after it.
func (st *stream) supplied(r *response, w warming) bool {
	if w.cluster.EndpointSet == "" {
		return true
	}
	sub := st.subs[ir.TypeEndpoint]
	return sub != nil && sub.order[w.cluster.EndpointSet] > r.number
}

// hold notes since when a resource has been waiting for clusters.
type hold struct {
	since time.Time
	// want and warmth are what was looked at last, told that there is nothing to send for them.
	want   *ir.Resource
	warmth uint64
	told   bool
}

// form returns the form in which the client can take a resource now: want itself, or a route configuration in which what needs
// clusters that are not warm is as the client has it. nil means: not now; st.alarm says when to look again.
func (st *stream) form(sub *subscription, want, have *ir.Resource, now time.Time) *ir.Resource {
	if contains(before, sub.typeURL) {
		return want
	}
	if _, flying := sub.flying[want.Name]; flying {
		return nil // one at a time: the newest goes when the last is answered
	}
	cold := st.cold()
	h, held := sub.held[want.Name]
	if len(cold) == 0 {
		delete(sub.held, want.Name)
		return want
	}
	if !held || h.want != want || h.warmth != st.warmth {
		if !refers(want.Value, among(cold)) {
			delete(sub.held, want.Name)
			return want
		}
		if !held {
			h.since = now
		}
		h.want, h.warmth, h.told = want, st.warmth, false
		sub.held[want.Name] = h
	}
	switch {
	case h.told:
		return nil
	case have == nil || have.Value == nil:
		if now.Sub(h.since) >= st.server.pace.fresh {
			delete(sub.held, want.Name)
			return want
		}
		st.wakeAt(h.since.Add(st.server.pace.fresh))
		return nil
	case sub.typeURL != ir.TypeRouteConfig:
		return nil
	case now.Sub(h.since) < st.server.pace.part:
		st.wakeAt(h.since.Add(st.server.pace.part))
		return nil
	}
	h.told = true
	part := splice(have, want, among(cold))
	if part.Version == have.Version {
		sub.held[want.Name] = h
		return nil
	}
	h.since = now
	sub.held[want.Name] = h
	return part
}
