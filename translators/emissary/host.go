package emissary

import (
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
	api "github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// host makes the claim to one host name. A Host that cannot be served as it says keeps its name and is closed.
func (l *lowering) host(spec *api.HostSpec) {
	domain := spec.Hostname
	if domain == "" {
		domain = "*"
	}
	name, port, err := splitDomain(domain)
	if err == nil {
		err = checkGlob(name)
	}
	if err != nil {
		l.fail(codeHostName, "spec.hostname", err.Error(), "an exact name, \"*.example.com\", \"example.*\" or \"*\"")
		return
	}
	h := &ir.HostFragment{Origin: l.o, Domain: name + port, SNI: name, SelectAny: l.f.options.LooseLabelSelectors, Insecure: ir.InsecureRedirect}
	l.selector(h, spec)
	l.insecure(h, spec)
	l.hostTLS(h, spec)
	if h.TLS != nil && partialGlob(name) {
		l.close(h, codeHostName, "spec.hostname", "TLS cannot be told apart for \""+name+"\": server names are exact, \"*.example.com\" or \"*\"")
		h.TLS = nil
	}
	if h.Closed != "" {
		l.out.Secrets = nil
	}
	if spec.PreviewURL != nil {
		l.warn(codeHostNoEffect, "spec.previewUrl", "accepted, but has no effect, as in Emissary 4", "")
	}
	if spec.AcmeProvider != nil && spec.AcmeProvider.Authority != "none" {
		l.warn(codeHostNoEffect, "spec.acmeProvider", "accepted, but has no effect, as in Emissary 4: certificates come from tlsSecret", "use cert-manager")
	}
	l.out.Hosts = append(l.out.Hosts, h)
}

// partialGlob reports whether the name is a glob that no server name match can express.
func partialGlob(name string) bool {
	return strings.HasSuffix(name, "*") && name != "*" || strings.HasPrefix(name, "*") && !strings.HasPrefix(name, "*.") && name != "*"
}

// close marks the Host closed and says why; the first reason stays.
func (l *lowering) close(h *ir.HostFragment, c *snapshot.Code, path, why string) {
	if h.Closed == "" {
		h.Closed = why
	}
	l.report(snapshot.Error, c, path, why+"; the host is closed", "")
}

func (l *lowering) selector(h *ir.HostFragment, spec *api.HostSpec) {
	path, s := "spec.mappingSelector", spec.MappingSelector
	if empty(s) {
		path, s = "spec.selector", spec.DeprecatedSelector
	} else if spec.DeprecatedSelector != nil {
		l.warn(codeHostNoEffect, "spec.selector", "ignored: mappingSelector is set too", "remove selector")
	}
	if empty(s) {
		return
	}
	if len(s.MatchExpressions) > 0 {
		l.close(h, codeHostSelector, path+".matchExpressions", "matchExpressions are not supported")
		return
	}
	h.Select = s.MatchLabels
}

// empty reports whether a selector says nothing at all.
func empty(s *api.LabelSelector) bool {
	return s == nil || s.MatchLabels == nil && len(s.MatchExpressions) == 0
}

func (l *lowering) insecure(h *ir.HostFragment, spec *api.HostSpec) {
	if spec.RequestPolicy == nil {
		return
	}
	switch action := spec.RequestPolicy.Insecure.Action; action {
	case "", api.InsecureRedirect:
	case api.InsecureReject:
		h.Insecure = ir.InsecureReject
	case api.InsecureRoute:
		h.Insecure = ir.InsecureRoute
	default:
		l.close(h, codeHostNoEffect, "spec.requestPolicy.insecure.action", "unknown action \""+action+"\": Redirect, Reject and Route are known")
	}
	if spec.RequestPolicy.Insecure.AdditionalPort != nil {
		l.warn(codeHostNoEffect, "spec.requestPolicy.insecure.additionalPort", "accepted, but has no effect, as in Emissary 4", "create a Listener for the port")
	}
}

// hostTLS finds the settings that end TLS for the Host: its secret, with those of tls, tlsContext, or a TLSContext that is
// called "<host>-context".
func (l *lowering) hostTLS(h *ir.HostFragment, spec *api.HostSpec) {
	var secret *secretName
	if s := spec.TLSSecret; s != nil && s.Name != "" {
		secret = &secretName{namespace: s.Namespace, name: s.Name}
		if secret.namespace == "" {
			secret.namespace = l.o.Namespace
		}
	}
	contextName := ""
	if spec.TLSContext != nil {
		contextName = spec.TLSContext.Name
	}
	if contextName != "" && spec.TLS != nil {
		h.Demanding = true
		l.close(h, codeHostContext, "spec.tls", "tls and tlsContext cannot stand together")
		return
	}
	var t tlsSettings
	switch {
	case contextName != "":
		o, context, err := l.findContext(contextName)
		if err != nil {
			h.Demanding = true // for all that is known
			l.close(h, codeHostContext, "spec.tlsContext.name", err.Error())
			return
		}
		t = l.contextSettings(o, context)
		h.Demanding = t.required != nil && *t.required
		if !l.fits(h, spec, secret, &t, o, context) {
			return
		}
	case spec.TLS != nil:
		t = l.inlineSettings(spec.TLS)
		if spec.TLS.RedirectCleartextFrom != nil {
			l.warn(codeTLSNoEffect, "spec.tls.redirect_cleartext_from", "accepted, but has no effect, as in Emissary", "use requestPolicy")
		}
		if spec.TLS.SNI != "" {
			l.warn(codeTLSNoEffect, "spec.tls.sni", "accepted, but has no effect on a Host, as in Emissary", "")
		}
	case secret == nil:
		return
	default:
		o := l.v.Get(api.KindTLSContext, l.o.Namespace, l.o.Name+"-context")
		if o != nil && l.f.Owns(o) {
			context := o.Spec.(*api.TLSContextSpec)
			t = l.contextSettings(o, context)
			h.Demanding = t.required != nil && *t.required
			if !l.fits(h, spec, secret, &t, o, context) {
				return
			}
		}
	}
	h.Demanding = t.required != nil && *t.required
	l.terminate(h, spec, secret, &t)
}

// terminate makes the TLS settings of the chain from the Host's secret (or the settings' own) and the settings.
func (l *lowering) terminate(h *ir.HostFragment, spec *api.HostSpec, secret *secretName, t *tlsSettings) {
	path := "spec.tls"
	if spec.TLSContext != nil {
		path = "spec.tlsContext"
	}
	certificate := ""
	var istio *secretName
	if secret != nil {
		if t.certFile != "" {
			l.close(h, codeTLSSetting, path+".cert_chain_file", "exactly one of tlsSecret and cert_chain_file is allowed")
			return
		}
		name, withCA, fault := l.certificate("spec.tlsSecret", *secret)
		if fault != nil {
			l.close(h, fault.code, "spec.tlsSecret", fault.text)
			return
		}
		certificate = name
		if withCA {
			istio = secret
		}
	}
	tls, fault := l.downstream(path, t, certificate, istio)
	if fault != nil {
		if fault.field != "" && spec.TLS != nil {
			path += "." + fault.field
		}
		l.close(h, fault.code, path, fault.text)
		return
	}
	h.TLS = tls
}

// fits checks that a TLSContext suits the Host.
func (l *lowering) fits(h *ir.HostFragment, spec *api.HostSpec, secret *secretName, t *tlsSettings, o *snapshot.Object, context *api.TLSContextSpec) bool {
	if secret != nil && t.secret != "" {
		if theirs := splitSecret(t.secret, t.namespace, t.namespacing); theirs != *secret {
			l.close(h, codeHostContext, "spec.tlsContext", "TLSContext "+o.Namespace+"/"+o.Name+" names Secret "+theirs.String()+", the Host names "+secret.String())
			return false
		}
	}
	if len(context.Hosts) == 0 {
		return true
	}
	for _, name := range context.Hosts {
		if strings.EqualFold(name, h.Domain) || name == l.o.Name {
			return true
		}
	}
	l.warn(codeHostContext, "spec.tlsContext", "TLSContext "+o.Namespace+"/"+o.Name+" lists other hosts; it is used all the same, as in Emissary", "add \""+h.Domain+"\" to its hosts")
	return true
}
