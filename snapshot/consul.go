package snapshot

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
)

// ConsulSlices is the label kubernetes.io/service-name of the EndpointSlices that stand for a service which a ConsulResolver
// finds: the name of no Kubernetes Service, since ':' stands in none. They are in the resolver's namespace.
func ConsulSlices(resolver, service string) string {
	const longest = 240 // names of objects have at most 253 characters, and a port follows
	name := "consul:" + resolver + ":" + url.PathEscape(service)
	if len(name) > longest {
		sum := sha256.Sum256([]byte(name))
		return "consul:" + hex.EncodeToString(sum[:])
	}
	return name
}
