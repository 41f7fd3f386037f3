package wasm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/chancery-gateway/chancery/wasm/fault"
)

// Guard says what ends a module that does not end by itself.
type Guard string

// The guards. None is no guard at all: only benchmarks may choose it.
const (
	// GuardFuel is metering, compiled.
	GuardFuel Guard = "fuel"
	// GuardInterpreter runs the module in wazero's interpreter, which looks at the deadline at every call and loop. It is some
	// forty times slower, counts no fuel, and is for machines on which compiled code is not wanted.
	GuardInterpreter Guard = "interpreter"

	guardCloseOnDone Guard = "closeOnDone"
	guardNone        Guard = "none"
)

// features are what modules may use: WebAssembly 2.0. Tail calls must stay out of the interpreter: it looks at the deadline
// neither for them nor at them, so that endless ones never end.
const features = api.CoreFeaturesV2

// code is a compiled module with a runtime of its own, so that closing it frees everything.
type code struct {
	info     *Info
	guard    Guard
	pages    uint32
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	cache    wazero.CompilationCache
	took     time.Duration
	// since says how long a call took, nil for the processor's time.
	since func(start time.Time) time.Duration
}

// compile compiles a module. cacheDir is a private folder for compiled code of this module alone, or "". The time that
// ctx allows holds for the compiler, too.
func compile(ctx context.Context, info *Info, original []byte, guard Guard, pages uint32, cacheDir string) (_ *code, err error) {
	if d := info.Interface; d.Pages > pages {
		return nil, fault.New(fault.MemorySize, "the module's memory starts with %d pages; %d are granted", d.Pages, pages)
	}
	var config wazero.RuntimeConfig
	binary := original
	switch guard {
	case GuardFuel:
		if info.Unmetered != nil {
			return nil, info.Unmetered
		}
		binary = info.metered
		config = wazero.NewRuntimeConfig()
	case GuardInterpreter:
		config = wazero.NewRuntimeConfigInterpreter().WithCloseOnContextDone(true)
		ctx = experimental.WithFunctionListenerFactory(ctx, watch{})
	case guardCloseOnDone:
		config = wazero.NewRuntimeConfig().WithCloseOnContextDone(true)
	default:
		config = wazero.NewRuntimeConfig()
	}
	config = config.WithCoreFeatures(features).WithMemoryLimitPages(pages).WithDebugInfoEnabled(false)
	c := &code{info: info, guard: guard, pages: pages}
	start := time.Now()
	defer func() {
		c.took = time.Since(start)
		if reason := recover(); reason != nil {
			err = fault.New(fault.Compile, "the compiler failed: %v", reason)
		}
		if err != nil {
			c.close()
		}
	}()
	if cacheDir != "" {
		if c.cache, err = wazero.NewCompilationCacheWithDir(cacheDir); err != nil {
			return nil, fault.New(fault.Cache, "%w", err)
		}
		config = config.WithCompilationCache(c.cache)
	}
	c.runtime = wazero.NewRuntimeWithConfig(ctx, config)
	if err := install(ctx, c.runtime); err != nil {
		return nil, fault.New(fault.Host, "%w", err)
	}
	// With one worker wazero does not look at ctx while it compiles.
	c.compiled, err = c.runtime.CompileModule(experimental.WithCompilationWorkers(ctx, 2), binary)
	switch ended := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled); {
	case ended && errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return nil, fault.New(fault.CompileTime, "the module was not compiled after %v", time.Since(start).Round(time.Millisecond))
	case ended:
		return nil, fault.Retry(fault.Canceled, "%w", err)
	case err != nil:
		return nil, fault.New(fault.Compile, "%s", escape(err.Error(), 1000))
	}
	return c, nil
}

// within returns a context whose time is over after the limit. On a machine that is busy with other things that is not before this
// process has worked for as long, but before patience times the limit has passed.
func within(parent context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	start, begun := time.Now(), workTime()
	go func() {
		for wait := limit; wait > 0; wait = limit - (workTime() - begun) {
			if time.Since(start) > patience*limit {
				break
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
		}
		cancel(context.DeadlineExceeded)
	}()
	return ctx, func() { cancel(nil) }
}

// close frees everything. No instance may be running.
func (c *code) close() {
	ctx := context.Background()
	if c.runtime != nil {
		c.runtime.Close(ctx)
	}
	if c.cache != nil {
		c.cache.Close(ctx)
	}
}

// watch looks at the deadline at every call of a function in the interpreter: wazero itself looks at loops only, so that
// calls without loops would go on for ever.
type watch struct{}

// NewFunctionListener returns the listener for all functions.
func (watch) NewFunctionListener(api.FunctionDefinition) experimental.FunctionListener {
	return watch{}
}

// Before ends the call when its time is over.
func (watch) Before(ctx context.Context, _ api.Module, _ api.FunctionDefinition, _ []uint64, _ experimental.StackIterator) {
	if err := ctx.Err(); err != nil {
		panic(fmt.Errorf("interrupted: %w", err))
	}
}

// After does nothing.
func (watch) After(context.Context, api.Module, api.FunctionDefinition, []uint64) {}

// Abort does nothing.
func (watch) Abort(context.Context, api.Module, api.FunctionDefinition, error) {}
