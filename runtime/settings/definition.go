// Package settings reads what an operator sets: flags, environment variables (CHANCERY_* and Emissary's AMBASSADOR_*
// names with their meaning) and chancery.yaml, in that order of precedence, and remembers where each value came from.
package settings

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Definition describes one setting: its name as flag and as key of chancery.yaml, and how a text becomes its value.
type Definition struct {
	// Name is the flag and the key; CHANCERY_<NAME> (upper case, "_" for "-") is its environment variable.
	Name string
	// Default is the text of the value that holds when nobody sets one.
	Default string
	// Usage is one line for --help; Want says what a right value looks like, for error messages.
	Usage, Want string
	// Bool settings are flags that need no value.
	Bool bool
	// Environment lists further variables in order of precedence, after CHANCERY_<NAME>.
	Environment []Variable

	read func(s *Settings, text string) error
}

// Variable is an environment variable of another program that sets one of ours.
type Variable struct {
	Name string
	// Translate turns its text into ours; keep is false when this text means "as if not set" there. nil takes it as it is.
	Translate func(text string) (value string, keep bool)
}

// Settings are the effective values.
type Settings struct {
	// AmbassadorID is the id whose objects are ours (Emissary docs: AMBASSADOR_ID).
	AmbassadorID string
	// Namespace is our own namespace. SingleNamespace and CertsSingleNamespace confine what is read to it.
	Namespace            string
	SingleNamespace      bool
	CertsSingleNamespace bool
	// BindAddress is the address of every Listener; empty for all.
	BindAddress string
	// LabelSelector and FieldSelector confine what is read of a cluster.
	LabelSelector string
	FieldSelector string
	// UpdateStatus says whether what became of objects is written to their status.
	UpdateStatus bool
	// PublishService and PublishAddresses (comma-separated) are where the status of Ingresses takes its addresses from.
	PublishService   string
	PublishAddresses string
	// GatewayAddresses is the range of which each Gateway (Gateway API) that names no address gets one of its own, which can be bound
	// here; the zero value for none: then all share BindAddress.
	GatewayAddresses netip.Prefix
	// WebhookAddress is where admission reviews are answered; "" for nowhere.
	WebhookAddress string
	// ApiextAddress is where conversion reviews are answered beside the gateway; "" for nowhere. ApiextService is the Service
	// that leads there.
	ApiextAddress string
	ApiextService string
	// LooseLabelSelectors is Emissary's DISABLE_STRICT_LABEL_SELECTORS.
	LooseLabelSelectors bool

	// Envoy is a path, "none", or "" to look for a binary.
	Envoy            string
	EnvoyConcurrency int
	EnvoyBaseID      int
	EnvoyLogLevel    string
	EnvoyOutlives    bool
	// Validator says whether a second Envoy judges what changed before the traffic's sees it; RequireValidator holds back what
	// none could judge.
	Validator        bool
	RequireValidator bool
	DrainTime        time.Duration
	ShutdownGrace    time.Duration
	// Statsd has Envoy send its statistics to StatsdHost, an IP address or a name, over UDP; DogStatsd in Datadog's form, with
	// the tag StatsdEntityID where it is not "".
	Statsd         bool
	DogStatsd      bool
	StatsdHost     string
	StatsdPort     int
	StatsdInterval time.Duration
	StatsdEntityID string

	ADSAddress string
	// FleetAddress is where Envoys elsewhere are served xDS, "" for nowhere; the files hold our certificate and key and the
	// authorities of theirs, PEM.
	FleetAddress     string
	FleetCertificate string
	FleetKey         string
	FleetCA          string
	AdminPort        int
	ReadyPort        int
	HealthAddress    string
	HealthPort       int
	HealthFamily     string

	ReconfigMaxDelay time.Duration
	FastReconfigure  bool
	StateDir         string

	// ConfigDir is a folder of manifests that are read beside the cluster's objects, where it is there; IstioDir that in which
	// Istio's agent keeps its certificate, "" for none.
	ConfigDir string
	IstioDir  string
	// SnapshotAddress and SnapshotExternalAddress are where entrypoint shows its snapshot; "" for nowhere. AcceptSnapshots lets
	// programs of this machine hand in a snapshot of Emissary's.
	SnapshotAddress         string
	SnapshotExternalAddress string
	AcceptSnapshots         bool
	ClusterID               string
	// Knative says whether Knative's Ingresses are served.
	Knative bool

	// Policies are the paths of rules, comma-separated; PolicyKey is the file of the public key that must have signed them, ""
	// for none, PolicyKeyID its name. PolicyNamespaces are those whose Policy and PolicyException objects speak for the platform.
	Policies         string
	PolicyKey        string
	PolicyKeyID      string
	PolicyNamespaces string
	// PolicyLog is the file of the decision log, "" for none; PolicyLogMask the fields that it hides.
	PolicyLog     string
	PolicyLogMask string

	// Modules is the folder of WebAssembly modules, "" for none; ModuleKeys the folder of the public keys of which one must have
	// signed each of them, "" for none.
	Modules    string
	ModuleKeys string

	LogLevel  string
	LogFormat string

	origins map[string]Origin
}

// definitions in the order in which `settings` prints them.
var definitions = []*Definition{
	text("ambassador-id", "default", "take objects with this ambassador_id", func(s *Settings) *string { return &s.AmbassadorID }, "AMBASSADOR_ID"),
	text("namespace", "default", "the namespace Chancery itself runs in", func(s *Settings) *string { return &s.Namespace }, "AMBASSADOR_NAMESPACE"),
	flag("single-namespace", "read objects of the own namespace only", func(s *Settings) *bool { return &s.SingleNamespace }, Variable{"AMBASSADOR_SINGLE_NAMESPACE", anyText}),
	flag("certs-single-namespace", "read Secrets of the own namespace only", func(s *Settings) *bool { return &s.CertsSingleNamespace }, Variable{"AMBASSADOR_CERTS_SINGLE_NAMESPACE", anyText}),
	text("label-selector", "", "read objects of a cluster that have these labels only", func(s *Settings) *string { return &s.LabelSelector }, "AMBASSADOR_LABEL_SELECTOR"),
	text("field-selector", "", "read objects of a cluster that match these fields only", func(s *Settings) *string { return &s.FieldSelector }, "AMBASSADOR_FIELD_SELECTOR"),
	onByDefault("update-status", "write what became of objects of a cluster to their status", func(s *Settings) *bool { return &s.UpdateStatus }, Variable{Name: "AMBASSADOR_UPDATE_MAPPING_STATUS"}),
	text("publish-service", "", "NAMESPACE/NAME of the Service whose addresses the status of Ingresses is given, those within the cluster for type ClusterIP or NodePort without others; without it the one labelled app.kubernetes.io/component: ambassador-service", func(s *Settings) *string { return &s.PublishService }),
	text("publish-addresses", "", "IP addresses and host names, comma-separated, that the status of Ingresses is given in place of a Service's", func(s *Settings) *string { return &s.PublishAddresses }),
	prefix("gateway-addresses", "range of addresses of this machine, such as 10.246.0.0/16, of which each Gateway gets one of its own; without it all Gateways share bind-address", func(s *Settings) *netip.Prefix { return &s.GatewayAddresses }, "CLUSTER_ANY_RANGE"),
	optionalHostPort("webhook-address", "address on which reviews of the API server are answered, such as 0.0.0.0:9443; none without it", func(s *Settings) *string { return &s.WebhookAddress }),
	optionalHostPort("apiext-address", "address on which entrypoint answers the API server's conversion reviews, such as 0.0.0.0:9444; none without it; beside.yaml has the permissions and the Service for it", func(s *Settings) *string { return &s.ApiextAddress }),
	text("apiext-service", "chancery-apiext", "the Service in our namespace that leads to apiext-address", func(s *Settings) *string { return &s.ApiextService }),
	address("bind-address", "0.0.0.0", "address that every Listener binds to", func(s *Settings) *string { return &s.BindAddress }, "AMBASSADOR_ENVOY_BIND_ADDRESS"),
	flag("disable-strict-label-selectors", "attach a Mapping to a Host when host name or any one label agrees", func(s *Settings) *bool { return &s.LooseLabelSelectors }, Variable{Name: "DISABLE_STRICT_LABEL_SELECTORS"}),

	text("envoy", "", `path of the Envoy binary, or "none"; else PATH and the repository's .cache/venv are searched`, func(s *Settings) *string { return &s.Envoy }),
	number("envoy-concurrency", "0", "worker threads of Envoy, 0 for one per core", 0, 1024, func(s *Settings) *int { return &s.EnvoyConcurrency }, Variable{Name: "ENVOY_CONCURRENCY"}),
	number("envoy-base-id", "0", "Envoy's --base-id, 0 for hot restart switched off", 0, 1<<30, func(s *Settings) *int { return &s.EnvoyBaseID }, Variable{Name: "AMBASSADOR_ENVOY_BASE_ID"}),
	choice("envoy-log-level", "error", "log level of Envoy", []string{"trace", "debug", "info", "warning", "error", "critical", "off"}, func(s *Settings) *string { return &s.EnvoyLogLevel }, Variable{"AMBASSADOR_DEBUG", debugEnvoy}),
	flag("envoy-outlives", "leave Envoy running when Chancery dies, and take over one that an earlier run left", func(s *Settings) *bool { return &s.EnvoyOutlives }),
	onByDefault("validator", "let a second Envoy, without traffic, judge what changed before it is served", func(s *Settings) *bool { return &s.Validator }),
	flag("require-validator", "serve nothing that no validating Envoy has judged, in place of a warning", func(s *Settings) *bool { return &s.RequireValidator }),
	duration("drain-time", "10m", "how long Envoy drains connections of a listener that goes away, and keeps clusters to which nothing leads any more", time.Second, 24*time.Hour, func(s *Settings) *time.Duration { return &s.DrainTime }, Variable{"AMBASSADOR_DRAIN_TIME", seconds}),
	duration("shutdown-grace", "10s", "how long requests in flight may take at the end, at most drain-time", 0, 24*time.Hour, func(s *Settings) *time.Duration { return &s.ShutdownGrace }),

	flag("statsd", "have Envoy send its statistics to statsd-host over UDP", func(s *Settings) *bool { return &s.Statsd }, Variable{Name: "STATSD_ENABLED"}),
	flag("dogstatsd", "send statistics in Datadog's form, in which tags travel beside names", func(s *Settings) *bool { return &s.DogStatsd }, Variable{Name: "DOGSTATSD"}),
	host("statsd-host", "statsd-sink", "IP address or name of the receiver of statistics; a name is looked up at the start and twice a minute", func(s *Settings) *string { return &s.StatsdHost }, "STATSD_HOST"),
	number("statsd-port", "8125", "UDP port of the receiver of statistics", 1, 65535, func(s *Settings) *int { return &s.StatsdPort }, Variable{Name: "STATSD_PORT"}),
	duration("statsd-flush-interval", "1s", "time between two transmissions of statistics", time.Millisecond, 299*time.Second, func(s *Settings) *time.Duration { return &s.StatsdInterval }, Variable{"STATSD_FLUSH_INTERVAL", seconds}),
	text("statsd-entity-id", "", "tag dd.internal.entity_id of Datadog's form", func(s *Settings) *string { return &s.StatsdEntityID }, "DD_ENTITY_ID"),

	loopback("ads-address", "127.0.0.1:8003", "loopback address of the xDS server", func(s *Settings) *string { return &s.ADSAddress }),
	optionalHostPort("fleet-address", "network address on which Envoys elsewhere are served xDS over mutual TLS; none without it", func(s *Settings) *string { return &s.FleetAddress }),
	text("fleet-certificate", "", "file with the certificate that is shown to Envoys elsewhere (PEM)", func(s *Settings) *string { return &s.FleetCertificate }),
	text("fleet-key", "", "file with the private key of that certificate (PEM)", func(s *Settings) *string { return &s.FleetKey }),
	text("fleet-ca", "", "file with the authorities that sign the certificates of Envoys elsewhere (PEM)", func(s *Settings) *string { return &s.FleetCA }),
	number("admin-port", "8001", "loopback port of Envoy's admin interface", 1, 65535, func(s *Settings) *int { return &s.AdminPort }),
	number("ready-port", "8006", "loopback port of Envoy's ready listener", 1, 65535, func(s *Settings) *int { return &s.ReadyPort }, Variable{"AMBASSADOR_READY_PORT", readyPort}),
	address("health-address", "0.0.0.0", "address of health, diagnostics and metrics", func(s *Settings) *string { return &s.HealthAddress }, "AMBASSADOR_HEALTHCHECK_BIND_ADDRESS"),
	number("health-port", "8877", "port of health, diagnostics and metrics, 0 for any free one", 0, 65535, func(s *Settings) *int { return &s.HealthPort }, Variable{Name: "AMBASSADOR_HEALTHCHECK_BIND_PORT"}),
	choice("health-family", "any", "IP family of the health server", []string{"any", "ipv4_only", "ipv6_only"}, func(s *Settings) *string { return &s.HealthFamily }, Variable{"AMBASSADOR_HEALTHCHECK_IP_FAMILY", lower}),

	duration("reconfig-max-delay", "1s", "the longest that a change waits to be joined with others", 0, time.Hour, func(s *Settings) *time.Duration { return &s.ReconfigMaxDelay }, Variable{"AMBASSADOR_RECONFIG_MAX_DELAY", seconds}),
	onByDefault("fast-reconfigure", "compile only what changed", func(s *Settings) *bool { return &s.FastReconfigure }, Variable{Name: "AMBASSADOR_FAST_RECONFIGURE"}),
	text("state-dir", defaultStateDir(), "where the last good state is kept between runs", func(s *Settings) *string { return &s.StateDir }),

	path("config-dir", "/ambassador/ambassador-config", "folder of manifests that entrypoint reads beside the cluster's objects, where it is there when Chancery starts", func(s *Settings) *string { return &s.ConfigDir },
		Variable{Name: "AMBASSADOR_CONFIG_DIR"}, Variable{"AMBASSADOR_CONFIG_BASE_DIR", inBaseDir}, Variable{"ambassador_root", inBaseDir}),
	path("istio-secret-dir", "", "folder of Istio's certificate, cert-chain.pem and key.pem, which becomes the Secret istio-certs", func(s *Settings) *string { return &s.IstioDir }, Variable{Name: "AMBASSADOR_ISTIO_SECRET_DIR"}),
	flag("knative-support", "serve the Ingresses of Knative", func(s *Settings) *bool { return &s.Knative }, Variable{"AMBASSADOR_KNATIVE_SUPPORT", onlyTrue}),
	optionalHostPort("snapshot-address", "loopback address on which entrypoint shows its snapshot, without secrets, at /snapshot", func(s *Settings) *string { return &s.SnapshotAddress }).or("127.0.0.1:9696"),
	optionalHostPort("snapshot-external-address", "the same for everyone, at /snapshot-external", func(s *Settings) *string { return &s.SnapshotExternalAddress }, Variable{"AMBASSADOR_DISABLE_SNAPSHOT_SERVER", nowhere}).or("0.0.0.0:8005"),
	flag("accept-snapshots", "let programs of this machine hand in a snapshot of Emissary's, at /_internal/v0/watt of the health port", func(s *Settings) *bool { return &s.AcceptSnapshots }),
	text("cluster-id", "", "name of the cluster in snapshots; without it one is made of its first namespace", func(s *Settings) *string { return &s.ClusterID }, "AMBASSADOR_CLUSTER_ID"),

	text("policies", "", "rules that govern the compile: .rego files, folders, archives, OPA bundles, OCI layouts, web addresses; comma-separated", func(s *Settings) *string { return &s.Policies }),
	text("policy-key", "", "file with the public key (PEM) that must have signed the rules", func(s *Settings) *string { return &s.PolicyKey }),
	text("policy-key-id", "chancery", "name of the key that must have signed the rules", func(s *Settings) *string { return &s.PolicyKeyID }),
	text("policy-namespaces", "", "further namespaces whose Policy and PolicyException objects speak for the platform, beside our own; comma-separated", func(s *Settings) *string { return &s.PolicyNamespaces }),
	text("policy-log", "", "file to which each change of a policy's verdict is appended as a line of JSON", func(s *Settings) *string { return &s.PolicyLog }),
	text("policy-log-mask", "", "fields of that log that are hidden: object, tenant, message, path; comma-separated", func(s *Settings) *string { return &s.PolicyLogMask }),

	text("modules", "", "folder of WebAssembly modules, which is watched: NAME.wasm, with NAME.json for its settings and grant", func(s *Settings) *string { return &s.Modules }),
	text("module-keys", "", "folder of public keys (PEM), of which one must have signed each module", func(s *Settings) *string { return &s.ModuleKeys }),

	choice("log-level", "info", "log level", []string{"debug", "info", "warn", "error"}, func(s *Settings) *string { return &s.LogLevel }, Variable{"AES_LOG_LEVEL", aesLevel}),
	choice("log-format", "text", "log format", []string{"text", "json"}, func(s *Settings) *string { return &s.LogFormat }, Variable{"AMBASSADOR_JSON_LOGGING", jsonLogging}),
}

// Definitions returns every setting, in the order in which they are documented.
func Definitions() []*Definition { return definitions }

// Variable returns the setting's own environment variable.
func (d *Definition) Variable() string {
	return "CHANCERY_" + strings.ToUpper(strings.ReplaceAll(d.Name, "-", "_"))
}

func text(name, def, usage string, at func(*Settings) *string, env ...string) *Definition {
	return &Definition{Name: name, Default: def, Usage: usage, Want: "a text", Environment: plain(env), read: func(s *Settings, v string) error {
		*at(s) = v
		return nil
	}}
}

func address(name, def, usage string, at func(*Settings) *string, env ...string) *Definition {
	return &Definition{Name: name, Default: def, Usage: usage, Want: "an IP address such as 0.0.0.0 or ::", Environment: plain(env), read: func(s *Settings, v string) error {
		if _, err := netip.ParseAddr(v); err != nil {
			return fmt.Errorf("is no IP address")
		}
		*at(s) = v
		return nil
	}}
}

func prefix(name, usage string, at func(*Settings) *netip.Prefix, env ...string) *Definition {
	return &Definition{Name: name, Usage: usage, Want: "a range of IP addresses such as 10.246.0.0/16", Environment: plain(env), read: func(s *Settings, v string) error {
		if v == "" {
			*at(s) = netip.Prefix{}
			return nil
		}
		p, err := netip.ParsePrefix(v)
		if err != nil {
			return fmt.Errorf("is no range of IP addresses")
		}
		if p != p.Masked() {
			return fmt.Errorf("has bits beyond its length; the range is %s", p.Masked())
		}
		*at(s) = p
		return nil
	}}
}

// host is an IP address or a name (RFC 1123, section 2.1).
func host(name, def, usage string, at func(*Settings) *string, env ...string) *Definition {
	want := "an IP address such as 10.0.0.7, or a host name such as statsd.monitoring, without scheme or port"
	return &Definition{Name: name, Default: def, Usage: usage, Want: want, Environment: plain(env), read: func(s *Settings, v string) error {
		if a, err := netip.ParseAddr(v); err == nil {
			if a.Zone() != "" {
				return fmt.Errorf("has a zone")
			}
			*at(s) = v
			return nil
		}
		if len(v) > 253 || !hostName.MatchString(v) {
			return fmt.Errorf("is neither an IP address nor a host name")
		}
		*at(s) = v
		return nil
	}}
}

// hostName takes what DNS takes in practice, underscores included; the last label is no number, or it would be an address gone wrong.
var hostName = regexp.MustCompile(`^(?:[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.)*[A-Za-z_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.?$`)

func hostPort(name, def, usage string, at func(*Settings) *string) *Definition {
	return &Definition{Name: name, Default: def, Usage: usage, Want: "an IP address and port such as 127.0.0.1:8003", read: func(s *Settings, v string) error {
		if _, err := netip.ParseAddrPort(v); err != nil {
			return fmt.Errorf("is no IP address with a port")
		}
		*at(s) = v
		return nil
	}}
}

func loopback(name, def, usage string, at func(*Settings) *string) *Definition {
	d := hostPort(name, def, usage, at)
	read := d.read
	d.Want = "a loopback address and port such as 127.0.0.1:8003; for Envoys elsewhere there is fleet-address"
	d.read = func(s *Settings, v string) error {
		if err := read(s, v); err != nil {
			return err
		}
		if !netip.MustParseAddrPort(v).Addr().Unmap().IsLoopback() {
			return fmt.Errorf("is no loopback address, and private keys go over it in clear text")
		}
		return nil
	}
	return d
}

func optionalHostPort(name, usage string, at func(*Settings) *string, env ...Variable) *Definition {
	d := hostPort(name, "", usage, at)
	d.Environment = env
	read := d.read
	d.read = func(s *Settings, v string) error {
		if v == "" {
			return nil
		}
		return read(s, v)
	}
	return d
}

// or sets the default.
func (d *Definition) or(text string) *Definition {
	d.Default = text
	return d
}

// path is a text with variables that say it in another way.
func path(name, def, usage string, at func(*Settings) *string, env ...Variable) *Definition {
	d := text(name, def, usage, at)
	d.Environment = env
	return d
}

func flag(name, usage string, at func(*Settings) *bool, env ...Variable) *Definition {
	return &Definition{Name: name, Default: "false", Usage: usage, Want: "true or false", Bool: true, Environment: env, read: func(s *Settings, v string) error {
		b, err := strconv.ParseBool(strings.ToLower(v))
		if err != nil {
			return fmt.Errorf("is neither true nor false")
		}
		*at(s) = b
		return nil
	}}
}

func onByDefault(name, usage string, at func(*Settings) *bool, env ...Variable) *Definition {
	d := flag(name, usage, at, env...)
	d.Default = "true"
	return d
}

func number(name, def, usage string, low, high int, at func(*Settings) *int, env ...Variable) *Definition {
	want := fmt.Sprintf("a whole number from %d to %d", low, high)
	return &Definition{Name: name, Default: def, Usage: usage, Want: want, Environment: env, read: func(s *Settings, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil {
			return fmt.Errorf("is no whole number")
		}
		if n < low || n > high {
			return fmt.Errorf("is out of range")
		}
		*at(s) = n
		return nil
	}}
}

func duration(name, def, usage string, low, high time.Duration, at func(*Settings) *time.Duration, env ...Variable) *Definition {
	want := fmt.Sprintf("a duration such as 500ms, 30s or 10m, from %s to %s", low, high)
	return &Definition{Name: name, Default: def, Usage: usage, Want: want, Environment: env, read: func(s *Settings, v string) error {
		d, err := time.ParseDuration(v)
		if err != nil {
			return fmt.Errorf("is no duration (a number needs its unit)")
		}
		if d < low || d > high {
			return fmt.Errorf("is out of range")
		}
		*at(s) = d
		return nil
	}}
}

func choice(name, def, usage string, of []string, at func(*Settings) *string, env ...Variable) *Definition {
	want := "one of " + strings.Join(of, ", ")
	return &Definition{Name: name, Default: def, Usage: usage + ": " + strings.Join(of, ", "), Want: want, Environment: env, read: func(s *Settings, v string) error {
		for _, c := range of {
			if strings.EqualFold(c, v) {
				*at(s) = c
				return nil
			}
		}
		return fmt.Errorf("is not known")
	}}
}

func plain(names []string) []Variable {
	var vs []Variable
	for _, n := range names {
		vs = append(vs, Variable{Name: n})
	}
	return vs
}

// anyText: Emissary asks only whether the variable is set to something.
func anyText(string) (string, bool) { return "true", true }

// onlyTrue: Emissary asks for exactly this text.
func onlyTrue(v string) (string, bool) { return v, v == "true" }

// nowhere: whatever the text is, it switches off.
func nowhere(string) (string, bool) { return "", true }

// inBaseDir: Emissary's folder of manifests is in its base folder unless somebody says otherwise.
func inBaseDir(v string) (string, bool) { return filepath.Join(v, "ambassador-config"), true }

func lower(v string) (string, bool) { return strings.ToLower(v), true }

// seconds: a bare number counts seconds, as in Emissary.
func seconds(v string) (string, bool) {
	if _, err := strconv.ParseFloat(v, 64); err == nil {
		return v + "s", true
	}
	return v, true
}

// readyPort: Emissary falls back to its default for values outside 1 to 32766.
func readyPort(v string) (string, bool) {
	n, err := strconv.Atoi(v)
	return v, err == nil && n >= 1 && n <= 32766
}

// debugEnvoy: AMBASSADOR_DEBUG lists what is to be debugged; "envoy" among it raises Envoy's level to trace.
func debugEnvoy(v string) (string, bool) {
	return "trace", strings.Contains(strings.ToLower(v), "envoy")
}

func aesLevel(v string) (string, bool) {
	switch strings.ToLower(v) {
	case "trace":
		return "debug", true
	case "warning":
		return "warn", true
	case "fatal", "panic", "critical":
		return "error", true
	}
	return v, true
}

func jsonLogging(v string) (string, bool) { return "json", strings.EqualFold(v, "true") }

func defaultStateDir() string {
	if dir, err := os.UserCacheDir(); err == nil && filepath.IsAbs(dir) {
		return filepath.Join(dir, "chancery")
	}
	return filepath.Join(os.TempDir(), "chancery")
}
