package api

import (
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/chancery-gateway/chancery/snapshot/api/internal/fieldpath"
	"github.com/chancery-gateway/chancery/snapshot/api/internal/jsonobject"
)

// The whole document was checked when it was split, so its parts need no second check for duplicate names and UTF-8.
var (
	lax    = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	strict = json.JoinOptions(lax, json.RejectUnknownMembers(true))
)

// decode reads a part of the document into a Go value and reports whether it could; if not, every value of a wrong type has
// been reported. Names that the value's type does not have are passed over.
func (r *reader) decode(v jsontext.Value, path string, into any) bool {
	_, ok := r.decodeAs(v, path, into, false)
	return ok
}

// decodeStrictly is decode for a part that must have no further names: it warns of them, and returns the part without them.
func (r *reader) decodeStrictly(v jsontext.Value, path string, into any) (clean jsontext.Value, ok bool) {
	return r.decodeAs(v, path, into, true)
}

func (r *reader) decodeAs(v jsontext.Value, path string, into any, warnUnknown bool) (clean jsontext.Value, ok bool) {
	options := lax
	if warnUnknown {
		options = strict
	}
	if json.Unmarshal(v, into, options) == nil {
		return v, true
	}
	i := inspector{reader: r, warnUnknown: warnUnknown}
	target := reflect.ValueOf(into).Elem()
	clean = i.value(v, target.Type(), path)
	if i.mistaken {
		return nil, false
	}
	r.edited = true
	target.SetZero()
	if err := json.Unmarshal(clean, into, lax); err != nil {
		message := "cannot be read"
		if !r.secret {
			message += ": " + err.Error()
		}
		r.fail(codeType, path, message, "")
		return nil, false
	}
	return clean, true
}

// inspector compares a JSON value with a Go type and says everything that does not fit. It is used only where decoding
// failed, so it may be slow and thorough.
type inspector struct {
	*reader
	warnUnknown bool
	mistaken    bool
}

var (
	rawType  = reflect.TypeFor[jsontext.Value]()
	textType = reflect.TypeFor[encoding.TextUnmarshaler]()
	jsonType = reflect.TypeFor[json.UnmarshalerFrom]()
)

// exemplary is a type with a text form of its own.
type exemplary interface {
	// Example names the form and shows it: `a duration such as "1m30s"`.
	Example() string
}

// value inspects one value and returns it without the names that its type does not have.
func (i *inspector) value(v jsontext.Value, t reflect.Type, path string) jsontext.Value {
	if v.Kind() == 'n' || t == rawType || t.Kind() == reflect.Interface {
		return v
	}
	if pointer := reflect.PointerTo(t); pointer.Implements(textType) || pointer.Implements(jsonType) {
		target := reflect.New(t).Interface()
		if json.Unmarshal(v, target, lax) != nil {
			i.mistake(v, path, target.(exemplary).Example())
		}
		return v
	}
	switch t.Kind() {
	case reflect.Pointer:
		return i.value(v, t.Elem(), path)
	case reflect.Struct:
		return i.object(v, t, path)
	case reflect.Map:
		o, ok := jsonobject.Parse(v)
		if !ok {
			return i.mistake(v, path, "an object")
		}
		for n, m := range o {
			o[n].Value = i.value(m.Value, t.Elem(), fieldpath.Member(path, m.Name))
		}
		return o.Encode()
	case reflect.Slice:
		items, ok := jsonobject.ParseList(v)
		if !ok {
			return i.mistake(v, path, listOf(t.Elem()))
		}
		for n, item := range items {
			items[n] = i.value(item, t.Elem(), fieldpath.Item(path, n))
		}
		return jsonobject.EncodeList(items)
	}
	if json.Unmarshal(v, reflect.New(t).Interface(), lax) != nil {
		return i.mistake(v, path, scalar(v, t))
	}
	return v
}

func (i *inspector) object(v jsontext.Value, t reflect.Type, path string) jsontext.Value {
	o, ok := jsonobject.Parse(v)
	if !ok {
		return i.mistake(v, path, "an object")
	}
	fields := fieldsOf(t)
	kept := o[:0]
	for _, m := range o {
		at := fieldpath.Member(path, m.Name)
		if f, ok := fields[m.Name]; ok {
			m.Value = i.value(m.Value, f, at)
			kept = append(kept, m)
		} else if i.warnUnknown {
			i.unknownField(at, m.Name, fields)
		}
	}
	return kept.Encode()
}

// unknownField warns of a name that means nothing.
func (r *reader) unknownField(path, name string, known map[string]reflect.Type) {
	help := ""
	if len(r.found) < mostFindings {
		help = didYouMean(name, known)
	}
	r.warn(codeUnknownField, path, fmt.Sprintf("unknown field %q; it has no effect", name), help)
}

// mistake reports a value that is not what was expected.
func (i *inspector) mistake(v jsontext.Value, path, expected string) jsontext.Value {
	i.mistaken = true
	found, text := kindName(v.Kind()), string(v)
	const longest = 60
	shown := !i.secret && len(text) <= longest && strings.ContainsRune(`"0tf`, rune(v.Kind()))
	if shown {
		found += ": " + text
	}
	help := ""
	switch {
	case i.secret:
	case expected == "a list of strings" && v.Kind() == '"' && shown:
		help = "write it as a list: [" + text + "]"
	case expected == "a string" && (v.Kind() == '0' || v.Kind() == 't' || v.Kind() == 'f') && shown:
		help = "put the value in quotes: " + strconv.Quote(text)
	case expected == "an integer" && v.Kind() == '"':
		if unquoted, ok := jsonobject.Text(v); ok {
			if _, err := strconv.ParseInt(unquoted, 10, 64); err == nil {
				help = "write it without quotes: " + unquoted
			}
		}
	case expected == "true or false" && v.Kind() == '"':
		help = "write true or false without quotes"
	}
	i.fail(codeType, path, "expected "+expected+", found "+found, help)
	return v
}

// scalar names what a field of a plain type holds; for a number out of range, the range.
func scalar(v jsontext.Value, t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	}
	if v.Kind() == '0' && !strings.ContainsAny(string(v), ".eE") {
		bits := t.Bits()
		if t.Kind() >= reflect.Uint && t.Kind() <= reflect.Uint64 {
			return fmt.Sprintf("an integer from 0 to %d", ^uint64(0)>>(64-bits))
		}
		highest := int64(^uint64(0) >> (65 - bits))
		return fmt.Sprintf("an integer from %d to %d", -highest-1, highest)
	}
	return "an integer"
}

func listOf(item reflect.Type) string {
	if item.Kind() == reflect.String {
		return "a list of strings"
	}
	return "a list"
}

// kindName names a kind of JSON value for people.
func kindName(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '{':
		return "an object"
	case '[':
		return "a list"
	}
	return "nothing"
}

// fieldsOf returns the types of a struct's fields by JSON name.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name != "" && name != "-":
			fields[name] = f.Type
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			maps.Copy(fields, fieldsOf(f.Type))
		}
	}
	return fields
}

func didYouMean(name string, fields map[string]reflect.Type) string {
	return DidYouMean(name, slices.Sorted(maps.Keys(fields)))
}

// DidYouMean returns the question with the known name nearest to a wrong one, or "" where none is near: the same but for
// case, dashes and underscores, or else at most a third of its letters wrong. Of two that are as near the first counts.
func DidYouMean(name string, known []string) string {
	best, distance := "", len(name)/3+1
	for _, candidate := range known {
		d := editDistance(plain(name), plain(candidate))
		if d < distance {
			best, distance = candidate, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("did you mean %q?", best)
}

func plain(name string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name))
}

// editDistance is the number of single letters to insert, delete or replace that turns a into b.
func editDistance(a, b string) int {
	const longest = 100 // no field name is near that long
	if len(a) > longest {
		return longest
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

// pointerPath turns a JSON pointer into a field path.
func pointerPath(p jsontext.Pointer) string {
	path := ""
	for token := range p.Tokens() {
		if n, err := strconv.Atoi(token); err == nil && n >= 0 && path != "" {
			path = fieldpath.Item(path, n)
		} else {
			path = fieldpath.Member(path, token)
		}
	}
	return path
}
