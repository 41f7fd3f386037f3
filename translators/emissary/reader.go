package emissary

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
)

// reader takes values out of a schema-less JSON object. A value of the wrong type is reported and counts as absent.
type reader struct {
	l      *lowering
	s      *settings
	path   string
	values map[string]any
	seen   map[string]bool
}

// get returns the value of a key; null counts as absent.
func (r *reader) get(key string) (any, bool) {
	if r.seen == nil {
		r.seen = map[string]bool{}
	}
	r.seen[key] = true
	v, ok := r.values[key]
	return v, ok && v != nil
}

// invalid reports a value that cannot be used.
func (r *reader) invalid(key, message, help string) {
	r.l.report(snapshot.Error, codeModuleValue, r.path+"."+key, message, help)
}

// flag reads a boolean; texts such as "true" and "1" are understood, as in Emissary.
func (r *reader) flag(key string, into *bool) {
	v, ok := r.get(key)
	if !ok {
		return
	}
	switch v := v.(type) {
	case bool:
		*into = v
		return
	case string:
		switch strings.ToLower(v) {
		case "true", "yes", "y", "on", "1":
			*into = true
			return
		case "false", "no", "n", "off", "0":
			*into = false
			return
		}
	}
	r.invalid(key, fmt.Sprintf("%s is not a boolean", show(v)), "true or false")
}

func (r *reader) text(key string, into *string) {
	v, ok := r.get(key)
	if !ok {
		return
	}
	if s, is := v.(string); is {
		*into = s
		return
	}
	r.invalid(key, fmt.Sprintf("%s is not a text", show(v)), "")
}

// number reads a whole number of min to max.
func (r *reader) number(key string, min, max int64) (int64, bool) {
	v, ok := r.get(key)
	if !ok {
		return 0, false
	}
	n, is := whole(v)
	if !is || n < min || n > max {
		r.invalid(key, fmt.Sprintf("%s is not a whole number of %d to %d", show(v), min, max), "")
		return 0, false
	}
	return n, true
}

func whole(v any) (int64, bool) {
	switch n := v.(type) {
	case float64:
		if n == math.Trunc(n) && math.Abs(n) < 1<<53 {
			return int64(n), true
		}
	case int:
		return int64(n), true
	case int64:
		return n, true
	case json.Number:
		i, err := n.Int64()
		return i, err == nil
	case string:
		i, err := strconv.ParseInt(n, 10, 64)
		return i, err == nil
	}
	return 0, false
}

// millis reads a number of milliseconds.
func (r *reader) millis(key string) *int64 {
	if n, ok := r.number(key, 0, maxMillis); ok {
		return &n
	}
	return nil
}

// object returns a reader of a nested object.
func (r *reader) object(key string) *reader {
	v, ok := r.get(key)
	if !ok {
		return nil
	}
	m, is := v.(map[string]any)
	if !is {
		r.invalid(key, fmt.Sprintf("%s is not an object", show(v)), "")
		return nil
	}
	return &reader{l: r.l, s: r.s, path: r.path + "." + key, values: m}
}

// decode reads a value into a typed field of the custom resources; unknown fields are invalid.
func (r *reader) decode(key string, into any) bool {
	v, ok := r.get(key)
	if !ok {
		return false
	}
	text, err := json.Marshal(v)
	if err == nil {
		d := json.NewDecoder(strings.NewReader(string(text)))
		d.DisallowUnknownFields()
		err = d.Decode(into)
	}
	if err != nil {
		r.invalid(key, strings.TrimPrefix(err.Error(), "json: "), "")
		return false
	}
	return true
}

// trial runs check, which reports as for an object of its own, and turns its errors into findings about the key. It says
// whether there were none.
func (r *reader) trial(key string, check func(l *lowering, path string)) bool {
	t := &lowering{f: r.l.f, o: r.l.o, set: r.s, out: r.l.out}
	from := len(t.out.Diagnostics)
	check(t, r.path+"."+key)
	for i := from; i < len(t.out.Diagnostics); i++ {
		t.out.Diagnostics[i].Code = codeModuleValue
	}
	return !t.failed
}

// unknown warns of every key of a nested object that no one has read.
func (r *reader) unknown() {
	for _, key := range sortedKeys(r.values) {
		if !r.seen[key] {
			r.l.warn(codeModuleUnknown, r.path+"."+key, "unknown key \""+key+"\"", "")
		}
	}
}

// show writes a value for a message.
func show(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%v", v)
	}
	if len(text) > 60 {
		return string(text[:60]) + "..."
	}
	return string(text)
}
