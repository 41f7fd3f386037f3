package kube_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
	"github.com/chancery-gateway/chancery/snapshot/kube"
	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
)

func codes(s *snapshot.Snapshot) string {
	var all []string
	for _, d := range s.Findings() {
		if strings.HasPrefix(d.Code.ID, "CH-KUBE-") {
			all = append(all, d.Code.ID+" "+d.Object.Kind)
		}
	}
	return strings.Join(all, ", ")
}

// alone is a cluster of the test's own, since the test breaks it, or its API server has other flags. Such a test, which waits most
// of its time, runs beside others of the kind.
func alone(t *testing.T, flags ...string) (*kubetest.Cluster, *kubetest.Client) {
	t.Helper()
	t.Parallel()
	kubetest.Shared(t) // skips where there are no servers
	c, err := kubetest.Start(flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, kubetest.NewClient(t, c.Config())
}

func TestKindsComeAndGo(t *testing.T) {
	c, client := alone(t)
	w := start(t, kube.Options{Config: c.Config()})
	w.until("a first snapshot without any custom resource", func(s *snapshot.Snapshot) bool { return s.Len(snapshot.KindNamespace) > 0 })
	client.Apply(definitions(t))
	begun := time.Now()
	client.Apply(fmt.Sprintf(oneMapping, "m", "default", "/m/"))
	w.until("the Mapping", func(s *snapshot.Snapshot) bool { return mapping(s, "default", "m") != nil })
	n := w.delivered()
	t.Logf("a Mapping of a new kind is there after %s", time.Since(begun))

	const ours = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.chancery.dev}
spec:
  group: chancery.dev
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions: [{name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`
	const widget = "{apiVersion: chancery.dev/v1alpha1, kind: Widget, metadata: {name: w, namespace: default}, spec: {a: b}}"
	kindWidget := snapshot.GroupKind{Group: "chancery.dev", Kind: "Widget"}
	client.Apply(ours)
	client.Apply(widget)
	w.until("a kind of chancery.dev", func(s *snapshot.Snapshot) bool { return s.Len(kindWidget) == 1 })
	client.Delete(ours)
	w.until("it is gone with its definition", func(s *snapshot.Snapshot) bool { return s.Len(kindWidget) == 0 && codes(s) == "" })

	// A definition that is lost, and not deleted, must not take the routes with it.
	if err := c.Wipe("/registry/apiextensions.k8s.io/customresourcedefinitions/mappings.getambassador.io"); err != nil {
		t.Fatal(err)
	}
	w.until("the loss is reported, and the Mapping stays", func(s *snapshot.Snapshot) bool {
		return codes(s) == "CH-KUBE-002 Mapping" && mapping(s, "default", "m") != nil
	})
	client.Apply(definitions(t))
	w.until("all is well again", func(s *snapshot.Snapshot) bool { return codes(s) == "" })
	for _, s := range w.since(n) {
		if mapping(s, "default", "m") == nil {
			t.Error("a snapshot lacked the Mapping on the way")
		}
	}
	client.Delete(fmt.Sprintf(oneMapping, "m", "default", "/m/"))
	w.until("its deletion after all that", func(s *snapshot.Snapshot) bool { return mapping(s, "default", "m") == nil })
}

func TestOutagesTakeNothingAway(t *testing.T) {
	c, client := alone(t)
	client.Apply(definitions(t))
	for i := range 50 {
		client.Apply(fmt.Sprintf(oneMapping, fmt.Sprintf("m%d", i), "default", fmt.Sprintf("/%d/", i)))
	}
	w := start(t, kube.Options{Config: c.Config()})
	w.until("all", func(s *snapshot.Snapshot) bool { return s.Len(v3alpha1.KindMapping) == 50 })
	n := w.delivered()
	for range 2 {
		c.KillAPIServer()
		kubetest.Eventually(t, patience, "the outage is noticed", func(context.Context) bool { return w.Outage() > 0 })
		time.Sleep(2 * time.Second)
		if err := c.StartAPIServer(); err != nil {
			t.Fatal(err)
		}
		took := kubetest.Eventually(t, patience, "the outage is over", func(context.Context) bool { return w.Outage() == 0 })
		t.Logf("watching again %s after the API server was ready", took)
	}
	client.Apply(fmt.Sprintf(oneMapping, "late", "default", "/late/"))
	took := w.until("a Mapping made afterwards", func(s *snapshot.Snapshot) bool { return mapping(s, "default", "late") != nil })
	t.Logf("a Mapping made afterwards was seen after %s", took)
	var before *snapshot.Snapshot
	for _, s := range w.since(n - 1) {
		if s.Len(v3alpha1.KindMapping) < 50 || codes(s) != "" {
			t.Errorf("a snapshot with %d Mappings and %q", s.Len(v3alpha1.KindMapping), codes(s))
		}
		if before != nil {
			for _, c := range s.Changes(before) {
				if c.Ref().GroupKind() == v3alpha1.KindMapping && c.Ref().Name != "late" {
					t.Errorf("the outages changed %s", c.Ref())
				}
			}
		}
		before = s
	}
}

func TestAbsentAPIServerAtStart(t *testing.T) {
	c, client := alone(t)
	client.Apply(definitions(t))
	client.Apply(fmt.Sprintf(oneMapping, "m", "default", "/m/"))
	c.KillAPIServer()
	w := start(t, kube.Options{Config: c.Config()})
	kubetest.Eventually(t, patience, "the outage is noticed", func(context.Context) bool { return w.Outage() > 0 })
	if w.now() != nil {
		t.Error("a snapshot of nothing was delivered")
	}
	if err := c.StartAPIServer(); err != nil {
		t.Fatal(err)
	}
	if s := w.first(); mapping(s, "default", "m") == nil || codes(s) != "" {
		t.Errorf("the first snapshot has %d Mappings and the findings %q", s.Len(v3alpha1.KindMapping), codes(s))
	}
}

func TestTokenThatIsNotTaken(t *testing.T) {
	c := kubetest.Shared(t)
	config := c.Config()
	config.BearerToken = "expired"
	w := start(t, kube.Options{Config: config})
	kubetest.Eventually(t, patience, "the outage is noticed", func(context.Context) bool { return w.Outage() > 0 })
	time.Sleep(4 * time.Second)
	if w.now() != nil {
		t.Error("a snapshot of nothing was delivered")
	}
}

func TestForbiddenKinds(t *testing.T) {
	c, client, ns := bed(t)
	role := `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: %[1]s}
rules:
- {apiGroups: [""], resources: [services, namespaces, secrets], verbs: [get, list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [get, list, watch]}
- {apiGroups: [networking.k8s.io], resources: [ingressclasses, ingresses], verbs: [get, list, watch]}
- {apiGroups: [getambassador.io], resources: [%[2]s], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[1]s}
subjects: [{kind: User, name: %[1]s, apiGroup: rbac.authorization.k8s.io}]
`
	var names []string
	for _, r := range kube.Resources() {
		if r.Group == snapshot.EmissaryGroup && r.Kind != "Mapping" {
			names = append(names, r.Name)
		}
	}
	client.Apply(fmt.Sprintf(role, ns, strings.Join(names, ", ")))
	client.Apply(fmt.Sprintf(oneMapping, "m", ns, "/m/"))
	config := c.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: ns}
	begun := time.Now()
	w := start(t, kube.Options{Config: config, Rescan: time.Second})
	w.until("a first snapshot that names the kind", func(s *snapshot.Snapshot) bool { return codes(s) == "CH-KUBE-001 Mapping" })
	if took := time.Since(begun); took < 2*time.Second {
		t.Errorf("a refusal was believed after %s; an API server that has just started refuses too", took)
	}
	for _, d := range w.now().Findings() {
		if d.Severity != snapshot.Error || !strings.Contains(d.Message, "mappings.getambassador.io") || !strings.Contains(d.Message, ns) {
			t.Errorf("the finding is %s", d)
		}
	}
	client.Apply(fmt.Sprintf(role, ns, strings.Join(append(names, "mappings"), ", ")))
	took := w.until("the Mapping once it may be read", func(s *snapshot.Snapshot) bool { return mapping(s, ns, "m") != nil && codes(s) == "" })
	t.Logf("read %s after it was allowed", took)
}

func TestCoalescing(t *testing.T) {
	c, client, ns := bed(t)
	w := start(t, kube.Options{Config: c.Config(), Namespace: ns})
	w.first()
	begun, n := time.Now(), w.delivered()
	client.Apply(fmt.Sprintf(oneMapping, "m0", ns, "/0/"))
	w.until("the first of many", func(s *snapshot.Snapshot) bool { return mapping(s, ns, "m0") != nil })
	t.Logf("the first change after quiet took %s, the request included", time.Since(begun))
	for i := range 300 {
		client.Apply(fmt.Sprintf(oneMapping, fmt.Sprintf("m%d", i), ns, fmt.Sprintf("/x%d/", i)))
	}
	w.until("all of them", func(s *snapshot.Snapshot) bool { return s.Len(v3alpha1.KindMapping) == 300 })
	extra, took := w.delivered()-n, time.Since(begun)
	if most := int(took/(100*time.Millisecond)) + 6; extra > most { // the first five may come at once, and the last ends no interval
		t.Errorf("%d snapshots in %s, more than %d", extra, took, most)
	} else {
		t.Logf("%d snapshots for 301 changes in %s", extra, took)
	}
	if err := client.Resource(schema.GroupVersionResource{Group: snapshot.EmissaryGroup, Version: "v3alpha1", Resource: "mappings"}).Namespace(ns).
		DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	w.until("none", func(s *snapshot.Snapshot) bool { return s.Len(v3alpha1.KindMapping) == 0 })
}
