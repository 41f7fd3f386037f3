package deploy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
	"github.com/chancery-gateway/chancery/snapshot/porttest"
)

// warnings collects what the API server warns of.
type warnings struct {
	mu  sync.Mutex
	all []string
}

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, text)
}

func (w *warnings) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := strings.Join(w.all, "\n")
	w.all = nil
	return all
}

// hook has the program asked about everything in one namespace; nothing is let through that it has not seen.
const hook = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: chancery}
webhooks:
- name: admission.chancery.dev
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  matchPolicy: Exact
  timeoutSeconds: 30
  clientConfig: {url: "https://127.0.0.1:%[1]d/webhooks/admission"}
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[2]s}}
  rules:
  - {apiGroups: [getambassador.io, chancery.dev], apiVersions: ["*"], operations: [CREATE, UPDATE, DELETE], resources: ["*"], scope: Namespaced}
  - {apiGroups: [networking.k8s.io], apiVersions: ["*"], operations: [CREATE, UPDATE, DELETE], resources: [ingresses], scope: Namespaced}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: chancery}
webhooks:
- name: mutation.chancery.dev
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  matchPolicy: Exact
  reinvocationPolicy: IfNeeded
  timeoutSeconds: 30
  clientConfig: {url: "https://127.0.0.1:%[1]d/webhooks/mutation"}
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[2]s}}
  rules: [{apiGroups: [getambassador.io, chancery.dev], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: ["*"], scope: Namespaced}]
`

// author applies objects whose admission a running program is asked about.
type author struct {
	*kubetest.Client
	t      testing.TB
	ns     string
	hook   string
	warned *warnings
}

// guarded starts the program as a webhook for the namespace, and waits until the API server asks it.
func guarded(t *testing.T, c *kubetest.Cluster, client *kubetest.Client, ns string, port int, args ...string) (*gateway, *author) {
	t.Helper()
	at := porttest.Free(t, 1)[0]
	g := entrypoint(t, c.Config(), port, append([]string{"--namespace", ns, "--single-namespace", "--webhook-address", fmt.Sprintf("127.0.0.1:%d", at)}, args...)...)
	g.ready()
	return g, guard(t, c, client, ns, at)
}

// guard lets the API server ask the program that listens on the port about all of the namespace.
func guard(t *testing.T, c *kubetest.Cluster, client *kubetest.Client, ns string, at int) *author {
	t.Helper()
	a := &author{t: t, ns: ns, hook: fmt.Sprintf(hook, at, ns), warned: &warnings{}}
	client.Apply(a.hook)
	t.Cleanup(func() { client.Delete(a.hook) })
	config := c.Config()
	config.WarningHandler = a.warned
	a.Client = kubetest.NewClient(t, config)
	a.asks()
	return a
}

// asks waits until the API server asks. Until the program has written its authority into the configuration, it is not believed.
func (a *author) asks() {
	a.t.Helper()
	kubetest.Eventually(a.t, patience, "the API server asks", func(context.Context) bool {
		_, err := a.try(a.object("v3alpha1", "Mapping", "probe", `hostname: "*", prefix: "/(", prefix_regex: true, service: s`))
		return err != nil && strings.Contains(err.Error(), "CH-MAPPING-002")
	})
	a.warned.take()
}

func (a *author) object(version, kind, name, spec string) *unstructured.Unstructured {
	return kubetest.Objects(a.t, fmt.Appendf(nil, "{apiVersion: getambassador.io/%s, kind: %s, metadata: {name: %s, namespace: %s}, spec: {%s}}", version, kind, name, a.ns, spec))[0]
}

// try applies an object without storing it, and returns the warnings.
func (a *author) try(o *unstructured.Unstructured) (string, error) {
	a.t.Helper()
	a.warned.take()
	body, err := json.Marshal(o)
	if err != nil {
		a.t.Fatal(err)
	}
	force := true
	_, err = a.Of(o).Patch(a.t.Context(), o.GetName(), types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: "kubetest", Force: &force, DryRun: []string{"All"}})
	return a.warned.take(), err
}

func TestAdmission(t *testing.T) {
	c, client, ns, port := bed(t)
	_, author := guarded(t, c, client, ns, port)
	mapping := func(version, name, spec string) *unstructured.Unstructured {
		return author.object(version, "Mapping", name, spec)
	}
	for _, x := range []struct {
		name, version, spec string
		refused, warned     string
	}{
		{"good", "v3alpha1", `hostname: "*", prefix: /a/, service: "http://127.0.0.1:1"`, "", ""},
		{"good v2", "v2", `prefix: /b/, service: "127.0.0.1:1", headers: {a: true}`, "", ""},
		{"regex", "v3alpha1", `hostname: "*", prefix: "/(", prefix_regex: true, service: "http://127.0.0.1:1"`, "CH-MAPPING-002", ""},
		{"type in v2", "v2", `prefix: [/c/], service: s`, ".spec.prefix", ""},
		{"typing mistake", "v3alpha1", `hostname: "*", prefix: /d/, prefx: /, service: "http://127.0.0.1:1"`, "", `unknown field "prefx"`},
	} {
		t.Run(x.name, func(t *testing.T) {
			o := mapping(x.version, strings.ReplaceAll(x.name, " ", "-"), x.spec)
			said, err := author.try(o)
			_, again := author.TryApply(o)
			for _, err := range []error{err, again} {
				if x.refused == "" && err != nil || x.refused != "" && (err == nil || !strings.Contains(err.Error(), x.refused)) {
					t.Errorf("the answer is %v, not %q", err, x.refused)
				}
			}
			if x.refused != "" {
				return
			}
			said, summed, _ := strings.Cut(said, "Mapping/"+ns+"/"+o.GetName()+": would ")
			if !strings.Contains(said, x.warned) || x.warned == "" && said != "" || summed != "add 1, change 0 and remove 0 routes; no connection would be drained" {
				t.Errorf("the warnings are %q and %q, not %q", said, summed, x.warned)
			}
			if said := author.warned.take(); !strings.Contains(said, x.warned) || x.warned == "" && said != "" {
				t.Errorf("the warnings of what is stored are %q, not %q", said, x.warned)
			}
		})
	}
	t.Run("labels of a wrong object may change", func(t *testing.T) {
		// One that was stored before the webhook was there.
		client.Delete(author.hook)
		wrong := mapping("v3alpha1", "wrong", `hostname: "*", prefix: "/(", prefix_regex: true, service: s`)
		kubetest.Eventually(t, patience, "it is stored", func(context.Context) bool {
			_, err := client.TryApply(wrong)
			return err == nil
		})
		kubetest.Eventually(t, patience, "its status says what is wrong", func(context.Context) bool { return state(t, client, "Mapping", ns, "wrong") == "Inactive" })
		client.Apply(author.hook)
		author.asks()
		patch := []byte(`{"metadata": {"labels": {"a": "b"}}}`)
		if _, err := author.Of(wrong).Patch(t.Context(), "wrong", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Error(err)
		}
	})
}

var _ rest.WarningHandler = (*warnings)(nil)
