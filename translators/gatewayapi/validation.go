package gatewayapi

import (
	"fmt"
	"slices"
	"strings"

	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/emissary"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// frontend returns what the Gateway says about client certificates on a port, and the field that says it; nil for nothing.
func (g *gatewayPlan) frontend(port int32) (*gw.FrontendTLSValidation, string) {
	if g.spec.TLS == nil || g.spec.TLS.Frontend == nil {
		return nil, ""
	}
	f := g.spec.TLS.Frontend
	for i := range f.PerPort {
		if f.PerPort[i].Port == port {
			return f.PerPort[i].TLS.Validation, fmt.Sprintf("spec.tls.frontend.perPort[%d].tls.validation", i)
		}
	}
	return f.Default.Validation, "spec.tls.frontend.default.validation"
}

// validate adds what is asked of clients' certificates. Where no usable authority is left the listener is closed, as opening it
// to everyone would be worse.
func (l *lowering) validate(g *gatewayPlan, x *section, f *ir.SectionFragment, tls *ir.DownstreamTLS, resolved *verdict) {
	want, path := g.frontend(x.plan.spec.Port)
	if want == nil || x.plan.spec.Protocol != gw.HTTPSProtocolType {
		return
	}
	if x.plan.of != g.object {
		path = "spec.parentRef" // the Gateway's field is not this object's
	}
	var text []byte
	var names []string
	origins := slices.Clone(l.refs)
	for i := range want.CACertificateRefs {
		ref := &want.CACertificateRefs[i]
		at := fmt.Sprintf("%s.caCertificateRefs[%d]", path, i)
		to := snapshot.Ref{Group: string(ref.Group), Kind: string(ref.Kind), Namespace: string(value(ref.Namespace, gw.Namespace(g.object.Namespace))), Name: string(ref.Name)}
		pem, reason, why := l.authority(g.object, to)
		if reason != "" {
			resolved.object(reason, why)
			help := "name a ConfigMap with PEM certificates in ca.crt"
			if reason == string(gw.ListenerReasonRefNotPermitted) {
				help = wantedGrant(g.object, to)
			}
			l.fail(codeCertificate, at, why, help)
			continue
		}
		text = append(append(text, pem...), '\n')
		names = append(names, to.Kind+"/"+to.Namespace+"/"+to.Name)
		origins = append(origins, to)
	}
	if len(names) == 0 {
		why := "no certificate authority for clients can be used"
		x.accepted.object(string(gw.ListenerReasonNoValidCACertificate), why)
		f.Closed = why
		return
	}
	s, err := emissary.Anchors(strings.Join(names, "+")+"/ca", text, origins...)
	if err != nil { // each was read before
		f.Closed = err.Error()
		return
	}
	x.secrets = append(x.secrets, s)
	tls.Validation = s.Name
	tls.RequireClientCertificate = want.Mode != gw.AllowInsecureFallback
	tls.AcceptUntrusted = want.Mode == gw.AllowInsecureFallback
}

// authority reads the certificate authorities of a ConfigMap's or Secret's key ca.crt. reason is "" for usable ones.
func (l *lowering) authority(from *snapshot.Object, to snapshot.Ref) (pem []byte, reason, why string) {
	if to.Group != "" || to.Kind != "ConfigMap" && to.Kind != "Secret" {
		return nil, string(gw.ListenerReasonInvalidCACertificateKind), fmt.Sprintf("certificate authorities are in a ConfigMap, not in a %s", to.GroupKind())
	}
	if !granted(l.v, from, to) {
		return nil, string(gw.ListenerReasonRefNotPermitted), fmt.Sprintf("no ReferenceGrant in namespace %s lets %ss of namespace %s name %s", to.Namespace, from.Kind, from.Namespace, to)
	}
	const invalid = string(gw.ListenerReasonInvalidCACertificateRef)
	o := l.v.Get(to.GroupKind(), to.Namespace, to.Name)
	if o == nil {
		return nil, invalid, "there is no " + to.String()
	}
	switch spec := o.Spec.(type) {
	case *snapshot.ConfigMap:
		pem = []byte(spec.Data["ca.crt"])
	case *snapshot.Secret:
		pem = spec.Data["ca.crt"]
	}
	if _, err := emissary.Anchors("", pem); err != nil {
		return nil, invalid, fmt.Sprintf("the key ca.crt of %s %s", to, err)
	}
	return pem, "", ""
}
