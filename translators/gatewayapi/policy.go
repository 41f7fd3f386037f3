package gatewayapi

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/translators/emissary"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// systemAuthorities is where Envoy's machine has its own certificate authorities.
const systemAuthorities = "/etc/ssl/certs/ca-certificates.crt"

// policyFor returns the BackendTLSPolicy that counts for a port of a Service: one for the port before one for the Service, then the
// oldest (Gateway API: BackendTLSPolicySpec.targetRefs). nil for none.
func policyFor(v *snapshot.View, service *snapshot.Object, port string) *snapshot.Object {
	var best *snapshot.Object
	narrow := false
	for o := range v.List(api.KindBackendTLSPolicy) {
		spec, ok := o.Spec.(*gw.BackendTLSPolicySpec)
		if !ok || o.Namespace != service.Namespace {
			continue
		}
		for _, t := range spec.TargetRefs {
			section := string(value(t.SectionName, ""))
			if t.Group != "" || t.Kind != "Service" || string(t.Name) != service.Name || section != "" && section != port {
				continue
			}
			if best == nil || section != "" && !narrow || (section != "") == narrow && best.NewerThan(o) {
				best, narrow = o, section != ""
			}
		}
	}
	return best
}

// backendTLS returns how TLS is spoken to a Service's port; nil for not at all. A policy that cannot be used closes the backend.
func (l *lowering) backendTLS(g *snapshot.Object, path string, service *snapshot.Object, port *snapshot.ServicePort) (tls *ir.UpstreamTLS, closed bool) {
	p := policyFor(l.v, service, port.Name)
	if p == nil {
		return nil, false
	}
	aside := &lowering{f: l.f, o: p, v: l.v, out: &ir.Fragments{}, refs: []ir.Origin{p.Ref}}
	tls, secret, resolved, accepted := aside.policyTLS(p.Spec.(*gw.BackendTLSPolicySpec))
	if !resolved.stands() || !accepted.stands() {
		l.warn(codePolicy, path, fmt.Sprintf("BackendTLSPolicy %s/%s cannot be used, so that its backend is not called: %s", p.Namespace, p.Name, cmp.Or(resolved.message, accepted.message)), "")
		return nil, true
	}
	l.addSecret(secret)
	spec, ok := g.Spec.(*gw.GatewaySpec)
	if !ok || spec.TLS == nil || spec.TLS.Backend == nil || spec.TLS.Backend.ClientCertificateRef == nil {
		return tls, false
	}
	quiet := *l
	quiet.out = &ir.Fragments{}
	c, reason, why := quiet.certificate(g, path, spec.TLS.Backend.ClientCertificateRef)
	if reason != "" {
		l.warn(codePolicy, path, fmt.Sprintf("the client certificate of %s cannot be used, so that the backend is not called: %s", g.Ref, why), "")
		return nil, true
	}
	l.addSecret(c.Secret)
	tls.Certificate = c.Secret.Name
	return tls, false
}

// policyTLS makes the settings that a policy asks for.
func (l *lowering) policyTLS(spec *gw.BackendTLSPolicySpec) (tls *ir.UpstreamTLS, secret *ir.Secret, resolved, accepted verdict) {
	const path = "spec.validation"
	v := &spec.Validation
	fail := func(d *verdict, reason, at, message string) {
		d.object(reason, message)
		code := codeValue
		if d == &resolved {
			code = codePolicy
		}
		l.fail(code, path+at, message, "")
	}
	host := strings.ToLower(string(v.Hostname))
	if err := emissary.CheckHostname(host); err != nil {
		fail(&accepted, string(gw.PolicyReasonInvalid), ".hostname", err.Error())
	}
	tls = &ir.UpstreamTLS{SNI: host, VerifySAN: []string{host}}
	if len(v.SubjectAltNames) > 0 {
		tls.VerifySAN = nil
	}
	for i, n := range v.SubjectAltNames {
		name := string(n.Hostname)
		switch n.Type {
		case gw.HostnameSubjectAltNameType:
		case gw.URISubjectAltNameType:
			name = string(n.URI)
		default:
			fail(&accepted, string(gw.PolicyReasonInvalid), fmt.Sprintf(".subjectAltNames[%d].type", i), fmt.Sprintf("unknown type %q", n.Type))
			continue
		}
		if name == "" {
			fail(&accepted, string(gw.PolicyReasonInvalid), fmt.Sprintf(".subjectAltNames[%d]", i), "the name is missing")
		}
		tls.VerifySAN = append(tls.VerifySAN, name)
	}
	for _, option := range sortedKeys(spec.Options) {
		l.warn(codeUnsupported, "spec.options["+string(option)+"]", "ignored: no option is known", "")
	}
	var text []byte
	var names []string
	origins := slices.Clone(l.refs)
	for i, ref := range v.CACertificateRefs {
		to := snapshot.Ref{Group: string(ref.Group), Kind: string(ref.Kind), Namespace: l.o.Namespace, Name: string(ref.Name)}
		pem, reason, why := l.authority(l.o, to)
		if reason != "" {
			if reason == string(gw.ListenerReasonInvalidCACertificateKind) {
				reason = string(gw.BackendTLSPolicyReasonInvalidKind)
			}
			fail(&resolved, reason, fmt.Sprintf(".caCertificateRefs[%d]", i), why)
			continue
		}
		text = append(append(text, pem...), '\n')
		names = append(names, to.Kind+"/"+to.Namespace+"/"+to.Name)
		origins = append(origins, to)
	}
	switch {
	case len(v.CACertificateRefs) > 0 && v.WellKnownCACertificates != nil:
		fail(&accepted, string(gw.PolicyReasonInvalid), "", "either caCertificateRefs or wellKnownCACertificates is allowed")
	case v.WellKnownCACertificates != nil && *v.WellKnownCACertificates == gw.WellKnownCACertificatesSystem:
		secret = &ir.Secret{Name: "gateway/system/ca", CAFile: systemAuthorities, Origins: l.refs}
	case v.WellKnownCACertificates != nil:
		fail(&accepted, string(gw.PolicyReasonInvalid), ".wellKnownCACertificates", fmt.Sprintf("unknown authorities %q", *v.WellKnownCACertificates))
	case len(v.CACertificateRefs) == 0:
		fail(&accepted, string(gw.PolicyReasonInvalid), "", "one of caCertificateRefs and wellKnownCACertificates is needed")
	case len(names) > 0:
		secret, _ = emissary.Anchors(strings.Join(names, "+")+"/ca", text, origins...)
	}
	if !resolved.stands() { // one that cannot be read is no reason to trust fewer
		accepted.object(string(gw.BackendTLSPolicyReasonNoValidCACertificate), "a certificate authority cannot be used")
	}
	if secret != nil {
		tls.Validation = secret.Name
	}
	return tls, secret, resolved, accepted
}

// backendTLSPolicy says what became of a policy at each Gateway on which a route leads to one of its targets.
func (l *lowering) backendTLSPolicy(spec *gw.BackendTLSPolicySpec) bool {
	_, _, resolved, accepted := l.policyTLS(spec)
	type ancestor struct {
		gateway  *gatewayPlan
		accepted verdict
	}
	var all []*ancestor
	for i, t := range spec.TargetRefs {
		at := fmt.Sprintf("spec.targetRefs[%d]", i)
		if t.Group != "" || t.Kind != "Service" {
			l.fail(codePolicy, at, fmt.Sprintf("targets of kind %s are not supported", t.Kind), "a Service")
			continue
		}
		service := l.v.Get(snapshot.KindService, l.o.Namespace, string(t.Name))
		if service == nil {
			l.warn(codePolicy, at, fmt.Sprintf("there is no Service %s/%s", l.o.Namespace, t.Name), "")
			continue
		}
		section := string(value(t.SectionName, ""))
		verdict := accepted
		if section != "" && !hasPort(service, section) {
			verdict.object(string(gw.PolicyReasonTargetNotFound), fmt.Sprintf("no port of Service %s/%s is named %q", service.Namespace, service.Name, section))
			l.warn(codePolicy, at+".sectionName", verdict.message, "the name of a port")
		}
		if by := l.rival(service, section); by != nil {
			verdict.object(string(gw.PolicyReasonConflicted), fmt.Sprintf("BackendTLSPolicy %s/%s has the target %s already", by.Namespace, by.Name, strings.TrimSuffix(service.Name+" "+section, " ")))
			l.fail(codePolicy, at, verdict.message, "remove one of both")
		}
		for _, g := range l.ancestors(service) {
			k := slices.IndexFunc(all, func(a *ancestor) bool { return a.gateway == g })
			if k < 0 {
				all = append(all, &ancestor{g, verdict})
			} else if all[k].accepted.stands() { // whatever the order of targets
				all[k].accepted = verdict
			}
		}
	}
	if len(all) == 0 {
		return false
	}
	slices.SortFunc(all, func(a, b *ancestor) int { return a.gateway.object.Compare(b.gateway.object.Ref) })
	s := l.status()
	for _, a := range all {
		o := a.gateway.object
		s.Parents = append(s.Parents, ir.ParentStatus{
			Parent:     ir.ParentRef{Group: o.Group, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name},
			Controller: a.gateway.controller,
			Conditions: []ir.Condition{
				a.accepted.condition(string(gw.PolicyConditionAccepted), string(gw.PolicyReasonAccepted), "the policy is in effect"),
				resolved.condition(string(gw.BackendTLSPolicyConditionResolvedRefs), string(gw.BackendTLSPolicyReasonResolvedRefs), "all references are usable"),
			},
		})
	}
	return true
}

func hasPort(service *snapshot.Object, name string) bool {
	s, ok := service.Spec.(*snapshot.Service)
	return ok && slices.ContainsFunc(s.Ports, func(p snapshot.ServicePort) bool { return p.Name == name })
}

// rival returns an older policy with the very same target.
func (l *lowering) rival(service *snapshot.Object, section string) *snapshot.Object {
	for o := range l.v.List(api.KindBackendTLSPolicy) {
		spec, ok := o.Spec.(*gw.BackendTLSPolicySpec)
		if !ok || o == l.o || o.Namespace != service.Namespace || !l.o.NewerThan(o) {
			continue
		}
		for _, t := range spec.TargetRefs {
			if t.Group == "" && t.Kind == "Service" && string(t.Name) == service.Name && string(value(t.SectionName, "")) == section {
				return o
			}
		}
	}
	return nil
}

// ancestors are the Gateways of ours that a route names which leads to the Service.
func (l *lowering) ancestors(service *snapshot.Object) []*gatewayPlan {
	w := l.f.plan(l.v)
	var out []*gatewayPlan
	note := func(o *snapshot.Object, refs []gw.ParentReference) {
		for i := range refs {
			to := Parent(o, &refs[i]).Ref()
			g := w.gateways[to]
			if s := w.sets[to]; s != nil {
				g = s.gateway
			}
			if g != nil && !slices.Contains(out, g) {
				out = append(out, g)
			}
		}
	}
	for _, kind := range routeKinds {
		for o := range l.v.List(kind) {
			if slices.ContainsFunc(named(o.Spec), func(b *gw.BackendObjectReference) bool {
				return value(b.Group, "") == "" && value(b.Kind, "Service") == "Service" && string(b.Name) == service.Name &&
					string(value(b.Namespace, gw.Namespace(o.Namespace))) == service.Namespace
			}) {
				note(o, ParentRefs(o.Spec))
			}
		}
	}
	return out
}

// routeKinds are the kinds of routes that lead to backends.
var routeKinds = []snapshot.GroupKind{api.KindHTTPRoute, api.KindGRPCRoute, api.KindTLSRoute, api.KindTCPRoute}

// named are the backends that a route names, those that are given copies among them.
func named(route any) (backends []*gw.BackendObjectReference) {
	mirrors := func(m *gw.HTTPRequestMirrorFilter) {
		if m != nil {
			backends = append(backends, &m.BackendRef)
		}
	}
	plain := func(refs []gw.BackendRef) {
		for i := range refs {
			backends = append(backends, &refs[i].BackendObjectReference)
		}
	}
	switch spec := route.(type) {
	case *gw.HTTPRouteSpec:
		for _, r := range spec.Rules {
			for _, f := range r.Filters {
				mirrors(f.RequestMirror)
			}
			for i := range r.BackendRefs {
				backends = append(backends, &r.BackendRefs[i].BackendObjectReference)
				for _, f := range r.BackendRefs[i].Filters {
					mirrors(f.RequestMirror)
				}
			}
		}
	case *gw.GRPCRouteSpec:
		for _, r := range spec.Rules {
			for _, f := range r.Filters {
				mirrors(f.RequestMirror)
			}
			for i := range r.BackendRefs {
				backends = append(backends, &r.BackendRefs[i].BackendObjectReference)
				for _, f := range r.BackendRefs[i].Filters {
					mirrors(f.RequestMirror)
				}
			}
		}
	case *gw.TLSRouteSpec:
		for _, r := range spec.Rules {
			plain(r.BackendRefs)
		}
	case *gw.TCPRouteSpec:
		for _, r := range spec.Rules {
			plain(r.BackendRefs)
		}
	}
	return backends
}
