package wasm

import (
	"context"
	"sync"

	"github.com/chancery-gateway/chancery/wasm/fault"
)

// An instance is retired after so many calls, and when its memory has grown to so much of its limit: guests seldom give
// memory back.
const (
	retireCalls    = 10_000
	retireFraction = 0.75
)

// pool keeps configured instances of one module. At most size calls run at a time.
type pool struct {
	make  func(context.Context) (*instance, error)
	slots chan struct{}
	pages uint32

	mu     sync.Mutex
	idle   []*instance
	closed bool
	made   int
}

func newPool(size int, pages uint32, make_ func(context.Context) (*instance, error)) *pool {
	return &pool{make: make_, slots: make(chan struct{}, size), pages: pages}
}

// lease returns an instance for one call; fresh asks for one that has served no call yet.
func (p *pool) lease(ctx context.Context, fresh bool) (*instance, error) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, fault.Retry(fault.Canceled, "the caller gave up while all instances were busy")
	}
	p.mu.Lock()
	if n := len(p.idle); n > 0 && !fresh {
		i := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return i, nil
	}
	p.made++
	p.mu.Unlock()
	i, err := p.make(ctx)
	if err != nil {
		<-p.slots
		return nil, err
	}
	return i, nil
}

// release takes an instance back after a call. It is closed unless it may serve again.
func (p *pool) release(i *instance, again bool, spent usage) {
	if i.calls >= retireCalls || float64(spent.pages) > retireFraction*float64(p.pages) {
		again = false
	}
	p.mu.Lock()
	if again && !p.closed {
		p.idle = append(p.idle, i)
		i = nil
	}
	p.mu.Unlock()
	if i != nil {
		i.close()
	}
	<-p.slots
}

// size returns how many instances are idle and how many were made so far.
func (p *pool) size() (idle, made int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle), p.made
}

// close closes the idle instances; those that are leased are closed when they come back.
func (p *pool) close() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	for _, i := range idle {
		i.close()
	}
}
