// Package wirejson writes protobuf messages as protobuf JSON straight from their wire encoding, without building the
// messages: a table per message type, made once from its descriptor, says what each field number is. The output is what
// protojson makes of the same message (https://protobuf.dev/programming-guides/json), with map keys sorted.
//
// Fields that the descriptor does not know, groups and extensions are skipped, as protojson skips them.
package wirejson

import (
	"strconv"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// table is a message type as the transcoder reads it.
type table struct {
	wellKnown func(*encoder, *table, []byte) error
	fields    []field
	// dense finds fields by small numbers (index + 1), sparse by the others.
	dense  [64]int16
	sparse map[protowire.Number]int16
}

func (t *table) find(n protowire.Number) int {
	if n < protowire.Number(len(t.dense)) {
		return int(t.dense[n]) - 1
	}
	return int(t.sparse[n]) - 1
}

// field is one field of a message type.
type field struct {
	kind protoreflect.Kind
	wire protowire.Type
	// key is the JSON key with quotes and colon; spaced has a blank behind it.
	key, spaced string
	repeated    bool
	presence    bool
	null        bool // the enum google.protobuf.NullValue
	enum        map[int32]string
	// rivals are the other members of the field's oneof.
	rivals     []int16
	descriptor protoreflect.MessageDescriptor
	once       sync.Once
	message    *table
	// mapKey and mapValue are set for maps.
	mapKey, mapValue *field
}

// table returns the table of the field's message type.
func (f *field) table() *table {
	f.once.Do(func() { f.message = tableOf(f.descriptor) })
	return f.message
}

var tables sync.Map // protoreflect.MessageDescriptor → *table

// tableOf returns the table of a message type, made at the first call.
func tableOf(d protoreflect.MessageDescriptor) *table {
	if t, ok := tables.Load(d); ok {
		return t.(*table)
	}
	t, _ := tables.LoadOrStore(d, newTable(d))
	return t.(*table)
}

func newTable(d protoreflect.MessageDescriptor) *table {
	fields := d.Fields()
	t := &table{wellKnown: wellKnown[d.FullName()], fields: make([]field, fields.Len())}
	for i := range t.fields {
		fd := fields.Get(i)
		f := &t.fields[i]
		f.fill(fd)
		if o := fd.ContainingOneof(); o != nil {
			for j := range o.Fields().Len() {
				if r := o.Fields().Get(j); r != fd {
					f.rivals = append(f.rivals, int16(r.Index()))
				}
			}
		}
		if n := fd.Number(); int(n) < len(t.dense) {
			t.dense[n] = int16(i + 1)
		} else {
			if t.sparse == nil {
				t.sparse = map[protowire.Number]int16{}
			}
			t.sparse[n] = int16(i + 1)
		}
	}
	return t
}

func (f *field) fill(fd protoreflect.FieldDescriptor) {
	f.kind = fd.Kind()
	f.wire = wireTypes[f.kind]
	f.key = strconv.Quote(fd.JSONName()) + ":"
	f.spaced = f.key + " "
	f.repeated = fd.IsList() || fd.IsMap()
	f.presence = fd.HasPresence()
	f.descriptor = fd.Message()
	if e := fd.Enum(); e != nil {
		f.null = e.FullName() == "google.protobuf.NullValue"
		f.enum = make(map[int32]string, e.Values().Len())
		for i := e.Values().Len() - 1; i >= 0; i-- {
			f.enum[int32(e.Values().Get(i).Number())] = string(e.Values().Get(i).Name())
		}
	}
	if fd.IsMap() {
		f.mapKey, f.mapValue = &field{}, &field{}
		f.mapKey.fill(fd.MapKey())
		f.mapValue.fill(fd.MapValue())
	}
}

var wireTypes = map[protoreflect.Kind]protowire.Type{
	protoreflect.BoolKind: protowire.VarintType, protoreflect.EnumKind: protowire.VarintType,
	protoreflect.Int32Kind: protowire.VarintType, protoreflect.Sint32Kind: protowire.VarintType, protoreflect.Uint32Kind: protowire.VarintType,
	protoreflect.Int64Kind: protowire.VarintType, protoreflect.Sint64Kind: protowire.VarintType, protoreflect.Uint64Kind: protowire.VarintType,
	protoreflect.Sfixed32Kind: protowire.Fixed32Type, protoreflect.Fixed32Kind: protowire.Fixed32Type, protoreflect.FloatKind: protowire.Fixed32Type,
	protoreflect.Sfixed64Kind: protowire.Fixed64Type, protoreflect.Fixed64Kind: protowire.Fixed64Type, protoreflect.DoubleKind: protowire.Fixed64Type,
	protoreflect.StringKind: protowire.BytesType, protoreflect.BytesKind: protowire.BytesType, protoreflect.MessageKind: protowire.BytesType,
	protoreflect.GroupKind: protowire.StartGroupType,
}
