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
	opI64GeS       = 0x59
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
	maxLoops    = 500
	maxDepth    = 4_000
)

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
