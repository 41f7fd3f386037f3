// Package emissary is the front end for Emissary-ingress' custom resources: it lowers Listeners, Hosts, Mappings,
// TCPMappings and TLSContexts to IR fragments, with the defaults of the Module "ambassador". Each fragment is a pure
// function of its object and of what was read through the view. Where the meaning differs from Emissary's, the
// difference is a row in translators/COMPATIBILITY.md.
package emissary

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
	api "github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// Options are an installation's settings; the names in brackets are Emissary's environment variables.
type Options struct {
	// AmbassadorID picks the objects that are for this installation; "" means "default" [AMBASSADOR_ID].
	AmbassadorID string
	// Namespace is the installation's own; "" means "default" [AMBASSADOR_NAMESPACE].
	Namespace string
	// SingleNamespace ignores objects of other namespaces [AMBASSADOR_SINGLE_NAMESPACE].
	SingleNamespace bool
	// CertsSingleNamespace reads Secrets of the own namespace only [AMBASSADOR_CERTS_SINGLE_NAMESPACE].
	CertsSingleNamespace bool
	// BindAddress is where Listeners bind; "" means "0.0.0.0" [AMBASSADOR_ENVOY_BIND_ADDRESS].
	BindAddress string
	// ReadyPort is the port of Envoy's ready listener; 0 means 8006 [AMBASSADOR_READY_PORT].
	ReadyPort uint32
	// DiagService is where the gateway's own probes are answered; "" means "127.0.0.1:8877".
	DiagService string
	// LooseLabelSelectors lets one equal label, or the host name alone, attach a Mapping to a Host
	// [DISABLE_STRICT_LABEL_SELECTORS].
	LooseLabelSelectors bool
	// NodeID and NodeCluster name Envoy to its control plane and in traces; "" means "chancery" and, as in Emissary,
	// "<AmbassadorID>-<Namespace>".
	NodeID, NodeCluster string
	// Now is the clock against which certificates are checked; nil means time.Now. It decides over warnings only.
	Now func() time.Time
}

// FrontEnd implements translators.FrontEnd for Emissary's kinds. It is safe for concurrent use.
type FrontEnd struct {
	options  Options
	settings atomic.Pointer[settings]
	pairs    pairs
	self     *snapshot.Object
}

// New returns the front end of one installation.
func New(o Options) *FrontEnd {
	if o.AmbassadorID == "" {
		o.AmbassadorID = "default"
	}
	if o.Namespace == "" {
		o.Namespace = "default"
	}
	if o.BindAddress == "" {
		o.BindAddress = "0.0.0.0"
	}
	if o.ReadyPort == 0 {
		o.ReadyPort = 8006
	}
	if o.DiagService == "" {
		o.DiagService = "127.0.0.1:8877"
	}
	if o.NodeID == "" {
		o.NodeID = "chancery"
	}
	if o.NodeCluster == "" {
		o.NodeCluster = o.AmbassadorID + "-" + o.Namespace
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	self := &snapshot.Object{
		Ref:        snapshot.Ref{Group: snapshot.EmissaryGroup, Kind: api.KindModule.Kind, Namespace: o.Namespace, Name: moduleName},
		APIVersion: api.APIVersion,
	}
	return &FrontEnd{options: o, self: self}
}

// Name returns "emissary".
func (*FrontEnd) Name() string { return "emissary" }

// Kinds returns all kinds of getambassador.io/v3alpha1.
func (*FrontEnd) Kinds() []snapshot.GroupKind {
	return []snapshot.GroupKind{
		api.KindAuthService, api.KindConsulResolver, api.KindDevPortal, api.KindHost, api.KindKubernetesEndpointResolver,
		api.KindKubernetesServiceResolver, api.KindListener, api.KindLogService, api.KindMapping, api.KindModule,
		api.KindRateLimitService, api.KindTCPMapping, api.KindTLSContext, api.KindTracingService,
	}
}

// Lower turns one object into fragments, or returns nil for an object of another installation.
func (f *FrontEnd) Lower(o *snapshot.Object, v *snapshot.View) *ir.Fragments {
	if !f.Owns(o) {
		return nil
	}
	l := lowerings.Get().(*lowering)
	defer lowerings.Put(l)
	l.begin(f, o, v)
	switch spec := o.Spec.(type) {
	case *api.MappingSpec:
		l.set = f.module(v)
		l.mapping(spec)
	case *api.HostSpec:
		l.set = f.module(v)
		l.host(spec)
	case *api.ListenerSpec:
		l.set = f.module(v)
		l.listener(spec)
	case *api.TCPMappingSpec:
		l.set = f.module(v)
		l.tcpMapping(spec)
	case *api.TLSContextSpec:
		l.set = f.module(v)
		l.tlsContext(spec)
	case *api.ModuleSpec:
		l.set = f.module(v)
		l.module(spec)
	case *api.AuthServiceSpec:
		l.set = f.module(v)
		l.authService(spec)
	case *api.RateLimitServiceSpec:
		l.set = f.module(v)
		l.rateLimitService(spec)
	case *api.LogServiceSpec:
		l.set = f.module(v)
		l.logService(spec)
	case *api.TracingServiceSpec:
		l.set = f.module(v)
		l.tracingService(spec)
	case *api.ConsulResolverSpec:
		l.consulResolver(spec)
	default:
		l.other()
	}
	return l.out
}

// Owns reports whether the object is for this installation.
func (f *FrontEnd) Owns(o *snapshot.Object) bool {
	if f.options.SingleNamespace && o.Namespace != f.options.Namespace {
		return false
	}
	id, known := ambassadorID(o.Spec)
	return known && id.Matches(f.options.AmbassadorID)
}

func ambassadorID(spec any) (api.AmbassadorID, bool) {
	switch s := spec.(type) {
	case *api.MappingSpec:
		return s.AmbassadorID, true
	case *api.HostSpec:
		return s.AmbassadorID, true
	case *api.ListenerSpec:
		return s.AmbassadorID, true
	case *api.TCPMappingSpec:
		return s.AmbassadorID, true
	case *api.TLSContextSpec:
		return s.AmbassadorID, true
	case *api.ModuleSpec:
		return s.AmbassadorID, true
	case *api.KubernetesServiceResolverSpec:
		return s.AmbassadorID, true
	case *api.KubernetesEndpointResolverSpec:
		return s.AmbassadorID, true
	case *api.ConsulResolverSpec:
		return s.AmbassadorID, true
	case *api.AuthServiceSpec:
		return s.AmbassadorID, true
	case *api.RateLimitServiceSpec:
		return s.AmbassadorID, true
	case *api.LogServiceSpec:
		return s.AmbassadorID, true
	case *api.TracingServiceSpec:
		return s.AmbassadorID, true
	case *api.DevPortalSpec:
		return s.AmbassadorID, true
	}
	return nil, false
}

// lowering is the work on one object.
type lowering struct {
	f   *FrontEnd
	o   *snapshot.Object
	v   *snapshot.View
	set *settings
	out *ir.Fragments
	// failed is set by fail: the object as a whole has no effect.
	failed bool
	// upstreamService is the service that cluster parsed.
	upstreamService service
	// refs is the origin list; nodes share it.
	refs []ir.Origin
	// derived is set while the object is of another kind, which stands for a Mapping.
	derived *Derived
	// scratch is room for keys that are built byte by byte.
	scratch [512]byte
}

// lowerings are the work spaces: nothing that comes out of a lowering refers to its own.
var lowerings = sync.Pool{New: func() any { return new(lowering) }}

// begin sets up everything but scratch.
func (l *lowering) begin(f *FrontEnd, o *snapshot.Object, v *snapshot.View) {
	l.f, l.o, l.v, l.set, l.out = f, o, v, nil, &ir.Fragments{}
	l.failed, l.upstreamService, l.refs, l.derived = false, service{}, nil, nil
}

func (l *lowering) report(s snapshot.Severity, c *snapshot.Code, path, message, help string) {
	l.out.Diagnostics = append(l.out.Diagnostics, l.o.About(s, c, path, message, help))
}

// fail reports an error that costs the whole object.
func (l *lowering) fail(c *snapshot.Code, path, message, help string) {
	l.failed = true
	l.report(snapshot.Error, c, path, message, help)
}

// warn reports what is odd but served.
func (l *lowering) warn(c *snapshot.Code, path, message, help string) {
	l.report(snapshot.Warning, c, path, message, help)
}

// origins returns the origin list of nodes that this object made.
func (l *lowering) origins() []ir.Origin {
	if l.refs == nil {
		l.refs = []ir.Origin{l.o.Ref}
	}
	return l.refs
}

// other reports kinds whose effect is not built.
func (l *lowering) other() {
	switch l.o.Spec.(type) {
	case *api.KubernetesServiceResolverSpec, *api.KubernetesEndpointResolverSpec:
		if kind := builtinResolver(l.o.Name); kind != "" && kind != l.o.Kind {
			l.fail(codeClusterResolver, "metadata.name", "\""+l.o.Name+"\" is the name of a built-in "+kind, "choose another name")
		}
	default:
		l.warn(codeKindNoEffect, "", "accepted, but has no effect yet", "")
	}
}
