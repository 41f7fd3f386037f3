package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// load reads settings with the given command line, environment and settings file, and nothing of the machine's own.
func load(t *testing.T, args []string, env map[string]string, file string) (*Settings, error) {
	t.Helper()
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, "CHANCERY_") || strings.HasPrefix(name, "AMBASSADOR_") {
			t.Setenv(name, "")
		}
	}
	for k, v := range env {
		t.Setenv(k, v)
	}
	t.Chdir(t.TempDir())
	if file != "" {
		if err := os.WriteFile(File, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return Load(flags)
}

func origin(s *Settings, name string) Origin {
	for _, o := range s.Origins() {
		if o.Name == name {
			return o
		}
	}
	return Origin{}
}

func TestDefaults(t *testing.T) {
	s, err := load(t, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if s.AmbassadorID != "default" || s.ReadyPort != 8006 || s.DrainTime != 10*time.Minute || !s.FastReconfigure || s.ADSAddress != "127.0.0.1:8003" {
		t.Errorf("defaults are %+v", s)
	}
	if s.ShutdownGrace != 10*time.Second {
		t.Errorf("shutdown grace is %s", s.ShutdownGrace)
	}
	for _, o := range s.Origins() {
		if o.Source != "default" {
			t.Errorf("%s comes from %s", o.Name, o.Source)
		}
	}
}

func TestPrecedence(t *testing.T) {
	env := map[string]string{"CHANCERY_NAMESPACE": "own", "AMBASSADOR_NAMESPACE": "theirs", "AMBASSADOR_ID": "blue"}
	s, err := load(t, []string{"--ambassador-id", "red"}, env, "namespace: file\nhealth-port: 9\n# comment\nlog-level: debug\n")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][2]string{
		"ambassador-id": {"red", "flag --ambassador-id"},
		"namespace":     {"own", "environment CHANCERY_NAMESPACE"},
		"health-port":   {"9", "chancery.yaml:2"},
		"log-level":     {"debug", "chancery.yaml:4"},
		"ready-port":    {"8006", "default"},
	} {
		if o := origin(s, name); o.Value != want[0] || o.Source != want[1] {
			t.Errorf("%s is %q from %q, want %q from %q", name, o.Value, o.Source, want[0], want[1])
		}
	}
	if s.AmbassadorID != "red" || s.Namespace != "own" || s.HealthPort != 9 || s.LogLevel != "debug" {
		t.Errorf("values are %+v", s)
	}
}

func TestEmissaryVariables(t *testing.T) {
	for _, c := range []struct {
		name, value string
		check       func(*Settings) bool
	}{
		{"AMBASSADOR_ID", "blue", func(s *Settings) bool { return s.AmbassadorID == "blue" }},
		{"AMBASSADOR_NAMESPACE", "gw", func(s *Settings) bool { return s.Namespace == "gw" }},
		{"AMBASSADOR_SINGLE_NAMESPACE", "yes", func(s *Settings) bool { return s.SingleNamespace }},
		{"AMBASSADOR_SINGLE_NAMESPACE", "", func(s *Settings) bool { return !s.SingleNamespace }},
		{"AMBASSADOR_CERTS_SINGLE_NAMESPACE", "1", func(s *Settings) bool { return s.CertsSingleNamespace }},
		{"AMBASSADOR_ENVOY_BIND_ADDRESS", "::", func(s *Settings) bool { return s.BindAddress == "::" }},
		{"DISABLE_STRICT_LABEL_SELECTORS", "True", func(s *Settings) bool { return s.LooseLabelSelectors }},
		{"ENVOY_CONCURRENCY", "3", func(s *Settings) bool { return s.EnvoyConcurrency == 3 }},
		{"AMBASSADOR_ENVOY_BASE_ID", "7", func(s *Settings) bool { return s.EnvoyBaseID == 7 }},
		{"AMBASSADOR_DRAIN_TIME", "5", func(s *Settings) bool { return s.DrainTime == 5*time.Second && s.ShutdownGrace == 5*time.Second }},
		{"AMBASSADOR_READY_PORT", "9006", func(s *Settings) bool { return s.ReadyPort == 9006 }},
		{"AMBASSADOR_READY_PORT", "70000", func(s *Settings) bool { return s.ReadyPort == 8006 && origin(s, "ready-port").Note != "" }},
		{"AMBASSADOR_HEALTHCHECK_BIND_ADDRESS", "127.0.0.1", func(s *Settings) bool { return s.HealthAddress == "127.0.0.1" }},
		{"AMBASSADOR_HEALTHCHECK_BIND_PORT", "9877", func(s *Settings) bool { return s.HealthPort == 9877 }},
		{"AMBASSADOR_HEALTHCHECK_IP_FAMILY", "IPV4_ONLY", func(s *Settings) bool { return s.HealthFamily == "ipv4_only" }},
		{"AMBASSADOR_RECONFIG_MAX_DELAY", "3", func(s *Settings) bool { return s.ReconfigMaxDelay == 3*time.Second }},
		{"AMBASSADOR_FAST_RECONFIGURE", "false", func(s *Settings) bool { return !s.FastReconfigure }},
		{"AMBASSADOR_DEBUG", "diagd,envoy", func(s *Settings) bool { return s.EnvoyLogLevel == "trace" }},
		{"AMBASSADOR_DEBUG", "diagd", func(s *Settings) bool { return s.EnvoyLogLevel == "error" }},
		{"AES_LOG_LEVEL", "warning", func(s *Settings) bool { return s.LogLevel == "warn" }},
		{"CHANCERY_GATEWAY_ADDRESSES", "fd00::/64", func(s *Settings) bool { return s.GatewayAddresses.String() == "fd00::/64" }},
		{"CHANCERY_GATEWAY_ADDRESSES", "", func(s *Settings) bool { return !s.GatewayAddresses.IsValid() }},
		{"CLUSTER_ANY_RANGE", "10.246.0.0/16", func(s *Settings) bool { return s.GatewayAddresses.String() == "10.246.0.0/16" }},
		{"STATSD_ENABLED", "TRUE", func(s *Settings) bool { return s.Statsd && s.StatsdHost == "statsd-sink" && s.StatsdPort == 8125 }},
		{"STATSD_HOST", "stats_d.monitoring.svc.", func(s *Settings) bool { return s.StatsdHost == "stats_d.monitoring.svc." }},
		{"STATSD_HOST", "2001:db8::1", func(s *Settings) bool { return s.StatsdHost == "2001:db8::1" }},
		{"STATSD_PORT", "9125", func(s *Settings) bool { return s.StatsdPort == 9125 }},
		{"STATSD_FLUSH_INTERVAL", "5", func(s *Settings) bool { return s.StatsdInterval == 5*time.Second }},
		{"STATSD_FLUSH_INTERVAL", "250ms", func(s *Settings) bool { return s.StatsdInterval == 250*time.Millisecond }},
		{"DOGSTATSD", "true", func(s *Settings) bool { return s.DogStatsd && !s.Statsd }},
		{"DD_ENTITY_ID", "pod-1", func(s *Settings) bool { return s.StatsdEntityID == "pod-1" }},
		{"AMBASSADOR_JSON_LOGGING", "true", func(s *Settings) bool { return s.LogFormat == "json" }},
		{"AMBASSADOR_JSON_LOGGING", "no", func(s *Settings) bool { return s.LogFormat == "text" }},
	} {
		t.Run(c.name+"="+c.value, func(t *testing.T) {
			s, err := load(t, nil, map[string]string{c.name: c.value}, "")
			if err != nil {
				t.Fatal(err)
			}
			if !c.check(s) {
				t.Errorf("settings are %+v", s)
			}
		})
	}
}

func TestProblems(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		env  map[string]string
		file string
		want []string
	}{
		{name: "flag", args: []string{"--health-port", "99999"}, want: []string{"flag --health-port", `"health-port"`, `"99999"`, "from 0 to 65535"}},
		{name: "variable", env: map[string]string{"AMBASSADOR_DRAIN_TIME": "soon"}, want: []string{"environment AMBASSADOR_DRAIN_TIME", `"soon"`, "a duration such as"}},
		{name: "number without unit", args: []string{"--drain-time", "30"}, want: []string{"flag --drain-time", "needs its unit"}},
		{name: "file value", file: "\nlog-level: loud\n", want: []string{"chancery.yaml:2", `"log-level"`, `"loud"`, "debug, info, warn, error"}},
		{name: "unknown key", file: "drian-time: 3s\n", want: []string{"chancery.yaml:1", `"drian-time"`, "is no setting", `perhaps "drain-time"`}},
		{name: "unlike any key", file: "colour: blue\n", want: []string{"chancery.yaml:1", "chancery settings"}},
		{name: "twice", file: "envoy: a\nenvoy: b\n", want: []string{"chancery.yaml:2", `"envoy"`, "stands twice"}},
		{name: "list", file: "envoy: [a, b]\n", want: []string{"chancery.yaml:1", `"envoy"`, "is a list or map"}},
		{name: "no map", file: "- a\n", want: []string{"chancery.yaml:1", "must be a map"}},
		{name: "no YAML", file: "a: [\n", want: []string{"chancery.yaml", "line"}},
		{name: "missing file", args: []string{"--config", "no.yaml"}, want: []string{"settings file", "no.yaml", "no such file"}},
		{name: "neither true nor false", env: map[string]string{"STATSD_ENABLED": "yes"}, want: []string{"environment STATSD_ENABLED", `"yes"`, "right is true or false"}},
		{name: "host with a port", env: map[string]string{"STATSD_HOST": "statsd:8125"}, want: []string{"environment STATSD_HOST", `"statsd:8125"`, "without scheme or port"}},
		{name: "host with a scheme", env: map[string]string{"STATSD_HOST": "udp://statsd"}, want: []string{"environment STATSD_HOST", "is neither an IP address nor a host name"}},
		{name: "address with a slip", env: map[string]string{"STATSD_HOST": "10.0.0.256"}, want: []string{"environment STATSD_HOST", "is neither an IP address nor a host name"}},
		{name: "port of statistics", env: map[string]string{"STATSD_PORT": "0"}, want: []string{"environment STATSD_PORT", "from 1 to 65535"}},
		{name: "no interval", env: map[string]string{"STATSD_FLUSH_INTERVAL": "0"}, want: []string{"environment STATSD_FLUSH_INTERVAL", "from 1ms to 4m59s"}},
		{name: "interval in words", env: map[string]string{"STATSD_FLUSH_INTERVAL": "often"}, want: []string{"environment STATSD_FLUSH_INTERVAL", `"often"`, "a duration such as"}},
		{name: "bool", args: []string{"--envoy-outlives=maybe"}, want: nil},
		{name: "address", args: []string{"--bind-address", "localhost"}, want: []string{`"localhost"`, "is no IP address"}},
		{name: "host and port", args: []string{"--ads-address", "8003"}, want: []string{`"8003"`, "127.0.0.1:8003"}},
		{name: "range", args: []string{"--gateway-addresses", "10.246.0.1"}, want: []string{`"10.246.0.1"`, "is no range", "10.246.0.0/16"}},
		{name: "bits beyond the range", env: map[string]string{"CHANCERY_GATEWAY_ADDRESSES": "10.246.3.0/16"}, want: []string{"the range is 10.246.0.0/16"}},
		{name: "several", args: []string{"--log-format", "xml", "--ready-port", "x"}, want: []string{"--log-format", "--ready-port", "is no whole number"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.want == nil {
				flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
				AddFlags(flags)
				if flags.Parse(c.args) == nil {
					t.Error("the flag takes any text")
				}
				return
			}
			_, err := load(t, c.args, c.env, c.file)
			if err == nil {
				t.Fatal("no error")
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q does not say %q", err, w)
				}
			}
		})
	}
}

func TestConfigVariable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other.yaml")
	if err := os.WriteFile(path, []byte("namespace: elsewhere\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := load(t, nil, map[string]string{"CHANCERY_CONFIG": path}, "")
	if err != nil {
		t.Fatal(err)
	}
	if s.Namespace != "elsewhere" || origin(s, "namespace").Source != path+":1" {
		t.Errorf("namespace %q from %q", s.Namespace, origin(s, "namespace").Source)
	}
}

func TestUnused(t *testing.T) {
	t.Setenv("AMBASSADOR_EDS_BYPASS", "true")
	t.Setenv("AMBASSADOR_ID", "x")
	t.Setenv("AMBASSADOR_NEVER_HEARD_OF", "1")
	t.Setenv("CHANCERY_DRIAN_TIME", "3s")
	t.Setenv("CHANCERY_LOG_LEVEL", "debug")
	all := strings.Join(Unused(), "\n")
	if !strings.Contains(all, "AMBASSADOR_EDS_BYPASS has no effect: endpoints always") || !strings.Contains(all, "AMBASSADOR_NEVER_HEARD_OF") || strings.Contains(all, "AMBASSADOR_ID ") ||
		!strings.Contains(all, `CHANCERY_DRIAN_TIME has no effect: it is no setting; perhaps "drain-time"`) || strings.Contains(all, "LOG_LEVEL") {
		t.Errorf("unused:\n%s", all)
	}
}

// TestKeysStayOnTheMachine: xDS in clear text is for this machine.
func TestKeysStayOnTheMachine(t *testing.T) {
	for at, want := range map[string]bool{"127.0.0.1:8003": true, "[::1]:8003": true, "[::ffff:127.0.0.1]:8003": true, "0.0.0.0:8003": false, "10.0.0.1:8003": false, "[::]:8003": false} {
		_, err := load(t, []string{"--ads-address", at}, nil, "")
		if (err == nil) != want {
			t.Errorf("%s: %v", at, err)
		}
		if err != nil && !strings.Contains(err.Error(), "fleet-address") {
			t.Errorf("%v does not say what would be right", err)
		}
	}
}
