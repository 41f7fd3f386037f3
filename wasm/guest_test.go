package wasm

import (
	"os"
	"testing"

	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/fuel"
	. "github.com/chancery-gateway/chancery/wasm/internal/assemble"
	"github.com/chancery-gateway/chancery/wasm/wasmtest"
)

const answerAt = wasmtest.AnswerAt

type guest = wasmtest.Guest

var (
	testManifest = wasmtest.Manifest
	packed       = wasmtest.Packed
	spin         = wasmtest.Spin
)

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
func trapOnX() []byte { return onX(Op(Unreachable)) }

// onX is trapOnX with something else than a trap.
func onX(do []byte) []byte {
	return Code(
		// local 2 walks from the start; local 1 is the size.
		Get(0), Put(2),
		Block(Loop(
			Get(2), Get(0), Get(1), Op(Add32), Op(0x4f), BrIf(1), // past the end
			Get(2), Load32(0), Const32(int32(0x223a2274)), Op(0x46), // t":"
			If(Get(2), Op(0x2d, 0, 4), Const32('x'), Op(0x46), If(do)),
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
