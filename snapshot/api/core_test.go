package api_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	gateway "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
)

func TestDecodeCoreKinds(t *testing.T) {
	yes := snapshot.Endpoint{Addresses: []string{"10.1.0.3"}, Ready: true, Serving: true, Zone: "eu-1b"}
	tests := []struct {
		name, doc, ref string
		spec           any
	}{
		{"Service", samples["Service"], "Service/shop/quote", &snapshot.Service{Type: "ClusterIP", ClusterIP: "10.0.0.17", Ports: []snapshot.ServicePort{
			{Name: "http", Protocol: "TCP", Port: 80, TargetPort: "8080"}, {Name: "metrics", Protocol: "TCP", Port: 9090, TargetPort: "metrics"}}}},
		{"Service of an external name", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":{"type":"ExternalName","externalName":"example.com","ports":[{"port":1,"targetPort":null}]}}`,
			"Service/default/s", &snapshot.Service{Type: "ExternalName", ExternalName: "example.com", Ports: []snapshot.ServicePort{{Port: 1}}}},
		{"Service with a protocol", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":{"ports":[{"port":1,"appProtocol":"kubernetes.io/h2c"}]}}`,
			"Service/default/s", &snapshot.Service{Ports: []snapshot.ServicePort{{Port: 1, AppProtocol: "kubernetes.io/h2c"}}}},
		{"Service without spec", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":null}`, "Service/default/s", &snapshot.Service{}},
		{"Secret", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","namespace":"n"},"type":"Opaque","data":{"a":"YQ==","b":"Yg==\n","c":null},"stringData":{"a":"over"}}`,
			"Secret/n/s", &snapshot.Secret{Type: "Opaque", Data: map[string][]byte{"a": []byte("over"), "b": []byte("b"), "c": {}}}},
		{"EndpointSlice", samples["EndpointSlice"], "EndpointSlice/shop/quote-x7k2p", &snapshot.EndpointSlice{Service: "quote", AddressType: "IPv4",
			Ports: []snapshot.EndpointPort{{Name: "http", Protocol: "TCP", Port: 8080}},
			Endpoints: []snapshot.Endpoint{
				{Addresses: []string{"10.1.0.1"}, Ready: true, Serving: true, Zone: "eu-1a"},
				{Addresses: []string{"10.1.0.2"}, Serving: true, Terminating: true, Zone: "eu-1b"}, yes}}},
		{"EndpointSlice without conditions", `{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"e"},"endpoints":[{"addresses":["a"]},{"addresses":["b"],"conditions":{"ready":false}}]}`,
			"EndpointSlice/default/e", &snapshot.EndpointSlice{Endpoints: []snapshot.Endpoint{{Addresses: []string{"a"}, Ready: true, Serving: true}, {Addresses: []string{"b"}}}}},
		{"Endpoints", `{"apiVersion":"v1","kind":"Endpoints","metadata":{"name":"e","namespace":"n"},"subsets":[{"addresses":[{"ip":"1.1.1.1","nodeName":"x"}],"notReadyAddresses":[{"ip":"1.1.1.2"}],` +
			`"ports":[{"name":"http","port":80,"protocol":"TCP"}]},{"addresses":[{"ip":"1.1.1.3"}],"ports":[{"name":"http","port":80,"protocol":"TCP"}]}]}`,
			"Endpoints/n/e", &snapshot.EndpointSlice{Service: "e", Ports: []snapshot.EndpointPort{{Name: "http", Protocol: "TCP", Port: 80}}, Endpoints: []snapshot.Endpoint{
				{Addresses: []string{"1.1.1.1"}, Ready: true, Serving: true}, {Addresses: []string{"1.1.1.2"}}, {Addresses: []string{"1.1.1.3"}, Ready: true, Serving: true}}}},
		{"Endpoints without subsets", `{"apiVersion":"v1","kind":"Endpoints","metadata":{"name":"e"}}`, "Endpoints/default/e", &snapshot.EndpointSlice{Service: "e"}},
		{"Namespace", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n","namespace":"x","labels":{"a":"b"}}}`, "Namespace/n", nil},
		{"Ingress", `{"apiVersion":"networking.k8s.io/v1","kind":"Ingress","metadata":{"name":"i"},"spec":{"rules":[]}}`, "Ingress/default/i", nil},
		{"IngressClass", `{"apiVersion":"networking.k8s.io/v1","kind":"IngressClass","metadata":{"name":"i"}}`, "IngressClass/i", nil},
		{"GatewayClass", `{"apiVersion":"gateway.networking.k8s.io/v1","kind":"GatewayClass","metadata":{"name":"g"},"spec":{"controllerName":"example.com/c"}}`, "GatewayClass/g", &gateway.GatewayClassSpec{ControllerName: "example.com/c"}},
		{"HTTPRoute", `{"apiVersion":"gateway.networking.k8s.io/v1beta1","kind":"HTTPRoute","metadata":{"name":"r","namespace":"n"},"spec":{"parentRefs":[{"name":"g"}],"hostnames":["a.example.com"]}}`, "HTTPRoute/n/r",
			&gateway.HTTPRouteSpec{CommonRouteSpec: gateway.CommonRouteSpec{ParentRefs: []gateway.ParentReference{{Name: "g"}}}, Hostnames: []gateway.Hostname{"a.example.com"}}},
		{"TCPRoute without spec", `{"apiVersion":"gateway.networking.k8s.io/v1alpha2","kind":"TCPRoute","metadata":{"name":"r","namespace":"n"}}`, "TCPRoute/n/r", &gateway.TCPRouteSpec{}},
		{"own kind", `{"apiVersion":"chancery.dev/v1alpha1","kind":"Policy","metadata":{"name":"p","namespace":"n"}}`, "Policy/n/p", nil},
		{"unknown kind", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":1}}`, "Deployment/d", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o := decode(t, test.doc)
			if o.Ref.String() != test.ref {
				t.Errorf("got %s, want %s", o.Ref, test.ref)
			}
			if diff := cmp.Diff(test.spec, o.Spec); diff != "" {
				t.Error(diff)
			}
			if (o.Raw == nil) != (o.Kind == "Secret") {
				t.Errorf("Raw is %s", o.Raw)
			}
			if o.Hash == (snapshot.Hash{}) {
				t.Error("no hash")
			}
		})
	}
}

// TestDecodeKeepsTheBody shows that kinds without a type of their own keep all their members.
func TestDecodeKeepsTheBody(t *testing.T) {
	o := decode(t, `{"spec":{"b":1,"a":2},"status":{"x":1},"data":[1],"kind":"Thing","apiVersion":"example.com/v1","metadata":{"name":"t","finalizers":["f"]}}`)
	const want = `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"t"},"data":[1],"spec":{"a":2,"b":1}}`
	if string(o.Raw) != want {
		t.Errorf("got %s, want %s", o.Raw, want)
	}
}

func TestDecodeAll(t *testing.T) {
	doc := []byte(`{"apiVersion":"v1","kind":"Endpoints","metadata":{"name":"e","namespace":"n"},"subsets":[` +
		`{"addresses":[{"ip":"1.1.1.1"}],"ports":[{"port":80}]},{"addresses":[{"ip":"1.1.1.2"}],"ports":[{"port":81}]},{"addresses":[{"ip":"1.1.1.3"}],"ports":[{"port":80}]}]}`)
	objects, found := api.DecodeAll(doc, snapshot.Source{}, nil)
	if len(objects) != 2 || len(found) > 0 {
		t.Fatalf("%v, %v", objects, found)
	}
	ready := func(ip string) snapshot.Endpoint {
		return snapshot.Endpoint{Addresses: []string{ip}, Ready: true, Serving: true}
	}
	want := []*snapshot.EndpointSlice{
		{Service: "e", Ports: []snapshot.EndpointPort{{Port: 80}}, Endpoints: []snapshot.Endpoint{ready("1.1.1.1"), ready("1.1.1.3")}},
		{Service: "e", Ports: []snapshot.EndpointPort{{Port: 81}}, Endpoints: []snapshot.Endpoint{ready("1.1.1.2")}},
	}
	for i, o := range objects {
		if diff := cmp.Diff(want[i], o.Spec); diff != "" {
			t.Error(diff)
		}
	}
	if a, b := objects[0], objects[1]; a.Ref.String() != "Endpoints/n/e" || b.Ref.String() != "Endpoints/n/e/1" || a.Hash == b.Hash {
		t.Errorf("got %v %v and %v %v", a.Ref, a.Hash, b.Ref, b.Hash)
	}
	first, found := api.Decode(doc, snapshot.Source{}, nil)
	wantFound := []string{"warning CH-API-009 Endpoints/n/e subsets[1]: subsets have different ports; only the endpoints of the first count (use EndpointSlices)"}
	if diff := cmp.Diff(wantFound, lines(found)); diff != "" || first.Hash != objects[0].Hash {
		t.Error(diff, first)
	}
}

func TestKinds(t *testing.T) {
	kinds := api.Kinds()
	for i, k := range kinds {
		if !api.Known(k) {
			t.Errorf("%s is listed and not known", k)
		}
		if i > 0 && (snapshot.Ref{Group: kinds[i-1].Group, Kind: kinds[i-1].Kind}).Compare(snapshot.Ref{Group: k.Group, Kind: k.Kind}) >= 0 {
			t.Errorf("%s and %s are out of order", kinds[i-1], k)
		}
	}
	for k, want := range map[snapshot.GroupKind]bool{
		{Group: "getambassador.io", Kind: "Mapping"}: true,
		{Group: "getambassador.io", Kind: "Maping"}:  false,
		{Group: "chancery.dev", Kind: "Policy"}:      true,
		{Group: "apps", Kind: "Deployment"}:          false,
		{Kind: "Secret"}:                             true,
	} {
		if got := api.Known(k); got != want {
			t.Errorf("Known(%s) is %v", k, got)
		}
	}
}

// TestGatewayAPIVersionsAreThoseOfTheDefinitions: what no API server takes is not read from a file either.
func TestGatewayAPIVersionsAreThoseOfTheDefinitions(t *testing.T) {
	for _, c := range []struct{ version, kind, want string }{
		{"v1", "HTTPRoute", ""}, {"v1beta1", "HTTPRoute", ""}, {"v1beta1", "ReferenceGrant", ""}, {"v1alpha2", "TLSRoute", ""}, {"v1alpha3", "TLSRoute", ""},
		{"v2", "HTTPRoute", `HTTPRoute has no version "v2" (use v1 or v1beta1)`},
		{"v1beta1", "GRPCRoute", `GRPCRoute has no version "v1beta1" (use v1 or v1alpha2)`},
		{"v1alpha2", "ListenerSet", `ListenerSet has no version "v1alpha2" (use v1)`},
	} {
		o, found := api.Decode([]byte(`{"apiVersion": "gateway.networking.k8s.io/`+c.version+`", "kind": "`+c.kind+`", "metadata": {"name": "a", "namespace": "n"}, "spec": {}}`), snapshot.Source{}, nil)
		if c.want == "" {
			if o == nil {
				t.Errorf("%s %s: %v", c.kind, c.version, found)
			}
			continue
		}
		if o != nil || len(found) != 1 || found[0].Path != "apiVersion" || found[0].Message+" ("+found[0].Help+")" != c.want {
			t.Errorf("%s %s: object %v, findings %v", c.kind, c.version, o != nil, found)
		}
	}
}
