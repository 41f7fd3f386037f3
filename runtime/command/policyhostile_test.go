package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHostilePolicies: whatever a hostile policy does, the output for what it is not about is the same, byte for byte: that
// of an input without its objects where they are refused, of the whole input where they stand.
func TestHostilePolicies(t *testing.T) {
	quiet(t)
	about := object("Mapping", "target", "one", "2024", "hostname: a.example.com, prefix: /one/, service: one, labels: {a: [{b: [{generic_key: {value: c}}]}]}") +
		object("Mapping", "target", "two", "2024", "hostname: a.example.com, prefix: /two/, service: two")
	others := mergeEntry + object("Mapping", "other", "three", "2024", "hostname: a.example.com, prefix: /three/, service: three") +
		object("Mapping", "bank", "four", "2024", "hostname: a.example.com, prefix: /four/, service: four, timeout_ms: 5")
	compile := func(manifest string, args ...string) (int, string) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "world.yaml"), []byte(manifest), 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, _ := call(t, "", append([]string{"compile", "--emit", "ads", dir}, args...)...)
		return code, out
	}
	_, without := compile(others)
	_, with := compile(others + about)
	if without == with || !strings.Contains(without, "/three/") {
		t.Fatal("the objects make no difference")
	}
	files, err := filepath.Glob("../../policies/testdata/hostile/*")
	if err != nil || len(files) < 35 {
		t.Fatal(len(files), err)
	}
	for _, file := range files {
		manifest, args := others+about, []string{"--policies", file}
		if filepath.Ext(file) == ".yaml" {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			manifest, args = manifest+string(text), nil
		}
		code, out := compile(manifest, args...)
		if out != without && out != with {
			t.Errorf("%s: the output is neither of the two\n%s", filepath.Base(file), out)
		}
		if code != exitFailure && code != exitErrors {
			t.Errorf("%s: exit code %d", filepath.Base(file), code)
		}
	}
}
