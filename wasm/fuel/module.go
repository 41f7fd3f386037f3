package fuel

import "bytes"

// Section identifiers ("Sections", WebAssembly core 5.5.2).
const (
	sectionCustom byte = iota
	sectionType
	sectionImport
	sectionFunction
	sectionTable
	sectionMemory
	sectionGlobal
	sectionExport
	sectionStart
	sectionElement
	sectionCode
	sectionData
	sectionDataCount
)

// rank is the position that each section must have in the file.
var rank = [...]int{
	sectionType: 1, sectionImport: 2, sectionFunction: 3, sectionTable: 4, sectionMemory: 5, sectionGlobal: 6, sectionExport: 7,
	sectionStart: 8, sectionElement: 9, sectionDataCount: 10, sectionCode: 11, sectionData: 12,
}

// Kinds of imports and exports.
const (
	externFunction byte = iota
	externTable
	externMemory
	externGlobal
)

const functionForm = 0x60

// Bounds of tables: their elements are the host's memory.
const (
	maxTable  = 1 << 20
	maxTables = 16
)

var preamble = []byte{0, 'a', 's', 'm', 1, 0, 0, 0}

type functionType struct{ params, results []byte }

type export struct {
	name  string
	kind  byte
	index uint32
}

// module is what the pass has to know of a module. Sections that it does not change are kept as they came.
type module struct {
	sections [sectionDataCount + 1]*reader
	custom   []custom

	types       []functionType
	functions   []uint32 // type index of every function, imported ones first
	imported    int      // number of imported functions
	imports     int      // number of imports
	importNames []importName
	// tableSection holds the tables with bounded sizes.
	tableSection []byte
	// importSection holds the imports as they came, without their number.
	importSection []byte
	tables        int
	memories      int
	pages         uint32 // least size of the memory
	globals       int
	exports       []export
	elements      int
	dataCount     int // -1 where the module does not say
}

type importName struct {
	module, name string
	kind         byte
}

type custom struct {
	name       string
	content    []byte
	start, end int // of the whole section in the module
}

// split cuts a module into its sections without reading them.
func split(data []byte) (*module, *Refusal) {
	if len(data) < len(preamble) || !bytes.Equal(data[:4], preamble[:4]) {
		return nil, &Refusal{Kind: Malformed, Message: "this is no WebAssembly module: it does not start with \\0asm"}
	}
	if !bytes.Equal(data[:8], preamble) {
		if data[6] == 1 {
			return nil, &Refusal{Kind: Unsupported, Offset: 4, Message: "this is a component, not a core module; build it as a core module (wasm32-wasip1)"}
		}
		return nil, &Refusal{Kind: Malformed, Offset: 4, Message: "the version of the binary format is not 1"}
	}
	m := &module{dataCount: -1}
	r := &reader{data: data, at: len(preamble)}
	last := 0
	for r.err == nil && r.rest() > 0 {
		start := r.at
		id := r.byte()
		body := r.sub(r.u32())
		switch {
		case r.err != nil:
		case id == sectionCustom:
			name := body.name()
			m.custom = append(m.custom, custom{name: name, content: body.data[body.at:], start: start, end: r.at})
			if body.err != nil {
				return nil, body.err
			}
		case id > sectionDataCount:
			r.fail(Unsupported, "section %d is not known", id)
		case rank[id] <= last:
			r.fail(Malformed, "section %d is repeated or out of order", id)
		default:
			last = rank[id]
			m.sections[id] = body
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	return m, nil
}

// parse reads the structure of a module: every section but the code, with every index checked against the counts that
// the module itself declares.
func parse(data []byte) (*module, *Refusal) {
	m, err := split(data)
	if err != nil {
		return nil, err
	}
	for _, step := range []struct {
		id   byte
		read func(*reader)
	}{
		{sectionType, m.readTypes},
		{sectionImport, m.readImports},
		{sectionFunction, m.readFunctions},
		{sectionTable, m.readTables},
		{sectionMemory, m.readMemories},
	} {
		if s := m.sections[step.id]; s != nil {
			if step.read(s); s.err != nil {
				return nil, s.err
			}
			s.end("a section")
			if s.err != nil {
				return nil, s.err
			}
		}
	}
	if s := m.sections[sectionDataCount]; s != nil {
		m.dataCount = int(s.u32())
		if s.end("the data count section"); s.err != nil {
			return nil, s.err
		}
	}
	return m, nil
}

func (m *module) readTypes(r *reader) {
	n := r.count("types")
	for i := 0; i < n && r.err == nil; i++ {
		if form := r.byte(); form != functionForm {
			r.fail(Unsupported, "type %d is no function type (form %#x)", i, form)
			return
		}
		m.types = append(m.types, functionType{params: r.valueTypes(), results: r.valueTypes()})
	}
}

func (r *reader) valueTypes() []byte {
	b := r.take(r.count("value types"))
	for _, t := range b {
		r.checkValueType(t)
	}
	return b
}

func (r *reader) checkValueType(t byte) {
	switch t {
	case 0x7f, 0x7e, 0x7d, 0x7c, 0x7b, 0x70, 0x6f:
	default:
		r.fail(Unsupported, "value type %#x is not known", t)
	}
}

func (m *module) typeIndex(r *reader) uint32 {
	i := r.u32()
	if r.err == nil && int(i) >= len(m.types) {
		r.fail(Malformed, "type %d does not exist: the module has %d", i, len(m.types))
		return 0
	}
	return i
}

func (m *module) readImports(r *reader) {
	m.imports = r.count("imports")
	m.importSection = r.data[r.at:]
	for i := 0; i < m.imports && r.err == nil; i++ {
		module, name := r.name(), r.name()
		if module == ImportModule {
			r.fail(Reserved, "the import %q.%q uses a name that is reserved for metering", module, name)
			return
		}
		kind := r.byte()
		m.importNames = append(m.importNames, importName{module, name, kind})
		switch kind {
		case externFunction:
			m.functions = append(m.functions, m.typeIndex(r))
			m.imported++
		case externTable:
			m.readTableType(r)
		case externMemory:
			m.pages, _ = r.limits()
			m.memories++
		case externGlobal:
			r.globalType()
			m.globals++
		default:
			r.fail(Unsupported, "import %q.%q is of unknown kind %d", module, name, kind)
		}
	}
}

func (m *module) readTableType(r *reader) (element byte, least, most uint32) {
	if element = r.byte(); element != 0x70 && element != 0x6f {
		r.fail(Unsupported, "reference type %#x is not known", element)
	}
	least, most = r.limits()
	if least > maxTable {
		r.fail(Unsupported, "a table of %d elements; %d are supported", least, maxTable)
	}
	if m.tables++; m.tables > maxTables {
		r.fail(Unsupported, "more than %d tables", maxTables)
	}
	return element, least, min(most, maxTable)
}

// limits reads the size of a table or memory. Shared and 64-bit memories are refused.
func (r *reader) limits() (least, most uint32) {
	switch flag := r.byte(); flag {
	case 0:
		return r.u32(), 1<<32 - 1
	case 1:
		return r.u32(), r.u32()
	default:
		r.fail(Unsupported, "limits of form %d (shared or 64-bit) are not supported", flag)
		return 0, 0
	}
}

func (r *reader) globalType() {
	r.checkValueType(r.byte())
	if mut := r.byte(); mut > 1 {
		r.fail(Malformed, "mutability %d of a global is neither 0 nor 1", mut)
	}
}

func (m *module) readFunctions(r *reader) {
	n := r.count("functions")
	for i := 0; i < n && r.err == nil; i++ {
		m.functions = append(m.functions, m.typeIndex(r))
	}
}

// readTables reads the tables, and gives each a bound: the memory limit does not hold for them.
func (m *module) readTables(r *reader) {
	n := r.count("tables")
	m.tableSection = appendU32(nil, uint32(n))
	for i := 0; i < n && r.err == nil; i++ {
		element, least, most := m.readTableType(r)
		if most < least {
			r.fail(Malformed, "a table has at least %d elements and at most %d", least, most)
		}
		m.tableSection = appendU32(appendU32(append(m.tableSection, element, 1), least), most)
	}
}

func (m *module) readMemories(r *reader) {
	n := r.count("memories")
	for i := 0; i < n && r.err == nil; i++ {
		m.pages, _ = r.limits()
		m.memories++
	}
	if m.memories > 1 {
		r.fail(Unsupported, "the module has %d memories; one is supported", m.memories)
	}
}

// functionIndex reads the index of a function that the module has.
func (m *module) functionIndex(r *reader) uint32 {
	i := r.u32()
	if r.err == nil && int(i) >= len(m.functions) {
		r.fail(Malformed, "function %d does not exist: the module has %d", i, len(m.functions))
		return 0
	}
	return i
}

// below reads an index and refuses one that is not below n.
func (r *reader) below(n int, what string) uint32 {
	i := r.u32()
	if r.err == nil && int64(i) >= int64(n) {
		r.fail(Malformed, "%s %d does not exist: the module has %d", what, i, n)
		return 0
	}
	return i
}
