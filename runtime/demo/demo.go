// Package demo is what the quickstart needs besides Chancery: small backends that say who they are, and a self-signed
// certificate made on the spot.
package demo

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Backend is one service on the loopback address.
type Backend struct {
	Name string
	Port int
}

// Backends are the services that testdata/quickstart routes to.
var Backends = []Backend{{"shop v1", 18081}, {"shop v2 (canary)", 18082}, {"account", 18083}, {"catalog", 18084}}

// Serve runs the backends until ctx ends. ready is closed when all of them listen.
func Serve(ctx context.Context, backends []Backend, ready chan<- struct{}) error {
	var listeners []net.Listener
	defer func() {
		for _, l := range listeners {
			_ = l.Close() // closed by its server already, or of no use any more
		}
	}()
	for _, b := range backends {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", b.Port))
		if err != nil {
			return fmt.Errorf("demo backend %q: %w", b.Name, err)
		}
		listeners = append(listeners, l)
	}
	failed := make(chan error, len(backends))
	for i, b := range backends {
		s := &http.Server{Handler: handler(b.Name), ReadHeaderTimeout: 10 * time.Second}
		defer s.Close()
		go func() { failed <- s.Serve(listeners[i]) }()
	}
	close(ready)
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return err
	}
}

func handler(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintf(w, "%s got %s %s for %s\n", name, r.Method, r.URL.RequestURI(), r.Host)
	})
}

// WriteCertificate writes a manifest with a kubernetes.io/tls Secret to dir/certificate.yaml, readable by the owner only:
// a new self-signed certificate for the names, valid for thirty days.
func WriteCertificate(dir, namespace, name string, names []string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: names[0], Organization: []string{"Chancery quickstart"}},
		NotBefore:    now.Add(-time.Hour), NotAfter: now.Add(30 * 24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: names, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	encode := func(kind string, der []byte) string {
		return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Made for %s; thrown away and made again with each run.\n", strings.Join(names, ", "))
	fmt.Fprintf(&b, "apiVersion: v1\nkind: Secret\nmetadata:\n  name: %s\n  namespace: %s\ntype: kubernetes.io/tls\n", name, namespace)
	fmt.Fprintf(&b, "data:\n  tls.crt: %s\n  tls.key: %s\n", encode("CERTIFICATE", der), encode("PRIVATE KEY", pkcs8))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "certificate.yaml"), b.Bytes(), 0o600)
}
