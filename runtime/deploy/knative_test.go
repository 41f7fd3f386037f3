package deploy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
)

// knativeIngresses is Knative's own definition as far as it matters here: no schema, and a status of its own.
const knativeIngresses = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ingresses.networking.internal.knative.dev}
spec:
  group: networking.internal.knative.dev
  scope: Namespaced
  names: {kind: Ingress, plural: ingresses, singular: ingress, shortNames: [kingress]}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

const knativeIngress = `
apiVersion: networking.internal.knative.dev/v1alpha1
kind: Ingress
metadata: {name: %[2]s, namespace: %[1]s, annotations: {networking.knative.dev/ingress.class: %[3]s}}
spec:
  rules:
  - hosts: [%[2]s.example.com]
    visibility: ExternalIP
    http:
      paths:
      - splits:
        - {serviceName: one, serviceNamespace: %[1]s, servicePort: 80, percent: %[4]s, appendHeaders: {Knative-Serving-Revision: one}}
        - {serviceName: two, serviceNamespace: %[1]s, servicePort: 80, percent: 50}
`

// The path of a Knative Ingress from the API server to a live route with its shares, and back to the status that Knative
// waits for, under the permissions that the chart gives for it.
func TestKnativeIngress(t *testing.T) {
	c, client, ns, port := bed(t)
	client.Apply(knativeIngresses)
	for _, o := range rendered(t, "edge", ns, "{env: {AMBASSADOR_KNATIVE_SUPPORT: true}, admissionWebhook: {create: false}, ingressClassResource: {enabled: false}, module: {enabled: false}}") {
		if _, err := client.TryApply(o); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"one", "two"} {
		address, backendPort := backend(t, name)
		client.Apply(fmt.Sprintf(`
{apiVersion: v1, kind: Service, metadata: {name: %[2]s, namespace: %[1]s}, spec: {ports: [{name: http, port: 80, targetPort: %[4]d}]}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: %[2]s, namespace: %[1]s, labels: {kubernetes.io/service-name: %[2]s}}, addressType: IPv4, ports: [{name: http, port: %[4]d}], endpoints: [{addresses: [%[3]s]}]}
`, ns, name, address, backendPort))
	}
	client.Apply(fmt.Sprintf("{apiVersion: getambassador.io/v3alpha1, kind: Module, metadata: {name: ambassador, namespace: %s}, spec: {config: {resolver: endpoint}}}", ns))
	client.Apply(fmt.Sprintf(knativeIngress, ns, "ours", "ambassador.ingress.networking.knative.dev", "50"))
	client.Apply(fmt.Sprintf(knativeIngress, ns, "theirs", "kourier.ingress.networking.knative.dev", "50"))
	client.Apply(fmt.Sprintf(knativeIngress, ns, "wrong", "ambassador.ingress.networking.knative.dev", "500"))
	config := c.Config()
	config.Impersonate.UserName = "system:serviceaccount:" + ns + ":edge-chancery"
	client.Allows(config.Impersonate.UserName, "", "watch", "networking.internal.knative.dev", "ingresses")
	client.Allows(config.Impersonate.UserName, ns, "update", "coordination.k8s.io", "leases")
	g := entrypoint(t, config, port, "--namespace", ns, "--knative-support")
	g.ready()
	get := func(host string) (int, string) {
		r, err := http.NewRequest(http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/x", port), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return 0, err.Error()
		}
		return resp.StatusCode, string(body)
	}
	kubetest.Eventually(t, patience, "the Ingress is served", func(context.Context) bool { status, _ := get("ours.example.com"); return status == 200 })
	seen := map[string]int{}
	for range 200 {
		status, body := get("ours.example.com")
		seen[fmt.Sprintf("%d %s", status, body)]++
	}
	if len(seen) != 2 || seen["200 one /x"] < 50 || seen["200 two /x"] < 50 {
		t.Errorf("answers %v, not halves", seen)
	}
	if status, body := get("theirs.example.com"); status != 404 {
		t.Errorf("an Ingress of another class: %d %s", status, body)
	}

	type answer struct {
		Generation int64
		Conditions map[string]string
		Text       string
	}
	status := func(name string) (a answer) {
		u := kubetest.Objects(t, fmt.Appendf(nil, knativeIngress, ns, name, "x", "50"))[0]
		o, err := client.Of(u).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(o.Object["status"])
		if err != nil {
			t.Fatal(err)
		}
		var s struct {
			ObservedGeneration int64
			Conditions         []struct{ Type, Status, Message string }
		}
		if err := json.Unmarshal(text, &s); err != nil {
			t.Fatal(err)
		}
		a = answer{s.ObservedGeneration - o.GetGeneration(), map[string]string{}, string(text)}
		for _, x := range s.Conditions {
			a.Conditions[x.Type] = x.Status
		}
		return a
	}
	is := func(a answer, balancer, network, ready string) bool {
		return a.Generation == 0 && a.Conditions["LoadBalancerReady"] == balancer && a.Conditions["NetworkConfigured"] == network && a.Conditions["Ready"] == ready
	}
	kubetest.Eventually(t, patience, "it is ready", func(context.Context) bool { return is(status("ours"), "True", "True", "True") })
	if a := status("ours"); !strings.Contains(a.Text, `"privateLoadBalancer":{"ingress":[{"domainInternal":"edge-chancery.`+ns+`.svc.cluster.local"}]}`) {
		t.Errorf("status %s", a.Text)
	}
	kubetest.Eventually(t, patience, "the wrong one is not", func(context.Context) bool { return is(status("wrong"), "True", "False", "False") })
	if a := status("wrong"); !strings.Contains(a.Text, "500 is no share") {
		t.Errorf("status %s", a.Text)
	}
	client.Apply(fmt.Sprintf(knativeIngress, ns, "wrong", "ambassador.ingress.networking.knative.dev", "50"))
	kubetest.Eventually(t, patience, "it is right now", func(context.Context) bool { return is(status("wrong"), "True", "True", "True") })
	if a := status("theirs"); a.Text != "null" {
		t.Errorf("status of one that is not ours: %s", a.Text)
	}
	for _, word := range []string{"CH-KUBE", "forbidden", "cannot be written"} {
		if log := g.log.String(); strings.Contains(log, word) {
			t.Errorf("the log speaks of %q", word)
		}
	}
}
