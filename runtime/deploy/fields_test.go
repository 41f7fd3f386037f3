package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chancery-gateway/chancery/runtime/deploy"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
)

// leaves returns the paths of a schema's fields that have no fields of their own.
func leaves(schema any, path string, out []string) []string {
	s, _ := schema.(map[string]any)
	for {
		inner, is := s["items"].(map[string]any)
		if !is {
			inner, is = s["additionalProperties"].(map[string]any)
		}
		if !is {
			break
		}
		s = inner
	}
	fields, _ := s["properties"].(map[string]any)
	if len(fields) == 0 {
		return append(out, path)
	}
	for name, field := range fields {
		out = leaves(field, strings.TrimPrefix(path+"."+name, "."), out)
	}
	return out
}

// COMPATIBILITY.md has each field of each of Emissary's kinds once, and no other.
func TestFieldsAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "translators", "COMPATIBILITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## Fields\n")
	if !found {
		t.Fatal("COMPATIBILITY.md has no section on fields")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	rows := map[string][]string{}
	name := regexp.MustCompile("`([A-Za-z0-9_.*]+)`")
	for _, line := range strings.Split(section, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 6 {
			continue
		}
		kind := strings.TrimSpace(cells[1])
		for _, m := range name.FindAllStringSubmatch(strings.Join(cells[2:], "|"), -1) {
			rows[kind] = append(rows[kind], m[1])
		}
	}
	kinds, count := map[string]bool{}, 0
	for _, o := range kubetest.Objects(t, deploy.CRDs) {
		if group, _, _ := unstructured.NestedString(o.Object, "spec", "group"); group != snapshot.EmissaryGroup {
			continue
		}
		kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
		kinds[kind] = true
		versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
		i := slices.IndexFunc(versions, func(v any) bool { return v.(map[string]any)["name"] == "v3alpha1" })
		spec, _, _ := unstructured.NestedMap(versions[i].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec")
		fields := leaves(spec, "", nil)
		used := map[string]bool{}
		for _, field := range fields {
			count++
			var by []string
			for _, row := range rows[kind] {
				prefix, all := strings.CutSuffix(row, ".*")
				if row == field || all && strings.HasPrefix(field, prefix+".") {
					by = append(by, row)
					used[row] = true
				}
			}
			if len(by) != 1 {
				t.Errorf("%s %s stands %d times in COMPATIBILITY.md: %v", kind, field, len(by), by)
			}
		}
		for _, row := range rows[kind] {
			if !used[row] {
				t.Errorf("COMPATIBILITY.md has %s %s, which the definition has not", kind, row)
			}
		}
	}
	for kind := range rows {
		if kind != "Kind" && !kinds[kind] {
			t.Errorf("COMPATIBILITY.md has the kind %q", kind)
		}
	}
	if count < 250 {
		t.Errorf("only %d fields were found", count)
	}
	t.Logf("%d fields of %d kinds", count, len(kinds))
}
