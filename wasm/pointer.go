package wasm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// pointer is a JSON pointer (RFC 6901), taken apart.
type pointer []string

func parsePointer(s string) (pointer, error) {
	if s == "" {
		return nil, nil
	}
	if s[0] != '/' {
		return nil, fmt.Errorf("%q is no JSON pointer: it does not start with a slash", escape(s, 200))
	}
	parts := strings.Split(s[1:], "/")
	for i, p := range parts {
		parts[i] = strings.ReplaceAll(strings.ReplaceAll(p, "~1", "/"), "~0", "~")
	}
	return parts, nil
}

func (p pointer) String() string {
	var b strings.Builder
	for _, s := range p {
		b.WriteByte('/')
		b.WriteString(strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1"))
	}
	return b.String()
}

// covers reports whether the mask p, in which "*" stands for any one segment, is the field o or above it.
func (p pointer) covers(o pointer) bool {
	if len(p) > len(o) {
		return false
	}
	for i, s := range p {
		if s != "*" && s != o[i] {
			return false
		}
	}
	return true
}

// decodeDocument reads JSON; numbers keep their text.
func decodeDocument(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, fmt.Errorf("more than one JSON value")
	}
	return v, nil
}

// encodeDocument writes JSON with sorted members.
func encodeDocument(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// change applies one step of a JSON Patch (RFC 6902 section 4) and returns the new document with the field that was
// written: "-" stands resolved in it. Of the document the containers on the way are changed in place.
func change(doc any, op string, at pointer, value any) (any, pointer, error) {
	if len(at) == 0 {
		if op == "remove" {
			return nil, nil, fmt.Errorf("the whole document can't be removed")
		}
		return value, nil, nil
	}
	key, rest := at[0], at[1:]
	switch c := doc.(type) {
	case map[string]any:
		old, there := c[key]
		if !there && (op != "add" || len(rest) > 0) {
			return nil, nil, fmt.Errorf("there is no member %q", escape(key, 100))
		}
		if len(rest) > 0 {
			changed, written, err := change(old, op, rest, value)
			if err != nil {
				return nil, nil, err
			}
			c[key] = changed
			return c, append(pointer{key}, written...), nil
		}
		if op == "remove" {
			delete(c, key)
		} else {
			c[key] = value
		}
		return c, pointer{key}, nil
	case []any:
		i, err := index(key, len(c), op == "add" && len(rest) == 0)
		if err != nil {
			return nil, nil, err
		}
		written := pointer{strconv.Itoa(i)}
		switch {
		case len(rest) > 0:
			changed, below, err := change(c[i], op, rest, value)
			if err != nil {
				return nil, nil, err
			}
			c[i] = changed
			return c, append(written, below...), nil
		case op == "add":
			c = slices.Insert(c, i, value)
		case op == "remove":
			c = slices.Delete(c, i, i+1)
		default:
			c[i] = value
		}
		return c, written, nil
	default:
		return nil, nil, fmt.Errorf("there is nothing below a value that is no object or array, at %q", escape(key, 100))
	}
}

// index reads the index of an array of n items; one past the end, or "-", is possible when something is added.
func index(key string, n int, adding bool) (int, error) {
	if adding && key == "-" {
		return n, nil
	}
	i, err := strconv.ParseUint(key, 10, 31)
	if err != nil || key != strconv.FormatUint(i, 10) {
		return 0, fmt.Errorf("%q is no index of an array", escape(key, 100))
	}
	if int(i) > n || int(i) == n && !adding {
		return 0, fmt.Errorf("index %d is beyond an array of %d", i, n)
	}
	return int(i), nil
}

// differences returns the fields in which two documents differ: the deepest ones, in order.
func differences(a, b any, at pointer) []pointer {
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			keys := make([]string, 0, len(x)+len(y))
			for k := range x {
				keys = append(keys, k)
			}
			for k := range y {
				if _, both := x[k]; !both {
					keys = append(keys, k)
				}
			}
			slices.Sort(keys)
			var out []pointer
			for _, k := range keys {
				l, inA := x[k]
				r, inB := y[k]
				below := append(slices.Clip(at), k)
				if inA && inB {
					out = append(out, differences(l, r, below)...)
				} else {
					out = append(out, below)
				}
			}
			return out
		}
	case []any:
		if y, ok := b.([]any); ok && len(x) == len(y) {
			var out []pointer
			for i := range x {
				out = append(out, differences(x[i], y[i], append(slices.Clip(at), strconv.Itoa(i)))...)
			}
			return out
		}
	}
	if reflect.DeepEqual(a, b) {
		return nil
	}
	return []pointer{slices.Clone(at)}
}

// leaves returns the fields of a document that hold no further fields; an empty object is one.
func leaves(v any, at pointer) []pointer {
	switch x := v.(type) {
	case map[string]any:
		if len(x) == 0 {
			return []pointer{slices.Clone(at)}
		}
		keys := make([]string, 0, len(x))
		for k := range x {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		var out []pointer
		for _, k := range keys {
			out = append(out, leaves(x[k], append(slices.Clip(at), k))...)
		}
		return out
	default:
		return []pointer{slices.Clone(at)}
	}
}
