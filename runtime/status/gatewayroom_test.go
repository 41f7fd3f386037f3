package status_test

import (
	"fmt"
	"testing"

	"github.com/chancery-gateway/chancery/runtime/status"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// Lists for which the API server has no more room are cut, in place of a status that it refuses as a whole; entries of others
// are not what gives way.
func TestGatewayAPIStatusesFitTheirLists(t *testing.T) {
	var addresses []string
	for i := range 20 {
		addresses = append(addresses, fmt.Sprintf("192.0.2.%d", i+1))
	}
	b := newGatewayBed(t, status.Options{PublishAddresses: addresses})
	b.client.Apply(fmt.Sprintf(`{apiVersion: gateway.networking.k8s.io/v1, kind: BackendTLSPolicy, metadata: {name: p, namespace: %s}, spec: {targetRefs: [{group: "", kind: Service, name: s}], validation: {hostname: s.example.com, wellKnownCACertificates: System}}}`, b.ns))
	b.set("BackendTLSPolicy", "p", map[string]any{"ancestors": []any{map[string]any{"controllerName": "example.com/other", "conditions": []any{conditionOf("Accepted")},
		"ancestorRef": map[string]any{"group": gatewayGroup, "kind": "Gateway", "name": "theirs"}}}})
	policy := b.status("BackendTLSPolicy", "p", 1, func(s *ir.Status) {
		for i := range 20 {
			s.Parents = append(s.Parents, ir.ParentStatus{Controller: "chancery.dev/gateway-controller", Conditions: []ir.Condition{yes("Accepted"), yes("ResolvedRefs")},
				Parent: ir.ParentRef{Group: gatewayGroup, Kind: "Gateway", Namespace: b.ns, Name: fmt.Sprintf("g%02d", i)}})
		}
	})
	b.tellAnswered(b.class(), b.gateway(0), policy)
	b.until("policy and Gateway", func() []string {
		s := b.read("BackendTLSPolicy", "p")
		ancestors, _ := s["ancestors"].([]any)
		shown, _ := b.read("Gateway", "g")["addresses"].([]any)
		return []string{fmt.Sprint(len(ancestors)), fmt.Sprint(len(shown)),
			condition(entry(s, "ancestors", "controllerName", "example.com/other"), "Accepted"), condition(entry(s, "ancestors", "ancestorRef", "name:g14"), "Accepted")}
	}, "16", "16", "True Fine 1", "True Accepted 1")
}
