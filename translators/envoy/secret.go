package envoy

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// secretMessage builds one SDS resource: a certificate with its key, or trust anchors.
func secretMessage(s *ir.Secret, f *faults) *tlsv3.Secret {
	certificate, key, ca := source(s.Certificate, s.CertificateFile), source(s.Key, s.KeyFile), source(s.CA, s.CAFile)
	for path, name := range map[string]string{"tls_certificate.certificate_chain": s.CertificateFile, "tls_certificate.private_key": s.KeyFile, "validation_context.trusted_ca": s.CAFile} {
		if name != "" {
			file(path+".filename", name, f)
		}
	}
	out := &tlsv3.Secret{Name: s.Name}
	switch {
	case certificate != nil && key != nil && ca == nil:
		out.Type = &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{CertificateChain: certificate, PrivateKey: key}}
	case ca != nil && certificate == nil && key == nil:
		out.Type = &tlsv3.Secret_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{TrustedCa: ca, Crl: source(s.CRL, "")}}
	case certificate != nil && key == nil:
		f.add(codeValue, "tls_certificate.private_key", "the certificate has no key")
	case key != nil && certificate == nil:
		f.add(codeValue, "tls_certificate.certificate_chain", "the key has no certificate")
	default:
		f.add(codeValue, "type", "a secret holds either a certificate with its key or trust anchors")
	}
	return out
}

func source(pem []byte, file string) *corev3.DataSource {
	switch {
	case len(pem) > 0:
		return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: pem}}
	case file != "":
		return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: file}}
	default:
		return nil
	}
}
