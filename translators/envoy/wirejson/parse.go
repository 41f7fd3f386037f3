package wirejson

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// entry is one occurrence of a field; entries of one field form a list.
type entry struct {
	bytes []byte
	num   uint64
	next  int32
}

// frame is what parse found of one message: heads[i] is the place of the first entry of field i, counted from 1, 0 for none; tails
// follow behind.
type frame struct{ entries, heads, fields int }

// head returns the index of the first entry of field i, -1 for none.
func (e *encoder) head(f frame, i int) int32 { return e.heads[f.heads+i] - 1 }

func (e *encoder) pop(f frame) {
	e.entries, e.heads = e.entries[:f.entries], e.heads[:f.heads]
	e.levels--
}

// parse sorts a message's fields by table position. The last of several values of a singular field counts, the last member of a
// oneof too; several encodings of one singular message merge.
func (e *encoder) parse(t *table, wire []byte) (frame, error) {
	f := frame{len(e.entries), len(e.heads), len(t.fields)}
	if e.levels++; e.levels > maxLevels {
		return f, errDepth
	}
	e.heads = slices.Grow(e.heads, 2*f.fields)[:f.heads+2*f.fields]
	clear(e.heads[f.heads:])
	for len(wire) > 0 {
		number, typ, n := consumeTag(wire)
		if n < 0 {
			return f, protowire.ParseError(n)
		}
		wire = wire[n:]
		var x entry
		x.next = -1
		switch typ {
		case protowire.VarintType:
			x.num, n = protowire.ConsumeVarint(wire)
		case protowire.BytesType:
			x.bytes, n = protowire.ConsumeBytes(wire)
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(wire)
			x.num = uint64(v)
		case protowire.Fixed64Type:
			x.num, n = protowire.ConsumeFixed64(wire)
		default:
			n = protowire.ConsumeFieldValue(number, typ, wire)
		}
		if n < 0 {
			return f, protowire.ParseError(n)
		}
		wire = wire[n:]
		i := t.find(number)
		if i < 0 {
			continue
		}
		fd := &t.fields[i]
		if typ != fd.wire {
			if typ != protowire.BytesType || !fd.repeated || fd.wire == protowire.StartGroupType {
				continue // Another type's field of this number: unknown.
			}
			if len(x.bytes) == 0 {
				continue
			}
		} else if typ == protowire.StartGroupType {
			continue
		}
		for _, r := range fd.rivals {
			if e.heads[f.heads+int(r)] > 0 {
				e.heads[f.heads+int(r)] = 0
				e.discarded++
			}
		}
		head, tail := &e.heads[f.heads+i], &e.heads[f.heads+f.fields+i]
		at := int32(len(e.entries))
		e.entries = append(e.entries, x)
		switch {
		case *head == 0:
			*head = at + 1
		case !fd.repeated && fd.kind != protoreflect.MessageKind:
			*head = at + 1
			e.discarded++
		default:
			e.entries[*tail].next = at
		}
		*tail = at
	}
	return f, nil
}

// consumeTag is protowire.ConsumeTag, which lets field numbers pass that are too large.
func consumeTag(wire []byte) (protowire.Number, protowire.Type, int) {
	number, typ, n := protowire.ConsumeTag(wire)
	if n >= 0 && number > protowire.MaxValidNumber {
		return 0, 0, badNumber
	}
	return number, typ, n
}

// badNumber is protowire's code of an invalid field number.
var badNumber = func() int {
	_, _, n := protowire.ConsumeTag([]byte{0})
	return n
}()
