// Package fuel makes a WebAssembly module count its own work, so that the host can end it at any time.
//
// wazero's compiled code has no safe points: a guest that spins holds Go's collector, and with it the whole process, and
// wazero's own remedy (WithCloseOnContextDone) looks only at loop heads, misses calls without loops, and makes a Go guest
// four to five times slower. Instrument rewrites the module instead, before it is compiled: at every function entry, at
// every branch back to a loop, and wherever more than a fixed amount of straight-line code has passed, a counter goes down, and when it
// is below zero the module calls the host (Meter), which looks at deadline and budget and hands out the next portion.
// Bulk operations are charged by length, and functions that call others keep account of the native stack that they need.
//
// The rewriting leaves the operand stack as it found it, so that it is valid at any place. It must not turn an invalid
// module into a valid one that reaches the counter: every index is checked against the counts of the module as it came,
// unknown opcodes and sections are refused, and so are modules that use the reserved names.
package fuel

import "fmt"

// PassVersion names the output of the pass: caches of compiled code carry it in their key.
const PassVersion = "2"

// Reserved names: what the pass adds to a module. A module that uses one of them is refused.
const (
	// ImportModule and ImportName name the imported function that the counter calls: () -> i64, the next portion.
	ImportModule = "chancery:meter"
	ImportName   = "tick"
	// ExportPrefix starts the names of the two globals that the pass exports.
	ExportPrefix = "chancery:"
	exportFuel   = ExportPrefix + "fuel"
	exportStack  = ExportPrefix + "stack"
)

// Kind says why a module was refused.
type Kind uint8

// The kinds of refusals.
const (
	// Malformed modules break the binary format.
	Malformed Kind = iota + 1
	// Unsupported modules have a structure that is not WebAssembly 2.0's: components, several memories, unknown sections.
	Unsupported
	// Unmetered modules are sound as far as they were read, but have an instruction that the pass does not know and therefore
	// can't meter, or a function of a size or shape that can't be compiled in time.
	Unmetered
	// Reserved: the module uses a name of the pass.
	Reserved
)

// Refusal is the error of Instrument.
type Refusal struct {
	Kind Kind
	// Offset is the place in the module, in bytes.
	Offset  int
	Message string
}

// Error returns the message with the offset.
func (e *Refusal) Error() string { return fmt.Sprintf("at byte %#x: %s", e.Offset, e.Message) }

// Report says what the pass found and did.
type Report struct {
	Functions, Loops, Instructions int
	// Charges is the number of places at which the counter goes down.
	Charges int
	// Before and After are the sizes in bytes.
	Before, After int
}

// Section is a custom section of a module.
type Section struct {
	Name    string
	Content []byte
}

// CustomSections returns the custom sections of a module, in order, without looking at anything else than the frame of
// each section.
func CustomSections(data []byte) ([]Section, error) {
	m, err := split(data)
	if err != nil {
		return nil, err
	}
	out := make([]Section, len(m.custom))
	for i, c := range m.custom {
		out[i] = Section{c.name, c.content}
	}
	return out, nil
}

// AppendSection returns the module with one more custom section at its end.
func AppendSection(data []byte, s Section) []byte {
	return appendSection(data[:len(data):len(data)], sectionCustom, append(appendName(nil, s.Name), s.Content...))
}

// DropSections returns the module without its custom sections of the name.
func DropSections(data []byte, name string) ([]byte, error) {
	m, err := split(data)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(data))
	at := 0
	for _, c := range m.custom {
		if c.name == name {
			out = append(out, data[at:c.start]...)
			at = c.end
		}
	}
	return append(out, data[at:]...), nil
}
