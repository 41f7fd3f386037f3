package emissary

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// secretFault is why a Secret cannot be used. Its text never holds any of the Secret's content.
type secretFault struct {
	code *snapshot.Code
	text string
}

func (f *secretFault) Error() string { return f.text }

func fault(c *snapshot.Code, format string, args ...any) *secretFault {
	return &secretFault{code: c, text: fmt.Sprintf(format, args...)}
}

// secretName is the place of a Secret.
type secretName struct{ namespace, name string }

func (s secretName) String() string { return s.namespace + "/" + s.name }

// splitSecret reads "name" or, where namespacing is on, "name.namespace" (split at the last dot).
func splitSecret(text, namespace string, namespacing bool) secretName {
	if i := strings.LastIndexByte(text, '.'); namespacing && i > 0 && i+1 < len(text) {
		return secretName{namespace: text[i+1:], name: text[:i]}
	}
	return secretName{namespace: namespace, name: text}
}

// secret reads a Secret of an accepted type.
func (l *lowering) secret(n secretName) (*snapshot.Object, *snapshot.Secret, *secretFault) {
	if l.f.options.CertsSingleNamespace && n.namespace != l.f.options.Namespace {
		return nil, nil, fault(codeTLSMissing, "Secret %s is not read: certificates are taken from namespace %s only", n, l.f.options.Namespace)
	}
	o := l.v.Get(snapshot.KindSecret, n.namespace, n.name)
	if o == nil {
		if why := l.v.Refusal(snapshot.KindSecret, n.namespace, n.name); why != nil {
			return nil, nil, fault(codeTLSMissing, "Secret %s is there but refused: %s", n, why.Message)
		}
		return nil, nil, fault(codeTLSMissing, "there is no Secret %s", n)
	}
	s, ok := o.Spec.(*snapshot.Secret)
	if !ok {
		return nil, nil, fault(codeTLSMissing, "Secret %s cannot be read", n)
	}
	switch s.Type {
	case "", "Opaque", "kubernetes.io/tls", "istio.io/key-and-cert":
		return o, s, nil
	}
	return nil, nil, fault(codeTLSType, "Secret %s has type %s", n, s.Type)
}

// certificate reads a certificate with its key, adds it to the fragments and returns the name of the IR Secret. withCA
// says that the Secret brings its own trust anchors (Istio's root-cert.pem).
func (l *lowering) certificate(path string, n secretName) (name string, withCA bool, err *secretFault) {
	o, s, err := l.secret(n)
	if err != nil {
		return "", false, err
	}
	cert, key := s.Data["tls.crt"], s.Data["tls.key"]
	if len(cert) == 0 && len(key) == 0 && (len(s.Data["cert-chain.pem"]) > 0 || s.Type == "istio.io/key-and-cert") {
		cert, key = s.Data["cert-chain.pem"], s.Data["key.pem"]
	}
	pair := l.f.pairs.check(cert, key)
	if pair.code != nil {
		return "", false, fault(pair.code, pair.text, n)
	}
	now := l.f.options.Now()
	if now.After(pair.notAfter) {
		l.warn(codeTLSExpired, path, fmt.Sprintf("the certificate of Secret %s expired at %s", n, pair.notAfter.UTC().Format(time.RFC3339)), "")
	} else if now.Before(pair.notBefore) {
		l.warn(codeTLSExpired, path, fmt.Sprintf("the certificate of Secret %s is valid from %s on", n, pair.notBefore.UTC().Format(time.RFC3339)), "")
	}
	l.addSecret(&ir.Secret{Name: n.String(), Certificate: cert, Key: key, Fingerprint: pair.fingerprint, Origins: []ir.Origin{o.Ref}})
	return n.String(), len(s.Data["root-cert.pem"]) > 0, nil
}

// addSecret adds an IR Secret once.
func (l *lowering) addSecret(s *ir.Secret) {
	for _, other := range l.out.Secrets {
		if other.Name == s.Name {
			return
		}
	}
	l.out.Secrets = append(l.out.Secrets, s)
}

// checkedPair is what is known about a certificate and key; it holds none of their content but the names.
type checkedPair struct {
	// code and text say why the pair cannot be used; text has a place for the Secret's name.
	code                *snapshot.Code
	text                string
	notBefore, notAfter time.Time
	fingerprint         string
	names               []string
}

// maxPairs bounds the memory of pairs; past it the map starts afresh.
const maxPairs = 10000

// pairs remembers checked pairs by fingerprint: reading a key costs as much as lowering a hundred Mappings.
type pairs struct {
	sync.Mutex
	known map[string]checkedPair
}

// check checks certificate and key, once for each content.
func (p *pairs) check(cert, key []byte) checkedPair {
	content := fingerprint(cert, key)
	p.Lock()
	pair, known := p.known[content]
	p.Unlock()
	if known {
		return pair
	}
	pair = parsePair(cert, key)
	pair.fingerprint = content
	p.Lock()
	defer p.Unlock()
	if p.known == nil || len(p.known) >= maxPairs {
		p.known = map[string]checkedPair{}
	}
	p.known[content] = pair
	return pair
}

func parsePair(cert, key []byte) checkedPair {
	leaf, err := parseCertificates(cert)
	if err != nil {
		return checkedPair{code: codeTLSMaterial, text: "the certificate (tls.crt) of Secret %s " + err.Error()}
	}
	signer, err := parseKey(key)
	if err != nil {
		return checkedPair{code: codeTLSMaterial, text: "the key (tls.key) of Secret %s " + err.Error()}
	}
	public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(leaf.PublicKey) {
		return checkedPair{code: codeTLSMismatch, text: "the key of Secret %s is not its certificate's"}
	}
	return checkedPair{notBefore: leaf.NotBefore, notAfter: leaf.NotAfter, names: leaf.DNSNames}
}

// parseCertificates checks a PEM chain and returns its first certificate.
func parseCertificates(text []byte) (first *x509.Certificate, err error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, errors.New("is empty or missing")
	}
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" && block.Type != "TRUSTED CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, errors.New("holds a PEM block that is no valid certificate")
		}
		if first == nil {
			first = cert
		}
	}
	if first == nil {
		return nil, errors.New("holds no PEM block of type CERTIFICATE")
	}
	return first, nil
}

func parseKey(text []byte) (crypto.Signer, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, errors.New("is empty or missing")
	}
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return nil, errors.New("holds no PEM block with a private key")
		}
		if !strings.HasSuffix(block.Type, "PRIVATE KEY") {
			continue
		}
		if block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["Proc-Type"] != "" {
			return nil, errors.New("is encrypted, which Envoy cannot read without a pass phrase")
		}
		if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
			return checkStrength(key)
		}
		if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
			return checkStrength(key)
		}
		key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, errors.New("holds a PEM block that is no valid private key")
		}
		return checkStrength(key)
	}
}

// checkStrength refuses the keys that Envoy refuses (Envoy: ContextImpl, "Failed to load certificate chain").
func checkStrength(key any) (crypto.Signer, error) {
	switch key := key.(type) {
	case *rsa.PrivateKey:
		if key.N.BitLen() < 2048 {
			return nil, fmt.Errorf("is an RSA key of %d bits; Envoy takes 2048 and more", key.N.BitLen())
		}
		return key, nil
	case *ecdsa.PrivateKey:
		if key.Curve.Params().BitSize < 256 {
			return nil, fmt.Errorf("is an ECDSA key on curve %s; Envoy takes P-256, P-384 and P-521", key.Curve.Params().Name)
		}
		return key, nil
	case ed25519.PrivateKey:
		return key, nil
	}
	return nil, errors.New("is of a kind that Envoy does not support")
}

// fingerprint hashes material so that a change shows.
func fingerprint(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		sum := sha256.Sum256(p)
		h.Write(sum[:])
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// anchors reads trust anchors, and a revocation list where crl names a Secret, adds them to the fragments and returns the
// name of the IR Secret. required is the Secret's own cert_required, nil when it has none.
func (l *lowering) anchors(ca secretName, crl *secretName) (name string, required *bool, err *secretFault) {
	o, s, err := l.secret(ca)
	if err != nil {
		return "", nil, err
	}
	var text []byte
	for _, key := range []string{"tls.crt", "ca.crt", "root-cert.pem"} {
		if text = s.Data[key]; len(text) > 0 {
			break
		}
	}
	if s.Type == "istio.io/key-and-cert" && len(s.Data["root-cert.pem"]) > 0 {
		text = s.Data["root-cert.pem"]
	}
	if _, err := parseCertificates(text); err != nil {
		return "", nil, fault(codeTLSMaterial, "the trust anchors (ca.crt or tls.crt) of Secret %s: this %s", ca, err)
	}
	if flag, has := s.Data["cert_required"]; has {
		yes := strings.EqualFold(strings.TrimSpace(string(flag)), "true")
		required = &yes
	}
	out := &ir.Secret{Name: ca.String() + "/ca", CA: text, Origins: []ir.Origin{o.Ref}}
	if crl != nil {
		o, s, err := l.secret(*crl)
		if err != nil {
			return "", nil, err
		}
		list := s.Data["crl.pem"]
		if block, _ := pem.Decode(list); block == nil || block.Type != "X509 CRL" {
			return "", nil, fault(codeTLSMaterial, "the revocation list (crl.pem) of Secret %s is missing or holds no PEM block of type X509 CRL", *crl)
		}
		out.CRL = list
		out.Name += "+" + crl.String()
		out.Origins = append(out.Origins, o.Ref)
	}
	out.Fingerprint = fingerprint(out.CA, out.CRL)
	l.addSecret(out)
	return out.Name, required, nil
}
