package supply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chancery-gateway/chancery/policies"
	"github.com/chancery-gateway/chancery/snapshot"
)

// Watcher keeps the newest good revision of the rules of some paths, and those before it.
type Watcher struct {
	sources []*source
	log     *slog.Logger
	store   store
	current atomic.Pointer[policies.Supply]
	woken   chan struct{}

	mu     sync.Mutex
	newest *policies.Supply // what the paths hold
	record *record
}

// Options say what a watcher works with.
type Options struct {
	// Key is what rules must be signed with; nil takes unsigned ones too.
	Key *Key
	Log *slog.Logger
	// Dir keeps revisions, and the highest ones, between runs; "" keeps them in memory.
	Dir string
}

// Interval is the time between two looks at files; web addresses are asked every tenth time.
const Interval = 250 * time.Millisecond

// New reads the paths and returns a watcher of them. The error is about the paths themselves. A path that cannot be read, or
// holds what may not be taken, stays what it was in the last run, as far as that was kept.
func New(ctx context.Context, paths []string, o Options) (*Watcher, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	w := &Watcher{sources: newSources(paths, o.Key), log: o.Log, store: store{o.Dir, o.Log}, woken: make(chan struct{}, 1)}
	var err error
	if w.record, err = w.store.load(); err != nil {
		return nil, err
	}
	if n := len(w.record.Revisions); n > 0 {
		w.recall(w.record.Revisions[n-1], o.Key)
	}
	for _, s := range w.sources {
		s.highest = w.record.Highest[s.name()]
	}
	s, err := join(w.sources, func(s *source) error { s.stamp = stamp(s.path); return s.refresh(ctx) })
	if err != nil {
		return nil, err
	}
	chosen, instead := w.record.Chosen, w.record.Instead
	w.take(s)
	if chosen != "" && instead == s.Digest {
		if err := w.rollback(chosen); err != nil {
			w.log.Warn("the revision that was chosen is not in force", "error", err)
		}
	}
	return w, nil
}

// recall gives the sources what they held in the last run.
func (w *Watcher) recall(r *Revision, key *Key) {
	old, err := r.restore(key)
	if err != nil {
		w.log.Warn("the rules of the last run are not taken up", "error", err)
		return
	}
	for _, s := range w.sources {
		if at := slices.IndexFunc(old, func(o *source) bool { return o.name() == s.name() }); at >= 0 {
			s.tree, s.revision, s.etag, s.good = old[at].tree, old[at].revision, old[at].etag, true
		}
	}
}

// Current returns the revision in force. It never waits.
func (w *Watcher) Current() *policies.Supply { return w.current.Load() }

// take puts what the paths hold in force.
func (w *Watcher) take(s *policies.Supply) {
	w.newest = s
	w.current.Store(s)
	r := &Revision{Digest: s.Digest, Bundle: s.Revision, Taken: time.Now().UTC(), supply: s}
	for _, one := range w.sources {
		r.sources = append(r.sources, content{one.path, one.revision, one.etag, one.tree})
		if one.highest != "" {
			w.record.Highest[one.name()] = one.highest
		}
	}
	all := slices.DeleteFunc(w.record.Revisions, func(o *Revision) bool { return o.Digest == s.Digest })
	all = append(all, r)
	w.record.Revisions = slices.Clone(all[max(0, len(all)-kept):])
	w.record.Chosen, w.record.Instead = "", ""
	w.store.save(w.record)
}

// Run looks at the paths until ctx ends, and calls changed after each switch to another revision.
func (w *Watcher) Run(ctx context.Context, changed func()) {
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-w.woken:
			changed()
			continue
		case <-tick.C:
		}
		if w.look(ctx, n%10 == 0) {
			changed()
		}
	}
}

// look reads what has changed and reports whether another revision is in force.
func (w *Watcher) look(ctx context.Context, remote bool) bool {
	any := false
	for _, s := range w.sources {
		if strings.Contains(s.path, "://") {
			any = any || remote
			continue
		}
		any = any || stamp(s.path) != s.stamp
	}
	if !any {
		return false
	}
	next, err := join(w.sources, func(s *source) error {
		if strings.Contains(s.path, "://") {
			if !remote {
				return nil
			}
			return s.refresh(ctx)
		}
		now := stamp(s.path)
		if now == s.stamp {
			return nil
		}
		s.stamp = now
		return s.refresh(ctx)
	})
	if err != nil {
		w.log.Warn("policies are not renewed", "error", err)
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch have := w.newest; {
	case next.Digest != have.Digest:
		w.take(next)
		w.log.Info("policies renewed", "revision", next.Revision, "digest", next.Digest)
	case slices.Equal(next.Findings, have.Findings):
		return false
	default: // only what is said about the paths is different
		w.newest = next
		if w.record.Chosen != "" {
			w.current.Store(w.chosen(w.current.Load()))
		} else {
			w.current.Store(next)
		}
	}
	return true
}

// chosen returns the supply of the revision that an operator chose, with what there is to say about that and about the paths.
func (w *Watcher) chosen(s *policies.Supply) *policies.Supply {
	out := *s
	out.Findings = append(slices.Clone(w.newest.Findings), snapshot.Diagnostic{Severity: snapshot.Warning, Code: codeChosen,
		Message: fmt.Sprintf("rules of revision %s are in force by a rollback, not those of %s, which the paths hold", called(s), called(w.newest)),
		Help:    "`chancery policy rollback " + w.newest.Digest[:12] + "` ends it; so does a change of the rules"})
	return &out
}

func called(s *policies.Supply) string {
	if s.Revision != "" {
		return s.Revision + " (" + s.Digest[:12] + ")"
	}
	return s.Digest[:12]
}

// Revisions returns the revisions that are kept, the newest last.
func (w *Watcher) Revisions() []Revision {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []Revision
	for _, r := range w.record.Revisions {
		one := *r
		one.InForce = r.Digest == w.current.Load().Digest
		one.RolledBack = one.InForce && w.record.Chosen != ""
		out = append(out, one)
	}
	return out
}

// Rollback puts a kept revision back in force, until the paths hold something else than now. It is named by its digest, the
// begin of that, or its bundle's revision; "" is the one before the one in force.
func (w *Watcher) Rollback(which string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.rollback(which); err != nil {
		return err
	}
	w.store.save(w.record)
	select {
	case w.woken <- struct{}{}:
	default:
	}
	return nil
}

func (w *Watcher) rollback(which string) error {
	r, err := w.find(which)
	if err != nil {
		return err
	}
	if r.supply == nil {
		sources, err := r.restore(w.sources[0].key)
		if err != nil {
			return fmt.Errorf("revision %s cannot be taken: %w", r.Digest, err)
		}
		if r.supply, err = join(sources, func(*source) error { return nil }); err != nil {
			return err
		}
		if r.supply.Digest != r.Digest {
			return fmt.Errorf("what was kept of revision %s is something else", r.Digest)
		}
	}
	if r.Digest == w.newest.Digest {
		w.record.Chosen, w.record.Instead = "", ""
		w.current.Store(w.newest)
	} else {
		w.record.Chosen, w.record.Instead = r.Digest, w.newest.Digest
		w.current.Store(w.chosen(r.supply))
	}
	w.log.Warn("policies rolled back", "revision", r.Bundle, "digest", r.Digest)
	return nil
}

func (w *Watcher) find(which string) (*Revision, error) {
	all := w.record.Revisions
	if which == "" {
		at := slices.IndexFunc(all, func(r *Revision) bool { return r.Digest == w.current.Load().Digest })
		if at <= 0 {
			return nil, errors.New("no revision before the one in force is kept")
		}
		return all[at-1], nil
	}
	var found []*Revision
	for _, r := range all {
		if r.Bundle == which || strings.HasPrefix(r.Digest, which) {
			found = append(found, r)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("no kept revision is called %q; `chancery status` lists them", which)
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf("%d kept revisions are called %q; name more of the digest", len(found), which)
}

// stamp tells, without reading a file, whether one may have changed.
func stamp(root string) string {
	var b strings.Builder
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Stat(p)
		if err != nil {
			return err
		}
		fmt.Fprintln(&b, p, info.Size(), info.ModTime().UnixNano())
		return nil
	})
	if err != nil {
		fmt.Fprintln(&b, err)
	}
	return b.String()
}
