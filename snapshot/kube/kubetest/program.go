package kubetest

import (
	"os"
	"path/filepath"
	"testing"
)

// Program returns the path of a program that one of the scripts of .ci has built, such as ("helm", "helm-3.22.0"). The test
// is skipped where it has not been built; in continuous integration (CI is set) it fails.
func Program(t testing.TB, name, folder string) string {
	t.Helper()
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			t.Fatal(err)
		}
		cache = filepath.Join(home, ".cache")
	}
	path := filepath.Join(cache, "chancery", "servers", folder, name)
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%s has not been built: %v", name, err)
		}
		t.Skipf("%s has not been built; `make servers` does", name)
	}
	return path
}

// Background runs a program until kill is called or the test ends. output returns the end of what it wrote.
func Background(t testing.TB, path string, args ...string) (kill func(), output func() []byte) {
	t.Helper()
	p, err := run(path, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p.kill, p.output.tail
}
