package validator

import (
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// A unit is looked into before Envoy sees it for files, code and names of secrets, and nearly every unit has none. scan tells so
// from the bytes, without decoding what can hold nothing of the kind: half a microsecond a route.

// shape is what scan knows of a message type: the fields by which it may hold something to look at.
type shape struct {
	// look: a message of this type is to be looked at wherever it stands.
	look bool
	// packed is google.protobuf.Any; source is a DataSource, which is to be looked at when it names a file.
	packed, source bool
	fields         map[protowire.Number]*shape
}

var shapes = struct {
	sync.Mutex
	byName map[protoreflect.FullName]*shape
}{byName: map[protoreflect.FullName]*shape{}}

// shapeOf returns the shape of a type.
func shapeOf(d protoreflect.MessageDescriptor) *shape {
	shapes.Lock()
	defer shapes.Unlock()
	return makeShape(d)
}

func makeShape(d protoreflect.MessageDescriptor) *shape {
	if s := shapes.byName[d.FullName()]; s != nil {
		return s
	}
	s := &shape{fields: map[protowire.Number]*shape{}}
	shapes.byName[d.FullName()] = s // before its fields: types hold themselves
	switch name := d.FullName(); {
	case name == "google.protobuf.Any":
		s.packed = true
		return s
	case name == "envoy.config.core.v3.DataSource":
		s.source = true
		return s
	case name == "envoy.extensions.access_loggers.file.v3.FileAccessLog", name == "envoy.extensions.transport_sockets.tls.v3.SdsSecretConfig", runsCode(name):
		s.look = true
		return s
	}
	for i := range d.Fields().Len() {
		if f := d.Fields().Get(i); f.Message() != nil && reaches(f.Message()) {
			s.fields[f.Number()] = makeShape(f.Message())
		}
	}
	return s
}

// reaches reports whether a message of the type can hold anything to look at.
func reaches(d protoreflect.MessageDescriptor) bool {
	seen := map[protoreflect.FullName]bool{}
	var find func(d protoreflect.MessageDescriptor) bool
	find = func(d protoreflect.MessageDescriptor) bool {
		name := d.FullName()
		if seen[name] {
			return false
		}
		seen[name] = true
		switch name {
		case "google.protobuf.Any", "envoy.config.core.v3.DataSource", "envoy.extensions.access_loggers.file.v3.FileAccessLog", "envoy.extensions.transport_sockets.tls.v3.SdsSecretConfig":
			return true
		}
		if runsCode(name) {
			return true
		}
		for i := range d.Fields().Len() {
			if m := d.Fields().Get(i).Message(); m != nil && find(m) {
				return true
			}
		}
		return false
	}
	return find(d)
}

// fieldFilename is DataSource.filename; fieldType and fieldValue are those of Any.
const (
	fieldFilename protowire.Number = 1
	fieldType     protowire.Number = 1
	fieldValue    protowire.Number = 2
)

// scan reports whether a message is to be looked at. What it cannot read is.
func scan(s *shape, b []byte) bool {
	switch {
	case s.look:
		return true
	case s.packed:
		return scanPacked(b)
	}
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return true
		}
		if kind != protowire.BytesType {
			m := protowire.ConsumeFieldValue(number, kind, b[n:])
			if m < 0 {
				return true
			}
			b = b[n+m:]
			continue
		}
		value, m := protowire.ConsumeBytes(b[n:])
		if m < 0 || s.source && number == fieldFilename {
			return true
		}
		if inner := s.fields[number]; inner != nil && scan(inner, value) {
			return true
		}
		b = b[n+m:]
	}
	return false
}

func scanPacked(b []byte) bool {
	var url string
	var value []byte
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 || kind != protowire.BytesType {
			return true
		}
		field, m := protowire.ConsumeBytes(b[n:])
		if m < 0 {
			return true
		}
		switch number {
		case fieldType:
			url = string(field)
		case fieldValue:
			value = field
		default:
			return true
		}
		b = b[n+m:]
	}
	if url == "" && value == nil {
		return false // an empty one
	}
	t, err := protoregistry.GlobalTypes.FindMessageByURL(url)
	return err != nil || scan(shapeOf(t.Descriptor()), value)
}

// plain reports whether a unit's value has nothing to look at.
func plain(m proto.Message, value []byte) bool {
	return !scan(shapeOf(m.ProtoReflect().Descriptor()), value)
}
