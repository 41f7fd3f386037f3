package wasm

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/wasm/fault"
	. "github.com/chancery-gateway/chancery/wasm/internal/assemble"
)

// A hostile guest, and the code that its call must end with.
type hostile struct {
	name  string
	guest guest
	code  *snapshot.Code
	// slow cases use their whole deadline.
	slow bool
	// interpreted is the code that it may end with in the interpreter instead, which is slower and knows no fuel.
	interpreted *snapshot.Code
}

// exponential returns functions without loops that call each other 2^depth times.
func exponential(depth int) func(*Module) {
	return func(m *Module) {
		last := m.Func(nil, nil, nil)
		for range depth {
			last = m.Func(nil, nil, nil, Call(last), Call(last))
		}
		m.Export("chain", Function, last)
	}
}

// chase is a loop of dependent loads from all over the memory, each some cache miss, in a long straight line.
func chase(loads int) []byte {
	fill := Code( // mem[i] = (i * 1664525 + 1013904223) & mask, so that loads jump about
		Block(Loop(
			Get(2), Const32(16<<20), Op(0x4f), BrIf(1),
			Get(2), Get(2), Const32(1664525*4+4), Op(0x6c), Const32(1013904224), Op(Add32), Const32(16<<20-4), Op(0x71), Store32(0),
			Get(2), Const32(4), Op(Add32), Put(2),
			Br(0),
		)),
	)
	var line []byte
	for range loads {
		line = append(line, Load32(0)...)
	}
	return Code(fill, Loop(Get(3), line, Put(3), Br(0)), packed(0, 0))
}

func hostileCorpus() []hostile {
	before := func(add func(*Module)) func(*Module) { return add }
	return []hostile{
		{name: "spin", guest: guest{Translate: spin}, code: fault.Deadline, slow: true},
		{name: "spin with work", guest: guest{Translate: Code(Loop(Get(3), Const32(1), Op(Add32), Put(3), Br(0)), packed(0, 0))}, code: fault.Deadline, slow: true},
		{name: "exponential calls without loops", guest: guest{Prepare: before(exponential(34)), Translate: Code(Call(34), packed(0, 0))}, code: fault.Deadline, slow: true},
		{name: "long straight lines of cache misses", guest: guest{Pages: 260, Translate: chase(20000)}, code: fault.Deadline, slow: true},
		{name: "endless bulk copies", guest: guest{Pages: 260, Translate: Code(Loop(Const32(0), Const32(1), Const32(16<<20), Copy(), Br(0)), packed(0, 0))}, code: fault.Deadline, slow: true},
		{name: "endless growth by nothing", guest: guest{Translate: Code(Loop(Const32(0), Grow(), Op(Drop), Br(0)), packed(0, 0))}, code: fault.Deadline, slow: true},
		{name: "recursion", guest: guest{Prepare: func(m *Module) { m.Func(nil, nil, nil, Call(m.Next())) }, Translate: Code(Call(0), packed(0, 0))}, code: fault.Stack},
		{name: "recursion with large frames", guest: guest{Prepare: func(m *Module) {
			locals := make([]byte, 1000)
			for i := range locals {
				locals[i] = I64
			}
			m.Func([]byte{I64}, []byte{I64}, locals, Get(0), Const64(1), Op(Add64), Call(m.Next()))
		}, Translate: Code(Const64(1), Call(0), Op(Drop), packed(0, 0))}, code: fault.Stack, interpreted: fault.Deadline},
		{name: "memory bomb", guest: guest{Pages: 16, Translate: Code(Loop(Const32(16), Grow(), Const32(-1), Op(0x47), BrIf(0)), Op(Unreachable))}, code: fault.Memory},
		{name: "huge output", guest: guest{Pages: 260, Translate: packed(0, 5<<20)}, code: fault.OutputSize},
		{name: "pointer out of range", guest: guest{Translate: packed(0xffff0000, 100)}, code: fault.Range},
		{name: "length beyond memory", guest: guest{Translate: packed(100, 0x30000)}, code: fault.Range},
		{name: "trap", guest: guest{Translate: Op(Unreachable)}, code: fault.Trap},
		{name: "division by zero", guest: guest{Translate: Code(Const32(1), Const32(0), Op(0x6d, Drop), packed(0, 0))}, code: fault.Trap},
		{name: "load out of bounds", guest: guest{Translate: Code(Const32(-4), Load32(0), Op(Drop), packed(0, 0))}, code: fault.Trap},
		{name: "unaligned nonsense from alloc", guest: guest{NoAlloc: true, Prepare: func(m *Module) {
			m.Export("alloc", Function, m.Func([]byte{I32}, []byte{I32}, nil, Const32(-8)))
		}}, code: fault.Alloc},
		{name: "null from alloc", guest: guest{NoAlloc: true, Prepare: func(m *Module) {
			m.Export("alloc", Function, m.Func([]byte{I32}, []byte{I32}, nil, Const32(0)))
		}}, code: fault.Alloc},
		{name: "exit", guest: guest{Prepare: func(m *Module) { m.Import(wasi, "proc_exit", []byte{I32}, nil) }, Translate: Code(Const32(3), Call(0), packed(0, 0))}, code: fault.Exit},
		{name: "its own failure", guest: guest{Prepare: func(m *Module) { m.Import("chancery", "fail", []byte{I32, I32}, nil) }, Answer: "no\x1b[31m", Translate: Code(Const32(answerAt), Const32(7), Call(0), packed(0, 0))}, code: fault.Guest},
		{name: "log out of memory", guest: guest{Prepare: func(m *Module) { m.Import("chancery", "log", []byte{I32, I32, I32}, nil) }, Translate: Code(Const32(1), Const32(-1), Const32(100), Call(0), packed(0, 0))}, code: fault.Guest},
		{name: "write with vectors out of memory", guest: guest{Prepare: func(m *Module) { m.Import(wasi, "fd_write", []byte{I32, I32, I32, I32}, []byte{I32}) },
			Translate: Code(Const32(1), Const32(-8), Const32(1000), Const32(0), Call(0), If(Op(Unreachable)), packed(0, 0))}, code: fault.Trap},
		{name: "log flood", guest: guest{Prepare: func(m *Module) { m.Import("chancery", "log", []byte{I32, I32, I32}, nil) },
			Translate: Code(Loop(Const32(1), Const32(0), Const32(1000), Call(0), Br(0)), packed(0, 0))}, code: fault.Deadline, slow: true},
	}
}

// TestHostileCalls runs each hostile guest under a short deadline: each ends in time with its own code, the time being that of its
// thread, and Go's collector, which waits for every goroutine, is not held up until it ends.
func TestHostileCalls(t *testing.T) {
	for _, guard := range []Guard{GuardFuel, GuardInterpreter} {
		for _, h := range hostileCorpus() {
			t.Run(fmt.Sprintf("%s/%s", guard, h.name), func(t *testing.T) {
				module := h.guest.Bytes()
				info, err := Inspect(module)
				if err != nil {
					t.Fatal(err)
				}
				c, err := compile(context.Background(), info, module, guard, 512, "")
				if err != nil {
					t.Fatal(err)
				}
				defer c.close()
				i, _, err := c.instantiate(context.Background(), budget{fuel: 1 << 40, time: time.Second})
				if err != nil {
					t.Fatal(err)
				}
				deadline := 5 * time.Second
				if h.slow {
					deadline = 50 * time.Millisecond
				}
				b := testBudget()
				b.time, b.fuel = deadline, 1<<40
				// Other work on the machine may delay the collector in a run, but not in every one.
				limit, held := deadline+20*time.Millisecond, false
				var took time.Duration
				for range 40 {
					took, held, err = timed(i, b, h.slow)
					if !fault.Is(err, h.code) && (guard == GuardFuel || h.interpreted == nil || !fault.Is(err, h.interpreted)) {
						t.Fatalf("ended with %v; %s was wanted", err, h.code.ID)
					}
					i.close()
					if i, _, err = c.instantiate(context.Background(), budget{fuel: 1 << 40, time: 10 * time.Second}); err != nil {
						t.Fatal(err)
					}
					if guard != GuardFuel || took <= limit && !held {
						return
					}
				}
				t.Errorf("ended after %v of its thread (at most %v was wanted); Go's collector was held up: %t", took, limit, held)
			})
		}
	}
}

// timed makes one call, and returns how long its thread worked, and whether a collection that began meanwhile was still under way
// when it ended.
func timed(i *instance, b budget, collect bool) (took time.Duration, held bool, err error) {
	var begun, done atomic.Bool
	var collector sync.WaitGroup
	if collect {
		collector.Go(func() {
			time.Sleep(10 * time.Millisecond)
			begun.Store(true)
			runtime.GC()
			done.Store(true)
		})
	}
	runtime.LockOSThread()
	start := processorTime()
	_, _, err = i.call(context.Background(), exportTranslate, []byte("{}"), b)
	took = processorTime() - start
	held = begun.Load() && !done.Load()
	runtime.UnlockOSThread()
	collector.Wait()
	return took, held, err
}
