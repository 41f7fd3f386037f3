package emissary

import (
	"maps"
	"math"
	"slices"
	"strings"

	api "github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
	"github.com/chancery-gateway/chancery/translators/ir"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// defaults reads the tree of defaults: defaults.httpmapping.<key>, else defaults.<key>.
func (r *reader) defaults() {
	tree := r.object("defaults")
	if tree == nil {
		return
	}
	tree.flag("tls_secret_namespacing", &r.s.secretNamespacing)
	tree.mappingDefaults()
	if mapping := tree.object("httpmapping"); mapping != nil {
		mapping.mappingDefaults()
		mapping.unknown()
	}
	tree.unknown()
}

func (r *reader) mappingDefaults() {
	r.addedHeaders("add_request_headers", &r.s.add.request)
	r.addedHeaders("add_response_headers", &r.s.add.response)
	r.removedHeaders("remove_request_headers", &r.s.remove.request)
	r.removedHeaders("remove_response_headers", &r.s.remove.response)
	r.text("stats_name", &r.s.statsName)
}

// addedHeaders reads headers; a bare text is the short form of {value: text}.
func (r *reader) addedHeaders(key string, into *[]ir.HeaderValue) {
	if object := r.object(key); object != nil {
		headers := map[string]api.AddedHeader{}
		for name, v := range object.values {
			if text, short := v.(string); short {
				headers[name] = api.AddedHeader{Value: text}
				continue
			}
			var h api.AddedHeader
			if object.decode(name, &h) {
				headers[name] = h
			}
		}
		var out []ir.HeaderValue
		if r.trial(key, func(l *lowering, path string) { out = l.addedHeaders(path, headers) }) {
			*into = out
		}
	}
}

func (r *reader) removedHeaders(key string, into *[]string) {
	if names, ok := r.texts(key); ok {
		var out []string
		if r.trial(key, func(l *lowering, path string) { out = l.removedHeaders(path, names) }) {
			*into = out
		}
	}
}

// texts reads a list of texts, or one text.
func (r *reader) texts(key string) ([]string, bool) {
	v, ok := r.get(key)
	if !ok {
		return nil, false
	}
	if one, is := v.(string); is {
		return []string{one}, true
	}
	list, is := v.([]any)
	out := make([]string, 0, len(list))
	for _, item := range list {
		text, isText := item.(string)
		if !isText {
			is = false
			break
		}
		out = append(out, text)
	}
	if !is {
		r.invalid(key, show(v)+" is not a list of texts", "")
		return nil, false
	}
	return out, true
}

// clusters reads the defaults of upstreams.
func (r *reader) clusters() {
	r.text("resolver", &r.s.resolver)
	r.flag("use_ambassador_namespace_for_service_resolution", &r.s.ownNamespaceServices)
	r.flag("enable_ipv4", &r.s.ipv4)
	r.flag("enable_ipv6", &r.s.ipv6)
	r.s.clusterIdle = r.millis("cluster_idle_timeout_ms")
	r.s.clusterLifetime = r.millis("cluster_max_connection_lifetime_ms")
	var breakers []api.CircuitBreaker
	if r.decode("circuit_breakers", &breakers) {
		var out []ir.CircuitBreaker
		if r.trial("circuit_breakers", func(l *lowering, path string) { out = l.circuitBreakers(path, breakers) }) {
			r.s.breakers = out
		}
	}
	if k := r.object("keepalive"); k != nil {
		keepalive := &ir.Keepalive{Probes: k.small("probes"), Time: k.small("time"), Interval: k.small("interval")}
		if idle := k.small("idle_time"); keepalive.Time == nil {
			keepalive.Time = idle
		}
		k.unknown()
		r.s.keepalive = keepalive
	}
	var lb api.LoadBalancer
	if r.decode("load_balancer", &lb) {
		b, err := checkBalancer(&lb)
		if err != nil {
			r.invalid("load_balancer", err.Error(), "")
		} else {
			r.s.balancer = b
		}
	}
}

func (r *reader) small(key string) *uint32 {
	n, ok := r.number(key, 0, math.MaxUint32)
	if !ok {
		return nil
	}
	u := uint32(n)
	return &u
}

// routes reads the defaults of routes.
func (r *reader) routes() {
	if n := r.millis("cluster_request_timeout_ms"); n != nil {
		r.s.timeout = *n
	}
	if n, ok := r.number("regex_max_size", 1, math.MaxInt32); ok {
		r.s.regexMaxSize = uint32(n)
	}
	r.flag("add_linkerd_headers", &r.s.linkerd)
	var cors api.CORS
	if r.decode("cors", &cors) {
		var out *ir.CORS
		if r.trial("cors", func(l *lowering, path string) { out = l.cors(path, &cors) }) {
			r.s.cors = out
		}
	}
	var retry api.RetryPolicy
	if r.decode("retry_policy", &retry) {
		var out *ir.RetryPolicy
		if r.trial("retry_policy", func(l *lowering, path string) { out = l.retry(path, &retry) }) {
			r.s.retry = out
		}
	}
}

// probes reads liveness_probe, readiness_probe and diagnostics.
func (r *reader) probes() {
	for _, p := range []struct {
		key, name, prefix string
		open              bool
	}{
		{"liveness_probe", "internal_liveness_probe_mapping", "/ambassador/v0/check_alive", true},
		{"readiness_probe", "internal_readiness_probe_mapping", "/ambassador/v0/check_ready", true},
		{"diagnostics", "internal_diagnostics_probe_mapping", "/ambassador/v0/", false},
	} {
		enabled, everyone := true, false
		out := probe{name: p.name, open: p.open}
		if o := r.object(p.key); o != nil {
			enabled = false
			o.flag("enabled", &enabled)
			o.text("prefix", &out.prefix)
			o.text("rewrite", &out.rewrite)
			o.text("service", &out.service)
			o.flag("allow_non_local", &everyone)
			o.unknown()
		}
		if out.prefix == "" {
			out.prefix = p.prefix
		}
		if out.rewrite == "" {
			out.rewrite = p.prefix
		}
		if out.service == "" {
			out.service = r.s.diagService
		}
		if !strings.HasPrefix(out.prefix, "/") {
			r.invalid(p.key+".prefix", "\""+out.prefix+"\" is no path prefix", "a path begins with \"/\"")
			out.prefix = p.prefix
		}
		if _, err := parseService(out.service); err != nil {
			r.invalid(p.key+".service", err.Error(), "host:port")
			out.service = r.s.diagService
		}
		if enabled {
			r.s.probes = append(r.s.probes, out)
		} else if p.key == "diagnostics" {
			r.s.bootstrap.LocalDiagnostics = !everyone
		}
	}
}

// bootstrap reads what Envoy gets at its start.
func (r *reader) bootstrap() {
	if n, ok := r.number("admin_port", 1, math.MaxUint16); ok {
		r.s.bootstrap.AdminPort = uint32(n)
	}
	r.s.bootstrap.RegexMaxSize = r.s.regexMaxSize
	flags := r.object("runtime_flags")
	if flags == nil {
		return
	}
	for _, key := range sortedKeys(flags.values) {
		switch v := flags.values[key].(type) {
		case bool, string, float64, int, int64:
			if r.s.bootstrap.Runtime == nil {
				r.s.bootstrap.Runtime = map[string]any{}
			}
			r.s.bootstrap.Runtime[key] = v
		default:
			flags.invalid(key, show(v)+" is no runtime value", "a boolean, number or text")
		}
	}
}
