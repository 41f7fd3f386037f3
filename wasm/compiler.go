package wasm

import (
	"context"

	"github.com/chancery-gateway/chancery/wasm/fault"
)

// codeKey names compiled code. The limit of pages is part of the runtime, and so of the key.
type codeKey struct {
	digest Digest
	pages  uint32
	guard  Guard
}

// codeEntry is compiled code, or code that is being compiled: then ready is open.
type codeEntry struct {
	ready chan struct{}
	code  *code
	err   error
	refs  int
}

// codeFor returns the compiled code of a module, with a reference that dropCode gives back. Whoever asks for the same
// code meanwhile waits for the same compilation; so many run at a time as there are workers.
func (h *Host) codeFor(ctx context.Context, info *Info, module []byte, guard Guard, pages uint32) (*code, error) {
	k := codeKey{info.Digest, pages, guard}
	h.mu.Lock()
	e := h.codes[k]
	if e == nil {
		e = &codeEntry{ready: make(chan struct{})}
		h.codes[k] = e
		h.group.Go(func() { h.compile(k, e, info, module) })
	}
	e.refs++
	h.mu.Unlock()
	select {
	case <-e.ready:
	case <-ctx.Done():
		h.mu.Lock()
		defer h.mu.Unlock()
		h.unrefCode(k, e)
		return nil, fault.Retry(fault.Canceled, "given up while the module was being compiled")
	}
	if e.err != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.unrefCode(k, e)
		return nil, e.err
	}
	return e.code, nil
}

func (h *Host) compile(k codeKey, e *codeEntry, info *Info, module []byte) {
	var c *code
	var err error
	select {
	case h.slots <- struct{}{}:
		ctx, cancel := within(h.ctx, h.config.CompileTime)
		c, err = compile(ctx, info, module, k.guard, k.pages, h.cache.codeDir(k))
		if err == nil {
			c.since = h.config.since
		}
		cancel()
		<-h.slots
	case <-h.ctx.Done():
		err = fault.Retry(fault.Canceled, "the host is closing")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	e.code, e.err = c, err
	close(e.ready)
	if err != nil {
		delete(h.codes, k) // the next one who asks tries again
	} else if e.refs == 0 {
		h.freeCode(k, e)
	}
}

// dropCode gives back the reference of codeFor. The mutex is held.
func (h *Host) dropCode(c *code) {
	k := codeKey{c.info.Digest, c.pages, c.guard}
	if e := h.codes[k]; e != nil && e.code == c {
		h.unrefCode(k, e)
	}
}

func (h *Host) unrefCode(k codeKey, e *codeEntry) {
	if e.refs--; e.refs > 0 {
		return
	}
	select {
	case <-e.ready:
		if e.code != nil {
			h.freeCode(k, e)
		}
	default: // compile frees it when it is done
	}
}

func (h *Host) freeCode(k codeKey, e *codeEntry) {
	if h.codes[k] == e {
		delete(h.codes, k)
	}
	e.code.close()
}
