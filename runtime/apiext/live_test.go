package apiext_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/chancery-gateway/chancery/runtime/apiext"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
)

// written are objects as people write them, with all that one version has and another has not.
const written = `
{apiVersion: getambassador.io/v2, kind: Mapping, metadata: {name: a}, spec: {ambassador_id: one, prefix: /, service: s, tls: true, headers: {a: true, b: c}, regex_headers: {a: x}, query_parameters: {q: true}, cors: {origins: "a,b", methods: GET}, add_request_headers: {x: y, z: {value: v, append: false}}, remove_request_headers: r, labels: {ambassador: [{l: [remote_address, {generic_key: k, v3Key: j}, {h: {header: x, omit_if_not_present: true}, i: {header: y}}]}]}, v3StatsName: n, v3health_checks: [{health_check: {http: {path: /h}}}]}}
---
{apiVersion: getambassador.io/v1, kind: Mapping, metadata: {name: b, annotations: {mine: kept}}, spec: {ambassador_id: [one, two], prefix: /, service: "http://s", tls: "", host_regex: true, host: "a.*", use_websocket: true, host_redirect: true}}
---
{apiVersion: getambassador.io/v3alpha1, kind: Mapping, metadata: {name: c}, spec: {prefix: /, service: "https://s", hostname: "*.example.com", host: b, tls: "", stats_name: n, timeout_ms: 0, weight: 10, load_balancer: {policy: ring_hash, header: x}, modules: [{a: b}], envoy_override: {a: {b: [1]}}, health_checks: [{health_check: {http: {path: /}}, interval: 5s}], labels: {ambassador: [{l: [{remote_address: {key: remote_address}}, {generic_key: {key: k, value: v}}]}]}, unknown: [1, {a: null}]}}
---
{apiVersion: getambassador.io/v3alpha1, kind: Mapping, metadata: {name: d}, spec: {prefix: /, service: s}}
---
{apiVersion: getambassador.io/v2, kind: Host, metadata: {name: a}, spec: {hostname: a.example.com, ambassadorId: [x], selector: {matchLabels: {a: b}}, acmeProvider: {authority: none}, tlsSecret: {name: s}, tls: {alpn_protocols: h2, v3CRLSecret: c}}}
---
{apiVersion: getambassador.io/v3alpha1, kind: Host, metadata: {name: b}, spec: {hostname: a.example.com, selector: {matchLabels: {x: y}}, mappingSelector: {matchExpressions: [{key: a, operator: Exists}]}, requestPolicy: {insecure: {action: Redirect}}, tls: {crl_secret: c}}}
---
{apiVersion: getambassador.io/v3alpha1, kind: Listener, metadata: {name: a}, spec: {port: 8080, protocolStack: [TLS, HTTP, TCP], securityModel: XFP, hostBinding: {namespace: {from: ALL}}}}
---
{apiVersion: getambassador.io/v2, kind: Module, metadata: {name: ambassador}, spec: {ambassador_id: [], config: {anything: [1, {a: b}], x_num: 1.5}}}
---
{apiVersion: getambassador.io/v1, kind: AuthService, metadata: {name: a}, spec: {auth_service: s, tls: ctx, proto: http, v3CircuitBreakers: [{max_requests: 5}]}}
---
{apiVersion: getambassador.io/v3alpha1, kind: AuthService, metadata: {name: b}, spec: {ambassador_id: [default], auth_service: s, include_body: {max_bytes: 1, allow_partial: true}, circuit_breakers: [{priority: high}]}}
---
{apiVersion: getambassador.io/v3alpha1, kind: TLSContext, metadata: {name: a}, spec: {hosts: [a], secret: s, crl_secret: c, min_tls_version: v1.2}}
---
{apiVersion: getambassador.io/v2, kind: TCPMapping, metadata: {name: a}, spec: {port: 9000, service: s, tls: true}}
---
{apiVersion: getambassador.io/v3alpha1, kind: TCPMapping, metadata: {name: b}, spec: {port: 9000, service: "https://s", tls: ctx}}
---
{apiVersion: getambassador.io/v1, kind: RateLimitService, metadata: {name: a}, spec: {service: s, tls: false, v3GRPC: {use_resource_exhausted_code: true}}}
---
{apiVersion: getambassador.io/v3alpha1, kind: LogService, metadata: {name: a}, spec: {service: s, driver: tcp, driver_config: {}, grpc: true, protocol_version: v3}}
---
{apiVersion: getambassador.io/v2, kind: TracingService, metadata: {name: a}, spec: {service: s, driver: zipkin, tag_headers: [x, y], config: {collector_endpoint: /x, v3PropagationModes: [B3]}, sampling: {overall: 10}}}
---
{apiVersion: getambassador.io/v3alpha1, kind: TracingService, metadata: {name: b}, spec: {service: s, driver: zipkin, tag_headers: [x], custom_tags: [{tag: t, literal: {value: v}}]}}
---
{apiVersion: getambassador.io/v2, kind: DevPortal, metadata: {name: a}, spec: {default: true, content: {url: u, branch: b}}}
---
{apiVersion: getambassador.io/v1, kind: ConsulResolver, metadata: {name: a}, spec: {address: "consul:8500", datacenter: dc}}
---
{apiVersion: getambassador.io/v2, kind: KubernetesEndpointResolver, metadata: {name: a}}
---
{apiVersion: getambassador.io/v3alpha1, kind: KubernetesServiceResolver, metadata: {name: a}, spec: {ambassador_id: [a]}}
`

// versions returns those of a kind.
func versions(kind string) []string {
	switch kind {
	case "Host":
		return []string{"v2", "v3alpha1"}
	case "Listener":
		return []string{"v3alpha1"}
	}
	return []string{"v1", "v2", "v3alpha1"}
}

// in returns the object as the API server has it in a version.
func (b *bed) in(t *testing.T, o *unstructured.Unstructured, version string) *unstructured.Unstructured {
	t.Helper()
	other := o.DeepCopy()
	other.SetAPIVersion("getambassador.io/" + version)
	got, err := b.client.Of(other).Get(t.Context(), o.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatalf("%s %s in %s: %v", o.GetKind(), o.GetName(), version, err)
	}
	return got
}

// said is what an object says, apart from what the API server adds.
func said(t *testing.T, o *unstructured.Unstructured) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"apiVersion": o.GetAPIVersion(), "spec": o.Object["spec"], "annotations": o.GetAnnotations()})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestEveryVersionThroughTheAPIServer(t *testing.T) {
	b := bedOf(t)
	one, two := b.apiext(t), b.apiext(t)
	b.client.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: versions}}")
	for _, o := range kubetest.Objects(t, []byte(written)) {
		o.SetNamespace("versions")
		b.converts(t, o)
		original, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		for _, version := range versions(o.GetKind()) {
			text, err := api.Convert(jsontext.Value(original), "getambassador.io/"+version)
			if err != nil {
				t.Fatal(err)
			}
			want := &unstructured.Unstructured{}
			if err := want.UnmarshalJSON(text); err != nil {
				t.Fatal(err)
			}
			if got := said(t, b.in(t, o, version)); got != said(t, want) {
				t.Errorf("%s %s in %s\ngot  %s\nwant %s", o.GetKind(), o.GetName(), version, got, said(t, want))
			}
			list, err := b.client.Resource(resourceOf(o.GetKind(), version)).Namespace("versions").List(t.Context(), metav1.ListOptions{})
			if err != nil || len(list.Items) == 0 {
				t.Errorf("%s listed in %s: %v", o.GetKind(), version, err)
			}
		}
		stored, err := b.Stored("/registry/getambassador.io/" + resourceOf(o.GetKind(), "").Resource + "/versions/" + o.GetName())
		if err != nil || !strings.Contains(stored, `"apiVersion":"getambassador.io/v3alpha1","kind":"`+o.GetKind()) {
			t.Errorf("%s %s is stored as %s (%v)", o.GetKind(), o.GetName(), stored, err)
		}
	}
	t.Run("an edit in another version changes nothing else", func(t *testing.T) {
		before := kubetest.Objects(t, []byte(written))[0]
		before.SetNamespace("versions")
		patch := []byte(`{"spec": {"timeout_ms": 7000}}`)
		r := resourceOf("Mapping", "v3alpha1")
		if _, err := b.client.Resource(r).Namespace("versions").Patch(t.Context(), "a", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := unstructured.SetNestedField(before.Object, int64(7000), "spec", "timeout_ms"); err != nil {
			t.Fatal(err)
		}
		if got := said(t, b.in(t, before, "v2")); got != said(t, before) {
			t.Errorf("got  %s\nwant %s", got, said(t, before))
		}
	})
	t.Run("a Service of the right name is all that is needed", func(t *testing.T) {
		for _, r := range []*replica{one, two} {
			for _, word := range []string{"forbidden", "cannot be"} {
				if strings.Contains(r.log.String(), word) {
					t.Errorf("the log speaks of %q:\n%s", word, r.log)
				}
			}
		}
	})
	b.latency(t)
}

// latency prints what conversion costs an apply.
func (b *bed) latency(t *testing.T) {
	const n = 200
	for _, version := range []string{"v3alpha1", "v2"} {
		begun := time.Now()
		for i := range n {
			if err := b.apply(t.Context(), version, "versions", fmt.Sprintf("latency-%s-%d", version, i), i); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%d applies of %s Mappings, stored as v3alpha1: %s each", n, version, (time.Since(begun) / n).Round(10*time.Microsecond))
	}
	begun := time.Now()
	list, err := b.client.Resource(resourceOf("Mapping", "v2")).Namespace("versions").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d Mappings listed in v2: %s", len(list.Items), time.Since(begun).Round(time.Millisecond))
}

func resourceOf(kind, version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "getambassador.io", Version: version, Resource: strings.ToLower(kind) + "s"}
}

// apply creates or changes a Mapping in a version.
func (b *bed) apply(ctx context.Context, version, namespace, name string, n int) error {
	text := fmt.Sprintf(`{"apiVersion":"getambassador.io/%s","kind":"Mapping","metadata":{"name":%q,"namespace":%q},"spec":{"prefix":"/%d/","service":"s"}}`, version, name, namespace, n)
	force := true
	_, err := b.client.Resource(resourceOf("Mapping", version)).Namespace(namespace).Patch(ctx, name, types.ApplyPatchType, []byte(text), metav1.PatchOptions{FieldManager: "t", Force: &force})
	return err
}

// load applies and reads Mappings of all versions, from several sides, until it is stopped.
type load struct {
	done, failed atomic.Int64
	first        sync.Once
	stop         func()
}

func (b *bed) load(t *testing.T, namespace string) *load {
	t.Helper()
	b.client.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + namespace + "}}")
	b.converts(t, kubetest.Objects(t, fmt.Appendf(nil, "{apiVersion: getambassador.io/v2, kind: Mapping, metadata: {name: first, namespace: %s}, spec: {prefix: /, service: s}}", namespace))[0])
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{}
	var all sync.WaitGroup
	l.stop = func() { cancel(); all.Wait() }
	t.Cleanup(l.stop)
	for worker := range 3 {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				version := []string{"v1", "v2", "v3alpha1"}[(n+worker)%3]
				name := fmt.Sprintf("m-%d-%d", worker, n%10)
				err := b.apply(ctx, version, namespace, name, n)
				if err == nil {
					other := []string{"v1", "v2", "v3alpha1"}[n%3]
					var o *unstructured.Unstructured
					if o, err = b.client.Resource(resourceOf("Mapping", other)).Namespace(namespace).Get(ctx, name, metav1.GetOptions{}); err == nil {
						if prefix, _, _ := unstructured.NestedString(o.Object, "spec", "prefix"); prefix != fmt.Sprintf("/%d/", n) {
							err = fmt.Errorf("read %s after %d", prefix, n)
						}
					}
				}
				if ctx.Err() != nil {
					return
				}
				if err != nil {
					l.failed.Add(1)
					l.first.Do(func() { t.Logf("apply %d failed: %v", n, err) })
				}
				l.done.Add(1)
			}
		})
	}
	return l
}

// more waits until the load has gone on for n applies.
func (l *load) more(t *testing.T, n int64) {
	t.Helper()
	from := l.done.Load()
	kubetest.Eventually(t, patience, "the load goes on", func(context.Context) bool { return l.done.Load() >= from+n })
}

// ends stops the load, none of which may have failed.
func (l *load) ends(t *testing.T) {
	t.Helper()
	l.stop()
	if failed := l.failed.Load(); failed > 0 {
		t.Errorf("%d of %d applies failed", failed, l.done.Load())
	}
	t.Logf("%d applies", l.done.Load())
}

func (b *bed) bundle(t *testing.T) string {
	t.Helper()
	o, err := b.client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}).Get(t.Context(), "mappings.getambassador.io", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := unstructured.NestedString(o.Object, "spec", "conversion", "webhook", "clientConfig", "caBundle")
	return text
}

func (b *bed) deleteSecret(t *testing.T) {
	t.Helper()
	secrets := b.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(apiext.Namespace)
	if err := secrets.Delete(t.Context(), apiext.Secret, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// The authority is near its end: one of the replicas renews it, all show certificates of the new one, and nobody notices.
func TestRenewalUnderLoad(t *testing.T) {
	b := bedOf(t)
	var ago atomic.Int64
	now := func() time.Time { return time.Now().Add(-time.Duration(ago.Load())) }
	const day = 24 * time.Hour
	ago.Store(int64(300 * day))
	first := b.inProcess(t, now)
	b.forgetSecret(t)
	if err := first.Authority.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	ago.Store(int64(60 * day))
	one, two := b.inProcess(t, now), b.inProcess(t, now)
	b.serveIn(t, one)
	b.serveIn(t, two)
	l := b.load(t, "renewal")
	l.more(t, 30)
	before := b.bundle(t)
	serial := func(s *apiext.Server) string {
		c, err := s.Authority.Certificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return c.Leaf.SerialNumber.String() + c.Leaf.Issuer.String() + fmt.Sprintf("%x", c.Leaf.AuthorityKeyId)
	}
	old := []string{serial(one), serial(two)}
	ago.Store(0) // 65 of 365 days are left
	kubetest.Eventually(t, patience, "both replicas have new certificates", func(context.Context) bool { return serial(one) != old[0] && serial(two) != old[1] })
	l.more(t, 60)
	l.ends(t)
	if string(one.Authority.Bundle()) != string(two.Authority.Bundle()) {
		t.Error("the replicas have two authorities")
	}
	if b.bundle(t) == before {
		t.Error("the definitions carry the old authority only")
	}
}

// forgetSecret deletes the Secret, if there is one.
func (b *bed) forgetSecret(t *testing.T) {
	t.Helper()
	secrets := b.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(apiext.Namespace)
	_ = secrets.Delete(t.Context(), apiext.Secret, metav1.DeleteOptions{}) // or it is not there
}

// Whoever deletes the Secret asks for a new authority, and gets it without a failed apply; a replica that is asked to end, or
// is killed, leaves the work to the other.
func TestReplicasComeAndGoUnderLoad(t *testing.T) {
	b := bedOf(t)
	one, two := b.apiext(t), b.apiext(t)
	l := b.load(t, "replicas")
	l.more(t, 30)
	before := b.bundle(t)
	b.deleteSecret(t)
	kubetest.Eventually(t, patience, "the definitions carry another authority", func(context.Context) bool { return b.bundle(t) != before })
	l.more(t, 30)
	t.Logf("%d of %d applies failed while the authority changed", l.failed.Load(), l.done.Load())
	one.term()
	l.more(t, 30)
	three := b.apiext(t)
	if failed := l.failed.Load(); failed > 0 {
		t.Errorf("%d of %d applies failed before anything was killed", failed, l.done.Load())
	}
	l.failed.Store(0)
	if err := two.process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-two.done
	l.more(t, 30)
	// What was under way in the killed process is lost, on each of its connections, and nothing after.
	if failed := l.failed.Load(); failed > 9 {
		t.Errorf("%d applies failed after one replica of two was killed", failed)
	}
	l.failed.Store(0)
	l.more(t, 60)
	l.ends(t)
	if err := probe(three.probes); err != nil {
		t.Error(err)
	}
}
