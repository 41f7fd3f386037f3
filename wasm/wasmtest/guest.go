package wasmtest

import (
	"encoding/json"

	"github.com/chancery-gateway/chancery/wasm/abi"
	//lint:ignore ST1001 an assembler is read as a list of instructions
	. "github.com/chancery-gateway/chancery/wasm/internal/assemble"
)

// The layout of the test guests' memory: the answer lies at AnswerAt, inputs come to InputAt.
const (
	AnswerAt = 1024
	InputAt  = 65536
)

// Guest describes a test module: small, made of hand-written code, with one answer for everything.
type Guest struct {
	// Manifest is Manifest() where it has no name.
	Manifest abi.Manifest
	Answer   string
	// Translate replaces the code of translate (i32, i32) -> i64.
	Translate []byte
	// Prepare may change the module before its standard parts are added: imports first.
	Prepare func(m *Module)
	// With adds to the module after all functions are there.
	With func(m *Module)
	// Version is what abi_version returns, 1.0 by default; Pages is the memory's least size, 2 by default.
	Version int32
	Pages   uint32
	// SelfTest is the code of self_test () -> i64, which a module without it lacks; Configure and Validate are those of
	// the exports of these names (i32, i32) -> i64.
	SelfTest, Configure, Validate []byte
	NoAlloc                       bool
}

// Manifest returns the manifest of a module that changes virtual hosts.
func Manifest() abi.Manifest {
	return abi.Manifest{
		ABI: "1.0", Name: "test", Version: "1.0.0",
		Phases: []abi.Phase{abi.IR},
		Reads:  []string{"ir/VirtualHost"},
		Writes: []abi.Scope{{Kind: "ir/VirtualHost"}},
	}
}

// Packed is the code that returns an answer at a place.
func Packed(at, size uint32) []byte { return Const64(int64(at)<<32 | int64(size)) }

// Bytes assembles the module.
func (g Guest) Bytes() []byte {
	m := &Module{}
	if g.Prepare != nil {
		g.Prepare(m)
	}
	if g.Manifest.Name == "" {
		g.Manifest = Manifest()
	}
	if g.Version == 0 {
		g.Version = 1 << 16
	}
	if g.Pages == 0 {
		g.Pages = 2
	}
	if g.Translate == nil {
		g.Translate = Packed(AnswerAt, uint32(len(g.Answer)))
	}
	if g.Configure == nil {
		g.Configure = Const64(0)
	}
	m.Memory(g.Pages, 4096)
	text, err := json.Marshal(g.Manifest)
	if err != nil {
		panic(err)
	}
	m.Custom(abi.ManifestSection, text)
	if g.Answer != "" {
		m.Data(AnswerAt, []byte(g.Answer))
	}
	two, one := []byte{I32, I32}, []byte{I32}
	m.Export("abi_version", Function, m.Func(nil, one, nil, Const32(g.Version)))
	if !g.NoAlloc {
		m.Export("alloc", Function, m.Func(one, one, nil, Const32(InputAt)))
	}
	m.Export("free", Function, m.Func(two, nil, nil))
	m.Export("configure", Function, m.Func(two, []byte{I64}, nil, g.Configure))
	m.Export("translate", Function, m.Func(two, []byte{I64}, []byte{I32, I32, I64}, g.Translate))
	if g.Validate != nil {
		m.Export("validate", Function, m.Func(two, []byte{I64}, []byte{I32, I32, I64}, g.Validate))
	}
	if g.SelfTest != nil {
		m.Export("self_test", Function, m.Func(nil, []byte{I64}, nil, g.SelfTest))
	}
	if g.With != nil {
		g.With(m)
	}
	return m.Bytes()
}

// Spin is code that never ends.
var Spin = Code(Loop(Br(0)), Packed(0, 0))

// Trap is code that traps.
var Trap = Op(Unreachable)

// Counting is the code of a translate that keeps state: the digit at a place of the answer goes up with every call.
func Counting(answer string, digit int) []byte {
	at := int32(AnswerAt + digit)
	return Code(Const32(at), Const32(at), Op(0x2d, 0, 0), Const32(1), Op(Add32), Op(0x3a, 0, 0), Packed(AnswerAt, uint32(len(answer))))
}

// TrapEvery is the code of a translate that answers with nothing to do, and traps at every nth call of an instance.
func TrapEvery(n int32) []byte {
	const counter = 8
	return Code(
		Const32(counter), Const32(counter), Load32(0), Const32(1), Op(Add32), Store32(0),
		Const32(counter), Load32(0), Const32(n), Op(0x4e), If(Op(Unreachable)), // i32.ge_s
		Packed(0, 0),
	)
}
