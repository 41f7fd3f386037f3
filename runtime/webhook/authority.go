// Package webhook is the door of the API server: it serves admission reviews over HTTPS, with certificates of an
// authority of its own that all replicas share through a Secret, and says of an object what a compile would say of it.
package webhook

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// Authority makes the certificates of webhook servers. Its key and certificate are kept in a Secret, which whoever comes
// first creates and whoever sees it near its end renews. The certificate before stays in the bundle, so that servers that
// have not heard of the new one yet are believed too.
type Authority struct {
	// Client reaches the API server; Namespace and Name are those of the Secret.
	Client          dynamic.Interface
	Namespace, Name string
	// Hosts are the DNS names and IP addresses that the servers are called by.
	Hosts []string
	// Life is how long the authority's certificate is valid, default a year; it is renewed when a quarter of that is left.
	// Servers' certificates live a quarter of it.
	Life time.Duration
	// ReadOnly leaves the Secret to somebody else, who makes and renews it.
	ReadOnly bool
	// Known reports whether the API server has been told of a bundle; no certificate is shown before of an authority that is
	// new in it. Without it every bundle counts as known at the next refresh.
	Known func(bundle []byte) bool
	// Now is the clock, default time.Now.
	Now func() time.Time
	Log *slog.Logger

	mu      sync.Mutex
	bundle  []byte
	serving *tls.Certificate
	signed  []byte // the authority's certificate that serving was signed with
}

var secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

const (
	certKey, keyKey = "tls.crt", "tls.key"
	// previousKey holds the authority's certificate before this one.
	previousKey = "previous.crt"
)

// Bundle returns the certificates to believe, PEM; nil before the first Refresh.
func (a *Authority) Bundle() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.bundle
}

// Certificate is for tls.Config: it returns the server's certificate of the moment.
func (a *Authority) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.serving == nil {
		return nil, errors.New("there is no certificate yet")
	}
	return a.serving, nil
}

// authority returns the certificate of the authority that vouches for the server's own, nil before there is one.
func (a *Authority) authority() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.signed
}

func (a *Authority) now() time.Time {
	if a.Now != nil {
		return a.Now()
	}
	return time.Now()
}

func (a *Authority) life() time.Duration {
	if a.Life > 0 {
		return a.Life
	}
	return 365 * 24 * time.Hour
}

// Refresh reads the Secret, makes or renews it where need be, and has a certificate of its authority ready.
func (a *Authority) Refresh(ctx context.Context) error {
	for range 5 {
		o, err := a.Client.Resource(secrets).Namespace(a.Namespace).Get(ctx, a.Name, metav1.GetOptions{})
		absent := apierrors.IsNotFound(err)
		if err != nil && !absent {
			return err
		}
		var cert *x509.Certificate
		var key crypto.Signer
		if !absent {
			if cert, key, err = parse(value(o, certKey), value(o, keyKey)); err != nil && !a.ReadOnly {
				a.Log.Warn("the webhook's authority cannot be read and is made anew", "secret", a.Namespace+"/"+a.Name, "error", err)
			}
		}
		if cert != nil && (cert.NotAfter.Sub(a.now()) > a.life()/4 || a.ReadOnly && cert.NotAfter.After(a.now())) {
			return a.serve(cert, key, value(o, certKey), value(o, previousKey))
		}
		if a.ReadOnly {
			return a.unusable(cert, err)
		}
		certText, keyText, err := a.newAuthority()
		if err != nil {
			return err
		}
		n := o
		if absent {
			n = &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls"}}
			n.SetName(a.Name)
			n.SetNamespace(a.Namespace)
		}
		data := map[string]any{certKey: encode(certText), keyKey: encode(keyText)}
		if cert != nil {
			data[previousKey] = encode(value(o, certKey))
		} else if before := a.authority(); before != nil {
			data[previousKey] = encode(before) // somebody deleted the Secret, which is a way to ask for a new one
		}
		n.Object["data"] = data
		if absent {
			_, err = a.Client.Resource(secrets).Namespace(a.Namespace).Create(ctx, n, metav1.CreateOptions{})
		} else {
			_, err = a.Client.Resource(secrets).Namespace(a.Namespace).Update(ctx, n, metav1.UpdateOptions{})
		}
		if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) {
			return err
		}
		// Whoever came first, what is there now counts.
	}
	return fmt.Errorf("others keep writing the Secret %s/%s", a.Namespace, a.Name)
}

// unusable says why the Secret of somebody else cannot be used.
func (a *Authority) unusable(cert *x509.Certificate, err error) error {
	name := a.Namespace + "/" + a.Name
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the Secret %s is not there, and whoever is to make it has not; it must hold an authority in tls.crt and tls.key", name)
	case cert == nil:
		return fmt.Errorf("the Secret %s must hold an authority in tls.crt and tls.key: %w", name, err)
	}
	return fmt.Errorf("the authority in the Secret %s ended at %s, and whoever is to renew it has not", name, cert.NotAfter.Format(time.RFC3339))
}

func encode(text []byte) string { return base64.StdEncoding.EncodeToString(text) }

func value(o *unstructured.Unstructured, key string) []byte {
	text, _, _ := unstructured.NestedString(o.Object, "data", key)
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	return data
}

// serve takes over an authority, whose certificate the text holds, and has a certificate of it ready.
func (a *Authority) serve(cert *x509.Certificate, key crypto.Signer, text, previous []byte) error {
	bundle := slices.Concat(bytes.TrimSpace(text), []byte("\n"), previous)
	a.mu.Lock()
	defer a.mu.Unlock()
	news := !bytes.Equal(a.bundle, bundle) || a.Known != nil && !a.Known(bundle)
	a.bundle = bundle
	// A new authority has to be known to the API server before a certificate of it is shown; until then the one before is
	// still good.
	if a.serving != nil {
		end := a.serving.Leaf.NotAfter
		left := end.Sub(a.now())
		if news && left > 0 || bytes.Equal(a.signed, text) && (left > a.life()/8 || left > 0 && end.Equal(cert.NotAfter)) {
			return nil
		}
	}
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := a.template("chancery webhook", a.life()/4)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	if template.NotAfter.After(cert.NotAfter) {
		template.NotAfter = cert.NotAfter
	}
	for _, h := range a.Hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, cert, own.Public(), key)
	if err != nil {
		return err
	}
	leaf, err := x509.ParseCertificate(raw)
	if err != nil {
		return err
	}
	a.serving, a.signed = &tls.Certificate{Certificate: [][]byte{raw, cert.Raw}, PrivateKey: own, Leaf: leaf}, text
	return nil
}

func (a *Authority) template(name string, life time.Duration) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		serial = big.NewInt(time.Now().UnixNano()) // crypto/rand never fails on the systems that we run on
	}
	now := a.now()
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name, Organization: []string{"chancery"}},
		NotBefore: now.Add(-time.Minute), NotAfter: now.Add(life), KeyUsage: x509.KeyUsageDigitalSignature,
	}
}

func (a *Authority) newAuthority() (cert, key []byte, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	t := a.template("chancery webhook authority", a.life())
	t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature
	raw, err := x509.CreateCertificate(rand.Reader, t, t, k.Public(), k)
	if err != nil {
		return nil, nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), nil
}

// parse reads an authority with a key of any kind: Emissary's are RSA keys.
func parse(cert, key []byte) (*x509.Certificate, crypto.Signer, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, nil, err
	}
	k, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || !pair.Leaf.IsCA {
		return nil, nil, errors.New("its certificate is none of an authority")
	}
	return pair.Leaf, k, nil
}
