package gatewayapi

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/translators/emissary"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// section is what a listener became.
type section struct {
	plan     *listenerPlan
	accepted verdict
	status   ir.ListenerStatus
	// fragment is nil for a listener that is not served.
	fragment *ir.SectionFragment
	secrets  []*ir.Secret
}

// carried are the kinds of routes that listeners of a protocol can have.
var carried = map[gw.ProtocolType][]snapshot.GroupKind{
	gw.HTTPProtocolType:  {api.KindHTTPRoute, api.KindGRPCRoute},
	gw.HTTPSProtocolType: {api.KindHTTPRoute, api.KindGRPCRoute},
	gw.TLSProtocolType:   {api.KindTLSRoute},
	gw.TCPProtocolType:   {api.KindTCPRoute},
}

// listener checks a listener and makes its section.
func (l *lowering) listener(g *gatewayPlan, p *listenerPlan) *section {
	x := &section{plan: p, accepted: p.clash}
	spec := p.spec
	var resolved verdict
	if !p.clash.stands() {
		l.fail(codeConflict, p.path, p.clash.message+"; listener "+string(spec.Name)+" is not served", "another port or hostname")
	}
	refuse := func(reason, path, message, help string) {
		x.accepted.object(reason, message)
		l.fail(codeListener, p.path+path, message, help)
	}
	x.status.Name = string(spec.Name)
	x.status.SupportedKinds = l.kinds(p, &resolved)
	if p.twin {
		refuse(string(gw.ListenerReasonUnsupportedValue), ".name", fmt.Sprintf("another listener is named %q already", spec.Name), "a name of its own")
	}
	if carried[spec.Protocol] == nil {
		refuse(string(gw.ListenerReasonUnsupportedProtocol), ".protocol", fmt.Sprintf("protocol %q is not supported", spec.Protocol), "HTTP, HTTPS, TLS or TCP")
	}
	if spec.Port < 1 || spec.Port > 65535 {
		refuse(string(gw.ListenerReasonPortUnavailable), ".port", fmt.Sprintf("%d is no port", spec.Port), "1 to 65535")
	} else if slices.ContainsFunc(g.addresses, func(a string) bool { return l.f.reserved(a, spec.Port) }) {
		refuse(string(gw.ListenerReasonPortUnavailable), ".port", fmt.Sprintf("port %d is the installation's own", spec.Port), "another port")
	}
	if err := checkWildcard(p.hostname); err != nil {
		refuse(string(gw.ListenerReasonUnsupportedValue), ".hostname", err.Error(), "an exact name or one such as \"*.example.com\"")
	}
	f := &ir.SectionFragment{Origin: l.o, Name: sectionName(p.of, spec.Name), Listener: string(spec.Name), At: p.path, Addresses: g.addresses, Port: uint32(max(spec.Port, 0)), Apart: l.f.addresses.IsValid(), Hostname: p.hostname}
	frame := l.f.emissary.Frame(l.o, l.v)
	f.BufferLimit, f.TCPAccessLogs = frame.BufferLimit, frame.TCPAccessLogs
	f.TCPStatPrefix = fmt.Sprintf("ingress_%s_%d", strings.ToLower(string(spec.Protocol)), spec.Port)
	switch spec.Protocol {
	case gw.HTTPProtocolType, gw.HTTPSProtocolType:
		chain := frame.Chain
		chain.StatPrefix = "ingress_" + strings.ToLower(string(spec.Protocol))
		f.HTTP = &chain
		for _, d := range frame.Diagnostics {
			if !slices.Contains(l.out.Diagnostics, d) {
				l.out.Diagnostics = append(l.out.Diagnostics, d)
			}
		}
	}
	l.terminate(g, x, f, &resolved, refuse)
	if spec.TLS != nil && spec.Protocol != gw.HTTPSProtocolType && spec.Protocol != gw.TLSProtocolType {
		l.warn(codeListener, p.path+".tls", fmt.Sprintf("ignored: protocol %s has no TLS", spec.Protocol), "HTTPS or TLS")
	}
	var programmed verdict
	switch {
	case !x.accepted.stands():
		reason := string(gw.ListenerReasonInvalid)
		if !p.clash.stands() {
			reason = p.clash.reason
		}
		programmed.object(reason, x.accepted.message)
	case f.Closed != "":
		programmed.object(string(gw.ListenerReasonInvalid), f.Closed)
	case len(x.status.SupportedKinds) == 0:
		programmed.object(string(gw.ListenerReasonInvalid), "no kind of routes can attach")
	case len(g.addresses) == 0:
		programmed.object(string(gw.ListenerReasonPending), "the Gateway has no address")
	}
	if x.accepted.stands() || x.accepted.reason == string(gw.ListenerReasonNoValidCACertificate) {
		x.fragment = f
	}
	conflict := no(string(gw.ListenerConditionConflicted), string(gw.ListenerReasonNoConflicts), "no other listener is in the way")
	if !p.clash.stands() {
		conflict = yes(conflict.Type, p.clash.reason, p.clash.message)
	}
	x.status.Conditions = []ir.Condition{
		x.accepted.condition(string(gw.ListenerConditionAccepted), string(gw.ListenerReasonAccepted), "the listener is served"),
		programmed.condition(string(gw.ListenerConditionProgrammed), string(gw.ListenerReasonProgrammed), "Envoy is told to serve it"),
		resolved.condition(string(gw.ListenerConditionResolvedRefs), string(gw.ListenerReasonResolvedRefs), "all references are usable"),
		conflict,
	}
	if overlap := l.overlap(g, p); overlap != nil {
		x.status.Conditions = append(x.status.Conditions, *overlap)
	}
	return x
}

// kinds returns the kinds of routes that may attach.
func (l *lowering) kinds(p *listenerPlan, resolved *verdict) []snapshot.GroupKind {
	can := carried[p.spec.Protocol]
	if p.spec.AllowedRoutes == nil || len(p.spec.AllowedRoutes.Kinds) == 0 {
		return can
	}
	out := []snapshot.GroupKind{}
	for i, k := range p.spec.AllowedRoutes.Kinds {
		kind := snapshot.GroupKind{Group: string(value(k.Group, gw.GroupName)), Kind: string(k.Kind)}
		if !slices.Contains(can, kind) {
			why := fmt.Sprintf("listeners of protocol %s have no routes of kind %s", p.spec.Protocol, kind)
			resolved.object(string(gw.ListenerReasonInvalidRouteKinds), why)
			l.fail(codeKinds, fmt.Sprintf("%s.allowedRoutes.kinds[%d]", p.path, i), why, "")
			continue
		}
		if !slices.Contains(out, kind) {
			out = append(out, kind)
		}
	}
	return out
}

// terminate decides what becomes of TLS. A listener none of whose certificates can be used is closed: its name is kept from
// wider ones, and not served.
func (l *lowering) terminate(g *gatewayPlan, x *section, f *ir.SectionFragment, resolved *verdict, refuse func(reason, path, message, help string)) {
	spec, path := x.plan.spec, x.plan.path+".tls"
	if spec.Protocol != gw.HTTPSProtocolType && spec.Protocol != gw.TLSProtocolType {
		return
	}
	f.ReadTLS = true
	if spec.TLS == nil {
		refuse(string(gw.ListenerReasonUnsupportedValue), ".tls", fmt.Sprintf("protocol %s needs tls", spec.Protocol), "tls with certificateRefs")
		return
	}
	for _, option := range sortedKeys(spec.TLS.Options) {
		l.warn(codeUnsupported, path+".options["+string(option)+"]", "ignored: no option is known", "")
	}
	switch mode := value(spec.TLS.Mode, gw.TLSModeTerminate); {
	case mode == gw.TLSModePassthrough && spec.Protocol == gw.TLSProtocolType:
		if len(spec.TLS.CertificateRefs) > 0 {
			l.warn(codeListener, path+".certificateRefs", "ignored: TLS passes through", "mode: Terminate")
		}
		return
	case mode != gw.TLSModeTerminate:
		refuse(string(gw.ListenerReasonUnsupportedValue), ".tls.mode", fmt.Sprintf("mode %q does not go with protocol %s", mode, spec.Protocol), "Terminate")
		return
	}
	tls := &ir.DownstreamTLS{}
	if len(spec.TLS.CertificateRefs) == 0 {
		why := "no certificate is named"
		resolved.object(string(gw.ListenerReasonInvalidCertificateRef), why)
		l.fail(codeCertificate, path+".certificateRefs", why, "certificateRefs: [{name: a-secret}]")
	}
	for i := range spec.TLS.CertificateRefs {
		at := fmt.Sprintf("%s.certificateRefs[%d]", path, i)
		c, reason, why := l.certificate(x.plan.of, at, &spec.TLS.CertificateRefs[i])
		if reason != "" {
			resolved.object(reason, why)
			l.fail(codeCertificate, at, why, wantedSecret(reason, x.plan.of, &spec.TLS.CertificateRefs[i]))
			continue
		}
		if !slices.Contains(tls.Certificates, c.Secret.Name) {
			tls.Certificates = append(tls.Certificates, c.Secret.Name)
			x.secrets = append(x.secrets, c.Secret)
		}
	}
	if len(tls.Certificates) == 0 {
		f.Closed = "none of its certificates can be used"
		return
	}
	l.validate(g, x, f, tls, resolved)
	if f.Closed == "" {
		f.TLS = tls
		if spec.Protocol == gw.HTTPSProtocolType {
			tls.Params.ALPN = []string{"h2", "http/1.1"}
		}
	} else {
		x.secrets = nil
	}
}

// certificate reads what a reference names. reason is "" for a usable one.
func (l *lowering) certificate(of *snapshot.Object, path string, ref *gw.SecretObjectReference) (c *emissary.Certificate, reason, why string) {
	group, kind := value(ref.Group, ""), value(ref.Kind, "Secret")
	if group != "" || kind != "Secret" {
		return nil, string(gw.ListenerReasonInvalidCertificateRef), fmt.Sprintf("a certificate is in a Secret, not in a %s", snapshot.GroupKind{Group: string(group), Kind: string(kind)})
	}
	to := secretRef(of, ref)
	if !granted(l.v, of, to) {
		return nil, string(gw.ListenerReasonRefNotPermitted), fmt.Sprintf("no ReferenceGrant in namespace %s lets %ss of namespace %s name Secret %s", to.Namespace, of.Kind, of.Namespace, to.Name)
	}
	c, err := l.f.emissary.Certificate(l.o, path, to.Namespace, to.Name, l.v)
	if err != nil {
		return nil, string(gw.ListenerReasonInvalidCertificateRef), err.Error()
	}
	for _, d := range c.Diagnostics {
		if !slices.Contains(l.out.Diagnostics, d) {
			l.out.Diagnostics = append(l.out.Diagnostics, d)
		}
	}
	return c, "", ""
}

func secretRef(of *snapshot.Object, ref *gw.SecretObjectReference) snapshot.Ref {
	return snapshot.Ref{Kind: "Secret", Namespace: string(value(ref.Namespace, gw.Namespace(of.Namespace))), Name: string(ref.Name)}
}

// wantedSecret is the help for a certificate that cannot be had.
func wantedSecret(reason string, of *snapshot.Object, ref *gw.SecretObjectReference) string {
	if reason == string(gw.ListenerReasonRefNotPermitted) {
		return wantedGrant(of, secretRef(of, ref))
	}
	return "name a Secret of type kubernetes.io/tls with tls.crt and tls.key"
}

// checkWildcard refuses what is neither a DNS name nor one with "*." before it (Gateway API: Hostname).
func checkWildcard(name string) error {
	if name == "*" {
		return nil
	}
	rest := strings.TrimPrefix(name, "*.")
	if strings.Contains(rest, "*") {
		return fmt.Errorf("%q: \"*\" stands alone as the first label", name)
	}
	if _, err := netip.ParseAddr(rest); err == nil {
		return fmt.Errorf("%q is an IP address, not a host name", name)
	}
	if err := emissary.CheckHostname(rest); err != nil {
		return err
	}
	if len(validation.IsDNS1123Subdomain(rest)) > 0 {
		return fmt.Errorf("invalid host: labels of %q have other characters than letters, digits and \"-\", or begin or end with \"-\"", name)
	}
	return nil
}
