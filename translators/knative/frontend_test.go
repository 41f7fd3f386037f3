package knative_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/translators/emissary"
	"github.com/chancery-gateway/chancery/translators/ir"
	"github.com/chancery-gateway/chancery/translators/knative"
	"go.yaml.in/yaml/v3"
)

func object(t testing.TB, text string) *snapshot.Object {
	t.Helper()
	var doc map[string]any
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
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

// lower lowers an Ingress with this metadata and spec, beside a Service with a named port.
func lower(t testing.TB, metadata, spec string) *ir.Fragments {
	t.Helper()
	o := object(t, fmt.Sprintf("{apiVersion: networking.internal.knative.dev/v1alpha1, kind: Ingress, metadata: {name: hello, namespace: app%s}, spec: %s}", metadata, spec))
	service := object(t, "{apiVersion: v1, kind: Service, metadata: {name: named, namespace: app}, spec: {ports: [{name: http2, port: 8012}]}}")
	s := snapshot.Empty().Derive([]*snapshot.Object{o, service}, nil, nil)
	return knative.New(emissary.New(emissary.Options{Namespace: "gw"}), "default").Lower(o, snapshot.NewView(s))
}

const split = `{rules: [{hosts: [a.example.com, hello.app.svc.cluster.local], visibility: ExternalIP, http: {paths: [{path: /p, timeout: 48h, rewriteHost: inner.example.com,
  headers: {Knative-Network-Hash: {exact: h}}, appendHeaders: {x-path: "1", x-both: path}, splits: [
  {serviceName: rev-1, serviceNamespace: other, servicePort: 8080, percent: 90, appendHeaders: {x-both: split, Knative-Serving-Revision: rev-1}},
  {serviceName: rev-2, servicePort: 80, percent: 10}]}]}}]}`

func TestSplitsBecomeRoutes(t *testing.T) {
	f := lower(t, "", split)
	if len(f.Diagnostics) > 0 {
		t.Fatal(f.Diagnostics)
	}
	if len(f.Routes) != 4 || len(f.Clusters) != 2 {
		t.Fatalf("%d routes, %d clusters", len(f.Routes), len(f.Clusters))
	}
	names := map[string]bool{}
	for i, r := range f.Routes {
		names[r.Route.Name] = true
		host, weight, service := []string{"a.example.com", "hello.app.svc.cluster.local"}[i%2], []int{90, 10}[i/2], []string{"rev-1.other", "rev-2.app"}[i/2]
		if r.Hosts.Value != host || *r.Weight != weight || r.Origin.Kind != "Ingress" {
			t.Errorf("route %d: host %s, weight %d, origin %s", i, r.Hosts.Value, *r.Weight, r.Origin.Ref)
		}
		forward := r.Route.Forward
		if forward.TimeoutMillis != 48*3600*1000 || forward.HostRewrite != "inner.example.com" || forward.PrefixRewrite != nil {
			t.Errorf("route %d: %+v", i, forward)
		}
		if r.Route.Match.Path != "/p" || r.Route.Match.PathKind != ir.PathPrefix {
			t.Errorf("route %d: %+v", i, r.Route.Match)
		}
		match, _ := json.Marshal(r.Route.Match.Headers)
		if !strings.Contains(strings.ToLower(string(match)), `"knative-network-hash"`) {
			t.Errorf("route %d: headers %s", i, match)
		}
		added, _ := json.Marshal(r.Route.RequestHeaders.Add)
		want := []string{"split", "path"}[i/2]
		if !strings.Contains(string(added), want) || !strings.Contains(string(added), "x-path") {
			t.Errorf("route %d adds %s", i, added)
		}
		if c := f.Clusters[i/2]; c.Host != service && c.Service+"."+c.Namespace != service {
			t.Errorf("cluster %d is %s %s/%s", i/2, c.Host, c.Namespace, c.Service)
		}
	}
	if len(names) != 4 {
		t.Errorf("routes share names: %v", names)
	}
	// The two shares of one host are of one group, different hosts are not.
	if f.Routes[0].Group != f.Routes[2].Group || f.Routes[0].Group == f.Routes[1].Group {
		t.Error("the splits are not of one group")
	}
}

func TestDefaults(t *testing.T) {
	f := lower(t, "", `{rules: [{hosts: [a.example.com], http: {paths: [{splits: [{serviceName: named, servicePort: http2}]}]}}]}`)
	if len(f.Routes) != 1 || len(f.Diagnostics) > 0 {
		t.Fatal(f.Diagnostics)
	}
	r := f.Routes[0].Route
	if r.Match.Path != "/" || r.Forward.TimeoutMillis != 15000 || f.Routes[0].Weight != nil || f.Clusters[0].Port != 8012 {
		t.Errorf("%+v %+v %+v", r.Match, r.Forward, f.Clusters[0])
	}
}

func TestWhoseIngressesTheyAre(t *testing.T) {
	for metadata, ours := range map[string]bool{
		"": true,
		", annotations: {networking.knative.dev/ingress.class: Ambassador.ingress.networking.knative.dev}":      true,
		", annotations: {networking.knative.dev/ingress.class: kourier.ingress.networking.knative.dev}":         false,
		", annotations: {getambassador.io/ambassador-id: other}":                                                false,
		", annotations: {getambassador.io/ambassador-id: default, networking.knative.dev/ingress.class: other}": false,
	} {
		if got := lower(t, metadata, split) != nil; got != ours {
			t.Errorf("%q: %t", metadata, got)
		}
	}
}

// What is wrong costs the split that it is in, with its address.
func TestWrongIngresses(t *testing.T) {
	for from, c := range map[string]struct{ to, path, text string }{
		"percent: 90":        {"percent: 190", "spec.rules[0].http.paths[0].splits[0].percent", "190 is no share"},
		"timeout: 48h":       {"timeout: soon", "spec.rules[0].http.paths[0].timeout", `"soon" is no time span`},
		"serviceName: rev-1": {`serviceName: ""`, "spec.rules[0].http.paths[0].splits[0].serviceName", "missing"},
		"servicePort: 8080":  {"servicePort: nobody", "spec.rules[0].http.paths[0].splits[0].servicePort", `is named "nobody"`},
		"path: /p":           {"path: [1]", "spec", "cannot unmarshal"},
	} {
		spec := strings.Replace(split, from, c.to, 1)
		f := lower(t, "", spec)
		if len(f.Diagnostics) == 0 || f.Diagnostics[0].Path != c.path || !strings.Contains(f.Diagnostics[0].Message, c.text) || f.Diagnostics[0].Severity != snapshot.Error {
			t.Errorf("%s gives %v", c.to, f.Diagnostics)
		}
	}
	f := lower(t, "", strings.Replace(split, "a.example.com", `"a b"`, 1))
	if len(f.Routes) != 2 || len(f.Diagnostics) == 0 || f.Diagnostics[0].Path != "spec.rules[0].http.paths[0].splits[0]" {
		t.Errorf("%d routes, %v", len(f.Routes), f.Diagnostics)
	}
	f = lower(t, "", `{httpOption: Redirected, tls: [{hosts: [a], secretName: s}], rules: []}`)
	if len(f.Diagnostics) != 2 || f.Diagnostics[0].Code.ID != "CH-KNATIVE-002" || f.Diagnostics[1].Severity != snapshot.Warning {
		t.Errorf("%v", f.Diagnostics)
	}
}
