package translators_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/snapshot/manifest"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/emissary"
	"github.com/chancery-gateway/chancery/translators/gatewayapi"
	"github.com/chancery-gateway/chancery/translators/ingress"
)

// pair is a self-signed certificate with its key, base64 of PEM as a Secret holds it.
type pair struct{ cert, key string }

var pairs = sync.OnceValue(func() [2]pair {
	var out [2]pair
	for i := range out {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			panic(err)
		}
		t := &x509.Certificate{SerialNumber: big.NewInt(int64(i + 1)), Subject: pkix.Name{CommonName: "*.example.com"}, DNSNames: [][]string{{"*.example.com", "example.com"}, {"*.example.net", "example.net"}}[i],
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(240 * time.Hour), IsCA: true, BasicConstraintsValid: true}
		der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
		if err != nil {
			panic(err)
		}
		private, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			panic(err)
		}
		b64 := func(kind string, b []byte) string {
			return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
		}
		out[i] = pair{b64("CERTIFICATE", der), b64("PRIVATE KEY", private)}
	}
	return out
})

// withKeys fills in the certificates that an input names: $CERT with $KEY, and $CERT2 with $KEY2; $PEM is the first as plain text, and $TRUST that
// within quotes.
func withKeys(text string) string {
	p := pairs()
	plain, err := base64.StdEncoding.DecodeString(p[0].cert)
	if err != nil {
		panic(err)
	}
	quoted := strconv.Quote(string(plain))
	return strings.NewReplacer("$PEM", quoted, `"$TRUST"`, quoted, "$CERT2", p[1].cert, "$KEY2", p[1].key, "$CERT", p[0].cert, "$KEY", p[0].key).Replace(text)
}

// parse decodes manifests, those in annotations included.
func parse(t testing.TB, file, text string) (objects []*snapshot.Object, findings []snapshot.Diagnostic) {
	t.Helper()
	for _, d := range manifest.Documents(file, []byte(text)) {
		if d.Err != nil {
			t.Fatalf("%s: %v", file, d.Err)
		}
		os, ds := api.DecodeAll(d.JSON, snapshot.Source{Position: d.Position, Text: d.Text}, nil)
		findings = append(findings, ds...)
		for _, o := range os {
			objects = append(objects, o)
			for _, a := range manifest.Annotations(o) {
				if a.Err != nil {
					t.Fatalf("%s: %v", file, a.Err)
				}
				inner, ds := api.DecodeAll(a.JSON, snapshot.Source{Position: a.Position, Text: a.Text}, o)
				objects, findings = append(objects, inner...), append(findings, ds...)
			}
		}
	}
	return objects, findings
}

func load(t testing.TB, file, text string) *snapshot.Snapshot {
	t.Helper()
	objects, findings := parse(t, file, withKeys(text))
	return snapshot.Empty().Derive(objects, nil, findings)
}

// frontEnds are those of an installation with the defaults.
func frontEnds() []translators.FrontEnd {
	f := emissary.New(emissary.Options{})
	return []translators.FrontEnd{f, ingress.New(f), gatewayapi.New(f, gatewayapi.Options{})}
}

func newCompiler() *translators.Compiler {
	return translators.New(translators.Options{
		FrontEnds: frontEnds(),
		Locate:    func(o *snapshot.Object, d *snapshot.Diagnostic) { manifest.Resolve(o.Source, d) },
	})
}
