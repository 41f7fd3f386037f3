package policies_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/policies"
	"github.com/chancery-gateway/chancery/snapshot"
)

// The corpus testdata/hostile has rules and manifests that are about namespace target alone. The first line says under which
// code each is refused or cut.

// loops is a rule that looks endless.
func loops(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testdata/hostile/endless-comprehension.rego")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// elsewhere renders all that a snapshot and its findings say of other namespaces than target.
func elsewhere(s *snapshot.Snapshot, found []snapshot.Diagnostic) string {
	var b strings.Builder
	for _, k := range s.Kinds() {
		for o := range s.List(k) {
			if o.Namespace != "target" && policies.Judged(k) {
				fmt.Fprintf(&b, "%s %s\n", o.Ref, o.Raw)
			}
		}
	}
	for _, d := range found {
		if d.Object.Namespace != "target" && d.Object.Kind == "Mapping" {
			b.WriteString(lines([]snapshot.Diagnostic{d}))
		}
	}
	return b.String()
}

// TestHostile shows that every hostile policy is refused or cut under its own code, and costs nothing but what it is about.
func TestHostile(t *testing.T) {
	objects := mapping("target", "one", "") + mapping("target", "two", "") + mapping("other", "three", "") + mapping("bank", "four", ", timeout_ms: 5")
	out, found := admitter(rules("owner.rego", owner)).Admit(world(t, objects))
	want := elsewhere(out, found)
	files, err := filepath.Glob("testdata/hostile/*")
	if err != nil || len(files) < 35 {
		t.Fatal(len(files), err)
	}
	expected := map[string]string{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			head, _, _ := strings.Cut(string(text), "\n")
			code := strings.TrimPrefix(head, "# expect: ")
			expected[name] = code
			modules, manifest := []string{"owner.rego", owner}, ""
			if filepath.Ext(file) == ".rego" {
				modules = append(modules, "hostile.rego", string(text))
			} else {
				manifest = string(text)
			}
			out, found := admitter(rules(modules...)).Admit(world(t, objects+manifest))
			if !slices.Contains(codes(found), code) {
				t.Errorf("no finding %s:\n%s", code, lines(found))
			}
			if got := elsewhere(out, found); got != want {
				t.Errorf("others are not as before:\n%s\nwant\n%s", got, want)
			}
			for _, d := range found {
				if d.Code.ID == code && d.Position.File == "" {
					t.Errorf("no place: %s", d)
				}
			}
		})
	}
	// Kinds of faults that differ have codes that differ.
	kinds := []string{"syntax-error", "unknown-builtin", "http.send", "endless-comprehension", "huge-result", "conflicting-rules", "no-entry-point", "wrong-package",
		"tenant-refers-to-another", "mutation-outside-its-scope", "fighting-mutations", "mutation-that-never-rests", "order-dependent-merge"}
	by := map[string]string{}
	for _, k := range kinds {
		if other := by[expected[k]]; expected[k] == "" || other != "" {
			t.Errorf("%s has code %q, as %q", k, expected[k], other)
		}
		by[expected[k]] = k
	}
}
