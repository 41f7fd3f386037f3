// Package kube is the source of snapshots that watches a Kubernetes API server. Each object is decoded as it arrives and
// kept in decoded form only; nothing that a watch does, be it that it breaks, expires or starts again, makes the snapshot
// smaller: objects go when the API server says that they are gone.
package kube

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/chancery-gateway/chancery/snapshot"
)

// Options say what is watched. Config is required.
type Options struct {
	// Config leads to the API server.
	Config *rest.Config
	// Namespace confines all kinds that have namespaces to one; "" for all namespaces. Namespaces and IngressClasses are
	// not read then.
	Namespace string
	// SecretNamespace confines Secrets alone.
	SecretNamespace string
	// LabelSelector and FieldSelector are added to every query, as Emissary's AMBASSADOR_LABEL_SELECTOR and
	// AMBASSADOR_FIELD_SELECTOR are; the labels of Namespaces and the fields of kinds without namespace do not count.
	LabelSelector, FieldSelector string
	// Knative watches Knative's Ingresses too.
	Knative bool
	// AllSecrets reads the content of every Secret, not only of those that objects of the cluster mention: somebody else may.
	AllSecrets bool
	// Patience is how long a snapshot waits for Secrets that are mentioned in it for the first time; default 3 s. The first
	// snapshot waits ten times as long: it must not close what an earlier run has served.
	Patience time.Duration
	// MinInterval is the least time between two snapshots when changes keep coming; default 100 ms. A few changes after
	// quiet do not wait for it.
	MinInterval time.Duration
	// Rescan is the time between two looks at which kinds there are, beside those that CustomResourceDefinitions cause;
	// default 30 s.
	Rescan time.Duration
	// Logger is told of what cannot be watched; default slog.Default.
	Logger *slog.Logger
}

// Source keeps a current snapshot of a cluster.
type Source struct {
	options   Options
	client    dynamic.Interface
	metadata  metadata.Interface
	discovery *discovery.DiscoveryClient
	log       *slog.Logger
	world     *world

	wake chan struct{} // there may be a new snapshot
	look chan struct{} // there may be other kinds
	gets chan struct{} // has room for the Secrets that are read at a time

	mu      sync.Mutex
	outage  time.Time // since when the API server does not answer; zero while it does
	also    also
	running sync.WaitGroup
}

// New returns a source that has not begun. The error says what is wrong with the configuration.
func New(o Options) (*Source, error) {
	config := rest.CopyConfig(o.Config)
	config.QPS = -1 // watches are few, and held up at the start they would hold up traffic
	s := &Source{options: o, log: o.Logger, world: newWorld(), wake: make(chan struct{}, 1), look: make(chan struct{}, 1), gets: make(chan struct{}, 16)}
	if s.options.MinInterval <= 0 {
		s.options.MinInterval = 100 * time.Millisecond
	}
	if s.options.Patience <= 0 {
		s.options.Patience = 3 * time.Second
	}
	if s.options.Rescan <= 0 {
		s.options.Rescan = 30 * time.Second
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	if s.client, err = dynamic.NewForConfigAndClient(config, client); err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	if s.metadata, err = metadata.NewForConfigAndClient(config, client); err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	if s.discovery, err = discovery.NewDiscoveryClientForConfigAndClient(config, client); err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	return s, nil
}

// Run delivers a first snapshot once every kind has been listed, and another one each time that the cluster says
// something else, until the context ends. The first few changes after quiet are delivered at once, since what belongs
// together comes one after another, later ones once per MinInterval; changes of endpoints alone, which need no compile, do
// not wait for it. While the API server cannot be reached, nothing is delivered. The error is nil when the context ended.
func (s *Source) Run(ctx context.Context, deliver func(*snapshot.Snapshot)) error {
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, logr.FromSlogHandler(quiet{s.log.Handler()})))
	defer s.running.Wait()
	defer cancel()
	known := make(chan struct{})
	s.running.Go(func() { s.discover(ctx, func() { close(known) }) })
	select {
	case <-ctx.Done():
		return nil
	case <-known:
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	var delivered time.Time
	pace := rate.NewLimiter(rate.Every(s.options.MinInterval), burst)
	for first := true; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		case <-timer.C:
		}
		wait, endpointsOnly := time.Until(delivered.Add(leastInterval)), s.world.endpointsOnly()
		if short := 1 - pace.Tokens(); short > 0 && !endpointsOnly {
			wait = max(wait, time.Duration(short*float64(s.options.MinInterval)))
		}
		if wait > 0 {
			timer.Reset(wait)
			continue
		}
		if first && !s.settled() {
			continue
		}
		patience := s.options.Patience
		if first {
			patience *= 10
		}
		if wait := s.world.awaits(patience); wait > 0 {
			timer.Reset(wait)
			continue
		}
		owed := s.owes()
		if current, changed := s.world.snapshot(); changed || first || owed {
			if !endpointsOnly {
				pace.Allow()
			}
			deliver(current)
			delivered, first = time.Now(), false
		}
	}
}

const (
	// burst is how many snapshots after quiet do not wait for MinInterval.
	burst = 5
	// leastInterval is the least time between any two snapshots.
	leastInterval = 10 * time.Millisecond
)

// settled reports whether every query has had its first answer.
func (s *Source) settled() bool {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	for q := range s.world.queries {
		if !q.settled() || q.trouble != nil && s.standInIsDue(q.what.GroupKind()) {
			return false
		}
	}
	return true
}

// standInIsDue reports whether another kind is read in place of one that cannot be, and its query has not begun yet. The
// world's lock is held.
func (s *Source) standInIsDue(k snapshot.GroupKind) bool {
	i := slices.IndexFunc(resources, func(r *Resource) bool { return r.inPlaceOf == k })
	if i < 0 {
		return false
	}
	for q := range s.world.queries {
		if q.what == resources[i] {
			return false
		}
	}
	return true
}

// Resolve does nothing: objects of a cluster stand in no file.
func (s *Source) Resolve([]snapshot.Diagnostic) {}

// Outage returns how long the API server has not answered, 0 while it does.
func (s *Source) Outage() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outage.IsZero() {
		return 0
	}
	return time.Since(s.outage)
}

// reachable notes that the API server answered, or with what error it did not.
func (s *Source) reachable(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil && s.outage.IsZero():
		s.outage = time.Now()
		s.log.Warn("the API server does not answer; what is known of the cluster stays in force", "error", err)
	case err == nil && !s.outage.IsZero():
		s.log.Info("the API server answers again", "after", time.Since(s.outage).Round(time.Millisecond))
		s.outage = time.Time{}
	}
}

// namespaceOf returns the namespace that queries of a kind are confined to, "" for none.
func (s *Source) namespaceOf(r *Resource) string {
	switch {
	case r.Cluster:
		return ""
	case s.options.Namespace == "" && r.GroupKind() == snapshot.KindSecret:
		return s.options.SecretNamespace
	}
	return s.options.Namespace
}

// poke asks for a look at whether there is a new snapshot.
func (s *Source) poke() { send(s.wake) }

// rediscover asks for a look at which kinds there are.
func (s *Source) rediscover() { send(s.look) }

func send(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// quiet passes on what the client library says only where we have no word of our own for it.
type quiet struct{ slog.Handler }

// Enabled implements slog.Handler: the library tells of each failed attempt, which reachable tells once.
func (q quiet) Enabled(ctx context.Context, _ slog.Level) bool {
	return q.Handler.Enabled(ctx, slog.LevelDebug)
}
