package deploy_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/chancery-gateway/chancery/runtime/modules"
	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
	"github.com/chancery-gateway/chancery/snapshot/porttest"
	"github.com/chancery-gateway/chancery/wasm/wasmtest"
)

// moduleKinds is the value that lets a release read the kinds of the SDK's example, and has it asked about them.
const moduleKinds = `moduleKinds: [{apiGroup: pages.example.com, resources: [maintenancepages, redirectlists]}]`

// TestModuleRefusesAtTheDoor: with the kinds of a module among the chart's values, the API server has the module's validate asked about their
// objects and turns away what it finds fault with, which the module's translate would take; and the chart's role reads them.
func TestModuleRefusesAtTheDoor(t *testing.T) {
	c, client, ns, port := bed(t)
	client.Apply(string(modules.Definition))
	client.Apply(pages)
	module := wasmtest.Example(t, "lower", "1.0.0", "Validate: translate})\n}", `Validate: brevity})
}

func brevity(in *sdk.Input, out *sdk.Output) error {
	for _, item := range in.Of(kindPage) {
		p := page{}
		if err := item.Decode(&p); err != nil {
			return err
		}
		if len(p.Spec.Body) < 5 {
			out.Error(item, "spec.body", fmt.Sprintf("%q is too short", p.Spec.Body), "say when it is back")
		}
	}
	return nil
}`)
	file := filepath.Join(t.TempDir(), "pages.wasm")
	if err := os.WriteFile(file, module, 0o600); err != nil {
		t.Fatal(err)
	}
	client.Apply(fmt.Sprintf(`
apiVersion: chancery.dev/v1alpha1
kind: Translator
metadata: {name: pages, namespace: %s}
spec:
  source: {file: %q}
  grant:
    phases: [lower]
    reads: ["*"]
    writes: [{kind: ir/RouteFragment}, {kind: Mapping.getambassador.io}]
    namespaces: ["*"]
    limits: {milliseconds: 60000}
`, ns, file))

	at := porttest.Free(t, 1)[0]
	chart := rendered(t, "edge", ns, "{scope: {singleNamespace: true}, ingressClassResource: {enabled: false}, "+moduleKinds+"}")
	hook := find(t, chart, "ValidatingWebhookConfiguration", "chancery")
	hooks, _, err := unstructured.NestedSlice(hook.Object, "webhooks")
	if err != nil || len(hooks) != 1 {
		t.Fatal(hooks, err)
	}
	// Services lead nowhere here.
	hooks[0].(map[string]any)["clientConfig"] = map[string]any{"url": fmt.Sprintf("https://127.0.0.1:%d/webhooks/admission", at)}
	if err := unstructured.SetNestedSlice(hook.Object, hooks, "webhooks"); err != nil {
		t.Fatal(err)
	}
	for _, o := range chart {
		if o != hook && !slices.Contains([]string{"ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}, o.GetKind()) {
			continue
		}
		if _, err := client.TryApply(o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := client.Of(o).Delete(context.Background(), o.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		})
	}
	config := c.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + ns + ":edge-chancery"}
	client.Allows(config.Impersonate.UserName, "", "watch", "gateway.networking.k8s.io", "gatewayclasses")
	client.Allows(config.Impersonate.UserName, ns, "watch", "pages.example.com", "maintenancepages")
	g := entrypoint(t, config, port, "--namespace", ns, "--single-namespace", "--webhook-address", fmt.Sprintf("127.0.0.1:%d", at))
	g.ready()

	page := func(name, body string) *unstructured.Unstructured {
		return kubetest.Objects(t, fmt.Appendf(nil, `{apiVersion: pages.example.com/v1, kind: MaintenancePage, metadata: {name: %s, namespace: %s}, spec: {hostname: "*", prefix: /%[1]s/, body: %[3]q}}`, name, ns, body))[0]
	}
	if _, err := client.TryApply(page("noon", "Back at noon.")); err != nil {
		t.Fatal(err)
	}
	g.answers("/noon/x", 503, "Back at noon.")
	refused := func(o *unstructured.Unstructured, options metav1.CreateOptions) string {
		_, err := client.Of(o).Create(t.Context(), o, options)
		if err == nil {
			return ""
		}
		return err.Error()
	}
	// Until the program has written its authority into the configuration, it is not believed, and objects pass.
	short, why := page("short", "no"), ""
	kubetest.Eventually(t, patience, "the API server has the module asked", func(context.Context) bool {
		why = refused(short, metav1.CreateOptions{DryRun: []string{"All"}})
		return why != ""
	})
	for _, part := range []string{"admission.chancery.dev", "MaintenancePage/" + ns + "/short", "spec.body", "module " + ns + "/pages", `"no" is too short`, "say when it is back"} {
		if !strings.Contains(why, part) {
			t.Errorf("the refusal lacks %q: %s", part, why)
		}
	}
	if why := refused(short, metav1.CreateOptions{}); !strings.Contains(why, "too short") {
		t.Errorf("the object is stored: %s", why)
	}
	if _, err := client.Of(short).Get(t.Context(), "short", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the object is there: %v", err)
	}
	if _, err := client.TryApply(page("noon", "now")); err == nil || !strings.Contains(err.Error(), "too short") {
		t.Errorf("a change for the worse is stored: %v", err)
	}
	g.answers("/noon/x", 503, "Back at noon.")
	if _, err := client.TryApply(page("noon", "Back at one.")); err != nil {
		t.Errorf("a change for the better: %v", err)
	}
	g.answers("/noon/x", 503, "Back at one.")
	list := `{apiVersion: pages.example.com/v1, kind: RedirectList, metadata: {name: moved, namespace: %s}, spec: {hostname: "*", redirects: [{from: /old/, to: %q}]}}`
	if _, err := client.TryApply(kubetest.Objects(t, fmt.Appendf(nil, list, ns, "nowhere"))[0]); err == nil || !strings.Contains(err.Error(), "spec.redirects[0].to") {
		t.Errorf("what the module's translate refuses is stored: %v", err)
	}
	if _, err := client.TryApply(kubetest.Objects(t, fmt.Appendf(nil, list, ns, "https://www.example.com/new"))[0]); err != nil {
		t.Error(err)
	}

	// Where nobody asks, the same object is stored and served: it was the module's validate that had it turned away.
	if err := client.Of(hook).Delete(t.Context(), hook.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	kubetest.Eventually(t, patience, "it is stored", func(context.Context) bool { return refused(short, metav1.CreateOptions{}) == "" })
	g.answers("/short/x", 503, "no")
	for _, word := range []string{"CH-KUBE", "forbidden", "cannot be written"} {
		if log := g.log.String(); strings.Contains(log, word) {
			t.Errorf("the log speaks of %q:\n%s", word, log)
		}
	}
}

// TestModuleKindsAreAsDocumented: what the chart makes of moduleKinds is what wasm/TRANSLATOR.md has people write without the chart.
func TestModuleKindsAreAsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../wasm/TRANSLATOR.md")
	if err != nil {
		t.Fatal(err)
	}
	// example returns the indented block that starts with a line.
	example := func(start string) string {
		t.Helper()
		_, after, found := strings.Cut(string(text), "\n\n    "+start+"\n") // behind an empty line
		if !found {
			t.Fatalf("there is no example that starts with %q", start)
		}
		var b strings.Builder
		fmt.Fprintln(&b, start)
		for line := range strings.Lines(after) {
			line, inside := strings.CutPrefix(line, "    ")
			if !inside {
				break
			}
			b.WriteString(line)
		}
		return b.String()
	}
	rules := func(o map[string]any, fields ...string) []any {
		t.Helper()
		list, found, err := unstructured.NestedSlice(o, fields...)
		if err != nil || !found || len(list) == 0 {
			t.Fatal(o, err)
		}
		return list
	}
	first := func(o *unstructured.Unstructured) map[string]any {
		return rules(o.Object, "webhooks")[0].(map[string]any)
	}
	values := example("moduleKinds:")
	if !strings.Contains(values, "redirectlists") {
		t.Fatalf("the example is\n%s", values)
	}
	kinds := kubetest.Objects(t, []byte(example("apiVersion: rbac.authorization.k8s.io/v1")))
	rule := kubetest.Objects(t, []byte("kind: Rules\n"+example("rules:")))[0]
	plain := map[string][]*unstructured.Unstructured{"": rendered(t, "chancery", "chancery", ""), "scope: {singleNamespace: true}\n": rendered(t, "chancery", "chancery", "scope: {singleNamespace: true}")}
	for scope, kind := range map[string]string{"": "ClusterRole", "scope: {singleNamespace: true}\n": "Role"} {
		before, after := plain[scope], rendered(t, "chancery", "chancery", scope+values)
		for _, k := range []string{"ClusterRole", "Role"} {
			want := rules(find(t, before, k, "chancery").Object, "rules")
			if k == kind {
				want = append(want, rules(find(t, kinds, "ClusterRole", "chancery-pages").Object, "rules")...)
			}
			if got := rules(find(t, after, k, "chancery").Object, "rules"); asJSON(t, got) != asJSON(t, want) {
				t.Errorf("%q: the %s allows\n%s\nnot\n%s", scope, k, asJSON(t, got), asJSON(t, want))
			}
		}
		want := append(rules(first(find(t, before, "ValidatingWebhookConfiguration", "chancery")), "rules"), rules(rule.Object, "rules")...)
		if got := rules(first(find(t, after, "ValidatingWebhookConfiguration", "chancery")), "rules"); asJSON(t, got) != asJSON(t, want) {
			t.Errorf("%q: the webhook is asked about\n%s\nnot\n%s", scope, asJSON(t, got), asJSON(t, want))
		}
		if b, a := find(t, before, "MutatingWebhookConfiguration", "chancery"), find(t, after, "MutatingWebhookConfiguration", "chancery"); asJSON(t, a) != asJSON(t, b) {
			t.Errorf("%q: the mutating webhook is another", scope)
		}
	}
}
