package envoy

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// fault is one reason why a unit cannot be served as it is. Path is the protobuf field path.
type fault struct {
	code          *snapshot.Code
	path, message string
	help          string
}

// faults collects what constructors find. The zero value is ready for use.
type faults []fault

func (f *faults) add(code *snapshot.Code, path, format string, args ...any) {
	*f = append(*f, fault{code: code, path: path, message: fmt.Sprintf(format, args...)})
}

// validated is what protoc-gen-validate generates for each message.
type validated interface {
	proto.Message
	Validate() error
	ValidateAll() error
}

// check applies the message's protobuf rules. The first pass stops at the first violation; only a guilty message pays for
// the second, which lists all.
func (f *faults) check(path string, m validated) {
	if m.Validate() == nil {
		return
	}
	f.flatten(path, m.ValidateAll())
}

// violation is what every generated error has.
type violation interface {
	Field() string
	Reason() string
	Cause() error
}

func (f *faults) flatten(path string, err error) {
	switch e := err.(type) {
	case nil:
	case interface{ AllErrors() []error }:
		for _, one := range e.AllErrors() {
			f.flatten(path, one)
		}
	case violation:
		at := snake(e.Field())
		if path != "" {
			at = path + "." + at
		}
		if e.Cause() != nil {
			f.flatten(at, e.Cause())
			return
		}
		f.add(codeRule, at, "%s", e.Reason())
	default:
		f.add(codeRule, path, "%s", err)
	}
}

// snake turns "RequestHeadersToAdd[0]" into "request_headers_to_add[0]".
func snake(name string) string {
	var b strings.Builder
	key := false
	for i, r := range name {
		key = key || r == '['
		if r >= 'A' && r <= 'Z' && !key {
			if i > 0 {
				b.WriteByte('_')
			}
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

var deterministic = proto.MarshalOptions{Deterministic: true}

// pack validates the message and wraps it: after packing nobody would look inside.
func (f *faults) pack(path string, m validated) *anypb.Any {
	f.check(path, m)
	return &anypb.Any{TypeUrl: typePrefix + string(m.ProtoReflect().Descriptor().FullName()), Value: f.marshal(path, m)}
}

// marshal encodes deterministically. It fails on strings that are not UTF-8 only, which becomes a fault.
func (f *faults) marshal(path string, m proto.Message) []byte {
	b, err := deterministic.Marshal(m)
	if err != nil {
		f.add(codeRule, path, "%s", err)
	}
	return b
}

const typePrefix = "type.googleapis.com/"

// diagnostics addresses each fault to each origin. what names the unit, for example `cluster "x"`; effect says what became of it.
func (f faults) diagnostics(what, effect string, origins []ir.Origin) []snapshot.Diagnostic {
	if len(f) == 0 {
		return nil
	}
	if len(origins) == 0 {
		origins = []ir.Origin{{}}
	}
	ds := make([]snapshot.Diagnostic, 0, len(f)*len(origins))
	for _, one := range f {
		message := what + " " + effect + ": "
		if one.path != "" {
			message += one.path + ": "
		}
		for _, o := range origins {
			ds = append(ds, snapshot.Diagnostic{Severity: snapshot.Error, Code: one.code, Object: o, Message: message + one.message, Help: one.help})
		}
	}
	return ds
}
