package wirejson

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// wellKnown are the message types that have a JSON form of their own.
var wellKnown map[protoreflect.FullName]func(*encoder, *table, []byte) error

func init() { // It refers to itself through the encoder.
	wellKnown = map[protoreflect.FullName]func(*encoder, *table, []byte) error{
		"google.protobuf.Any":         writeAny,
		"google.protobuf.Duration":    writeDuration,
		"google.protobuf.Timestamp":   writeTimestamp,
		"google.protobuf.Struct":      writeOnlyField,
		"google.protobuf.ListValue":   writeOnlyField,
		"google.protobuf.Value":       writeValue,
		"google.protobuf.FieldMask":   writeFieldMask,
		"google.protobuf.BoolValue":   writeWrapper,
		"google.protobuf.Int32Value":  writeWrapper,
		"google.protobuf.Int64Value":  writeWrapper,
		"google.protobuf.UInt32Value": writeWrapper,
		"google.protobuf.UInt64Value": writeWrapper,
		"google.protobuf.FloatValue":  writeWrapper,
		"google.protobuf.DoubleValue": writeWrapper,
		"google.protobuf.StringValue": writeWrapper,
		"google.protobuf.BytesValue":  writeWrapper,
	}
}

// first returns the value of the i-th field, zero when absent.
func (e *encoder) first(f frame, i int) entry {
	if at := e.head(f, i); at >= 0 {
		return e.entries[at]
	}
	return entry{}
}

func writeAny(e *encoder, t *table, wire []byte) error {
	f, err := e.parse(t, wire)
	if err != nil {
		return err
	}
	typeURL, value := e.first(f, 0).bytes, e.first(f, 1).bytes
	if err := e.packed(typeURL, value); err != nil {
		return err
	}
	e.pop(f)
	return nil
}

func writeWrapper(e *encoder, t *table, wire []byte) error {
	f, err := e.parse(t, wire)
	if err != nil {
		return err
	}
	x := e.first(f, 0)
	e.pop(f)
	return e.scalar(&t.fields[0], x.num, x.bytes)
}

// writeOnlyField writes Struct and ListValue, which stand for their only field.
func writeOnlyField(e *encoder, t *table, wire []byte) error {
	f, err := e.parse(t, wire)
	if err != nil {
		return err
	}
	fd := &t.fields[0]
	if fd.mapKey != nil {
		err = e.mapping(fd, e.head(f, 0))
	} else {
		err = e.list(fd, e.head(f, 0))
	}
	if err != nil {
		return err
	}
	e.pop(f)
	return nil
}

func writeValue(e *encoder, t *table, wire []byte) error {
	f, err := e.parse(t, wire)
	if err != nil {
		return err
	}
	for i := range t.fields {
		at := e.head(f, i)
		if at < 0 {
			continue
		}
		fd := &t.fields[i]
		switch x := e.entries[at]; fd.kind {
		case protoreflect.MessageKind:
			var whole []byte
			if whole, err = e.merged(at); err == nil {
				err = e.message(fd.table(), whole)
			}
		case protoreflect.DoubleKind:
			if v := math.Float64frombits(x.num); math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("wirejson: google.protobuf.Value cannot hold %v", v)
			}
			fallthrough
		default:
			err = e.scalar(fd, x.num, x.bytes)
		}
		if err != nil {
			return err
		}
		e.pop(f)
		return nil
	}
	return errors.New("wirejson: a google.protobuf.Value has no kind")
}

// secondsAndNanos reads the two fields that Duration and Timestamp share.
func (e *encoder) secondsAndNanos(t *table, wire []byte) (int64, int32, error) {
	f, err := e.parse(t, wire)
	if err != nil {
		return 0, 0, err
	}
	seconds, nanos := int64(e.first(f, 0).num), int32(e.first(f, 1).num)
	e.pop(f)
	return seconds, nanos, nil
}

func writeDuration(e *encoder, t *table, wire []byte) error {
	const most = 315_576_000_000
	seconds, nanos, err := e.secondsAndNanos(t, wire)
	if err != nil {
		return err
	}
	if seconds < -most || seconds > most || nanos <= -1e9 || nanos >= 1e9 || seconds > 0 && nanos < 0 || seconds < 0 && nanos > 0 {
		return fmt.Errorf("wirejson: a google.protobuf.Duration of %d s and %d ns is out of range", seconds, nanos)
	}
	e.out = append(e.out, '"')
	if seconds < 0 || nanos < 0 {
		e.out = append(e.out, '-')
		seconds, nanos = -seconds, -nanos
	}
	e.out = strconv.AppendInt(e.out, seconds, 10)
	e.fraction(nanos)
	e.out = append(e.out, 's', '"')
	return nil
}

// fraction writes nanoseconds with as many of 0, 3, 6 or 9 digits as they need.
func (e *encoder) fraction(nanos int32) {
	if nanos == 0 {
		return
	}
	digits := 9
	for nanos%1000 == 0 {
		nanos, digits = nanos/1000, digits-3
	}
	e.out = append(e.out, '.')
	text := strconv.Itoa(int(nanos))
	for range digits - len(text) {
		e.out = append(e.out, '0')
	}
	e.out = append(e.out, text...)
}

func writeTimestamp(e *encoder, t *table, wire []byte) error {
	const first, last = -62_135_596_800, 253_402_300_799 // Years 1 to 9999.
	seconds, nanos, err := e.secondsAndNanos(t, wire)
	if err != nil {
		return err
	}
	if seconds < first || seconds > last || nanos < 0 || nanos >= 1e9 {
		return fmt.Errorf("wirejson: a google.protobuf.Timestamp of %d s and %d ns is out of range", seconds, nanos)
	}
	e.out = append(e.out, '"')
	e.out = time.Unix(seconds, 0).UTC().AppendFormat(e.out, "2006-01-02T15:04:05")
	e.fraction(nanos)
	e.out = append(e.out, 'Z', '"')
	return nil
}

func writeFieldMask(e *encoder, t *table, wire []byte) error {
	f, err := e.parse(t, wire)
	if err != nil {
		return err
	}
	var paths []string
	for at := e.head(f, 0); at >= 0; at = e.entries[at].next {
		s := string(e.entries[at].bytes)
		c := camelCase(s)
		if !protoreflect.FullName(s).IsValid() || snakeCase(c) != s {
			return fmt.Errorf("wirejson: the field mask path %q has no JSON form", s)
		}
		paths = append(paths, c)
	}
	e.pop(f)
	return e.text([]byte(strings.Join(paths, ",")))
}

func camelCase(s string) string {
	var b strings.Builder
	upper := false
	for i := range len(s) {
		c := s[i]
		if c == '_' {
			upper = true
			continue
		}
		if upper && c >= 'a' && c <= 'z' {
			c -= 'a' - 'A'
		}
		upper = false
		b.WriteByte(c)
	}
	return b.String()
}

func snakeCase(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if c >= 'A' && c <= 'Z' {
			b.WriteByte('_')
			c += 'a' - 'A'
		}
		b.WriteByte(c)
	}
	return b.String()
}
