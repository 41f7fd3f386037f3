package gateway

import (
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
)

// TestPortFieldIsTheKinds: whoever is told of a port finds it under the field that is named.
func TestPortFieldIsTheKinds(t *testing.T) {
	const listeners = `{"gatewayClassName":"c","parentRef":{"name":"g"},"listeners":[{"name":"a","port":80,"protocol":"HTTP"},{"name":"b","port":8080,"protocol":"HTTP"}]}`
	for _, c := range []struct{ version, kind, spec, want string }{
		{"getambassador.io/v3alpha1", "Listener", `{"port":8080,"protocol":"HTTP","securityModel":"XFP","hostBinding":{"namespace":{"from":"ALL"}}}`, "spec.port"},
		{"gateway.networking.k8s.io/v1", "Gateway", listeners, "spec.listeners[1].port"},
		{"gateway.networking.k8s.io/v1", "ListenerSet", listeners, "spec.listeners[1].port"},
	} {
		o, found := api.Decode([]byte(`{"apiVersion":"`+c.version+`","kind":"`+c.kind+`","metadata":{"name":"x","namespace":"n"},"spec":`+c.spec+`}`), snapshot.Source{}, nil)
		if o == nil {
			t.Fatal(found)
		}
		if got := portField(o, 8080); got != c.want {
			t.Errorf("%s: %s, want %s", c.kind, got, c.want)
		}
	}
}
