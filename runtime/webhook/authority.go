// Package webhook is the door of the API server: it serves admission reviews over HTTPS, with certificates of an
// authority of its own that all replicas share through a Secret, and says of an object what a compile would say of it.
package webhook

import (
	"bytes"
	"context"
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
	Log  *slog.Logger

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
		var key *ecdsa.PrivateKey
		if !absent {
			if cert, key, err = parse(value(o, certKey), value(o, keyKey)); err != nil {
				a.Log.Warn("the webhook's authority cannot be read and is made anew", "secret", a.Namespace+"/"+a.Name, "error", err)
			}
		}
		if cert != nil && time.Until(cert.NotAfter) > a.life()/4 {
			return a.serve(cert, key, value(o, previousKey))
		}
		certText, keyText, err := newAuthority(a.life())
		if err != nil {
			return err
		}
		n := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls"}}
		n.SetName(a.Name)
		n.SetNamespace(a.Namespace)
		data := map[string]any{certKey: encode(certText), keyKey: encode(keyText)}
		if cert != nil {
			data[previousKey] = encode(value(o, certKey))
		}
		n.Object["data"] = data
		if absent {
			_, err = a.Client.Resource(secrets).Namespace(a.Namespace).Create(ctx, n, metav1.CreateOptions{})
		} else {
			n.SetResourceVersion(o.GetResourceVersion())
			_, err = a.Client.Resource(secrets).Namespace(a.Namespace).Update(ctx, n, metav1.UpdateOptions{})
		}
		if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) {
			return err
		}
		// Whoever came first, what is there now counts.
	}
	return fmt.Errorf("others keep writing the Secret %s/%s", a.Namespace, a.Name)
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

// serve takes over an authority and has a certificate of it ready.
func (a *Authority) serve(cert *x509.Certificate, key *ecdsa.PrivateKey, previous []byte) error {
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
	bundle := append(bytes.Clone(text), previous...)
	a.mu.Lock()
	defer a.mu.Unlock()
	news := !bytes.Equal(a.bundle, bundle)
	a.bundle = bundle
	// A new authority has to be known to the API server before a certificate of it is shown; until the next refresh the
	// one before is still good.
	if a.serving != nil && (news || bytes.Equal(a.signed, text)) && time.Until(a.serving.Leaf.NotAfter) > a.life()/8 {
		return nil
	}
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := template("chancery webhook", a.life()/4)
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

func template(name string, life time.Duration) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		serial = big.NewInt(time.Now().UnixNano()) // crypto/rand never fails on the systems that we run on
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name, Organization: []string{"chancery"}},
		NotBefore: now.Add(-time.Minute), NotAfter: now.Add(life), KeyUsage: x509.KeyUsageDigitalSignature,
	}
}

func newAuthority(life time.Duration) (cert, key []byte, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	t := template("chancery webhook authority", life)
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

func parse(cert, key []byte) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, nil, err
	}
	k, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok || !pair.Leaf.IsCA {
		return nil, nil, errors.New("it is no authority with an ECDSA key")
	}
	return pair.Leaf, k, nil
}
