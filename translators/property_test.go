package translators_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// town makes random objects that interfere with one another as often as possible: few names, few hosts, few paths.
type town struct {
	rand    *rand.Rand
	objects map[string]*snapshot.Object // by kind/namespace/name
}

func newTown(seed uint64) *town {
	return &town{rand: rand.New(rand.NewPCG(seed, 7)), objects: map[string]*snapshot.Object{}}
}

func one[T any](t *town, from ...T) T { return from[t.rand.IntN(len(from))] }

type fields = map[string]any

func (t *town) maybe(f fields, key string, n int, values ...any) {
	if t.rand.IntN(n) == 0 {
		f[key] = values[t.rand.IntN(len(values))]
	}
}

// spec makes a random body, nearly always a valid one.
func (t *town) spec(kind string) fields {
	f := fields{}
	hosts := []any{"*", "a.example.com", "b.example.com", "*.example.com", "c.example.org", "a.example.com"}
	switch kind {
	case "Listener":
		f["port"] = one(t, 8080, 8443, 9000)
		f["protocol"] = one(t, "HTTP", "HTTPS", "HTTPS", "HTTPSPROXY", "TLS")
		f["securityModel"] = one(t, "XFP", "XFP", "SECURE", "INSECURE")
		f["hostBinding"] = one(t, fields{"namespace": fields{"from": "ALL"}}, fields{"namespace": fields{"from": "SELF"}}, fields{"selector": fields{"matchLabels": fields{"team": "red"}}})
		t.maybe(f, "l7Depth", 4, 1, 2)
	case "Host":
		f["hostname"] = one(t, hosts...)
		t.maybe(f, "tlsSecret", 2, fields{"name": "one"}, fields{"name": "two"}, fields{"name": "bad"}, fields{"name": "one", "namespace": "red"})
		t.maybe(f, "mappingSelector", 4, fields{"matchLabels": fields{"team": "red"}}, fields{"matchLabels": fields{"team": "blue"}})
		t.maybe(f, "requestPolicy", 2, fields{"insecure": fields{"action": "Route"}}, fields{"insecure": fields{"action": "Reject"}})
		t.maybe(f, "tlsContext", 6, fields{"name": "ctx"})
	case "TLSContext":
		f["secret"] = one(t, "one", "two")
		t.maybe(f, "min_tls_version", 2, "v1.2", "v1.3")
		t.maybe(f, "hosts", 2, []string{"a.example.com"}, []string{"t.example.com"})
	case "TCPMapping":
		f["port"] = one(t, 8443, 9000)
		f["service"] = one(t, "tcp-one:7000", "tcp-two:7000")
		t.maybe(f, "host", 2, "t.example.com", "a.example.com")
		t.maybe(f, "weight", 3, 10, 50)
	case "Module":
		c := fields{}
		t.maybe(c, "cluster_request_timeout_ms", 2, 1000, 2000)
		t.maybe(c, "resolver", 3, "endpoint", "kubernetes-service")
		t.maybe(c, "retry_policy", 3, fields{"retry_on": "5xx", "num_retries": 2})
		t.maybe(c, "server_name", 3, "chancery")
		t.maybe(c, "gzip", 4, fields{})
		t.maybe(c, "ip_allow", 6, []fields{{"peer": "127.0.0.0/8"}}, []fields{{"peer": "nonsense"}})
		t.maybe(c, "default_labels", 3, fields{"ambassador": fields{"defaults": []fields{{"remote_address": fields{"key": "remote_address"}}}}})
		f["config"] = c
	case "KubernetesEndpointResolver":
	case "AuthService":
		f["auth_service"] = one(t, "one", "two", "https://three")
		t.maybe(f, "timeout_ms", 3, 0, 100)
		t.maybe(f, "tls", 4, "ctx", "no-such")
	case "RateLimitService":
		f["service"], f["protocol_version"] = one(t, "one", "two"), one(t, "v3", "v3", "v2")
		t.maybe(f, "domain", 3, "other")
		t.maybe(f, "failure_mode_deny", 2, true)
	case "LogService":
		f["service"], f["protocol_version"], f["driver"] = one(t, "one", "two"), "v3", one(t, "http", "tcp")
	case "TracingService":
		f["service"], f["driver"] = one(t, "one", "two"), one(t, "zipkin", "opentelemetry", "lightstep")
	case "IngressClass":
		f["controller"] = one(t, "getambassador.io/ingress-controller", "chancery.dev/ingress-controller", "example.com/other")
	case "Ingress":
		t.ingress(f)
	default:
		f["prefix"] = one(t, "/", "/a/", "/b/", "/a/b/", "/.well-known/acme-challenge/")
		f["service"] = one(t, "one", "two", "three:8080", "https://four", "one.blue", "elsewhere.example.org")
		if t.rand.IntN(8) > 0 {
			f["hostname"] = one(t, hosts...)
		}
		t.maybe(f, "weight", 4, 0, 10, 60)
		t.maybe(f, "headers", 5, fields{"x-tenant": "a"}, fields{"x-tenant": "b"})
		t.maybe(f, "method", 8, "GET", "POST")
		t.maybe(f, "precedence", 8, 1, -1)
		t.maybe(f, "timeout_ms", 4, 0, 4000)
		t.maybe(f, "resolver", 4, "endpoint", "no-such")
		t.maybe(f, "shadow", 10, true)
		t.maybe(f, "tls", 10, "ctx", "no-such")
		t.maybe(f, "add_request_headers", 5, fields{"x-a": fields{"value": "1"}}, fields{"x-b": fields{"value": "2", "append": false}})
		t.maybe(f, "cors", 8, fields{"origins": []string{"https://example.com"}})
		t.maybe(f, "grpc", 8, true)
		t.maybe(f, "bypass_auth", 6, true)
		t.maybe(f, "labels", 6, fields{"ambassador": []fields{{"one": []fields{{"generic_key": fields{"value": "v"}}}}}})
		if t.rand.IntN(12) == 0 {
			f["host_redirect"] = true
		}
		t.maybe(f, "prefix_regex", 12, true)
	}
	return f
}

// ingress makes a random body of an Ingress, mostly of a class that is there now and then.
func (t *town) ingress(f fields) {
	backend := func() fields {
		port := one(t, fields{"number": 80}, fields{"number": 8080}, fields{"name": "http"}, fields{"name": "web"}, fields{})
		return one(t, fields{"service": fields{"name": one(t, "one", "two", "nowhere"), "port": port}}, fields{"service": fields{"name": "one", "port": fields{"number": 80}}}, fields{"resource": fields{"kind": "Bucket", "name": "b"}})
	}
	t.maybe(f, "ingressClassName", 1, "class-0", "class-0", "class-0", "class-1", "no-such")
	t.maybe(f, "defaultBackend", 4, backend())
	hosts := []any{"a.example.com", "b.example.com", "*.example.com", "c.example.org", "bad name", "example.*"}
	t.maybe(f, "tls", 3, []fields{{"hosts": []any{one(t, hosts...), one(t, hosts...)}, "secretName": one(t, "one", "two", "bad", "never")}}, []fields{{"secretName": one(t, "one", "bad")}}, []fields{{"hosts": []any{"a.example.com"}}})
	rules := []fields{}
	for range t.rand.IntN(3) {
		paths := []fields{}
		for range 1 + t.rand.IntN(3) {
			p := fields{"backend": backend(), "pathType": one(t, "Prefix", "Prefix", "Exact", "ImplementationSpecific", "Odd")}
			t.maybe(p, "path", 1, "/", "/a", "/a/", "/a/b", "/b/", "relative")
			paths = append(paths, p)
		}
		r := fields{"http": fields{"paths": paths}}
		t.maybe(r, "host", 2, hosts...)
		rules = append(rules, r)
	}
	f["rules"] = rules
}

func (t *town) build(tb testing.TB, apiVersion, kind, namespace, name string, labels any, spec fields) *snapshot.Object {
	tb.Helper()
	doc := fields{"apiVersion": apiVersion, "kind": kind, "metadata": fields{"namespace": namespace, "name": name, "labels": labels}}
	if apiVersion == "v1" || kind == "EndpointSlice" {
		maps.Copy(doc, spec)
	} else {
		doc["spec"] = spec
	}
	b, err := json.Marshal(doc)
	if err != nil {
		tb.Fatal(err)
	}
	o, ds := api.Decode([]byte(withKeys(string(b))), snapshot.Source{}, nil)
	if o == nil {
		tb.Fatalf("%s: %v", b, ds)
	}
	return o
}

// next makes one random change: a put, or (the second value) a removal.
func (t *town) next(tb testing.TB) (*snapshot.Object, *snapshot.Ref) {
	kind := one(t, "Mapping", "Mapping", "Mapping", "Mapping", "Mapping", "Host", "Host", "Listener", "TLSContext", "TCPMapping", "Module", "KubernetesEndpointResolver", "Service", "EndpointSlice", "EndpointSlice", "Secret", "AuthService", "RateLimitService", "LogService", "TracingService", "Ingress", "Ingress", "Ingress", "IngressClass")
	ns := one(t, "red", "blue", "default")
	name := fmt.Sprintf("%s-%d", strings.ToLower(kind), t.rand.IntN(4))
	version := "getambassador.io/v3alpha1"
	var labels any = one[any](t, fields{}, fields{"team": "red"}, fields{"team": "blue"})
	var spec fields
	if t.rand.IntN(3) == 0 {
		kind = one(t, gatewayKinds...)
		own := ""
		if version, own, spec = t.gatewaySpec(kind); own != "" {
			name = own
		} else {
			name = fmt.Sprintf("%s-%d", strings.ToLower(kind), t.rand.IntN(4))
		}
		if kind == "GatewayClass" || kind == "Namespace" {
			ns = ""
		}
	}
	switch kind {
	case "Module":
		name, spec = "ambassador", t.spec(kind)
	case "TLSContext":
		name, spec = "ctx", t.spec(kind)
	case "KubernetesEndpointResolver":
		name, spec = "endpoint", t.spec(kind)
	case "Ingress":
		version, spec = "networking.k8s.io/v1", t.spec(kind)
	case "IngressClass":
		version, ns, name, spec = "networking.k8s.io/v1", "", one(t, "class-0", "class-0", "class-1"), t.spec(kind)
	case "Service":
		version, name = "v1", one(t, "one", "two", "three")
		spec = fields{"spec": fields{"ports": []fields{{"port": one(t, 80, 8080), "name": one(t, "http", "web")}}}}
	case "EndpointSlice":
		version = "discovery.k8s.io/v1"
		labels = fields{"kubernetes.io/service-name": one(t, "one", "two", "three")}
		spec = fields{"addressType": "IPv4", "ports": []fields{{"port": 8080, "name": one(t, "http", "web")}},
			"endpoints": []fields{{"addresses": []string{fmt.Sprintf("10.0.0.%d", t.rand.IntN(5))}, "conditions": fields{"ready": t.rand.IntN(3) > 0}}}}
	case "Secret":
		version, name = "v1", one(t, "one", "two", "bad")
		data := fields{"tls.crt": "$CERT", "tls.key": "$KEY"}
		if name == "two" {
			data = fields{"tls.crt": "$CERT2", "tls.key": "$KEY2"}
		} else if name == "bad" {
			data["tls.key"] = "$KEY2"
		}
		spec = fields{"type": "kubernetes.io/tls", "data": data}
	default:
		if spec == nil {
			spec = t.spec(kind)
		}
	}
	id := kind + "/" + ns + "/" + name
	if old := t.objects[id]; old != nil && t.rand.IntN(4) == 0 {
		delete(t.objects, id)
		return nil, &old.Ref
	}
	o := t.build(tb, version, kind, ns, name, labels, spec)
	t.objects[id] = o
	return o, nil
}

func (t *town) all() []*snapshot.Object {
	os := slices.Collect(maps.Values(t.objects))
	t.rand.Shuffle(len(os), func(i, j int) { os[i], os[j] = os[j], os[i] })
	return os
}

// bytesOf renders everything that a result says, with all bytes of all resources.
func bytesOf(tb testing.TB, r *translators.Result) map[string]string {
	tb.Helper()
	out := map[string]string{}
	for kind, rs := range r.Resources {
		for _, x := range rs {
			out[kind+"/"+x.Name] = x.Version + string(x.Value)
		}
	}
	program, err := json.Marshal(r.Program)
	if err != nil {
		tb.Fatal(err)
	}
	out["program"] = string(program)
	for _, s := range r.Statuses {
		said, err := json.Marshal(s)
		if err != nil {
			tb.Fatal(err)
		}
		out["status "+s.Object.String()] = string(said)
	}
	for i, d := range r.Diagnostics {
		out[fmt.Sprintf("diagnostic %04d", i)] = d.String()
	}
	return out
}

func differences(want, got map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if g, is := got[k]; !is || g != want[k] {
			fmt.Fprintf(&b, "%s\n want %q\n got  %q\n", k, want[k], g)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(got)) {
		if _, is := want[k]; !is {
			fmt.Fprintf(&b, "%s\n unwanted %q\n", k, got[k])
		}
	}
	if b.Len() > 6000 {
		return b.String()[:6000]
	}
	return b.String()
}

// TestProperties walks random sequences of changes. At each step the incremental result equals that of a new compiler
// which gets the same objects at once in another order, byte for byte: rules 1 and 2.
func TestProperties(t *testing.T) {
	towns, steps := 100, 100 // 10,000 steps
	if testing.Short() {
		towns = 5
	}
	for seed := range uint64(towns) {
		town := newTown(seed)
		warm, s := newCompiler(), snapshot.Empty()
		for step := range steps {
			var put []*snapshot.Object
			var remove []snapshot.Ref
			for range 1 + town.rand.IntN(3) {
				if o, gone := town.next(t); gone != nil {
					put = slices.DeleteFunc(put, func(p *snapshot.Object) bool { return p.Ref == *gone })
					remove = append(remove, *gone)
				} else {
					put = append(put, o)
				}
			}
			s = s.Derive(put, remove, nil)
			got := bytesOf(t, warm.Compile(s))
			cold := newCompiler().Compile(snapshot.Empty().Derive(town.all(), nil, nil))
			if d := differences(bytesOf(t, cold), got); d != "" {
				t.Fatalf("seed %d step %d: warm differs from cold:\n%s", seed, step, d)
			}
		}
	}
}

// badObjects each have one fault of their own and touch nothing that the town's objects name.
var badObjects = []string{
	`{"apiVersion": "getambassador.io/v3alpha1", "kind": "Mapping", "metadata": {"name": "bad", "namespace": "red"}, "spec": {"hostname": "*", "prefix": "/bad/[", "prefix_regex": true, "service": "one"}}`,
	`{"apiVersion": "getambassador.io/v3alpha1", "kind": "Mapping", "metadata": {"name": "bad", "namespace": "red"}, "spec": {"hostname": "*", "prefix": "/bad/", "service": "one}:443"}}`,
	`{"apiVersion": "getambassador.io/v3alpha1", "kind": "Mapping", "metadata": {"name": "bad", "namespace": "red"}, "spec": {"hostname": "*", "prefix": "/bad/", "service": "one", "weight": 200}}`,
	`{"apiVersion": "getambassador.io/v3alpha1", "kind": "Mapping", "metadata": {"name": "bad", "namespace": "red"}, "spec": {"hostname": "*", "prefix": "/bad/", "service": "one", "resolver": "never"}}`,
	`{"apiVersion": "getambassador.io/v3alpha1", "kind": "Mapping", "metadata": {"name": "bad", "namespace": "red"}, "spec": {"hostname": "*", "prefix": "/bad/", "service": "one", "tls": "never"}}`,
	`{"apiVersion": "getambassador.io/v3alpha1", "kind": "Mapping", "metadata": {"name": "bad", "namespace": "red"}, "spec": {"hostname": "*", "prefix": "/bad/", "service": "one", "add_request_headers": {"bad name": {"value": "x"}}}}`,
	`{"apiVersion": "getambassador.io/v3alpha1", "kind": "Mapping", "metadata": {"name": "bad", "namespace": "red"}, "spec": {"hostname": "*", "prefix": "/bad/", "service": "one", "add_request_headers": {"x-a": {"value": "%BAD("}}}}`,
	`{"apiVersion": "getambassador.io/v3alpha1", "kind": "Mapping", "metadata": {"name": "bad", "namespace": "red"}, "spec": {"hostname": "*", "prefix": "/bad/", "service": "one", "regex_rewrite": {"pattern": "(a", "substitution": "x"}}}`,
	`{"apiVersion": "getambassador.io/v3alpha1", "kind": "TCPMapping", "metadata": {"name": "bad", "namespace": "red"}, "spec": {"port": 9000, "service": "one:99999"}}`,
	`{"apiVersion": "getambassador.io/v3alpha1", "kind": "TLSContext", "metadata": {"name": "bad", "namespace": "red"}, "spec": {"secret": "never", "min_tls_version": "v1.3", "max_tls_version": "v1.0"}}`,
	`{"apiVersion": "getambassador.io/v3alpha1", "kind": "Listener", "metadata": {"name": "zz-bad", "namespace": "zz"}, "spec": {"port": 8080, "protocolStack": ["TLS", "HTTP"], "securityModel": "XFP", "hostBinding": {"namespace": {"from": "ALL"}}}}`,
	`{"apiVersion": "getambassador.io/v3alpha1", "kind": "RateLimitService", "metadata": {"name": "zz-bad", "namespace": "zz"}, "spec": {"service": "one", "protocol_version": "v2"}}`,
	`{"apiVersion": "getambassador.io/v3alpha1", "kind": "LogService", "metadata": {"name": "zz-bad", "namespace": "zz"}, "spec": {"service": "one", "driver": "http"}}`,
	`{"apiVersion": "getambassador.io/v3alpha1", "kind": "TracingService", "metadata": {"name": "zz-bad", "namespace": "zz"}, "spec": {"service": "one", "driver": "lightstep"}}`,
	`{"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "bad", "namespace": "red"}, "spec": {"ingressClassName": "never", "defaultBackend": {"service": {"name": "one", "port": {"number": 80}}}}}`,
	`{"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "bad", "namespace": "red", "annotations": {"kubernetes.io/ingress.class": "ambassador"}}, "spec": {"rules": [{"host": "not a host", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "one", "port": {"number": 80}}}}]}}]}}`,
	`{"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "bad", "namespace": "red", "annotations": {"kubernetes.io/ingress.class": "ambassador"}}, "spec": {"rules": [{"http": {"paths": [{"path": "bad", "pathType": "Prefix", "backend": {"service": {"name": "one", "port": {"number": 80}}}}]}}]}}`,
	`{"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "bad", "namespace": "red", "annotations": {"kubernetes.io/ingress.class": "ambassador"}}, "spec": {"tls": [{"secretName": "never", "hosts": ["*.*"]}], "rules": "none"}}`,
	`{"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "zz-bad", "namespace": "zz", "annotations": {"kubernetes.io/ingress.class": "ambassador"}}, "spec": {"tls": [{"secretName": "never"}]}}`,
	`{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "never-used", "namespace": "red"}, "type": "kubernetes.io/tls", "data": {"tls.crt": "AAAA", "tls.key": ""}}`,
}

// TestOneBadObject: a faulty object leaves every byte of everything else as it was, and is told what is wrong: rule 3.
func TestOneBadObject(t *testing.T) {
	for seed := range uint64(200) {
		town := newTown(1000 + seed)
		for range 60 {
			town.next(t)
		}
		base := snapshot.Empty().Derive(town.all(), nil, nil)
		c := newCompiler()
		before := resourcesOf(c.Compile(base))
		for i, text := range slices.Concat(badObjects, badGatewayObjects) {
			o, ds := api.Decode([]byte(text), snapshot.Source{}, nil)
			if o == nil {
				if len(ds) == 0 {
					t.Fatalf("bad object %d vanished without a word", i)
				}
				continue
			}
			r := c.Compile(base.Derive([]*snapshot.Object{o}, nil, nil))
			if d := differences(before, resourcesOf(r)); d != "" {
				t.Fatalf("seed %d: bad object %d changed something else:\n%s\n%s", seed, i, text, d)
			}
			if o.Kind != "Secret" && !slices.ContainsFunc(r.Diagnostics, func(d snapshot.Diagnostic) bool { return d.Object == o.Ref }) {
				t.Errorf("seed %d: bad object %d got no diagnostic", seed, i)
			}
		}
		c.Compile(base)
	}
}

func resourcesOf(r *translators.Result) map[string]string {
	out := map[string]string{}
	for kind, rs := range r.Resources {
		for _, x := range rs {
			out[kind+"/"+x.Name] = x.Version + string(bytes.Clone(x.Value))
		}
	}
	return out
}

// TestEndpointFastPath: endpoint changes need no compile, and give what a compile would.
func TestEndpointFastPath(t *testing.T) {
	town := newTown(6)
	var s *snapshot.Snapshot
	var c *translators.Compiler
	served := map[string]*ir.Resource{}
	for seed := uint64(6); len(served) < 3; seed++ { // one that asks for some endpoints
		if town = newTown(seed); seed > 60 {
			t.Fatal("no town asks for endpoints")
		}
		for range 300 {
			town.next(t)
		}
		s, c = snapshot.Empty().Derive(town.all(), nil, nil), newCompiler()
		clear(served)
		for _, e := range c.Compile(s).Resources[ir.TypeEndpoint] {
			served[e.Name] = e
		}
	}
	sent := 0
	for i := range 200 {
		o := town.build(t, "discovery.k8s.io/v1", "EndpointSlice", one(town, "red", "blue", "default"), fmt.Sprintf("endpointslice-%d", town.rand.IntN(4)),
			fields{"kubernetes.io/service-name": one(town, "one", "two", "three")}, fields{"addressType": "IPv4", "ports": []fields{{"port": 8080, "name": one(town, "http", "web")}},
				"endpoints": []fields{{"addresses": []string{fmt.Sprintf("10.0.1.%d", i)}}}})
		s = s.Derive([]*snapshot.Object{o}, nil, nil)
		changed, ok := c.Endpoints(s)
		if !ok {
			t.Fatal("an endpoint change asked for a compile")
		}
		for _, e := range changed {
			served[e.Name] = e
			sent++
		}
	}
	if sent == 0 {
		t.Fatal("nothing was sent")
	}
	cold := newCompiler().Compile(s)
	for _, e := range cold.Resources[ir.TypeEndpoint] {
		if served[e.Name] == nil || served[e.Name].Version != e.Version {
			t.Errorf("endpoint set %s differs from a compile's", e.Name)
		}
	}
	if warm := c.Compile(s); warm.Counts.Lowered != 0 || warm.Counts.Linked != 0 {
		t.Errorf("a compile after the fast path lowered %d objects and linked %d groups", warm.Counts.Lowered, warm.Counts.Linked)
	}
	mapping := town.build(t, "getambassador.io/v3alpha1", "Mapping", "red", "new", nil, fields{"hostname": "*", "prefix": "/new/", "service": "one"})
	if _, ok := c.Endpoints(s.Derive([]*snapshot.Object{mapping}, nil, nil)); ok {
		t.Error("a Mapping took the fast path")
	}
}

// TestRefusedHostKeepsClosed: a Host that its schema refuses is not "no Host at all", whenever it comes and goes.
func TestRefusedHostKeepsClosed(t *testing.T) {
	listener := `{"apiVersion": "getambassador.io/v3alpha1", "kind": "Listener", "metadata": {"name": "l", "namespace": "gw"}, "spec": {"port": 8080, "protocol": "HTTP", "securityModel": "XFP", "hostBinding": {"namespace": {"from": "ALL"}}}}`
	objects, _ := parse(t, "in.json", listener)
	_, refused := api.Decode([]byte(`{"apiVersion": "getambassador.io/v3alpha1", "kind": "Host", "metadata": {"name": "h", "namespace": "gw"}, "spec": {"hostname": 7}}`), snapshot.Source{}, nil)
	open := snapshot.Empty().Derive(objects, nil, nil)
	closed := open.Derive(nil, nil, refused)
	warm := newCompiler()
	for i, s := range []*snapshot.Snapshot{open, closed, closed.Derive(nil, nil, nil), closed} {
		if d := differences(bytesOf(t, newCompiler().Compile(s)), bytesOf(t, warm.Compile(s))); d != "" {
			t.Errorf("step %d: warm differs from cold:\n%s", i, d)
		}
	}
	if n := len(newCompiler().Compile(closed).Program.RouteConfigs); n != 0 {
		t.Error("a refused Host opened the gateway")
	}
}
