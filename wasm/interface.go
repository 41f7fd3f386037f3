package wasm

import (
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/wasm/fault"
	"github.com/chancery-gateway/chancery/wasm/fuel"
)

// entry is one function of the ABI that a module exports.
type entry struct {
	signature string
	optional  bool
}

// Names of the exported functions.
const (
	exportMemory     = "memory"
	exportInitialize = "_initialize"
	exportVersion    = "abi_version"
	exportAlloc      = "alloc"
	exportFree       = "free"
	exportConfigure  = "configure"
	exportTranslate  = "translate"
	exportValidate   = "validate"
	exportSelfTest   = "self_test"
)

// entries are the functions that a module exports. What it exports beyond them is of no use, and no harm.
var entries = map[string]entry{
	exportInitialize: {"->", true},
	exportVersion:    {"->i32", false},
	exportAlloc:      {"i32->i32", false},
	exportFree:       {"i32,i32->", false},
	exportConfigure:  {"i32,i32->i64", false},
	exportTranslate:  {"i32,i32->i64", false},
	exportValidate:   {"i32,i32->i64", true},
	exportSelfTest:   {"->i64", true},
}

// checkInterface judges imports and exports.
func checkInterface(d *fuel.Interface) error {
	for _, i := range d.Imports {
		h, ok := hostFunctions[hostName{i.Module, i.Name}]
		if !ok {
			return fault.New(fault.Import, "the module imports %s.%s; there is no such function in the sandbox", escape(i.Module, 100), escape(i.Name, 100))
		}
		if want := h.signature(); want != i.Signature {
			return fault.New(fault.Import, "the module imports %s.%s as %s; it is %s", i.Module, i.Name, i.Signature, want)
		}
	}
	have := make(map[string]string, len(d.Exports))
	for _, e := range d.Exports {
		have[e.Name] = e.Signature
	}
	if have[exportMemory] != "memory" {
		return fault.New(fault.Export, "the module exports no memory by the name of memory")
	}
	names := make([]string, 0, len(entries))
	for name := range entries {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		e := entries[name]
		got, there := have[name]
		switch {
		case !there && !e.optional:
			return fault.New(fault.Export, "the module does not export the function %s (%s)", name, e.signature)
		case there && got != e.signature:
			return fault.New(fault.Export, "the module exports %s as %s; it has to be %s", name, strings.TrimSuffix(got, "->"), e.signature)
		}
	}
	return nil
}
