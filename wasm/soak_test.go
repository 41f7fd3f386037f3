package wasm

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/fault"
	. "github.com/chancery-gateway/chancery/wasm/internal/assemble"
)

// heap returns the bytes of live objects after a collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// nothingLeft waits until memory and goroutines are as they were before, for what is under way ends and what is left behind does not.
func nothingLeft(t *testing.T, before uint64, goroutines int) {
	t.Helper()
	grown, n := int64(heap())-int64(before), runtime.NumGoroutine()
	for deadline := time.Now().Add(time.Minute); grown > 4<<20 || n > goroutines; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the heap grew by %d KiB; %d goroutines, %d before", grown>>10, n, goroutines)
		}
		grown, n = int64(heap())-int64(before), runtime.NumGoroutine()
	}
}

// TestHotSwaps replaces a module a thousand times while compiles run: none fails, none sees two versions, and memory and
// goroutines do not grow.
func TestHotSwaps(t *testing.T) {
	const swaps = 1000
	h := newTestHost(t, func(c *Config) { c.Watch.Time = -1 })
	versions := make([][]byte, 8)
	for i := range versions {
		m := versioned("1.0.0", func(m *abi.Manifest) { m.Description = fmt.Sprint("version ", i) })
		versions[i] = guest{Manifest: m, Answer: setHeader(fmt.Sprint("v", i))}.Bytes()
	}
	a, b := &memory{module: versions[0]}, &memory{module: versions[0]}
	second := func(s Spec) Spec { s.Name, s.Source, s.Priority = "second", b, 1; return s }
	spec := Spec{Name: "first", Source: a, Grant: grantAll()}
	if errs := h.Apply([]Spec{spec, second(spec)}); len(errs) > 0 {
		t.Fatal(errs)
	}
	settle(t, h)

	stop := make(chan struct{})
	var group sync.WaitGroup
	var mu sync.Mutex
	runs := 0
	for worker := range 3 {
		group.Go(func() {
			random := rand.New(rand.NewPCG(uint64(worker), 1))
			for {
				select {
				case <-stop:
					return
				default:
				}
				units := make([]Unit, 8)
				for i := range units {
					units[i] = unitOf(fmt.Sprint(i), fmt.Sprint(random.IntN(5)))
				}
				set := h.Acquire()
				digests := map[string]Digest{}
				for _, o := range set.Run(context.Background(), abi.IR, units) {
					if len(o.Failures) > 0 || !o.Changed {
						t.Errorf("a unit failed: %+v", o)
					}
					for _, w := range o.Writes {
						if d, seen := digests[w.Module]; seen && d != w.Digest {
							t.Errorf("one compile used two versions of %s", w.Module)
						}
						digests[w.Module] = w.Digest
					}
				}
				set.Release()
				mu.Lock()
				runs++
				mu.Unlock()
			}
		})
	}
	var before uint64
	var goroutines int
	for i := range swaps {
		if i == swaps/5 {
			before, goroutines = heap(), runtime.NumGoroutine()
		}
		a.put(versions[(i+1)%len(versions)], nil, nil)
		b.put(versions[(i*3+1)%len(versions)], nil, nil)
		h.Look()
		settle(t, h)
		if s := find(t, h, "first"); s.Candidate.Err != nil || s.Live.Digest != DigestOf(versions[(i+1)%len(versions)]) {
			t.Fatalf("swap %d: %+v", i, s.Candidate)
		}
	}
	close(stop)
	group.Wait()
	nothingLeft(t, before, goroutines)
	h.mu.Lock()
	codes := len(h.codes)
	h.mu.Unlock()
	if codes > 6 {
		t.Errorf("%d modules are compiled; two live and twice two kept were wanted", codes)
	}
	t.Logf("%d compiles during %d swaps", runs, swaps)
}

// TestHostileSoak runs the hostile corpus as live modules for a thousand rounds beside a good one, and offers the good one's
// place to one candidate after the other that has to be refused: the good one's output stays the same, and memory and
// goroutines do not grow.
func TestHostileSoak(t *testing.T) {
	rounds := 1000
	if testing.Short() {
		rounds = 50
	}
	h := newTestHost(t, func(c *Config) { c.Watch.Time = -1 })
	good := &memory{module: guest{Answer: setHeader("good")}.Bytes()}
	specs := []Spec{{Name: "good", Source: good, Grant: grantAll(), Priority: 100}}
	for i, c := range hostileCorpus() {
		if c.code == fault.Alloc {
			continue // refused before they are live
		}
		c.guest.Manifest = versioned("1.0.0", func(m *abi.Manifest) {
			m.Name = fmt.Sprint("bad-", i)
			m.Limits = abi.Limits{Milliseconds: 2, Fuel: 30_000}
		})
		specs = append(specs, Spec{Name: fmt.Sprint("bad-", i), Source: &memory{module: c.guest.Bytes()}, Grant: grantAll(), Failure: OnFailureSkip})
	}
	if errs := h.Apply(specs); len(errs) > 0 {
		t.Fatal(errs)
	}
	settle(t, h)
	for _, s := range h.Status() {
		if s.Live == nil {
			t.Fatalf("%s is at %s: %v", s.Name, s.Candidate.Stage, s.Candidate.Err)
		}
	}
	candidates := hostileCandidates()
	runOne(h, unitOf("u", "recorded")) // what candidates are tried on
	want := `{"content":"`
	var before uint64
	var goroutines int
	for round := range rounds {
		if round == rounds/5 {
			before, goroutines = heap(), runtime.NumGoroutine()
		}
		if round%10 == 0 { // else the breakers keep most of them away
			for _, s := range specs[1:] {
				if err := h.Reset(s.Name); err != nil {
					t.Fatal(err)
				}
			}
			settle(t, h)
		}
		c := candidates[round%len(candidates)]
		good.put(c.module, nil, nil)
		if err := h.Reset("good"); err != nil { // else the host knows it
			t.Fatal(err)
		}
		settle(t, h)
		if s := find(t, h, "good"); !fault.Is(s.Candidate.Err, c.code) {
			t.Fatalf("round %d: %s ended with %v", round, c.name, s.Candidate.Err)
		}
		content := fmt.Sprint(round % 7)
		o := runOne(h, unitOf("u", content))
		if got := string(o.Items[0].Value); got != want+content+`","name":"vh","note":"good"}` {
			t.Fatalf("round %d: the good module's output is %s", round, got)
		}
	}
	nothingLeft(t, before, goroutines)
	for _, s := range h.Status() {
		if s.Name != "good" && (len(s.Counts.Errors) == 0 || s.Counts.Skipped == 0) {
			t.Errorf("%s never failed: %+v", s.Name, s.Counts)
		}
	}
}

type hostileCandidate struct {
	name   string
	module []byte
	code   *snapshot.Code
}

// hostileCandidates are modules that are refused before they are live, one of each kind.
func hostileCandidates() []hostileCandidate {
	next := versioned("1.1.0", func(m *abi.Manifest) { m.Limits = abi.Limits{Milliseconds: 20} })
	valid := guest{Manifest: next, Answer: setHeader("next")}.Bytes()
	return []hostileCandidate{
		{"truncated", valid[:len(valid)/2], fault.Malformed},
		{"component", []byte("\x00asm\x0d\x00\x01\x00"), fault.Unsupported},
		{"unknown import", guest{Manifest: next, Prepare: func(m *Module) { m.Import(wasi, "path_open", []byte{I32}, []byte{I32}) }}.Bytes(), fault.Import},
		{"missing export", guest{Manifest: next, NoAlloc: true}.Bytes(), fault.Export},
		{"wrong signature", guest{Manifest: next, NoAlloc: true, With: func(m *Module) {
			m.Export("alloc", Function, m.Func(nil, []byte{I32}, nil, Const32(1)))
		}}.Bytes(), fault.Export},
		{"reserved export", guest{Manifest: next, With: func(m *Module) { m.Export("chancery:fuel", Function, 0) }}.Bytes(), fault.Reserved},
		{"bad ABI version", guest{Manifest: versioned("1.1.0", func(m *abi.Manifest) { m.ABI = "9.0" })}.Bytes(), fault.ABI},
		{"another ABI than it says", guest{Manifest: next, Version: 9 << 16}.Bytes(), fault.ABI},
		{"start function that spins", guest{Manifest: versioned("1.1.0", func(m *abi.Manifest) { m.Limits.Milliseconds = 5 }),
			With: func(m *Module) { m.Start(m.Func(nil, nil, nil, Loop(Br(0)))) }}.Bytes(), fault.Fuel},
		{"slow start function that traps", guest{Manifest: next, With: func(m *Module) {
			m.Start(m.Func(nil, nil, []byte{I32}, Const32(100_000), Put(0), Loop(Get(0), Const32(1), Op(Sub32), Tee(0), BrIf(0)), Op(Unreachable)))
		}}.Bytes(), fault.Trap},
		{"state between calls", counting(next), fault.Nondeterministic},
		{"trap in self_test", guest{Manifest: next, SelfTest: Op(Unreachable)}.Bytes(), fault.Trap},
		{"self_test without end", guest{Manifest: next, SelfTest: spin}.Bytes(), fault.Deadline},
		{"alloc that answers nonsense", guest{Manifest: next, NoAlloc: true, Prepare: func(m *Module) {
			m.Export("alloc", Function, m.Func([]byte{I32}, []byte{I32}, nil, Const32(-8)))
		}}.Bytes(), fault.Alloc},
		{"output that is no JSON", guest{Manifest: next, Answer: "no"}.Bytes(), fault.Output},
	}
}

// TestBreaker: a module that fails again and again is suspended, probed, and taken back when it works.
func TestBreaker(t *testing.T) {
	now := time.Unix(0, 0)
	var mu sync.Mutex
	h := newTestHost(t, func(c *Config) {
		c.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	})
	// It traps for content that has an x at a place that only this test knows of.
	module := guest{Answer: setHeader("fine"), Translate: trapOnX()}.Bytes()
	apply1(t, h, Spec{Name: "m", Source: &memory{module: module}, Grant: grantAll()})
	if o := runOne(h, unitOf("u", "a")); note(t, o) != "fine" {
		t.Fatalf("%+v", o)
	}
	calls := func() int64 { return find(t, h, "m").Counts.Calls }
	for i := range breakerFailures {
		o := runOne(h, unitOf("u", fmt.Sprint("x", i)))
		if len(o.Failures) != 1 || o.Failures[0].Action != OnFailureKeep || note(t, o) != "fine" {
			t.Fatalf("failure %d: %+v", i, o)
		}
	}
	if s := find(t, h, "m"); s.Breaker != Open {
		t.Fatalf("the breaker is %s after %d failures", s.Breaker, breakerFailures)
	}
	before := calls()
	if o := runOne(h, unitOf("u", "b")); !fault.Is(o.Failures[0].Err, fault.Open) || calls() != before {
		t.Fatalf("an open breaker let a call through: %+v", o)
	}
	pass := func(d time.Duration) { mu.Lock(); defer mu.Unlock(); now = now.Add(d) }
	pass(breakerPause)
	runOne(h, unitOf("u", "x again"))
	if s := find(t, h, "m"); s.Breaker != Open || calls() != before+1 {
		t.Fatalf("after a failed probe the breaker is %s, %d calls", s.Breaker, calls()-before)
	}
	pass(breakerPause) // the pause has doubled
	runOne(h, unitOf("u", "c"))
	if calls() != before+1 {
		t.Fatal("the pause did not double")
	}
	pass(breakerPause)
	if o := runOne(h, unitOf("u", "c")); note(t, o) != "fine" || find(t, h, "m").Breaker != Closed {
		t.Fatalf("a probe that works does not close the breaker: %+v", o)
	}
	for i := range breakerFailures {
		runOne(h, unitOf("u", fmt.Sprint("xx", i)))
	}
	if err := h.Reset("m"); err != nil || find(t, h, "m").Breaker != Closed {
		t.Fatal("reset does not close the breaker")
	}
}
