package wasm

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chancery-gateway/chancery/wasm/fault"
	. "github.com/chancery-gateway/chancery/wasm/internal/assemble"
)

// gather returns the host's metrics as text: name, labels but for the module's, and value.
func gather(t *testing.T, h *Host) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(Metrics{h}); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			name := strings.TrimPrefix(f.GetName(), "chancery_module_")
			for _, l := range m.Label {
				if l.GetName() != "module" && l.GetName() != "digest" {
					name += " " + l.GetValue()
				}
			}
			out[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return out
}

// TestMetrics compares every metric with what was done.
func TestMetrics(t *testing.T) {
	h := newTestHost(t, func(c *Config) { c.Watch.Time = -1 })
	src := &memory{module: guest{Answer: setHeader("fine"), Translate: trapOnX()}.Bytes()}
	apply1(t, h, Spec{Name: "m", Source: src, Grant: grantAll()})
	runOne(h, unitOf("u", "a"))
	runOne(h, unitOf("u", "a"))
	runOne(h, unitOf("u", "x"))
	runOne(h, unitOf("new", "x"))
	src.put(guest{Manifest: versioned("1.0.1", nil), SelfTest: Op(Unreachable)}.Bytes(), nil, nil)
	h.Look()
	settle(t, h)
	counts := find(t, h, "m").Counts
	want := map[string]float64{
		"live fuel 1.0.0": 1, "candidate_refused CH-WASM-040 self_test": 1,
		"calls_total": 3, "remembered_total": 1, "errors_total CH-WASM-040": 2,
		"failed_units_total keep_last_output": 1, "failed_units_total skip": 0, "failed_units_total block": 1,
		"fuel_total": float64(counts.Fuel), "seconds_total": counts.Time.Seconds(), "memory_pages_max": 2,
		"instances_total": 2, // the first was discarded after a trap
		"compile_seconds": find(t, h, "m").Live.CompileTime.Seconds(),
		"suspended":       0, "log_lines_total true": 0, "log_lines_total false": 0,
	}
	got := gather(t, h)
	if !maps.Equal(got, want) {
		for _, k := range slices.Sorted(maps.Keys(got)) {
			if got[k] != want[k] {
				t.Errorf("%s is %v, not %v", k, got[k], want[k])
			}
		}
		for k := range want {
			if _, there := got[k]; !there {
				t.Errorf("%s is missing", k)
			}
		}
	}
	if counts.Fuel == 0 || counts.Time == 0 {
		t.Errorf("nothing was used: %+v", counts)
	}
	for range breakerFailures {
		runOne(h, unitOf("u", "x"))
	}
	if got := gather(t, h); got["suspended"] != 1 || got["errors_total CH-WASM-040"] != breakerFailures {
		t.Errorf("after %d failures: %v", breakerFailures, got)
	}
}

// TestErrorClasses: each class of failure is counted under its own code.
func TestErrorClasses(t *testing.T) {
	for _, c := range hostileCorpus() {
		if c.code == fault.Alloc {
			continue // refused before it is live
		}
		h := newTestHost(t, func(c *Config) { c.Watch.Time = -1 })
		c.guest.Manifest = versioned("1.0.0", nil)
		if c.slow {
			c.guest.Manifest.Limits.Milliseconds = 5
		}
		apply1(t, h, Spec{Name: "m", Source: &memory{module: c.guest.Bytes()}, Grant: grantAll(), Failure: OnFailureSkip})
		runOne(h, unitOf("u", "a"))
		if got := gather(t, h); got["errors_total "+c.code.ID] != 1 || got["failed_units_total skip"] != 1 {
			t.Errorf("%s: %s is not counted once: %v", c.name, c.code.ID, got)
		}
	}
}

// TestLogs: what a guest logs is attached to its status, escaped, the last lines of it; and so many lines a second at most.
func TestLogs(t *testing.T) {
	now := time.Unix(1000, 0)
	h := newTestHost(t, func(c *Config) { c.Now = func() time.Time { return now } })
	module := guest{
		Prepare: func(m *Module) { m.Import("chancery", "log", []byte{I32, I32, I32}, nil) },
		Answer:  "line\x1b[31m\n",
		Translate: Code(Const32(20), Put(2), Loop(Const32(1), Const32(answerAt), Const32(10), Call(0),
			Get(2), Const32(1), Op(Sub32), Tee(2), BrIf(0)), packed(0, 0)),
	}.Bytes()
	apply1(t, h, Spec{Name: "m", Source: &memory{module: module}, Grant: grantAll()})
	logged := func(round int) Status {
		for i := range 8 {
			if o := runOne(h, unitOf(fmt.Sprint(i), fmt.Sprint(round))); len(o.Failures) > 0 {
				t.Fatal(o.Failures[0].Err)
			}
		}
		return find(t, h, "m")
	}
	s := logged(1)
	if s.Counts.LogLines != logRate || s.Counts.LogLost != 8*20-logRate || len(s.Logs) != keptLogs {
		t.Errorf("%d lines were kept, %d lost, and the status shows %d", s.Counts.LogLines, s.Counts.LogLost, len(s.Logs))
	}
	if text := s.Logs[0].Text; !strings.HasPrefix(text, "line") || strings.ContainsAny(text, "\x1b\n") {
		t.Errorf("a line is %q", text)
	}
	now = now.Add(time.Second)
	if s = logged(2); s.Counts.LogLines != 2*logRate {
		t.Errorf("a second later %d lines were kept", s.Counts.LogLines)
	}
}
