package fuel

import "bytes"

// frame is one open block. pending is the greatest weight that may have passed uncharged on any way to the block's end.
type frame struct {
	op      byte
	pending int
	// entry is the pending weight at the start of an if, which its else starts with.
	entry int
	// depth is the number of blocks that are open in the output within this one's label.
	depth int
	// params are a loop's.
	params []byte
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
	// headed is set when a loop comes before everything else that charges, and all calls are in it: its head then looks at
	// the counters for the function's entry. Ways past the loop call nothing and are no longer than a region.
	headed bool
	inHead int // open blocks at that loop; 0 outside of it
	any    bool
	depth  int // open blocks in the output
}

// branch counts one more place where control may part or meet.
func (b *body) branch() {
	if b.branches++; b.branches > maxBranches {
		b.p.exceeds(b.reader, "a function has more than %d blocks and branches", maxBranches)
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

// loop opens a loop within another, to which it goes back when there are no units left:
//
//	loop
//	  if fuel >= 0
//	    loop
//	      the body; a branch back is: fuel -= 1; if fuel >= 0, to the inner loop, else to the outer one
//	    end
//	  else
//	    tick; go back to the outer loop
//	  end
//	end
//
// The call of the host stands outside of what is run again and again, so that a loop keeps in registers what it had there:
// across a call, wazero keeps nothing.
func (b *body) loop() (params []byte) {
	b.p.report.Loops++
	if b.loops++; b.loops > maxLoops {
		b.p.exceeds(b.reader, "a function has more than %d loops", maxLoops)
	}
	start := len(b.out)
	b.out = append(b.out, opLoop)
	params = b.blockType()
	opened := bytes.Clone(b.out[start:])
	counters := []uint32{b.p.fuelGlobal}
	if !b.any && !b.calls && !b.headed {
		b.headed, b.inHead = true, len(b.frames)+1
		counters = append(counters, b.p.stack)
	}
	b.out = b.p.appendCheck(b.out, counters...)
	b.out = append(append(b.out, opIf), opened[1:]...)
	b.out = append(b.out, opened...)
	b.depth += 3
	return params
}

// back appends a branch back to a loop, with the charge. Conditional ones take a number from the stack, as br_if does.
func (b *body) back(f *frame, conditional bool) {
	open := func() {
		b.out = b.p.appendBlockType(append(b.out, opIf), functionType{f.params, f.params})
		b.depth++
	}
	end := func() {
		b.out = append(b.out, opEnd)
		b.depth--
	}
	if conditional {
		open()
	}
	b.out = appendAdd(b.out, b.p.fuelGlobal, opI64Sub, 1)
	b.out = b.p.appendCheck(b.out, b.p.fuelGlobal)
	open()
	b.out = append(b.out, opBr)
	b.copyLabel(f)
	end()
	b.out = append(b.out, opBr)
	b.copyU32(uint32(b.depth - f.depth + 2)) // the outer loop is beyond the inner one and the if
	if conditional {
		end()
	}
	b.p.report.Charges++
	b.any = true
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

// label notes that control may leave for the label, and returns its block.
func (b *body) label() *frame {
	l := b.u32()
	b.branch()
	if b.err == nil && int64(l) >= int64(len(b.frames)) {
		b.fail(Malformed, "label %d does not exist: %d blocks are open", l, len(b.frames))
	}
	if b.err != nil {
		return &b.frames[0]
	}
	f := &b.frames[len(b.frames)-1-int(l)]
	f.pending = max(f.pending, b.pending)
	return f
}

// copyLabel appends the label of a block.
func (b *body) copyLabel(f *frame) { b.copyU32(uint32(b.depth - f.depth)) }

// blockType copies the type of a block and returns its parameters.
func (b *body) blockType() (params []byte) {
	v := b.signed(33)
	switch {
	case v >= 0:
		if b.err == nil && v >= int64(len(b.p.types)) {
			b.fail(Malformed, "type %d does not exist: the module has %d", v, len(b.p.types))
		}
		if b.err == nil {
			params = b.p.types[v].params
		}
	case v != -64: // 0x40, the empty type
		b.checkValueType(byte(v & 0x7f))
		if v < -64 {
			b.fail(Malformed, "a block has no type of number %d", v)
		}
	}
	b.out = appendSigned(b.out, v)
	return params
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
			if b.branch(); len(b.frames) > maxDepth {
				b.p.exceeds(b.reader, "a function has blocks more than %d deep", maxDepth)
			}
			f := frame{op: op, entry: b.pending}
			if op == opLoop {
				f.params = b.loop()
			} else {
				b.out = append(b.out, op)
				b.blockType()
				b.depth++
			}
			f.depth = b.depth
			b.frames = append(b.frames, f)
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
			b.depth--
			if f.op == opLoop {
				b.out = append(b.p.appendRefill(b.out), opEnd)
				b.depth -= 2
			}
		case opBr, opBrIf:
			if f := b.label(); f.op == opLoop {
				b.back(f, op == opBrIf)
			} else {
				b.out = append(b.out, op)
				b.copyLabel(f)
			}
			if op == opBr {
				b.pending, weight = 0, 0
			}
		case opBrTable:
			labels := make([]*frame, b.count("labels")+1)
			back := false
			for i := range labels {
				labels[i] = b.label()
				back = back || labels[i].op == opLoop
			}
			if back {
				b.charge()
			}
			b.out = append(b.out, op)
			b.copyU32(uint32(len(labels) - 1))
			for _, f := range labels {
				b.copyLabel(f)
			}
			b.pending, weight = 0, 0
		case opReturn:
			// The same as a branch to the function's own label; that is the wrapper's where there is one.
			b.out = append(b.out, opBr)
			b.copyLabel(&b.frames[0])
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
