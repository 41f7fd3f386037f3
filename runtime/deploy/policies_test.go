package deploy_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chancery-gateway/chancery/runtime/command"
	"github.com/chancery-gateway/chancery/runtime/deploy"
	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
)

// TestPoliciesOfTheCluster: Policy, Tenant and PolicyException objects in the API server govern the next compile of a running
// gateway; the definitions are those of the install manifest.
func TestPoliciesOfTheCluster(t *testing.T) {
	c, client, ns, port := bed(t)
	manifest, err := deploy.Install(command.Version)
	if err != nil {
		t.Fatal(err)
	}
	definitions := 0
	for _, o := range kubetest.Objects(t, manifest) {
		if o.GetKind() == "CustomResourceDefinition" {
			definitions++
			client.Apply(asJSON(t, o.Object))
		}
	}
	if definitions < 3 {
		t.Fatalf("the install manifest has %d definitions", definitions)
	}
	address, backendPort := backend(t, "one")
	team := ns + "-team"
	mapping := func(ns, name, fields string) string {
		return fmt.Sprintf("---\n{apiVersion: getambassador.io/v3alpha1, kind: Mapping, metadata: {name: %s, namespace: %s}, spec: {hostname: \"*\", prefix: /%s/, service: \"http://%s:%d\"%s}}\n", name, ns, name, address, backendPort, fields)
	}
	client.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + team + "}}\n" + mapping(ns, "bounded", ", timeout_ms: 1000") + mapping(ns, "endless", "") + mapping(team, "teams", ", timeout_ms: 1000"))
	g := entrypoint(t, c.Config(), port, "--namespace", ns)
	g.ready()
	for _, path := range []string{"/bounded/", "/endless/", "/teams/"} {
		g.answers(path, 200, "one")
	}
	object := func(kind, ns, name, spec string) *unstructured.Unstructured {
		o := kubetest.Objects(t, []byte(fmt.Sprintf("{apiVersion: chancery.dev/v1alpha1, kind: %s, metadata: {name: %s%s}, spec: {%s}}", kind, name, map[bool]string{true: "", false: ", namespace: " + ns}[ns == ""], spec)))[0]
		client.Apply(asJSON(t, o.Object))
		t.Cleanup(func() { client.Of(o).Delete(context.Background(), o.GetName(), metav1.DeleteOptions{}) })
		return o
	}
	timeouts := object("Policy", ns, "timeouts", "library: timeouts_bounded, parameters: {required: true}")
	g.answers("/endless/", 404, "")
	g.answers("/bounded/", 200, "one")
	kubetest.Eventually(t, patience, "the denial is in the Mapping's status", func(context.Context) bool { return state(t, client, "Mapping", ns, "endless") == "Inactive" })
	exception := object("PolicyException", ns, "for-endless", "policy: timeouts, target: {kind: Mapping, namespace: "+ns+", name: endless}, owner: anna, reason: moving, expires: \"2099-01-01T00:00:00Z\"")
	g.answers("/endless/", 200, "one")
	object("Policy", team, "theirs", "match: {kinds: [Mapping]}, rego: \"package chancery.tenants[\\\""+team+"\\\"]\\ndeny contains \\\"closed today\\\" if input.object.spec.prefix == \\\"/teams/\\\"\\n\"")
	if code, _ := g.get("/teams/"); code != 200 {
		t.Errorf("a policy in a namespace of nobody has effect: %d", code)
	}
	object("Tenant", "", team, "owner: bob, namespaces: ["+team+"]")
	g.answers("/teams/", 404, "")
	g.answers("/bounded/", 200, "one")
	object("Policy", ns, "mistyped", "library: tls_floor, enforcment: warn")
	kubetest.Eventually(t, patience, "the misspelt field is told", func(context.Context) bool {
		return strings.Contains(g.log.String(), "Policy has no field spec.enforcment")
	})
	for _, o := range []*unstructured.Unstructured{exception, timeouts} {
		if err := client.Of(o).Delete(t.Context(), o.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		g.answers("/endless/", map[bool]int{true: 404, false: 200}[o == exception], "")
	}
}
