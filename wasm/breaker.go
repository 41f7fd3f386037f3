package wasm

import (
	"sync"
	"time"
)

// The breaker opens after breakerFailures failures within breakerWindow, for breakerPause at first and twice as long each
// time a probe fails, up to breakerPauseMost.
const (
	breakerFailures  = 5
	breakerWindow    = time.Minute
	breakerPause     = 10 * time.Second
	breakerPauseMost = 10 * time.Minute
)

// BreakerState says whether a module is called.
type BreakerState string

// The states of a breaker.
const (
	// Closed: the module is called.
	Closed BreakerState = "closed"
	// Open: the module is not called.
	Open BreakerState = "open"
	// HalfOpen: one call is let through to see.
	HalfOpen BreakerState = "half-open"
)

// breaker stops calls of a module that fails again and again.
type breaker struct {
	now func() time.Time

	mu       sync.Mutex
	state    BreakerState
	failures []time.Time
	pause    time.Duration
	until    time.Time
	probing  bool
}

func newBreaker(now func() time.Time) *breaker { return &breaker{now: now, state: Closed} }

// allow reports whether a call may be made. Each call that is allowed has to be reported to done.
func (b *breaker) allow() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.state == Closed:
		return true
	case b.now().Before(b.until) || b.probing:
		return false
	default:
		b.state, b.probing = HalfOpen, true
		return true
	}
}

// done takes the outcome of a call that was allowed.
func (b *breaker) done(ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if b.state == HalfOpen {
		b.probing = false
		if ok {
			b.state, b.failures, b.pause = Closed, nil, 0
		} else {
			b.open(now)
		}
		return
	}
	if ok || b.state == Open {
		return
	}
	recent := b.failures[:0]
	for _, t := range b.failures {
		if now.Sub(t) < breakerWindow {
			recent = append(recent, t)
		}
	}
	if b.failures = append(recent, now); len(b.failures) >= breakerFailures {
		b.open(now)
	}
}

func (b *breaker) open(now time.Time) {
	b.pause = min(max(2*b.pause, breakerPause), breakerPauseMost)
	b.state, b.until, b.failures = Open, now.Add(b.pause), nil
}

// reset closes the breaker by hand.
func (b *breaker) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state, b.failures, b.pause, b.probing = Closed, nil, 0, false
}

// status returns the state and, while open, when the next probe may run.
func (b *breaker) status() (BreakerState, time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state == Closed {
		return Closed, time.Time{}
	}
	return b.state, b.until
}
