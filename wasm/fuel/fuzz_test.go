package fuel_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
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
	r := validator(ctx)
	f.Cleanup(func() { r.Close(ctx) })
	f.Fuzz(func(t *testing.T, module []byte) { checkValidity(t, r, module) })
}

// TestMutations does the same for a fixed number of changes, in every run of the tests.
func TestMutations(t *testing.T) {
	ctx := context.Background()
	r := validator(ctx)
	defer r.Close(ctx)
	taken, refused := 0, 0
	for seed := range uint64(300) {
		module := generate.New(seed)
		random := rand.New(rand.NewPCG(seed, 11))
		for range 40 {
			changed := bytes.Clone(module)
			for range 1 + random.IntN(3) {
				switch at := random.IntN(len(changed)); random.IntN(4) {
				case 0:
					changed[at] ^= 1 << random.IntN(8)
				case 1:
					changed[at] = byte(random.IntN(256))
				case 2:
					changed = slices.Insert(changed, at, byte(random.IntN(256)))
				default:
					changed = slices.Delete(changed, at, at+1)
				}
			}
			if checkValidity(t, r, changed) {
				taken++
			} else {
				refused++
			}
		}
	}
	if t.Logf("%d taken, %d refused", taken, refused); taken < 500 || refused < 500 {
		t.Error("one of the two is hardly tested")
	}
}

func validator(ctx context.Context) wazero.Runtime {
	return wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithMemoryLimitPages(16).WithCoreFeatures(api.CoreFeaturesV2))
}

// checkValidity reports whether the pass takes the module. If so, it is valid afterwards exactly if it was before.
func checkValidity(t *testing.T, r wazero.Runtime, module []byte) bool {
	t.Helper()
	valid := func(module []byte) error {
		c, err := r.CompileModule(context.Background(), module)
		if err == nil {
			c.Close(context.Background())
		}
		return err
	}
	out, report, err := fuel.Instrument(module)
	if err != nil {
		if _, ok := errors.AsType[*fuel.Refusal](err); !ok {
			t.Fatalf("an error without kind: %v", err)
		}
		return false
	}
	before := valid(module)
	after := valid(out)
	if (before == nil) != (after == nil) {
		t.Fatalf("validity changed:\nbefore: %v\nafter:  %v\nmodule: %x", before, after, module)
	}
	if report.After != len(out) || report.Before != len(module) {
		t.Fatalf("the report says %+v", report)
	}
	if _, _, err := fuel.Instrument(out); err == nil {
		t.Fatal("a metered module was metered again: its reserved names must be refused")
	}
	return true
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
		for _, portion := range []int64{1, 2048} {
			restore := fuel.SetPortion(portion)
			got, _ := m.run(t, instrument(t, module), 1<<40)
			restore()
			if got != want {
				t.Fatalf("seed %d: the metered module does something else:\n%s\nwant\n%s", seed, got, want)
			}
		}
	})
}
