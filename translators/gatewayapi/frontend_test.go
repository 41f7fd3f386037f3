package gatewayapi

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/translators/emissary"
	"github.com/chancery-gateway/chancery/translators/ir"
)

func object(t testing.TB, text string) *snapshot.Object {
	t.Helper()
	o, found := api.Decode([]byte(text), snapshot.Source{}, nil)
	if o == nil {
		t.Fatalf("%s: %v", text, found)
	}
	return o
}

func gatewayObject(t testing.TB, kind, namespace, name, spec string) *snapshot.Object {
	t.Helper()
	return object(t, fmt.Sprintf(`{"apiVersion": "gateway.networking.k8s.io/v1", "kind": %q, "metadata": {"name": %q, "namespace": %q}, "spec": {%s}}`, kind, name, namespace, spec))
}

func TestMeet(t *testing.T) {
	for _, c := range []struct{ a, b, want string }{
		{"*", "*", "*"}, {"a.example.com", "*", "a.example.com"}, {"*", "*.example.com", "*.example.com"},
		{"a.example.com", "*.example.com", "a.example.com"}, {"a.b.example.com", "*.example.com", "a.b.example.com"},
		{"*.example.com", "*.b.example.com", "*.b.example.com"}, {"example.com", "*.example.com", ""},
		{"a.example.com", "b.example.com", ""}, {"*.example.org", "*.example.com", ""}, {"aexample.com", "*.example.com", ""},
	} {
		if got := meet(c.a, c.b); got != c.want {
			t.Errorf("%q and %q meet in %q, want %q", c.a, c.b, got, c.want)
		}
		if got := meet(c.b, c.a); got != c.want {
			t.Errorf("%q and %q meet in %q, want %q", c.b, c.a, got, c.want)
		}
	}
}

// TestOrderIsTheSpecifications lists routes in the order in which they must come.
func TestOrderIsTheSpecifications(t *testing.T) {
	at := func(namespace, name string, created int64) *snapshot.Object {
		o := &snapshot.Object{Ref: snapshot.Ref{Kind: "HTTPRoute", Namespace: namespace, Name: name}}
		if created > 0 {
			o.Created = time.Unix(created, 0)
		}
		return o
	}
	o := at("a", "a", 100)
	keys := []string{
		orderKey("long.example.com", &rank{0, 1}, o, 0),
		orderKey("b.example.com", &rank{2, 9}, o, 0),
		orderKey("b.example.com", &rank{1, 20}, o, 0),
		orderKey("b.example.com", &rank{0, 20}, o, 0),
		orderKey("b.example.com", &rank{0, 9, 1}, o, 0),
		orderKey("b.example.com", &rank{0, 9, 0, 2 << 16}, o, 0),
		orderKey("b.example.com", &rank{0, 9, 0, 1<<16 + 1}, o, 0),
		orderKey("b.example.com", &rank{0, 9, 0, 1 << 16}, o, 0),
		orderKey("b.example.com", &rank{0, 9, 0, 0, 1 << 16}, o, 0),
		orderKey("b.example.com", &rank{0, 9}, at("z", "z", 0), 0), // without a time: the oldest
		orderKey("b.example.com", &rank{0, 9}, at("z", "z", 99), 0),
		orderKey("b.example.com", &rank{0, 9}, o, 0, 0),
		orderKey("b.example.com", &rank{0, 9}, o, 0, 1),
		orderKey("b.example.com", &rank{0, 9}, o, 1, 0),
		orderKey("b.example.com", &rank{0, 9}, at("a", "ab", 100), 0),
		orderKey("b.example.com", &rank{0, 9}, at("a", "b", 100), 0),
		orderKey("b.example.com", &rank{0, 9}, at("b", "a", 100), 0),
		orderKey("*.longer.example.com", &rank{2, 99}, o, 0),
		orderKey("*.example.com", &rank{2, 99}, o, 0),
		orderKey("*", &rank{2, 99}, o, 0),
	}
	for i := 1; i < len(keys); i++ {
		if keys[i-1] <= keys[i] {
			t.Errorf("route %d does not come before route %d", i-1, i)
		}
	}
}

// TestGrantsAreForTheirVeryKind: a grant counts for the group, kind and namespace that it names, whoever asks (B131).
func TestGrantsAreForTheirVeryKind(t *testing.T) {
	referrers := []snapshot.Ref{}
	for _, kind := range []string{"Gateway", "ListenerSet", "HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute"} {
		for _, group := range []string{"gateway.networking.k8s.io", "example.com", ""} {
			for _, namespace := range []string{"a", "b"} {
				referrers = append(referrers, snapshot.Ref{Group: group, Kind: kind, Namespace: namespace, Name: "x"})
			}
		}
	}
	for _, allowed := range referrers {
		s := snapshot.Empty().Derive([]*snapshot.Object{gatewayObject(t, "ReferenceGrant", "target", "g",
			fmt.Sprintf(`"from": [{"group": %q, "kind": %q, "namespace": %q}], "to": [{"group": "", "kind": "Service", "name": "s"}, {"group": "", "kind": "Secret"}]`, allowed.Group, allowed.Kind, allowed.Namespace))}, nil, nil)
		for _, asks := range referrers {
			for _, to := range []struct {
				ref  snapshot.Ref
				open bool
			}{
				{snapshot.Ref{Kind: "Service", Namespace: "target", Name: "s"}, true}, {snapshot.Ref{Kind: "Service", Namespace: "target", Name: "other"}, false},
				{snapshot.Ref{Kind: "Secret", Namespace: "target", Name: "any"}, true}, {snapshot.Ref{Kind: "ConfigMap", Namespace: "target", Name: "s"}, false},
				{snapshot.Ref{Group: "example.com", Kind: "Service", Namespace: "target", Name: "s"}, false}, {snapshot.Ref{Kind: "Service", Namespace: "elsewhere", Name: "s"}, false},
			} {
				if got := granted(snapshot.NewView(s), &snapshot.Object{Ref: asks}, to.ref); got != (to.open && asks == allowed) {
					t.Errorf("a grant for %v lets %v name %v: %t", allowed, asks, to.ref, got)
				}
			}
		}
	}
}

// TestAddressesOfTheRange: each Gateway has its own, which none other's coming or going changes but where two want one.
func TestAddressesOfTheRange(t *testing.T) {
	f := New(emissary.New(emissary.Options{}), Options{Addresses: netip.MustParsePrefix("10.246.0.0/24")})
	class := object(t, `{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "gc"}, "spec": {"controllerName": "chancery.dev/gateway-controller"}}`)
	gateway := func(i int, more string) *snapshot.Object {
		o := gatewayObject(t, "Gateway", "a", fmt.Sprintf("g%d", i), `"gatewayClassName": "gc", `+more+`"listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]`)
		o.Created = time.Unix(int64(i+1), 0)
		return o
	}
	objects := []*snapshot.Object{class}
	addresses := func() map[string]string {
		out := map[string]string{}
		s := snapshot.Empty().Derive(objects, nil, nil)
		for ref, g := range f.plan(snapshot.NewView(s)).gateways {
			if len(g.addresses) != 1 {
				t.Fatalf("%v has the addresses %v", ref, g.addresses)
			}
			out[ref.Name] = g.addresses[0]
		}
		return out
	}
	for i := range 200 {
		before := addresses()
		objects = append(objects, gateway(i, ""))
		after := addresses()
		seen := map[string]bool{}
		for name, a := range after {
			ip := netip.MustParseAddr(a)
			if seen[a] || !f.addresses.Contains(ip) || a == "10.246.0.0" || a == "10.246.0.255" {
				t.Fatalf("%s has the address %s", name, a)
			}
			seen[a] = true
			if was := before[name]; was != "" && was != a {
				t.Fatalf("%s moved from %s to %s when g%d came", name, was, a, i)
			}
		}
	}
	// What an older Gateway asks for is given to no other; what one has been given no younger one gets by asking.
	want := addresses()["g0"]
	objects = append(objects, gateway(-100, `"addresses": [{"value": "`+want+`"}], `))
	got := addresses()
	if got["g-100"] != want || got["g0"] == want {
		t.Errorf("%s was asked for; g-100 has %s and g0 %s", want, got["g-100"], got["g0"])
	}
	for _, text := range []string{got["g0"], "::ffff:" + got["g0"]} {
		o := gateway(1000, `"addresses": [{"value": "`+text+`"}], `)
		w := f.plan(snapshot.NewView(snapshot.Empty().Derive(append(slices.Clone(objects), o), nil, nil)))
		if g := w.gateways[o.Ref]; len(g.addresses) != 0 || g.usable.reason != "AddressNotUsable" {
			t.Errorf("g1000 asks for %s, which g0 has: %v %q", text, g.addresses, g.usable.message)
		}
		for ref, g := range w.gateways {
			if ref != o.Ref && g.addresses[0] != got[ref.Name] {
				t.Errorf("%s moved from %s to %s for a younger one that asks", ref.Name, got[ref.Name], g.addresses[0])
			}
		}
	}
	// Outside of the range nothing can be bound, and a full range gives none.
	small := New(emissary.New(emissary.Options{}), Options{Addresses: netip.MustParsePrefix("10.246.0.0/30")})
	objects = []*snapshot.Object{class, gateway(1, ""), gateway(2, ""), gateway(3, ""), gateway(4, `"addresses": [{"value": "192.0.2.1"}], `)}
	w := small.plan(snapshot.NewView(snapshot.Empty().Derive(objects, nil, nil)))
	for name, reason := range map[string]string{"g1": "", "g2": "", "g3": "AddressNotAssigned", "g4": "AddressNotUsable"} {
		g := w.gateways[snapshot.Ref{Group: "gateway.networking.k8s.io", Kind: "Gateway", Namespace: "a", Name: name}]
		if g.usable.reason != reason || (len(g.addresses) == 1) != (reason == "") {
			t.Errorf("%s: %q with the addresses %v", name, g.usable.reason, g.addresses)
		}
	}
}

// TestCertificatesOfManyListeners: listeners are compared by the names of their certificates, which costs one reading of each
// certificate, not one for each pair of listeners; and a reference that cannot be followed hides the certificate from nobody.
func TestCertificatesOfManyListeners(t *testing.T) {
	f := New(emissary.New(emissary.Options{}), Options{})
	objects := []*snapshot.Object{
		object(t, `{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "gc"}, "spec": {"controllerName": "chancery.dev/gateway-controller"}}`),
		gatewayObject(t, "Gateway", "a", "g", `"gatewayClassName": "gc", "allowedListeners": {"namespaces": {"from": "Same"}}, "listeners": [{"name": "odd", "port": 443, "protocol": "HTTPS", "hostname": "odd.example.com", "tls": {"certificateRefs": [{"kind": "ConfigMap", "name": "c0"}]}}]`),
	}
	const sets, each = 12, 8
	for i := range sets {
		cert, key := pair(t, fmt.Sprintf("s%d.example.com", i))
		objects = append(objects, object(t, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "c%d", "namespace": "a"}, "type": "kubernetes.io/tls", "data": {"tls.crt": %q, "tls.key": %q}}`, i, cert, key)))
		var listeners []string
		for j := range each {
			listeners = append(listeners, fmt.Sprintf(`{"name": "l%d", "port": %d, "protocol": "HTTPS", "hostname": "l%d-%d.example.org", "tls": {"certificateRefs": [{"name": "c%d"}]}}`, j, 443+j, i, j, i))
		}
		objects = append(objects, gatewayObject(t, "ListenerSet", "a", fmt.Sprintf("s%d", i), `"parentRef": {"name": "g"}, "listeners": [`+strings.Join(listeners, ", ")+`]`))
	}
	cert, key := pair(t, "S0.example.com") // for a name of another's, in capitals
	objects = append(objects, object(t, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "same", "namespace": "a"}, "type": "kubernetes.io/tls", "data": {"tls.crt": %q, "tls.key": %q}}`, cert, key)),
		gatewayObject(t, "ListenerSet", "a", "same", `"parentRef": {"name": "g"}, "listeners": [{"name": "x", "port": 443, "protocol": "HTTPS", "hostname": "same.example.org", "tls": {"certificateRefs": [{"name": "same"}]}}]`))
	s := snapshot.Empty().Derive(objects, nil, nil)
	overlapping := map[string]bool{}
	for _, o := range objects {
		if o.Kind != "ListenerSet" && o.Kind != "Gateway" {
			continue
		}
		for _, l := range f.Lower(o, snapshot.NewView(s)).Status.Listeners {
			for _, c := range l.Conditions {
				if c.Type == "OverlappingTLSConfig" {
					overlapping[o.Name+"/"+l.Name] = c.Reason == "OverlappingCertificates"
				}
			}
		}
	}
	if len(overlapping) != 2 || !overlapping["s0/l0"] || !overlapping["same/x"] {
		t.Errorf("certificates overlap at %v", overlapping)
	}
	if n := len(f.plan(snapshot.NewView(s)).names); n != sets+1 {
		t.Errorf("%d certificates are known by their names, there are %d", n, sets+1)
	}
}

// TestNumbersAndTextsOfNoAPIServer: manifests of files have passed no API server, so that ranges and characters are checked here.
func TestNumbersAndTextsOfNoAPIServer(t *testing.T) {
	f := New(emissary.New(emissary.Options{}), Options{})
	lower := func(kind, rule string) (routes []*ir.RouteFragment, streams []*ir.TCPRouteFragment, found []snapshot.Diagnostic) {
		o := gatewayObject(t, kind, "a", "r", `"parentRefs": [{"name": "g"}], "rules": [`+rule+`]`)
		s := snapshot.Empty().Derive([]*snapshot.Object{o,
			object(t, `{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "gc"}, "spec": {"controllerName": "chancery.dev/gateway-controller"}}`),
			gatewayObject(t, "Gateway", "a", "g", `"gatewayClassName": "gc", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}, {"name": "tcp", "port": 81, "protocol": "TCP"}]`)}, nil, nil)
		out := f.Lower(o, snapshot.NewView(s))
		return out.Routes, out.TCPRoutes, out.Diagnostics
	}
	for filter, want := range map[string]string{
		`{"type": "RequestRedirect", "requestRedirect": {"port": -1}}`:                     "-1 is no port",
		`{"type": "RequestRedirect", "requestRedirect": {"port": 65536}}`:                  "65536 is no port",
		`{"type": "CORS", "cors": {"allowOrigins": ["*"], "allowHeaders": ["a\r\nb: c"]}}`: "allowHeaders has control characters",
		`{"type": "CORS", "cors": {"allowOrigins": ["*"], "exposeHeaders": ["a\nb"]}}`:     "exposeHeaders has control characters",
		`{"type": "CORS", "cors": {"allowOrigins": ["*"], "allowMethods": ["GET\n"]}}`:     "allowMethods has control characters",
	} {
		routes, _, found := lower("HTTPRoute", `{"filters": [`+filter+`]}`)
		if len(routes) != 1 || routes[0].Route.Direct == nil || routes[0].Route.Direct.Status != 500 {
			t.Errorf("%s: requests are not answered 500", filter)
		}
		if !slices.ContainsFunc(found, func(d snapshot.Diagnostic) bool { return strings.HasPrefix(d.Message, want) }) {
			t.Errorf("%s: %v, want %q", filter, found, want)
		}
	}
	// Shares that lead nowhere are added up without running over: here to 2^32 and a bit.
	refs := strings.TrimSuffix(strings.Repeat(`{"name": "absent", "port": 80, "weight": 1000000}, `, 4295), ", ")
	if _, streams, _ := lower("TCPRoute", `{"backendRefs": [`+refs+`]}`); len(streams) != 1 || len(streams[0].Clusters) != 1 || streams[0].Clusters[0].Weight != math.MaxUint32 {
		t.Errorf("%d streams", len(streams))
	}
}

// pair makes a certificate for a name, and its key, in the form that a Secret has them.
func pair(t testing.TB, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	from := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0)}
	signed, err := x509.CreateCertificate(rand.Reader, from, from, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	coded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	text := func(kind string, b []byte) string {
		return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	return text("CERTIFICATE", signed), text("PRIVATE KEY", coded)
}

func TestOursByAnnotation(t *testing.T) {
	class := func(controller, annotations string) *snapshot.Object {
		return object(t, fmt.Sprintf(`{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "gc", "annotations": {%s}}, "spec": {"controllerName": %q}}`, annotations, controller))
	}
	const mark = `"getambassador.io/ambassador-id": "blue"`
	for _, c := range []struct {
		controller, annotations, id string
		ours                        bool
	}{
		{Controllers[0], "", "default", true}, {Controllers[1], "", "default", true}, {"example.com/other", "", "default", false},
		{Controllers[0], "", "blue", false}, {Controllers[0], mark, "blue", true}, {Controllers[0], mark, "default", false},
	} {
		if got := Ours(class(c.controller, c.annotations), c.id) == c.controller; got != c.ours {
			t.Errorf("%+v: %t", c, got)
		}
	}
}

// FuzzLower: whatever a route or Gateway holds, lowering it ends, says the same twice, and every field that it blames is one.
func FuzzLower(f *testing.F) {
	for _, s := range []string{
		`"parentRefs": [{"name": "g"}], "hostnames": ["a.example.com"], "rules": [{"matches": [{"path": {"type": "RegularExpression", "value": "/("}}], "backendRefs": [{"name": "s", "port": 80, "weight": 3}], "timeouts": {"request": "1s"}}]`,
		`"parentRefs": [{"name": "g", "port": 80}], "rules": [{"filters": [{"type": "RequestRedirect", "requestRedirect": {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/x"}}}]}]`,
		`"gatewayClassName": "gc", "listeners": [{"name": "x", "port": 443, "protocol": "HTTPS", "hostname": "*.a", "tls": {"certificateRefs": [{"name": "c"}]}}], "addresses": [{"value": "::1"}]`,
		`"targetRefs": [{"group": "", "kind": "Service", "name": "s"}], "validation": {"hostname": "h", "wellKnownCACertificates": "System"}`,
	} {
		f.Add(s)
	}
	front := New(emissary.New(emissary.Options{}), Options{})
	base := []*snapshot.Object{
		object(f, `{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "gc"}, "spec": {"controllerName": "chancery.dev/gateway-controller"}}`),
		gatewayObject(f, "Gateway", "a", "g", `"gatewayClassName": "gc", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}, {"name": "tls", "port": 443, "protocol": "TLS", "tls": {"mode": "Passthrough"}}, {"name": "tcp", "port": 5000, "protocol": "TCP"}]`),
		object(f, `{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "a"}, "spec": {"ports": [{"port": 80}]}}`),
	}
	f.Fuzz(func(t *testing.T, spec string) {
		for _, kind := range []string{"HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute", "Gateway", "ListenerSet", "BackendTLSPolicy", "GatewayClass", "ReferenceGrant"} {
			o, _ := api.Decode(fmt.Appendf(nil, `{"apiVersion": "gateway.networking.k8s.io/v1", "kind": %q, "metadata": {"name": "o", "namespace": "a"}, "spec": {%s}}`, kind, spec), snapshot.Source{}, nil)
			if o == nil {
				continue
			}
			s := snapshot.Empty().Derive(append(slices.Clone(base), o), nil, nil)
			one, two := front.Lower(o, snapshot.NewView(s)), front.Lower(o, snapshot.NewView(s))
			if (one == nil) != (two == nil) {
				t.Fatal("lowered once and not twice")
			}
			if one == nil {
				continue
			}
			if !slices.Equal(one.Diagnostics, two.Diagnostics) || len(one.Routes) != len(two.Routes) {
				t.Fatalf("%v and %v", one.Diagnostics, two.Diagnostics)
			}
			for _, d := range one.Diagnostics {
				if d.Object != o.Ref || strings.Contains(d.Path, "..") {
					t.Errorf("finding %v", d)
				}
			}
			seen := map[string]bool{}
			for _, r := range one.Routes {
				if seen[r.Section+r.Group+r.Hosts.Value] {
					t.Errorf("two routes share a group")
				}
				seen[r.Section+r.Group+r.Hosts.Value] = true
				if n := b2i(r.Route.Forward != nil) + b2i(r.Route.Redirect != nil) + b2i(r.Route.Direct != nil); n != 1 {
					t.Errorf("a route with %d actions: %+v", n, r.Route)
				}
			}
		}
	})
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
