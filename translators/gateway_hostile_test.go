package translators_test

import (
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// hostileGateways want, in a namespace of their own and younger than everything else, the ports of others and of the installation:
// on an address that is part of all addresses, on the same ones, by way of another's Gateway.
var hostileGateways = []string{
	`{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "h", "namespace": "zz", "creationTimestamp": "2030-01-01T00:00:00Z"}, "spec": {"gatewayClassName": "gc", "addresses": [{"value": "::ffff:192.0.2.3"}], "listeners": [{"name": "a", "port": 80, "protocol": "HTTP"}, {"name": "b", "port": 443, "protocol": "TCP"}, {"name": "c", "port": 8080, "protocol": "HTTP"}, {"name": "d", "port": 8443, "protocol": "TCP"}]}}`,
	`{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "h", "namespace": "zz", "creationTimestamp": "2030-01-01T00:00:00Z"}, "spec": {"gatewayClassName": "gc", "addresses": [{"value": "0.0.0.0"}, {"value": "127.0.0.1"}, {"value": "192.0.2.3"}], "listeners": [{"name": "a", "port": 8001, "protocol": "HTTP"}, {"name": "b", "port": 8003, "protocol": "TCP"}, {"name": "c", "port": 8877, "protocol": "HTTP"}, {"name": "d", "port": 8006, "protocol": "HTTP"}, {"name": "e", "port": -1, "protocol": "TCP"}, {"name": "f", "port": 2147483647, "protocol": "TCP"}]}}`,
	`{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "ListenerSet", "metadata": {"name": "h", "namespace": "zz", "creationTimestamp": "2030-01-01T00:00:00Z"}, "spec": {"parentRef": {"name": "gateway-0", "namespace": "red"}, "listeners": [{"name": "a", "port": 80, "protocol": "TCP"}, {"name": "b", "port": 443, "protocol": "HTTP"}, {"name": "c", "port": 8080, "protocol": "TCP"}, {"name": "d", "port": 8001, "protocol": "HTTP"}]}}`,
}

// TestHostileGateways: what is made of others stays as it was to the byte, and nothing listens where it would have their connections.
func TestHostileGateways(t *testing.T) {
	own := map[uint32]bool{8001: true, 8003: true, 8006: true, 8877: true}
	met := 0
	for seed := range uint64(150) {
		town := newTown(9000 + seed)
		for range 80 {
			town.next(t)
		}
		base := snapshot.Empty().Derive(town.all(), nil, nil)
		c := newCompiler()
		before := c.Compile(base)
		want, taken := resourcesOf(before), map[uint32]*ir.Listener{}
		for _, l := range before.Program.Listeners {
			if l.Address == "0.0.0.0" && !l.UDP {
				taken[l.Port] = l
			}
		}
		for i, text := range hostileGateways {
			o, found := api.Decode([]byte(text), snapshot.Source{}, nil)
			if o == nil {
				t.Fatal(found)
			}
			r := c.Compile(base.Derive([]*snapshot.Object{o}, nil, nil))
			got := resourcesOf(r)
			for name, text := range want {
				if got[name] != text {
					t.Errorf("seed %d: hostile object %d changed %s", seed, i, name)
				}
			}
			for _, l := range r.Program.Listeners {
				if !strings.HasPrefix(l.Name, "gateway-192.0.2.3-") && want[ir.TypeListener+"/"+l.Name] != "" {
					continue
				}
				met++
				if own[l.Port] || l.Port == 0 || l.Port > 65535 || taken[l.Port] != nil {
					t.Errorf("seed %d: hostile object %d has port %d: %s", seed, i, l.Port, l.Name)
				}
			}
		}
	}
	if met == 0 {
		t.Error("no hostile object ever had a port of its own: the test compares nothing")
	}
}
