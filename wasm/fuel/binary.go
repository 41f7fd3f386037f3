package fuel

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"
)

// reader takes a module's bytes apart. The first error sticks: every later read returns zero, so that a caller may check
// once per item. Integers are read as the specification bounds them ("Integers", WebAssembly core 5.2.2): at most
// ceil(bits/7) bytes and no set bit beyond the width.
type reader struct {
	data []byte
	at   int
	// base is the offset of data in the module, for messages.
	base int
	err  *Refusal
}

func (r *reader) fail(kind Kind, format string, args ...any) {
	if r.err == nil {
		r.err = &Refusal{Kind: kind, Offset: r.base + r.at, Message: fmt.Sprintf(format, args...)}
	}
}

func (r *reader) rest() int { return len(r.data) - r.at }

func (r *reader) byte() byte {
	if r.err != nil || r.at >= len(r.data) {
		r.fail(Malformed, "the module ends in the middle of an item")
		return 0
	}
	b := r.data[r.at]
	r.at++
	return b
}

func (r *reader) take(n int) []byte {
	if r.err != nil || n < 0 || n > r.rest() {
		r.fail(Malformed, "an item of %d bytes goes beyond its section", n)
		return nil
	}
	b := r.data[r.at : r.at+n : r.at+n]
	r.at += n
	return b
}

// sub returns a reader of the next n bytes.
func (r *reader) sub(n uint32) *reader {
	base := r.base + r.at
	return &reader{data: r.take(int(n)), base: base, err: r.err}
}

func (r *reader) u32() uint32 {
	var v uint32
	for shift := 0; shift < 35; shift += 7 {
		b := r.byte()
		if shift == 28 && b > 0x0f {
			r.fail(Malformed, "an unsigned number has more than 32 bits")
			return 0
		}
		v |= uint32(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
	return 0
}

// signed reads a signed number of the width in bits (32, 33 or 64).
func (r *reader) signed(bits int) int64 {
	var v int64
	for shift := 0; ; shift += 7 {
		b := r.byte()
		left := bits - shift
		if left < 7 {
			// The unused bits of the last byte must repeat the sign.
			if high := int8(b<<1) >> left; b >= 0x80 || high != 0 && high != -1 {
				r.fail(Malformed, "a signed number has more than %d bits", bits)
				return 0
			}
		}
		v |= int64(b&0x7f) << shift
		if b < 0x80 {
			if shift+7 < 64 && b&0x40 != 0 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
}

func (r *reader) name() string {
	b := r.take(int(r.u32()))
	if !utf8.Valid(b) {
		r.fail(Malformed, "a name is not UTF-8")
	}
	return string(b)
}

// count reads the length of a vector whose items take at least one byte each.
func (r *reader) count(what string) int {
	n := r.u32()
	if int64(n) > int64(r.rest()) {
		r.fail(Malformed, "%d %s announced, but only %d bytes follow", n, what, r.rest())
		return 0
	}
	return int(n)
}

func (r *reader) end(what string) {
	if r.err == nil && r.rest() > 0 {
		r.fail(Malformed, "%d bytes follow the end of %s", r.rest(), what)
	}
}

func appendU32(b []byte, v uint32) []byte { return binary.AppendUvarint(b, uint64(v)) }

func appendSigned(b []byte, v int64) []byte {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

func appendName(b []byte, s string) []byte {
	b = appendU32(b, uint32(len(s)))
	return append(b, s...)
}

func appendSection(b []byte, id byte, content []byte) []byte {
	b = append(b, id)
	b = appendU32(b, uint32(len(content)))
	return append(b, content...)
}
