package gatewayapi

import (
	"encoding/binary"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// rank is what decides over the precedence of a match beside its host name: greater numbers come first, in this order.
type rank [6]uint32

// orderKey puts routes of a name in the order of the specification when sorted descending: by the host name that the route has
// (more characters of one that is no wildcard, then more characters), by rank, by age and name of the object, and by the place in
// it (Gateway API: HTTPRouteSpec.hostnames, HTTPRouteRule.matches; GRPCRoute alike).
func orderKey(name string, r *rank, o *snapshot.Object, place ...int) string {
	precise, length := uint32(0), uint32(len(name))
	if !strings.HasPrefix(name, "*") {
		precise = length
	}
	k := binary.BigEndian.AppendUint32(nil, precise)
	k = binary.BigEndian.AppendUint32(k, length)
	for _, n := range r {
		k = binary.BigEndian.AppendUint32(k, n)
	}
	seconds := uint64(0) // an object without a time counts as the oldest
	if !o.Created.IsZero() {
		seconds = uint64(o.Created.UnixNano()) ^ 1<<63
	}
	k = binary.BigEndian.AppendUint64(k, ^seconds)
	k = appendInverted(k, o.Namespace+"/"+o.Name)
	k = appendInverted(k, o.Kind)
	for _, n := range place {
		k = binary.BigEndian.AppendUint32(k, ^uint32(n))
	}
	return string(k)
}

// appendInverted appends a text so that what comes first in the alphabet is greater.
func appendInverted(k []byte, s string) []byte {
	for i := range len(s) {
		k = append(k, ^s[i])
	}
	return append(k, 0xff)
}

// fragment places a route at one name of one listener.
func (l *lowering) fragment(a *attachment, name string, r *ir.Route, rk *rank, place ...int) {
	order := orderKey(name, rk, l.o, place...)
	l.out.Routes = append(l.out.Routes, &ir.RouteFragment{
		Origin: l.o, Section: a.section(), Hosts: ir.HostPattern{Kind: ir.HostGlob, Value: name}, Group: order, Order: order, Route: r,
	})
}
