package wasm

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/fault"
	. "github.com/chancery-gateway/chancery/wasm/internal/assemble"
	"github.com/chancery-gateway/chancery/wasm/source"
	"github.com/chancery-gateway/chancery/wasm/wasmtest"
)

// TestNegotiation: a host takes modules of the version that it speaks and of the one before, down to the first minor version
// and no newer one.
func TestNegotiation(t *testing.T) {
	was := spoken
	t.Cleanup(func() { spoken = was })
	spoken = []abiVersion{{2, 1}, {1, 3}}
	for want, ok := range map[string]bool{
		"1.0": true, "1.3": true, "2.0": true, "2.1": true, "1.4": false, "2.2": false, "3.0": false, "0.9": false, "2": false, "two": false, "2.-1": false,
	} {
		if _, err := negotiate(want); (err == nil) != ok || err != nil && !fault.Is(err, fault.ABI) {
			t.Errorf("%s: %v", want, err)
		}
	}
	h := newTestHost(t, nil)
	for i, v := range []string{"1.2", "2.1"} {
		var major, minor int32
		if _, err := fmt.Sscanf(v, "%d.%d", &major, &minor); err != nil {
			t.Fatal(err)
		}
		m := versioned(fmt.Sprintf("1.%d.0", i), func(m *abi.Manifest) { m.ABI = v })
		s := apply1(t, h, Spec{Name: v, Source: &memory{module: guest{Manifest: m, Version: major<<16 | minor, Answer: setHeader(v)}.Bytes()}, Grant: grantAll()})
		if s.Live == nil || note(t, runOne(h, unitOf("u", "a"))) != v {
			t.Errorf("a module of ABI %s: %+v", v, s.Candidate)
		}
	}
}

// TestCompileTime: a module that takes longer to compile than is allowed is refused at that stage, and what is live goes on.
func TestCompileTime(t *testing.T) {
	h := newTestHost(t, nil)
	src := &memory{module: guest{Answer: setHeader("fine")}.Bytes()}
	spec := Spec{Name: "m", Source: src, Grant: grantAll()}
	live := apply1(t, h, spec).Live
	h.config.CompileTime = 10 * time.Millisecond // the Go example takes a second of processor time
	src.put(wasmtest.Example(t, "cluster", "1.0.0"), nil, nil)
	h.Look()
	settle(t, h)
	s := find(t, h, "m")
	if s.Candidate.Stage != StageCompile || !fault.Is(s.Candidate.Err, fault.CompileTime) || s.Live == nil || s.Live.Digest != live.Digest {
		t.Errorf("%+v, live %+v", s.Candidate, s.Live)
	}
}

// TestTimeOfABusyMachine: a limit that passes while nothing is worked on is not over yet, but it ends.
func TestTimeOfABusyMachine(t *testing.T) {
	const limit = 200 * time.Millisecond
	start, begun := time.Now(), workTime()
	ctx, cancel := within(t.Context(), limit)
	defer cancel()
	<-ctx.Done()
	took, worked := time.Since(start), workTime()-begun
	if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) || worked < limit && took < patience*limit || took < limit {
		t.Errorf("over after %v, of which the process worked for %v: %v", took, worked, context.Cause(ctx))
	}
	gone, end := context.WithCancel(t.Context())
	ctx, cancel = within(gone, time.Hour)
	defer cancel()
	end()
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), context.Canceled) {
		t.Errorf("its caller gave up: %v", context.Cause(ctx))
	}
}

// TestCompiledOnce: modules of the same bytes share one compilation, and versions that can be rolled back to stay compiled.
func TestCompiledOnce(t *testing.T) {
	h := newTestHost(t, nil)
	src := &memory{module: guest{Answer: setHeader("one")}.Bytes()}
	specs := []Spec{{Name: "a", Source: src, Grant: grantAll()}, {Name: "b", Source: src, Grant: grantAll(), Priority: 1}}
	if errs := h.Apply(specs); len(errs) > 0 {
		t.Fatal(errs)
	}
	settle(t, h)
	live := func(name string) *code {
		h.mu.Lock()
		defer h.mu.Unlock()
		if l := h.lines[name]; l != nil && l.live != nil {
			return l.live.code
		}
		return nil
	}
	first := live("a")
	if first == nil || live("b") != first {
		t.Fatal("the same bytes were compiled twice")
	}
	src.put(guest{Manifest: versioned("1.0.1", nil), Answer: setHeader("two")}.Bytes(), nil, nil)
	h.Look()
	settle(t, h)
	if live("a") == first || live("b") != live("a") {
		t.Fatal("the second version is not live in both")
	}
	if err := h.Rollback("a"); err != nil {
		t.Fatal(err)
	}
	if live("a") != first {
		t.Error("the version that was rolled back to was compiled again")
	}
	h.Apply(nil)
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.codes) != 0 {
		t.Errorf("%d modules are compiled still; none is configured", len(h.codes))
	}
}

// TestInputTooLarge: a unit beyond the limit fails without entering the module.
func TestInputTooLarge(t *testing.T) {
	h := newTestHost(t, nil)
	m := versioned("1.0.0", func(m *abi.Manifest) { m.Limits.InputBytes = 500 })
	apply1(t, h, Spec{Name: "m", Source: &memory{module: guest{Manifest: m, Answer: setHeader("fine")}.Bytes()}, Grant: grantAll()})
	if o := runOne(h, unitOf("u", "small")); note(t, o) != "fine" {
		t.Errorf("%+v", o)
	}
	large := make([]byte, 1000)
	for i := range large {
		large[i] = 'a'
	}
	if o := runOne(h, unitOf("u", string(large))); len(o.Failures) != 1 || !fault.Is(o.Failures[0].Err, fault.InputSize) || note(t, o) != "fine" {
		t.Errorf("%+v", o)
	}
}

// TestCallerGivesUp: a call whose caller gives up ends, and is not held against the module.
func TestCallerGivesUp(t *testing.T) {
	h := newTestHost(t, nil)
	m := guest{Answer: setHeader("fine"), Translate: onX(Loop(Br(0)))}.Bytes() // it never answers what begins with x
	s := Spec{Name: "m", Source: &memory{module: m}, Grant: grantAll()}
	s.Grant.Limits = abi.Limits{Milliseconds: 60_000, Fuel: 1 << 50}
	apply1(t, h, s)
	runOne(h, unitOf("u", "a"))
	set := h.Acquire()
	defer set.Release()
	for i := range 2 * breakerFailures {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		o := set.Run(ctx, abi.IR, []Unit{unitOf("u", fmt.Sprint("x", i))})[0]
		cancel()
		if len(o.Failures) != 1 || o.Failures[0].Action != OnFailureKeep {
			t.Fatalf("%+v", o)
		}
		if err := o.Failures[0].Err; !fault.Is(err, fault.Canceled) {
			t.Fatal(err)
		}
		if got := note(t, runOne(h, unitOf("u", fmt.Sprint("after ", i)))); got != "fine" {
			t.Fatalf("the next instance answers %q", got)
		}
	}
	if s := find(t, h, "m"); s.Breaker != Closed {
		t.Errorf("the breaker is %s", s.Breaker)
	}
}

// TestRemoteNeedsDigest: a remote source without a digest is an error of the configuration, with its own code.
func TestRemoteNeedsDigest(t *testing.T) {
	h := newTestHost(t, nil)
	if errs := h.Apply([]Spec{{Name: "m", Source: source.HTTP{URL: "https://example.com/m.wasm"}}}); !fault.Is(errs["m"], fault.NoDigest) {
		t.Errorf("%v", errs["m"])
	}
}

// TestForce: a lower version, and one that changes more than its bounds allow, is promoted when the configuration insists.
func TestForce(t *testing.T) {
	h := newTestHost(t, nil)
	src := &memory{module: guest{Manifest: versioned("2.0.0", nil), Answer: setHeader("two")}.Bytes()}
	spec := Spec{Name: "m", Source: src, Grant: grantAll(), Shadow: Shadow{MaxChanged: 1}}
	apply1(t, h, spec)
	for _, u := range []string{"a", "b", "c"} {
		runOne(h, unitOf(u, u))
	}
	src.put(guest{Manifest: versioned("1.0.0", nil), Answer: setHeader("one")}.Bytes(), nil, nil)
	h.Look()
	settle(t, h)
	if s := find(t, h, "m"); s.Live.Version != "2.0.0" || !fault.Is(s.Candidate.Err, fault.Downgrade) {
		t.Fatalf("%+v", s.Candidate)
	}
	spec.Force = true
	if s := apply1(t, h, spec); s.Live.Version != "1.0.0" || len(s.Candidate.Shadow.Changed) != 3 {
		t.Errorf("%+v", s.Candidate)
	}
}

// TestCacheForgets: what was not used for a month goes from the cache, and what was stays.
func TestCacheForgets(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	now := time.Now()
	entries := func() (n int) {
		for _, pattern := range []string{"code/*/*", "modules/*"} {
			all, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil {
				t.Fatal(err)
			}
			n += len(all)
		}
		return n
	}
	use := func(versions ...string) {
		t.Helper()
		h, err := NewHost(Config{CacheDir: dir, Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		for _, v := range versions {
			module := guest{Manifest: versioned(v, nil), Answer: setHeader(v)}.Bytes()
			digest := DigestOf(module)
			if s := apply1(t, h, Spec{Name: "m", Source: &memory{module: module, remote: true}, Digest: &digest, Grant: grantAll()}); s.Live == nil || s.Live.Version != v {
				t.Fatalf("%+v", s.Candidate)
			}
		}
	}
	use("1.0.0", "1.0.1")
	if n := entries(); n != 4 {
		t.Fatalf("%d entries, two modules and their code were wanted", n)
	}
	now = now.Add(unused - time.Hour)
	use("1.0.1")
	now = now.Add(2 * time.Hour)
	use()
	if n := entries(); n != 2 {
		t.Errorf("%d entries; the version that was used last was wanted", n)
	}
	use("1.0.1")
}
