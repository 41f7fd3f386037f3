package modules

import (
	"context"
	"sync"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
)

// Source delivers snapshots.
type Source interface {
	Run(ctx context.Context, deliver func(*snapshot.Snapshot)) error
	Resolve([]snapshot.Diagnostic)
}

// firstWait is how long the first snapshot waits for its modules, so that a start does not show what they change without the change.
const firstWait = 30 * time.Second

// Extend returns a source that makes the Translators of each snapshot the wanted state, and delivers the last snapshot again when
// other modules are live.
func (m *Modules) Extend(s Source) Source { return &extended{Source: s, modules: m} }

type extended struct {
	Source
	modules *Modules

	mu   sync.Mutex
	last *snapshot.Snapshot
}

// Run runs the source until ctx ends.
func (e *extended) Run(ctx context.Context, deliver func(*snapshot.Snapshot)) error {
	hand := func(s *snapshot.Snapshot) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if s != nil {
			isFirst := e.last == nil
			e.last = s
			e.modules.Take(s)
			if isFirst {
				bounded, cancel := context.WithTimeout(ctx, firstWait)
				if err := e.modules.Settle(bounded); err != nil && ctx.Err() == nil {
					e.modules.options.Log.Warn("modules take long to load; the first configuration is made without those that are not there yet")
				}
				cancel()
			}
		}
		if e.last != nil {
			deliver(e.last)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var waiting sync.WaitGroup
	waiting.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-e.modules.Changed():
				hand(nil)
			}
		}
	})
	err := e.Source.Run(ctx, hand)
	cancel()
	waiting.Wait()
	return err
}
