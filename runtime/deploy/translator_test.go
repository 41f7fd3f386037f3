package deploy_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chancery-gateway/chancery/runtime/modules"
	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
	"github.com/chancery-gateway/chancery/wasm/wasmtest"
)

// pages are the definitions of the kinds that the SDK's example lowers.
const pages = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: maintenancepages.pages.example.com}
spec:
  group: pages.example.com
  scope: Namespaced
  names: {kind: MaintenancePage, plural: maintenancepages}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: redirectlists.pages.example.com}
spec:
  group: pages.example.com
  scope: Namespaced
  names: {kind: RedirectList, plural: redirectlists}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

// TestTranslator is a module's life in a cluster: named by a Translator object with its sha256, fed with objects of kinds that only
// it knows, whose definitions come later; replaced by a better version, and by a worse one, which is refused with the reason in
// the object's status while the better one goes on; and rolled back by reverting the object.
func TestTranslator(t *testing.T) {
	c, client, ns, port := bed(t)
	client.Apply(string(modules.Definition))
	dir := t.TempDir()
	sum := map[string]string{}
	for version, change := range map[string][]string{
		"1.0.0": nil,
		"1.1.0": {`"body": p.Spec.Body`, `"body": "second: " + p.Spec.Body`},
		"1.2.0": {"p := page{}", `panic("worse")`, `p.Spec.Hostname, p.Spec.Prefix`, "var p page\n\tp.Spec.Hostname, p.Spec.Prefix"},
	} {
		module := wasmtest.Example(t, "lower", version, change...)
		if err := os.WriteFile(filepath.Join(dir, version+".wasm"), module, 0o600); err != nil {
			t.Fatal(err)
		}
		sum[version] = fmt.Sprintf("%x", sha256.Sum256(module))
	}
	translator := func(version, digest string) string {
		return fmt.Sprintf(`
apiVersion: chancery.dev/v1alpha1
kind: Translator
metadata: {name: pages, namespace: %s}
spec:
  source: {file: %q}
  sha256: %q
  grant:
    phases: [lower]
    reads: ["*"]
    writes: [{kind: ir/RouteFragment}, {kind: Mapping.getambassador.io}]
    namespaces: ["*"]
    limits: {milliseconds: 60000}
`, ns, filepath.Join(dir, version+".wasm"), digest)
	}
	page := func(body string) string {
		return fmt.Sprintf(`{apiVersion: pages.example.com/v1, kind: MaintenancePage, metadata: {name: noon, namespace: %s}, spec: {hostname: "*", prefix: /closed/, body: %q}}`, ns, body)
	}
	programmed := func(status, text string) {
		t.Helper()
		o := &unstructured.Unstructured{}
		o.SetAPIVersion("chancery.dev/v1alpha1")
		o.SetKind("Translator")
		o.SetNamespace(ns)
		var last any
		kubetest.Eventually(t, patience, "Programmed="+status+" with "+text, func(context.Context) bool {
			got, err := client.Of(o).Get(t.Context(), "pages", metav1.GetOptions{})
			if err != nil {
				return false
			}
			conditions, _, _ := unstructured.NestedSlice(got.Object, "status", "conditions")
			last = conditions
			for _, c := range conditions {
				m := c.(map[string]any)
				message, _ := m["message"].(string)
				if m["type"] == "Programmed" && m["status"] == status && strings.Contains(message, text) {
					return true
				}
			}
			return false
		})
		if t.Failed() {
			t.Log(last)
		}
	}

	g := entrypoint(t, c.Config(), port, "--namespace", ns, "--single-namespace")
	g.ready()
	client.Apply(translator("1.0.0", sum["1.0.0"]))
	programmed("True", "")
	client.Apply(pages)
	client.Apply(page("Back at noon."))
	g.answers("/closed/x", 503, "Back at noon.")
	client.Apply(page("Back at one."))
	g.answers("/closed/x", 503, "Back at one.")

	client.Apply(translator("1.1.0", sum["1.0.0"]))
	programmed("False", "CH-WASM-003")
	g.answers("/closed/x", 503, "Back at one.")
	client.Apply(translator("1.1.0", sum["1.1.0"]))
	g.answers("/closed/x", 503, "second: Back at one.")
	programmed("True", "")

	client.Apply(translator("1.2.0", sum["1.2.0"]))
	programmed("False", "version 1.2.0")
	programmed("False", "version 1.1.0")
	programmed("False", "worse")
	g.answers("/closed/x", 503, "second: Back at one.")
	client.Apply(page("Back at two."))
	g.answers("/closed/x", 503, "second: Back at two.")

	client.Apply(translator("1.1.0", sum["1.1.0"]))
	programmed("True", "")
	g.answers("/closed/x", 503, "second: Back at two.")

	// A restart has the page from the first moment: the first configuration waits for what the module lowers.
	g.stop()
	g.start()
	g.ready()
	if status, body := g.get("/closed/x"); status != 503 || body != "second: Back at two." {
		t.Errorf("after a restart: %d %q", status, body)
	}

	client.Delete(translator("1.1.0", sum["1.1.0"]))
	g.answers("/closed/x", 404, "")
}
