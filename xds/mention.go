package xds

import "google.golang.org/protobuf/encoding/protowire"

// refers reports whether a marshalled message holds, at any depth and inside packed messages too, a text for which named is
// true. It needs no schema: whatever refers to a resource holds its name. A text that merely happens to be equal counts too.
func refers(message []byte, named func(text []byte) bool) bool {
	for len(message) > 0 {
		_, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return false
		}
		message = message[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(1, kind, message); n < 0 {
				return false
			}
			message = message[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(message)
		if n < 0 {
			return false
		}
		if named(value) || refers(value, named) {
			return true
		}
		message = message[n:]
	}
	return false
}

// among is a test for refers.
func among[V any](names map[string]V) func([]byte) bool {
	return func(text []byte) bool {
		_, ok := names[string(text)]
		return ok
	}
}
