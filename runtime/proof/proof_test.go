package proof

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/runtime/supervisor"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

func realEnvoy(t *testing.T) string {
	t.Helper()
	path, err := supervisor.Find(os.Getenv("CHANCERY_ENVOY"))
	if err != nil {
		if os.Getenv("CI") == "" {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	return path
}

func TestValidate(t *testing.T) {
	envoy := realEnvoy(t)
	for _, c := range []struct{ name, static, want string }{
		{"good", `{"static_resources":{"clusters":[{"name":"c","type":"STATIC"}]}}`, ""},
		{"bad ring", `{"static_resources":{"clusters":[{"name":"c","type":"STATIC","lb_policy":"RING_HASH","ring_hash_lb_config":{"minimum_ring_size":100,"maximum_ring_size":10}}]}}`,
			"ring hash: minimum_ring_size (100) > maximum_ring_size (10)"},
		{"duplicate", `{"static_resources":{"clusters":[{"name":"c","type":"STATIC"},{"name":"c","type":"STATIC"}]}}`, "cluster manager: duplicate cluster 'c'"},
		{"unknown field", `{"static_resources":{"clustrs":[]}}`, "no such field: 'clustrs'"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			refusal, err := Validate(t.Context(), envoy, []byte(c.static), dir)
			if err != nil {
				t.Fatal(err)
			}
			if c.want == "" && refusal != "" || !strings.Contains(refusal, c.want) {
				t.Errorf("refusal %q, want %q", refusal, c.want)
			}
			if strings.Contains(refusal, dir) {
				t.Errorf("the refusal names a temporary file: %q", refusal)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
				t.Errorf("left over: %v, %v", left, err)
			}
		})
	}
}

func TestValidateFails(t *testing.T) {
	program := func(body string) string {
		path := filepath.Join(t.TempDir(), "envoy")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct{ name, envoy, want string }{
		{"absent", "/no/envoy", "no such file"},
		{"crash", program("kill -SEGV $$\n"), "signal"},
		{"silent", program("exit 1\n"), "exit status 1"},
		{"odd", program("echo oh >&2; exit 5\n"), "oh"},
	} {
		t.Run(c.name, func(t *testing.T) {
			refusal, err := Validate(t.Context(), c.envoy, nil, t.TempDir())
			if refusal != "" || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("refusal %q, error %v", refusal, err)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Validate(ctx, program("sleep 60\n"), nil, t.TempDir()); err == nil {
		t.Error("no error after the end of the context")
	}
	if _, err := Validate(t.Context(), "x", nil, filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("no error without a directory")
	}
	if got := sentence("bad: -----BEGIN PRIVATE KEY-----", "f"); strings.Contains(got, "BEGIN") {
		t.Errorf("a key gets out: %q", got)
	}
}

// TestSweep: files whose writer was killed are removed, for they hold keys; those of one that works stay.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, age time.Duration) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file("chancery-validate-1.json", 2*fresh)
	file("chancery-validate-2.json", 0)
	file("other.json", 2*fresh)
	f, err := os.Open(file("chancery-validate-3.json", 2*fresh))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	sweep(dir)
	var left []string
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if want := []string{"chancery-validate-2.json", "chancery-validate-3.json", "other.json"}; err != nil || !slices.Equal(left, want) {
		t.Errorf("left are %v, %v; want %v", left, err, want)
	}
}

func TestAbout(t *testing.T) {
	a, b := ir.Origin{Kind: "Mapping", Name: "a"}, ir.Origin{Kind: "Mapping", Name: "b"}
	set := ir.ResourceSet{
		ir.TypeCluster:  {{Name: "cluster_a-1", Origins: []ir.Origin{b, a}}, {Name: "cluster", Origins: []ir.Origin{b}}},
		ir.TypeListener: {{Name: "default/tls", Origins: []ir.Origin{a}}, {Name: "with space", Origins: []ir.Origin{b}}},
	}
	for text, want := range map[string][]ir.Origin{
		"duplicate cluster 'cluster_a-1'":       {a, b},
		"error adding listener default/tls: no": {a},
		"listener with space is odd":            {b},
		"something else":                        nil,
	} {
		if got := About(text, set); !slices.Equal(got, want) {
			t.Errorf("%q is about %v, want %v", text, got, want)
		}
	}
}

func TestDiagnostics(t *testing.T) {
	o := &snapshot.Object{Ref: snapshot.Ref{Kind: "Mapping", Name: "a"}, APIVersion: "v1", Source: snapshot.Source{Position: snapshot.Position{File: "f", Line: 3}}}
	s := snapshot.Empty().Derive([]*snapshot.Object{o}, nil, nil)
	ds := Diagnostics(Refused, "text", "help", []ir.Origin{o.Ref, {Kind: "Host", Name: "gone"}}, s)
	if len(ds) != 2 || ds[0].Position.Line != 3 || ds[0].APIVersion != "v1" || ds[1].Object.Name != "gone" {
		t.Errorf("diagnostics %v", ds)
	}
	if ds := Diagnostics(Refused, "text", "", nil, s); len(ds) != 1 || ds[0].Severity != snapshot.Error || ds[0].Message != "text" {
		t.Errorf("diagnostics %v", ds)
	}
}
