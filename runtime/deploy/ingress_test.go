package deploy_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
	"github.com/chancery-gateway/chancery/snapshot/porttest"
)

// The path of an Ingress from the API server to live routes with TLS, and back to its addresses, under the permissions that
// the chart gives and with the IngressClass that it brings.
func TestIngress(t *testing.T) {
	c, client, ns, port := bed(t)
	secure := porttest.Free(t, 1)[0]
	for _, o := range rendered(t, "edge", ns, fmt.Sprintf("{admissionWebhook: {create: false}, ingressClassResource: {name: %s}, module: {enabled: false}}", ns)) {
		if _, err := client.TryApply(o); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		client.Delete(fmt.Sprintf("{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: %s}}", ns))
	})
	address, backendPort := backend(t, "one")
	crt, key := certificate(t, "tls.example.com")
	client.Apply(fmt.Sprintf(`
{apiVersion: getambassador.io/v3alpha1, kind: Listener, metadata: {name: secure, namespace: %[1]s}, spec: {port: %[2]d, protocol: HTTPS, securityModel: XFP, hostBinding: {namespace: {from: SELF}}}}
---
{apiVersion: getambassador.io/v3alpha1, kind: Module, metadata: {name: ambassador, namespace: %[1]s}, spec: {config: {resolver: endpoint}}}
---
{apiVersion: v1, kind: Service, metadata: {name: one, namespace: %[1]s}, spec: {ports: [{name: http, port: 80, targetPort: %[4]d}]}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: one, namespace: %[1]s, labels: {kubernetes.io/service-name: one}}, addressType: IPv4, ports: [{name: http, port: %[4]d}], endpoints: [{addresses: [%[3]s]}]}
---
{apiVersion: v1, kind: Secret, metadata: {name: tls, namespace: %[1]s}, type: kubernetes.io/tls, stringData: {tls.crt: %[5]q, tls.key: %[6]q}}
`, ns, secure, address, backendPort, crt, key))
	ingress := func(name, class, spec string) *unstructured.Unstructured {
		o := kubetest.Objects(t, fmt.Appendf(nil, `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: %[1]s, namespace: %[2]s}, spec: {ingressClassName: %[3]s, %[4]s}}`, name, ns, class, spec))[0]
		if _, err := client.TryApply(o); err != nil {
			t.Fatal(err)
		}
		return o
	}
	rule := func(host, path string) string {
		return fmt.Sprintf("{host: %s, http: {paths: [{path: %s, pathType: Prefix, backend: {service: {name: one, port: {name: http}}}}]}}", host, path)
	}
	ours := ingress("ours", ns, "tls: [{hosts: [tls.example.com], secretName: tls}], rules: ["+rule("tls.example.com", "/a")+", "+rule("plain.example.com", "/b")+"]")
	theirs := ingress("theirs", "somebody-elses", "rules: ["+rule("theirs.example.com", "/")+"]")
	config := c.Config()
	config.Impersonate.UserName = "system:serviceaccount:" + ns + ":edge-chancery"
	g := entrypoint(t, config, port, "--namespace", ns, "--publish-addresses", "192.0.2.10,edge.example.com")
	g.ready()
	get := func(url, host string) string {
		r, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		tr := &http.Transport{TLSClientConfig: &tls.Config{ServerName: host, InsecureSkipVerify: true}, DisableKeepAlives: true}
		defer tr.CloseIdleConnections()
		resp, err := tr.RoundTrip(r)
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%d %s", resp.StatusCode, body)
	}
	is := func(url, host, want string) {
		t.Helper()
		kubetest.Eventually(t, time.Minute, url+" of "+host+" is answered "+want, func(context.Context) bool { return get(url, host) == want })
	}
	clear, over := fmt.Sprintf("http://127.0.0.1:%d", port), fmt.Sprintf("https://127.0.0.1:%d", secure)
	is(clear+"/b/x", "plain.example.com", "200 one /x")
	is(over+"/a/x", "tls.example.com", "200 one /x")
	is(clear+"/a/x", "tls.example.com", "200 one /x")
	if got := get(clear+"/", "theirs.example.com"); !strings.HasPrefix(got, "404") {
		t.Errorf("an Ingress of another class: %s", got)
	}

	addresses := func(o *unstructured.Unstructured) string {
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
	kubetest.Eventually(t, time.Minute, "its addresses", func(context.Context) bool {
		return addresses(ours) == `[{"ip":"192.0.2.10"},{"hostname":"edge.example.com"}]`
	})
	// It goes to another class: what it said is not served any more.
	ours = ingress("ours", "somebody-elses", "rules: ["+rule("plain.example.com", "/b")+"]")
	kubetest.Eventually(t, time.Minute, "its end", func(context.Context) bool { return strings.HasPrefix(get(clear+"/b/x", "plain.example.com"), "404") })
	if got := addresses(theirs); got != "null" {
		t.Errorf("an Ingress of another class has the addresses %s", got)
	}
	for _, word := range []string{"CH-KUBE", "forbidden", "cannot be written"} {
		if log := g.log.String(); strings.Contains(log, word) {
			t.Errorf("the log speaks of %q", word)
		}
	}
}

// Of Ingresses of our class what is wrong is told before they are stored, as far as the API server does not know it itself; others
// are nobody's business here.
func TestIngressesAtTheDoor(t *testing.T) {
	c, client, ns, port := bed(t)
	_, author := guarded(t, c, client, ns, port)
	try := func(class, spec string) (string, error) {
		return author.try(kubetest.Objects(t, fmt.Appendf(nil, `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: i, namespace: %s, annotations: {kubernetes.io/ingress.class: %s}}, spec: {%s}}`, ns, class, spec))[0])
	}
	const resource = "defaultBackend: {resource: {apiGroup: example.com, kind: Bucket, name: b}}"
	if _, err := try("ambassador", resource); err == nil || !strings.Contains(err.Error(), "spec.defaultBackend.resource") || !strings.Contains(err.Error(), "CH-INGRESS-005") {
		t.Errorf("a resource backend: %v", err)
	}
	if _, err := try("nginx", resource); err != nil {
		t.Errorf("one of another class: %v", err)
	}
	// The Service may come later.
	said, err := try("ambassador", "rules: [{host: a.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: later, port: {name: http}}}}]}}]")
	if err != nil {
		t.Errorf("a Service that is not there yet: %v", err)
	}
	t.Log(said)
	said, err = try("ambassador", "rules: [{host: a.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: later, port: {number: 80}}}}]}}]")
	if err != nil || !strings.Contains(said, "there is no Service "+ns+"/later") {
		t.Errorf("the warning is %q, %v", said, err)
	}
}
