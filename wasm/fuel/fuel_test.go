package fuel_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/chancery-gateway/chancery/wasm/fuel"
	. "github.com/chancery-gateway/chancery/wasm/internal/assemble"
	"github.com/chancery-gateway/chancery/wasm/internal/generate"
)

// machine runs modules, metered or not.
type machine struct {
	runtime wazero.Runtime
}

func newMachine(t testing.TB, config wazero.RuntimeConfig) *machine {
	t.Helper()
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, config.WithMemoryLimitPages(16))
	t.Cleanup(func() { r.Close(ctx) })
	if err := fuel.Install(ctx, r); err != nil {
		t.Fatal(err)
	}
	mix := func(_ context.Context, stack []uint64) { stack[0] = stack[0]*6364136223846793005 + 1442695040888963407 }
	_, err := r.NewHostModuleBuilder(generate.ImportModule).NewFunctionBuilder().
		WithGoFunction(api.GoFunc(mix), []api.ValueType{api.ValueTypeI64}, []api.ValueType{api.ValueTypeI64}).
		Export(generate.ImportName).Instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return &machine{runtime: r}
}

// run instantiates a module, calls its entry with several arguments, and returns everything that can be seen of it: results,
// traps, globals and memory; and the fuel that it used.
func (m *machine) run(t testing.TB, module []byte, budget int64) (trace string, used []int64) {
	t.Helper()
	meter := &fuel.Meter{Budget: budget}
	ctx := meter.Context(context.Background())
	c, err := m.runtime.CompileModule(ctx, module)
	if err != nil {
		t.Fatalf("compile: %v", err)
	}
	defer c.Close(ctx)
	var b strings.Builder
	mod, err := m.runtime.InstantiateModule(ctx, c, wazero.NewModuleConfig().WithName(""))
	used = append(used, meter.Used())
	if err != nil {
		return "instantiate: " + reason(err), used
	}
	defer mod.Close(ctx)
	metered := mod.ExportedGlobal("chancery:fuel") != nil
	for _, args := range [][2]uint64{{0, 0}, {1, 1 << 40}, {0xfffffff0, 77}} {
		if metered {
			meter.Begin(mod)
		}
		out, err := mod.ExportedFunction(generate.Entry).Call(ctx, args[0], args[1])
		used = append(used, meter.Used())
		if err != nil {
			fmt.Fprintln(&b, reason(err))
			break // the state is undefined after a trap
		}
		memory, _ := mod.Memory().Read(0, mod.Memory().Size())
		fmt.Fprintln(&b, out, mod.ExportedGlobal("g32").Get(), mod.ExportedGlobal("g64").Get(), sha256.Sum256(memory))
	}
	return b.String(), used
}

// reason returns the first line of an error: the stack trace names functions by index.
func reason(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	if _, trap, found := strings.Cut(line, "wasm error: "); found {
		return trap
	}
	return line
}

func instrument(t testing.TB, module []byte) []byte {
	t.Helper()
	out, _, err := fuel.Instrument(module)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestEquivalence runs generated modules with and without metering: results, traps, globals and memory are the same, and
// the fuel is the same each time, whether the host is asked now and then or for every unit. It is the part of the two
// fuzzers that every test run does: so many seeds, and each of them also with bytes changed.
func TestEquivalence(t *testing.T) {
	plain, metered := newMachine(t, wazero.NewRuntimeConfig()), newMachine(t, wazero.NewRuntimeConfig())
	trapped := 0
	const seeds = 600
	for seed := range uint64(seeds) {
		module := generate.New(seed)
		want, _ := plain.run(t, module, 0)
		got, used := metered.run(t, instrument(t, module), 1<<40)
		if got != want {
			t.Fatalf("seed %d: the metered module does something else:\n%s\nwant\n%s", seed, got, want)
		}
		restore := fuel.SetPortion(1)
		again, usedAgain := metered.run(t, instrument(t, module), 1<<40)
		restore()
		if again != got || fmt.Sprint(used) != fmt.Sprint(usedAgain) {
			t.Fatalf("seed %d: fuel %v, and %v when the host is asked for each unit\n%s\nand\n%s", seed, used, usedAgain, got, again)
		}
		if strings.Count(want, "\n") < 3 {
			trapped++
		}
	}
	if trapped > seeds*3/4 {
		t.Errorf("%d of %d modules trap early; they test little", trapped, seeds)
	}
	t.Logf("%d of %d modules trap", trapped, seeds)
}

// TestBudgetIsExact gives each call just what it needs, and then one unit less.
func TestBudgetIsExact(t *testing.T) {
	m := newMachine(t, wazero.NewRuntimeConfig())
	tried := 0
	for seed := uint64(0); tried < 40; seed++ {
		module := instrument(t, generate.New(seed))
		free, used := m.run(t, module, 1<<40)
		most := int64(0)
		for _, u := range used {
			most = max(most, u)
		}
		if strings.Count(free, "\n") < 3 || most < 10 {
			continue
		}
		tried++
		if got, _ := m.run(t, module, most); got != free {
			t.Errorf("seed %d with %d units: %s", seed, most, got)
		}
		if got, _ := m.run(t, module, most-1); !strings.Contains(got, "fuel budget used up") {
			t.Errorf("seed %d with %d units, one too few: %s", seed, most-1, got)
		}
	}
}

// base returns a module that the attacks below change.
func base() *Module {
	m := &Module{}
	m.Memory(1, 1)
	m.Global(I64, Const64(0))
	m.Table(1)
	return m
}

// TestAttacks are modules that would become valid, or reach the counter, if the pass believed them.
func TestAttacks(t *testing.T) {
	none := []byte(nil)
	for _, c := range []struct {
		name   string
		module func() []byte
		kind   fuel.Kind
	}{
		{"global one past the end", func() []byte {
			m := base()
			m.Func(none, none, none, Const64(1<<40), With(0x24, 1))
			return m.Bytes()
		}, fuel.Malformed},
		{"second global past the end", func() []byte {
			m := base()
			m.Func(none, none, none, Const64(1<<40), With(0x24, 2))
			return m.Bytes()
		}, fuel.Malformed},
		{"call of a function one past the end", func() []byte {
			m := base()
			m.Func(none, none, none, Call(1))
			return m.Bytes()
		}, fuel.Malformed},
		{"type one past the end", func() []byte {
			m := base()
			m.Func(none, none, none, Const32(0), With(0x11, 1), Op(0, Drop))
			return m.Bytes()
		}, fuel.Malformed},
		{"block of a type one past the end", func() []byte {
			m := base()
			m.Func(none, none, none, Op(0x02, 1), Const64(0), Op(0x0b, Drop))
			return m.Bytes()
		}, fuel.Malformed},
		{"local of the pass", func() []byte {
			m := base()
			m.Func(none, none, none, Const32(0), Const32(0), Const32(0), Fill(), Get(0), Op(Drop))
			return m.Bytes()
		}, fuel.Malformed},
		{"label of the wrapper", func() []byte {
			m := base()
			m.Func(none, none, none, Call(0), Br(1))
			return m.Bytes()
		}, fuel.Malformed},
		{"label of the wrapper in br_table", func() []byte {
			m := base()
			m.Func(none, none, none, Call(0), Const32(0), Op(0x0e, 1, 0, 1))
			return m.Bytes()
		}, fuel.Malformed},
		{"element of a function one past the end", func() []byte {
			m := base()
			m.Func(none, none, none)
			m.Elements(0, 1)
			return m.Bytes()
		}, fuel.Malformed},
		{"element at an offset of a global past the end", func() []byte {
			m := base()
			m.Func(none, none, none)
			return append(m.Bytes(), Section(9, Code(U32(1), Op(0), With(0x23, 1), Op(0x0b, 0)))...)
		}, fuel.Malformed},
		{"export of a global past the end", func() []byte {
			m := base()
			m.Export("g", Global, 1)
			return m.Bytes()
		}, fuel.Malformed},
		{"export of a function one past the end", func() []byte {
			m := base()
			m.Func(none, none, none)
			m.Export("f", Function, 1)
			return m.Bytes()
		}, fuel.Malformed},
		{"start of a function one past the end", func() []byte {
			m := base()
			m.Func(none, none, none)
			m.Start(1)
			return m.Bytes()
		}, fuel.Malformed},
		{"reserved export", func() []byte {
			m := base()
			m.Export(fuel.ExportPrefix+"fuel", Global, 0)
			return m.Bytes()
		}, fuel.Reserved},
		{"reserved import", func() []byte {
			m := &Module{}
			m.Import(fuel.ImportModule, fuel.ImportName, none, []byte{I64})
			return m.Bytes()
		}, fuel.Reserved},
		{"unknown instruction", func() []byte {
			m := base()
			m.Func(none, none, none, Op(0x06, 0x40, 0x0b))
			return m.Bytes()
		}, fuel.Unmetered},
		{"tail call", func() []byte {
			m := base()
			m.Func(none, none, none, With(0x12, 0))
			return m.Bytes()
		}, fuel.Unmetered},
		{"atomic instruction", func() []byte {
			m := base()
			m.Func(none, none, none, Op(0xfe, 0x03, 0x00))
			return m.Bytes()
		}, fuel.Unmetered},
		{"relaxed vector instruction", func() []byte {
			m := base()
			m.Func(none, none, none, Op(0xfd), U32(0x100))
			return m.Bytes()
		}, fuel.Unmetered},
		{"unknown section", func() []byte { return append(base().Bytes(), Section(13, Op(0))...) }, fuel.Unsupported},
		{"section twice", func() []byte { return append(base().Bytes(), Section(6, U32(0))...) }, fuel.Malformed},
		{"64-bit memory", func() []byte { return append((&Module{}).Bytes(), Section(5, Op(1, 4, 1))...) }, fuel.Unsupported},
		{"two memories", func() []byte {
			m := &Module{}
			m.Memory(1, 1)
			m.Memory(1, 1)
			return m.Bytes()
		}, fuel.Unsupported},
		{"component", func() []byte { return []byte("\x00asm\x0d\x00\x01\x00") }, fuel.Unsupported},
		{"too many locals", func() []byte {
			m := base()
			m.Raw(none, none, Code(U32(2), U32(40_000), Op(I32), U32(40_000), Op(I32), Op(0x0b)))
			return m.Bytes()
		}, fuel.Unsupported},
		{"locals beyond 32 bits in sum", func() []byte {
			m := base()
			m.Raw(none, none, Code(U32(2), U32(0xffffffff), Op(I32), U32(2), Op(I32), Op(0x0b)))
			return m.Bytes()
		}, fuel.Unsupported},
		{"body of megabytes", func() []byte {
			m := base()
			m.Func(none, none, none, bytes.Repeat(Op(Nop), 2<<20))
			return m.Bytes()
		}, fuel.Unmetered},
		{"blocks without end", func() []byte {
			m := base()
			m.Func(none, none, none, bytes.Repeat(Op(0x02, 0x40), 9_000), bytes.Repeat(Op(0x0b), 9_000))
			return m.Bytes()
		}, fuel.Unmetered},
		{"loops in loops", func() []byte {
			m := base()
			m.Func(none, none, none, bytes.Repeat(Op(0x03, 0x40), 2_000), bytes.Repeat(Op(0x0b), 2_000))
			return m.Bytes()
		}, fuel.Unmetered},
		{"branches to everywhere", func() []byte {
			m := base()
			m.Func(none, none, none, bytes.Repeat(Code(Const32(0), BrIf(0)), 20_000))
			return m.Bytes()
		}, fuel.Unmetered},
		{"labels without end", func() []byte {
			m := base()
			m.Func(none, none, none, Const32(0), Op(0x0e), U32(100_000), make([]byte, 100_001))
			return m.Bytes()
		}, fuel.Unmetered},
		{"bytes after the end of a function", func() []byte {
			m := base()
			m.Raw(none, none, Op(0, 0x0b, 0x01, 0x0b))
			return m.Bytes()
		}, fuel.Malformed},
		{"function without end", func() []byte {
			m := base()
			m.Raw(none, none, Op(0, 0x01))
			return m.Bytes()
		}, fuel.Malformed},
		{"more functions than bodies", func() []byte {
			m := base()
			m.Func(none, none, none)
			return bytes.Replace(m.Bytes(), Section(3, Op(1, 0)), Section(3, Op(2, 0, 0)), 1)
		}, fuel.Malformed},
		{"vector longer than the module", func() []byte {
			return append((&Module{}).Bytes(), Section(1, Op(0xff, 0xff, 0xff, 0xff, 0x0f))...)
		}, fuel.Malformed},
		{"number of six bytes", func() []byte {
			return append((&Module{}).Bytes(), Section(1, Op(0x80, 0x80, 0x80, 0x80, 0x80, 0x00))...)
		}, fuel.Malformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := fuel.Instrument(c.module())
			r, ok := errors.AsType[*fuel.Refusal](err)
			if !ok || r.Kind != c.kind {
				t.Fatalf("%v; kind %d was wanted", err, c.kind)
			}
		})
	}
}
