package wasm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/fault"
	"github.com/chancery-gateway/chancery/wasm/fuel"
	. "github.com/chancery-gateway/chancery/wasm/internal/assemble"
)

// digitFrom is the code of a translate that puts the low hex digit of the byte at an address into its answer.
func digitFrom(address int32, answer string, fill []byte) []byte {
	digit := answerAt + strings.Index(answer, "count-") + len("count-")
	return Code(fill,
		Const32(int32(digit)), Const32(address), Op(0x2d, 0, 0), Const32(15), Op(0x71), Const32('a'), Op(Add32), Op(0x3a, 0, 0),
		packed(answerAt, uint32(len(answer))),
	)
}

// TestClockAndRandom: real time and random bytes are the same in every call, so that a module that uses them is
// deterministic. Monotonic time grows, and a module that lets it reach its output is refused.
func TestClockAndRandom(t *testing.T) {
	answer := setHeader("count-0")
	clock := func(id int32) []byte { return Code(Const32(id), Const64(0), Const32(512), Call(0), Op(Drop)) }
	importClock := func(m *Module) { m.Import(wasi, "clock_time_get", []byte{I32, I64, I32}, []byte{I32}) }
	importRandom := func(m *Module) { m.Import(wasi, "random_get", []byte{I32, I32}, []byte{I32}) }
	for _, c := range []struct {
		name   string
		guest  guest
		stable bool
	}{
		{"random", guest{Answer: answer, Prepare: importRandom, Translate: digitFrom(512, answer, Code(Const32(512), Const32(8), Call(0), Op(Drop)))}, true},
		{"real time", guest{Answer: answer, Prepare: importClock, Translate: digitFrom(513, answer, clock(0))}, true},
		{"monotonic time", guest{Answer: answer, Prepare: importClock, Translate: digitFrom(513, answer, Code(clock(1), clock(1), clock(1)))}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newTestHost(t, func(config *Config) { config.Sample = sampleOf(unitOf("u", "a"), unitOf("v", "b")) })
			s := apply1(t, h, Spec{Name: "m", Source: &memory{module: c.guest.Bytes()}, Grant: grantAll()})
			if (s.Live != nil) != c.stable || !c.stable && !fault.Is(s.Candidate.Err, fault.Nondeterministic) {
				t.Errorf("%+v", s.Candidate)
			}
		})
	}
}

// TestTrapOnNthCall: an instance that trapped never serves again; the next call gets a new one.
func TestTrapOnNthCall(t *testing.T) {
	h := newTestHost(t, nil)
	module := guest{Answer: setHeader("fine"), Translate: Code(
		Const32(512), Const32(512), Load32(0), Const32(1), Op(Add32), Store32(0),
		Const32(512), Load32(0), Const32(3), Op(0x46), If(Op(Unreachable)),
		packed(answerAt, uint32(len(setHeader("fine")))),
	)}.Bytes()
	apply1(t, h, Spec{Name: "m", Source: &memory{module: module}, Grant: grantAll()})
	for i := range 12 {
		o := runOne(h, unitOf(fmt.Sprint("u", i), "a"))
		if failed := len(o.Failures) > 0; failed != (i%3 == 2) {
			t.Errorf("call %d: %+v", i, o.Failures)
		}
	}
	if s := find(t, h, "m"); s.Made != 4 || s.Breaker != Closed {
		t.Errorf("%d instances were made, 4 were wanted; the breaker is %s", s.Made, s.Breaker)
	}
}

// TestSlowStart: a start function may work, within the budget of a start.
func TestSlowStart(t *testing.T) {
	start := func(m *Module) {
		m.Start(m.Func(nil, nil, []byte{I32}, Const32(20_000_000), Put(0), Loop(Get(0), Const32(1), Op(Sub32), Tee(0), BrIf(0))))
	}
	h := newTestHost(t, nil)
	if s := apply1(t, h, Spec{Name: "m", Source: &memory{module: guest{With: start}.Bytes()}, Grant: grantAll()}); s.Live == nil {
		t.Errorf("%+v", s.Candidate)
	}
}

// TestHostFailure: a fault in a host function fails the call as a fault of the host, and the process lives.
func TestHostFailure(t *testing.T) {
	module := guest{Prepare: func(m *Module) { m.Import("chancery", "log", []byte{I32, I32, I32}, nil) },
		Translate: Code(Const32(1), Const32(0), Const32(5), Call(0), packed(0, 0))}.Bytes()
	c, i := load(t, module, GuardFuel)
	m := &fuel.Meter{Budget: 1 << 20, Deadline: time.Now().Add(time.Hour)}
	m.Begin(i.mod)
	_, err := i.mod.ExportedFunction(exportTranslate).Call(m.Context(context.Background()), 0, 0) // no sandbox in the context
	if err = i.explain(err, nil, nil, usage{}); !fault.Is(err, fault.Host) {
		t.Errorf("%v", err)
	}
	if _, err := i.mod.ExportedFunction(exportTranslate).Call(context.Background(), 0, 0); err == nil || !fault.Is(i.explain(err, nil, nil, usage{}), fault.Host) {
		t.Errorf("without a meter: %v", err)
	}
	c.close()
}

// TestDeadlineIsPutOff: a call whose deadline has passed goes on while it is given more time, and ends when it is not.
func TestDeadlineIsPutOff(t *testing.T) {
	work := Code(Const32(300_000), Put(2), Loop(Get(2), Const32(1), Op(Sub32), Tee(2), BrIf(0)), packed(0, 0))
	c, i := load(t, guest{Translate: work}.Bytes(), GuardFuel)
	defer c.close()
	asked := 0
	m := &fuel.Meter{Budget: 1 << 30, Deadline: time.Now(), More: func() time.Duration { asked++; return time.Nanosecond }}
	call := func() error {
		m.Begin(i.mod)
		_, err := i.mod.ExportedFunction(exportTranslate).Call(m.Context(context.WithValue(context.Background(), sandboxKey{}, i.sandbox)), 0, 0)
		return err
	}
	if err := call(); err != nil || asked == 0 {
		t.Errorf("asked %d times for more time: %v", asked, err)
	}
	m.More = func() time.Duration { return 0 }
	if err := call(); !errors.Is(err, fuel.ErrDeadline) {
		t.Errorf("without more time: %v", err)
	}
}

// TestSleep: a guest that sleeps goes on at once, with its clock moved.
func TestSleep(t *testing.T) {
	_, i := load(t, guest{}.Bytes(), GuardFuel)
	mem, s := i.mod.Memory(), i.sandbox
	sub := make([]byte, 96)
	copy(sub, "userdata")
	binary.LittleEndian.PutUint32(sub[16:], 1)
	binary.LittleEndian.PutUint64(sub[24:], uint64(time.Hour))
	copy(sub[48:], "a file..")
	sub[56] = 1 // a descriptor that is to be read
	mem.Write(0, sub)
	before := s.elapsed
	if got := poll(s, mem, []uint64{0, 200, 2, 400}); got != errnoSuccess || s.elapsed-before != uint64(time.Hour) {
		t.Errorf("errno %d, %d ns passed", got, s.elapsed-before)
	}
	events, _ := mem.Read(200, 64)
	if n, _ := mem.ReadUint32Le(400); n != 2 || string(events[:8]) != "userdata" || binary.LittleEndian.Uint16(events[40:]) != errnoBadFile {
		t.Errorf("%d events: %q", n, events)
	}
	for _, args := range [][]uint64{{0, 200, 0, 400}, {0, 200, 1000, 400}, {1 << 31, 200, 1, 400}, {0, 1 << 31, 1, 400}, {0, 200, 1, 1 << 31}} {
		if poll(s, mem, args) == errnoSuccess {
			t.Errorf("poll%v succeeded", args)
		}
	}
}

// TestHostFunctionsStayInMemory calls every host function with addresses and lengths at and beyond the ends of memory.
func TestHostFunctionsStayInMemory(t *testing.T) {
	_, i := load(t, guest{}.Bytes(), GuardFuel)
	edges := []uint64{0, 1, 131071, 131072, 131073, 1<<31 - 1, 1 << 31, 1<<32 - 8, 1<<32 - 1}
	for name, h := range hostFunctions {
		args := make([]uint64, len(h.params))
		var try func(n int)
		try = func(n int) {
			if n == len(args) {
				func() {
					defer func() {
						if reason := recover(); reason != nil {
							if _, failed := reason.(*guestFailure); !failed && name.name != "proc_exit" {
								t.Fatalf("%s%v: %v", name.name, args, reason)
							}
						}
					}()
					h.call(i.sandbox, i.mod.Memory(), append([]uint64(nil), args...))
				}()
				return
			}
			for _, e := range edges {
				args[n] = e
				try(n + 1)
			}
		}
		try(0)
	}
}

// TestFailingHooks: a hook that panics costs the unit, or the candidate, not the process.
func TestFailingHooks(t *testing.T) {
	fail := false
	h := newTestHost(t, func(c *Config) {
		c.Validate = func(_ context.Context, _ abi.Phase, u *Unit, items []abi.Item) error {
			if len(u.Items()) != len(items) {
				t.Error("the hook is not given the unit")
			}
			if fail {
				panic("a fault in validation")
			}
			return nil
		}
	})
	src := &memory{module: guest{Answer: setHeader("one")}.Bytes()}
	first := apply1(t, h, Spec{Name: "m", Source: src, Grant: grantAll()}).Live.Digest
	runOne(h, unitOf("u", "a"))
	fail = true
	if o := runOne(h, unitOf("u", "b")); len(o.Failures) != 1 || !fault.Is(o.Failures[0].Err, fault.Host) || note(t, o) != "one" {
		t.Errorf("%+v", o)
	}
	src.put(guest{Answer: setHeader("two")}.Bytes(), nil, nil)
	h.Look()
	settle(t, h)
	if s := find(t, h, "m"); !fault.Is(s.Candidate.Err, fault.Host) || s.Live.Digest != first || s.Breaker != Closed {
		t.Errorf("%+v", s)
	}
}
