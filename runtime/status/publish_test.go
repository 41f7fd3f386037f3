package status_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chancery-gateway/chancery/runtime/status"
	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
)

// A Service that publish-service names and that no load balancer is made for is found at its addresses within the cluster,
// unless it has external ones; one that waits for its load balancer says nothing until that is there (B118).
func TestIngressesOfServicesWithoutLoadBalancer(t *testing.T) {
	c, client, ns := bed(t)
	tens := 1 + beds.Load()%24 // of the addresses, which no earlier run has taken, and which the API server chooses last
	client.Apply(fmt.Sprintf(`
{apiVersion: v1, kind: Service, metadata: {name: within, namespace: %[1]s}, spec: {type: ClusterIP, clusterIP: 10.96.0.%[2]d1, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: node, namespace: %[1]s}, spec: {type: NodePort, clusterIP: 10.96.0.%[2]d2, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: external, namespace: %[1]s}, spec: {type: NodePort, clusterIP: 10.96.0.%[2]d3, externalIPs: [192.0.2.3], ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: pending, namespace: %[1]s}, spec: {type: LoadBalancer, clusterIP: 10.96.0.%[2]d4, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: headless, namespace: %[1]s}, spec: {clusterIP: None, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: labelled, namespace: %[1]s, labels: {app.kubernetes.io/component: ambassador-service}}, spec: {clusterIP: 10.96.0.%[2]d5, ports: [{port: 80}]}}
`, ns, tens))
	for name, x := range map[string]struct{ publish, want string }{
		"within":   {ns + "/within", fmt.Sprintf("[map[ip:10.96.0.%d1]]", tens)},
		"node":     {"node", fmt.Sprintf("[map[ip:10.96.0.%d2]]", tens)},
		"external": {ns + "/external", "[map[ip:192.0.2.3]]"},
		"pending":  {ns + "/pending", "[]"},
		"headless": {ns + "/headless", "[]"},
		"labelled": {"", "[]"}, // nobody said that its addresses are to be published, Emissary's own manifests have the label
	} {
		t.Run(name, func(t *testing.T) {
			o := kubetest.Objects(t, fmt.Appendf(nil, `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: %s, namespace: %s, annotations: {kubernetes.io/ingress.class: ambassador, getambassador.io/ambassador-id: p-%[1]s}}, spec: {defaultBackend: {service: {name: s, port: {number: 80}}}}}`, name, ns))[0]
			if _, err := client.TryApply(o); err != nil {
				t.Fatal(err)
			}
			r := startWith(t, c, ns, status.Options{Config: c.Config(), ID: "p-" + name, Namespace: ns, Identity: name, PublishService: x.publish})
			kubetest.Eventually(t, patience, "a leader", func(context.Context) bool { return r.Leading() })
			is := func() string {
				got, err := client.Of(o).Get(t.Context(), o.GetName(), metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				entries, _, _ := unstructured.NestedSlice(got.Object, "status", "loadBalancer", "ingress")
				return fmt.Sprint(entries)
			}
			if x.want == "[]" {
				time.Sleep(time.Second)
				if got := is(); got != "[]" || r.Writes() != 0 {
					t.Errorf("the Ingress has %s after %d writes", got, r.Writes())
				}
				return
			}
			kubetest.Eventually(t, patience, "the addresses "+x.want, func(context.Context) bool { return is() == x.want })
			if n := r.Writes(); n != 1 {
				t.Errorf("%d writes for one Ingress", n)
			}
		})
	}
}
