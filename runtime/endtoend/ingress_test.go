package endtoend

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot/porttest"
)

// ingress is one Ingress of the class "ambassador".
func ingress(name, spec string) string {
	return fmt.Sprintf("apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: %s, namespace: app}\nspec: {ingressClassName: ambassador, %s}\n", name, spec)
}

// service is a Service with the backend behind it.
func service(name string, b *backend) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: %[1]s, namespace: app}\nspec: {ports: [{name: web, port: 80, targetPort: 8080}]}\n---\n"+
		"apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: %[1]s-1, namespace: app, labels: {kubernetes.io/service-name: %[1]s}}\naddressType: IPv4\nports: [{name: web, port: %[2]d}]\nendpoints: [{addresses: [127.0.0.1]}]\n",
		name, b.port)
}

// toService is one path of a rule.
func toService(path, kind, service, port string) string {
	return fmt.Sprintf("{path: %s, pathType: %s, backend: {service: {name: %s, port: {%s}}}}", path, kind, service, port)
}

// TestIngress asks a real Envoy for what Ingresses say: paths, hosts, certificates, what is wrong, and edits while it runs.
func TestIngress(t *testing.T) {
	p := porttest.Free(t, 2)
	clear, secure := p[0], p[1]
	a, b := newBackend(t, "a", nil), newBackend(t, "b", nil)
	ca := newAuthority(t)
	rules := func(last string) string {
		return fmt.Sprintf(`tls: [{hosts: [tls.example.com], secretName: tls}, {hosts: [late.example.com], secretName: late}], rules: [
  {host: tls.example.com, http: {paths: [%s]}}, {host: late.example.com, http: {paths: [%s]}},
  {host: "*.example.com", http: {paths: [%s, %s]}},
  {host: one.example.com, http: {paths: [%s, %s, %s, %s, %s]}}]`,
			toService("/", "Prefix", "a", "name: web"), toService("/", "Prefix", "a", "number: 80"),
			toService("/", "Prefix", "a", "number: 80"), toService("/very/long", "Prefix", "a", "number: 80"),
			toService("/cart", "Exact", "a", "number: 80"), toService("/cart", "Prefix", "b", "number: 80"), toService("/plain", "ImplementationSpecific", "b", "number: 80"),
			toService("/broken", "Prefix", "nowhere", "name: web"), last)
	}
	g := start(t, map[string]string{"all.yaml": join(
		object("Listener", "clear", fmt.Sprintf("port: %d, protocol: HTTP, securityModel: XFP, hostBinding: {namespace: {from: ALL}}", clear)),
		object("Listener", "secure", fmt.Sprintf("port: %d, protocol: HTTPS, securityModel: XFP, hostBinding: {namespace: {from: ALL}}", secure)),
		"apiVersion: getambassador.io/v3alpha1\nkind: Module\nmetadata: {name: ambassador, namespace: default}\nspec: {config: {resolver: endpoint}}\n",
		"apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: ambassador}\nspec: {controller: chancery.dev/ingress-controller}\n",
		service("a", a), service("b", b), ca.secret("tls", "tls.example.com"),
	), "ingress.yaml": ingress("shop", rules(toService("/moving", "Prefix", "a", "number: 80"))),
		"fallback.yaml": ingress("fallback", "defaultBackend: {service: {name: b, port: {number: 80}}}")})

	check := func(name, url, host string, status int, backend, path string) {
		t.Helper()
		got, err := ask(t, "GET", url, host, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got.status != status || got.echo.Backend != backend || got.echo.Path != path {
			t.Errorf("%s: %d from %q at %q, want %d from %q at %q", name, got.status, got.echo.Backend, got.echo.Path, status, backend, path)
		}
	}
	base, over := fmt.Sprintf("http://127.0.0.1:%d", clear), fmt.Sprintf("https://127.0.0.1:%d", secure)
	check("exact", base+"/cart", "one.example.com", 200, "a", "/")
	check("prefix", base+"/cart/x", "one.example.com", 200, "b", "/x")
	check("prefix with a slash", base+"/cart/", "one.example.com", 200, "b", "/")
	check("not an element", base+"/cartoon", "one.example.com", 200, "b", "/cartoon")
	check("a plain prefix", base+"/plainly", "one.example.com", 200, "b", "/ly")
	check("a port that nobody has", base+"/broken/x", "one.example.com", 503, "", "")
	check("a host goes before a wildcard", base+"/very/long", "ONE.example.com", 200, "b", "/very/long")
	check("a wildcard", base+"/very/long", "TWO.example.com", 200, "a", "/")
	check("two labels", base+"/very/long", "a.b.example.com", 200, "b", "/very/long")
	check("no rule", base+"/x", "elsewhere.org", 200, "b", "/x")
	check("TLS", over+"/x", "tls.example.com", 200, "a", "/x")
	check("the same in clear text", base+"/x", "tls.example.com", 200, "a", "/x")
	check("a certificate that is not there yet", base+"/x", "late.example.com", 200, "a", "/x")
	if got, err := ask(t, "GET", over+"/x", "late.example.com", nil); err == nil {
		t.Errorf("TLS without a certificate: %d", got.status)
	}

	g.write("late.yaml", ca.secret("late", "late.example.com"))
	eventually(t, "TLS with the certificate", func() bool {
		got, err := ask(t, "GET", over+"/x", "late.example.com", nil)
		return err == nil && got.status == 200 && got.echo.Backend == "a" && strings.Contains(fmt.Sprint(got.cert.DNSNames), "late.example.com")
	})
	check("before an edit", base+"/moving", "one.example.com", 200, "a", "/")
	g.write("ingress.yaml", ingress("shop", rules(toService("/moving", "Prefix", "b", "number: 80"))))
	eventually(t, "the edit", func() bool {
		got, err := ask(t, "GET", base+"/moving", "one.example.com", nil)
		return err == nil && got.echo.Backend == "b"
	})
	g.remove("ingress.yaml")
	eventually(t, "the rest of it", func() bool {
		got, err := ask(t, "GET", base+"/cart", "one.example.com", nil)
		return err == nil && got.echo.Backend == "b" && got.echo.Path == "/cart"
	})
	eventually(t, "the end of its certificates", func() bool {
		_, err := ask(t, "GET", over+"/x", "tls.example.com", nil)
		return err != nil
	})
}
