package demo

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/snapshot/porttest"
)

func TestWriteCertificate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	if err := WriteCertificate(dir, "ns", "cert", []string{"a.localhost", "b.localhost"}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "certificate.yaml")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	field := func(name string) []byte {
		m := regexp.MustCompile(regexp.QuoteMeta(name) + `: (\S+)`).FindSubmatch(data)
		if m == nil {
			t.Fatalf("no %s in %s", name, data)
		}
		pem, err := base64.StdEncoding.DecodeString(string(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		return pem
	}
	pair, err := tls.X509KeyPair(field("tls.crt"), field("tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.localhost", "b.localhost"} {
		if err := leaf.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
	if now := time.Now(); leaf.NotBefore.After(now) || leaf.NotAfter.Before(now.Add(24*time.Hour)) {
		t.Errorf("valid from %s to %s", leaf.NotBefore, leaf.NotAfter)
	}
}

func TestServe(t *testing.T) {
	port := porttest.Free(t, 1)[0]
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	if err := Serve(t.Context(), []Backend{{"taken", port}}, make(chan struct{})); err == nil || !strings.Contains(err.Error(), `demo backend "taken"`) {
		t.Errorf("error %v", err)
	}
	l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- Serve(ctx, []Backend{{"shop", port}}, ready) }()
	<-ready
	resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/a?b=c", port))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if want := fmt.Sprintf("shop got GET /a?b=c for 127.0.0.1:%d\n", port); err != nil || string(body) != want {
		t.Errorf("got %q, want %q", body, want)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
