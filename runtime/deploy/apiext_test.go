package deploy_test

import (
	"bytes"
	"os"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chancery-gateway/chancery/runtime/command"
	"github.com/chancery-gateway/chancery/runtime/deploy"
	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
)

func TestApiextManifestIsFresh(t *testing.T) {
	for name, manifest := range map[string]func() ([]byte, error){
		"apiext.yaml": func() ([]byte, error) { return deploy.Apiext(command.Version) },
		"beside.yaml": deploy.Beside,
	} {
		want, err := manifest()
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is out of date; run `make generate`", name)
		}
	}
}

// The manifest is applied over Emissary's own, so that what cannot be changed there has to be the same.
func TestApiextManifestKeepsEmissarysNames(t *testing.T) {
	manifest, err := os.ReadFile("apiext.yaml")
	if err != nil {
		t.Fatal(err)
	}
	converted := 0
	for _, o := range kubetest.Objects(t, manifest) {
		if o.GetKind() == "CustomResourceDefinition" {
			strategy, _, _ := unstructured.NestedString(o.Object, "spec", "conversion", "strategy")
			service, _, _ := unstructured.NestedString(o.Object, "spec", "conversion", "webhook", "clientConfig", "service", "name")
			versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
			if many := len(versions) > 1; many != (strategy == "Webhook") || many != (service == "emissary-apiext") {
				t.Errorf("%s has %d versions, the strategy %q and the service %q", o.GetName(), len(versions), strategy, service)
			} else if many {
				converted++
			}
			continue
		}
		if o.GetKind() == "Namespace" {
			if o.GetName() != "emissary-system" {
				t.Errorf("the namespace is %s", o.GetName())
			}
			continue
		}
		if o.GetName() != "emissary-apiext" || !slices.Contains([]string{"", "emissary-system"}, o.GetNamespace()) {
			t.Errorf("%s is called %s/%s", o.GetKind(), o.GetNamespace(), o.GetName())
		}
		if o.GetKind() == "Deployment" {
			selector, _, _ := unstructured.NestedStringMap(o.Object, "spec", "selector", "matchLabels")
			for _, label := range []string{"instance", "name", "part-of"} {
				if selector["app.kubernetes.io/"+label] != "emissary-apiext" || len(selector) != 3 {
					t.Errorf("the selector, which cannot be changed, is %v", selector)
				}
			}
		}
	}
	if converted != 13 {
		t.Errorf("%d kinds are converted, not 13", converted)
	}
}
