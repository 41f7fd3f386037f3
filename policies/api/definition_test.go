package api

import (
	"strings"
	"testing"
)

// TestDefinitions: the definitions say what the Go types say.
func TestDefinitions(t *testing.T) {
	got, err := Definitions()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"name: tenants.chancery.dev", "scope: Cluster", "keepLastGood", "x-kubernetes-preserve-unknown-fields: true"} {
		if !strings.Contains(string(got), s) {
			t.Errorf("no %s", s)
		}
	}
}

func TestHostCovers(t *testing.T) {
	for _, c := range []struct {
		granted, host string
		want          bool
	}{
		{"a.com", "a.com", true}, {"a.com", "b.a.com", false}, {"*.a.com", "b.a.com", true}, {"*.a.com", "c.b.a.com", true},
		{"*.a.com", "a.com", false}, {"*.a.com", "*.b.a.com", true}, {"*.a.com", "evil.com", false}, {"*.a.com", "xa.com", false},
	} {
		if got := HostCovers(c.granted, c.host); got != c.want {
			t.Errorf("%s covers %s: %t", c.granted, c.host, got)
		}
	}
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{{"a", "a", true}, {"a", "ab", false}, {"a*", "ab", true}, {"*-test", "shop-test", true}, {"team-*-x", "team-a-x", true}, {"[", "[", true}, {"[*", "[a", false}} {
		if got := Glob(c.pattern, c.s); got != c.want {
			t.Errorf("%s on %s: %t", c.pattern, c.s, got)
		}
	}
}
