package command

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/chancery-gateway/chancery/policies"
	policy "github.com/chancery-gateway/chancery/policies/api"
	"github.com/chancery-gateway/chancery/policies/supply"
	"github.com/chancery-gateway/chancery/runtime/gateway"
	"github.com/chancery-gateway/chancery/snapshot"
)

// list splits a comma-separated setting.
func list(text string) (out []string) {
	for _, part := range strings.Split(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// newAdmitter returns the stage that asks the policies.
func (a *app) newAdmitter() *policies.Admitter {
	o := policies.Options{Point: a.point, Supply: a.rules, AmbassadorID: a.settings.AmbassadorID, Namespaces: append(list(a.settings.PolicyNamespaces), a.settings.Namespace)}
	if a.point == policy.PointWebhook {
		return policies.New(o) // what is only asked about is not in force
	}
	if a.decisions != nil {
		o.Decided = a.decisions.Record
	}
	admitter := policies.New(o)
	a.admitter.Store(admitter)
	return admitter
}

// policyKey reads the key that rules must be signed with; nil when none is set.
func (a *app) policyKey() (*supply.Key, error) {
	if a.settings.PolicyKey == "" {
		return nil, nil
	}
	text, err := os.ReadFile(a.settings.PolicyKey)
	if err != nil {
		return nil, usage("--policy-key: %w", err)
	}
	return &supply.Key{ID: a.settings.PolicyKeyID, PEM: string(text)}, nil
}

// loadPolicies reads --policies once.
func (a *app) loadPolicies(ctx context.Context) error {
	paths := list(a.settings.Policies)
	if len(paths) == 0 || a.rules != nil {
		return nil
	}
	s, err := a.readPolicies(ctx, paths)
	if err != nil {
		return err
	}
	a.rules = func() *policies.Supply { return s }
	return nil
}

func (a *app) readPolicies(ctx context.Context, paths []string) (*policies.Supply, error) {
	key, err := a.policyKey()
	if err != nil {
		return nil, err
	}
	s, err := supply.Read(ctx, paths, key)
	if err != nil {
		return nil, usage("--policies: %w", err)
	}
	return s, nil
}

// watchPolicies reads --policies and goes on watching them; nil without any. What is kept of them lies in dir.
func (a *app) watchPolicies(ctx context.Context, dir string, log *slog.Logger) (*supply.Watcher, error) {
	paths := list(a.settings.Policies)
	if len(paths) == 0 {
		return nil, nil
	}
	key, err := a.policyKey()
	if err != nil {
		return nil, err
	}
	w, err := supply.New(ctx, paths, supply.Options{Key: key, Log: log, Dir: filepath.Join(dir, "policies")})
	if err != nil {
		return nil, usage("--policies: %w", err)
	}
	a.rules, a.watcher = w.Current, w
	return w, nil
}

// governed adds the renewal of policies to a source: the last snapshot is delivered again when other policies are in force.
func governed(s gateway.Source, w *supply.Watcher) gateway.Source {
	if w == nil {
		return s
	}
	return &governedSource{Source: s, watcher: w}
}

type governedSource struct {
	gateway.Source
	watcher *supply.Watcher

	mu   sync.Mutex
	last *snapshot.Snapshot
}

// Run runs the source and the watcher until ctx ends.
func (g *governedSource) Run(ctx context.Context, deliver func(*snapshot.Snapshot)) error {
	hand := func(s *snapshot.Snapshot) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if s != nil {
			g.last = s
		}
		if g.last != nil {
			deliver(g.last)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watching sync.WaitGroup
	watching.Go(func() { g.watcher.Run(ctx, func() { hand(nil) }) })
	err := g.Source.Run(ctx, hand)
	cancel()
	watching.Wait()
	return err
}
