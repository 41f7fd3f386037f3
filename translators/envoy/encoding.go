package envoy

import (
	"bytes"
	"cmp"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// encoding gathers the wire form of routes and clusters, of which there are many: building the messages first costs several times
// as much. Fields are appended in the order of the deterministic encoding, by number and those of oneofs last, so that equal messages have
// equal bytes. What is rare in them is appended as messages.
type encoding struct {
	b []byte
	// odd: a value was appended that Envoy's protobuf rules might refuse, so that these have to be asked.
	odd bool
	// err is why a message could not be encoded.
	err error
}

// reset begins a new encoding in the same memory.
func (w *encoding) reset() { w.b, w.odd, w.err = w.b[:0], false, nil }

// begin opens a message field and returns where its content starts; end closes it.
func (w *encoding) begin(n protowire.Number) int {
	w.b = append(protowire.AppendTag(w.b, n, protowire.BytesType), 0)
	return len(w.b)
}

// end writes the length of the content, for which begin has left one byte.
func (w *encoding) end(start int) {
	size := len(w.b) - start
	if size < 0x80 {
		w.b[start-1] = byte(size)
		return
	}
	more := protowire.SizeVarint(uint64(size)) - 1
	for range more {
		w.b = append(w.b, 0)
	}
	copy(w.b[start+more:], w.b[start:start+size])
	protowire.AppendVarint(w.b[:start-1], uint64(size))
}

// text appends a string that may be left out.
func (w *encoding) text(n protowire.Number, s string) {
	if s != "" {
		w.member(n, s)
	}
}

// required appends a string that Envoy refuses when it is empty.
func (w *encoding) required(n protowire.Number, s string) {
	w.odd = w.odd || s == ""
	w.text(n, s)
}

// member appends a string of a oneof or a list, where an empty one is a value too.
func (w *encoding) member(n protowire.Number, s string) {
	w.odd = w.odd || unusual(s)
	w.b = protowire.AppendString(protowire.AppendTag(w.b, n, protowire.BytesType), s)
}

// unusual reports whether a string has anything but printable ASCII, which no pattern of Envoy's rules refuses as such.
func unusual(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return true
		}
	}
	return false
}

// number appends a number or enum value that is left out when it is zero.
func (w *encoding) number(n protowire.Number, v uint64) {
	if v != 0 {
		w.value(n, v)
	}
}

// value appends a number of a oneof, where zero is a value too.
func (w *encoding) value(n protowire.Number, v uint64) {
	w.b = protowire.AppendVarint(protowire.AppendTag(w.b, n, protowire.VarintType), v)
}

// flag appends a truth value that is left out when it is false.
func (w *encoding) flag(n protowire.Number, v bool) {
	if v {
		w.value(n, 1)
	}
}

// wrapped appends a google.protobuf.BoolValue.
func (w *encoding) wrapped(n protowire.Number, v bool) {
	at := w.begin(n)
	w.flag(1, v)
	w.end(at)
}

// millis appends a google.protobuf.Duration.
func (w *encoding) millis(n protowire.Number, ms int64) {
	at := w.begin(n)
	w.number(1, uint64(ms/1000))
	w.number(2, uint64(int64(int32(ms%1000*1e6))))
	w.end(at)
}

// message appends a message.
func (w *encoding) message(n protowire.Number, m validated) {
	w.odd = w.odd || m.Validate() != nil
	w.trusted(n, m)
}

// trusted appends a message that stricter rules than Envoy's have passed already.
func (w *encoding) trusted(n protowire.Number, m proto.Message) {
	size := deterministic.Size(m)
	w.b = protowire.AppendVarint(protowire.AppendTag(w.b, n, protowire.BytesType), uint64(size))
	b, err := proto.MarshalOptions{Deterministic: true, UseCachedSize: true}.MarshalAppend(w.b, m)
	if err != nil {
		w.odd, w.err = true, err
		return
	}
	w.b = b
}

// packed appends an entry of a map from names to packed messages.
func (w *encoding) packed(n protowire.Number, name string, m *anypb.Any) {
	at := w.begin(n)
	w.text(1, name)
	w.trusted(2, m)
	w.end(at)
}

// doubtful reports whether Envoy's protobuf rules have to be asked: only where anything is out of the ordinary.
func (w *encoding) doubtful(f *faults) bool { return w.odd || len(*f) > 0 }

// decode turns what was appended from start on into m; that it cannot is a fault.
func (w *encoding) decode(start int, m proto.Message, f *faults) bool {
	err := cmp.Or(w.err, proto.Unmarshal(w.b[start:], m))
	if err != nil {
		f.add(codeRule, "", "%s", strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\u00a0", " "), "proto: "))
	}
	return err == nil
}

// bytes returns a copy of what was appended.
func (w *encoding) bytes() []byte { return bytes.Clone(w.b) }
