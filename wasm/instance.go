package wasm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/chancery-gateway/chancery/wasm/fault"
	"github.com/chancery-gateway/chancery/wasm/fuel"
)

// instance is one instance of a module. It serves one call at a time, and is discarded after any error: a guest that
// trapped still answers, from a state that nobody knows.
type instance struct {
	code    *code
	mod     api.Module
	sandbox *sandbox
	calls   int
}

// patience is how many times its limit a call or a compilation may take by the wall clock while it has not been worked on for that long.
const patience = 16

// usage is what a call took. time is that of the processor, by which modules are compared, for it does not depend on what else the
// machine does; took is that of the wall clock, which is told.
type usage struct {
	fuel       int64
	time, took time.Duration
	pages      uint32
}

// instantiate makes an instance and runs its start section and _initialize within the budget.
func (c *code) instantiate(ctx context.Context, b budget) (_ *instance, _ usage, err error) {
	i := &instance{code: c, sandbox: newSandbox()}
	// The name is empty, so that there may be many instances.
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions(exportInitialize)
	spent, err := i.run(ctx, b, func(ctx context.Context, _ *fuel.Meter) error {
		i.mod, err = c.runtime.InstantiateModule(ctx, c.compiled, config)
		return err
	})
	if err == nil {
		var version []uint64
		_, err = i.run(ctx, b, func(ctx context.Context, m *fuel.Meter) error {
			if c.guard == GuardFuel {
				m.Begin(i.mod)
			}
			version, err = i.mod.ExportedFunction(exportVersion).Call(ctx)
			return err
		})
		if err == nil {
			want, _ := negotiate(c.info.Manifest.ABI)
			if got := uint32(version[0]); got != uint32(want.major)<<16|uint32(want.minor) {
				err = fault.New(fault.ABI, "abi_version returns %d.%d; the manifest says %s", got>>16, got&0xffff, c.info.Manifest.ABI)
			}
		}
	}
	if err != nil {
		i.close()
		return nil, spent, err
	}
	return i, spent, nil
}

func (i *instance) close() {
	if i.mod != nil {
		i.mod.Close(context.Background())
	}
}

// call hands input to an exported function and returns a copy of its output. Functions without parameters get no input.
func (i *instance) call(ctx context.Context, name string, input []byte, b budget) (output []byte, spent usage, err error) {
	if len(input) > b.input {
		return nil, spent, fault.New(fault.InputSize, "the input has %d bytes; %d are allowed", len(input), b.input)
	}
	i.sandbox.reset()
	i.calls++
	spent, err = i.run(ctx, b, func(ctx context.Context, m *fuel.Meter) error {
		if i.code.guard == GuardFuel {
			m.Begin(i.mod)
		}
		output, err = i.exchange(ctx, name, input, b.output)
		return err
	})
	return output, spent, err
}

// exchange is the calling convention: alloc, write, call, read and copy, free both.
func (i *instance) exchange(ctx context.Context, name string, input []byte, limit int) ([]byte, error) {
	var stack [2]uint64
	invoke := func(name string, args ...uint64) (uint64, error) {
		copy(stack[:], args)
		err := i.mod.ExportedFunction(name).CallWithStack(ctx, stack[:])
		return stack[0], err
	}
	var args []uint64
	if name != exportSelfTest {
		var at uint64
		size := uint64(len(input))
		if size > 0 {
			var err error
			if at, err = invoke(exportAlloc, size); err != nil {
				return nil, err
			}
			if at = uint64(uint32(at)); at == 0 || !i.mod.Memory().Write(uint32(at), input) {
				return nil, fault.New(fault.Alloc, "alloc(%d) returned %d; the memory has %d bytes", size, at, i.mod.Memory().Size())
			}
		}
		args = []uint64{at, size}
	}
	packed, err := invoke(name, args...)
	if err != nil {
		return nil, err
	}
	if len(args) > 0 && args[1] > 0 {
		if _, err := invoke(exportFree, args...); err != nil {
			return nil, err
		}
	}
	at, size := uint32(packed>>32), uint32(packed)
	if size == 0 {
		return nil, nil
	}
	if int64(size) > int64(limit) {
		return nil, fault.New(fault.OutputSize, "%s returned %d bytes; %d are allowed", name, size, limit)
	}
	view, ok := i.mod.Memory().Read(at, size)
	if !ok {
		return nil, fault.New(fault.Range, "%s returned %d bytes at %d; the memory has %d bytes", name, size, at, i.mod.Memory().Size())
	}
	output := bytes.Clone(view)
	_, err = invoke(exportFree, uint64(at), uint64(size))
	return output, err
}

// run runs guest code within a budget and turns what goes wrong into an error with a code.
func (i *instance) run(ctx context.Context, b budget, guest func(context.Context, *fuel.Meter) error) (spent usage, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start, begun := time.Now(), processorTime()
	m := &fuel.Meter{Budget: b.fuel, Deadline: start.Add(b.time)}
	m.More = func() time.Duration { // a busy machine may have kept it from its time
		if time.Since(start) > patience*b.time {
			return 0
		}
		return b.time - (processorTime() - begun)
	}
	inner := context.WithValue(ctx, sandboxKey{}, i.sandbox)
	if i.code.guard == GuardFuel {
		inner = m.Context(inner)
	} else {
		var cancel context.CancelFunc
		inner, cancel = context.WithDeadline(inner, m.Deadline)
		defer cancel()
	}
	defer func() {
		if reason := recover(); reason != nil {
			err = &hostFailure{reason}
		}
		spent.time, spent.took = processorTime()-begun, time.Since(start)
		if i.code.since != nil {
			spent.time = i.code.since(start)
		}
		if i.mod != nil {
			spent.fuel = m.Used()
			if mem := i.mod.Memory(); mem != nil {
				spent.pages = mem.Size() >> 16
			}
		}
		if err != nil {
			err = i.explain(err, inner.Err(), ctx.Err(), spent)
		}
	}()
	return spent, guest(inner, m)
}

// explain gives an error of guest code its code. done is why its time was over, gaveUp why the caller's was, which is no
// fault of the module.
func (i *instance) explain(err, done, gaveUp error, spent usage) error {
	if fault.CodeOf(err) != nil {
		return err
	}
	if e, ok := errors.AsType[*hostFailure](err); ok {
		return fault.New(fault.Host, "%s", escape(e.Error(), 500))
	}
	if e, ok := errors.AsType[*guestFailure](err); ok {
		return fault.New(fault.Guest, "%s", e.message)
	}
	switch {
	case gaveUp != nil:
		return fault.Retry(fault.Canceled, "the caller gave up after %v", spent.took.Round(time.Millisecond))
	case errors.Is(err, fuel.ErrExhausted):
		return fault.New(fault.Fuel, "stopped after %d units in %v", spent.fuel, spent.took.Round(time.Millisecond))
	case errors.Is(err, fuel.ErrDeadline), done != nil && errors.Is(done, context.DeadlineExceeded):
		return fault.New(fault.Deadline, "stopped after %v and %d units", spent.took.Round(time.Millisecond), spent.fuel)
	case errors.Is(err, fuel.ErrUnmetered):
		return fault.New(fault.Host, "%w", err)
	case errors.Is(err, fuel.ErrStack), strings.Contains(err.Error(), "stack overflow"):
		return fault.New(fault.Stack, "calls were nested too deeply after %d units", spent.fuel)
	}
	if status, ok := exitOf(err); ok {
		return fault.New(fault.Exit, "the module exited with status %d%s", status, i.said())
	}
	reason, trace, _ := strings.Cut(err.Error(), "\n")
	reason = strings.TrimSuffix(reason, " (recovered by wazero)")
	if spent.pages >= i.code.pages || strings.Contains(i.sandbox.written.String(), "out of memory") {
		return fault.New(fault.Memory, "%s with %d of %d pages in use%s", escape(reason, 200), spent.pages, i.code.pages, i.said())
	}
	return fault.New(fault.Trap, "%s%s%s", escape(reason, 300), innermost(trace), i.said())
}

// said returns what the guest wrote before it failed.
func (i *instance) said() string {
	if text := i.sandbox.written.String(); text != "" {
		return fmt.Sprintf("; it wrote: %s", text)
	}
	return ""
}

// innermost returns the function at the top of wazero's stack trace.
func innermost(trace string) string {
	for line := range strings.Lines(trace) {
		if frame := strings.TrimSpace(line); frame != "" && !strings.HasSuffix(frame, ":") {
			return " in " + escape(strings.TrimPrefix(frame, "."), 200)
		}
	}
	return ""
}
