package apiext_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/chancery-gateway/chancery/runtime/command"
	"github.com/chancery-gateway/chancery/runtime/deploy"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
)

// storing returns the definitions with another stored version, where they have it.
func storing(t *testing.T, stream, version string) string {
	t.Helper()
	var out strings.Builder
	for _, o := range kubetest.Objects(t, []byte(stream)) {
		if o.GetKind() != "CustomResourceDefinition" {
			continue
		}
		versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
		if len(versions) > 1 {
			for _, v := range versions {
				m := v.(map[string]any)
				m["storage"] = m["name"] == version
			}
			if err := unstructured.SetNestedSlice(o.Object, versions, "spec", "versions"); err != nil {
				t.Fatal(err)
			}
		}
		text, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "---\n%s\n", text)
	}
	return out.String()
}

// A cluster of Emissary's stores v2. Its definitions are replaced, and no object changes in any version; whatever is written
// after that is stored as v3alpha1.
func TestTheStoredVersionMoves(t *testing.T) {
	b := bedOf(t)
	b.apiext(t)
	manifest, err := deploy.Apiext(command.Version)
	if err != nil {
		t.Fatal(err)
	}
	ours := storing(t, reached(t, manifest, b.port), "v3alpha1")
	theirs := storing(t, ours, "v2")
	b.client.Apply(theirs)
	t.Cleanup(func() {
		for _, o := range kubetest.Objects(t, []byte(ours)) {
			if _, err := b.client.TryApply(o); err != nil {
				t.Error(err)
			}
		}
	})
	b.client.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: moves}}")
	objects := kubetest.Objects(t, []byte(written))
	seen := map[string]string{}
	stored := func(o *unstructured.Unstructured) string {
		text, err := b.Stored("/registry/getambassador.io/" + resourceOf(o.GetKind(), "").Resource + "/moves/" + o.GetName())
		if err != nil {
			t.Fatal(err)
		}
		var is struct {
			APIVersion string `json:"apiVersion"`
		}
		if err := json.Unmarshal([]byte(text), &is); err != nil {
			t.Fatal(err)
		}
		return strings.TrimPrefix(is.APIVersion, "getambassador.io/")
	}
	// touch writes an object until it is stored in a version: the API server goes by a definition a moment after it was changed.
	turn := 0
	touch := func(o *unstructured.Unstructured, version string) {
		t.Helper()
		kubetest.Eventually(t, patience, fmt.Sprintf("%s %s is stored as %s after it was written", o.GetKind(), o.GetName(), version), func(context.Context) bool {
			turn++
			patch := fmt.Appendf(nil, `{"metadata": {"labels": {"touched": "%d"}}}`, turn)
			if _, err := b.client.Of(o).Patch(t.Context(), o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				t.Log(err)
				return false
			}
			return stored(o) == version
		})
	}
	for _, o := range objects {
		o.SetNamespace("moves")
		unstructured.RemoveNestedField(o.Object, "spec", "unknown") // Emissary's own drop it
		b.converts(t, o)
		if o.GetKind() != "Listener" {
			touch(o, "v2")
		}
		original, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		for _, version := range versions(o.GetKind()) {
			text, err := api.Convert(jsontext.Value(original), "getambassador.io/"+version)
			if err != nil {
				t.Fatal(err)
			}
			want := &unstructured.Unstructured{}
			if err := want.UnmarshalJSON(text); err != nil {
				t.Fatal(err)
			}
			seen[o.GetKind()+o.GetName()+version] = said(t, want)
		}
	}
	same := func(when string) {
		t.Helper()
		for _, o := range objects {
			for _, version := range versions(o.GetKind()) {
				if got, want := said(t, b.in(t, o, version)), seen[o.GetKind()+o.GetName()+version]; got != want {
					t.Errorf("%s %s in %s %s\ngot  %s\nwant %s", o.GetKind(), o.GetName(), version, when, got, want)
				}
			}
		}
	}
	same("stored as v2")
	b.client.Apply(ours)
	same("after the move")
	for _, o := range objects {
		touch(o, "v3alpha1")
	}
	same("after they were written")
}
