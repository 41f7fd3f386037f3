package fuel

// Opcodes that the pass treats each in its own way ("Instructions", WebAssembly core 5.4).
const (
	opUnreachable  = 0x00
	opBlock        = 0x02
	opLoop         = 0x03
	opIf           = 0x04
	opElse         = 0x05
	opEnd          = 0x0b
	opBr           = 0x0c
	opBrIf         = 0x0d
	opBrTable      = 0x0e
	opReturn       = 0x0f
	opCall         = 0x10
	opCallIndirect = 0x11
	opSelectTyped  = 0x1c
	opLocalGet     = 0x20
	opLocalTee     = 0x22
	opGlobalGet    = 0x23
	opGlobalSet    = 0x24
	opTableGet     = 0x25
	opTableSet     = 0x26
	opLoadFirst    = 0x28
	opStoreLast    = 0x3e
	opMemorySize   = 0x3f
	opMemoryGrow   = 0x40
	opI32Const     = 0x41
	opI64Const     = 0x42
	opF32Const     = 0x43
	opF64Const     = 0x44
	opPlainLast    = 0xc4
	opI64LtS       = 0x53
	opI64Add       = 0x7c
	opI64Sub       = 0x7d
	opI64Or        = 0x84
	opI64ShrU      = 0x88
	opI64Mul       = 0x7e
	opI64ExtendU   = 0xad
	opRefNull      = 0xd0
	opRefIsNull    = 0xd1
	opRefFunc      = 0xd2
	opMisc         = 0xfc
	opVector       = 0xfd

	blockEmpty = 0x40
	typeI32    = 0x7f
	typeI64    = 0x7e
)

// What an instruction weighs. region is the weight of code that may run between two charges, so that one unit of the
// counter stands for at most about region simple instructions, whatever the shape of the code.
const (
	region       = 256
	weightPlain  = 1
	weightMemory = 2
	weightCall   = 4
	weightDivide = 8
)

// The price of bulk operations: bytes and table elements per unit, as powers of two, and units per page of memory.grow.
const (
	bytesShift    = 8
	elementsShift = 5
	pageUnits     = 64 << 10 >> bytesShift
)

// Bounds of one function. The time that wazero takes to compile a function grows with the square of its branches, and with
// the cube of the loops that are nested in it, and nothing interrupts it: at these bounds it is some ten seconds. The largest
// function of a Go guest of 3 MB has 30 KB, 800 blocks 550 deep, and one loop.
const (
	maxBody     = 1 << 20 // bytes
	maxBranches = 10_000  // blocks, branches and labels of br_table
	maxLoops    = 1_000
	maxDepth    = 4_000
)

// frame is one open block. pending is the greatest weight that may have passed uncharged on any way to the block's end.
type frame struct {
	op      byte
	pending int
	// entry is the pending weight at the start of an if, which its else starts with.
	entry int
}

// body rewrites one function.
type body struct {
	*reader
	p      *pass
	out    []byte
	locals int
	// scratch is the local that holds the length of a bulk operation.
	scratch int
	bulk    bool
	calls   bool
	frames  []frame
	pending int
	size    int // instructions
	// branches and loops are counted against the bounds.
	branches, loops int
	// headed is set when a loop comes before everything else that charges, and all calls are in it: its head then charges
	// for the function's entry. Ways past the loop call nothing and are no longer than a region.
	headed bool
	inHead int // open blocks at that loop; 0 outside of it
	any    bool
}

// branch counts one more place where control may part or meet.
func (b *body) branch() {
	if b.branches++; b.branches > maxBranches {
		b.fail(Unsupported, "a function has more than %d blocks and branches", maxBranches)
	}
}

func (b *body) copyU32(v uint32) { b.out = appendU32(b.out, v) }

// charge takes one unit from the counter and asks the host when there are none left.
func (b *body) charge() {
	b.out = append(b.out, opGlobalGet)
	b.copyU32(b.p.fuelGlobal)
	b.out = append(b.out, opI64Const, 1, opI64Sub)
	b.refill()
}

// refill stores the counter that is on the stack, and calls the host when it is below zero.
func (b *body) refill() {
	b.out = append(b.out, opGlobalSet)
	b.copyU32(b.p.fuelGlobal)
	b.out = append(b.out, opGlobalGet)
	b.copyU32(b.p.fuelGlobal)
	b.out = b.p.appendTick(b.out)
	b.p.report.Charges++
	b.pending, b.any = 0, true
}

// call notes a call.
func (b *body) call() {
	b.calls = true
	if b.inHead == 0 {
		b.headed = false
	}
}

// chargeLength takes units for the length on the stack (bytes, elements or pages), which stays there.
func (b *body) chargeLength(op byte, by int64) {
	b.bulk = true
	b.out = append(b.out, opLocalTee)
	b.copyU32(uint32(b.scratch))
	b.out = append(b.out, opGlobalGet)
	b.copyU32(b.p.fuelGlobal)
	b.out = append(b.out, opLocalGet)
	b.copyU32(uint32(b.scratch))
	b.out = append(b.out, opI64ExtendU, opI64Const)
	b.out = appendSigned(b.out, by)
	b.out = append(b.out, op, opI64Const, 1, opI64Add, opI64Sub)
	b.refill()
}

// label notes that control may leave for the label and returns the label's number.
func (b *body) label() uint32 {
	l := b.u32()
	b.branch()
	if b.err == nil && int64(l) >= int64(len(b.frames)) {
		b.fail(Malformed, "label %d does not exist: %d blocks are open", l, len(b.frames))
	}
	if b.err != nil {
		return 0
	}
	f := &b.frames[len(b.frames)-1-int(l)]
	f.pending = max(f.pending, b.pending)
	return l
}

// blockType copies the type of a block.
func (b *body) blockType() {
	v := b.signed(33)
	switch {
	case v >= 0:
		if b.err == nil && v >= int64(len(b.p.types)) {
			b.fail(Malformed, "type %d does not exist: the module has %d", v, len(b.p.types))
		}
	case v != -64: // 0x40, the empty type
		b.checkValueType(byte(v & 0x7f))
		if v < -64 {
			b.fail(Malformed, "a block has no type of number %d", v)
		}
	}
	b.out = appendSigned(b.out, v)
}

// memarg copies alignment and offset of a memory access.
func (b *body) memarg() {
	align := b.u32()
	if align >= 32 {
		b.fail(Unmetered, "memory access with alignment %d: only one memory is supported", align)
	}
	b.copyU32(align)
	b.copyU32(b.u32())
}

// zero copies a reserved zero byte.
func (b *body) zero() {
	if v := b.byte(); v != 0 {
		b.fail(Unmetered, "memory %d is used; one memory is supported", v)
	}
	b.out = append(b.out, 0)
}

// rewrite copies the instructions up to the end of the function, with charges put in. The final end is consumed, not copied.
func (b *body) rewrite() {
	b.frames = append(b.frames, frame{op: opBlock})
	for b.err == nil {
		op := b.byte()
		b.size++
		weight := weightPlain
		switch op {
		case opUnreachable:
			b.out = append(b.out, op)
			b.pending, weight = 0, 0
		case opBlock, opLoop, opIf:
			b.out = append(b.out, op)
			b.blockType()
			if b.branch(); len(b.frames) > maxDepth {
				b.fail(Unsupported, "a function has blocks more than %d deep", maxDepth)
			}
			b.frames = append(b.frames, frame{op: op, entry: b.pending})
			if op == opLoop {
				b.p.report.Loops++
				if b.loops++; b.loops > maxLoops {
					b.fail(Unsupported, "a function has more than %d loops", maxLoops)
				}
				if !b.any && !b.calls {
					b.headed, b.inHead = true, len(b.frames)
				}
				b.charge()
			}
		case opElse:
			f := &b.frames[len(b.frames)-1]
			if f.op != opIf {
				b.fail(Malformed, "else without if")
				return
			}
			f.op = opElse
			f.pending = max(f.pending, b.pending)
			b.pending = f.entry
			b.out = append(b.out, op)
		case opEnd:
			f := b.frames[len(b.frames)-1]
			if len(b.frames) == b.inHead {
				b.inHead = 0
			}
			b.frames = b.frames[:len(b.frames)-1]
			if f.op != opLoop {
				b.pending = max(b.pending, f.pending)
			}
			if f.op == opIf {
				b.pending = max(b.pending, f.entry)
			}
			if len(b.frames) == 0 {
				return
			}
			b.out = append(b.out, op)
		case opBr, opBrIf:
			b.out = append(b.out, op)
			b.copyU32(b.label())
			if op == opBr {
				b.pending, weight = 0, 0
			}
		case opBrTable:
			b.out = append(b.out, op)
			n := b.count("labels")
			b.copyU32(uint32(n))
			for i := 0; i <= n && b.err == nil; i++ {
				b.copyU32(b.label())
			}
			b.pending, weight = 0, 0
		case opReturn:
			// The same as a branch to the function's own label; that is the wrapper's where there is one.
			b.out = append(b.out, opBr)
			b.copyU32(uint32(len(b.frames) - 1))
			b.pending, weight = 0, 0
		case opCall:
			b.call()
			weight = weightCall
			b.out = append(b.out, op)
			b.copyU32(b.p.function(b.p.functionIndex(b.reader)))
		case opCallIndirect:
			b.call()
			weight = weightCall
			b.out = append(b.out, op)
			b.copyU32(b.p.typeIndex(b.reader))
			b.copyU32(b.below(b.p.tables, "table"))
		case opSelectTyped:
			b.out = append(b.out, op)
			types := b.valueTypes()
			b.copyU32(uint32(len(types)))
			b.out = append(b.out, types...)
		case opGlobalGet, opGlobalSet:
			b.out = append(b.out, op)
			b.copyU32(b.below(b.p.globals, "global"))
		case opTableGet, opTableSet:
			b.out = append(b.out, op)
			b.copyU32(b.below(b.p.tables, "table"))
		case opMemorySize:
			b.out = append(b.out, op)
			b.zero()
		case opMemoryGrow:
			b.chargeLength(opI64Mul, pageUnits)
			b.out = append(b.out, op)
			b.zero()
		case opI32Const:
			b.out = appendSigned(append(b.out, op), b.signed(32))
		case opI64Const:
			b.out = appendSigned(append(b.out, op), b.signed(64))
		case opF32Const:
			b.out = append(append(b.out, op), b.take(4)...)
		case opF64Const:
			b.out = append(append(b.out, op), b.take(8)...)
		case opRefNull:
			t := b.byte()
			if t != 0x70 && t != 0x6f {
				b.fail(Unsupported, "reference type %#x is not known", t)
			}
			b.out = append(b.out, op, t)
		case opRefIsNull:
			b.out = append(b.out, op)
		case opRefFunc:
			b.out = append(b.out, op)
			b.copyU32(b.p.function(b.p.functionIndex(b.reader)))
		case opMisc:
			weight = b.misc()
		case opVector:
			weight = b.vector()
		default:
			weight = b.plain(op)
		}
		if b.pending += weight; b.pending >= region {
			b.charge()
		}
	}
}

// plain copies an instruction that needs nothing else, and returns its weight.
func (b *body) plain(op byte) int {
	b.out = append(b.out, op)
	switch {
	case op == 0x01, op == 0x1a, op == 0x1b: // nop, drop, select
	case op >= opLocalGet && op <= opLocalTee:
		b.copyU32(b.below(b.locals, "local"))
	case op >= opLoadFirst && op <= opStoreLast:
		b.memarg()
		return weightMemory
	case op > opF64Const && op <= opPlainLast:
		switch op {
		case 0x6d, 0x6e, 0x6f, 0x70, 0x7f, 0x80, 0x81, 0x82, 0x91, 0x95, 0x9f, 0xa3: // div, rem, sqrt
			return weightDivide
		}
	default:
		b.at--
		b.fail(Unmetered, "instruction %#x is not known", op)
	}
	return weightPlain
}

// misc copies an instruction with prefix 0xfc: saturating truncations and bulk operations.
func (b *body) misc() int {
	sub := b.u32()
	head := func() {
		b.out = append(b.out, opMisc)
		b.copyU32(sub)
	}
	switch sub {
	case 0, 1, 2, 3, 4, 5, 6, 7:
		head()
	case 8: // memory.init
		b.chargeLength(opI64ShrU, bytesShift)
		head()
		b.copyU32(b.below(max(b.p.dataCount, 0), "data segment"))
		b.zero()
	case 9: // data.drop
		head()
		b.copyU32(b.below(max(b.p.dataCount, 0), "data segment"))
	case 10: // memory.copy
		b.chargeLength(opI64ShrU, bytesShift)
		head()
		b.zero()
		b.zero()
	case 11: // memory.fill
		b.chargeLength(opI64ShrU, bytesShift)
		head()
		b.zero()
	case 12: // table.init
		b.chargeLength(opI64ShrU, elementsShift)
		head()
		b.copyU32(b.below(b.p.elements, "element segment"))
		b.copyU32(b.below(b.p.tables, "table"))
	case 13: // elem.drop
		head()
		b.copyU32(b.below(b.p.elements, "element segment"))
	case 14: // table.copy
		b.chargeLength(opI64ShrU, elementsShift)
		head()
		b.copyU32(b.below(b.p.tables, "table"))
		b.copyU32(b.below(b.p.tables, "table"))
	case 15, 17: // table.grow, table.fill
		b.chargeLength(opI64ShrU, elementsShift)
		head()
		b.copyU32(b.below(b.p.tables, "table"))
	case 16: // table.size
		head()
		b.copyU32(b.below(b.p.tables, "table"))
	default:
		b.fail(Unmetered, "instruction 0xfc %d is not known", sub)
	}
	return weightPlain
}

// vector copies an instruction with prefix 0xfd (128-bit SIMD as in WebAssembly 2.0, without the relaxed ones).
func (b *body) vector() int {
	sub := b.u32()
	b.out = append(b.out, opVector)
	b.copyU32(sub)
	switch {
	case sub <= 11, sub == 92, sub == 93:
		b.memarg()
		return weightMemory
	case sub == 12, sub == 13:
		b.out = append(b.out, b.take(16)...)
	case sub >= 21 && sub <= 34:
		b.out = append(b.out, b.byte())
	case sub >= 84 && sub <= 91:
		b.memarg()
		b.out = append(b.out, b.byte())
		return weightMemory
	case sub > 255:
		b.fail(Unmetered, "instruction 0xfd %d is not known", sub)
	}
	return 2 * weightPlain
}
