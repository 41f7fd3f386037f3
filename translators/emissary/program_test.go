package emissary

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// sized are expressions of all shapes that routes have.
var sized = []string{
	`/foo/bar`, `/foo/.*`, `^/foo/.*`, `^/foo/[a-z]+$`, `/users/[0-9]+/posts`, `/(a|b|cat|car)/x`, `.*`, `[^/]+`, `(?i)/hello`,
	`/api/v[12]/(users|groups)/[^/]+/(edit|view)?`, `\w+\d+\s*`, `([a-f0-9]{12})`, `(10[.]1[.][0-9]{1,3}[.][0-9]{1,3})`,
	`(?s)a.b`, `[[:word:]]*`, `x{2,5}`, `(ab)*c+d?`, `a|b|c|d`, `^a|b$`, `\bword\b`, `^$`, `[a-zA-Z].*`, `^[a-z].*`, `(?:ab)+`, `a**`, `日本語`, `[あ-ん]+`, `[^a]`, `(a*)*`, `(|a)b`, `\x{100}`, `[\x{ff}-\x{200}]`, `\\x{100}`, `\x{7f}`, `(?i)[k-s]+`, `\pL+`, `(?<n>a)`, `[^\x{100}]`, `(?i)\x{212a}`,
	`(10[.]1[.][0-9]{1,3}[.][0-9]{1,3})|(10[.]2[.][0-9]{1,3}[.][0-9]{1,3})|(10[.]3[.][0-9]{1,3}[.][0-9]{1,3})`,
}

// Envoy's own word for the size of a program is the measure of ours.
func TestProgramSizeIsEnvoys(t *testing.T) {
	envoy := findEnvoy(t)
	const config = `{"layered_runtime":{"layers":[{"name":"s","static_layer":{"re2.max_program_size.error_level":1}}]},
"static_resources":{"listeners":[{"name":"l","address":{"socket_address":{"address":"127.0.0.1","port_value":1}},"filter_chains":[{"filters":[{"name":"h",
"typed_config":{"@type":"type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager","stat_prefix":"s",
"http_filters":[{"name":"r","typed_config":{"@type":"type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}],
"route_config":{"virtual_hosts":[{"name":"v","domains":["*"],"routes":[{"match":{"safe_regex":{"regex":%s}},"direct_response":{"status":200}}]}]}}}]}]}]}}`
	size := regexp.MustCompile(`RE2 program size of (\d+) > max`)
	for _, expr := range sized {
		t.Run(expr, func(t *testing.T) {
			out, _ := exec.Command(envoy, "--mode", "validate", "-l", "error", "--config-yaml", fmt.Sprintf(config, strconv.Quote(expr))).CombinedOutput()
			ours := analyses.measure(expr)
			m := size.FindSubmatch(out)
			if m == nil {
				if ours.err == nil && ours.size > 1 {
					t.Fatalf("Envoy named no size, ours is %d: %s", ours.size, out)
				}
				return
			}
			if re, err := parseRegex(expr); err == nil && newProgram(re).bound() < ours.size {
				t.Errorf("the bound %d is below the size %d", newProgram(re).bound(), ours.size)
			}
			if theirs, _ := strconv.Atoi(string(m[1])); ours.err != nil || int(ours.size) != theirs {
				t.Errorf("size %d, Envoy's %d (%v)", ours.size, theirs, ours.err)
			}
		})
	}
}

// findEnvoy returns the Envoy binary: CHANCERY_ENVOY, PATH, or the one that the repository fetched.
func findEnvoy(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("CHANCERY_ENVOY"); path != "" {
		return path
	}
	if path, err := exec.LookPath("envoy"); err == nil {
		return path
	}
	dir, _ := os.Getwd()
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			if found, _ := filepath.Glob(filepath.Join(dir, ".cache/venv/lib/python3*/site-packages/envoy/_bin/envoy")); len(found) > 0 {
				return found[0]
			}
			break
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("no Envoy binary")
	}
	t.Skip("no Envoy binary")
	return ""
}
