package gatewayapi

import (
	"fmt"
	"strings"

	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// gateway makes the sections of a Gateway's own listeners.
func (l *lowering) gateway(spec *gw.GatewaySpec) bool {
	g := l.f.plan(l.v).gateways[l.o.Ref]
	if g == nil {
		if _, there := l.f.controller(spec.GatewayClassName, l.v); !there {
			l.warn(codeClass, "spec.gatewayClassName", fmt.Sprintf("there is no GatewayClass %q, so nobody serves the Gateway", spec.GatewayClassName),
				"create it, or correct the name")
		}
		return false
	}
	s := l.status()
	accepted, programmed := g.accepted, verdict{}
	if infra := spec.Infrastructure; infra != nil && infra.ParametersRef != nil {
		accepted.object(string(gw.GatewayReasonInvalidParameters), "infrastructure.parametersRef: parameters are not supported")
		l.fail(codeUnsupported, "spec.infrastructure.parametersRef", "parameters are not supported; the Gateway is not served", "leave parametersRef out")
	}
	if !g.accepted.stands() {
		l.fail(codeAddress, "spec.addresses", g.accepted.message, "an IP address, or no addresses")
	}
	if !g.usable.stands() {
		l.warn(codeAddress, "spec.addresses", g.usable.message, "use an address of the range, or no addresses")
		programmed.object(g.usable.reason, g.usable.message)
	}
	resolved := l.clientCertificate(g)
	var sections []*section
	for _, p := range g.listeners {
		sections = append(sections, l.listener(g, p))
	}
	valid, invalid := 0, []string(nil)
	for _, x := range sections {
		s.Listeners = append(s.Listeners, x.status)
		if x.accepted.stands() {
			valid++
		} else {
			invalid = append(invalid, string(x.plan.spec.Name))
		}
	}
	switch why := "not accepted: " + strings.Join(invalid, ", "); {
	case len(sections) > 0 && valid == 0:
		accepted.object(string(gw.GatewayReasonListenersNotValid), why)
		s.Conditions = append(s.Conditions, accepted.condition(string(gw.GatewayConditionAccepted), "", ""))
	case len(invalid) > 0:
		s.Conditions = append(s.Conditions, accepted.condition(string(gw.GatewayConditionAccepted), string(gw.GatewayReasonListenersNotValid), why))
	default:
		s.Conditions = append(s.Conditions, accepted.condition(string(gw.GatewayConditionAccepted), string(gw.GatewayReasonAccepted), "the Gateway is served"))
	}
	if !accepted.stands() {
		programmed.object(string(gw.GatewayReasonInvalid), accepted.message)
	} else {
		l.sections(sections)
	}
	s.Conditions = append(s.Conditions, programmed.condition(string(gw.GatewayConditionProgrammed), string(gw.GatewayReasonProgrammed), "Envoy is told to serve it"))
	if g.spec.TLS != nil && g.spec.TLS.Backend != nil {
		s.Conditions = append(s.Conditions, resolved.condition(string(gw.GatewayConditionResolvedRefs), string(gw.GatewayReasonResolvedRefs), "all references are usable"))
	}
	if g.insecureValidation() {
		s.Conditions = append(s.Conditions, yes(string(gw.GatewayConditionInsecureFrontendValidationMode), string(gw.GatewayReasonConfigurationChanged),
			"clients whose certificate does not hold are served too"))
	}
	for _, a := range g.shown {
		s.Addresses = append(s.Addresses, ir.StatusAddress{Type: string(gw.IPAddressType), Value: a})
	}
	for _, set := range g.sets {
		if set.served() {
			s.ListenerSets++
		}
	}
	return true
}

// sections adds the fragments of listeners that are accepted, each with what it names.
func (l *lowering) sections(all []*section) {
	for _, x := range all {
		if x.fragment == nil {
			continue
		}
		l.out.Sections = append(l.out.Sections, x.fragment)
		for _, s := range x.secrets {
			l.addSecret(s)
		}
	}
}

func (l *lowering) addSecret(s *ir.Secret) {
	for _, other := range l.out.Secrets {
		if other.Name == s.Name {
			return
		}
	}
	l.out.Secrets = append(l.out.Secrets, s)
}

// served reports whether one of the set's listeners is in nobody's way.
func (s *setPlan) served() bool {
	for _, p := range s.listeners {
		if p.clash.stands() {
			return true
		}
	}
	return false
}

// listenerSet makes the sections of a ListenerSet's listeners.
func (l *lowering) listenerSet(spec *gw.ListenerSetSpec) bool {
	set := l.f.plan(l.v).sets[l.o.Ref]
	if set == nil {
		if parent := ParentGateway(l.o, spec); parent.GroupKind() != api.KindGateway || l.v.Get(api.KindGateway, parent.Namespace, parent.Name) == nil {
			l.warn(codeListenerSet, "spec.parentRef", fmt.Sprintf("there is no %s, so nobody serves the ListenerSet", parent), "create the Gateway, or correct the name")
		}
		return false
	}
	s := l.status()
	const accepted, programmed = string(gw.ListenerSetConditionAccepted), string(gw.ListenerSetConditionProgrammed)
	refused := set.refused
	if !set.gateway.accepted.stands() {
		refused.object(string(gw.ListenerSetReasonParentNotAccepted), "the Gateway is not accepted")
	}
	if !refused.stands() {
		l.fail(codeListenerSet, "spec.parentRef", refused.message, "let the Gateway's allowedListeners take the namespace")
		s.Conditions = []ir.Condition{no(accepted, refused.reason, refused.message), no(programmed, refused.reason, refused.message)}
		return true
	}
	var sections []*section
	valid, invalid := 0, []string(nil)
	for _, p := range set.listeners {
		x := l.listener(set.gateway, p)
		sections = append(sections, x)
		s.Listeners = append(s.Listeners, x.status)
		if x.accepted.stands() && x.fragment.Closed == "" { // one without a usable certificate is not served
			valid++
		} else {
			invalid = append(invalid, string(p.spec.Name))
		}
	}
	l.sections(sections)
	reason, why := string(gw.ListenerSetReasonAccepted), "the listeners are served"
	if len(invalid) > 0 {
		reason, why = string(gw.ListenerSetReasonListenersNotValid), "not accepted: "+strings.Join(invalid, ", ")
	}
	if valid == 0 {
		s.Conditions = []ir.Condition{no(accepted, string(gw.ListenerSetReasonListenersNotValid), why), no(programmed, string(gw.ListenerSetReasonListenersNotValid), why)}
		return true
	}
	s.Conditions = []ir.Condition{yes(accepted, reason, why), yes(programmed, string(gw.ListenerSetReasonProgrammed), "Envoy is told to serve them")}
	return true
}

// clientCertificate checks the certificate that is shown to backends, which the routes name.
func (l *lowering) clientCertificate(g *gatewayPlan) (resolved verdict) {
	if g.spec.TLS == nil || g.spec.TLS.Backend == nil || g.spec.TLS.Backend.ClientCertificateRef == nil {
		return resolved
	}
	const path = "spec.tls.backend.clientCertificateRef"
	_, reason, why := l.certificate(g.object, path, g.spec.TLS.Backend.ClientCertificateRef)
	if reason == string(gw.ListenerReasonInvalidCertificateRef) {
		reason = string(gw.GatewayReasonInvalidClientCertificateRef)
	}
	if reason != "" {
		resolved.object(reason, why)
		l.fail(codeCertificate, path, why+"; backends that ask for TLS are not called", wantedSecret(reason, g.object, g.spec.TLS.Backend.ClientCertificateRef))
	}
	return resolved
}

// insecureValidation reports whether some port lets clients pass whose certificate does not hold.
func (g *gatewayPlan) insecureValidation() bool {
	if g.spec.TLS == nil || g.spec.TLS.Frontend == nil {
		return false
	}
	insecure := func(c *gw.TLSConfig) bool {
		return c.Validation != nil && c.Validation.Mode == gw.AllowInsecureFallback
	}
	for i := range g.spec.TLS.Frontend.PerPort {
		if insecure(&g.spec.TLS.Frontend.PerPort[i].TLS) {
			return true
		}
	}
	return insecure(&g.spec.TLS.Frontend.Default)
}

// sectionName names a listener among all sections.
func sectionName(of *snapshot.Object, name gw.SectionName) string {
	return of.Kind + "/" + of.Namespace + "/" + of.Name + "/" + string(name)
}
