package webhook_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
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
	const life = 8 * time.Second
	newOne := func() *webhook.Authority {
		return &webhook.Authority{Client: client, Namespace: "default", Name: webhook.Secret, Hosts: []string{"a.example.com", "127.0.0.1"}, Life: life,
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
			if _, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
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
			time.Sleep(10 * time.Millisecond)
		}
	}()
	for begun := time.Now(); time.Since(begun) < 2*life; time.Sleep(100 * time.Millisecond) {
		if err := one.Refresh(t.Context()); err != nil {
			t.Error(err)
		}
		if time.Since(begun).Milliseconds()/100%3 == 0 {
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
