package translators_test

import "fmt"

// gatewayKinds are the kinds of Gateway API, and what they name, that a town has; those of which there should be many stand often.
var gatewayKinds = []string{
	"GatewayClass", "Gateway", "Gateway", "Gateway", "ListenerSet", "HTTPRoute", "HTTPRoute", "HTTPRoute", "HTTPRoute", "HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute",
	"ReferenceGrant", "BackendTLSPolicy", "ConfigMap", "Namespace",
}

const gatewayVersion = "gateway.networking.k8s.io/v1"

// gatewaySpec makes a random body of one of them; version is its apiVersion, name its own where not any will do.
func (t *town) gatewaySpec(kind string) (version, name string, spec fields) {
	version = gatewayVersion
	switch kind {
	case "GatewayClass":
		spec = fields{"controllerName": one(t, "chancery.dev/gateway-controller", "chancery.dev/gateway-controller", "getambassador.io/gateway-controller", "example.com/other")}
		return version, one(t, "gc", "gc", "gc-2"), spec
	case "Gateway":
		spec = fields{"gatewayClassName": one(t, "gc", "gc", "gc", "gc-2", "absent"), "listeners": t.gatewayListeners(3)}
		t.maybe(spec, "addresses", 6, []fields{{"value": "127.0.0.1"}}, []fields{{"value": "127.0.0.1"}, {"value": "127.0.0.2"}}, []fields{{"type": "Hostname", "value": "x.example.com"}})
		t.maybe(spec, "allowedListeners", 2, fields{"namespaces": fields{"from": "All"}}, fields{"namespaces": fields{"from": "Same"}}, fields{"namespaces": t.selector()})
		t.maybe(spec, "tls", 5, fields{"frontend": fields{"default": fields{"validation": fields{"caCertificateRefs": []fields{{"group": "", "kind": "ConfigMap", "name": "configmap-1"}}}}}},
			fields{"backend": fields{"clientCertificateRef": fields{"name": "one"}}})
	case "ListenerSet":
		spec = fields{"parentRef": t.gatewayRef(), "listeners": t.gatewayListeners(2)}
	case "HTTPRoute":
		var rules []fields
		for range 1 + t.rand.IntN(3) {
			rules = append(rules, t.httpRule())
		}
		spec = fields{"parentRefs": t.parentRefs(), "rules": rules}
		t.maybe(spec, "hostnames", 2, []string{"a.example.com"}, []string{"*.example.com", "c.example.org"}, []string{"b.example.com", "a.example.com"})
	case "GRPCRoute":
		rule := fields{"backendRefs": t.backendRefs()}
		t.maybe(rule, "matches", 2, []fields{{"method": fields{"service": "a.B"}}}, []fields{{"method": fields{"method": "C"}}, {"method": fields{"service": "a.B", "method": "C"}}})
		spec = fields{"parentRefs": t.parentRefs(), "rules": []fields{rule}}
		t.maybe(spec, "hostnames", 2, []string{"a.example.com"}, []string{"*.example.com"})
	case "TLSRoute":
		spec = fields{"parentRefs": t.parentRefs(), "rules": []fields{{"backendRefs": t.backendRefs()}}, "hostnames": one(t, []string{"a.example.com"}, []string{"t.example.com", "*.example.org"})}
	case "TCPRoute":
		spec = fields{"parentRefs": t.parentRefs(), "rules": []fields{{"backendRefs": t.backendRefs()}}}
	case "ReferenceGrant":
		spec = fields{"from": []fields{{"group": "gateway.networking.k8s.io", "kind": one(t, "HTTPRoute", "GRPCRoute", "Gateway"), "namespace": one(t, "red", "blue", "default")}},
			"to": []fields{{"group": "", "kind": one(t, "Service", "Service", "Secret")}}}
	case "BackendTLSPolicy":
		spec = fields{"targetRefs": []fields{{"group": "", "kind": "Service", "name": one(t, "one", "two")}},
			"validation": fields{"hostname": "one.example.com", "caCertificateRefs": []fields{{"group": "", "kind": one(t, "ConfigMap", "ConfigMap", "Thing"), "name": "configmap-1"}}}}
	case "ConfigMap":
		return "v1", "configmap-1", fields{"data": fields{"ca.crt": one(t, "$TRUST", "$TRUST", "nonsense")}}
	case "Namespace":
		return "v1", one(t, "red", "blue", "default"), fields{}
	}
	return version, "", spec
}

func (t *town) gatewayRef() fields {
	f := fields{"name": fmt.Sprintf("gateway-%d", t.rand.IntN(4))}
	t.maybe(f, "namespace", 2, "red", "blue", "default")
	return f
}

func (t *town) selector() fields {
	return fields{"from": "Selector", "selector": fields{"matchLabels": fields{"team": one(t, "red", "blue")}}}
}

func (t *town) gatewayListeners(most int) []fields {
	var out []fields
	for i := range 1 + t.rand.IntN(most) {
		l := fields{"name": fmt.Sprintf("l%d", i), "port": one(t, 80, 80, 443, 8443, 9000), "protocol": one(t, "HTTP", "HTTPS", "HTTPS", "TLS", "TCP", "UDP")}
		t.maybe(l, "hostname", 2, "a.example.com", "*.example.com", "t.example.com")
		switch l["protocol"] {
		case "HTTPS":
			l["tls"] = fields{"certificateRefs": one(t, []fields{{"name": "one"}}, []fields{{"name": "one"}, {"name": "two"}}, []fields{{"name": "bad"}}, []fields{{"name": "one", "namespace": "red"}})}
		case "TLS":
			l["tls"] = one(t, fields{"mode": "Passthrough"}, fields{"mode": "Terminate", "certificateRefs": []fields{{"name": "two"}}})
		}
		t.maybe(l, "allowedRoutes", 2, fields{"namespaces": fields{"from": "All"}}, fields{"namespaces": fields{"from": "All"}, "kinds": []fields{{"kind": "HTTPRoute"}, {"kind": "TCPRoute"}}}, fields{"namespaces": t.selector()})
		out = append(out, l)
	}
	return out
}

func (t *town) parentRefs() []fields {
	var out []fields
	for range 1 + t.rand.IntN(2) {
		f := t.gatewayRef()
		if t.rand.IntN(6) == 0 {
			f["kind"], f["name"] = "ListenerSet", fmt.Sprintf("listenerset-%d", t.rand.IntN(4))
		}
		t.maybe(f, "sectionName", 4, "l0", "l1")
		t.maybe(f, "port", 6, 80, 443)
		out = append(out, f)
	}
	return out
}

func (t *town) backendRefs() []fields {
	var out []fields
	for range 1 + t.rand.IntN(2) {
		f := fields{"name": one(t, "one", "two", "three", "absent"), "port": one(t, 80, 80, 8080)}
		t.maybe(f, "namespace", 5, "red", "blue")
		t.maybe(f, "weight", 3, 0, 3)
		out = append(out, f)
	}
	return out
}

func (t *town) httpRule() fields {
	f := fields{"backendRefs": t.backendRefs()}
	if t.rand.IntN(3) > 0 {
		m := fields{"path": fields{"type": one(t, "PathPrefix", "PathPrefix", "Exact", "RegularExpression"), "value": one(t, "/", "/a", "/a/b", "/a/[bc]+")}}
		t.maybe(m, "headers", 3, []fields{{"name": "x-tenant", "value": "a"}}, []fields{{"name": "x-tenant", "value": "[ab]", "type": "RegularExpression"}})
		t.maybe(m, "method", 4, "GET", "POST")
		t.maybe(m, "queryParams", 4, []fields{{"name": "q", "value": "1"}})
		f["matches"] = []fields{m}
	}
	t.maybe(f, "filters", 4,
		[]fields{{"type": "RequestHeaderModifier", "requestHeaderModifier": fields{"set": []fields{{"name": "x-a", "value": "100%"}}, "remove": []string{"x-b"}}}},
		[]fields{{"type": "RequestRedirect", "requestRedirect": fields{"scheme": "https", "statusCode": 301}}},
		[]fields{{"type": "URLRewrite", "urlRewrite": fields{"hostname": "r.example.com", "path": fields{"type": "ReplacePrefixMatch", "replacePrefixMatch": "/new"}}}},
		[]fields{{"type": "RequestMirror", "requestMirror": fields{"backendRef": fields{"name": "three", "port": 80}, "percent": 20}}},
		[]fields{{"type": "ExtensionRef", "extensionRef": fields{"group": "example.com", "kind": "Thing", "name": "x"}}})
	t.maybe(f, "timeouts", 5, fields{"request": "10s"}, fields{"request": "10s", "backendRequest": "2s"})
	t.maybe(f, "retry", 6, fields{"codes": []int{503}, "attempts": 2})
	return f
}

// badGatewayObjects are further badObjects.
var badGatewayObjects = []string{
	`{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "bad", "namespace": "red"}, "spec": {"parentRefs": [{"name": "gateway-1"}, {"name": "absent"}], "rules": [{"matches": [{"path": {"type": "RegularExpression", "value": "/bad/["}}]}]}}`,
	`{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "bad", "namespace": "red"}, "spec": {"parentRefs": [{"name": "gateway-1"}, {"name": "absent"}], "hostnames": ["bad.example.com"], "rules": [{"matches": [{"path": {"value": "no-slash"}}]}]}}`,
	`{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "bad", "namespace": "red"}, "spec": {"parentRefs": [{"name": "gateway-1", "sectionName": "absent"}, {"name": "absent"}], "rules": [{"backendRefs": [{"name": "one", "port": 80}]}]}}`,
	`{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "bad", "namespace": "red"}, "spec": {"rules": "none"}}`,
	`{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "TCPRoute", "metadata": {"name": "bad", "namespace": "red"}, "spec": {"parentRefs": [{"name": "absent"}], "rules": [{"backendRefs": [{"name": "one", "port": 80}]}]}}`,
	`{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "zz-bad", "namespace": "zz"}, "spec": {"gatewayClassName": "never", "listeners": [{"name": "x", "port": 80, "protocol": "HTTP"}]}}`,
	`{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "ListenerSet", "metadata": {"name": "zz-bad", "namespace": "zz"}, "spec": {"parentRef": {"name": "absent"}, "listeners": [{"name": "x", "port": 80, "protocol": "HTTP"}]}}`,
	`{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "BackendTLSPolicy", "metadata": {"name": "zz-bad", "namespace": "zz"}, "spec": {"targetRefs": [{"group": "", "kind": "Service", "name": "absent"}], "validation": {"hostname": "x.example.com"}}}`,
	`{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "zz-bad"}, "spec": {"controllerName": "chancery.dev/gateway-controller", "parametersRef": {"group": "", "kind": "ConfigMap", "name": "x"}}}`,
}
