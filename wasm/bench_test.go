package wasm

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/chancery-gateway/chancery/wasm/abi"
)

// BenchmarkOverhead measures one unit of 500 routes in the Go example: without protection, metered, and under wazero's own
// closeOnDone.
func BenchmarkOverhead(b *testing.B) {
	e := examples()[1]
	e.items[1] = node("ir/VirtualHost", "vh", routes(500))
	module := build(b, e.name)
	for _, guard := range []Guard{guardNone, GuardFuel, guardCloseOnDone} {
		b.Run(string(guard), func(b *testing.B) {
			m, done := bare(b, module, guard, e)
			defer done()
			m.raw(b, e)
			for b.Loop() {
				m.raw(b, e)
			}
		})
	}
}

// BenchmarkSpin measures a bare loop, the worst case of metering: nothing but back-edges.
func BenchmarkSpin(b *testing.B) {
	e := example{phase: abi.IR, items: []abi.Item{node("ir/VirtualHost", "vh", "")}}
	module := guest{translate: countdown(1_000_000)}.bytes()
	for _, guard := range []Guard{guardNone, GuardFuel, guardCloseOnDone} {
		b.Run(string(guard), func(b *testing.B) {
			m, done := bare(b, module, guard, e)
			defer done()
			for b.Loop() {
				m.raw(b, e)
			}
		})
	}
}

// BenchmarkNothing runs a module that changes nothing over 10,000 units: cold, warm, and with one unit changed.
func BenchmarkNothing(b *testing.B) {
	h := newTestHost(b, func(c *Config) { c.Watch.Time = -1 })
	spec := Spec{Name: "nothing", Source: &memory{module: guest{}.bytes()}, Grant: grantAll()}
	apply1(b, h, spec)
	const n = 10_000
	units := make([]Unit, n)
	for i := range units {
		units[i] = unitOf(fmt.Sprint("u", i), "a")
	}
	run := func() {
		set := h.Acquire()
		for _, o := range set.Run(context.Background(), abi.IR, units) {
			if len(o.Failures) > 0 {
				b.Fatal(o.Failures[0].Err)
			}
		}
		set.Release()
	}
	calls := func() int64 { return find(b, h, "nothing").Counts.Calls }
	round := 0
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			round++
			for i := range units {
				units[i] = unitOf(fmt.Sprint("u", i), fmt.Sprint(round))
			}
			before := calls()
			b.StartTimer()
			run()
			b.StopTimer()
			if got := calls() - before; got != n {
				b.Fatalf("%d calls", got)
			}
			b.StartTimer()
		}
	})
	b.Run("warm", func(b *testing.B) {
		before := calls()
		for b.Loop() {
			run()
		}
		if got := calls() - before; got != 0 {
			b.Fatalf("%d calls for unchanged units", got)
		}
	})
	b.Run("one changed", func(b *testing.B) {
		before, rounds := calls(), int64(0)
		for b.Loop() {
			rounds++
			units[17] = unitOf("u17", fmt.Sprint("b", rounds))
			run()
		}
		if got := calls() - before; got != rounds {
			b.Fatalf("%d calls for %d changes", got, rounds)
		}
	})
}

// BenchmarkInspect is everything that is done to a Go guest before it is compiled.
func BenchmarkInspect(b *testing.B) {
	module := build(b, "header")
	b.SetBytes(int64(len(module)))
	for b.Loop() {
		if _, err := Inspect(module); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStart compiles a Go guest from the cache on disk, and instantiates it.
func BenchmarkStart(b *testing.B) {
	module := build(b, "header")
	info, err := Inspect(module)
	if err != nil {
		b.Fatal(err)
	}
	settings, err := json.Marshal(abi.Configuration{ABI: "1.0", Settings: json.RawMessage(`{"label":"a","header":"b"}`)})
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	b.Run("compile cached", func(b *testing.B) {
		for b.Loop() {
			c, err := compile(context.Background(), info, module, GuardFuel, 512, dir)
			if err != nil {
				b.Fatal(err)
			}
			c.close()
		}
	})
	c, err := compile(context.Background(), info, module, GuardFuel, 512, dir)
	if err != nil {
		b.Fatal(err)
	}
	defer c.close()
	b.Run("instantiate and configure", func(b *testing.B) {
		for b.Loop() {
			i, _, err := c.instantiate(context.Background(), testBudget())
			if err != nil {
				b.Fatal(err)
			}
			if _, _, err := i.call(context.Background(), exportConfigure, settings, testBudget()); err != nil {
				b.Fatal(err)
			}
			i.close()
		}
	})
}
