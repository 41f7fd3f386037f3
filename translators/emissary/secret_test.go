package emissary

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// newPair returns a self-signed certificate and its key in PEM.
func newPair(t testing.TB, notAfter time.Time) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: notAfter,
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
}

// secretDoc writes a Secret; data are pairs of key and value.
func secretDoc(name, kind string, data ...string) string {
	var fields []string
	for i := 0; i+1 < len(data); i += 2 {
		fields = append(fields, fmt.Sprintf("%q: %q", data[i], base64.StdEncoding.EncodeToString([]byte(data[i+1]))))
	}
	namespace, name, _ := strings.Cut(name, "/")
	return fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {name: %s, namespace: %s}, type: %s, data: {%s}}`, name, namespace, kind, strings.Join(fields, ", "))
}

// lowerHost lowers Host app/h with further documents.
func lowerHost(t testing.TB, spec string, more ...string) *ir.Fragments {
	t.Helper()
	docs := append([]string{fmt.Sprintf("{kind: Host, metadata: {name: h}, spec: {%s}}", spec)}, more...)
	return newWorld(t, strings.Join(docs, "\n---\n")).lower(t, "Host/h")
}

func hostOf(t *testing.T, f *ir.Fragments) *ir.HostFragment {
	t.Helper()
	if len(f.Hosts) != 1 {
		t.Fatalf("%d hosts, want 1: %v", len(f.Hosts), f.Diagnostics)
	}
	return f.Hosts[0]
}

// What is wrong with a Secret is told apart, and the Host is closed, not opened (B099, B101).
func TestSecretFaults(t *testing.T) {
	cert, key := newPair(t, time.Now().Add(time.Hour))
	_, otherKey := newPair(t, time.Now().Add(time.Hour))
	old, oldKey := newPair(t, time.Now().Add(-time.Hour))
	for _, c := range []struct {
		name, secret, findings, message string
		served                          bool
	}{
		{"good", secretDoc("app/s", "kubernetes.io/tls", "tls.crt", cert, "tls.key", key), "", "", true},
		{"opaque", secretDoc("app/s", "Opaque", "tls.crt", cert, "tls.key", key), "", "", true},
		{"istio", secretDoc("app/s", "istio.io/key-and-cert", "cert-chain.pem", cert, "key.pem", key), "", "", true},
		{"missing", secretDoc("app/other", "Opaque", "a", "b"), "error CH-TLS-001 spec.tlsSecret", "there is no Secret app/s", false},
		{"type", secretDoc("app/s", "kubernetes.io/dockerconfigjson", ".dockerconfigjson", "{}"), "error CH-TLS-002 spec.tlsSecret", "kubernetes.io/dockerconfigjson", false},
		{"empty certificate", secretDoc("app/s", "kubernetes.io/tls", "tls.crt", "", "tls.key", key), "error CH-TLS-003 spec.tlsSecret", "the certificate (tls.crt) of Secret app/s is empty", false},
		{"empty key", secretDoc("app/s", "kubernetes.io/tls", "tls.crt", cert, "tls.key", ""), "error CH-TLS-003 spec.tlsSecret", "the key (tls.key) of Secret app/s is empty", false},
		{"garbage", secretDoc("app/s", "kubernetes.io/tls", "tls.crt", "no PEM", "tls.key", key), "error CH-TLS-003 spec.tlsSecret", "no PEM block of type CERTIFICATE", false},
		{"broken certificate", secretDoc("app/s", "kubernetes.io/tls", "tls.crt", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "tls.key", key), "error CH-TLS-003 spec.tlsSecret", "no valid certificate", false},
		{"certificate as key", secretDoc("app/s", "kubernetes.io/tls", "tls.crt", cert, "tls.key", cert), "error CH-TLS-003 spec.tlsSecret", "no PEM block with a private key", false},
		{"mismatch", secretDoc("app/s", "kubernetes.io/tls", "tls.crt", cert, "tls.key", otherKey), "error CH-TLS-004 spec.tlsSecret", "not its certificate's", false},
		{"expired", secretDoc("app/s", "kubernetes.io/tls", "tls.crt", old, "tls.key", oldKey), "warning CH-TLS-005 spec.tlsSecret", "expired at", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := lowerHost(t, `hostname: h.example.com, tlsSecret: {name: s}`, c.secret)
			want(t, f, c.findings)
			h := hostOf(t, f)
			if c.served != (h.Closed == "" && h.TLS != nil && len(f.Secrets) == 1) {
				t.Errorf("closed %q, TLS %v, %d secrets", h.Closed, h.TLS, len(f.Secrets))
			}
			if c.message != "" && !strings.Contains(f.Diagnostics[0].Message, c.message) {
				t.Errorf("message %q lacks %q", f.Diagnostics[0].Message, c.message)
			}
			if c.served && string(f.Secrets[0].Key) != key && c.name != "expired" {
				t.Error("the key is not in the Secret")
			}
		})
	}
}

// No material reaches a diagnostic or the JSON form (B102).
func TestSecretsDoNotLeak(t *testing.T) {
	cert, key := newPair(t, time.Now().Add(time.Hour))
	body := strings.Split(key, "\n")[1]
	for _, doc := range []string{
		secretDoc("app/s", "kubernetes.io/tls", "tls.crt", cert, "tls.key", key),
		secretDoc("app/s", "kubernetes.io/tls", "tls.crt", key, "tls.key", key),
		secretDoc("app/s", "kubernetes.io/tls", "tls.crt", cert, "tls.key", strings.Replace(key, "PRIVATE", "EC PRIVATE", 2)),
		secretDoc("app/s", "kubernetes.io/tls", "tls.crt", cert, "tls.key", body),
	} {
		f := lowerHost(t, `hostname: h.example.com, tlsSecret: {name: s}`, doc)
		text := compact(t, f.Secrets)
		for _, d := range f.Diagnostics {
			text += d.String()
		}
		if strings.Contains(text, "PRIVATE KEY") || strings.Contains(text, body) {
			t.Errorf("leaks: %s", text)
		}
	}
}

func TestSplitSecret(t *testing.T) {
	for _, c := range []struct {
		text        string
		namespacing bool
		want        string
	}{
		{"wildcard.core", true, "core/wildcard"}, {"wildcard.core", false, "staging/wildcard.core"}, {"plain", true, "staging/plain"},
		{"h.example.com.certs", true, "certs/h.example.com"}, {".x", true, "staging/.x"}, {"x.", true, "staging/x."},
	} {
		if got := splitSecret(c.text, "staging", c.namespacing).String(); got != c.want {
			t.Errorf("%s: %s, want %s", c.text, got, c.want)
		}
	}
}

func TestCertsSingleNamespace(t *testing.T) {
	cert, key := newPair(t, time.Now().Add(time.Hour))
	w := newWorld(t, "{kind: Host, metadata: {name: h}, spec: {tlsSecret: {name: s}}}\n---\n"+secretDoc("app/s", "Opaque", "tls.crt", cert, "tls.key", key),
		func(o *Options) { o.CertsSingleNamespace = true })
	f := w.lower(t, "Host/h")
	want(t, f, "error CH-TLS-001 spec.tlsSecret")
	if hostOf(t, f).Closed == "" {
		t.Error("the host is open")
	}
}
