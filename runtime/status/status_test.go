package status_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/chancery-gateway/chancery/runtime/deploy"
	"github.com/chancery-gateway/chancery/runtime/proof"
	"github.com/chancery-gateway/chancery/runtime/status"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
	"github.com/chancery-gateway/chancery/snapshot/kube"
	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/emissary"
	"github.com/chancery-gateway/chancery/translators/ingress"
	"github.com/chancery-gateway/chancery/translators/ir"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

// replica is a source and a writer, without a compiler in between: the findings are the source's own, and more.
type replica struct {
	*status.Writer
	more chan []snapshot.Diagnostic
	kill context.CancelFunc
}

func start(t *testing.T, c *kubetest.Cluster, ns, identity string) *replica {
	t.Helper()
	return startFor(t, c, "default", ns, ns, identity)
}

// startFor starts a replica of an installation that watches one namespace, "" for all, and runs in another.
func startFor(t *testing.T, c *kubetest.Cluster, id, watched, ns, identity string) *replica {
	t.Helper()
	return startAs(t, c, c.Config(), id, watched, ns, identity)
}

// startAs starts a replica whose writer comes to the API server with a configuration of its own.
func startAs(t *testing.T, c *kubetest.Cluster, writer *rest.Config, id, watched, ns, identity string) *replica {
	t.Helper()
	return startWith(t, c, watched, status.Options{Config: writer, ID: id, Namespace: ns, Identity: identity})
}

// newWriter returns a writer that has not begun.
func newWriter(t *testing.T, o status.Options) *status.Writer {
	t.Helper()
	o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	w, err := status.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// startWith starts a replica with options of the test's own.
func startWith(t *testing.T, c *kubetest.Cluster, watched string, o status.Options) *replica {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	source, err := kube.New(kube.Options{Config: c.Config(), Namespace: watched, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	o.Lease = 30 * time.Second // a leader that ends in order leaves it at once; none loses it where the machine is slow
	w := newWriter(t, o)
	r := &replica{Writer: w, more: make(chan []snapshot.Diagnostic)}
	ctx, cancel := context.WithCancel(context.Background())
	r.kill = cancel
	snapshots := make(chan *snapshot.Snapshot, 1)
	ended := make(chan error, 2)
	go func() { ended <- source.Run(ctx, func(s *snapshot.Snapshot) { snapshots <- s }) }()
	go func() { ended <- w.Run(ctx) }()
	go func() {
		s, more := snapshot.Empty(), []snapshot.Diagnostic(nil)
		for {
			select {
			case <-ctx.Done():
				return
			case s = <-snapshots:
			case more = <-r.more:
			}
			w.Observe(status.Observation{Snapshot: s, Findings: append(append([]snapshot.Diagnostic{}, s.Findings()...), more...), Program: program(s, o)})
		}
	}()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			select {
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
			case <-snapshots: // it may have one more to deliver
				<-ended
			}
		}
	})
	return r
}

// program is what is served of a snapshot on a Listener, for whom Ingresses matter.
func program(s *snapshot.Snapshot, o status.Options) *ir.Program {
	if s.Len(ingress.Kind) == 0 {
		return nil
	}
	f := emissary.New(emissary.Options{AmbassadorID: o.ID, Namespace: o.Namespace})
	c := translators.New(translators.Options{FrontEnds: []translators.FrontEnd{f, ingress.New(f)}})
	l, _ := api.Decode(fmt.Appendf(nil, `{"apiVersion": "getambassador.io/v3alpha1", "kind": "Listener", "metadata": {"name": "l"},
		"spec": {"ambassador_id": [%q], "port": 8080, "protocol": "HTTP", "securityModel": "XFP", "hostBinding": {"namespace": {"from": "ALL"}}}}`, o.ID), snapshot.Source{}, nil)
	return c.Compile(s.Derive([]*snapshot.Object{l}, nil, nil)).Program
}

func bed(t *testing.T) (*kubetest.Cluster, *kubetest.Client, string) {
	t.Helper()
	c := kubetest.Shared(t)
	client := kubetest.NewClient(t, c.Config())
	client.Apply(string(deploy.CRDs))
	ns := fmt.Sprint(strings.ToLower(t.Name()), "-", beds.Add(1))
	client.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + ns + "}}")
	return c, client, ns
}

var mappings = schema.GroupVersionResource{Group: snapshot.EmissaryGroup, Version: "v3alpha1", Resource: "mappings"}

// statusOf returns an object's status, nil while it has none.
func statusOf(t testing.TB, c *kubetest.Client, kind, ns, name string) map[string]any {
	t.Helper()
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(v3alpha1.APIVersion)
	o.SetKind(kind)
	o.SetNamespace(ns)
	got, err := c.Of(o).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := got.Object["status"].(map[string]any)
	return s
}

// condition returns "status reason observedGeneration message" of a condition.
func condition(s map[string]any, kind string) string {
	list, _ := s["conditions"].([]any)
	for _, c := range list {
		if m := c.(map[string]any); m["type"] == kind {
			return strings.TrimSpace(fmt.Sprint(m["status"], " ", m["reason"], " ", m["observedGeneration"], " ", m["message"]))
		}
	}
	return ""
}

func TestWhatAuthorsRead(t *testing.T) {
	c, client, ns := bed(t)
	r := start(t, c, ns, "one")
	client.Apply(fmt.Sprintf(`
{apiVersion: getambassador.io/v3alpha1, kind: Mapping, metadata: {name: good, namespace: %[1]s}, spec: {hostname: "*", prefix: /a/, service: a}}
---
{apiVersion: getambassador.io/v3alpha1, kind: Mapping, metadata: {name: other, namespace: %[1]s}, spec: {ambassador_id: [other], hostname: "*", prefix: /a/, service: a}}
---
{apiVersion: getambassador.io/v2, kind: Mapping, metadata: {name: bad, namespace: %[1]s}, spec: {prefix: "", service: a}}
---
{apiVersion: getambassador.io/v2, kind: Mapping, metadata: {name: old, namespace: %[1]s}, spec: {prefix: /old/, service: a, tls: true}}
---
{apiVersion: getambassador.io/v3alpha1, kind: Host, metadata: {name: host, namespace: %[1]s}, spec: {hostname: a.example.com, tlsSecret: {name: x}}}
`, ns))
	is := func(kind, name string, want map[string]string) {
		t.Helper()
		var got string
		kubetest.Eventually(t, patience, kind+" "+name+" is as wanted", func(context.Context) bool {
			s := statusOf(t, client, kind, ns, name)
			got = fmt.Sprint(s)
			for field, text := range want {
				is := condition(s, field)
				if v, legacy := s[field]; legacy {
					is = fmt.Sprint(v)
				}
				if text == "" && is != "" || !strings.HasPrefix(is, text) {
					return false
				}
			}
			return true
		})
		t.Logf("%s %s: %s", kind, name, got)
	}
	is("Mapping", "good", map[string]string{"state": "Running", "reason": "", "Accepted": "True Accepted 1", "Programmed": "True Programmed 1", "observedGeneration": "1"})
	is("Mapping", "bad", map[string]string{"state": "Inactive", "reason": "spec.prefix in body is required", "Accepted": "False Invalid 1 spec.prefix in body is required", "Programmed": "False Invalid 1"})
	is("Mapping", "old", map[string]string{"state": "Running", "Accepted": "True"})
	is("Host", "host", map[string]string{"state": "Ready", "tlsCertificateSource": "Other", "Accepted": "True"})
	if s := statusOf(t, client, "Mapping", ns, "other"); s != nil {
		t.Errorf("an object of another installation got %v", s)
	}

	t.Run("a turn for the worse and back", func(t *testing.T) {
		refused := []snapshot.Diagnostic{{Severity: snapshot.Error, Code: proof.NotAccepted, Message: "Envoy's own words",
			Object: snapshot.Ref{Group: snapshot.EmissaryGroup, Kind: "Mapping", Namespace: ns, Name: "good"}}}
		begun := time.Now()
		r.more <- refused
		is("Mapping", "good", map[string]string{"state": "Inactive", "reason": "Envoy's own words [CH-PROOF-002]", "Accepted": "True Accepted", "Programmed": "False RefusedByEnvoy 1 Envoy's own words"})
		t.Logf("on the object after %s", time.Since(begun))
		r.more <- nil
		is("Mapping", "good", map[string]string{"state": "Running", "reason": "", "Programmed": "True Programmed 1"})
		var all []string
		kubetest.Eventually(t, patience, "two Events", func(ctx context.Context) bool {
			events, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "events"}).Namespace(ns).
				List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=good"})
			if err != nil {
				t.Fatal(err)
			}
			all = nil
			for _, e := range events.Items {
				all = append(all, fmt.Sprint(e.Object["type"], " ", e.Object["reason"], " ", e.Object["message"]))
			}
			return len(all) >= 2
		})
		if len(all) != 2 || !slices.Contains(all, "Warning RefusedByEnvoy Envoy's own words [CH-PROOF-002]") || !slices.Contains(all, "Normal Accepted is in effect") {
			t.Errorf("the Events are %q", all)
		}
	})
	t.Run("conditions of others stay", func(t *testing.T) {
		foreign := fmt.Sprintf(`{apiVersion: getambassador.io/v3alpha1, kind: Mapping, metadata: {name: good, namespace: %s}, status: {conditions: [{type: Scanned, status: "True", reason: Ok, message: fine, lastTransitionTime: "2026-01-01T00:00:00Z"}]}}`, ns)
		if err := client.PatchStatus(kubetest.Objects(t, []byte(foreign))[0]); err != nil {
			t.Fatal(err)
		}
		client.Apply(fmt.Sprintf(`{apiVersion: getambassador.io/v3alpha1, kind: Mapping, metadata: {name: good, namespace: %s}, spec: {hostname: "*", prefix: /b/, service: a}}`, ns))
		is("Mapping", "good", map[string]string{"Scanned": "True Ok", "Accepted": "True Accepted 2", "observedGeneration": "2"})
	})
	t.Run("nothing is written when nothing changed", func(t *testing.T) {
		n := r.Writes()
		r.more <- nil
		r.more <- nil
		client.Apply(fmt.Sprintf(`{apiVersion: getambassador.io/v3alpha1, kind: Mapping, metadata: {name: next, namespace: %s}, spec: {hostname: "*", prefix: /next/, service: a}}`, ns))
		is("Mapping", "next", map[string]string{"state": "Running"})
		if more := r.Writes() - n; more != 1 {
			t.Errorf("%d writes for one new Mapping", more)
		}
	})
}

func TestManyAtOnceAndTheNextLeader(t *testing.T) {
	c, client, ns := bed(t)
	one := start(t, c, ns, "one")
	kubetest.Eventually(t, patience, "a leader", func(context.Context) bool { return one.Leading() })
	two := start(t, c, ns, "two")
	begun := time.Now()
	const many = 1000
	for i := range many {
		client.Apply(fmt.Sprintf(`{apiVersion: getambassador.io/v3alpha1, kind: Mapping, metadata: {name: m%d, namespace: %s}, spec: {hostname: "*", prefix: /%d/, service: a}}`, i, ns, i))
	}
	made := time.Since(begun)
	told := func(ctx context.Context) int {
		list, err := client.Resource(mappings).Namespace(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for i := range list.Items {
			if s, _, _ := unstructured.NestedString(list.Items[i].Object, "status", "state"); s == "Running" {
				n++
			}
		}
		return n
	}
	kubetest.Eventually(t, patience, "all are told", func(ctx context.Context) bool {
		time.Sleep(100 * time.Millisecond)
		return told(ctx) == many
	})
	t.Logf("made in %s, all told after %s, %d writes", made, time.Since(begun), one.Writes())
	if n := one.Writes(); n < many || n > many*11/10 {
		t.Errorf("%d writes for %d Mappings", n, many)
	}
	if two.Writes() != 0 || two.Leading() {
		t.Errorf("the other replica wrote %d times", two.Writes())
	}
	n := one.Writes()
	begun = time.Now()
	one.kill()
	kubetest.Eventually(t, patience, "the other replica leads", func(context.Context) bool { return two.Leading() })
	t.Logf("taken over after %s", time.Since(begun))
	client.Apply(fmt.Sprintf(`{apiVersion: getambassador.io/v3alpha1, kind: Mapping, metadata: {name: late, namespace: %s}, spec: {hostname: "*", prefix: /late/, service: a}}`, ns))
	kubetest.Eventually(t, patience, "the new one is told", func(ctx context.Context) bool { return told(ctx) == many+1 })
	if two.Writes() != 1 || one.Writes() != n {
		t.Errorf("%d and %d writes after the change of leader", two.Writes(), one.Writes()-n)
	}
}

// beds counts the namespaces of tests: what one has left behind, such as a role, is nothing to its next run.
var beds atomic.Int64

// patience is how long tests wait for what must come about.
const patience = 2 * time.Minute
