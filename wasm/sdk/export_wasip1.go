//go:build wasip1

package sdk

import (
	"unsafe"

	"github.com/chancery-gateway/chancery/wasm/abi"
)

// held keeps every buffer that the host knows by its address: Go's collector does not see the host's pointers.
var held = map[uint32][]byte{}

func hold(b []byte) uint32 {
	at := uint32(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
	held[at] = b
	return at
}

// give hands bytes to the host: address in the upper, length in the lower 32 bits.
func give(b []byte) int64 {
	if len(b) == 0 {
		return 0
	}
	return int64(uint64(hold(b))<<32 | uint64(len(b)))
}

// taken returns the input that the host wrote into a buffer of ours.
func taken(at, size uint32) []byte {
	b := held[at]
	return b[:min(int(size), len(b))]
}

//go:wasmexport abi_version
func abiVersion() int32 { return abi.Major<<16 | abi.Minor }

//go:wasmexport alloc
func alloc(size uint32) uint32 { return hold(make([]byte, max(size, 1))) }

//go:wasmexport free
func free(at, _ uint32) { delete(held, at) }

//go:wasmexport configure
func exportConfigure(at, size uint32) int64 { return give(configure(taken(at, size))) }

//go:wasmexport translate
func exportTranslate(at, size uint32) int64 {
	return give(translate(registered.Translate, taken(at, size)))
}

//go:wasmexport validate
func exportValidate(at, size uint32) int64 {
	return give(translate(registered.Validate, taken(at, size)))
}

//go:wasmexport self_test
func exportSelfTest() int64 { return give(selfTest()) }

//go:wasmimport chancery log
func hostLog(level int32, at unsafe.Pointer, size uint32)

// Log writes a line to the module's log. The host keeps some lines per call, and shows the last in the module's status.
func Log(level int32, text string) {
	if text != "" {
		hostLog(level, unsafe.Pointer(unsafe.StringData(text)), uint32(len(text)))
	}
}
