package webhook_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/chancery-gateway/chancery/runtime/webhook"
	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
)

// refuser lets every request to the API server through but patches, while it is closed.
type refuser struct {
	http.RoundTripper
	closed  *atomic.Bool
	refused *atomic.Int64
}

func (r refuser) RoundTrip(q *http.Request) (*http.Response, error) {
	if q.Method == http.MethodPatch && r.closed.Load() {
		r.refused.Add(1)
		return nil, errors.New("patches are refused for now")
	}
	return r.RoundTripper.RoundTrip(q)
}

// While no configuration can be written, no certificate is shown that its readers could not verify.
func TestNewAuthorityWaitsForTheConfigurations(t *testing.T) {
	config := kubetest.Shared(t).Config()
	var closed atomic.Bool
	var refused atomic.Int64
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return refuser{rt, &closed, &refused} })
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	configurations := client.Resource(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"})
	_, err = configurations.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": map[string]any{"name": "waits"},
		"webhooks": []any{map[string]any{"name": "waits.example.com", "clientConfig": map[string]any{"url": "https://127.0.0.1:1/"}, "sideEffects": "None",
			"admissionReviewVersions": []any{"v1"}, "failurePolicy": "Ignore", "matchPolicy": "Exact"}},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = configurations.Delete(t.Context(), "waits", metav1.DeleteOptions{}) })
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	authority := &webhook.Authority{Client: client, Namespace: "default", Name: "waits", Hosts: []string{"127.0.0.1"}, Log: log}
	server := &webhook.Server{Authority: authority, Configuration: "waits", Log: log, Every: 20 * time.Millisecond}
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
	shown := func() []byte {
		cert, err := authority.Certificate(&tls.ClientHelloInfo{})
		if err != nil {
			return nil
		}
		return cert.Certificate[1]
	}
	until := func(what string, holds func() bool) {
		t.Helper()
		for end := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	until("no certificate is shown", func() bool { return shown() != nil })
	first, bundle := shown(), authority.Bundle()

	closed.Store(true)
	secrets := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace("default")
	if err := secrets.Delete(t.Context(), "waits", metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	until("the new authority is not offered", func() bool { return !bytes.Equal(authority.Bundle(), bundle) && refused.Load() > 2 })
	if !bytes.Equal(shown(), first) {
		t.Fatal("the certificate of an authority is shown that no configuration names")
	}
	closed.Store(false)
	until("the new authority's certificate is not shown", func() bool { return !bytes.Equal(shown(), first) })
}
