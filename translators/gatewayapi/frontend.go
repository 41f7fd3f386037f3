// Package gatewayapi is the front end for Gateway API: it lowers the listeners of Gateways and ListenerSets to sections, and
// HTTPRoutes, GRPCRoutes, TLSRoutes and TCPRoutes to the routes of those, and says what became of each object in the terms of
// its status. What is supported, and where an implementation may choose, is in translators/COMPATIBILITY.md.
package gatewayapi

import (
	"net/netip"
	"slices"
	"sync/atomic"

	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/translators/emissary"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// Options are an installation's settings.
type Options struct {
	// Addresses is the range of which each Gateway gets an address of its own; invalid where all share the bind address.
	Addresses netip.Prefix
}

// FrontEnd implements translators.FrontEnd.
type FrontEnd struct {
	emissary  *emissary.FrontEnd
	options   emissary.Options
	addresses netip.Prefix
	world     atomic.Pointer[world]
}

// New returns the front end of the installation whose Module and services the other front end reads.
func New(f *emissary.FrontEnd, o Options) *FrontEnd {
	return &FrontEnd{emissary: f, options: f.Options(), addresses: o.Addresses}
}

// Name returns "gatewayapi".
func (*FrontEnd) Name() string { return "gatewayapi" }

// Kinds returns the kinds that have a status. ReferenceGrants are read for others.
func (*FrontEnd) Kinds() []snapshot.GroupKind {
	return []snapshot.GroupKind{
		api.KindBackendTLSPolicy, api.KindGRPCRoute, api.KindGateway, api.KindGatewayClass, api.KindHTTPRoute, api.KindListenerSet,
		api.KindTCPRoute, api.KindTLSRoute, api.KindUDPRoute,
	}
}

// Ambient returns nothing.
func (*FrontEnd) Ambient(*snapshot.View) *ir.Fragments { return nil }

// Lower turns one object into fragments, or returns nil for one of another controller.
func (f *FrontEnd) Lower(o *snapshot.Object, v *snapshot.View) *ir.Fragments {
	if f.options.SingleNamespace && o.Namespace != "" && o.Namespace != f.options.Namespace {
		return nil
	}
	l := &lowering{f: f, o: o, v: v, out: &ir.Fragments{}, refs: []ir.Origin{o.Ref}}
	ours := false
	switch spec := o.Spec.(type) {
	case *gw.GatewayClassSpec:
		ours = l.class(spec)
	case *gw.GatewaySpec:
		ours = l.gateway(spec)
	case *gw.ListenerSetSpec:
		ours = l.listenerSet(spec)
	case *gw.HTTPRouteSpec:
		ours = l.httpRoute(spec)
	case *gw.GRPCRouteSpec:
		ours = l.grpcRoute(spec)
	case *gw.TLSRouteSpec:
		ours = l.tlsRoute(spec)
	case *gw.TCPRouteSpec:
		ours = l.tcpRoute(spec)
	case *gw.UDPRouteSpec:
		ours = l.udpRoute(spec)
	case *gw.BackendTLSPolicySpec:
		ours = l.backendTLSPolicy(spec)
	}
	if !ours && len(l.out.Diagnostics) == 0 {
		return nil
	}
	return l.out
}

// lowering is the work on one object.
type lowering struct {
	f   *FrontEnd
	o   *snapshot.Object
	v   *snapshot.View
	out *ir.Fragments
	// refs is the origin list; nodes share it.
	refs []ir.Origin
	// resolved is a route's condition ResolvedRefs, invalid what is wrong with some of its rules.
	resolved, invalid verdict
	// names are those of listeners' certificates.
	names map[*listenerPlan][]string
}

// report tells a thing once, however many parents it concerns.
func (l *lowering) report(s snapshot.Severity, c *snapshot.Code, path, message, help string) {
	if d := l.o.About(s, c, path, message, help); !slices.Contains(l.out.Diagnostics, d) {
		l.out.Diagnostics = append(l.out.Diagnostics, d)
	}
}

// fail reports what is not served.
func (l *lowering) fail(c *snapshot.Code, path, message, help string) {
	l.report(snapshot.Error, c, path, message, help)
}

// warn reports what is odd but served, or may yet become right.
func (l *lowering) warn(c *snapshot.Code, path, message, help string) {
	l.report(snapshot.Warning, c, path, message, help)
}

// status begins the object's status.
func (l *lowering) status() *ir.Status {
	l.out.Status = &ir.Status{Object: l.o.Ref, APIVersion: l.o.APIVersion, Generation: l.o.Generation}
	return l.out.Status
}

// value returns what a pointer of an optional field points to, or what stands for an absent one.
func value[T any](p *T, absent T) T {
	if p == nil {
		return absent
	}
	return *p
}
