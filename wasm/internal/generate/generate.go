// Package generate makes valid WebAssembly modules at random, for tests of the metering pass: they use every kind of
// control flow, calls of all sorts, several results, memory, tables, globals and bulk operations, and they end.
package generate

import (
	"math/rand/v2"

	//lint:ignore ST1001 an assembler is read as a list of instructions
	. "github.com/chancery-gateway/chancery/wasm/internal/assemble"
)

// ImportModule and ImportName name a function (i64) -> i64 that half of the modules import.
const (
	ImportModule = "env"
	ImportName   = "mix"
)

// Entry is the name of the exported function, (i32, i64) -> i64.
const Entry = "run"

const (
	locals     = 6 // of each type, behind the parameters
	memorySize = 1 << 16
	mask       = memorySize/2 - 64
)

var valueTypes = []byte{I32, I64, F32, F64}

// signature of a generated function.
type signature struct{ params, results []byte }

type generator struct {
	*rand.Rand
	m         *Module
	functions []signature
	tableType uint32
	segment   uint32
	globals   map[byte]uint32

	// Of the function that is being made:
	sig     signature
	kinds   []byte // of all locals
	labels  []byte // open blocks: 0, the type of the result, or isLoop
	loops   []openLoop
	inLoop  int
	calls   int
	counter int
}

// New returns the module of a seed.
func New(seed uint64) []byte {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 7)), m: &Module{}, globals: map[byte]uint32{}}
	if seed%2 == 0 {
		g.m.Import(ImportModule, ImportName, []byte{I64}, []byte{I64})
		g.functions = append(g.functions, signature{[]byte{I64}, []byte{I64}})
	}
	g.m.Memory(1, 4)
	for _, t := range valueTypes {
		g.globals[t] = g.m.Global(t, g.constant(t))
	}
	g.segment = g.m.Passive([]byte("sixteen bytes of"))
	g.m.Data(int32(g.IntN(1000)), []byte("some data to start with"))
	n := 2 + g.IntN(6)
	for range n {
		g.function(g.signature())
	}
	// Functions of one type for call_indirect.
	table := signature{[]byte{I32}, []byte{I64}}
	var indirect []uint32
	for range 4 {
		indirect = append(indirect, g.function(table))
	}
	g.m.Table(8)
	g.m.Elements(int32(g.IntN(4)), indirect...)
	g.tableType = g.m.Type(table.params, table.results) + 1
	entry := g.function(signature{[]byte{I32, I64}, []byte{I64}})
	g.m.Export(Entry, Function, entry)
	for i, t := range valueTypes[:2] {
		g.m.Export([]string{"g32", "g64"}[i], Global, g.globals[t])
	}
	if g.IntN(4) == 0 {
		g.m.Start(g.function(signature{}))
	}
	return g.m.Bytes()
}

func (g *generator) signature() signature {
	var s signature
	for range g.IntN(4) {
		s.params = append(s.params, g.valueType())
	}
	for range g.IntN(4) {
		s.results = append(s.results, g.valueType())
	}
	return s
}

func (g *generator) valueType() byte { return valueTypes[g.IntN(len(valueTypes))] }

// function makes a function and returns its index.
func (g *generator) function(s signature) uint32 {
	g.sig, g.kinds, g.labels, g.inLoop, g.calls, g.counter = s, append([]byte(nil), s.params...), nil, 0, 0, 0
	var own []byte
	for _, t := range valueTypes {
		for range locals {
			own = append(own, t)
		}
	}
	own = append(own, I32, I32, I32, I32) // loop counters
	g.kinds = append(g.kinds, own...)
	code := g.statements(3, 2+g.IntN(6))
	code = append(code, g.values(s.results, 3)...)
	f := g.m.Func(s.params, s.results, own, code)
	g.functions = append(g.functions, s)
	return f
}

func (g *generator) values(types []byte, depth int) []byte {
	var code []byte
	for _, t := range types {
		code = append(code, g.value(t, depth)...)
	}
	return code
}

func (g *generator) constant(t byte) []byte {
	switch t {
	case I32:
		return Const32(int32(g.Uint32()) >> g.IntN(32))
	case I64:
		return Const64(int64(g.Uint64()) >> g.IntN(64))
	case F32:
		return []byte{0x43, 0, byte(g.IntN(256)), byte(g.IntN(128)), 0x3f + byte(g.IntN(3))}
	default:
		return []byte{0x44, 0, 0, 0, 0, 0, byte(g.IntN(256)), 0xe0 + byte(g.IntN(31)), 0x3f}
	}
}

// local returns a local of the type, never a loop counter.
func (g *generator) local(t byte) uint32 {
	for {
		if i := g.IntN(len(g.kinds) - 4); g.kinds[i] == t {
			return uint32(i)
		}
	}
}

// isLoop marks the label of a loop, which only the loop itself branches to.
const isLoop = 1

// inside makes code that has one more open block.
func (g *generator) inside(kind byte, code func() []byte) []byte {
	g.labels = append(g.labels, kind)
	out := code()
	g.labels = g.labels[:len(g.labels)-1]
	return out
}

// label returns an open block without result.
func (g *generator) label() uint32 {
	for {
		if i := g.IntN(len(g.labels)); g.labels[len(g.labels)-1-i] == 0 {
			return uint32(i)
		}
	}
}

// value returns code that pushes a value.
func (g *generator) value(t byte, depth int) []byte {
	if depth <= 0 {
		if g.IntN(2) == 0 {
			return g.constant(t)
		}
		return Get(g.local(t))
	}
	switch g.IntN(12) {
	case 0:
		return With(0x23, g.globals[t])
	case 1: // load
		op := map[byte]byte{I32: 0x28, I64: 0x29, F32: 0x2a, F64: 0x2b}[t]
		return Code(g.address(depth-1), Op(op, 0), U32(uint32(g.IntN(32))))
	case 2: // block with a result
		return g.inside(t, func() []byte {
			return Code(Op(0x02, t), g.statements(depth-1, 1), g.value(t, depth-1), Op(0x0b))
		})
	case 3: // if with a result
		return Code(g.value(I32, depth-1), g.inside(t, func() []byte {
			return Code(Op(0x04, t), g.value(t, depth-1), Op(0x05), g.value(t, depth-1), Op(0x0b))
		}))
	case 4: // select
		return Code(g.value(t, depth-1), g.value(t, depth-1), g.value(I32, depth-1), Op(0x1b))
	case 5: // tee
		return Code(g.value(t, depth-1), Tee(g.local(t)))
	case 6:
		if code := g.call(t, depth); code != nil {
			return code
		}
	case 7: // leave a block early, with a value
		return g.inside(t, func() []byte {
			return Code(Op(0x02, t), g.value(t, depth-1), g.value(I32, depth-1), BrIf(0), Op(Drop), g.value(t, depth-1), Op(0x0b))
		})
	}
	return g.arithmetic(t, depth)
}

func (g *generator) arithmetic(t byte, depth int) []byte {
	pick := func(ops ...byte) byte { return ops[g.IntN(len(ops))] }
	two := func(t, op byte) []byte { return Code(g.value(t, depth-1), g.value(t, depth-1), Op(op)) }
	one := func(t byte, op ...byte) []byte { return Code(g.value(t, depth-1), op) }
	switch t {
	case I32:
		switch g.IntN(6) {
		case 0:
			return one(I32, pick(0x45, 0x67, 0x68, 0x69, 0xc0, 0xc1))
		case 1:
			return two(I64, pick(0x51, 0x53, 0x54, 0x5a))
		case 2:
			return one(I64, 0xa7)
		case 3:
			return one(F32, 0xfc, 0)
		case 4:
			return two(F64, pick(0x61, 0x63, 0x65))
		}
		return two(I32, pick(0x6a, 0x6b, 0x6c, 0x6d, 0x6e, 0x6f, 0x70, 0x71, 0x72, 0x73, 0x74, 0x75, 0x76, 0x77, 0x46, 0x48))
	case I64:
		switch g.IntN(5) {
		case 0:
			return one(I64, pick(0x79, 0x7a, 0x7b, 0xc2, 0xc3, 0xc4))
		case 1:
			return one(I32, pick(0xac, 0xad))
		case 2:
			return one(F64, 0xfc, 6)
		}
		return two(I64, pick(0x7c, 0x7d, 0x7e, 0x7f, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89))
	case F32:
		if g.IntN(3) == 0 {
			return one(I32, 0xb2)
		}
		return two(F32, pick(0x92, 0x93, 0x94))
	default:
		if g.IntN(3) == 0 {
			return one(I64, 0xb9)
		}
		return two(F64, pick(0xa0, 0xa1, 0xa2))
	}
}

// address returns code for an address that mostly lies in memory.
func (g *generator) address(depth int) []byte {
	code := g.value(I32, depth)
	if g.IntN(40) > 0 {
		code = Code(code, Const32(mask), Op(0x71))
	}
	return code
}

// call returns a call of an earlier function that leaves one value of the type on the stack, or nil.
func (g *generator) call(t byte, depth int) []byte {
	if len(g.functions) == 0 || g.inLoop > 0 || g.calls >= 2 {
		return nil
	}
	g.calls++
	if g.tableType > 0 && t == I64 && g.IntN(2) == 0 {
		return Code(g.value(I32, depth-1), g.value(I32, depth-2), Const32(7), Op(0x71), With(0x11, g.tableType-1), Op(0))
	}
	i := g.IntN(len(g.functions))
	s := g.functions[i]
	code := Code(g.values(s.params, depth-1), Call(uint32(i)))
	for range s.results {
		code = append(code, Drop)
	}
	for n := len(s.results) - 1; n >= 0; n-- {
		if s.results[n] == t { // keep this one: drop what is above, and store what is below out of the way
			code = code[:len(code)-len(s.results)]
			for k := len(s.results) - 1; k > n; k-- {
				code = append(code, Drop)
			}
			code = Code(code, Put(g.local(t)))
			for range n {
				code = append(code, Drop)
			}
			return Code(code, Get(g.local(t)))
		}
	}
	return Code(code, g.value(t, depth-1))
}

func (g *generator) statements(depth, n int) []byte {
	var code []byte
	for range n {
		code = append(code, g.statement(depth)...)
	}
	return code
}

// statement returns code that leaves the stack as it is.
func (g *generator) statement(depth int) []byte {
	t := g.valueType()
	if depth <= 0 {
		return Code(g.value(t, 1), Put(g.local(t)))
	}
	switch g.IntN(15) {
	case 0: // store
		op := map[byte]byte{I32: 0x36, I64: 0x37, F32: 0x38, F64: 0x39}[t]
		return Code(g.address(depth-1), g.value(t, depth-1), Op(op, 0), U32(uint32(g.IntN(32))))
	case 1:
		return Code(g.value(t, depth-1), With(0x24, g.globals[t]))
	case 2: // block, left early
		return g.inside(0, func() []byte {
			return Block(g.statements(depth-1, 1), g.value(I32, depth-1), BrIf(g.label()), g.statements(depth-1, 1))
		})
	case 3, 4:
		if g.counter < 4 {
			return g.loop(depth)
		}
	case 5: // if, else
		return Code(g.value(I32, depth-1), g.inside(0, func() []byte {
			return Code(Op(0x04, 0x40), g.statements(depth-1, 2), Op(0x05), g.statements(depth-1, 1), Op(0x0b))
		}))
	case 6: // br_table over three blocks
		return g.inside(0, func() []byte {
			after := g.statements(depth-1, 1)
			return g.inside(0, func() []byte {
				between := g.statements(depth-1, 1)
				return g.inside(0, func() []byte {
					return Block(Block(Block(g.value(I32, depth-1), Op(0x0e, 3, 0, 1, 2, 1)), between), after)
				})
			})
		})
	case 7: // return in the middle
		return Code(g.value(I32, depth-1), Const32(15), Op(0x71, Eqz32), If(g.values(g.sig.results, 1), Op(Return)))
	case 8: // memory.fill and memory.copy
		if g.IntN(2) == 0 {
			return Code(g.address(depth-1), g.value(I32, 0), g.length(), Fill())
		}
		return Code(g.address(depth-1), g.address(0), g.length(), Copy())
	case 9: // memory.init
		return Code(g.address(depth-1), Const32(int32(g.IntN(8))), Const32(int32(g.IntN(8))), Op(0xfc, 8), U32(g.segment), Op(0))
	case 10:
		return Code(Const32(int32(g.IntN(2))), Grow(), Put(g.local(I32)))
	case 11:
		return Code(Op(0x3f, 0), Put(g.local(I32)))
	case 13:
		if len(g.loops) > 0 {
			return g.again()
		}
	case 12: // dead code
		return Block(Br(0), Op(Unreachable), g.statements(0, 1))
	}
	return Code(g.value(t, depth), Put(g.local(t)))
}

func (g *generator) length() []byte { return Code(g.value(I32, 0), Const32(1023), Op(0x71)) }

// openLoop is a loop that may be gone back to from anywhere in it.
type openLoop struct {
	labels  int // open blocks, the loop's own included
	counter uint32
}

// loop returns a loop of a few rounds, in one of the forms in which a loop goes back: conditionally, always, by a table, and
// with a value on the stack.
func (g *generator) loop(depth int) []byte {
	counter := uint32(len(g.kinds) - 4 + g.counter)
	g.counter++
	form := g.IntN(4)
	g.inLoop++
	body := g.inside(isLoop, func() []byte {
		if form < 3 {
			g.loops = append(g.loops, openLoop{len(g.labels), counter})
			defer func() { g.loops = g.loops[:len(g.loops)-1] }()
		}
		return g.statements(depth-1, 1+g.IntN(3))
	})
	g.inLoop--
	start := Code(Const32(int32(1+g.IntN(8))), Put(counter))
	again := Code(Get(counter), Const32(1), Op(Sub32), Tee(counter), Const32(0), Op(GtS32))
	switch form {
	case 0:
		return Code(start, Loop(body, again, BrIf(0)))
	case 1:
		return Code(start, Loop(body, again, If(Br(1))))
	case 2:
		return Code(start, Loop(body, Block(again, Op(0x0e, 1, 0, 1))))
	default:
		t := g.valueType()
		through := S(int64(g.m.Type([]byte{t}, []byte{t})))
		return Code(start, g.value(t, 1), Op(0x03), through, Put(g.local(t)), body, g.value(t, depth-1), again, BrIf(0), Op(0x0b), Put(g.local(t)))
	}
}

// again returns what goes back to an open loop from where it stands, while there are rounds left.
func (g *generator) again() []byte {
	l := g.loops[g.IntN(len(g.loops))]
	back := uint32(len(g.labels)-l.labels) + 1
	return Code(Get(l.counter), Const32(1), Op(Sub32), Tee(l.counter), Const32(0), Op(GtS32), If(Br(back)))
}
