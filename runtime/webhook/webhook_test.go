package webhook_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/chancery-gateway/chancery/runtime/webhook"
	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

func TestReplicasShareAnAuthorityThatIsRenewed(t *testing.T) {
	c := kubetest.Shared(t)
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	const life = 8 * time.Hour
	var passed atomic.Int64 // by a clock of the test's own
	now := func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }
	newOne := func() *webhook.Authority {
		return &webhook.Authority{Client: client, Namespace: "default", Name: webhook.Secret, Hosts: []string{"a.example.com", "127.0.0.1"}, Life: life, Now: now,
			Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	}
	one, two := newOne(), newOne()
	// Both at once, as replicas of a new install.
	results := make(chan error, 2)
	for _, a := range []*webhook.Authority{one, two} {
		go func() { results <- a.Refresh(t.Context()) }()
	}
	for range 2 {
		if err := <-results; err != nil {
			t.Fatal(err)
		}
	}
	if string(one.Bundle()) != string(two.Bundle()) {
		t.Fatal("two replicas have two authorities")
	}
	first := string(one.Bundle())
	verify := func(server, believer *webhook.Authority) error {
		cert, err := server.Certificate(&tls.ClientHelloInfo{})
		if err != nil {
			return err
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(believer.Bundle())
		for _, host := range []string{"a.example.com", "127.0.0.1"} {
			if _, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: now()}); err != nil {
				return err
			}
		}
		return nil
	}
	// Renewal while clients connect: only one of the two refreshes often, so that the other is behind for a while.
	var wrong atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ctx.Err() == nil; n++ {
			for _, pair := range [][2]*webhook.Authority{{one, one}, {two, one}, {one, two}} {
				// Whoever is behind cannot believe what is newer; the configuration has the newest bundle.
				if err := verify(pair[0], pair[1]); err != nil && pair[1] == one {
					if wrong.Add(1) == 1 {
						t.Errorf("after %d rounds: %v", n, err)
					}
				}
			}
			time.Sleep(2 * time.Millisecond)
		}
	}()
	const steps = 80 // of a life, of which an eighth is the least that a certificate is shown for
	for step := range 2 * steps {
		passed.Add(int64(life / steps))
		if err := one.Refresh(t.Context()); err != nil {
			t.Error(err)
		}
		if step%3 == 0 {
			if err := two.Refresh(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	cancel()
	<-done
	if string(one.Bundle()) == first {
		t.Error("the authority was not renewed")
	}
}

func TestServerKeepsItsLimits(t *testing.T) {
	c := kubetest.Shared(t)
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	authority := &webhook.Authority{Client: client, Namespace: "default", Name: "limits", Hosts: []string{"127.0.0.1"}, Log: log}
	if err := authority.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	server := &webhook.Server{Authority: authority, Configuration: "none", Log: log, Judge: func(ctx context.Context, mutate bool, review []byte) ([]byte, error) {
		if string(review) == "bad" {
			return nil, errors.New("no review")
		}
		end, _ := ctx.Deadline()
		return fmt.Appendf(nil, "%t %s", mutate, time.Until(end)), nil
	}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, l) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority.Bundle())
	caller := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}}
	for _, x := range []struct {
		method, path, body string
		code               int
		want               string
		most               time.Duration // that the judge is given
	}{
		{"POST", webhook.Path + "?timeout=28s", "review", 200, "false ", 21 * time.Second},
		{"POST", webhook.MutationPath + "?timeout=24s", "review", 200, "true ", 18 * time.Second},
		{"POST", webhook.Path + "?timeout=1h", "review", 200, "false ", 3750 * time.Millisecond},
		{"POST", webhook.Path, "bad", 400, "no review", 0},
		{"POST", webhook.Path, strings.Repeat("x", 9<<20), 413, "cannot be read", 0},
		{"GET", webhook.Path, "", 405, "", 0},
		{"POST", "/elsewhere", "review", 404, "", 0},
	} {
		q, err := http.NewRequestWithContext(t.Context(), x.method, "https://"+l.Addr().String()+x.path, strings.NewReader(x.body))
		if err != nil {
			t.Fatal(err)
		}
		r, err := caller.Do(q)
		if err != nil {
			t.Fatalf("%s %s: %v", x.method, x.path, err)
		}
		text, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || r.StatusCode != x.code || !strings.Contains(string(text), x.want) {
			t.Errorf("%s %s with %d bytes gives %d %q, %v; not %d %q", x.method, x.path, len(x.body), r.StatusCode, text, err, x.code, x.want)
		}
		if x.most == 0 {
			continue
		}
		given, err := time.ParseDuration(strings.TrimPrefix(string(text), x.want))
		if err != nil || given > x.most || given < x.most-15*time.Second { // what was given when the judge was asked, on a slow machine too
			t.Errorf("%s gives the judge %s, %v; not %s", x.path, given, err, x.most)
		}
	}
}
