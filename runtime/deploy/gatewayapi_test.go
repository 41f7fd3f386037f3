package deploy_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/chancery-gateway/chancery/runtime/command"
	"github.com/chancery-gateway/chancery/runtime/deploy"
	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
	"github.com/chancery-gateway/chancery/snapshot/porttest"
)

const gatewayService = `
{apiVersion: v1, kind: Service, metadata: {name: %[2]s, namespace: %[1]s}, spec: {ports: [{name: http, port: 80, targetPort: %[4]d}]}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: %[2]s, namespace: %[1]s, labels: {kubernetes.io/service-name: %[2]s}}, addressType: IPv4, ports: [{name: http, port: %[4]d}], endpoints: [{addresses: [%[3]s]}]}
---
`

const oneGateway = `
{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: %[2]s, namespace: %[1]s}, spec: {gatewayClassName: %[1]s, listeners: [{name: http, port: %[3]d, protocol: HTTP}, {name: other, port: %[4]d, protocol: HTTP, hostname: other.example.com}]}}
---
`

const oneHTTPRoute = `
{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: %[2]s, namespace: %[1]s}, spec: {parentRefs: [{name: %[3]s, sectionName: http}], rules: [{matches: [{path: {value: /%[2]s}}], backendRefs: [{name: %[4]s, port: 80}]}]}}
---
`

// The path of Gateway API's objects from the API server to a live route and back to their statuses, under the permissions of
// the install manifest: each Gateway at an address of its own, and what the traffic's Envoy refuses on the Gateway.
func TestGatewayAPI(t *testing.T) {
	c := kubetest.Shared(t)
	client := kubetest.NewClient(t, c.Config())
	client.Apply(string(deploy.CRDs))
	client.Apply(kubetest.GatewayAPI(t))
	manifest, err := deploy.Install(command.Version)
	if err != nil {
		t.Fatal(err)
	}
	client.Apply(string(manifest))
	ns := strings.ToLower(t.Name())
	client.Apply(fmt.Sprintf(`
{apiVersion: v1, kind: Namespace, metadata: {name: %[1]s}}
---
{apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {name: %[1]s}, spec: {controllerName: chancery.dev/gateway-controller}}
`, ns))
	for _, name := range []string{"one", "two"} {
		address, port := backend(t, name)
		client.Apply(fmt.Sprintf(gatewayService, ns, name, address, port))
	}
	p := porttest.Free(t, 3)
	client.Apply(fmt.Sprintf(oneGateway, ns, "first", p[0], p[1]) + fmt.Sprintf(oneGateway, ns, "second", p[0], p[1]) +
		fmt.Sprintf(oneHTTPRoute, ns, "a", "first", "one") + fmt.Sprintf(oneHTTPRoute, ns, "b", "second", "two"))
	config := c.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:chancery:chancery"}
	g := entrypoint(t, config, p[0], "--namespace", "chancery", "--gateway-addresses", "127.88.0.0/16")
	g.ready()

	status := func(kind, name string) map[string]any {
		o := &unstructured.Unstructured{}
		o.SetAPIVersion("gateway.networking.k8s.io/v1")
		o.SetKind(kind)
		o.SetNamespace(ns)
		got, err := client.Of(o).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s, _ := got.Object["status"].(map[string]any)
		return s
	}
	// says waits until a condition of the entry that the path leads to begins so: "True Accepted 1".
	says := func(kind, name, condition, want string, path ...string) {
		t.Helper()
		got := ""
		defer func() {
			if t.Failed() {
				t.Logf("%s of %s %s is %q in %v", condition, kind, name, got, status(kind, name))
			}
		}()
		kubetest.Eventually(t, 60*time.Second, fmt.Sprintf("%s of %s %s %v is %s", condition, kind, name, path, want), func(context.Context) bool {
			entry := status(kind, name)
			if len(path) > 0 {
				list, _, _ := unstructured.NestedSlice(entry, path[0])
				i, err := strconv.Atoi(path[1])
				if err != nil || i >= len(list) {
					return false
				}
				entry, _ = list[i].(map[string]any)
			}
			list, _, _ := unstructured.NestedSlice(entry, "conditions")
			for _, each := range list {
				if m := each.(map[string]any); m["type"] == condition {
					got = fmt.Sprint(m["status"], " ", m["reason"], " ", m["observedGeneration"], " ", m["message"])
				}
			}
			return strings.HasPrefix(got, want)
		})
	}
	address := func(name string) string {
		list, _, _ := unstructured.NestedSlice(status("Gateway", name), "addresses")
		if len(list) != 1 {
			t.Fatalf("Gateway %s has the addresses %v", name, list)
		}
		return fmt.Sprint(list[0].(map[string]any)["value"])
	}
	answers := func(at string, port int, path, want string) {
		t.Helper()
		got := ""
		defer func() {
			if t.Failed() {
				t.Logf("the answer is %q", got)
			}
		}()
		kubetest.Eventually(t, 30*time.Second, fmt.Sprintf("%s:%d%s is answered %s", at, port, path, want), func(context.Context) bool {
			r, err := http.Get(fmt.Sprintf("http://%s:%d%s", at, port, path))
			if err != nil {
				got = err.Error()
				return false
			}
			defer r.Body.Close()
			body, err := io.ReadAll(r.Body)
			got = fmt.Sprint(r.StatusCode, " ", string(body))
			return err == nil && strings.HasPrefix(got, want)
		})
	}
	says("GatewayClass", ns, "Accepted", "True Accepted 1")
	for _, name := range []string{"first", "second"} {
		says("Gateway", name, "Programmed", "True Programmed 1")
		says("Gateway", name, "Programmed", "True Programmed 1", "listeners", "1")
	}
	first, second := address("first"), address("second")
	if first == second {
		t.Errorf("both Gateways are at %s", first)
	}
	says("HTTPRoute", "a", "Accepted", "True Accepted 1", "parents", "0")
	says("HTTPRoute", "b", "ResolvedRefs", "True ResolvedRefs 1", "parents", "0")
	answers(first, p[0], "/a", "200 one /a")
	answers(second, p[0], "/b", "200 two /b")
	answers(first, p[0], "/b", "404")

	t.Run("what Envoy refuses", func(t *testing.T) {
		taken, err := net.Listen("tcp", net.JoinHostPort(first, strconv.Itoa(p[2])))
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close()
		client.Apply(fmt.Sprintf(oneGateway, ns, "first", p[0], p[2]))
		says("Gateway", "first", "Programmed", "False RefusedByEnvoy 2")
		says("Gateway", "second", "Programmed", "True Programmed 1")
		answers(first, p[0], "/a", "200 one /a")
		client.Apply(fmt.Sprintf(oneGateway, ns, "first", p[0], p[1]))
		says("Gateway", "first", "Programmed", "True Programmed 3")
	})
	t.Run("a backend with TLS", func(t *testing.T) {
		trusted, at, port := secureBackend(t, "backend.example.com")
		other, _, _ := secureBackend(t, "backend.example.com")
		authority := func(pem string) {
			text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "ca", "namespace": ns}, "data": map[string]any{"ca.crt": pem}})
			if err != nil {
				t.Fatal(err)
			}
			client.Apply(string(text))
		}
		authority(other)
		client.Apply(fmt.Sprintf(gatewayService, ns, "secure", at, port) + fmt.Sprintf(oneHTTPRoute, ns, "tls", "second", "secure") + fmt.Sprintf(`
{apiVersion: gateway.networking.k8s.io/v1, kind: BackendTLSPolicy, metadata: {name: p, namespace: %s}, spec: {targetRefs: [{group: "", kind: Service, name: secure}], validation: {hostname: backend.example.com, caCertificateRefs: [{group: "", kind: ConfigMap, name: ca}]}}}
`, ns))
		says("BackendTLSPolicy", "p", "Accepted", "True Accepted 1", "ancestors", "0")
		says("HTTPRoute", "tls", "Accepted", "True Accepted 1", "parents", "0")
		answers(second, p[0], "/tls", "503") // by the wrong authority, not in clear text
		authority(trusted)
		answers(second, p[0], "/tls", "200 over TLS for backend.example.com")
	})
	t.Run("a route that goes", func(t *testing.T) {
		client.Delete(fmt.Sprintf(oneHTTPRoute, ns, "a", "first", "one"))
		answers(first, p[0], "/a", "404")
		kubetest.Eventually(t, 30*time.Second, "nothing is attached", func(context.Context) bool {
			list, _, _ := unstructured.NestedSlice(status("Gateway", "first"), "listeners")
			return len(list) == 2 && fmt.Sprint(list[0].(map[string]any)["attachedRoutes"]) == "0"
		})
	})
	for _, word := range []string{"CH-KUBE", "forbidden", "cannot be written"} {
		if log := g.log.String(); strings.Contains(log, word) {
			t.Errorf("the log speaks of %q", word)
		}
	}
}

// secureBackend answers over TLS with a certificate for the name, which is its own authority, on the machine's own address.
func secureBackend(t testing.TB, name string) (authority, address string, port int) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	address = ownAddress(t)
	l, err := tls.Listen("tcp", net.JoinHostPort(address, "0"), &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{ErrorLog: log.New(io.Discard, "", 0), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "over TLS for %s", r.TLS.ServerName)
	})}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), address, l.Addr().(*net.TCPAddr).Port
}
