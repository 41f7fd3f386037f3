package modules

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/wasm/abi"
)

// Source delivers snapshots.
type Source interface {
	Run(ctx context.Context, deliver func(*snapshot.Snapshot)) error
	Resolve([]snapshot.Diagnostic)
}

// Watcher is a Source that watches what it is asked to beside what it always does, as one of a cluster.
type Watcher interface {
	// Also makes the source watch these kinds too, in place of those of the call before. Once they have been listed, a
	// snapshot is delivered even if it says the same as the last one.
	Also([]snapshot.GroupKind)
	// Listed reports whether the kinds have been listed, or cannot be.
	Listed() bool
}

// firstWait is how long the first snapshot waits for its modules, so that a start does not show what they change without the
// change, and again for the objects that they lower.
const firstWait = 30 * time.Second

// Extend returns a source that makes the Translators of each snapshot the wanted state, and delivers the last snapshot again when
// other modules are live. A Watcher is told which kinds the modules lower.
func (m *Modules) Extend(s Source) Source {
	watcher, _ := s.(Watcher)
	return &extended{Source: s, modules: m, watcher: watcher}
}

type extended struct {
	Source
	modules *Modules
	watcher Watcher // nil for a source that has every kind anyway

	mu   sync.Mutex
	last *snapshot.Snapshot
	also []snapshot.GroupKind
	// holding is set while the first snapshot waits for the objects that modules lower.
	holding bool
}

// Run runs the source until ctx ends.
func (e *extended) Run(ctx context.Context, deliver func(*snapshot.Snapshot)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var late <-chan time.Time
	waiting := make(chan struct{}, 1)
	hand := func(s *snapshot.Snapshot) {
		e.mu.Lock()
		defer e.mu.Unlock()
		isFirst := e.last == nil && s != nil
		if s != nil {
			e.last = s
			e.modules.Take(s)
		}
		if isFirst {
			bounded, cancel := context.WithTimeout(ctx, firstWait)
			if err := e.modules.Settle(bounded); err != nil && ctx.Err() == nil {
				e.modules.options.Log.Warn("modules take long to load; the first configuration is made without those that are not there yet")
			}
			cancel()
		}
		if asked := e.ask(); isFirst && asked {
			e.holding = true
			waiting <- struct{}{}
			return
		}
		if e.holding && !e.watcher.Listed() {
			return
		}
		if e.holding = false; e.last != nil {
			deliver(e.last)
		}
	}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-waiting:
				late = time.After(firstWait)
			case <-late:
				e.mu.Lock()
				if e.holding {
					e.modules.options.Log.Warn("objects that modules lower take long to be read; the first configuration is made without them")
				}
				e.holding = false
				e.mu.Unlock()
				hand(nil)
			case <-e.modules.Changed():
				hand(nil)
			}
		}
	})
	err := e.Source.Run(ctx, hand)
	cancel()
	group.Wait()
	return err
}

// ask tells the watcher which kinds the live modules lower. It reports whether there are any that it was not told of.
func (e *extended) ask() (more bool) {
	if e.watcher == nil || e.last == nil {
		return false
	}
	now := e.modules.lowers()
	if slices.Equal(now, e.also) {
		return false
	}
	more = slices.ContainsFunc(now, func(k snapshot.GroupKind) bool { return !slices.Contains(e.also, k) })
	e.also = now
	e.watcher.Also(now)
	return more
}

// lowers returns the kinds of objects that the live modules lower, or read beside.
func (m *Modules) lowers() []snapshot.GroupKind {
	set := m.host.Acquire()
	defer set.Release()
	return newReads(set, abi.Lower).objects
}
