package status_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	policy "github.com/chancery-gateway/chancery/policies/api"
	"github.com/chancery-gateway/chancery/runtime/proof"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
)

// specimens are one object of each kind beside Mapping and Host.
const specimens = `
{apiVersion: getambassador.io/v3alpha1, kind: Listener, metadata: {name: x}, spec: {port: 8080, protocol: HTTP, securityModel: XFP, hostBinding: {namespace: {from: ALL}}}}
---
{apiVersion: getambassador.io/v2, kind: Module, metadata: {name: ambassador}, spec: {config: {}}}
---
{apiVersion: getambassador.io/v3alpha1, kind: AuthService, metadata: {name: x}, spec: {auth_service: "s:80", proto: http}}
---
{apiVersion: getambassador.io/v2, kind: TLSContext, metadata: {name: x}, spec: {hosts: [a.example.com], secret: s}}
---
{apiVersion: getambassador.io/v2, kind: TCPMapping, metadata: {name: x}, spec: {port: 9000, service: "s:80"}}
---
{apiVersion: getambassador.io/v3alpha1, kind: RateLimitService, metadata: {name: x}, spec: {service: "s:80", protocol_version: v3}}
---
{apiVersion: getambassador.io/v3alpha1, kind: LogService, metadata: {name: x}, spec: {service: "s:80", driver: tcp, driver_config: {}, grpc: true}}
---
{apiVersion: getambassador.io/v3alpha1, kind: TracingService, metadata: {name: x}, spec: {service: "s:80", driver: zipkin}}
---
{apiVersion: getambassador.io/v3alpha1, kind: DevPortal, metadata: {name: x}, spec: {default: true}}
---
{apiVersion: getambassador.io/v3alpha1, kind: ConsulResolver, metadata: {name: x}, spec: {address: "consul:8500", datacenter: dc}}
---
{apiVersion: getambassador.io/v3alpha1, kind: KubernetesEndpointResolver, metadata: {name: x}, spec: {}}
---
{apiVersion: getambassador.io/v3alpha1, kind: KubernetesServiceResolver, metadata: {name: x}, spec: {}}
---
{apiVersion: chancery.dev/v1alpha1, kind: Policy, metadata: {name: x}, spec: {library: default_timeout}}
---
{apiVersion: chancery.dev/v1alpha1, kind: PolicyException, metadata: {name: x}, spec: {policy: x, target: {kind: Mapping, name: m}, owner: me, reason: it is needed, expires: "2099-01-01T00:00:00Z"}}
`

func TestEveryKindIsToldOnce(t *testing.T) {
	c, client, ns := bed(t)
	crds, err := policy.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	client.Apply(string(crds))
	all := kubetest.Objects(t, []byte(specimens))
	for _, o := range all {
		o.SetNamespace(ns)
		if _, err := client.TryApply(o); err != nil {
			t.Fatalf("%s: %v", o.GetKind(), err)
		}
	}
	r := start(t, c, ns, "one")
	read := func(o *unstructured.Unstructured) map[string]any {
		got, err := client.Of(o).Get(t.Context(), o.GetName(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s, _ := got.Object["status"].(map[string]any)
		return s
	}
	for _, o := range all {
		kubetest.Eventually(t, patience, o.GetKind()+" is told", func(context.Context) bool {
			return strings.HasPrefix(condition(read(o), "Programmed"), "True Programmed 1")
		})
	}
	kubetest.Eventually(t, patience, "each is written once", func(context.Context) bool { return r.Writes() == int64(len(all)) })
	bad := all[3]
	r.more <- []snapshot.Diagnostic{{Severity: snapshot.Error, Code: proof.NotAccepted, Message: "Envoy's own words",
		Object: snapshot.Ref{Group: snapshot.EmissaryGroup, Kind: bad.GetKind(), Namespace: ns, Name: bad.GetName()}}}
	took := kubetest.Eventually(t, patience, "a refusal is told", func(context.Context) bool {
		return strings.HasPrefix(condition(read(bad), "Programmed"), "False RefusedByEnvoy")
	})
	t.Logf("a refusal is on the %s after %s", bad.GetKind(), took)
	if n := r.Writes(); n != int64(len(all))+1 {
		t.Errorf("%d writes for %d objects and one change", n, len(all))
	}
}

// Ingresses show the addresses of the Service with our label, whatever its name; what says the same is not written (B118).
func TestIngressesAreGivenTheAddressesOfTheService(t *testing.T) {
	c, client, ns := bed(t)
	client.Apply(fmt.Sprintf(`
{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: ours, annotations: {getambassador.io/ambassador-id: edge}}, spec: {controller: getambassador.io/ingress-controller}}
---
{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: theirs}, spec: {controller: example.com/controller}}
---
{apiVersion: v1, kind: Service, metadata: {name: edge, namespace: %[1]s, labels: {app.kubernetes.io/component: ambassador-service}}, spec: {type: LoadBalancer, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: ambassador, namespace: %[1]s}, spec: {type: LoadBalancer, ports: [{port: 80}]}}
`, ns))
	ingress := func(name, meta, spec string) *unstructured.Unstructured {
		return kubetest.Objects(t, fmt.Appendf(nil, `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: %[1]s, namespace: %s%s}, spec: {%srules: [{host: %[1]s.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: s, port: {number: 80}}}}]}}]}}`, name, ns, meta, spec))[0]
	}
	annotated := ingress("annotated", `, annotations: {kubernetes.io/ingress.class: ambassador, getambassador.io/ambassador-id: edge}`, "")
	classed := ingress("classed", `, annotations: {getambassador.io/ambassador-id: edge}`, "ingressClassName: ours, ")
	foreign := ingress("foreign", `, annotations: {getambassador.io/ambassador-id: edge}`, "ingressClassName: theirs, ")
	other := ingress("other", `, annotations: {kubernetes.io/ingress.class: ambassador, getambassador.io/ambassador-id: default}`, "")
	for _, o := range []*unstructured.Unstructured{annotated, classed, foreign, other} {
		if _, err := client.TryApply(o); err != nil {
			t.Fatal(err)
		}
	}
	balance := func(name, entries string) {
		o := kubetest.Objects(t, fmt.Appendf(nil, `{apiVersion: v1, kind: Service, metadata: {name: %s, namespace: %s}, status: {loadBalancer: {ingress: [%s]}}}`, name, ns, entries))[0]
		if err := client.PatchStatus(o); err != nil {
			t.Fatal(err)
		}
	}
	entries := func(o *unstructured.Unstructured) string {
		got, err := client.Of(o).Get(t.Context(), o.GetName(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		list, _, _ := unstructured.NestedSlice(got.Object, "status", "loadBalancer", "ingress")
		text, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	balance("ambassador", `{ip: 192.0.2.9}`) // a name makes no Service ours
	foreign.Object["status"] = map[string]any{"loadBalancer": map[string]any{"ingress": []any{map[string]any{"ip": "192.0.2.7"}}}}
	if err := client.PatchStatus(foreign); err != nil {
		t.Fatal(err)
	}
	// All namespaces are watched: IngressClasses belong to none.
	r := startFor(t, c, "edge", "", ns, "one")
	kubetest.Eventually(t, patience, "a leader", func(context.Context) bool { return r.Leading() })
	time.Sleep(time.Second)
	if n := r.Writes(); n != 0 {
		t.Errorf("%d writes while the Service has no address", n)
	}
	for i, addresses := range []string{`{ip: 192.0.2.1}, {hostname: edge.example.com}`, `{ip: 192.0.2.2}`} {
		balance("edge", addresses)
		want := []string{`[{"ip":"192.0.2.1"},{"hostname":"edge.example.com"}]`, `[{"ip":"192.0.2.2"}]`}[i]
		for _, o := range []*unstructured.Unstructured{annotated, classed} {
			took := kubetest.Eventually(t, patience, o.GetName()+" has the addresses", func(context.Context) bool { return entries(o) == want })
			t.Logf("%s has the addresses after %s", o.GetName(), took)
		}
		if n := r.Writes(); n != int64(2*(i+1)) {
			t.Errorf("%d writes for two Ingresses and %d changes", n, i+1)
		}
	}
	// What is not served any more is told so, once.
	classed.Object["spec"] = map[string]any{"ingressClassName": "ours", "rules": []any{map[string]any{"host": "a.example.com"}}}
	if _, err := client.TryApply(classed); err != nil {
		t.Fatal(err)
	}
	kubetest.Eventually(t, 30*time.Second, "an Ingress without routes has no addresses", func(context.Context) bool { return entries(classed) == "null" || entries(classed) == "[]" })
	if n := r.Writes(); n != 5 {
		t.Errorf("%d writes for two Ingresses, two changes and one that is served no more", n)
	}
	if is := entries(foreign); is != `[{"ip":"192.0.2.7"}]` {
		t.Errorf("the Ingress of another controller has %s", is)
	}
	if is := entries(other); is != "null" {
		t.Errorf("the Ingress of another installation has %s", is)
	}
}

func TestKindsWithoutNamespaceAreTold(t *testing.T) {
	c, client, ns := bed(t)
	definitions, err := policy.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	client.Apply(string(definitions))
	tenant := kubetest.Objects(t, fmt.Appendf(nil, "{apiVersion: chancery.dev/v1alpha1, kind: Tenant, metadata: {name: %[1]s}, spec: {owner: me, namespaces: [%[1]s]}}", ns))[0]
	if _, err := client.TryApply(tenant); err != nil {
		t.Fatal(err)
	}
	startFor(t, c, "tenants", "", ns, "one")
	kubetest.Eventually(t, patience, "the Tenant is told", func(context.Context) bool {
		got, err := client.Of(tenant).Get(t.Context(), ns, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s, _ := got.Object["status"].(map[string]any)
		return strings.HasPrefix(condition(s, "Programmed"), "True Programmed 1")
	})
}
