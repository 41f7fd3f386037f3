package translators_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/ir"
	"github.com/chancery-gateway/chancery/translators/simulator/simtest"
)

// gatewayFrame is a class and a Gateway with one listener.
const gatewayFrame = `{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "gc"}, "spec": {"controllerName": "chancery.dev/gateway-controller"}}
{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "g", "namespace": "a"}, "spec": {"gatewayClassName": "gc", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]}}
`

func gatewayObject(kind, namespace, name, spec string) string {
	return fmt.Sprintf(`{"apiVersion": "gateway.networking.k8s.io/v1", "kind": %q, "metadata": {"name": %q, "namespace": %q}, "spec": {%s}}`+"\n", kind, name, namespace, spec)
}

func serviceJSON(namespace, name string) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Service", "metadata": {"name": %q, "namespace": %q}, "spec": {"ports": [{"port": 80}]}}`+"\n", name, namespace)
}

// statusOf returns the status of an object, which must have one.
func statusOf(t *testing.T, r *translators.Result, kind, namespace, name string) *ir.Status {
	t.Helper()
	i := slices.IndexFunc(r.Statuses, func(s *ir.Status) bool {
		return s.Object.Kind == kind && s.Object.Namespace == namespace && s.Object.Name == name
	})
	if i < 0 {
		t.Fatalf("%s %s/%s has no status", kind, namespace, name)
	}
	return r.Statuses[i]
}

// TestGrantsComeAndGo: a ReferenceGrant opens a way without a touch of the route, and closes it again (B047).
func TestGrantsComeAndGo(t *testing.T) {
	st := tell(t, gatewayFrame+serviceJSON("secure", "vault")+gatewayObject("HTTPRoute", "a", "r", `"parentRefs": [{"name": "g"}], "rules": [{"backendRefs": [{"name": "vault", "namespace": "secure", "port": 80}]}]`))
	const ask = "GET http://x.example.com:80/"
	closed := func(r *translators.Result) {
		t.Helper()
		simtest.Expect(t, r.Program, ask, simtest.Status(500))
		if slices.ContainsFunc(r.Program.Clusters, func(c *ir.Cluster) bool { return c.Service == "vault" }) {
			t.Error("a cluster of the other namespace's Service is there")
		}
		if c := statusOf(t, r, "HTTPRoute", "a", "r").Parents[0].Conditions; c[1].True || c[1].Reason != "RefNotPermitted" {
			t.Errorf("conditions %+v", c)
		}
	}
	closed(st.last)
	grant := gatewayObject("ReferenceGrant", "secure", "g", `"from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "a"}], "to": [{"group": "", "kind": "Service"}]`)
	_, open := st.edit(grant)
	simtest.Expect(t, open.Program, ask, simtest.To("cluster_vault_secure", 100))
	if open.Counts.Lowered != 1 {
		t.Errorf("the grant had %d objects lowered", open.Counts.Lowered)
	}
	if c := statusOf(t, open, "HTTPRoute", "a", "r").Parents[0].Conditions; !c[1].True {
		t.Errorf("conditions %+v", c)
	}
	_, again := st.edit("", snapshot.Ref{Group: "gateway.networking.k8s.io", Kind: "ReferenceGrant", Namespace: "secure", Name: "g"})
	closed(again)
}

// TestReadyEndpointChangesEDSAlone: a Service without ready endpoints is in order, and one that turns ready changes nothing but
// its endpoints (B049); a Service that comes later is taken up.
func TestReadyEndpointChangesEDSAlone(t *testing.T) {
	slice := func(ready bool) string {
		return fmt.Sprintf(`{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "s-1", "namespace": "a", "labels": {"kubernetes.io/service-name": "s"}}, "addressType": "IPv4", "ports": [{"port": 8080}],
"endpoints": [{"addresses": ["10.0.0.5"], "conditions": {"ready": %t}}]}`, ready)
	}
	st := tell(t, gatewayFrame+gatewayObject("HTTPRoute", "a", "r", `"parentRefs": [{"name": "g"}], "rules": [{"backendRefs": [{"name": "s", "port": 80}]}]`))
	simtest.Expect(t, st.last.Program, "GET http://x.example.com:80/", simtest.Status(500))
	st.edit(serviceJSON("a", "s") + slice(false))
	before, after := st.edit(slice(true))
	for kind, rs := range after.Resources {
		for i, r := range rs {
			if same := before.Resources[kind][i] == r; same == (kind == ir.TypeEndpoint) {
				t.Errorf("%s %s: unchanged is %t", kind, r.Name, same)
			}
		}
	}
	if !slices.Equal(before.Statuses, after.Statuses) {
		t.Error("statuses were made anew")
	}
}

// TestAttachedRoutesAreCounted: by route and listener, while routes come, change and go; nobody else's status is made anew.
func TestAttachedRoutesAreCounted(t *testing.T) {
	st := tell(t, gatewayFrame+serviceJSON("a", "s")+gatewayObject("Gateway", "a", "other", `"gatewayClassName": "gc", "listeners": [{"name": "http", "port": 81, "protocol": "HTTP"}]`))
	want := func(r *translators.Result, n int32) {
		t.Helper()
		if got := statusOf(t, r, "Gateway", "a", "g").Listeners[0].AttachedRoutes; got != n {
			t.Errorf("%d routes are attached, not %d", got, n)
		}
	}
	route := func(name, hostname string) string {
		return gatewayObject("HTTPRoute", "a", name, `"parentRefs": [{"name": "g"}, {"name": "g", "sectionName": "http"}], "hostnames": ["`+hostname+`"], "rules": [{"backendRefs": [{"name": "s", "port": 80}]}]`)
	}
	before, after := st.edit(route("one", "one.example.com") + route("two", "two.example.com"))
	want(after, 2)
	if statusOf(t, before, "Gateway", "a", "other") != statusOf(t, after, "Gateway", "a", "other") {
		t.Error("the status of a Gateway without routes was made anew")
	}
	before, after = st.edit(route("one", "changed.example.com"))
	want(after, 2)
	if statusOf(t, before, "Gateway", "a", "g") != statusOf(t, after, "Gateway", "a", "g") {
		t.Error("the Gateway's status says the same and was made anew")
	}
	_, after = st.edit("", snapshot.Ref{Group: "gateway.networking.k8s.io", Kind: "HTTPRoute", Namespace: "a", Name: "one"})
	want(after, 1)
	_, after = st.edit("", snapshot.Ref{Group: "gateway.networking.k8s.io", Kind: "GatewayClass", Name: "gc"})
	if len(after.Statuses) != 0 || len(after.Program.Listeners) != 0 {
		t.Errorf("without the class there are %d statuses and %d listeners", len(after.Statuses), len(after.Program.Listeners))
	}
}

// TestWorkOfOneHTTPRoute: the same work for one change among 50 routes with hostnames of their own and among 1,000.
func TestWorkOfOneHTTPRoute(t *testing.T) {
	var counts []translators.Counts
	for _, n := range []int{50, 1000} {
		route := func(i int, path string) string {
			return gatewayObject("HTTPRoute", "a", fmt.Sprintf("r%d", i), fmt.Sprintf(`"parentRefs": [{"name": "g"}], "hostnames": ["h%d.example.com"], "rules": [{"matches": [{"path": {"value": %q}}], "backendRefs": [{"name": "s", "port": 80}]}]`, i, path))
		}
		input := gatewayFrame + serviceJSON("a", "s")
		for i := range n {
			input += route(i, "/")
		}
		c := newCompiler()
		s := load(t, "in.json", input)
		c.Compile(s)
		objects, _ := parse(t, "in.json", route(7, "/changed"))
		r := c.Compile(s.Derive(objects, nil, nil))
		r.Counts.Objects = 0
		counts = append(counts, r.Counts)
	}
	if counts[0] != counts[1] || counts[0].Lowered != 1 || counts[0].Linked != 1 {
		t.Errorf("work of one change: %+v among 50, %+v among 1,000", counts[0], counts[1])
	}
}

// TestListenersSurviveRouteEdits: no edit of a route or certificate touches the listener resource.
func TestListenersSurviveRouteEdits(t *testing.T) {
	st := tell(t, gatewayFrame+serviceJSON("a", "s")+
		gatewayObject("Gateway", "a", "s", `"gatewayClassName": "gc", "listeners": [{"name": "https", "port": 443, "protocol": "HTTPS", "hostname": "*.example.com", "tls": {"certificateRefs": [{"name": "c"}]}}]`)+
		`{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "c", "namespace": "a"}, "type": "kubernetes.io/tls", "data": {"tls.crt": "$CERT", "tls.key": "$KEY"}}`)
	route := func(hostname string) string {
		return gatewayObject("HTTPRoute", "a", "r", `"parentRefs": [{"name": "g"}, {"name": "s"}], "hostnames": ["`+hostname+`"], "rules": [{"backendRefs": [{"name": "s", "port": 80}]}]`)
	}
	for _, put := range []string{route("one.example.com"), route("two.example.com"),
		`{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "c", "namespace": "a"}, "type": "kubernetes.io/tls", "data": {"tls.crt": "$CERT2", "tls.key": "$KEY2"}}`} {
		before, after := st.edit(put)
		if !slices.Equal(before.Resources[ir.TypeListener], after.Resources[ir.TypeListener]) {
			t.Errorf("a listener changed with %.120s", put)
		}
	}
}
