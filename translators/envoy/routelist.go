package envoy

import (
	"encoding/binary"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// routeList is the memo of one list of routes, which several virtual hosts may share.
type routeList struct {
	src   []*ir.Route
	units []*routeUnit
	parts []*part
	// ends and hashes say of each part where its bytes end in the joined list, and its hash.
	ends   []uint32
	hashes []byte
	// generation of the clusters for which the parts were taken.
	generation uint64
	hash       uint64
	// flawed is the number of parts with diagnostics.
	flawed      int
	diagnostics []snapshot.Diagnostic
	standIn     bool
	// revision differs whenever a part has changed, also where the bytes have not.
	revision uint64
	// joined holds the parts' bytes in one piece, within a route configuration that was made of them; nil before that.
	joined []byte
	// source is a joined list with which this one has the first head and the last tail parts in common; nil for none.
	source     *routeList
	head, tail int
	// uses counts the virtual hosts that have the list.
	uses int
}

type listKey struct {
	first **ir.Route
	n     int
}

func keyOf(routes []*ir.Route) listKey {
	if len(routes) == 0 {
		return listKey{}
	}
	return listKey{&routes[0], len(routes)}
}

// routeList returns the memo of the list, brought to the clusters that exist now. hint is the list that stood in its place before, or nil:
// what both begin and end with is taken over without a look-up.
func (e *Emitter) routeList(routes []*ir.Route, hint *routeList) *routeList {
	l := e.memo.lists[keyOf(routes)]
	switch {
	case l == nil:
		l = newRouteList(routes)
		head, tail := 0, 0
		if hint != nil {
			head, tail = common(hint.src, routes)
			copy(l.units, hint.units[:head])
			copy(l.units[len(routes)-tail:], hint.units[len(hint.units)-tail:])
		}
		for i := head; i < len(routes)-tail; i++ {
			l.units[i] = e.memo.route(routes[i])
		}
		if hint == nil || hint.generation != e.routeWorld() || hint.flawed > 0 {
			hint, head, tail = nil, 0, 0
		}
		e.takeParts(l, hint, head, tail)
		e.memo.lists[keyOf(routes)] = l
	case l.generation != e.routeWorld():
		for i, u := range l.units {
			if e.routePart(u) != l.parts[i] {
				fresh := newRouteList(routes)
				fresh.units, fresh.uses = l.units, l.uses
				e.takeParts(fresh, nil, 0, 0)
				*l = *fresh
				break
			}
		}
	}
	l.generation = e.routeWorld()
	return l
}

func newRouteList(routes []*ir.Route) *routeList {
	n := len(routes)
	return &routeList{src: routes, units: make([]*routeUnit, n), parts: make([]*part, n), ends: make([]uint32, n), hashes: make([]byte, 8*n)}
}

// takeParts fills the list with its units' parts. The first head and the last tail of them are those of hint, which has no flawed ones.
// Where hint has been joined, the new list is joined of its bytes.
func (e *Emitter) takeParts(l, hint *routeList, head, tail int) {
	n := len(l.src)
	at := uint32(0)
	if hint != nil {
		copy(l.parts, hint.parts[:head])
		copy(l.ends, hint.ends[:head])
		copy(l.hashes, hint.hashes[:8*head])
		at = hint.offset(head)
	}
	for i := head; i < n-tail; i++ {
		p := e.routePart(l.units[i])
		at += uint32(len(p.framed))
		l.parts[i], l.ends[i] = p, at
		binary.LittleEndian.PutUint64(l.hashes[8*i:], p.hash)
		l.standIn = l.standIn || p.standIn
		if len(p.diagnostics) > 0 {
			l.flawed++
			l.diagnostics = append(l.diagnostics, p.diagnostics...)
		}
	}
	if hint != nil {
		m := len(hint.src)
		copy(l.parts[n-tail:], hint.parts[m-tail:])
		copy(l.hashes[8*(n-tail):], hint.hashes[8*(m-tail):])
		shift := at - hint.offset(m-tail) // Modulo 2³², as the sums below are.
		for i := range tail {
			l.ends[n-tail+i] = hint.ends[m-tail+i] + shift
		}
		if hint.joined != nil {
			l.source, l.head, l.tail = hint, head, tail
		}
	}
	l.hash = contentHash(l.hashes)
	e.memo.revisions++
	l.revision = e.memo.revisions
}

// routeWorld changes whenever a route may have to be made anew: both numbers only grow.
func (e *Emitter) routeWorld() uint64 { return e.clusters.world.generation + e.refused.generation }

// offset returns where the i-th part begins in the joined list.
func (l *routeList) offset(i int) uint32 {
	if i == 0 {
		return 0
	}
	return l.ends[i-1]
}

func (l *routeList) size() int { return int(l.offset(len(l.ends))) }

// appendTo appends the parts' bytes. Large pieces are copied from where they lie in one piece already.
func (l *routeList) appendTo(b []byte) []byte {
	start := len(b)
	switch {
	case l.joined != nil:
		b = append(b, l.joined...)
	case l.source != nil:
		b = append(b, l.source.joined[:l.source.offset(l.head)]...)
		for _, p := range l.parts[l.head : len(l.parts)-l.tail] {
			b = append(b, p.framed...)
		}
		b = append(b, l.source.joined[l.source.offset(len(l.source.ends)-l.tail):]...)
	default:
		for _, p := range l.parts {
			b = append(b, p.framed...)
		}
	}
	// The latest is what is served; an older one would keep that one's memory.
	l.joined, l.source = b[start:len(b):len(b)], nil
	return b
}

// common returns how many elements two lists begin and end with in common, without overlap.
func common(a, b []*ir.Route) (head, tail int) {
	n := min(len(a), len(b))
	for head < n && a[head] == b[head] {
		head++
	}
	for tail < n-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	return head, tail
}
