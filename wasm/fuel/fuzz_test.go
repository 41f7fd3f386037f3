package fuel_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/chancery-gateway/chancery/wasm/fuel"
	"github.com/chancery-gateway/chancery/wasm/internal/generate"
)

// FuzzInstrument changes modules byte by byte. What the pass takes, wazero judges the same before and after it. wazero is
// never shown what the pass refuses: it allocates what a vector announces before it looks at what follows, so that a
// module of a kilobyte can end the process for want of memory.
func FuzzInstrument(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(generate.New(seed))
	}
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithMemoryLimitPages(16).WithCoreFeatures(api.CoreFeaturesV2))
	f.Cleanup(func() { r.Close(ctx) })
	valid := func(module []byte) error {
		c, err := r.CompileModule(ctx, module)
		if err == nil {
			c.Close(ctx)
		}
		return err
	}
	f.Fuzz(func(t *testing.T, module []byte) {
		out, report, err := fuel.Instrument(module)
		if err != nil {
			if _, ok := errors.AsType[*fuel.Refusal](err); !ok {
				t.Fatalf("an error without kind: %v", err)
			}
			return
		}
		before := valid(module)
		after := valid(out)
		if (before == nil) != (after == nil) {
			t.Fatalf("validity changed:\nbefore: %v\nafter:  %v", before, after)
		}
		if report.After != len(out) || report.Before != len(module) {
			t.Fatalf("the report says %+v", report)
		}
		if _, _, err := fuel.Instrument(out); err == nil {
			t.Fatal("a metered module was metered again: its reserved names must be refused")
		}
	})
}

// FuzzEquivalence runs generated modules with and without metering.
func FuzzEquivalence(f *testing.F) {
	for seed := range uint64(10) {
		f.Add(seed + 1000)
	}
	m := newMachine(f, wazero.NewRuntimeConfigInterpreter())
	f.Fuzz(func(t *testing.T, seed uint64) {
		module := generate.New(seed)
		want, _ := m.run(t, module, 0)
		if got, _ := m.run(t, instrument(t, module), 1<<40); got != want {
			t.Fatalf("seed %d: the metered module does something else:\n%s\nwant\n%s", seed, got, want)
		}
	})
}
