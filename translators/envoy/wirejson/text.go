package wirejson

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"math"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const blanks = "                                                                                                                                "

func (e *encoder) open(c byte) {
	e.out = append(e.out, c)
	e.depth++
}

func (e *encoder) close(c byte, empty bool) {
	e.depth--
	if !empty {
		e.line()
	}
	e.out = append(e.out, c)
}

// line begins a new line in multi-line text.
func (e *encoder) line() {
	if !e.multiline {
		return
	}
	n := 2 * e.depth
	e.out = append(e.out, '\n')
	for ; n > len(blanks); n -= len(blanks) {
		e.out = append(e.out, blanks...)
	}
	e.out = append(e.out, blanks[:n]...)
}

// element begins the next element of an object or array.
func (e *encoder) element(empty *bool) {
	if !*empty {
		e.out = append(e.out, ',')
	}
	*empty = false
	e.line()
}

// member begins the next member of an object, key included.
func (e *encoder) member(fd *field, empty *bool) {
	e.element(empty)
	if e.multiline {
		e.out = append(e.out, fd.spaced...)
	} else {
		e.out = append(e.out, fd.key...)
	}
}

// key writes a key that already has its quotes and colon.
func (e *encoder) key(k string) {
	e.out = append(e.out, k...)
	if e.multiline {
		e.out = append(e.out, ' ')
	}
}

// zero reports whether a scalar has its type's default value.
func zero(k protoreflect.Kind, x *entry) bool {
	switch k {
	case protoreflect.StringKind, protoreflect.BytesKind:
		return len(x.bytes) == 0
	case protoreflect.Int32Kind, protoreflect.Uint32Kind, protoreflect.Sint32Kind, protoreflect.EnumKind:
		return uint32(x.num) == 0
	default:
		return x.num == 0
	}
}

// scalar writes a value that is no message.
func (e *encoder) scalar(fd *field, num uint64, b []byte) error {
	switch fd.kind {
	case protoreflect.StringKind:
		return e.text(b)
	case protoreflect.BytesKind:
		e.out = append(e.out, '"')
		e.out = base64.StdEncoding.AppendEncode(e.out, b)
		e.out = append(e.out, '"')
	case protoreflect.BoolKind:
		e.out = strconv.AppendBool(e.out, num != 0)
	case protoreflect.EnumKind:
		if fd.null {
			e.out = append(e.out, "null"...)
		} else if name, known := fd.enum[int32(num)]; known {
			e.out = append(append(append(e.out, '"'), name...), '"')
		} else {
			e.out = strconv.AppendInt(e.out, int64(int32(num)), 10)
		}
	case protoreflect.FloatKind:
		e.float(float64(math.Float32frombits(uint32(num))), 32)
	case protoreflect.DoubleKind:
		e.float(math.Float64frombits(num), 64)
	case protoreflect.Int64Kind, protoreflect.Uint64Kind, protoreflect.Sint64Kind, protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind:
		e.out = append(e.out, '"')
		e.integer(fd.kind, num)
		e.out = append(e.out, '"')
	default:
		e.integer(fd.kind, num)
	}
	return nil
}

func (e *encoder) integer(k protoreflect.Kind, num uint64) {
	switch k {
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		e.out = strconv.AppendUint(e.out, uint64(uint32(num)), 10)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		e.out = strconv.AppendUint(e.out, num, 10)
	default:
		e.out = strconv.AppendInt(e.out, signed(k, num), 10)
	}
}

// signed returns the value of a signed integer field.
func signed(k protoreflect.Kind, num uint64) int64 {
	switch k {
	case protoreflect.Int32Kind, protoreflect.Sfixed32Kind:
		return int64(int32(num))
	case protoreflect.Sint32Kind:
		return int64(int32(protowire.DecodeZigZag(num & math.MaxUint32)))
	case protoreflect.Sint64Kind:
		return protowire.DecodeZigZag(num)
	default:
		return int64(num)
	}
}

func (e *encoder) float(v float64, bits int) {
	switch {
	case math.IsNaN(v):
		e.out = append(e.out, `"NaN"`...)
	case math.IsInf(v, 1):
		e.out = append(e.out, `"Infinity"`...)
	case math.IsInf(v, -1):
		e.out = append(e.out, `"-Infinity"`...)
	default:
		form := byte('f')
		if a := math.Abs(v); a != 0 && (a < 1e-6 || a >= 1e21) {
			form = 'e'
		}
		e.out = strconv.AppendFloat(e.out, v, form, -1, bits)
	}
}

var plain = func() (t [256]bool) {
	for i := range t {
		t[i] = i >= ' ' && i != '"' && i != '\\'
	}
	return t
}()

var errUTF8 = errors.New("wirejson: a string is not valid UTF-8")

// text writes a string.
func (e *encoder) text(s []byte) error {
	e.out = append(e.out, '"')
	special := 0
	for special < len(s) && s[special] < utf8.RuneSelf && plain[s[special]] {
		special++
	}
	if !utf8.Valid(s[special:]) {
		return errUTF8
	}
	start := 0
	for i := special; i < len(s); i++ {
		c := s[i]
		if plain[c] {
			continue
		}
		e.out = append(e.out, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			e.out = append(e.out, '\\', c)
		case '\n':
			e.out = append(e.out, '\\', 'n')
		case '\r':
			e.out = append(e.out, '\\', 'r')
		case '\t':
			e.out = append(e.out, '\\', 't')
		default:
			const hex = "0123456789abcdef"
			e.out = append(e.out, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	e.out = append(append(e.out, s[start:]...), '"')
	return nil
}

// mapKey writes a map's key as a string, with its colon.
func (e *encoder) mapKey(fd *field, x *entry) error {
	switch fd.kind {
	case protoreflect.StringKind:
		if err := e.text(x.bytes); err != nil {
			return err
		}
	case protoreflect.BoolKind:
		e.out = append(strconv.AppendBool(append(e.out, '"'), x.num != 0), '"')
	default:
		e.out = append(e.out, '"')
		e.integer(fd.kind, x.num)
		e.out = append(e.out, '"')
	}
	e.key(":")
	return nil
}

func compareKeys(k protoreflect.Kind, a, b *entry) int {
	switch k {
	case protoreflect.StringKind:
		return bytes.Compare(a.bytes, b.bytes)
	case protoreflect.BoolKind:
		return cmp.Compare(min(a.num, 1), min(b.num, 1))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return cmp.Compare(uint32(a.num), uint32(b.num))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return cmp.Compare(a.num, b.num)
	default:
		return cmp.Compare(signed(k, a.num), signed(k, b.num))
	}
}
