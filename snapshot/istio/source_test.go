package istio_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/istio"
)

// issue returns a certificate with its key.
func issue(t testing.TB, serial int64) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}

type bed struct {
	t   testing.TB
	dir string
	mu  sync.Mutex
	all []*snapshot.Snapshot
}

func start(t testing.TB, dir string, gone time.Duration) *bed {
	t.Helper()
	b := &bed{t: t, dir: dir}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	s := istio.New(istio.Options{Dir: dir, Namespace: "gw", Gone: gone})
	go func() {
		ended <- s.Run(ctx, func(s *snapshot.Snapshot) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.all = append(b.all, s)
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *bed) write(name string, text []byte) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, name), text, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// place writes a file aside and puts it in the place of the old one.
func (b *bed) place(name string, text []byte) {
	b.t.Helper()
	b.write(name+".new", text)
	if err := os.Rename(filepath.Join(b.dir, name+".new"), filepath.Join(b.dir, name)); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) snapshots() []*snapshot.Snapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.all)
}

func secret(s *snapshot.Snapshot) *snapshot.Secret {
	if o := s.Get(snapshot.KindSecret, "gw", istio.Name); o != nil {
		return o.Spec.(*snapshot.Secret)
	}
	return nil
}

func (b *bed) until(what string, ok func(*snapshot.Snapshot) bool) {
	b.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(2 * time.Millisecond) {
		if all := b.snapshots(); len(all) > 0 && ok(all[len(all)-1]) {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("never came about: %s", what)
		}
	}
}

func (b *bed) holds(cert []byte) {
	b.t.Helper()
	b.until("the certificate is there", func(s *snapshot.Snapshot) bool {
		x := secret(s)
		return x != nil && string(x.Data["tls.crt"]) == string(cert)
	})
}

func finding(part string) func(*snapshot.Snapshot) bool {
	return func(s *snapshot.Snapshot) bool {
		return len(s.Findings()) == 1 && strings.Contains(s.Findings()[0].Severity.String()+" "+s.Findings()[0].Code.ID+" "+s.Findings()[0].Message, part)
	}
}

// However the files are written, no snapshot has a certificate without its own key.
func TestNoHalfPairIsServed(t *testing.T) {
	b := start(t, t.TempDir(), 10*time.Minute) // whatever the machine does meanwhile
	b.until("it says that there is none", finding("warning CH-ISTIO-001 cert-chain.pem: no such file"))
	var last []byte
	for i := range 12 {
		cert, key := issue(t, int64(i+1))
		files := []struct {
			name string
			text []byte
		}{{"cert-chain.pem", cert}, {"key.pem", key}}
		if i%2 == 1 {
			slices.Reverse(files)
		}
		for _, f := range files {
			switch i % 3 {
			case 0:
				b.write(f.name, f.text)
			case 1: // in pieces
				b.write(f.name, f.text[:len(f.text)/2])
				time.Sleep(80 * time.Millisecond)
				b.write(f.name, f.text)
			case 2: // by another file in its place
				b.place(f.name, f.text)
			}
			time.Sleep(80 * time.Millisecond)
		}
		b.holds(cert)
		last = cert
	}
	b.write("root-cert.pem", last)
	b.until("the root is there", func(s *snapshot.Snapshot) bool { return string(secret(s).Data["root-cert.pem"]) == string(last) })
	served := 0
	for i, s := range b.snapshots() {
		x := secret(s)
		if x == nil {
			if i > 0 && secret(b.snapshots()[i-1]) != nil {
				t.Errorf("snapshot %d has lost the Secret", i)
			}
			continue
		}
		served++
		if _, err := tls.X509KeyPair(x.Data["tls.crt"], x.Data["tls.key"]); err != nil {
			t.Errorf("snapshot %d: %v", i, err)
		}
	}
	if served != 13 {
		t.Errorf("%d snapshots for 12 certificates and a root", served)
	}
}

// Kubernetes writes volumes through a link that leads to another folder each time.
func TestVolumesAreFollowed(t *testing.T) {
	dir := t.TempDir()
	place := func(name string, serial int64) []byte {
		cert, key := issue(t, serial)
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string][]byte{"cert-chain.pem": cert, "key.pem": key} {
			if err := os.WriteFile(filepath.Join(dir, name, file), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		next := filepath.Join(dir, "..data_tmp")
		if err := os.Symlink(name, next); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
		return cert
	}
	first := place("..1", 1)
	for _, file := range []string{"cert-chain.pem", "key.pem"} {
		if err := os.Symlink(filepath.Join("..data", file), filepath.Join(dir, file)); err != nil {
			t.Fatal(err)
		}
	}
	b := start(t, dir, 0)
	b.holds(first)
	b.holds(place("..2", 2))
}

func TestWhatIsBrokenOrGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	b := start(t, dir, 300*time.Millisecond)
	b.until("the folder is missed", finding("warning CH-ISTIO-002 folder "+dir))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	cert, key := issue(t, 1)
	_, other := issue(t, 2)
	b.place("cert-chain.pem", cert)
	b.place("key.pem", key)
	b.holds(cert)
	b.until("nothing is wrong", func(s *snapshot.Snapshot) bool { return len(s.Findings()) == 0 })
	b.place("key.pem", other)
	b.until("the wrong key is found", finding("error CH-ISTIO-001 cert-chain.pem and key.pem are no pair"))
	b.holds(cert)
	if text := b.snapshots()[len(b.snapshots())-1].Findings()[0].Message; !strings.HasSuffix(text, "the last good pair stays in force") || strings.Contains(text, "BEGIN") {
		t.Error(text)
	}
	b.place("key.pem", key)
	b.until("nothing is wrong", func(s *snapshot.Snapshot) bool { return len(s.Findings()) == 0 && secret(s) != nil })
	if err := os.Remove(filepath.Join(dir, "key.pem")); err != nil {
		t.Fatal(err)
	}
	b.until("the Secret is gone", func(s *snapshot.Snapshot) bool {
		return secret(s) == nil && finding("warning CH-ISTIO-001 key.pem: no such file")(s)
	})
}
