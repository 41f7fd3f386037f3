package index

import (
	"bytes"
	"hash/maphash"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/open-policy-agent/opa/v1/ast"
)

// Document is the text of an object: its value is made when somebody asks for it, and its fields can be told apart without.
type Document struct {
	text  []byte
	once  sync.Once
	value ast.Value
	err   error
}

// NewDocument returns a document of JSON text, which must not change.
func NewDocument(text []byte) *Document { return &Document{text: text} }

// Value returns the document as rules see it. made is set for the call that made it.
func (d *Document) Value() (v ast.Value, made bool, err error) {
	d.once.Do(func() {
		d.value, d.err = Value(d.text)
		made = true
	})
	return d.value, made, d.err
}

// Path is a field of an object: a name such as "kind", or two such as "spec" and "prefix".
type Path [2]string

// Print stands for a text: two equal ones are prints of equal texts but for a chance of 2^-128 that nobody can raise, since
// the seeds are random. The zero Print stands for a field that is not there.
type Print [2]uint64

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

// PrintOf returns the print of a text.
func PrintOf(text []byte) Print {
	return Print{maphash.Bytes(seeds[0], text), maphash.Bytes(seeds[1], text)}
}

// Fields are paths to look for, with their places.
type Fields struct {
	roots map[string]*root
	n     int
}

type root struct {
	whole int // the place of the root itself; -1 when it is not wanted
	below map[string]int
}

// Add wants one more path and returns its place.
func (f *Fields) Add(p Path) int {
	if f.roots == nil {
		f.roots = map[string]*root{}
	}
	r := f.roots[p[0]]
	if r == nil {
		r = &root{whole: -1, below: map[string]int{}}
		f.roots[p[0]] = r
	}
	if p[1] == "" {
		if r.whole < 0 {
			r.whole, f.n = f.n, f.n+1
		}
		return r.whole
	}
	at, have := r.below[p[1]]
	if !have {
		at, f.n = f.n, f.n+1
		r.below[p[1]] = at
	}
	return at
}

// Prints returns the print of each field of the document by place; nil when Value may not be able to read the text.
func (f *Fields) Prints(d *Document) []Print {
	if odd(d.text) {
		return nil
	}
	out := make([]Print, f.n)
	note := func(at int, v []byte) {
		p := PrintOf(v)
		// For a name that is there twice both count: which one rules see is not to be guessed here.
		out[at] = Print{out[at][0]*31 + p[0], out[at][1]*31 + p[1]}
	}
	if !members(d.text, func(r *jsontext.Decoder, name string) bool {
		w := f.roots[name]
		if w == nil {
			return r.SkipValue() == nil
		}
		v, err := r.ReadValue()
		if err != nil {
			return false
		}
		if w.whole >= 0 {
			note(w.whole, v)
		}
		return len(w.below) == 0 || v.Kind() != '{' || members(v, func(r *jsontext.Decoder, name string) bool {
			at, wanted := w.below[name]
			if !wanted {
				return r.SkipValue() == nil
			}
			v, err := r.ReadValue()
			if err == nil {
				note(at, v)
			}
			return err == nil
		})
	}) {
		return nil
	}
	return out
}

// members calls each for every member of an object; each reads the value.
func members(text []byte, each func(r *jsontext.Decoder, name string) bool) bool {
	r := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if t, err := r.ReadToken(); err != nil || t.Kind() != '{' {
		return false
	}
	for r.PeekKind() != '}' {
		t, err := r.ReadToken()
		if err != nil || t.Kind() != '"' || !each(r, t.String()) {
			return false
		}
	}
	return true
}

// odd reports whether a JSON text may have what Value does not take: numbers with exponents or of many digits, deep nesting.
func odd(text []byte) bool {
	depth, digits := 0, 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			digits = 0
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		case c >= '0' && c <= '9':
			if digits++; digits > maxDigits {
				return true
			}
		case (c == 'e' || c == 'E') && digits > 0:
			return true
		default:
			digits = 0
		}
	}
	return false
}
