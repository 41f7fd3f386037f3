package fuel

import "strings"

// Interface is what a module asks of its host and offers to it.
type Interface struct {
	Imports []Import
	Exports []Export
	// Pages is the least size of the module's memory, in pages of 64 KiB; Memories is 0 or 1.
	Memories int
	Pages    uint32
	// Start says that the module has a start section: code that runs while it is instantiated.
	Start bool
}

// Import is one import. Signature is "i32,i32->i64" for functions, and the kind ("table", "memory", "global") for others.
type Import struct{ Module, Name, Signature string }

// Export is one export, with its signature as in Import.
type Export struct{ Name, Signature string }

// Describe reads the interface of a module without running it. The error is a *Refusal.
func Describe(data []byte) (*Interface, error) {
	m, err := parse(data)
	if err != nil {
		return nil, err
	}
	p := &pass{module: m}
	for _, s := range []struct {
		id   byte
		read func(*reader) ([]byte, int)
	}{{sectionGlobal, p.readGlobals}, {sectionExport, p.readExports}} {
		if err := p.replace(s.id, s.read); err != nil {
			return nil, err
		}
	}
	d := &Interface{Memories: m.memories, Pages: m.pages, Start: m.sections[sectionStart] != nil}
	function := uint32(0)
	for _, i := range m.importNames {
		d.Imports = append(d.Imports, Import{i.module, i.name, m.signature(i.kind, function)})
		if i.kind == externFunction {
			function++
		}
	}
	for _, e := range m.exports {
		i := e.index
		if e.kind == externFunction && int(i) > m.imported {
			i--
		}
		d.Exports = append(d.Exports, Export{e.name, m.signature(e.kind, i)})
	}
	return d, nil
}

func (m *module) signature(kind byte, function uint32) string {
	switch kind {
	case externFunction:
		t := m.types[m.functions[function]]
		return typeNames(t.params) + "->" + typeNames(t.results)
	case externTable:
		return "table"
	case externMemory:
		return "memory"
	default:
		return "global"
	}
}

func typeNames(types []byte) string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = map[byte]string{0x7f: "i32", 0x7e: "i64", 0x7d: "f32", 0x7c: "f64", 0x7b: "v128", 0x70: "funcref", 0x6f: "externref"}[t]
	}
	return strings.Join(names, ",")
}
