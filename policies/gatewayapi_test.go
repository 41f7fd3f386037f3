package policies_test

import (
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot/api"
)

// What a tenant is granted holds for the kinds of Gateway API as it does for Mappings: no host name is had by another kind.
func TestGatewayAPI(t *testing.T) {
	const policy = "---\napiVersion: chancery.dev/v1alpha1\nkind: Policy\nmetadata: {name: hosts, namespace: platform}\nspec: {library: host_owner}\n"
	const limits = "---\napiVersion: chancery.dev/v1alpha1\nkind: Policy\nmetadata: {name: limits, namespace: platform}\nspec: {library: tenant_limits}\n"
	const tenant = "---\napiVersion: chancery.dev/v1alpha1\nkind: Tenant\nmetadata: {name: shop}\nspec: {owner: anna, namespaces: [shop], hosts: [shop.example.com], limits: {TCPRoute: 0}}\n"
	object := func(kind, name, spec string) string {
		return "---\napiVersion: gateway.networking.k8s.io/v1\nkind: " + kind + "\nmetadata: {name: " + name + ", namespace: shop}\nspec: " + spec + "\n"
	}
	manifest := policy + limits + tenant
	for _, kind := range []string{"HTTPRoute", "GRPCRoute", "TLSRoute"} {
		manifest += object(kind, "own", "{parentRefs: [{name: g}], hostnames: [shop.example.com]}") +
			object(kind, "foreign", "{parentRefs: [{name: g}], hostnames: [shop.example.com, bank.example.com]}") + object(kind, "all", "{parentRefs: [{name: g}]}")
	}
	manifest += object("Gateway", "own", "{gatewayClassName: c, listeners: [{name: a, protocol: HTTP, port: 80, hostname: shop.example.com}]}") +
		object("Gateway", "all", "{gatewayClassName: c, listeners: [{name: a, protocol: HTTP, port: 80}]}") +
		object("ListenerSet", "own", "{parentRef: {name: g}, listeners: [{name: a, protocol: HTTP, port: 80, hostname: shop.example.com}]}") +
		object("ListenerSet", "foreign", "{parentRef: {name: g}, listeners: [{name: a, protocol: HTTP, port: 80, hostname: '*.example.com'}]}") +
		object("TCPRoute", "many", "{parentRefs: [{name: g}]}")
	out, found := admitter(rules()).Admit(world(t, manifest))
	for _, k := range []string{"HTTPRoute", "GRPCRoute", "TLSRoute", "Gateway", "ListenerSet"} {
		kind := api.KindHTTPRoute
		kind.Kind = k
		if out.Len(kind) != 1 || out.Get(kind, "shop", "own") == nil {
			t.Errorf("%d objects of kind %s stand, or others than the tenant's own", out.Len(kind), k)
		}
	}
	if out.Len(api.KindTCPRoute) != 0 {
		t.Error("a TCPRoute beyond the limit stands")
	}
	text := lines(found)
	if strings.Count(text, "CH-POLICY-040") != 9 {
		t.Error(text)
	}
	// The fields of these kinds are known when rules are loaded.
	const head = "# METADATA\n# custom:\n#   match: {kinds: [HTTPRoute.gateway.networking.k8s.io]}\npackage chancery.admission.typo\n\n"
	if _, found = admitter(rules("typo.rego", head+"deny contains \"x\" if input.object.spec.hostname == \"x\"\n")).Admit(world(t, tenant)); !strings.Contains(lines(found), "undefined ref: input.object.spec.hostname") {
		t.Error(lines(found))
	}
}
