// Package jsonobject edits JSON objects as text: members can be read, replaced, renamed and removed, and all else stays
// as it was written, in its order.
package jsonobject

import (
	"bytes"
	"iter"

	"github.com/go-json-experiment/json/jsontext"
)

// Object is a JSON object as a list of members in the order of writing.
type Object []Member

// Member is one member of an object.
type Member struct {
	Name  string
	Value jsontext.Value
}

// Parse splits an object into its members. Values are parts of v's own text, which must not change afterwards and must be
// well formed. It reports false for anything but an object.
func Parse(v jsontext.Value) (Object, bool) { return ParseInto(make(Object, 0, 8), v) }

// ParseInto is Parse with the memory of an object that is no longer needed.
func ParseInto(o Object, v jsontext.Value) (Object, bool) {
	if v.Kind() != '{' {
		return nil, false
	}
	o = o[:0]
	for c := Open(v, '{'); c.Next(); {
		o = append(o, Member{nameOf(c.Name), c.Value})
	}
	return o, true
}

// nameOf returns the name as a string, without a copy for those that most objects have.
func nameOf(name []byte) string {
	for _, n := range frequent {
		if string(name) == n {
			return n
		}
	}
	return string(name)
}

var frequent = []string{"apiVersion", "kind", "metadata", "spec", "addressType", "endpoints", "ports", "data", "type", "status"}

// ParseList splits a JSON array into its items, under the same terms; it reports false for anything else.
func ParseList(v jsontext.Value) ([]jsontext.Value, bool) {
	if v.Kind() != '[' {
		return nil, false
	}
	items := []jsontext.Value{}
	for c := Open(v, '['); c.Next(); {
		items = append(items, c.Value)
	}
	return items, true
}

// Members yields names and values of an object, which must be well formed; nothing for anything else.
func Members(v jsontext.Value) iter.Seq2[[]byte, jsontext.Value] {
	return func(yield func([]byte, jsontext.Value) bool) {
		for c := Open(v, '{'); c.Next(); {
			if !yield(c.Name, c.Value) {
				return
			}
		}
	}
}

// Cursor goes through the members of an object or the items of an array, without the memory that an iterator may take.
type Cursor struct {
	// Name is that of a member, Value is the member's or the item itself.
	Name, Value jsontext.Value

	v    jsontext.Value
	at   int
	open byte
}

// Open returns the cursor before the first member of an object ('{') or item of an array ('['), which must be well formed; it has
// nothing before it in anything else.
func Open(v jsontext.Value, kind byte) Cursor {
	c := Cursor{open: kind}
	if byte(v.Kind()) == kind {
		c.v, c.at = v, after(v, 0, kind)
	}
	return c
}

// Next moves on by one and reports whether there was one.
func (c *Cursor) Next() bool {
	if c.at >= len(c.v) || c.v[c.at] == '}' || c.v[c.at] == ']' {
		return false
	}
	end := valueEnd(c.v, c.at)
	if c.open == '{' {
		c.Name = unquoted(c.v[c.at:end])
		c.at = after(c.v, end, ':')
		end = valueEnd(c.v, c.at)
	}
	c.Value = c.v[c.at:end:end]
	c.at = after(c.v, end, ',')
	return true
}

// after passes white space, one delimiter if it is there, and white space.
func after(v []byte, at int, delimiter byte) int {
	for at < len(v) && v[at] <= ' ' {
		at++
	}
	if at < len(v) && v[at] == delimiter {
		at++
	}
	for at < len(v) && v[at] <= ' ' {
		at++
	}
	return at
}

// valueEnd returns where the value that begins at at ends. It moves on by at least one byte where there is one.
func valueEnd(v []byte, at int) int {
	depth := 0
	for at < len(v) {
		switch v[at] {
		case '"':
			for at++; at < len(v) && v[at] != '"'; at++ {
				if v[at] == '\\' {
					at++
				}
			}
			at = min(at+1, len(v))
		case '{', '[':
			depth++
			at++
			continue
		case '}', ']':
			depth--
			at++
		default:
			for at++; at < len(v) && (depth > 0 && v[at] != '"' && v[at] != '{' && v[at] != '[' && v[at] != '}' && v[at] != ']' ||
				depth == 0 && !endsScalar(v[at])); at++ {
			}
		}
		if depth <= 0 {
			return at
		}
	}
	return at
}

// unquoted returns the text of a quoted name.
func unquoted(quoted []byte) []byte {
	if len(quoted) < 2 || bytes.IndexByte(quoted, '\\') >= 0 {
		text, _ := jsontext.AppendUnquote(nil, quoted)
		return text
	}
	return quoted[1 : len(quoted)-1]
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
func Text(v jsontext.Value) (string, bool) { return TextLike(v, "") }

// TextLike is Text that returns like itself where the text is the same.
func TextLike(v jsontext.Value, like string) (string, bool) {
	if v.Kind() != '"' {
		return "", false
	}
	text := unquoted(bytes.TrimSpace(v))
	if string(text) == like {
		return like, true
	}
	return string(text), true
}

// Quote returns a JSON string.
func Quote(s string) jsontext.Value {
	b, _ := jsontext.AppendQuote(nil, s)
	return b
}
