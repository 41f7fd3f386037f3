// Package assemble writes WebAssembly modules from Go, for tests: valid ones, and ones that are broken on purpose.
package assemble

import (
	"encoding/binary"
	"slices"
)

// Value types.
const (
	I32 byte = 0x7f
	I64 byte = 0x7e
	F32 byte = 0x7d
	F64 byte = 0x7c
)

// Kinds of exports.
const (
	Function byte = iota
	Table
	Memory
	Global
)

// Module is a module in the making. Imports must be made before functions.
type Module struct {
	types     [][]byte
	imports   [][]byte
	functions [][]byte
	tables    [][]byte
	memories  [][]byte
	globals   [][]byte
	exports   [][]byte
	start     []byte
	elements  [][]byte
	code      [][]byte
	data      [][]byte
	custom    [][]byte
	imported  uint32
	// DataCount makes the module say how many data segments it has, which memory.init needs.
	DataCount bool
}

// U32 encodes an unsigned number.
func U32(v uint32) []byte { return binary.AppendUvarint(nil, uint64(v)) }

// S encodes a signed number.
func S(v int64) []byte {
	var b []byte
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

func sized(b []byte) []byte { return append(U32(uint32(len(b))), b...) }

func vector(items [][]byte) []byte {
	return append(U32(uint32(len(items))), slices.Concat(items...)...)
}

// Type adds a function type and returns its index; equal types share one.
func (m *Module) Type(params, results []byte) uint32 {
	t := slices.Concat([]byte{0x60}, sized(params), sized(results))
	for i, o := range m.types {
		if slices.Equal(o, t) {
			return uint32(i)
		}
	}
	m.types = append(m.types, t)
	return uint32(len(m.types) - 1)
}

// Import adds an imported function and returns its index.
func (m *Module) Import(module, name string, params, results []byte) uint32 {
	t := m.Type(params, results)
	m.imports = append(m.imports, slices.Concat(sized([]byte(module)), sized([]byte(name)), []byte{Function}, U32(t)))
	m.imported++
	return m.imported - 1
}

// ImportOther adds an import of a table, memory or global with an encoded type.
func (m *Module) ImportOther(module, name string, kind byte, of []byte) {
	m.imports = append(m.imports, slices.Concat(sized([]byte(module)), sized([]byte(name)), []byte{kind}, of))
}

// Func adds a function and returns its index. The code is without locals and without the final end.
func (m *Module) Func(params, results, locals []byte, code ...[]byte) uint32 {
	m.functions = append(m.functions, U32(m.Type(params, results)))
	groups := make([][]byte, len(locals))
	for i, l := range locals {
		groups[i] = []byte{1, l}
	}
	m.code = append(m.code, sized(slices.Concat(vector(groups), slices.Concat(code...), []byte{0x0b})))
	return m.imported + uint32(len(m.functions)) - 1
}

// Raw adds a function whose whole body, locals and end included, is given.
func (m *Module) Raw(params, results, body []byte) uint32 {
	m.functions = append(m.functions, U32(m.Type(params, results)))
	m.code = append(m.code, sized(body))
	return m.imported + uint32(len(m.functions)) - 1
}

// Next returns the index of the function that Func will add.
func (m *Module) Next() uint32 { return m.imported + uint32(len(m.functions)) }

// Export exports an item.
func (m *Module) Export(name string, kind byte, index uint32) {
	m.exports = append(m.exports, slices.Concat(sized([]byte(name)), []byte{kind}, U32(index)))
}

// Memory gives the module a memory and exports it.
func (m *Module) Memory(least, most uint32) {
	m.memories = append(m.memories, slices.Concat([]byte{1}, U32(least), U32(most)))
	m.Export("memory", Memory, 0)
}

// Table adds a table of functions.
func (m *Module) Table(least uint32) {
	m.tables = append(m.tables, slices.Concat([]byte{0x70, 0}, U32(least)))
}

// Global adds a mutable global and returns its index. init is a constant expression without end.
func (m *Module) Global(kind byte, init []byte) uint32 {
	m.globals = append(m.globals, slices.Concat([]byte{kind, 1}, init, []byte{0x0b}))
	return uint32(len(m.globals) - 1)
}

// Elements fills the table from an offset with functions.
func (m *Module) Elements(offset int32, functions ...uint32) {
	items := make([][]byte, len(functions))
	for i, f := range functions {
		items[i] = U32(f)
	}
	m.elements = append(m.elements, slices.Concat([]byte{0}, Const32(offset), []byte{0x0b}, vector(items)))
}

// Data fills memory from an offset.
func (m *Module) Data(offset int32, content []byte) {
	m.data = append(m.data, slices.Concat([]byte{0}, Const32(offset), []byte{0x0b}, sized(content)))
}

// Passive adds a data segment for memory.init and returns its index.
func (m *Module) Passive(content []byte) uint32 {
	m.data = append(m.data, append([]byte{1}, sized(content)...))
	m.DataCount = true
	return uint32(len(m.data) - 1)
}

// Start names the function that runs at instantiation.
func (m *Module) Start(function uint32) { m.start = U32(function) }

// Custom adds a custom section.
func (m *Module) Custom(name string, content []byte) {
	m.custom = append(m.custom, append(sized([]byte(name)), content...))
}

// Section returns one section.
func Section(id byte, content []byte) []byte { return append([]byte{id}, sized(content)...) }

// Bytes returns the module.
func (m *Module) Bytes() []byte {
	out := []byte{0, 'a', 's', 'm', 1, 0, 0, 0}
	for _, s := range []struct {
		id    byte
		items [][]byte
	}{{1, m.types}, {2, m.imports}, {3, m.functions}, {4, m.tables}, {5, m.memories}, {6, m.globals}, {7, m.exports}} {
		if len(s.items) > 0 {
			out = append(out, Section(s.id, vector(s.items))...)
		}
	}
	if m.start != nil {
		out = append(out, Section(8, m.start)...)
	}
	if len(m.elements) > 0 {
		out = append(out, Section(9, vector(m.elements))...)
	}
	if m.DataCount {
		out = append(out, Section(12, U32(uint32(len(m.data))))...)
	}
	if len(m.code) > 0 {
		out = append(out, Section(10, vector(m.code))...)
	}
	if len(m.data) > 0 {
		out = append(out, Section(11, vector(m.data))...)
	}
	for _, c := range m.custom {
		out = append(out, Section(0, c)...)
	}
	return out
}
