package fuel

import (
	"bytes"
	"fmt"
	"slices"
)

// maxLocals is the greatest number of locals of a function ("Implementation limitations" of the JavaScript embedding,
// which engines share).
const maxLocals = 50_000

// stackWords is the native stack that a guest may use, in words of 8 bytes, by the estimate of frameWords: 32 MiB.
const stackWords = 4 << 20

// frameWords estimates the native stack of one call: wazero keeps every value that is live across a call in a slot of its
// own, and a function makes at most one value per instruction.
func frameWords(locals, instructions int) int64 { return int64(16 + locals + instructions/2) }

type pass struct {
	*module
	report Report
	// beyond says which bound of a function's shape the module exceeds; nil when it exceeds none.
	beyond *Refusal
	// What the pass adds, all behind the module's own.
	added      []functionType
	tickType   uint32
	fuelGlobal uint32
	stack      uint32
	// globalSection holds the module's own globals, ownGlobals of them.
	globalSection []byte
	ownGlobals    int
}

// Instrument returns the module with metering put in. The input is not changed. The error is a *Refusal.
func Instrument(data []byte) ([]byte, Report, error) {
	m, err := parse(data)
	if err != nil {
		return nil, Report{}, err
	}
	p := &pass{module: m}
	for _, read := range []struct {
		id byte
		by func(*reader) ([]byte, int)
	}{{sectionGlobal, p.readGlobals}, {sectionExport, p.readExports}, {sectionElement, p.readElements}} {
		if err := p.replace(read.id, read.by); err != nil {
			return nil, Report{}, err
		}
	}
	p.fuelGlobal, p.stack = uint32(m.globals), uint32(m.globals)+1
	p.tickType = p.typeOf(functionType{results: []byte{typeI64}})
	for _, read := range []struct {
		id byte
		by func(*reader) ([]byte, int)
	}{{sectionData, p.readData}, {sectionStart, p.readStart}, {sectionCode, p.rewriteCode}} {
		if err := p.replace(read.id, read.by); err != nil {
			return nil, Report{}, err
		}
	}
	if m.sections[sectionCode] == nil && len(m.functions) > m.imported {
		return nil, Report{}, &Refusal{Kind: Malformed, Offset: len(data), Message: "functions are declared, but there is no code section"}
	}
	if p.beyond != nil {
		return nil, Report{}, p.beyond
	}
	out := p.assemble()
	p.report.Functions = len(m.functions) - m.imported
	p.report.Before, p.report.After = len(data), len(out)
	return out, p.report, nil
}

// replace reads a section and puts what comes out in its place; the number is the count of the vector's items, or -1
// where the section is no vector.
func (p *pass) replace(id byte, by func(*reader) ([]byte, int)) *Refusal {
	r := p.sections[id]
	if r == nil {
		return nil
	}
	content, n := by(r)
	if r.end("a section"); r.err != nil {
		return r.err
	}
	if n >= 0 {
		content = append(appendU32(nil, uint32(n)), content...)
	}
	p.sections[id] = &reader{data: content}
	return nil
}

// exceeds notes that a function is beyond what can be metered and compiled in time. The rest of the module is read all the
// same: an interpreter may run it.
func (p *pass) exceeds(r *reader, format string, args ...any) {
	if p.beyond == nil {
		p.beyond = &Refusal{Kind: Unmetered, Offset: r.base + r.at, Message: fmt.Sprintf(format, args...)}
	}
}

// function returns the index that a function of the module has afterwards: the added import is behind the module's own
// imports and before its functions.
func (p *pass) function(i uint32) uint32 {
	if int(i) < p.imported {
		return i
	}
	return i + 1
}

// typeOf returns the index of a function type, which is added where the module has none that is equal.
func (p *pass) typeOf(t functionType) uint32 {
	same := func(o functionType) bool { return bytes.Equal(o.params, t.params) && bytes.Equal(o.results, t.results) }
	if i := slices.IndexFunc(p.types, same); i >= 0 {
		return uint32(i)
	}
	i := slices.IndexFunc(p.added, same)
	if i < 0 {
		i = len(p.added)
		p.added = append(p.added, t)
	}
	return uint32(len(p.types) + i)
}

// appendBlockType appends the type of a block.
func (p *pass) appendBlockType(b []byte, t functionType) []byte {
	switch {
	case len(t.params)+len(t.results) == 0:
		return append(b, blockEmpty)
	case len(t.params) == 0 && len(t.results) == 1:
		return append(b, t.results[0])
	default:
		return appendSigned(b, int64(p.typeOf(t)))
	}
}

// appendCheck appends: whether none of the counters is below zero.
func (p *pass) appendCheck(b []byte, counters ...uint32) []byte {
	for i, c := range counters {
		if b = appendU32(append(b, opGlobalGet), c); i > 0 {
			b = append(b, opI64Or)
		}
	}
	return append(b, opI64Const, 0, opI64GeS)
}

// appendRefill appends what follows the block that is for counters above zero: call the host, and go back to the check.
func (p *pass) appendRefill(b []byte) []byte {
	b = appendU32(append(b, opElse, opCall), uint32(p.imported))
	b = appendU32(append(b, opGlobalSet), p.fuelGlobal)
	return append(b, opBr, 1, opEnd)
}

// appendTick appends: if the number on the stack is below zero, call the host and store what it returns.
func (p *pass) appendTick(b []byte) []byte {
	b = append(b, opI64Const, 0, opI64LtS, opIf, blockEmpty, opCall)
	b = appendU32(b, uint32(p.imported))
	b = append(b, opGlobalSet)
	b = appendU32(b, p.fuelGlobal)
	return append(b, opEnd)
}

// constant copies a constant expression, with function indices moved.
func (p *pass) constant(r *reader, out []byte, globals int) []byte {
	for r.err == nil {
		op := r.byte()
		out = append(out, op)
		switch op {
		case opEnd:
			return out
		case opI32Const:
			out = appendSigned(out, r.signed(32))
		case opI64Const:
			out = appendSigned(out, r.signed(64))
		case opF32Const:
			out = append(out, r.take(4)...)
		case opF64Const:
			out = append(out, r.take(8)...)
		case opGlobalGet:
			out = appendU32(out, r.below(globals, "global"))
		case opRefNull:
			out = append(out, r.byte())
		case opRefFunc:
			out = appendU32(out, p.function(p.functionIndex(r)))
		case opVector:
			if sub := r.u32(); sub != 12 { // v128.const
				r.fail(Unsupported, "instruction 0xfd %d in a constant expression is not known", sub)
			}
			out = append(appendU32(out, 12), r.take(16)...)
		default:
			r.fail(Unsupported, "instruction %#x in a constant expression is not known", op)
		}
	}
	return out
}

func (p *pass) readGlobals(r *reader) ([]byte, int) {
	n, before := r.count("globals"), p.globals
	for i := 0; i < n && r.err == nil; i++ {
		start := r.at
		r.globalType()
		p.globalSection = append(p.globalSection, r.data[start:r.at]...)
		p.globalSection = p.constant(r, p.globalSection, before+i)
	}
	p.ownGlobals, p.globals = n, before+n
	return nil, -1
}

func (p *pass) readExports(r *reader) ([]byte, int) {
	n := r.count("exports")
	for i := 0; i < n && r.err == nil; i++ {
		e := export{name: r.name(), kind: r.byte()}
		if len(e.name) >= len(ExportPrefix) && e.name[:len(ExportPrefix)] == ExportPrefix {
			r.fail(Reserved, "the export %q uses a name that is reserved for metering", e.name)
		}
		switch e.kind {
		case externFunction:
			e.index = p.function(p.functionIndex(r))
		case externTable:
			e.index = r.below(p.tables, "table")
		case externMemory:
			e.index = r.below(p.memories, "memory")
		case externGlobal:
			e.index = r.below(p.globals, "global")
		default:
			r.fail(Malformed, "export %q is of unknown kind %d", e.name, e.kind)
		}
		p.exports = append(p.exports, e)
	}
	return nil, -1
}

func (p *pass) readStart(r *reader) ([]byte, int) {
	return appendU32(nil, p.function(p.functionIndex(r))), -1
}

// readElements copies the element segments in all eight forms ("Element Section", WebAssembly core 5.5.12).
func (p *pass) readElements(r *reader) ([]byte, int) {
	p.elements = r.count("element segments")
	var out []byte
	for i := 0; i < p.elements && r.err == nil; i++ {
		form := r.u32()
		if form > 7 {
			r.fail(Unsupported, "element segment of form %d", form)
			break
		}
		out = appendU32(out, form)
		if form&1 == 0 {
			if form&2 != 0 {
				out = appendU32(out, r.below(p.tables, "table"))
			}
			out = p.constant(r, out, p.globals)
		}
		if form&3 != 0 {
			kind := r.byte()
			if ok := kind == 0 && form < 4 || (kind == 0x70 || kind == 0x6f) && form >= 4; !ok {
				r.fail(Unsupported, "element kind %#x is not known", kind)
			}
			out = append(out, kind)
		}
		n := r.count("elements")
		out = appendU32(out, uint32(n))
		for range n {
			if form < 4 {
				out = appendU32(out, p.function(p.functionIndex(r)))
			} else {
				out = p.constant(r, out, p.globals)
			}
		}
	}
	return out, p.elements
}

func (p *pass) readData(r *reader) ([]byte, int) {
	n := r.count("data segments")
	if p.dataCount >= 0 && n != p.dataCount {
		r.fail(Malformed, "%d data segments, but %d are announced", n, p.dataCount)
	}
	out := make([]byte, 0, len(r.data))
	for i := 0; i < n && r.err == nil; i++ {
		form := r.u32()
		out = appendU32(out, form)
		switch form {
		case 1:
		case 2:
			out = appendU32(out, r.below(p.memories, "memory"))
			fallthrough
		case 0:
			out = p.constant(r, out, p.globals)
		default:
			r.fail(Unsupported, "data segment of form %d", form)
		}
		content := r.take(r.count("bytes"))
		out = append(appendU32(out, uint32(len(content))), content...)
	}
	return out, n
}

func (p *pass) rewriteCode(r *reader) ([]byte, int) {
	n := r.count("function bodies")
	if want := len(p.functions) - p.imported; r.err == nil && n != want {
		r.fail(Malformed, "%d function bodies for %d functions", n, want)
	}
	out := make([]byte, 0, len(r.data)+len(r.data)/4)
	var code []byte
	for i := 0; i < n && r.err == nil; i++ {
		size := r.u32()
		if size > maxBody {
			p.exceeds(r, "a function has %d bytes; %d can be metered", size, maxBody)
		}
		sub := r.sub(size)
		code = p.rewriteFunction(sub, p.types[p.functions[p.imported+i]], code[:0])
		if sub.err != nil {
			r.err = sub.err
			break
		}
		out = append(appendU32(out, uint32(len(code))), code...)
	}
	return out, n
}

// rewriteFunction appends the new body of one function:
//
//	fuel -= 1; stack -= words
//	loop (results)
//	  if (results) fuel >= 0 and stack >= 0
//	    the body, with return turned into a branch out of the block
//	  else
//	    tick; go back to the loop
//	  end
//	end
//	stack += words
//
// Functions that call nothing leave out the stack: they add one frame at most. Those whose first loop looks at the
// counters for them have a block in place of loop and if.
func (p *pass) rewriteFunction(r *reader, t functionType, out []byte) []byte {
	b := &body{reader: r, p: p, locals: len(t.params)}
	groups := r.count("groups of locals")
	start := r.at
	for i := 0; i < groups && r.err == nil; i++ {
		n := r.u32()
		if b.locals += int(n); n > maxLocals || b.locals > maxLocals {
			r.fail(Unsupported, "a function has more than %d locals", maxLocals)
		}
		r.checkValueType(r.byte())
	}
	if r.err != nil {
		return out
	}
	locals := r.data[start:r.at]
	b.scratch = b.locals
	b.rewrite()
	if r.end("a function body"); r.err != nil {
		return out
	}
	p.report.Instructions += b.size

	if b.bulk {
		out = append(appendU32(out, uint32(groups)+1), locals...)
		out = append(appendU32(out, 1), typeI32)
	} else {
		out = append(appendU32(out, uint32(groups)), locals...)
	}
	words := frameWords(b.locals, b.size)
	counters := []uint32{p.fuelGlobal}
	p.report.Charges++
	out = appendAdd(out, p.fuelGlobal, opI64Sub, 1)
	if b.calls {
		out = appendAdd(out, p.stack, opI64Sub, words)
		counters = append(counters, p.stack)
	}
	results := functionType{results: t.results}
	if b.headed {
		out = p.appendBlockType(append(out, opBlock), results)
		out = append(out, b.out...)
	} else {
		out = p.appendBlockType(append(out, opLoop), results)
		out = append(p.appendCheck(out, counters...), opIf)
		out = append(p.appendBlockType(out, results), b.out...)
		out = p.appendRefill(out)
	}
	out = append(out, opEnd)
	if b.calls {
		out = appendAdd(out, p.stack, opI64Add, words)
	}
	return append(out, opEnd)
}

// appendAdd appends: global = global op by.
func appendAdd(b []byte, global uint32, op byte, by int64) []byte {
	b = appendU32(append(b, opGlobalGet), global)
	b = appendSigned(append(b, opI64Const), by)
	b = appendU32(append(b, op, opGlobalSet), global)
	return b
}

// assemble writes the module with everything that was added.
func (p *pass) assemble() []byte {
	out := bytes.Clone(preamble)
	counted := func(n int, content []byte, more ...byte) []byte {
		return append(append(appendU32(nil, uint32(n)), content...), more...)
	}
	var types []byte
	for _, t := range slices.Concat(p.types, p.added) {
		types = append(types, functionForm)
		types = append(appendU32(types, uint32(len(t.params))), t.params...)
		types = append(appendU32(types, uint32(len(t.results))), t.results...)
	}
	out = appendSection(out, sectionType, counted(len(p.types)+len(p.added), types))

	tick := append(appendName(appendName(nil, ImportModule), ImportName), externFunction)
	out = appendSection(out, sectionImport, counted(p.imports+1, p.importSection, appendU32(tick, p.tickType)...))

	if s := p.sections[sectionFunction]; s != nil {
		out = appendSection(out, sectionFunction, s.data)
	}
	if p.tableSection != nil {
		out = appendSection(out, sectionTable, p.tableSection)
	}
	if s := p.sections[sectionMemory]; s != nil {
		out = appendSection(out, sectionMemory, s.data)
	}
	globals := []byte{typeI64, 1, opI64Const, 0, opEnd, typeI64, 1, opI64Const}
	globals = append(appendSigned(globals, stackWords), opEnd)
	out = appendSection(out, sectionGlobal, counted(p.ownGlobals+2, p.globalSection, globals...))

	var exports []byte
	for _, e := range append(p.exports, export{exportFuel, externGlobal, p.fuelGlobal}, export{exportStack, externGlobal, p.stack}) {
		exports = append(appendName(exports, e.name), e.kind)
		exports = appendU32(exports, e.index)
	}
	out = appendSection(out, sectionExport, counted(len(p.exports)+2, exports))
	for _, id := range []byte{sectionStart, sectionElement, sectionDataCount, sectionCode, sectionData} {
		if s := p.sections[id]; s != nil {
			out = appendSection(out, id, s.data)
		}
	}
	return out
}
