package deploy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
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
  timeoutSeconds: 5
  clientConfig: {url: "https://127.0.0.1:%[1]d/webhooks/admission"}
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[2]s}}
  rules: [{apiGroups: [getambassador.io], apiVersions: [v1, v2, v3alpha1], operations: [CREATE, UPDATE], resources: ["*"], scope: Namespaced}]
`

func TestAdmission(t *testing.T) {
	c, client, ns, port := bed(t)
	at := freePorts(t, 1)[0]
	g := entrypoint(t, c.Config(), port, "--namespace", ns, "--single-namespace", "--webhook-address", fmt.Sprintf("127.0.0.1:%d", at))
	g.ready()
	text := fmt.Sprintf(hook, at, ns)
	client.Apply(text)
	t.Cleanup(func() { client.Delete(text) })
	warned := &warnings{}
	config := c.Config()
	config.WarningHandler = warned
	author := kubetest.NewClient(t, config)
	mapping := func(version, name, spec string) *unstructured.Unstructured {
		return kubetest.Objects(t, []byte(fmt.Sprintf("{apiVersion: getambassador.io/%s, kind: Mapping, metadata: {name: %s, namespace: %s}, spec: {%s}}", version, name, ns, spec)))[0]
	}
	asks := func() {
		t.Helper()
		// Until the program has written its authority into the configuration, the API server does not believe it.
		kubetest.Eventually(t, 20*time.Second, "the API server asks", func(context.Context) bool {
			_, err := author.TryApply(mapping("v3alpha1", "probe", `hostname: "*", prefix: "/(", prefix_regex: true, service: s`))
			return err != nil && strings.Contains(err.Error(), "CH-MAPPING-002")
		})
	}
	asks()
	for _, x := range []struct {
		name, version, spec string
		refused, warned     string
	}{
		{"good", "v3alpha1", `hostname: "*", prefix: /a/, service: "http://127.0.0.1:1"`, "", ""},
		{"good v2", "v2", `prefix: /b/, service: "127.0.0.1:1", headers: {a: true}`, "", ""},
		{"regex", "v3alpha1", `hostname: "*", prefix: "/(", prefix_regex: true, service: "http://127.0.0.1:1"`, "CH-MAPPING-002", ""},
		{"type in v2", "v2", `prefix: [/c/], service: s`, "spec.prefix", ""},
		{"typing mistake", "v3alpha1", `hostname: "*", prefix: /d/, prefx: /, service: "http://127.0.0.1:1"`, "", `unknown field "prefx"`},
	} {
		t.Run(x.name, func(t *testing.T) {
			warned.take()
			o := mapping(x.version, strings.ReplaceAll(x.name, " ", "-"), x.spec)
			body, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			force := true
			_, err = author.Of(o).Patch(t.Context(), o.GetName(), types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: "t", Force: &force, DryRun: []string{"All"}})
			_, again := author.TryApply(o)
			for _, err := range []error{err, again} {
				if x.refused == "" && err != nil || x.refused != "" && (err == nil || !strings.Contains(err.Error(), x.refused)) {
					t.Errorf("the answer is %v, not %q", err, x.refused)
				}
			}
			if said := warned.take(); !strings.Contains(said, x.warned) || x.warned == "" && said != "" {
				t.Errorf("the warnings are %q, not %q", said, x.warned)
			}
		})
	}
	t.Run("labels of a wrong object may change", func(t *testing.T) {
		// One that was stored before the webhook was there.
		client.Delete(text)
		wrong := mapping("v3alpha1", "wrong", `hostname: "*", prefix: "/(", prefix_regex: true, service: s`)
		kubetest.Eventually(t, 10*time.Second, "it is stored", func(context.Context) bool {
			_, err := client.TryApply(wrong)
			return err == nil
		})
		kubetest.Eventually(t, 10*time.Second, "its status says what is wrong", func(context.Context) bool { return state(t, client, "Mapping", ns, "wrong") == "Inactive" })
		client.Apply(text)
		asks()
		patch := []byte(`{"metadata": {"labels": {"a": "b"}}}`)
		if _, err := author.Of(wrong).Patch(t.Context(), "wrong", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Error(err)
		}
	})
}

var _ rest.WarningHandler = (*warnings)(nil)
