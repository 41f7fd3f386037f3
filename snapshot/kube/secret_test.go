package kube_test

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
	"github.com/chancery-gateway/chancery/snapshot/kube"
)

const oneSecret = "---\n{apiVersion: v1, kind: Secret, metadata: {name: %s, namespace: %s}, type: %s, stringData: {tls.crt: %s, tls.key: k}}\n"

func crt(s *snapshot.Snapshot, ns, name string) string {
	o := s.Get(snapshot.KindSecret, ns, name)
	if o == nil {
		return ""
	}
	return string(o.Spec.(*snapshot.Secret).Data["tls.crt"])
}

// The content of a Secret is there with the first snapshot in which an object mentions it, and for as long as one does.
func TestSecretsAreReadWhenTheyAreMentioned(t *testing.T) {
	c, client, ns := bed(t)
	host := "---\n{apiVersion: getambassador.io/v3alpha1, kind: Host, metadata: {name: %s, namespace: " + ns + "}, spec: {hostname: %s.example.com, tlsSecret: {name: %s}}}\n"
	client.Apply(fmt.Sprintf(oneSecret, "first", ns, "kubernetes.io/tls", "one") + fmt.Sprintf(oneSecret, "idle", ns, "kubernetes.io/tls", "idle") +
		fmt.Sprintf(oneSecret, "dotted", ns, "Opaque", "dotted") + fmt.Sprintf(oneSecret, "annotated", ns, "Opaque", "annotated") +
		fmt.Sprintf(oneSecret, "module", ns, "Opaque", "module") + fmt.Sprintf(oneSecret, "ingress", ns, "Opaque", "ingress") +
		fmt.Sprintf(oneSecret, "fallback-self-signed-cert", ns, "kubernetes.io/tls", "fallback") + fmt.Sprintf(host, "h", "h", "first") + fmt.Sprintf(`---
{apiVersion: getambassador.io/v3alpha1, kind: TLSContext, metadata: {name: t, namespace: %[1]s}, spec: {hosts: [x], secret: dotted.%[1]s}}
---
{apiVersion: getambassador.io/v3alpha1, kind: Module, metadata: {name: tls, namespace: %[1]s}, spec: {config: {server: {secret: module}}}}
---
{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: i, namespace: %[1]s}, spec: {tls: [{secretName: ingress}], defaultBackend: {service: {name: s, port: {number: 80}}}}}
---
apiVersion: v1
kind: Service
metadata:
  name: s
  namespace: %[1]s
  annotations:
    getambassador.io/config: |
      {apiVersion: getambassador.io/v3alpha1, kind: Host, name: noted, hostname: noted.example.com, tlsSecret: {name: annotated}}
spec: {ports: [{port: 80}]}
`, ns))
	w := start(t, kube.Options{Config: c.Config(), Namespace: ns, Patience: patience})
	first := w.first()
	if s := first; s.Get(v3alpha1.KindHost, ns, "h") == nil {
		t.Error("the first snapshot lacks the Host")
	}
	for name, want := range map[string]string{
		"first": "one", "dotted": "dotted", "annotated": "annotated", "module": "module", "ingress": "ingress", "fallback-self-signed-cert": "fallback", "idle": "",
	} {
		if got := crt(first, ns, name); got != want {
			t.Errorf("the first snapshot has %q of Secret %s, not %q", got, name, want)
		}
	}

	client.Apply(fmt.Sprintf(host, "later", "later", "idle"))
	w.until("a Host comes", func(s *snapshot.Snapshot) bool { return s.Get(v3alpha1.KindHost, ns, "later") != nil })
	client.Apply(fmt.Sprintf(oneSecret, "first", ns, "kubernetes.io/tls", "two"))
	w.until("the Secret changes", func(s *snapshot.Snapshot) bool { return crt(s, ns, "first") == "two" })
	client.Apply(fmt.Sprintf(host, "h", "renamed", "first"))
	w.until("its Host changes", func(s *snapshot.Snapshot) bool {
		return s.Get(v3alpha1.KindHost, ns, "h").Spec.(*v3alpha1.HostSpec).Hostname == "renamed.example.com"
	})
	for i, s := range w.since(0) {
		if s.Get(v3alpha1.KindHost, ns, "later") != nil && crt(s, ns, "idle") != "idle" {
			t.Errorf("snapshot %d has the Host without its Secret", i)
		}
		if crt(s, ns, "first") == "" {
			t.Errorf("snapshot %d has lost a Secret", i)
		}
	}

	client.Delete(fmt.Sprintf(host, "later", "later", "idle"))
	w.until("nobody mentions it any more", func(s *snapshot.Snapshot) bool { return crt(s, ns, "idle") == "" })
	client.Delete(fmt.Sprintf(oneSecret, "first", ns, "kubernetes.io/tls", "two"))
	w.until("the Secret is gone", func(s *snapshot.Snapshot) bool { return crt(s, ns, "first") == "" })
	client.Apply(fmt.Sprintf(oneSecret, "first", ns, "kubernetes.io/tls", "three"))
	w.until("it is back", func(s *snapshot.Snapshot) bool { return crt(s, ns, "first") == "three" })
	client.Apply(fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s-2}}", ns))

	all := start(t, kube.Options{Config: c.Config(), Namespace: ns, AllSecrets: true})
	all.until("all Secrets", func(s *snapshot.Snapshot) bool { return crt(s, ns, "idle") == "idle" && crt(s, ns, "first") == "three" })
}

// heap returns the bytes in use, of which a list in flight may be some.
func heap() uint64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// What a Secret costs that nobody mentions, beside what it costs with its content.
func TestMemoryOfSecrets(t *testing.T) {
	c, client, ns := bed(t)
	const n, size = 300, 8000
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, oneSecret, fmt.Sprintf("secret-%d", i), ns, "Opaque", fmt.Sprintf("c%d%s", i, strings.Repeat("x", size)))
	}
	client.Apply(b.String())
	b.Reset()
	client.Apply(fmt.Sprintf(oneMapping, "m", ns, "/m/"))
	measure := func(all bool) uint64 {
		before := heap()
		w := start(t, kube.Options{Config: c.Config(), Namespace: ns, AllSecrets: all})
		want := 0
		if all {
			want = n
		}
		w.until("the Secrets", func(s *snapshot.Snapshot) bool {
			return mapping(s, ns, "m") != nil && s.Len(snapshot.KindSecret) == want
		})
		least := uint64(math.MaxUint64)
		for range 4 { // whatever else goes on only adds, such as what listing left behind
			least = min(least, heap())
			time.Sleep(50 * time.Millisecond)
		}
		runtime.KeepAlive(w)
		return max(least, before) - before
	}
	measure(false) // the client library's own
	names, whole := measure(false), measure(true)
	t.Logf("%d Secrets of %d bytes: %d bytes each by name, %d with their content", n, size, names/n, whole/n)
	if names*4 > whole {
		t.Errorf("names cost %d bytes each, contents %d", names/n, whole/n)
	}
}

// lateSlices lets the answer about EndpointSlices begin long before what it lists arrives, and every look at which kinds there are
// but the first take longer than it is waited for a kind that is refused.
type lateSlices struct {
	http.RoundTripper
	looks *atomic.Int64
	until time.Time
}

func (l lateSlices) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == "/apis" && l.looks.Add(1) > 1 {
		time.Sleep(time.Until(l.until))
	}
	answer, err := l.RoundTripper.RoundTrip(r)
	if err == nil && strings.HasSuffix(r.URL.Path, "/endpointslices") && answer.StatusCode == http.StatusOK {
		answer.Body = &late{ReadCloser: answer.Body}
	}
	return answer, err
}

type late struct {
	io.ReadCloser
	once sync.Once
}

func (l *late) Read(p []byte) (int, error) {
	l.once.Do(func() { time.Sleep(time.Second) })
	return l.ReadCloser.Read(p)
}

// Under the role of Emissary's chart EndpointSlices may not be read; Endpoints stand in for them until they may.
func TestEndpointsStandInForSlices(t *testing.T) {
	c, client, ns := bed(t)
	const role = `
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: %[1]s}, rules: [
  {apiGroups: [""], resources: [services, namespaces, secrets, endpoints], verbs: [get, list, watch]}, %[2]s
  {apiGroups: [networking.k8s.io, getambassador.io, gateway.networking.k8s.io, apiextensions.k8s.io, chancery.dev], resources: ["*"], verbs: [get, list, watch]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: %[1]s}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[1]s}, subjects: [{kind: User, name: %[1]s}]}
`
	client.Apply(fmt.Sprintf(role, ns, ""))
	client.Apply(fmt.Sprintf(`
{apiVersion: v1, kind: Endpoints, metadata: {name: quote, namespace: %[1]s}, subsets: [{addresses: [{ip: 10.9.8.7}], ports: [{name: http, port: 8080}]}]}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: quote-1, namespace: %[1]s, labels: {kubernetes.io/service-name: quote}}, addressType: IPv4, ports: [{name: http, port: 8080}], endpoints: [{addresses: [10.9.8.6]}]}
`, ns))
	config := c.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: ns}
	client.Allows(ns, "", "watch", "", "endpoints")
	var looks atomic.Int64
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return lateSlices{next, &looks, time.Now().Add(5 * time.Second)}
	})
	w := start(t, kube.Options{Config: config})
	endpoints := func(s *snapshot.Snapshot) string {
		var all []string
		for o := range s.EndpointSlices(ns, "quote") {
			all = append(all, o.Kind+" "+o.Spec.(*snapshot.EndpointSlice).Endpoints[0].Addresses[0])
		}
		return strings.Join(all, ", ")
	}
	w.until("Endpoints are read", func(s *snapshot.Snapshot) bool { return endpoints(s) == "Endpoints 10.9.8.7" })
	forbidden := func(s *snapshot.Snapshot) bool {
		for _, d := range s.Findings() {
			if d.Code.ID == "CH-KUBE-001" && d.Object.Kind == "EndpointSlice" {
				return true
			}
		}
		return false
	}
	if !forbidden(w.now()) {
		t.Errorf("no finding says so: %v", w.now().Findings())
	}
	client.Apply(fmt.Sprintf(role, ns, `{apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [get, list, watch]},`))
	w.until("EndpointSlices are read", func(s *snapshot.Snapshot) bool { return endpoints(s) == "EndpointSlice 10.9.8.6" && !forbidden(s) })
	for i, s := range w.since(0) {
		if endpoints(s) == "" {
			t.Errorf("snapshot %d has no endpoints", i)
		}
	}
}
