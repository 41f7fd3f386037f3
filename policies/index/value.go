// Package index keeps what rules may ask about other objects (data.chancery.index): it follows the changes of snapshots
// instead of being built anew, and records which of its entries a rule has read.
package index

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/open-policy-agent/opa/v1/ast"
)

// Value turns JSON text into a value for rules, straight from the text. Names of objects repeat from object to object, so
// their terms are shared.
func Value(text []byte) (ast.Value, error) {
	d := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	return value(d)
}

// maxDepth bounds the nesting of a document.
const maxDepth = 1000

// maxDigits bounds the text of a number.
const maxDigits = 300

func value(d *jsontext.Decoder) (ast.Value, error) {
	if d.StackDepth() > maxDepth {
		return nil, fmt.Errorf("nested more than %d deep", maxDepth)
	}
	t, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch t.Kind() {
	case '{':
		var pairs [][2]*ast.Term
		for d.PeekKind() != '}' {
			name, err := d.ReadToken()
			if err != nil {
				return nil, err
			}
			key := ast.InternedTerm(name.String())
			v, err := value(d)
			if err != nil {
				return nil, err
			}
			pairs = append(pairs, [2]*ast.Term{key, ast.NewTerm(v)})
		}
		_, err := d.ReadToken()
		return ast.NewObject(pairs...), err
	case '[':
		var terms []*ast.Term
		for d.PeekKind() != ']' {
			v, err := value(d)
			if err != nil {
				return nil, err
			}
			terms = append(terms, ast.NewTerm(v))
		}
		_, err := d.ReadToken()
		return ast.NewArray(terms...), err
	case '"':
		return ast.String(t.String()), nil
	case '0':
		n := t.String()
		if len(n) > maxDigits || strings.ContainsAny(n, "eE") {
			if f, err := strconv.ParseFloat(n, 64); err != nil || len(n) > maxDigits || f != 0 && math.Abs(f) < 1e-300 {
				return nil, fmt.Errorf("number %.20s... is out of range", n) // arithmetic on it could take for ever
			}
		}
		return ast.Number(json.Number(n)), nil
	case 't', 'f':
		return ast.Boolean(t.Bool()), nil
	}
	return ast.NullValue, nil
}

func object(pairs ...any) ast.Value {
	terms := make([][2]*ast.Term, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		terms = append(terms, [2]*ast.Term{ast.InternedTerm(pairs[i].(string)), term(pairs[i+1])})
	}
	return ast.NewObject(terms...)
}

func term(v any) *ast.Term {
	switch v := v.(type) {
	case string:
		return ast.StringTerm(v)
	case int:
		return ast.IntNumberTerm(v)
	case []string:
		terms := make([]*ast.Term, len(v))
		for i, s := range v {
			terms[i] = ast.StringTerm(s)
		}
		return ast.ArrayTerm(terms...)
	case map[string]string:
		o := ast.NewObject()
		for k, s := range v {
			o.Insert(ast.StringTerm(k), ast.StringTerm(s))
		}
		return ast.NewTerm(o)
	case map[string]int:
		o := ast.NewObject()
		for k, n := range v {
			o.Insert(ast.StringTerm(k), ast.IntNumberTerm(n))
		}
		return ast.NewTerm(o)
	case ast.Value:
		return ast.NewTerm(v)
	}
	return ast.NullTerm()
}
