package kube_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
	"github.com/chancery-gateway/chancery/snapshot/kube"
	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

// definitions are the CRDs of the install.
func definitions(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "runtime", "deploy", "crds.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// watching is a source under way.
type watching struct {
	*kube.Source
	t   testing.TB
	mu  sync.Mutex
	all []*snapshot.Snapshot
	log *bytes.Buffer
}

func start(t testing.TB, o kube.Options) *watching {
	t.Helper()
	w := &watching{t: t, log: &bytes.Buffer{}}
	o.Logger = slog.New(slog.NewTextHandler(&locked{w: w}, nil))
	s, err := kube.New(o)
	if err != nil {
		t.Fatal(err)
	}
	w.Source = s
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- s.Run(ctx, func(s *snapshot.Snapshot) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.all = append(w.all, s)
		})
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Error("the source does not end")
		}
		if t.Failed() {
			t.Logf("log:\n%s", w.log.String())
		}
	})
	return w
}

type locked struct{ w *watching }

func (l *locked) Write(p []byte) (int, error) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return l.w.log.Write(p)
}

// since returns the snapshots that were delivered after the first n.
func (w *watching) since(n int) []*snapshot.Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.all[n:])
}

// delivered returns how many snapshots there were.
func (w *watching) delivered() int { return len(w.since(0)) }

// now returns the newest snapshot, nil before the first.
func (w *watching) now() *snapshot.Snapshot {
	all := w.since(0)
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1]
}

// first waits for the first snapshot.
func (w *watching) first() *snapshot.Snapshot {
	w.t.Helper()
	w.until("the first snapshot", func(*snapshot.Snapshot) bool { return true })
	return w.since(0)[0]
}

// patience is how long tests wait for what must come about.
const patience = 2 * time.Minute

// until waits for a snapshot of which ok holds.
func (w *watching) until(what string, ok func(*snapshot.Snapshot) bool) time.Duration {
	w.t.Helper()
	return kubetest.Eventually(w.t, patience, what, func(context.Context) bool { s := w.now(); return s != nil && ok(s) })
}

func mapping(s *snapshot.Snapshot, namespace, name string) *v3alpha1.MappingSpec {
	o := s.Get(v3alpha1.KindMapping, namespace, name)
	if o == nil {
		return nil
	}
	return o.Spec.(*v3alpha1.MappingSpec)
}

// beds counts the namespaces of tests: what one has left behind, such as a role, is nothing to its next run.
var beds atomic.Int64

// bed returns an administrator's client with the definitions in place, and a namespace of the test's own.
func bed(t testing.TB) (*kubetest.Cluster, *kubetest.Client, string) {
	t.Helper()
	c := kubetest.Shared(t)
	client := kubetest.NewClient(t, c.Config())
	client.Apply(definitions(t))
	ns := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name())) + fmt.Sprint("-", beds.Add(1))
	client.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + ns + ", labels: {team: x}}}")
	return c, client, ns
}

const oneMapping = `
apiVersion: getambassador.io/v3alpha1
kind: Mapping
metadata: {name: %s, namespace: %s}
spec: {hostname: "*", prefix: %s, service: quote}
`

func TestObjectsOfAllKindsArrive(t *testing.T) {
	c, client, ns := bed(t)
	client.Apply(fmt.Sprintf(oneMapping, "before", ns, "/before/"))
	w := start(t, kube.Options{Config: c.Config()})
	if mapping(w.first(), ns, "before") == nil {
		t.Error("the first snapshot lacks what was there")
	}
	client.Apply(fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata:
  name: quote
  namespace: %[1]s
  annotations:
    getambassador.io/config: |
      ---
      apiVersion: ambassador/v2
      kind: Mapping
      name: annotated
      prefix: /annotated/
      service: https://quote
      tls: true
spec: {ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: quote-1, namespace: %[1]s, labels: {kubernetes.io/service-name: quote}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints: [{addresses: [10.1.2.3], zone: a, nodeName: n, conditions: {ready: true, serving: true, terminating: false}}]
---
apiVersion: v1
kind: Secret
metadata: {name: certificate, namespace: %[1]s}
type: Opaque
stringData: {tls.crt: c, tls.key: k, password: never}
---
apiVersion: v1
kind: Secret
metadata: {name: release, namespace: %[1]s}
type: helm.sh/release.v1
stringData: {release: large}
---
apiVersion: getambassador.io/v2
kind: Mapping
metadata: {name: second, namespace: %[1]s}
spec: {host: old.example.com, prefix: /second/, service: quote, tls: true, headers: {x-a: true, x-b: b}}
---
apiVersion: getambassador.io/v1
kind: Mapping
metadata: {name: first, namespace: %[1]s}
spec: {prefix: /first/, service: quote}
---
apiVersion: getambassador.io/v2
kind: Host
metadata: {name: host, namespace: %[1]s}
spec: {hostname: a.example.com, selector: {matchLabels: {a: b}}, tlsSecret: {name: certificate}}
`, ns))
	w.until("all objects", func(s *snapshot.Snapshot) bool {
		return mapping(s, ns, "annotated") != nil && mapping(s, ns, "second") != nil && mapping(s, ns, "first") != nil &&
			s.Get(v3alpha1.KindHost, ns, "host") != nil && s.Get(snapshot.KindSecret, ns, "certificate") != nil && s.Get(snapshot.KindEndpointSlice, ns, "quote-1") != nil
	})
	s := w.now()
	second := mapping(s, ns, "second")
	if second.Hostname != "old.example.com" || second.Service != "https://quote" || second.RegexHeaders["x-a"] != ".*" || second.Headers["x-b"] != "b" {
		t.Errorf("a Mapping of v2 became %+v", second)
	}
	if m := mapping(s, ns, "first"); m.Hostname != "*" {
		t.Errorf("a Mapping of v1 has the host name %q", m.Hostname)
	}
	if m := mapping(s, ns, "annotated"); m.Service != "https://quote" || s.Get(v3alpha1.KindMapping, ns, "annotated").Parent.Name != "quote" {
		t.Errorf("a Mapping in an annotation became %+v", m)
	}
	if h := s.Get(v3alpha1.KindHost, ns, "host").Spec.(*v3alpha1.HostSpec); h.MappingSelector == nil || h.MappingSelector.MatchLabels["a"] != "b" {
		t.Errorf("a Host of v2 became %+v", h)
	}
	if d := s.Get(snapshot.KindSecret, ns, "certificate").Spec.(*snapshot.Secret).Data; len(d) != 2 {
		t.Errorf("the Secret keeps %d values, not the 2 that are read", len(d))
	}
	if s.Get(snapshot.KindSecret, ns, "release") != nil {
		t.Error("a Secret of a type that nobody reads is kept")
	}
	slice := s.Get(snapshot.KindEndpointSlice, ns, "quote-1")
	if e := slice.Spec.(*snapshot.EndpointSlice); e.Service != "quote" || e.Endpoints[0].Zone != "a" || bytes.Contains(slice.Raw, []byte("nodeName")) {
		t.Errorf("the slice became %+v, %s", e, slice.Raw)
	}
	if o := s.Get(v3alpha1.KindMapping, ns, "second"); o.UID == "" || o.Created.IsZero() || bytes.Contains(o.Raw, []byte("managedFields")) {
		t.Errorf("metadata became %+v", o)
	}
	for _, d := range s.Findings() {
		if d.Object.Namespace == ns {
			t.Errorf("unexpected: %s", d)
		}
	}

	t.Run("update and delete", func(t *testing.T) {
		took := time.Now()
		client.Apply(fmt.Sprintf(oneMapping, "before", ns, "/after/"))
		w.until("the update", func(s *snapshot.Snapshot) bool { return mapping(s, ns, "before").Prefix == "/after/" })
		t.Logf("update seen after %s, the request included", time.Since(took))
		client.Delete(fmt.Sprintf(oneMapping, "before", ns, "/"))
		w.until("the deletion", func(s *snapshot.Snapshot) bool { return mapping(s, ns, "before") == nil })
		client.Delete("{apiVersion: v1, kind: Service, metadata: {name: quote, namespace: " + ns + "}}")
		w.until("the annotation is gone with its Service", func(s *snapshot.Snapshot) bool { return mapping(s, ns, "annotated") == nil })
	})
	t.Run("a change of status or managed fields is no change", func(t *testing.T) {
		n := w.delivered()
		before := w.now()
		o := kubetest.Objects(t, []byte("{apiVersion: getambassador.io/v3alpha1, kind: Mapping, metadata: {name: second, namespace: "+ns+"}, status: {state: Running}}"))[0]
		if err := client.PatchStatus(o); err != nil {
			t.Fatal(err)
		}
		client.Apply(fmt.Sprintf(oneMapping, "next", ns, "/next/")) // comes after it by the same watch
		w.until("the next change", func(s *snapshot.Snapshot) bool { return mapping(s, ns, "next") != nil })
		for _, s := range w.since(n) {
			for _, c := range s.Changes(before) {
				if c.Ref().Namespace == ns && c.Ref().Name != "next" {
					t.Errorf("a snapshot with a change of %s", c.Ref())
				}
			}
		}
	})
}

func TestWrongObjectKeepsItsLastGoodForm(t *testing.T) {
	c, client, ns := bed(t)
	w := start(t, kube.Options{Config: c.Config()})
	v2 := "{apiVersion: getambassador.io/v2, kind: Mapping, metadata: {name: m, namespace: " + ns + "}, spec: {prefix: %s, service: q, tls: %s}}"
	// An API server whose judgement of applies goes by its newest schema refuses the wrong value there; a replacement is
	// judged by the definition, which leaves the field open.
	bad := func() {
		t.Helper()
		o := kubetest.Objects(t, fmt.Appendf(nil, v2, "/bad/", "[no text]"))[0]
		of := client.Of(o)
		is, err := of.Get(t.Context(), o.GetName(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		is.Object["spec"] = o.Object["spec"]
		if _, err := of.Update(t.Context(), is, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	client.Apply(fmt.Sprintf(v2, "/good/", "true"))
	w.until("the good one", func(s *snapshot.Snapshot) bool { return mapping(s, ns, "m") != nil })
	bad()
	w.until("the finding", func(s *snapshot.Snapshot) bool {
		var wrong, kept bool
		for _, d := range s.Findings() {
			if d.Object.Namespace == ns {
				wrong = wrong || d.Severity == snapshot.Error && d.Path == "spec.tls"
				kept = kept || d.Code.ID == "CH-KUBE-004"
			}
		}
		return wrong && kept && mapping(s, ns, "m").Prefix == "/good/"
	})
	client.Apply(fmt.Sprintf(v2, "/better/", "true"))
	w.until("the better one", func(s *snapshot.Snapshot) bool { return mapping(s, ns, "m").Prefix == "/better/" })
	bad()
	client.Delete(fmt.Sprintf(v2, "/", "true"))
	w.until("the deletion", func(s *snapshot.Snapshot) bool { return mapping(s, ns, "m") == nil })
}

func TestObjectOfItsOwnCountsBeforeAnnotations(t *testing.T) {
	c, client, ns := bed(t)
	w := start(t, kube.Options{Config: c.Config(), Namespace: ns})
	service := `
apiVersion: v1
kind: Service
metadata:
  name: %s
  namespace: %s
  annotations: {getambassador.io/config: "{apiVersion: getambassador.io/v3alpha1, kind: Mapping, name: m, hostname: '*', prefix: /%s/, service: q}"}
spec: {ports: [{port: 80}]}
`
	client.Apply(fmt.Sprintf(service, "b", ns, "b") + "---" + fmt.Sprintf(service, "a", ns, "a"))
	is := func(prefix string, duplicates int) func(*snapshot.Snapshot) bool {
		return func(s *snapshot.Snapshot) bool {
			n := 0
			for _, d := range s.Findings() {
				if d.Code.ID == "CH-KUBE-003" {
					n++
				}
			}
			m := mapping(s, ns, "m")
			return m != nil && m.Prefix == prefix && n == duplicates
		}
	}
	w.until("that of the first Service", is("/a/", 1))
	client.Apply(fmt.Sprintf(oneMapping, "m", ns, "/own/"))
	w.until("the Mapping of its own", is("/own/", 2))
	client.Delete(fmt.Sprintf(oneMapping, "m", ns, "/own/"))
	client.Delete("{apiVersion: v1, kind: Service, metadata: {name: a, namespace: " + ns + "}}")
	w.until("that of the second Service", is("/b/", 0))
}

func TestSelectorsAndSingleNamespace(t *testing.T) {
	c, client, ns := bed(t)
	client.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + ns + "-other}}")
	labelled := "{apiVersion: getambassador.io/v3alpha1, kind: Mapping, metadata: {name: labelled, namespace: " + ns + ", labels: {gateway: mine}}, spec: {hostname: '*', prefix: /l/, service: q}}"
	client.Apply(fmt.Sprintf(oneMapping, "m", ns, "/m/") + "---" + fmt.Sprintf(oneMapping, "m", ns+"-other", "/m/") + "---\n" + labelled)
	for name, x := range map[string]struct {
		options kube.Options
		want    []bool // m, m in the other namespace, labelled
	}{
		"everything":       {kube.Options{}, []bool{true, true, true}},
		"single namespace": {kube.Options{Namespace: ns}, []bool{true, false, true}},
		"label":            {kube.Options{LabelSelector: "gateway=mine"}, []bool{false, false, true}},
		"field":            {kube.Options{FieldSelector: "metadata.namespace!=" + ns}, []bool{false, true, false}},
	} {
		t.Run(name, func(t *testing.T) {
			o := x.options
			o.Config = c.Config()
			s := start(t, o).first()
			got := []bool{mapping(s, ns, "m") != nil, mapping(s, ns+"-other", "m") != nil, mapping(s, ns, "labelled") != nil}
			if fmt.Sprint(got) != fmt.Sprint(x.want) {
				t.Errorf("got %v, not %v", got, x.want)
			}
			for _, d := range s.Findings() {
				if strings.HasPrefix(d.Code.ID, "CH-KUBE-") {
					t.Errorf("unexpected: %s", d)
				}
			}
			if namespace := s.Get(snapshot.KindNamespace, "", ns); (namespace != nil) != (o.Namespace == "") {
				t.Errorf("the namespace is %v", namespace)
			}
		})
	}
}
