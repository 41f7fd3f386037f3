package deploy_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chancery-gateway/chancery/runtime/command"
	"github.com/chancery-gateway/chancery/runtime/deploy"
	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
)

// installedRules returns the rules by which the install manifest has the API server ask before it stores or deletes.
func installedRules(t *testing.T) []any {
	t.Helper()
	manifest, err := deploy.Install(command.Version)
	if err != nil {
		t.Fatal(err)
	}
	hooks, _, err := unstructured.NestedSlice(find(t, kubetest.Objects(t, manifest), "ValidatingWebhookConfiguration", "chancery").Object, "webhooks")
	if err != nil || len(hooks) != 1 {
		t.Fatal(hooks, err)
	}
	return hooks[0].(map[string]any)["rules"].([]any)
}

// TestDeletionsAreToldOf: as installed, whoever deletes a Listener or a Host reads what goes with it, with a dry run before it
// does; a Mapping goes without a question.
func TestDeletionsAreToldOf(t *testing.T) {
	c, client, ns, port := bed(t)
	g, author := guarded(t, c, client, ns, port)
	rules := installedRules(t)
	for _, o := range kubetest.Objects(t, []byte(author.hook)) {
		if o.GetKind() == "ValidatingWebhookConfiguration" {
			hooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
			hooks[0].(map[string]any)["rules"] = rules
			if err := unstructured.SetNestedSlice(o.Object, hooks, "webhooks"); err != nil {
				t.Fatal(err)
			}
			client.Apply(asJSON(t, o.Object))
		}
	}
	shop := author.object("v3alpha1", "Host", "shop", `hostname: shop.example.com, requestPolicy: {insecure: {action: Route}}`)
	for _, o := range []*unstructured.Unstructured{shop, author.object("v3alpha1", "Mapping", "a", `hostname: shop.example.com, prefix: /a/, service: "http://127.0.0.1:1"`)} {
		if _, err := author.TryApply(o); err != nil {
			t.Fatal(err)
		}
	}
	g.answers("/a/", 404, "")
	for _, x := range []struct {
		kind, name, want string
	}{
		{"Listener", "l", "because the listener is removed"},
		{"Host", "shop", "loses host shop.example.com to Host/" + ns + "/h"},
	} {
		o := author.object("v3alpha1", x.kind, x.name, "")
		var said string
		kubetest.Eventually(t, 30*time.Second, "the API server asks about deletions of a "+x.kind, func(ctx context.Context) bool {
			author.warned.take()
			if err := author.Of(o).Delete(ctx, x.name, metav1.DeleteOptions{DryRun: []string{"All"}}); err != nil {
				t.Fatal(err)
			}
			said = author.warned.take()
			return strings.Contains(said, x.want)
		})
		if !strings.Contains(said, fmt.Sprintf("%s/%s/%s: would add ", x.kind, ns, x.name)) {
			t.Errorf("a dry run of the deletion of %s says %q", x.name, said)
		}
	}
	reviews := g.reviews("allowed")
	if err := author.Of(shop).Delete(t.Context(), "shop", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if said := author.warned.take(); !strings.Contains(said, "loses host shop.example.com") || g.reviews("allowed") != reviews+1 {
		t.Errorf("the deletion of a Host says %q", said)
	}
	reviews = g.reviews("allowed")
	if err := author.Of(author.object("v3alpha1", "Mapping", "a", "")).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if n := g.reviews("allowed") - reviews; n != 0 {
		t.Errorf("%v reviews of the deletion of a Mapping", n)
	}
}
