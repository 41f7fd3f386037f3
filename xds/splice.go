package xds

import (
	"crypto/sha256"
	"encoding/hex"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// Field numbers (Envoy docs: config.route.v3.RouteConfiguration, VirtualHost, Route).
const (
	fieldHosts   protowire.Number = 2
	fieldName    protowire.Number = 1
	fieldDomains protowire.Number = 2
	fieldRoutes  protowire.Number = 3
	fieldMatch   protowire.Number = 1
	fieldRoute   protowire.Number = 14 // Route.name
)

// splice returns the wanted route configuration with each route that leads to where nothing may lead yet as the client has it:
// the route of equal match, else that of equal name, else none; and without the virtual hosts that are new and have such a
// route. Where that would not be what stood there before, the client keeps the whole of what it has.
func splice(have, want *ir.Resource, cold func([]byte) bool) *ir.Resource {
	old := map[string][]byte{}
	for field := range fields(have.Value) {
		if field.number == fieldHosts {
			old[string(first(field.value, fieldName))] = field.value
		}
	}
	value := make([]byte, 0, len(want.Value))
	domains := map[string]bool{} // of virtual hosts that are left out
	for field := range fields(want.Value) {
		if field.number != fieldHosts || !refers(field.value, cold) {
			value = append(value, field.raw...)
			continue
		}
		was, known := old[string(first(field.value, fieldName))]
		if !known {
			for f := range fields(field.value) {
				if f.number == fieldDomains {
					domains[string(f.value)] = true
				}
			}
			continue
		}
		host, ok := spliceHost(was, field.value, cold)
		if !ok {
			return have
		}
		value = protowire.AppendTag(value, fieldHosts, protowire.BytesType)
		value = protowire.AppendBytes(value, host)
	}
	for _, host := range old {
		for f := range fields(host) {
			if f.number == fieldDomains && domains[string(f.value)] {
				return have // the domain moves to the new virtual host and must not be nobody's meanwhile
			}
		}
	}
	sum := sha256.Sum256(value)
	part := *want
	part.Value, part.Version = value, hex.EncodeToString(sum[:16])
	return &part
}

// spliceHost does the routes of one virtual host; ok is false where something else of it leads to where nothing may lead yet.
func spliceHost(was, now []byte, cold func([]byte) bool) (host []byte, ok bool) {
	byMatch, byName, stays := map[string][]byte{}, map[string][]byte{}, map[string]bool{}
	for f := range fields(now) {
		if f.number == fieldRoutes {
			stays[string(first(f.value, fieldMatch))] = true
		}
	}
	for f := range fields(was) {
		if f.number != fieldRoutes {
			continue
		}
		match, name := string(first(f.value, fieldMatch)), string(first(f.value, fieldRoute))
		if byMatch[match] == nil {
			byMatch[match] = f.raw
		}
		if name != "" && !stays[match] {
			byName[name] = append(byName[name], f.raw...)
		}
	}
	host = make([]byte, 0, len(now))
	for f := range fields(now) {
		switch {
		case !refers(f.raw, cold):
			host = append(host, f.raw...)
		case f.number != fieldRoutes:
			return nil, false
		default:
			stands := byMatch[string(first(f.value, fieldMatch))]
			if stands == nil {
				name := string(first(f.value, fieldRoute))
				stands = byName[name]
				delete(byName, name) // once, though its object may have become several
			}
			host = append(host, stands...)
		}
	}
	return host, true
}

// field is one field of a marshalled message: raw is all of it, value what a field of bytes holds.
type field struct {
	number     protowire.Number
	raw, value []byte
}

// fields runs over a marshalled message; it ends at what is none.
func fields(message []byte) func(yield func(field) bool) {
	return func(yield func(field) bool) {
		for len(message) > 0 {
			number, kind, n := protowire.ConsumeTag(message)
			if n < 0 {
				return
			}
			size := protowire.ConsumeFieldValue(number, kind, message[n:])
			if size < 0 {
				return
			}
			f := field{number: number, raw: message[:n+size]}
			if kind == protowire.BytesType {
				f.value, _ = protowire.ConsumeBytes(message[n:])
			}
			message = message[n+size:]
			if !yield(f) {
				return
			}
		}
	}
}

// first returns the first value of a field of bytes, nil for none.
func first(message []byte, number protowire.Number) []byte {
	for f := range fields(message) {
		if f.number == number {
			return f.value
		}
	}
	return nil
}
