package policies_test

import (
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
)

// Rules about Ingresses are type-checked as those about Emissary's kinds are, and keep an Ingress out.
func TestIngress(t *testing.T) {
	const head = "# METADATA\n# custom:\n#   match: {kinds: [Ingress]}\npackage chancery.admission."
	s := world(t, `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: bad, namespace: x}, spec: {rules: [{host: a.example.com, http: {paths: [{path: /admin, pathType: Prefix, backend: {service: {name: s, port: {number: 80}}}}]}}]}}
---
{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: good, namespace: x}, spec: {rules: [{host: b.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: s, port: {number: 80}}}}]}}]}}
`)
	_, found := admitter(rules("typo.rego", head+"typo\n\ndeny contains \"x\" if input.object.spec.rules[_].http.paths[_].pathtype == \"Exact\"\n")).Admit(s)
	if text := lines(found); !strings.Contains(text, "CH-POLICY-023: undefined ref: input.object.spec.rules[_].http.paths[_].pathtype") || !strings.Contains(text, "pathType") {
		t.Error(text)
	}
	out, found := admitter(rules("admin.rego", head+"admin\n\ndeny contains {\"msg\": \"no admin\", \"path\": sprintf(\"spec.rules[%d].http.paths[%d].path\", [i, j])} if {\n\tstartswith(input.object.spec.rules[i].http.paths[j].path, \"/admin\")\n}\n")).Admit(s)
	if out.Len(snapshot.GroupKind{Group: "networking.k8s.io", Kind: "Ingress"}) != 1 || len(found) != 1 || found[0].Object.Name != "bad" || found[0].Path != "spec.rules[0].http.paths[0].path" {
		t.Error(lines(found))
	}
}
