package supply

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chancery-gateway/chancery/policies"
)

// Watcher keeps the newest good revision of the rules of some paths, and those before it.
type Watcher struct {
	sources []*source
	log     *slog.Logger
	current atomic.Pointer[policies.Supply]

	mu      sync.Mutex
	history []*policies.Supply // the newest last
}

// kept is how many revisions are kept for a rollback.
const kept = 10

// Interval is the time between two looks at files; web addresses are asked every tenth time.
const Interval = 250 * time.Millisecond

// New reads the paths and returns a watcher of them. The error is about the paths themselves.
func New(ctx context.Context, paths []string, key *Key, log *slog.Logger) (*Watcher, error) {
	w := &Watcher{sources: newSources(paths, key), log: log}
	s, err := join(w.sources, func(s *source) error { s.stamp = stamp(s.path); return s.refresh(ctx) })
	if err != nil {
		return nil, err
	}
	w.take(s)
	return w, nil
}

// Current returns the revision in force. It never waits.
func (w *Watcher) Current() *policies.Supply { return w.current.Load() }

func (w *Watcher) take(s *policies.Supply) {
	w.current.Store(s)
	w.history = append(w.history, s)
	if len(w.history) > kept {
		w.history = append([]*policies.Supply{}, w.history[len(w.history)-kept:]...)
	}
}

// Run looks at the paths until ctx ends, and calls changed after each switch to another revision.
func (w *Watcher) Run(ctx context.Context, changed func()) {
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
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
	have := w.current.Load()
	if next.Digest == have.Digest && len(next.Findings) == len(have.Findings) {
		return false
	}
	w.take(next)
	w.log.Info("policies renewed", "revision", next.Revision, "digest", next.Digest)
	return true
}

// Revisions returns the digests of the revisions that are kept, the newest last.
func (w *Watcher) Revisions() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, s := range w.history {
		out = append(out, s.Digest)
	}
	return out
}

// Rollback puts a kept revision back in force, until the paths change again.
func (w *Watcher) Rollback(digest string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.history {
		if s.Digest == digest {
			w.current.Store(s)
			return nil
		}
	}
	return fmt.Errorf("there is no kept revision %s", digest)
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
