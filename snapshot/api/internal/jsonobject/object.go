// Package jsonobject edits JSON objects as text: members can be read, replaced, renamed and removed, and all else stays
// as it was written, in its order.
package jsonobject

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Object is a JSON object as a list of members in the order of writing.
type Object []Member

// Member is one member of an object.
type Member struct {
	Name  string
	Value jsontext.Value
}

// Read splits an object into its members. Values are parts of v's own text, which must not change afterwards. The error is a
// *jsontext.SyntacticError where the text is not well formed or has a name twice (unless opts allow that), and
// ErrNotObject where it is no object.
func Read(v jsontext.Value, opts ...jsontext.Options) (Object, error) {
	d := decoders.Get().(*jsontext.Decoder)
	defer decoders.Put(d)
	d.Reset(bytes.NewBuffer(v), opts...)
	if kind := d.PeekKind(); kind != '{' {
		if err := d.SkipValue(); err != nil {
			return nil, err
		}
		return nil, ErrNotObject
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	o := make(Object, 0, 8)
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		m := Member{Name: name.String()}
		if m.Value, err = read(d, v); err != nil {
			return nil, err
		}
		o = append(o, m)
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	if _, err := d.ReadToken(); err != io.EOF {
		if err == nil {
			err = ErrTrailing
		}
		return nil, err
	}
	return o, nil
}

// ErrNotObject says that a JSON value is no object; ErrTrailing that something follows it.
var (
	ErrNotObject = errors.New("not a JSON object")
	ErrTrailing  = errors.New("more text after the JSON object")
)

var decoders = sync.Pool{New: func() any { return new(jsontext.Decoder) }}

// read returns the next value as a part of the text that d reads.
func read(d *jsontext.Decoder, text jsontext.Value) (jsontext.Value, error) {
	value, err := d.ReadValue()
	if err != nil {
		return nil, err
	}
	end := int(d.InputOffset())
	return text[end-len(value) : end : end], nil
}

// Parse is Read for text that is known to be well formed: it reports false for anything but an object.
func Parse(v jsontext.Value) (Object, bool) {
	if v.Kind() != '{' {
		return nil, false
	}
	o, err := Read(v)
	return o, err == nil
}

// ParseList splits a JSON array into its items, parts of v's own text; it reports false for anything else.
func ParseList(v jsontext.Value) ([]jsontext.Value, bool) {
	if v.Kind() != '[' {
		return nil, false
	}
	d := decoders.Get().(*jsontext.Decoder)
	defer decoders.Put(d)
	d.Reset(bytes.NewBuffer(v))
	if _, err := d.ReadToken(); err != nil {
		return nil, false
	}
	items := []jsontext.Value{}
	for d.PeekKind() != ']' {
		item, err := read(d, v)
		if err != nil {
			return nil, false
		}
		items = append(items, item)
	}
	return items, true
}

// Get returns the member's value, or nil when there is none.
func (o Object) Get(name string) jsontext.Value {
	for i := range o {
		if o[i].Name == name {
			return o[i].Value
		}
	}
	return nil
}

// Has reports whether the object has the member.
func (o Object) Has(name string) bool { return o.Get(name) != nil }

// Set replaces the member's value, or adds the member at the end.
func (o *Object) Set(name string, value jsontext.Value) {
	for i := range *o {
		if (*o)[i].Name == name {
			(*o)[i].Value = value
			return
		}
	}
	*o = append(*o, Member{name, value})
}

// Delete removes the member and returns its value, or nil when there was none.
func (o *Object) Delete(name string) jsontext.Value {
	for i := range *o {
		if (*o)[i].Name == name {
			v := (*o)[i].Value
			*o = append((*o)[:i], (*o)[i+1:]...)
			return v
		}
	}
	return nil
}

// Rename gives a member another name. A member that has that name already is lost.
func (o *Object) Rename(from, to string) {
	if !o.Has(from) {
		return
	}
	o.Delete(to)
	for i := range *o {
		if (*o)[i].Name == from {
			(*o)[i].Name = to
		}
	}
}

// Encode writes the object.
func (o Object) Encode() jsontext.Value {
	b := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b, _ = jsontext.AppendQuote(b, m.Name) // invalid UTF-8 becomes U+FFFD, the text stays valid
		b = append(b, ':')
		b = append(b, m.Value...)
	}
	return append(b, '}')
}

// EncodeList writes a JSON array.
func EncodeList(items []jsontext.Value) jsontext.Value {
	b := []byte{'['}
	for i, v := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, v...)
	}
	return append(b, ']')
}

// Text returns the text of a JSON string; it reports false for anything else.
func Text(v jsontext.Value) (string, bool) {
	if v.Kind() != '"' {
		return "", false
	}
	b, err := jsontext.AppendUnquote(nil, bytes.TrimSpace(v))
	return string(b), err == nil
}

// Quote returns a JSON string.
func Quote(s string) jsontext.Value {
	b, _ := jsontext.AppendQuote(nil, s)
	return b
}
