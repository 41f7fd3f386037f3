package validator

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// Thousands of clusters differ in nothing but their names and where their endpoints are, thousands of filter chains in nothing but
// the host that they are for. Envoy gives one verdict over all of them, so each form is shown once: without its names, under the
// probe's.

// Field numbers of Cluster, and of what leads to an address in it.
const (
	clusterName           protowire.Number = 1
	clusterType           protowire.Number = 2
	clusterEDS            protowire.Number = 3
	clusterAltStatName    protowire.Number = 28
	clusterLoadAssignment protowire.Number = 33
	clusterCustomType     protowire.Number = 38

	edsServiceName  protowire.Number = 2
	assignmentName  protowire.Number = 1
	assignmentHosts protowire.Number = 2
)

// pathToHost leads from a locality of a load assignment to the host of an address: lb_endpoints, endpoint, address,
// socket_address, address.
var pathToHost = []protowire.Number{2, 1, 1, 1, 2}

// nameless returns a cluster without its name and those that only lead to its endpoints; nil for one whose names say more.
func nameless(value []byte) []byte {
	dns, ok := false, true
	each := func(b []byte, do func(number protowire.Number, kind protowire.Type, whole, content []byte)) {
		for len(b) > 0 && ok {
			number, kind, n := protowire.ConsumeTag(b)
			if n < 0 {
				ok = false
				return
			}
			m := protowire.ConsumeFieldValue(number, kind, b[n:])
			if m < 0 {
				ok = false
				return
			}
			content := b[n : n+m]
			if kind == protowire.BytesType {
				content, _ = protowire.ConsumeBytes(content)
			}
			do(number, kind, b[:n+m], content)
			b = b[n+m:]
		}
	}
	each(value, func(number protowire.Number, kind protowire.Type, _, content []byte) {
		switch number {
		case clusterName:
			ok = ok && plainName(content)
		case clusterType:
			kind, _ := protowire.ConsumeVarint(content)
			dns = dns || kind == 1 || kind == 2 // STRICT_DNS, LOGICAL_DNS
		case clusterCustomType:
			each(content, func(number protowire.Number, _ protowire.Type, _, name []byte) {
				dns = dns || number == 1 && string(name) == "envoy.cluster.dns"
			})
		}
	})
	out := make([]byte, 0, len(value))
	named := false
	each(value, func(number protowire.Number, _ protowire.Type, whole, content []byte) {
		switch number {
		case clusterName:
			named = true
		case clusterAltStatName:
		case clusterEDS:
			eds := make([]byte, 0, len(content))
			each(content, func(number protowire.Number, _ protowire.Type, whole, content []byte) {
				if number != edsServiceName {
					eds = append(eds, whole...)
				} else {
					ok = ok && plainName(content)
				}
			})
			out = framed(out, number, eds)
		case clusterLoadAssignment:
			l := protowire.AppendString(protowire.AppendTag(nil, assignmentName, protowire.BytesType), "probe")
			each(content, func(number protowire.Number, _ protowire.Type, whole, content []byte) {
				switch {
				case number == assignmentName:
					ok = ok && plainName(content)
				case number == assignmentHosts && dns:
					l = framed(l, number, hostless(content, pathToHost))
				default:
					l = append(l, whole...)
				}
			})
			out = framed(out, number, l)
		default:
			out = append(out, whole...)
		}
	})
	if !ok || !named {
		return nil
	}
	return out
}

// plainName reports whether a name is nothing but a name.
func plainName(b []byte) bool {
	return len(b) > 0 && utf8.Valid(b) && !bytes.HasPrefix(b, []byte("xdstp:"))
}

// hostless puts one host name in the place of every other that a resolver is asked for. What it cannot read stays as it is.
func hostless(b []byte, path []protowire.Number) []byte {
	out := make([]byte, 0, len(b))
	for rest := b; len(rest) > 0; {
		number, kind, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return b
		}
		m := protowire.ConsumeFieldValue(number, kind, rest[n:])
		if m < 0 {
			return b
		}
		whole := rest[:n+m]
		rest = rest[n+m:]
		if number != path[0] || kind != protowire.BytesType {
			out = append(out, whole...)
			continue
		}
		content, _ := protowire.ConsumeBytes(whole[n:])
		switch {
		case len(path) > 1:
			content = hostless(content, path[1:])
		case hostName(content):
			content = []byte("probe.invalid")
		}
		out = framed(out, number, content)
	}
	return out
}

// hostName reports whether a text is made of what host names are made of: then Envoy leaves it to its resolver, and does not
// wait for what that says.
func hostName(b []byte) bool {
	for _, c := range b {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_') {
			return false
		}
	}
	return len(b) > 0 && len(b) <= 253
}

// hostNames reports whether a chain's server names are nothing but host names, with at most a "*." before them, and none twice: then
// Envoy minds only that those of other chains are others.
func hostNames(names []string) bool {
	seen := make(map[string]bool, len(names))
	for _, n := range names {
		low := strings.ToLower(n)
		if seen[low] || !hostName([]byte(strings.TrimPrefix(n, "*."))) {
			return false
		}
		seen[low] = true
	}
	return len(names) > 0
}
