package assemble

import "slices"

// Const32 pushes a number.
func Const32(v int32) []byte { return append([]byte{0x41}, S(int64(v))...) }

// Const64 pushes a number.
func Const64(v int64) []byte { return append([]byte{0x42}, S(v)...) }

// Op is one or more opcodes without operands.
func Op(b ...byte) []byte { return b }

// With is an opcode with one unsigned operand: local.get, br, call and the like.
func With(op byte, v uint32) []byte { return append([]byte{op}, U32(v)...) }

// Get, Put and Tee access a local.
func Get(l uint32) []byte { return With(0x20, l) }

// Put pops into a local.
func Put(l uint32) []byte { return With(0x21, l) }

// Tee stores into a local and keeps the value.
func Tee(l uint32) []byte { return With(0x22, l) }

// Call calls a function.
func Call(f uint32) []byte { return With(0x10, f) }

// Br branches to a label.
func Br(l uint32) []byte { return With(0x0c, l) }

// BrIf branches to a label if the number on the stack is not zero.
func BrIf(l uint32) []byte { return With(0x0d, l) }

// Block, Loop and If wrap code in a block without results.
func Block(code ...[]byte) []byte { return block(0x02, code) }

// Loop is a loop without results.
func Loop(code ...[]byte) []byte { return block(0x03, code) }

// If runs code if the number on the stack is not zero.
func If(code ...[]byte) []byte { return block(0x04, code) }

func block(op byte, code [][]byte) []byte {
	return slices.Concat([]byte{op, 0x40}, slices.Concat(code...), []byte{0x0b})
}

// Code joins pieces of code.
func Code(code ...[]byte) []byte { return slices.Concat(code...) }

// Opcodes that tests use by name.
const (
	Unreachable byte = 0x00
	Nop         byte = 0x01
	Return      byte = 0x0f
	Drop        byte = 0x1a
	Add32       byte = 0x6a
	Sub32       byte = 0x6b
	Add64       byte = 0x7c
	Mul64       byte = 0x7e
	Or64        byte = 0x84
	Shl64       byte = 0x86
	Extend32U   byte = 0xad
	Eqz32       byte = 0x45
	GtS32       byte = 0x4a
)

// Load32 loads a number from the address on the stack plus offset.
func Load32(offset uint32) []byte { return append([]byte{0x28, 2}, U32(offset)...) }

// Store32 stores the number on the stack at the address below it plus offset.
func Store32(offset uint32) []byte { return append([]byte{0x36, 2}, U32(offset)...) }

// Grow grows memory by the pages on the stack.
func Grow() []byte { return []byte{0x40, 0} }

// Fill is memory.fill (address, value, length).
func Fill() []byte { return []byte{0xfc, 11, 0} }

// Copy is memory.copy (to, from, length).
func Copy() []byte { return []byte{0xfc, 10, 0, 0} }
