package wasm

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/fuel"
	. "github.com/chancery-gateway/chancery/wasm/internal/assemble"
)

// The layout of the test guests' memory: the answer lies at answerAt, inputs come to inputAt.
const (
	answerAt = 1024
	inputAt  = 65536
)

// guest describes a test module: small, made of hand-written code, with one answer for everything.
type guest struct {
	manifest abi.Manifest
	answer   string
	// translate replaces the code of translate (i32, i32) -> i64.
	translate []byte
	// prepare may change the module before its standard parts are added: imports first.
	prepare func(m *Module)
	// with adds to the module after all functions are there.
	with                func(m *Module)
	version             int32
	pages               uint32
	selfTest, configure []byte
	noAlloc             bool
}

func testManifest() abi.Manifest {
	return abi.Manifest{
		ABI: "1.0", Name: "test", Version: "1.0.0",
		Phases: []abi.Phase{abi.IR},
		Reads:  []string{"ir/VirtualHost"},
		Writes: []abi.Scope{{Kind: "ir/VirtualHost"}},
	}
}

// packed is the code that returns an answer at a place.
func packed(at, size uint32) []byte { return Const64(int64(at)<<32 | int64(size)) }

func (g guest) bytes() []byte {
	m := &Module{}
	if g.prepare != nil {
		g.prepare(m)
	}
	if g.manifest.Name == "" {
		g.manifest = testManifest()
	}
	if g.version == 0 {
		g.version = 1 << 16
	}
	if g.pages == 0 {
		g.pages = 2
	}
	if g.translate == nil {
		g.translate = packed(answerAt, uint32(len(g.answer)))
	}
	if g.configure == nil {
		g.configure = Const64(0)
	}
	m.Memory(g.pages, 4096)
	text, err := json.Marshal(g.manifest)
	if err != nil {
		panic(err)
	}
	m.Custom(abi.ManifestSection, text)
	if g.answer != "" {
		m.Data(answerAt, []byte(g.answer))
	}
	two, one := []byte{I32, I32}, []byte{I32}
	m.Export("abi_version", Function, m.Func(nil, one, nil, Const32(g.version)))
	if !g.noAlloc {
		m.Export("alloc", Function, m.Func(one, one, nil, Const32(inputAt)))
	}
	m.Export("free", Function, m.Func(two, nil, nil))
	m.Export("configure", Function, m.Func(two, []byte{I64}, nil, g.configure))
	m.Export("translate", Function, m.Func(two, []byte{I64}, []byte{I32, I32, I64}, g.translate))
	if g.selfTest != nil {
		m.Export("self_test", Function, m.Func(nil, []byte{I64}, nil, g.selfTest))
	}
	if g.with != nil {
		g.with(m)
	}
	return m.Bytes()
}

// withManifest returns a module whose manifest section is replaced by a text.
func withManifest(module []byte, text string) []byte {
	sections, err := fuel.CustomSections(module)
	if err != nil {
		panic(err)
	}
	size := len(fuel.AppendSection(nil, sections[0]))
	return fuel.AppendSection(module[:len(module)-size], fuel.Section{Name: abi.ManifestSection, Content: []byte(text)})
}

// withSection returns a module with the manifest of another.
func withSection(from, module []byte) []byte {
	sections, err := fuel.CustomSections(from)
	if err != nil {
		panic(err)
	}
	return fuel.AppendSection(module, sections[0])
}

func writeTestFile(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// trapOnX is the code of a translate that traps when the unit's content starts with an x. The request is
// {"phase":…,"items":[{…,"value":{"name":"vh","content":"x…"}}]}, and so the content starts behind the last "content":".
func trapOnX() []byte {
	return Code(
		// local 2 walks from the start; local 1 is the size.
		Get(0), Put(2),
		Block(Loop(
			Get(2), Get(0), Get(1), Op(Add32), Op(0x4f), BrIf(1), // past the end
			Get(2), Load32(0), Const32(int32(0x223a2274)), Op(0x46), // t":"
			If(Get(2), Op(0x2d, 0, 4), Const32('x'), Op(0x46), If(Op(Unreachable))),
			Get(2), Const32(1), Op(Add32), Put(2),
			Br(0),
		)),
		packed(answerAt, uint32(len(setHeader("fine")))),
	)
}

// countdown is the code of a translate that goes round a loop n times.
func countdown(n int32) []byte {
	return Code(Const32(n), Put(2), Loop(Get(2), Const32(1), Op(Sub32), Tee(2), BrIf(0)), packed(0, 0))
}
