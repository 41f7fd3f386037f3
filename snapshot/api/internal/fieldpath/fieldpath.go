// Package fieldpath builds the paths by which diagnostics name fields: "spec.cors.origins[1]", `data["tls.crt"]`.
package fieldpath

import (
	"strconv"
	"strings"
)

// Member returns the path of an object's member: after a dot where the key is plain, in brackets where it is not.
func Member(path, key string) string {
	if key == "" || strings.ContainsAny(key, ".[]\"/ ") {
		return path + "[" + strconv.Quote(key) + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// Item returns the path of a list's item, counted from 0.
func Item(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
