package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// The paths that reviews are posted to.
const (
	// Path is asked whether an object may be as it is.
	Path = "/webhooks/admission"
	// MutationPath is asked what policies change of it.
	MutationPath = "/webhooks/mutation"
)

// largest is the most that a review may be: etcd takes objects of 1.5 MB, and a review holds two.
const largest = 8 << 20

// most is how many reviews are read and judged at a time; more wait.
const most = 64

// patience is how long a review may take when the API server does not say how long it waits.
const patience = 5 * time.Second

// Server answers admission reviews.
type Server struct {
	Authority *Authority
	// Configuration names the ValidatingWebhookConfiguration and the MutatingWebhookConfiguration whose bundles are kept
	// up to date, where they exist.
	Configuration string
	// Judge answers one AdmissionReview, JSON, with another, before ctx ends; mutate asks for what policies change. It is called
	// by many at a time.
	Judge func(ctx context.Context, mutate bool, review []byte) ([]byte, error)
	// Every is the time between two looks at the Secret and the configurations; default 10 s.
	Every time.Duration
	Log   *slog.Logger

	slots chan struct{}
	// published is the bundle that the configurations carry, as far as the last look knows.
	published []byte
}

// Serve answers on the listener until ctx ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	every := s.Every
	if every <= 0 {
		every = 10 * time.Second
	}
	s.slots = make(chan struct{}, most)
	s.Authority.Known = func(bundle []byte) bool { return bytes.Equal(s.published, bundle) }
	handler := http.NewServeMux()
	handler.HandleFunc("POST "+Path, func(w http.ResponseWriter, r *http.Request) { s.review(w, r, false) })
	handler.HandleFunc("POST "+MutationPath, func(w http.ResponseWriter, r *http.Request) { s.review(w, r, true) })
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.Authority.Certificate},
		ErrorLog:  slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.ServeTLS(l, "", "") }()
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
			defer cancel()
			return server.Shutdown(grace)
		case err := <-failed:
			return fmt.Errorf("admission webhook: %w", err)
		case <-next.C:
		}
		next.Reset(every)
		if err := s.refresh(ctx); err != nil && ctx.Err() == nil {
			s.Log.Warn("the admission webhook's certificate cannot be brought up to date; it is tried again", "error", err)
			next.Reset(min(every, 2*time.Second))
		}
	}
}

func (s *Server) refresh(ctx context.Context) error {
	if err := s.Authority.Refresh(ctx); err != nil {
		return err
	}
	bundle := s.Authority.Bundle()
	var all []error
	for _, resource := range []string{"validatingwebhookconfigurations", "mutatingwebhookconfigurations"} {
		all = append(all, s.inject(ctx, schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: resource}))
	}
	err := errors.Join(all...)
	if err == nil {
		s.published = bundle
	}
	return err
}

// inject writes the bundle into a configuration that has another.
func (s *Server) inject(ctx context.Context, r schema.GroupVersionResource) error {
	o, err := s.Authority.Client.Resource(r).Get(ctx, s.Configuration, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	bundle := base64.StdEncoding.EncodeToString(s.Authority.Bundle())
	hooks, _ := o.Object["webhooks"].([]any)
	var patch []map[string]any
	for i, hook := range hooks {
		h, _ := hook.(map[string]any)
		client, _ := h["clientConfig"].(map[string]any)
		if client["caBundle"] != bundle {
			patch = append(patch, map[string]any{"op": "add", "path": fmt.Sprintf("/webhooks/%d/clientConfig/caBundle", i), "value": bundle})
		}
	}
	if len(patch) == 0 {
		return nil
	}
	patch = append([]map[string]any{{"op": "test", "path": "/metadata/resourceVersion", "value": o.GetResourceVersion()}}, patch...)
	text, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = s.Authority.Client.Resource(r).Patch(ctx, s.Configuration, types.JSONPatchType, text, metav1.PatchOptions{FieldManager: "chancery"})
	return err
}

func (s *Server) review(w http.ResponseWriter, r *http.Request, mutate bool) {
	ctx, cancel := context.WithTimeout(r.Context(), limit(r))
	defer cancel()
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		http.Error(w, "too many reviews are under way", http.StatusServiceUnavailable)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, largest))
	if err != nil {
		http.Error(w, "the review cannot be read: "+err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	answer, err := s.Judge(ctx, mutate, body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.Copy(w, bytes.NewReader(answer)) // a client that left needs no answer
}

// limit returns how long a review may take: three quarters of what the API server says that it waits.
func limit(r *http.Request) time.Duration {
	waits, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	if err != nil || waits <= 0 || waits > 30*time.Second {
		waits = patience
	}
	return waits * 3 / 4
}
