// Package merge joins the specs of competing objects field by field with a closed set of combinators. Its outcome depends
// on the claims and their age alone, never on the order in which they are given.
package merge

import (
	"bytes"
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
	// ParentCeiling takes the least of the claims, but never more than the platform's; ParentFloor the most, never less.
	ParentCeiling Strategy = "parent-ceiling"
	ParentFloor   Strategy = "parent-floor"
)

// Strategies lists every strategy.
var Strategies = []Strategy{FirstWins, LastWins, Union, Intersection, Min, Max, DenyOverrides, RequireEqual, AppendByKey, ParentCeiling, ParentFloor}

// security are the fields that decide who may speak with whom, with their strategies unless a rule picks another; LastWins
// is never taken for them.
var security = map[string]Strategy{
	"spec.bypass_auth": DenyOverrides, "spec.auth_context_extensions": RequireEqual, "spec.cors": RequireEqual,
	"spec.tls": RequireEqual, "spec.tlsSecret": RequireEqual, "spec.tlsContext": RequireEqual, "spec.requestPolicy": DenyOverrides,
	"spec.ip_allow": RequireEqual, "spec.ip_deny": RequireEqual, "spec.auth_service": RequireEqual, "spec.failure_mode_allow": DenyOverrides,
	"spec.securityModel": RequireEqual, "spec.protocol": RequireEqual, "spec.protocolStack": RequireEqual, "spec.acmeProvider": RequireEqual,
}

// Secure reports whether the path is a security field or below one.
func Secure(path string) bool { return lookup(security, path) != "" }

// lookup finds the strategy of the longest prefix of the path.
func lookup(of map[string]Strategy, path string) Strategy {
	for at := path; at != ""; {
		if s, ok := of[at]; ok {
			return s
		}
		i := strings.LastIndexByte(at, '.')
		if i < 0 {
			break
		}
		at = at[:i]
	}
	return ""
}

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

// Merge joins the claims, which must be sorted by age, the oldest first. fields picks strategies by path, fallback the one of
// all other fields. It returns the joined spec, where each field came from, and the claims that were rejected. It fails for
// a strategy that is not known, that does not fit the values, or that is not allowed for a field.
func Merge(claims []Claim, fields map[string]Strategy, fallback Strategy) (map[string]any, []Field, []Rejection, error) {
	if fallback == "" {
		fallback = FirstWins
	}
	for _, path := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(Strategies, fields[path]) {
			return nil, nil, nil, fmt.Errorf("strategy %q of %s is not known", fields[path], path)
		}
		if fields[path] == LastWins && Secure(path) {
			return nil, nil, nil, fmt.Errorf("%s is a security field and cannot be last-wins", path)
		}
	}
	if !slices.Contains(Strategies, fallback) {
		return nil, nil, nil, fmt.Errorf("strategy %q is not known", fallback)
	}
	pick := func(path string) Strategy {
		if s := lookup(fields, path); s != "" {
			return s
		}
		if s := lookup(security, path); s != "" {
			return s
		}
		return fallback
	}
	claims, rejected := equal(claims, pick)
	out := map[string]any{}
	var provenance []Field
	for _, name := range names(claims) {
		path := "spec." + name
		s := pick(path)
		f := Field{Path: path, Strategy: s}
		var values []value
		for _, c := range claims {
			if v, ok := c.Spec[name]; ok && v != nil {
				values = append(values, value{c, v})
				f.Contributors = append(f.Contributors, c.ID)
			}
		}
		if len(values) == 0 {
			continue
		}
		v, err := combine(s, values, len(claims))
		if err != nil {
			return nil, nil, nil, fmt.Errorf("%s: %w", path, err)
		}
		for _, w := range values {
			if reflect.DeepEqual(w.v, v) {
				f.Winner = w.c.ID
				break
			}
		}
		if v != nil {
			out[name] = v
		}
		provenance = append(provenance, f)
	}
	return out, provenance, rejected, nil
}

type value struct {
	c Claim
	v any
}

func names(claims []Claim) []string {
	all := map[string]bool{}
	for _, c := range claims {
		for n := range c.Spec {
			all[n] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// equal rejects the claims that differ from the oldest in a field that must be equal.
func equal(claims []Claim, pick func(string) Strategy) (kept []Claim, rejected []Rejection) {
	all := names(claims)
	for i, c := range claims {
		differs := ""
		for _, name := range all {
			if i > 0 && pick("spec."+name) == RequireEqual && !reflect.DeepEqual(c.Spec[name], claims[0].Spec[name]) {
				differs = "spec." + name
				break
			}
		}
		if differs == "" {
			kept = append(kept, c)
			continue
		}
		rejected = append(rejected, Rejection{c.ID, differs, fmt.Sprintf("%s differs from %s, which is older, and must be equal", differs, claims[0].ID)})
	}
	return kept, rejected
}

func combine(s Strategy, values []value, claims int) (any, error) {
	switch s {
	case FirstWins, RequireEqual:
		return values[0].v, nil
	case LastWins:
		return values[len(values)-1].v, nil
	case Min, Max, ParentCeiling, ParentFloor:
		return number(s, values)
	case DenyOverrides:
		return strictest(values)
	case Union, Intersection:
		return sets(s, values)
	case AppendByKey:
		return byKey(values)
	}
	return nil, fmt.Errorf("strategy %q is not known", s)
}

func number(s Strategy, values []value) (any, error) {
	var best, parent json.Number
	less := func(a, b json.Number) bool {
		x, _ := a.Float64()
		y, _ := b.Float64()
		return x < y
	}
	for _, w := range values {
		n, ok := w.v.(json.Number)
		if !ok {
			return nil, fmt.Errorf("%s is for numbers, and %s has %v", s, w.c.ID, w.v)
		}
		smaller := best == "" || less(n, best)
		larger := best == "" || less(best, n)
		if (s == Min || s == ParentCeiling) && smaller || (s == Max || s == ParentFloor) && larger {
			best = n
		}
		if w.c.Parent && parent == "" {
			parent = n
		}
	}
	if parent != "" && (s == ParentCeiling && less(parent, best) || s == ParentFloor && less(best, parent)) {
		best = parent
	}
	return best, nil
}

// order ranks words from the strictest.
var order = []string{"reject", "deny", "redirect", "route", "allow"}

func strictest(values []value) (any, error) {
	best := values[0].v
	for _, w := range values[1:] {
		next, err := stricter(best, w.v)
		if err != nil {
			return nil, fmt.Errorf("deny-overrides: %s: %w", w.c.ID, err)
		}
		best = next
	}
	return best, nil
}

func stricter(a, b any) (any, error) {
	if reflect.DeepEqual(a, b) {
		return a, nil
	}
	switch x := a.(type) {
	case bool:
		if y, ok := b.(bool); ok {
			return x && y, nil
		}
	case string:
		if y, ok := b.(string); ok {
			i, j := slices.Index(order, strings.ToLower(x)), slices.Index(order, strings.ToLower(y))
			if i >= 0 && j >= 0 {
				if i < j {
					return x, nil
				}
				return y, nil
			}
		}
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			out := maps.Clone(x)
			for k, v := range y {
				if have, there := x[k]; there {
					next, err := stricter(have, v)
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
