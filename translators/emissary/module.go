package emissary

import (
	"maps"
	"slices"

	"github.com/chancery-gateway/chancery/snapshot"
	api "github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// moduleName is the name of the Module that holds an installation's defaults.
const moduleName = "ambassador"

// settings are what the Module says, checked and with all defaults filled in. They do not change.
type settings struct {
	// of is the Module; nil when there is none.
	of          *snapshot.Object
	diagnostics []snapshot.Diagnostic

	http      *ir.HTTPSettings
	bootstrap *ir.Bootstrap
	probes    []probe
	// bufferLimit is per_connection_buffer_limit_bytes of every listener.
	bufferLimit uint32

	resolver             string
	ownNamespaceServices bool
	secretNamespacing    bool
	regexMaxSize         uint32
	linkerd              bool
	timeout              int64

	add    struct{ request, response []ir.HeaderValue }
	remove struct{ request, response []string }

	statsName                    string
	clusterIdle, clusterLifetime *int64
	ipv4, ipv6                   bool
	breakers                     []ir.CircuitBreaker
	keepalive                    *ir.Keepalive
	balancer                     *balancer
	headerCase                   []string
	cors                         *ir.CORS
	retry                        *ir.RetryPolicy

	// filters are those that the Module turns on; they stand before CORS.
	filters []*ir.Filter
	// labelDomain is default_label_domain; labels are default_labels by domain.
	labelDomain string
	diagService string
	labels      map[string][]ir.RateLimitAction
}

// probe is one of the internal routes to the diagnostics service.
type probe struct {
	name, prefix, rewrite, service string
	// open probes are answered unasked: whether the gateway lives is not the AuthService's business.
	open bool
}

// defaultTimeout is cluster_request_timeout_ms' default.
const defaultTimeout = 3000

// module returns the settings of the Module that counts: the first by namespace and name that has the right name and
// ambassador_id. They are made once for each version of it.
func (f *FrontEnd) module(v *snapshot.View) *settings {
	var of *snapshot.Object
	for o := range v.List(api.KindModule) {
		if o.Name == moduleName && f.Owns(o) {
			of = o
			break
		}
	}
	if s := f.settings.Load(); s != nil && s.of == of {
		return s
	}
	s := f.newSettings(of)
	f.settings.Store(s)
	return s
}

// module reports on a Module. The one that counts carries the bootstrap.
func (l *lowering) module(spec *api.ModuleSpec) {
	if l.o != l.set.of {
		if l.o.Name == moduleName {
			l.warn(codeModuleIgnored, "", "ignored: Module "+l.set.of.Namespace+"/"+l.set.of.Name+" comes first", "")
			return
		}
		l.warn(codeModuleIgnored, "metadata.name", "accepted, but a Module of this name has no effect", "the name \""+moduleName+"\"")
		return
	}
	l.out.Diagnostics = append(l.out.Diagnostics, l.set.diagnostics...)
	l.out.Bootstrap = l.set.bootstrap
}

// newSettings reads a Module; nil gives the defaults.
func (f *FrontEnd) newSettings(of *snapshot.Object) *settings {
	s := &settings{
		of: of, resolver: "kubernetes-service", secretNamespacing: true, regexMaxSize: defaultRegexMaxSize, timeout: defaultTimeout, ipv4: true,
		diagService: f.options.DiagService,
		http:        &ir.HTTPSettings{UseRemoteAddress: true, ServerName: "envoy"},
		bootstrap:   &ir.Bootstrap{AdminPort: 8001, ReadyPort: f.options.ReadyPort, NodeID: f.options.NodeID, NodeCluster: f.options.NodeCluster},
	}
	r := &reader{s: s, path: "spec.config"}
	about := f.self
	if of != nil {
		about = of
		r.values = of.Spec.(*api.ModuleSpec).Config
		s.http.Origins = []ir.Origin{of.Ref}
		s.bootstrap.Origins = []ir.Origin{of.Ref}
	}
	r.l = &lowering{f: f, o: about, set: s, out: &ir.Fragments{}}
	r.defaults()
	r.clusters()
	r.routes()
	r.connections()
	r.filters()
	r.labels()
	r.accessLog()
	r.probes()
	r.bootstrap()
	r.rest()
	s.diagnostics = r.l.out.Diagnostics
	return s
}

// noEffect are keys that are known and do nothing; the text says why, "" that it is only not built yet.
var noEffect = map[string]string{
	"debug_mode": "", "envoy_validation_timeout": "",
	"auth_enabled": "as in Emissary 4", "error_response_overrides": "as in Emissary 4", "prune_unreachable_routes": "as in Emissary 4",
	"regex_type": "as in Emissary 4", "service_port": "as in Emissary 4; ports are Listeners' business", "statsd": "as in Emissary 4",
	"tls": "as in Emissary 4; use TLSContext", "use_proxy_proto": "as in Emissary 4; use the Listener's protocol",
	"x_forwarded_proto_redirect": "as in Emissary 4; use the Host's requestPolicy", "xff_num_trusted_hops": "as in Emissary 4; use the Listener's l7Depth",
}

// rest reports every key that no one has read.
func (r *reader) rest() {
	for _, key := range slices.Sorted(maps.Keys(r.values)) {
		if r.seen[key] {
			continue
		}
		path := r.path + "." + key
		why, known := noEffect[key]
		switch {
		case known && why != "":
			r.l.warn(codeModuleNoEffect, path, "accepted, but has no effect, "+why, "")
		case known:
			r.l.warn(codeModuleNoEffect, path, "accepted, but has no effect yet", "")
		default:
			r.l.warn(codeModuleUnknown, path, "unknown key \""+key+"\"", "")
		}
	}
}
