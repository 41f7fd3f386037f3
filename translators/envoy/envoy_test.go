package envoy

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// findEnvoy returns the path of an Envoy; the test is skipped without one, except in CI.
func findEnvoy(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("CHANCERY_ENVOY"); path != "" {
		return path
	}
	if path, err := exec.LookPath("envoy"); err == nil {
		return path
	}
	dir, err := os.Getwd()
	for ; err == nil && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
			continue
		}
		found, _ := filepath.Glob(filepath.Join(dir, ".cache/venv/lib/python3*/site-packages/envoy/_bin/envoy"))
		if len(found) > 0 {
			return found[0]
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("no Envoy: set CHANCERY_ENVOY")
	}
	t.Skip("no Envoy")
	return ""
}

var complaints = regexp.MustCompile(`(?i)deprecat|unknown field|\[(warning|error|critical)\]`)

// validate runs envoy --mode validate over the text of a bootstrap and fails on refusals and on warnings.
func validate(t *testing.T, text []byte) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "envoy.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := exec.Command(findEnvoy(t), "--mode", "validate", "-c", file, "-l", "warning", "--disable-hot-restart").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, log)
	}
	for _, line := range bytes.Split(log, []byte("\n")) {
		if complaints.Match(line) {
			t.Errorf("Envoy complains: %s", line)
		}
	}
}

func TestEnvoyTakesEveryField(t *testing.T) {
	prog := full()
	out := clean(t, emit(t, prog))
	var text bytes.Buffer
	if err := WriteStatic(&text, prog.Bootstrap, out.Resources); err != nil {
		t.Fatal(err)
	}
	validate(t, text.Bytes())
}

// TestEnvoyTakesStatsd: both forms of statistics, to both families, and nothing where Envoy would have to look up a name.
func TestEnvoyTakesStatsd(t *testing.T) {
	for _, to := range []*ir.Statsd{
		{Address: "192.0.2.1", Port: 8125, FlushMillis: 1500}, {Address: "2001:db8::1", Port: 1},
		{Address: "192.0.2.1", Port: 65535, Datadog: true, EntityID: "pod-1"}, {Address: "192.0.2.1", Port: 8125, Datadog: true},
	} {
		b, err := Bootstrap(&ir.Bootstrap{Statsd: to}, BootstrapOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if (to.EntityID != "") != (b.StatsConfig != nil) || (to.FlushMillis > 0) != (b.StatsFlushInterval != nil) || len(b.StatsSinks) != 1 {
			t.Errorf("%+v becomes %v", to, b)
		}
		var text bytes.Buffer
		if err := WriteBootstrap(&text, b); err != nil {
			t.Fatal(err)
		}
		validate(t, text.Bytes())
	}
	if _, err := Bootstrap(&ir.Bootstrap{Statsd: &ir.Statsd{Address: "statsd-sink", Port: 8125}}, BootstrapOptions{}); err == nil || !strings.Contains(err.Error(), `"statsd-sink" is no IP address`) {
		t.Errorf("a name: %v", err)
	}
}

func TestEnvoyTakesBootstrap(t *testing.T) {
	for _, o := range []BootstrapOptions{{}, {ADSAddress: "/run/chancery/ads.sock"}, {ADSAddress: "[::1]:8003", StateOfTheWorld: true}} {
		b, err := Bootstrap(full().Bootstrap, o)
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if err := WriteBootstrap(&text, b); err != nil {
			t.Fatal(err)
		}
		validate(t, text.Bytes())
	}
	for _, bad := range []string{"localhost", "localhost:8003", "1.2.3.4:x", "1.2.3.4:70000"} {
		if _, err := Bootstrap(nil, BootstrapOptions{ADSAddress: bad}); err == nil {
			t.Errorf("ADS address %q: no error", bad)
		}
	}
}
