package apiext

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/chancery-gateway/chancery/runtime/supervisor"
	"github.com/chancery-gateway/chancery/runtime/webhook"
)

// Names that Emissary's installation has.
const (
	// Secret holds the authority.
	Secret = "emissary-ingress-webhook-ca"
	// Service is the Service, the Deployment and the ServiceAccount; Namespace is theirs.
	Service   = "emissary-apiext"
	Namespace = "emissary-system"
)

// Server answers conversion reviews, and probes beside. Several replicas need no leader: whoever comes first makes the
// authority, and all of them write the same into the definitions.
type Server struct {
	// Authority makes the certificates; its Known is set by the server.
	Authority   *webhook.Authority
	Definitions *Definitions
	// Every is the time between two looks at the Secret; default 10 s. The definitions are watched.
	Every time.Duration
	// Drain is how long reviews are still answered when ctx has ended, while others learn that this replica goes; default 5 s.
	Drain time.Duration
	Log   *slog.Logger

	mu        sync.Mutex
	published []byte    // what all definitions carry,
	since     time.Time // and since when
	trouble   error
	ending    bool
}

// New returns a server for the Service in the namespace.
func New(c *rest.Config, service, namespace string, log *slog.Logger) (*Server, error) {
	client, err := dynamic.NewForConfig(c)
	if err != nil {
		return nil, err
	}
	meta, err := metadata.NewForConfig(c)
	if err != nil {
		return nil, err
	}
	host := service + "." + namespace + ".svc"
	s := &Server{
		Authority: &webhook.Authority{
			Client: client, Namespace: namespace, Name: Secret, Log: log,
			Hosts: []string{host, host + ".cluster.local", "localhost", "127.0.0.1"},
		},
		Definitions: &Definitions{Client: client, Metadata: meta, Service: service, Namespace: namespace, Log: log},
		Log:         log, trouble: errors.New("nothing has been looked at yet"),
	}
	s.Authority.Known = s.known
	s.Definitions.Bundle = func(ctx context.Context) ([]byte, error) {
		err := s.Authority.Refresh(ctx)
		return s.Authority.Bundle(), err
	}
	return s, nil
}

// known reports whether the definitions carry the bundle, long enough for API servers to have noticed.
func (s *Server) known(bundle []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Equal(s.published, bundle) && time.Since(s.since) >= s.every()/2
}

func (s *Server) every() time.Duration {
	if s.Every > 0 {
		return s.Every
	}
	return 10 * time.Second
}

// Ready returns nil once there is a certificate and every definition carries the authority's, else what is amiss.
func (s *Server) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending {
		return errors.New("this replica is about to end")
	}
	return s.trouble
}

func (s *Server) drain() time.Duration {
	if s.Drain > 0 {
		return s.Drain
	}
	return 5 * time.Second
}

func (s *Server) isEnding() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ending
}

// Serve answers reviews on one listener, over TLS, and probes on the other, if there is one, until ctx ends:
// at once when somebody is in a hurry (supervisor.ErrHurry), else after Drain.
func (s *Server) Serve(ctx context.Context, reviews, probes net.Listener) error {
	faults := slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug)
	asked := http.NewServeMux()
	conversion := &Conversion{Log: s.Log}
	asked.HandleFunc(Path, func(w http.ResponseWriter, r *http.Request) {
		if s.isEnding() {
			// Whoever asks next does so by a new connection. To close idle ones would lose what is sent on them meanwhile.
			w.Header().Set("Connection", "close")
		}
		conversion.ServeHTTP(w, r)
	})
	answering := &http.Server{
		Handler: asked, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: s.Authority.Certificate}, ErrorLog: faults,
	}
	probing := &http.Server{Handler: s.probes(), ReadHeaderTimeout: 5 * time.Second, ErrorLog: faults}
	failed := make(chan error, 2)
	go func() { failed <- answering.ServeTLS(reviews, "", "") }()
	if probes != nil {
		go func() { failed <- probing.Serve(probes) }()
	}
	looking, stop := context.WithCancel(context.WithoutCancel(ctx))
	var looks sync.WaitGroup
	looks.Go(func() { s.look(looking) })
	defer looks.Wait()
	defer stop()
	var err error
	select {
	case err = <-failed:
		err = fmt.Errorf("conversion webhook: %w", err)
	case <-ctx.Done():
		s.mu.Lock()
		s.ending = true
		s.mu.Unlock()
		if !errors.Is(context.Cause(ctx), supervisor.ErrHurry) {
			time.Sleep(s.drain())
		}
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	for _, server := range []*http.Server{answering, probing} {
		_ = server.Shutdown(grace) // whoever still asks has a second replica, or asks again
	}
	return err
}

// probes serves /probes/live and /probes/ready, as Emissary's apiext does.
func (s *Server) probes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/probes/live", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "Living!") })
	mux.HandleFunc("/probes/ready", func(w http.ResponseWriter, _ *http.Request) {
		if err := s.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, "Ready!")
	})
	return mux
}

// look keeps the certificate and the definitions up to date until ctx ends.
func (s *Server) look(ctx context.Context) {
	every := s.every()
	changed := make(chan struct{}, 1)
	var watching sync.WaitGroup
	watching.Go(func() {
		s.Definitions.Watch(ctx, func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		})
	})
	defer watching.Wait()
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		refresh := false
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-next.C:
			refresh = true
		}
		err := s.update(ctx, refresh)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.Log.Warn("the conversion webhook cannot be brought up to date; it is tried again", "error", err)
			next.Reset(min(every, time.Second))
		case refresh:
			next.Reset(every)
		}
	}
}

// update looks at the Secret, where refresh is set, and at the definitions.
func (s *Server) update(ctx context.Context, refresh bool) error {
	if refresh {
		if err := s.Authority.Refresh(ctx); err != nil {
			return s.outcome(err)
		}
	}
	bundle := s.Authority.Bundle()
	if bundle == nil {
		return nil // a definition changed before the first look at the Secret
	}
	err := s.Definitions.Publish(ctx, bundle)
	for range 5 {
		if !errors.Is(err, errRenewed) {
			break
		}
		bundle = s.Authority.Bundle()
		err = s.Definitions.Publish(ctx, bundle)
	}
	if err == nil {
		s.mu.Lock()
		if !bytes.Equal(s.published, bundle) {
			s.published, s.since = bundle, time.Now()
		}
		s.mu.Unlock()
	}
	return s.outcome(err)
}

// outcome notes how an update ended. A server that has a certificate needs no API server, so that one that was ready stays
// so while the API server is away.
func (s *Server) outcome(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil || s.published == nil {
		s.trouble = err
	}
	return err
}
