package wasm

import (
	"bytes"
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/fault"
)

// The recorder keeps the last inputs, so many and so many bytes of them at most.
const (
	recordUnits = 64
	recordBytes = 8 << 20
)

// recorder keeps the last units that entered a module, with what came out, to try candidates on.
type recorder struct {
	mu    sync.Mutex
	units []recorded
	bytes int
}

type recorded struct {
	phase  abi.Phase
	unit   Unit
	in     snapshot.Hash
	items  []abi.Item
	answer *answer
	spent  usage
	bytes  int
}

func newRecorder() *recorder { return &recorder{} }

func (r *recorder) add(p abi.Phase, u *Unit, in snapshot.Hash, items []abi.Item, a *answer, spent usage) {
	size := 0
	for i := range items {
		size += len(items[i].Value)
	}
	if size > recordBytes {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.units = slices.DeleteFunc(r.units, func(o recorded) bool {
		same := o.phase == p && o.unit.Key == u.Key
		if same {
			r.bytes -= o.bytes
		}
		return same
	})
	unit := Unit{Key: u.Key, Tenant: u.Tenant, Hash: u.Hash, Items: func() []abi.Item { return items }}
	r.units = append(r.units, recorded{p, unit, in, items, a, spent, size})
	r.bytes += size
	drop := 0
	for len(r.units)-drop > recordUnits || r.bytes > recordBytes {
		r.bytes -= r.units[drop].bytes
		drop++
	}
	r.units = slices.Delete(r.units, 0, drop)
}

func (r *recorder) list() []recorded {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.units)
}

// ShadowReport is what a candidate did on recorded inputs.
type ShadowReport struct {
	// Units is the number of inputs; Changed lists those whose result differs from the live module's.
	Units   int      `json:"units"`
	Changed []string `json:"changed,omitempty"`
	// Fuel and Time are the candidate's over all inputs, LiveFuel and LiveTime what the live module used when they were recorded.
	Fuel     int64         `json:"fuel"`
	LiveFuel int64         `json:"liveFuel"`
	Time     time.Duration `json:"time"`
	LiveTime time.Duration `json:"liveTime"`
}

// slowdownFloor is the time and fuel below which a slowdown is noise.
const (
	slowdownFloorTime = 5 * time.Millisecond
	slowdownFloorFuel = 100_000
)

// shadow runs the candidate over inputs that live served, and judges it. Every input is run in a fresh instance and again
// in one that has served others: two answers are a refusal.
func (h *Host) shadow(ctx context.Context, candidate, live *module) (*ShadowReport, error) {
	report := &ShadowReport{}
	inputs := h.samples(candidate)
	if live != nil {
		inputs = live.record.list()
	}
	for _, r := range inputs {
		if !slices.Contains(candidate.phases, r.phase) {
			continue
		}
		report.Units++
		first, spent, err := candidate.translate(ctx, r.phase, r.unit.Key, r.in, r.items, true)
		if err != nil {
			return report, inUnit(r.unit.Key, err)
		}
		again, _, err := candidate.translate(ctx, r.phase, r.unit.Key, r.in, r.items, false)
		if err != nil {
			return report, inUnit(r.unit.Key, err)
		}
		if difference := differ(first, again); difference != "" {
			return report, inUnit(r.unit.Key, fault.New(fault.Nondeterministic, "two runs on one input differ in %s", difference))
		}
		if first.after != nil && h.config.Validate != nil {
			if err := h.config.Validate(ctx, r.phase, &r.unit, first.after); err != nil {
				return report, inUnit(r.unit.Key, fault.New(fault.Result, "%w", err))
			}
		}
		if live != nil && first.out != r.answer.out {
			report.Changed = append(report.Changed, string(r.phase)+" "+escape(r.unit.Key, 200))
		}
		report.Fuel, report.Time = report.Fuel+spent.fuel, report.Time+spent.time
		report.LiveFuel, report.LiveTime = report.LiveFuel+r.spent.fuel, report.LiveTime+r.spent.time
	}
	bounds := candidate.spec.Shadow
	switch {
	case candidate.spec.Force, live == nil:
	case bounds.MaxChanged > 0 && len(report.Changed) > bounds.MaxChanged:
		return report, fault.New(fault.Diff, "%d of %d recorded units change, %d are allowed; the first are %s", len(report.Changed), report.Units,
			bounds.MaxChanged, strings.Join(report.Changed[:min(3, len(report.Changed))], ", "))
	case bounds.MaxSlowdown > 0 && report.Fuel > slowdownFloorFuel && float64(report.Fuel) > bounds.MaxSlowdown*float64(report.LiveFuel):
		return report, fault.New(fault.Regression, "the candidate uses %d units of fuel where the live module used %d", report.Fuel, report.LiveFuel)
	case bounds.MaxSlowdown > 0 && report.Time > slowdownFloorTime && float64(report.Time) > bounds.MaxSlowdown*float64(report.LiveTime):
		return report, fault.New(fault.Regression, "the candidate takes %v where the live module took %v", report.Time, report.LiveTime)
	}
	return report, nil
}

func inUnit(unit string, err error) error {
	e := *fault.New(fault.Trap, "unit %s: %w", escape(unit, 200), err)
	if c := fault.CodeOf(err); c != nil {
		e.Code = c
	}
	e.Temporary = fault.IsTemporary(err)
	return &e
}

// samples returns units of what is compiled at present, for a module that has no predecessor.
func (h *Host) samples(m *module) []recorded {
	if h.config.Sample == nil {
		return nil
	}
	var out []recorded
	for _, p := range m.phases {
		for _, u := range h.config.Sample(p) {
			if len(out) == recordUnits {
				return out
			}
			if namespaceGranted(m.spec.Grant.Namespaces, u.Tenant) {
				items := slices.Clone(u.Items())
				sortItems(items)
				out = append(out, recorded{phase: p, unit: u, in: u.Hash, items: items, answer: &answer{in: u.Hash, out: u.Hash}})
			}
		}
	}
	return out
}

// differ names a place where two answers differ, or returns "".
func differ(a, b *answer) string {
	if len(a.after) != len(b.after) {
		return "the number of items"
	}
	for i := range a.after {
		x, y := &a.after[i], &b.after[i]
		if keyOf(x) != keyOf(y) || !bytes.Equal(x.Value, y.Value) {
			return keyOf(x).String()
		}
	}
	if len(a.writes) != len(b.writes) {
		return "the number of fields written"
	}
	if !reflect.DeepEqual(a.diagnostics, b.diagnostics) {
		return "the diagnostics"
	}
	return ""
}
