package wasm

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/wasm/abi"
)

// BenchmarkOverhead measures one unit of 500 routes in the Go example: without protection, metered, and under wazero's own
// closeOnDone. The guards take turns, and the best processor time of each counts, so that the ratios hold
// on a busy machine.
func BenchmarkOverhead(b *testing.B) {
	e := examples()[1]
	e.items[1] = node("ir/VirtualHost", "vh", routes(500))
	overhead(b, build(b, e.name), e)
}

// BenchmarkSpin measures a bare loop, the worst case of metering: nothing but branches back.
func BenchmarkSpin(b *testing.B) {
	e := example{phase: abi.IR, items: []abi.Item{node("ir/VirtualHost", "vh", "")}}
	overhead(b, guest{Translate: countdown(1_000_000)}.Bytes(), e)
}

func overhead(b *testing.B, module []byte, e example) {
	guards := []Guard{guardNone, GuardFuel, guardCloseOnDone}
	var modules []bareModule
	for _, guard := range guards {
		m, done := bare(b, module, guard, e)
		defer done()
		m.raw(b, e)
		modules = append(modules, m)
	}
	best := map[Guard]time.Duration{}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for b.Loop() {
		for n, m := range modules {
			start := processorTime()
			m.raw(b, e)
			if d := processorTime() - start; best[guards[n]] == 0 || d < best[guards[n]] {
				best[guards[n]] = d
			}
		}
	}
	plain := float64(best[guardNone])
	b.ReportMetric(plain, "ns/plain")
	b.ReportMetric(float64(best[GuardFuel])/plain, "fuel/plain")
	b.ReportMetric(float64(best[guardCloseOnDone])/plain, "closeOnDone/plain")
}

// BenchmarkNothing runs a module that changes nothing over 10,000 units: cold, warm, and with one unit changed.
func BenchmarkNothing(b *testing.B) {
	h := newTestHost(b, func(c *Config) { c.Watch.Time = -1 })
	spec := Spec{Name: "nothing", Source: &memory{module: guest{}.Bytes()}, Grant: grantAll()}
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
