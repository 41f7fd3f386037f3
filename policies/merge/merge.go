// Package merge joins the specs of competing objects field by field with a closed set of combinators. Its outcome depends
// on the claims and their age alone, never on the order in which they are given.
package merge

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Strategy is how one field of several claims becomes one.
type Strategy string

// The strategies.
const (
	// FirstWins takes the oldest claim that has the field, LastWins the youngest.
	FirstWins Strategy = "first-wins"
	LastWins  Strategy = "last-wins"
	// Union and Intersection are those of lists; for objects, of names, with the oldest claim's values.
	Union        Strategy = "union"
	Intersection Strategy = "intersection"
	// Min and Max are those of numbers.
	Min Strategy = "min"
	Max Strategy = "max"
	// DenyOverrides takes the strictest: false before true, Reject before Redirect before Route.
	DenyOverrides Strategy = "deny-overrides"
	// RequireEqual rejects the claims that differ from the oldest.
	RequireEqual Strategy = "require-equal"
	// AppendByKey joins lists of objects by their "name" or "key"; for one key the oldest claim stands.
	AppendByKey Strategy = "append-by-key"
	// ParentCeiling takes the oldest claim but the platform's own, and never more than that; ParentFloor never less.
	ParentCeiling Strategy = "parent-ceiling"
	ParentFloor   Strategy = "parent-floor"
)

// Strategies lists every strategy.
var Strategies = []Strategy{FirstWins, LastWins, Union, Intersection, Min, Max, DenyOverrides, RequireEqual, AppendByKey, ParentCeiling, ParentFloor}

// Claim is one competing object.
type Claim struct {
	// ID names it; Parent is set for the platform's own.
	ID     string
	Parent bool
	// Spec is its body as JSON, decoded with numbers as json.Number.
	Spec map[string]any
}

// Field is where one field of the outcome came from.
type Field struct {
	Path     string   `json:"path"`
	Strategy Strategy `json:"strategy"`
	// Contributors are the claims that have the field; Winner is the one whose value stands, "" when it is made of several.
	Contributors []string `json:"contributors"`
	Winner       string   `json:"winner,omitempty"`
}

// Rejection is a claim that takes no part, and why.
type Rejection struct{ ID, Path, Message string }

// Merge joins the claims, which must be sorted by age, the oldest first. fields picks strategies by path, of whole fields or
// of what is below them; fallback is the one of all other fields. It returns the joined spec, where each field came from, and
// the claims that were rejected. It fails for a strategy that is not known, that does not fit the values, or that is not
// allowed for a field.
func Merge(claims []Claim, fields map[string]Strategy, fallback Strategy) (map[string]any, []Field, []Rejection, error) {
	m := merging{fields: fields, fallback: fallback}
	if fallback == "" {
		m.fallback = FirstWins
	}
	if err := m.check(); err != nil {
		return nil, nil, nil, err
	}
	claims, rejected := m.equal(claims)
	out := map[string]any{}
	var provenance []Field
	for _, path := range m.leaves(claims) {
		name := strings.Join(path, ".")
		f := Field{Path: name, Strategy: m.pick(name)}
		var values []value
		for _, c := range claims {
			v := within(c.Spec, path[1:])
			if v != nil {
				f.Contributors = append(f.Contributors, c.ID)
			} else if v = facts[name].absent; v == nil || f.Strategy != DenyOverrides {
				continue
			}
			values = append(values, value{c, v})
		}
		v, err := combine(f.Strategy, values, facts[name])
		if err != nil {
			return nil, nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, w := range values {
			if reflect.DeepEqual(w.v, v) && slices.Contains(f.Contributors, w.c.ID) {
				f.Winner = w.c.ID
				break
			}
		}
		put(out, path[1:], v)
		provenance = append(provenance, f)
	}
	return out, provenance, rejected, nil
}

// merging is what was picked for the fields.
type merging struct {
	fields   map[string]Strategy
	fallback Strategy
}

func (m merging) check() error {
	for _, path := range slices.Sorted(maps.Keys(m.fields)) {
		switch {
		case !slices.Contains(Strategies, m.fields[path]):
			return fmt.Errorf("strategy %q of %s is not known; right is one of %q", m.fields[path], path, Strategies)
		case !strings.HasPrefix(path, "spec."):
			return fmt.Errorf("%q is no field of a spec; write spec.timeout_ms", path)
		case m.fields[path] == LastWins && Secure(path):
			return fmt.Errorf("%s is a security field and cannot be last-wins", path)
		}
	}
	if !slices.Contains(Strategies, m.fallback) {
		return fmt.Errorf("strategy %q is not known; right is one of %q", m.fallback, Strategies)
	}
	return nil
}

// pick returns the strategy of a field: the nearest that a rule named, else the one of its security, else the fallback.
func (m merging) pick(path string) (s Strategy) {
	above(path, func(at string) bool {
		s = m.fields[at]
		return s != ""
	})
	return cmp.Or(s, secure(path), m.fallback)
}

// divided reports whether something below the path has a strategy of its own.
func (m merging) divided(path string) bool {
	for at := range m.fields {
		if strings.HasPrefix(at, path+".") {
			return true
		}
	}
	for at, f := range facts {
		if f.strategy != "" && strings.HasPrefix(at, path+".") {
			return true
		}
	}
	return false
}

// leaves returns the paths about which something is decided as a whole, sorted.
func (m merging) leaves(claims []Claim) [][]string {
	var out [][]string
	var visit func(path []string, objects []map[string]any)
	visit = func(path []string, objects []map[string]any) {
		names := map[string]bool{}
		for _, o := range objects {
			for n, v := range o {
				if v != nil {
					names[n] = true
				}
			}
		}
		for _, n := range slices.Sorted(maps.Keys(names)) {
			at := append(slices.Clone(path), n)
			var below []map[string]any
			whole := !m.divided(strings.Join(at, "."))
			for _, o := range objects {
				switch v := o[n].(type) {
				case nil:
				case map[string]any:
					below = append(below, v)
				default:
					whole = true
				}
			}
			if whole {
				out = append(out, at)
			} else {
				visit(at, below)
			}
		}
	}
	var specs []map[string]any
	for _, c := range claims {
		specs = append(specs, c.Spec)
	}
	visit([]string{"spec"}, specs)
	return out
}

// within returns what lies at the path; nil for nothing.
func within(at any, path []string) any {
	for _, step := range path {
		node, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = node[step]
	}
	return at
}

func put(into map[string]any, path []string, v any) {
	for _, step := range path[:len(path)-1] {
		next, ok := into[step].(map[string]any)
		if !ok {
			next = map[string]any{}
			into[step] = next
		}
		into = next
	}
	into[path[len(path)-1]] = v
}

type value struct {
	c Claim
	v any
}

// equal rejects the claims that differ from the oldest in a field that must be equal.
func (m merging) equal(claims []Claim) (kept []Claim, rejected []Rejection) {
	all := m.leaves(claims)
	for i, c := range claims {
		differs := ""
		for _, path := range all {
			name := strings.Join(path, ".")
			if i > 0 && m.pick(name) == RequireEqual && !reflect.DeepEqual(within(c.Spec, path[1:]), within(claims[0].Spec, path[1:])) {
				differs = name
				break
			}
		}
		if differs == "" {
			kept = append(kept, c)
			continue
		}
		rejected = append(rejected, Rejection{c.ID, differs, fmt.Sprintf("%s differs from that of %s, which comes first, and must be equal", differs, claims[0].ID)})
	}
	return kept, rejected
}

func combine(s Strategy, values []value, f fact) (any, error) {
	switch s {
	case FirstWins, RequireEqual:
		return values[0].v, nil
	case LastWins:
		return values[len(values)-1].v, nil
	case Min, Max, ParentCeiling, ParentFloor:
		return number(s, values, f)
	case DenyOverrides:
		return strictest(values, f)
	case Union, Intersection:
		return sets(s, values)
	case AppendByKey:
		return byKey(values)
	}
	return nil, fmt.Errorf("strategy %q is not known", s)
}

func number(s Strategy, values []value, f fact) (any, error) {
	var best, parent json.Number
	less := func(a, b json.Number) bool {
		x, _ := a.Float64()
		y, _ := b.Float64()
		if f.unlimited && (x == 0 || y == 0) {
			return x != 0 && y == 0
		}
		return x < y
	}
	for _, w := range values {
		n, ok := w.v.(json.Number)
		if !ok {
			return nil, fmt.Errorf("%s is for numbers, and %s has %v", s, w.c.ID, w.v)
		}
		bounded := s == ParentCeiling || s == ParentFloor
		switch {
		case bounded && w.c.Parent:
			if parent == "" || s == ParentCeiling && less(n, parent) || s == ParentFloor && less(parent, n) {
				parent = n
			}
		case best == "", s == Min && less(n, best), s == Max && less(best, n):
			best = n
		}
	}
	if best == "" {
		return parent, nil
	}
	if parent != "" && (s == ParentCeiling && less(parent, best) || s == ParentFloor && less(best, parent)) {
		best = parent
	}
	return best, nil
}

// order ranks words from the strictest.
var order = []string{"reject", "deny", "redirect", "route", "allow"}

// versions ranks versions of TLS from the strictest.
var versions = []string{"v1.3", "v1.2", "v1.1", "v1.0"}

func strictest(values []value, f fact) (any, error) {
	best := values[0].v
	for _, w := range values[1:] {
		next, err := stricter(best, w.v, f)
		if err != nil {
			return nil, fmt.Errorf("deny-overrides: %s: %w", w.c.ID, err)
		}
		best = next
	}
	return best, nil
}

func stricter(a, b any, f fact) (any, error) {
	if reflect.DeepEqual(a, b) {
		return a, nil
	}
	switch x := a.(type) {
	case bool:
		if _, ok := b.(bool); ok {
			return f.trueIsStrict, nil // they differ
		}
	case string:
		if y, ok := b.(string); ok {
			for _, ranks := range [][]string{order, versions} {
				i, j := slices.Index(ranks, strings.ToLower(x)), slices.Index(ranks, strings.ToLower(y))
				if i >= 0 && j >= 0 {
					if i < j {
						return x, nil
					}
					return y, nil
				}
			}
		}
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			out := maps.Clone(x)
			for k, v := range y {
				if have, there := x[k]; there {
					next, err := stricter(have, v, f)
					if err != nil {
						return nil, err
					}
					out[k] = next
				} else {
					out[k] = v
				}
			}
			return out, nil
		}
	}
	return nil, fmt.Errorf("%v and %v have no order", a, b)
}

func sets(s Strategy, values []value) (any, error) {
	if first, ok := values[0].v.(map[string]any); ok {
		out := maps.Clone(first)
		for _, w := range values[1:] {
			m, ok := w.v.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("%s: %s has no object", s, w.c.ID)
			}
			if s == Union {
				for k, v := range m {
					if _, there := out[k]; !there {
						out[k] = v
					}
				}
				continue
			}
			maps.DeleteFunc(out, func(k string, _ any) bool { _, there := m[k]; return !there })
		}
		return out, nil
	}
	seen := map[string]int{}
	byText := map[string]any{}
	for _, w := range values {
		list, ok := w.v.([]any)
		if !ok {
			return nil, fmt.Errorf("%s is for lists and objects, and %s has %v", s, w.c.ID, w.v)
		}
		mine := map[string]bool{}
		for _, v := range list {
			text := canonical(v)
			if !mine[text] {
				mine[text] = true
				seen[text]++
			}
			byText[text] = v
		}
	}
	out := []any{}
	for _, text := range slices.Sorted(maps.Keys(seen)) {
		if s == Union || seen[text] == len(values) {
			out = append(out, byText[text])
		}
	}
	return out, nil
}

func byKey(values []value) (any, error) {
	found := map[string]any{}
	for _, w := range values {
		list, ok := w.v.([]any)
		if !ok {
			return nil, fmt.Errorf("append-by-key is for lists, and %s has %v", w.c.ID, w.v)
		}
		for _, v := range list {
			o, ok := v.(map[string]any)
			key, named := o["name"]
			if !named {
				key, named = o["key"]
			}
			if !ok || !named {
				return nil, fmt.Errorf("append-by-key: an entry of %s has neither name nor key", w.c.ID)
			}
			if text := canonical(key); found[text] == nil {
				found[text] = v
			}
		}
	}
	out := []any{}
	for _, text := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[text])
	}
	return out, nil
}

func canonical(v any) string {
	text, err := json.Marshal(v) // names in order
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(bytes.TrimSpace(text))
}
