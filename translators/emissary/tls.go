package emissary

import (
	"fmt"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
	api "github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// tlsSettings are TLS settings as a TLSContext or a Host's tls has them, with the namespace in which bare names of Secrets
// are looked up.
type tlsSettings struct {
	namespace   string
	namespacing bool
	// file names the material of files among IR Secrets: "namespace/name" of the object.
	file string

	secret                      string
	certFile, keyFile, caFile   string
	caSecret, crlSecret         string
	alpn                        string
	required                    *bool
	minVersion, maxVersion, sni string
	ciphers, curves             []string
}

func (l *lowering) contextSettings(o *snapshot.Object, s *api.TLSContextSpec) tlsSettings {
	namespacing := l.set.secretNamespacing
	if s.SecretNamespacing != nil {
		namespacing = *s.SecretNamespacing
	}
	return tlsSettings{
		namespace: o.Namespace, namespacing: namespacing, file: "TLSContext/" + o.Namespace + "/" + o.Name,
		secret: s.Secret, certFile: s.CertChainFile, keyFile: s.PrivateKeyFile, caFile: s.CACertChainFile,
		caSecret: s.CASecret, crlSecret: s.CRLSecret, alpn: s.ALPNProtocols, required: s.CertRequired,
		minVersion: s.MinTLSVersion, maxVersion: s.MaxTLSVersion, sni: s.SNI, ciphers: s.CipherSuites, curves: s.ECDHCurves,
	}
}

func (l *lowering) inlineSettings(s *api.TLSConfig) tlsSettings {
	return tlsSettings{
		namespace: l.o.Namespace, namespacing: l.set.secretNamespacing, file: "Host/" + l.o.Namespace + "/" + l.o.Name,
		certFile: s.CertChainFile, keyFile: s.PrivateKeyFile, caFile: s.CACertChainFile,
		caSecret: s.CASecret, crlSecret: s.CRLSecret, alpn: s.ALPNProtocols, required: s.CertRequired,
		minVersion: s.MinTLSVersion, maxVersion: s.MaxTLSVersion, sni: s.SNI, ciphers: s.CipherSuites, curves: s.ECDHCurves,
	}
}

// tlsFault is a secretFault with the field that caused it.
type tlsFault struct {
	field string
	*secretFault
}

// keyPair adds the certificate that the settings name and returns its IR name; "" where they name none.
func (l *lowering) keyPair(path string, t *tlsSettings) (string, bool, *tlsFault) {
	switch {
	case t.secret != "" && t.certFile != "":
		return "", false, &tlsFault{"cert_chain_file", fault(codeTLSSetting, "exactly one of secret and cert_chain_file is allowed")}
	case t.secret != "":
		name, withCA, err := l.certificate(path, splitSecret(t.secret, t.namespace, t.namespacing))
		if err != nil {
			return "", false, &tlsFault{"secret", err}
		}
		return name, withCA, nil
	case t.certFile != "":
		if t.keyFile == "" {
			return "", false, &tlsFault{"private_key_file", fault(codeTLSSetting, "cert_chain_file needs private_key_file")}
		}
		l.addSecret(&ir.Secret{Name: t.file, CertificateFile: t.certFile, KeyFile: t.keyFile, Origins: l.origins()})
		return t.file, false, nil
	}
	return "", false, nil
}

// validation adds the trust anchors that the settings name and returns their IR name; "" where they name none. istio is
// the Secret of the certificate where that brings anchors of its own.
func (l *lowering) validation(t *tlsSettings, istio *secretName) (string, *tlsFault) {
	var crl *secretName
	if t.crlSecret != "" {
		n := splitSecret(t.crlSecret, t.namespace, t.namespacing)
		crl = &n
	}
	ca := istio
	if t.caSecret != "" {
		n := splitSecret(t.caSecret, t.namespace, t.namespacing)
		ca = &n
	}
	switch {
	case ca != nil:
		name, required, err := l.anchors(*ca, crl)
		if err != nil {
			field := "ca_secret"
			if crl != nil && strings.Contains(err.text, crl.String()) {
				field = "crl_secret"
			}
			return "", &tlsFault{field, err}
		}
		if required != nil && t.caSecret != "" {
			t.required = required
		}
		return name, nil
	case t.caFile != "":
		if crl != nil {
			return "", &tlsFault{"crl_secret", fault(codeTLSSetting, "a revocation list goes with ca_secret, not with cacert_chain_file")}
		}
		l.addSecret(&ir.Secret{Name: t.file + "/ca", CAFile: t.caFile, Origins: l.origins()})
		return t.file + "/ca", nil
	case crl != nil:
		return "", &tlsFault{"crl_secret", fault(codeTLSSetting, "a revocation list without ca_secret checks nothing")}
	}
	return "", nil
}

var tlsVersions = []string{"v1.0", "v1.1", "v1.2", "v1.3"}

// tlsCiphers are the cipher suites that Envoy's BoringSSL knows (Envoy docs: TlsParameters.cipher_suites).
var tlsCiphers = []string{
	"ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305",
	"ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-CHACHA20-POLY1305",
	"ECDHE-ECDSA-AES128-SHA", "ECDHE-ECDSA-AES256-SHA", "ECDHE-RSA-AES128-SHA", "ECDHE-RSA-AES256-SHA",
	"ECDHE-RSA-AES128-SHA256", "ECDHE-ECDSA-AES128-SHA256", "ECDHE-PSK-AES128-CBC-SHA", "ECDHE-PSK-AES256-CBC-SHA", "ECDHE-PSK-CHACHA20-POLY1305",
	"AES128-GCM-SHA256", "AES256-GCM-SHA384", "AES128-SHA", "AES256-SHA", "PSK-AES128-CBC-SHA", "PSK-AES256-CBC-SHA", "DES-CBC3-SHA",
}

// tlsCipherGroups are names that stand for several suites.
var tlsCipherGroups = []string{"ALL", "DEFAULT", "HIGH", "FIPS", "AES", "ECDHE"}

// tlsCurves are the groups that Envoy's BoringSSL knows.
var tlsCurves = []string{"P-256", "P-384", "P-521", "X25519", "X25519MLKEM768", "MLKEM1024"}

// curveAliases are OpenSSL's names of some of them.
var curveAliases = map[string]string{"prime256v1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521"}

// params checks the settings that both directions share.
func (t *tlsSettings) params() (ir.TLSParams, *tlsFault) {
	low, high := slices.Index(tlsVersions, t.minVersion), slices.Index(tlsVersions, t.maxVersion)
	if t.minVersion != "" && low < 0 {
		return ir.TLSParams{}, &tlsFault{"min_tls_version", fault(codeTLSSetting, "unknown TLS version %q: v1.0 to v1.3 are known", t.minVersion)}
	}
	if t.maxVersion != "" && high < 0 {
		return ir.TLSParams{}, &tlsFault{"max_tls_version", fault(codeTLSSetting, "unknown TLS version %q: v1.0 to v1.3 are known", t.maxVersion)}
	}
	if low >= 0 && high >= 0 && low > high {
		return ir.TLSParams{}, &tlsFault{"min_tls_version", fault(codeTLSSetting, "%s is above max_tls_version %s", t.minVersion, t.maxVersion)}
	}
	for i, suite := range t.ciphers {
		for _, one := range strings.FieldsFunc(suite, func(r rune) bool { return strings.ContainsRune("[]|:", r) }) {
			if one = strings.TrimLeft(one, "-!+"); !slices.Contains(tlsCiphers, one) && !slices.Contains(tlsCipherGroups, one) {
				return ir.TLSParams{}, &tlsFault{fmt.Sprintf("cipher_suites[%d]", i), fault(codeTLSSetting, "unknown cipher suite %q", one)}
			}
		}
	}
	seen := make([]string, 0, len(t.curves))
	for i, curve := range t.curves {
		if other := curveAliases[curve]; other != "" {
			curve = other
		}
		if slices.Contains(seen, curve) {
			return ir.TLSParams{}, &tlsFault{fmt.Sprintf("ecdh_curves[%d]", i), fault(codeTLSSetting, "curve %s stands twice", curve)}
		}
		seen = append(seen, curve)
		if !slices.Contains(tlsCurves, curve) {
			return ir.TLSParams{}, &tlsFault{fmt.Sprintf("ecdh_curves[%d]", i), fault(codeTLSSetting, "unknown curve %q: %s are known", curve, strings.Join(tlsCurves, ", "))}
		}
	}
	p := ir.TLSParams{MinVersion: strings.TrimPrefix(t.minVersion, "v"), MaxVersion: strings.TrimPrefix(t.maxVersion, "v"), CipherSuites: t.ciphers, Curves: t.curves}
	if t.alpn == "" {
		return p, nil
	}
	for one := range strings.SplitSeq(t.alpn, ",") {
		if one = strings.TrimSpace(one); one == "" || len(one) > 255 {
			return ir.TLSParams{}, &tlsFault{"alpn_protocols", fault(codeTLSSetting, "%q is no list of protocols such as \"h2,http/1.1\"", t.alpn)}
		}
		p.ALPN = append(p.ALPN, one)
	}
	return p, nil
}

// downstream makes the settings that end TLS. certificate is the IR name of the certificate to use; "" where the settings'
// own is wanted.
func (l *lowering) downstream(path string, t *tlsSettings, certificate string, istio *secretName) (*ir.DownstreamTLS, *tlsFault) {
	if certificate == "" {
		name, withCA, err := l.keyPair(path, t)
		if err != nil {
			return nil, err
		}
		if name == "" {
			return nil, &tlsFault{"", fault(codeTLSSetting, "no certificate is named")}
		}
		certificate = name
		if withCA {
			n := splitSecret(t.secret, t.namespace, t.namespacing)
			istio = &n
		}
	}
	params, err := t.params()
	if err != nil {
		return nil, err
	}
	validation, err := l.validation(t, istio)
	if err != nil {
		return nil, err
	}
	required := t.required != nil && *t.required
	if required && validation == "" {
		return nil, &tlsFault{"cert_required", fault(codeTLSSetting, "client certificates are required, but no ca_secret says whose")}
	}
	return &ir.DownstreamTLS{Certificates: []string{certificate}, Validation: validation, RequireClientCertificate: required, Params: params}, nil
}

// tlsContext checks a TLSContext by itself. What uses it makes the fragments.
func (l *lowering) tlsContext(spec *api.TLSContextSpec) {
	t := l.contextSettings(l.o, spec)
	if spec.RedirectCleartextFrom != nil {
		l.warn(codeTLSNoEffect, "spec.redirect_cleartext_from", "accepted, but has no effect, as in Emissary", "use the Host's requestPolicy")
	}
	report := func(err *tlsFault) {
		if err != nil {
			path := "spec"
			if err.field != "" {
				path += "." + err.field
			}
			l.fail(err.code, path, err.text, "")
		}
	}
	_, err := t.params()
	report(err)
	_, withCA, err := l.keyPair("spec.secret", &t)
	report(err)
	var istio *secretName
	if withCA {
		n := splitSecret(t.secret, t.namespace, t.namespacing)
		istio = &n
	}
	_, err = l.validation(&t, istio)
	report(err)
	l.out.Secrets = nil
}

// findContext returns the TLSContext of this name: in the object's namespace, in the gateway's own, the only one
// elsewhere, or, for "name.namespace", the one there. The error says why there is none.
func (l *lowering) findContext(name string) (*snapshot.Object, *api.TLSContextSpec, error) {
	get := func(namespace, name string) (*snapshot.Object, *api.TLSContextSpec) {
		if o := l.v.Get(api.KindTLSContext, namespace, name); o != nil && l.f.Owns(o) {
			return o, o.Spec.(*api.TLSContextSpec)
		}
		return nil, nil
	}
	for _, namespace := range []string{l.o.Namespace, l.f.options.Namespace} {
		if o, spec := get(namespace, name); o != nil {
			return o, spec, nil
		}
	}
	var found []*snapshot.Object
	for o := range l.v.List(api.KindTLSContext) {
		if o.Name == name && l.f.Owns(o) {
			found = append(found, o)
		}
	}
	switch len(found) {
	case 1:
		return found[0], found[0].Spec.(*api.TLSContextSpec), nil
	case 0:
		if i := strings.LastIndexByte(name, '.'); i > 0 {
			if o, spec := get(name[i+1:], name[:i]); o != nil {
				return o, spec, nil
			}
		}
		return nil, nil, fmt.Errorf("there is no TLSContext %q", name)
	}
	return nil, nil, fmt.Errorf("TLSContext %q exists in several namespaces (%s, %s ...); write name.namespace", name, found[0].Namespace, found[1].Namespace)
}

// upstreamTLS decides over TLS to the upstream; nil is clear text.
func (l *lowering) upstreamTLS(u upstream, scheme string) *ir.UpstreamTLS {
	if u.tls == "" {
		if scheme != "https" {
			return nil
		}
		l.report(snapshot.Info, codeClusterUnverified, u.at(), "https:// without a TLSContext: the server's certificate is not verified", "name a TLSContext with ca_secret in tls")
		return &ir.UpstreamTLS{SNI: u.hostRewrite}
	}
	o, spec, err := l.findContext(u.tls)
	if err != nil {
		l.fail(codeClusterContext, "spec.tls", err.Error()+"; the service is not called in clear text instead", "create the TLSContext, or correct the name")
		return nil
	}
	if scheme == "http" {
		l.warn(codeClusterScheme, u.at(), "the service says http://, but TLS is originated by TLSContext "+o.Namespace+"/"+o.Name, "write https://")
	}
	t := l.contextSettings(o, spec)
	refuse := func(f *tlsFault) *ir.UpstreamTLS {
		l.fail(codeClusterContext, "spec.tls", "TLSContext "+o.Namespace+"/"+o.Name+" cannot be used: "+f.text, "")
		return nil
	}
	params, f := t.params()
	if f != nil {
		return refuse(f)
	}
	certificate, withCA, f := l.keyPair("spec.tls", &t)
	if f != nil {
		return refuse(f)
	}
	var istio *secretName
	if withCA {
		n := splitSecret(t.secret, t.namespace, t.namespacing)
		istio = &n
	}
	validation, f := l.validation(&t, istio)
	if f != nil {
		return refuse(f)
	}
	sni := t.sni
	if sni == "" {
		sni = u.hostRewrite
	}
	return &ir.UpstreamTLS{SNI: sni, Certificate: certificate, Validation: validation, Params: params}
}
