package ingress_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/translators/emissary"
	"github.com/chancery-gateway/chancery/translators/ingress"
	"github.com/chancery-gateway/chancery/translators/ir"
)

func object(t testing.TB, text string) *snapshot.Object {
	t.Helper()
	var doc map[string]any
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	o, ds := api.Decode(raw, snapshot.Source{}, nil)
	if o == nil {
		t.Fatal(ds)
	}
	return o
}

// annotated is an Ingress of the namespace app with this spec.
func annotated(t testing.TB, spec string) *snapshot.Object {
	t.Helper()
	return object(t, fmt.Sprintf("{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: shop, namespace: app, labels: {team: red}, annotations: {kubernetes.io/ingress.class: ambassador}}, spec: %s}", spec))
}

// lower lowers an Ingress beside other objects and a Listener.
func lower(t testing.TB, o emissary.Options, in *snapshot.Object, beside ...string) *ir.Fragments {
	t.Helper()
	objects := []*snapshot.Object{in, object(t, "{apiVersion: getambassador.io/v3alpha1, kind: Listener, metadata: {name: l, namespace: gw}, spec: {port: 80, protocol: HTTP, securityModel: XFP, hostBinding: {namespace: {from: ALL}}}}")}
	for _, text := range beside {
		objects = append(objects, object(t, text))
	}
	return ingress.New(emissary.New(o)).Lower(in, snapshot.NewView(snapshot.Empty().Derive(objects, nil, nil)))
}

const (
	one     = `{rules: [{host: a.example.com, http: {paths: [{path: /a/, pathType: Prefix, backend: {service: {name: web, port: {name: http}}}}]}}], tls: [{hosts: [a.example.com], secretName: none}]}`
	service = `{apiVersion: v1, kind: Service, metadata: {name: web, namespace: app}, spec: {ports: [{name: admin, port: 9000}, {name: http, port: 8080}]}}`
)

// secret is a Secret "none" with a new certificate.
func secret(t testing.TB) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"a.example.com"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, b []byte) string {
		return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	return fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: none, namespace: app}, type: kubernetes.io/tls, data: {tls.crt: %s, tls.key: %s}}", block("CERTIFICATE", der), block("PRIVATE KEY", private))
}

func TestRouteOfARule(t *testing.T) {
	f := lower(t, emissary.Options{Namespace: "gw"}, annotated(t, one), service)
	if len(f.Routes) != 1 || len(f.Clusters) != 1 {
		t.Fatalf("%d routes, %d clusters, %v", len(f.Routes), len(f.Clusters), f.Diagnostics)
	}
	r, c := f.Routes[0], f.Clusters[0]
	if c.Host != "web.app" || c.Port != 8080 || c.Namespace != "app" || c.Service != "web" {
		t.Errorf("cluster %+v", c)
	}
	if r.Route.Name != "app/shop-0-0" || r.Origin.Name != "shop" || r.At != "spec.rules[0].http.paths[0]" || !r.Sole || r.Labels["team"] != "red" {
		t.Errorf("fragment %+v", r)
	}
	if m := r.Route.Match; m.PathKind != ir.PathSegments || m.Path != "/a" || *r.Route.Forward.PrefixRewrite != "/" {
		t.Errorf("%+v %+v", m, r.Route.Forward)
	}
	if o := annotated(t, one); o.Labels["chancery.dev/ingress"] != "" || len(o.Labels) != 1 {
		t.Error("the Ingress' own labels were changed")
	}
	// With an endpoint resolver its endpoints are those of the Service's port.
	f = lower(t, emissary.Options{Namespace: "gw"}, annotated(t, one), service, "{apiVersion: getambassador.io/v3alpha1, kind: Module, metadata: {name: ambassador, namespace: gw}, spec: {config: {resolver: endpoint}}}")
	if len(f.EndpointSets) != 1 || f.EndpointSets[0].Name != "k8s/app/web/8080" {
		t.Errorf("endpoints %+v, %v", f.EndpointSets, f.Diagnostics)
	}
}

func TestWhoseNamespace(t *testing.T) {
	for namespace, ours := range map[string]bool{"app": true, "gw": false} {
		if got := lower(t, emissary.Options{Namespace: namespace, SingleNamespace: true}, annotated(t, one), service) != nil; got != ours {
			t.Errorf("the installation of %s alone: %t", namespace, got)
		}
	}
	// Classes lie in no namespace, so that none is read where one namespace is.
	unknown := object(t, "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: shop, namespace: app}, spec: {ingressClassName: nobody, rules: []}}")
	if f := lower(t, emissary.Options{Namespace: "app", SingleNamespace: true}, unknown); f != nil {
		t.Errorf("a class that cannot be read: %v", f.Diagnostics)
	}
	if f := lower(t, emissary.Options{AmbassadorID: "other"}, annotated(t, one), service); f != nil {
		t.Error("an Ingress of another installation is lowered")
	}
}

// What follows tls is Emissary's Host "<ingress>-<entry>-<host>", with the TLSContext of that name.
func TestHostOfTLS(t *testing.T) {
	f := lower(t, emissary.Options{Namespace: "gw"}, annotated(t, one), service)
	if len(f.Hosts) != 0 || len(f.Diagnostics) != 1 || f.Diagnostics[0].Path != "spec.tls[0].secretName" || f.Diagnostics[0].Object.Kind != "Ingress" || f.Diagnostics[0].Object.Name != "shop" {
		t.Errorf("without the Secret: %d hosts, %v", len(f.Hosts), f.Diagnostics)
	}
	context := `{apiVersion: getambassador.io/v3alpha1, kind: TLSContext, metadata: {name: shop-0-0-context, namespace: app}, spec: {min_tls_version: v1.3, ca_secret: nowhere, hosts: [a.example.com]}}`
	f = lower(t, emissary.Options{Namespace: "gw"}, annotated(t, one), service, context, secret(t))
	if len(f.Hosts) != 0 || !strings.Contains(fmt.Sprint(f.Diagnostics), "nowhere") {
		t.Errorf("with a wrong TLSContext: %d hosts, %v", len(f.Hosts), f.Diagnostics)
	}
	f = lower(t, emissary.Options{Namespace: "gw", LooseLabelSelectors: true}, annotated(t, one), service, strings.Replace(context, "ca_secret: nowhere, ", "", 1), secret(t))
	if len(f.Hosts) != 1 {
		t.Fatal(f.Diagnostics)
	}
	h := f.Hosts[0]
	if h.Domain != "a.example.com" || h.TLS == nil || h.TLS.Params.MinVersion != "1.3" || h.Insecure != ir.InsecureRoute || !h.Shared || !h.SelectAny || h.Origin.Name != "shop" || h.At != "spec.tls[0].hosts[0]" {
		t.Errorf("%+v %+v", h, h.TLS)
	}
	for k, v := range h.Select {
		if f.Routes[0].Labels[k] != v {
			t.Errorf("the host selects %s=%s, the route has %v", k, v, f.Routes[0].Labels)
		}
	}
}

// Whatever a spec holds: no panic, and what cannot be used is told of.
func FuzzIngress(f *testing.F) {
	f.Add(`{"rules":[{"host":"*.example.com","http":{"paths":[{"path":"/a","pathType":"Prefix","backend":{"service":{"name":"web","port":{"number":80}}}}]}}],"defaultBackend":{"resource":{"kind":"x","name":"y"}},"tls":[{"hosts":["a"],"secretName":"s"},{}]}`)
	f.Add(`{"rules":null,"tls":[null],"defaultBackend":{}}`)
	f.Add(`{"rules":[{"http":null},{"http":{"paths":[{}]}},{"host":"*","http":{"paths":[{"path":"//","pathType":"Exact","backend":{"service":{"name":"a b","port":{"name":"http"}}}}]}}]}`)
	f.Add(`{"ingressClassName":7}`)
	f.Fuzz(func(t *testing.T, spec string) {
		o, _ := api.Decode([]byte(`{"apiVersion":"networking.k8s.io/v1","kind":"Ingress","metadata":{"name":"i","namespace":"app","annotations":{"kubernetes.io/ingress.class":"ambassador"}},"spec":`+spec+`}`), snapshot.Source{}, nil)
		if o == nil {
			return
		}
		out := lower(t, emissary.Options{}, o, service)
		groups := map[string]bool{}
		for _, r := range out.Routes {
			if groups[r.Group] {
				t.Errorf("two routes of %s for one match", r.Route.Match.Path)
			}
			groups[r.Group] = true
			if !strings.HasPrefix(r.Route.Match.Path, "/") || (r.Route.Forward == nil) == (r.Route.Direct == nil) {
				t.Errorf("route %+v", r.Route)
			}
			if r.Route.Direct != nil && len(out.Diagnostics) == 0 {
				t.Error("a closed path, and nobody is told why")
			}
		}
	})
}
