package ir

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
)

// same compares what is written by hand with encoding/json.
func same[T any](t *testing.T, what string, v *T, write func(*object, *T)) {
	t.Helper()
	var want bytes.Buffer
	e := json.NewEncoder(&want)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	o := newObject()
	write(o, v)
	if got := string(o.out) + "\n"; got != want.String() || o.err != nil {
		t.Errorf("%s (%v):\n got %swant %s", what, o.err, got, want.String())
	}
}

// each calls visit once with every field below v set and all others zero, and returns the number of fields; then all stay set.
func each(v reflect.Value, path string, visit func(string)) int {
	set := func(to reflect.Value) int {
		v.Set(to)
		visit(path)
		return 1
	}
	switch v.Kind() {
	case reflect.String:
		return set(reflect.ValueOf(`a <é"` + "\u2028\xff\n").Convert(v.Type()))
	case reflect.Bool:
		return set(reflect.ValueOf(true))
	case reflect.Int64, reflect.Uint32:
		return set(reflect.ValueOf(7).Convert(v.Type()))
	case reflect.Pointer:
		n := set(reflect.New(v.Type().Elem()))
		return n + each(v.Elem(), path, visit)
	case reflect.Slice:
		n := set(reflect.MakeSlice(v.Type(), 0, 1)) + set(reflect.MakeSlice(v.Type(), 2, 2))
		return n + each(v.Index(1), path+"[1]", visit)
	case reflect.Map:
		return set(reflect.ValueOf(RouteFilters{})) + set(reflect.ValueOf(RouteFilters{FilterExtAuthz: &ExtAuthzRoute{}, "a": nil}))
	case reflect.Struct:
		n := 0
		for i := range v.NumField() {
			n += each(v.Field(i), path+"."+v.Type().Field(i).Name, visit)
			v.Field(i).SetZero()
		}
		all := reflect.New(v.Type()).Elem()
		for i := range v.NumField() {
			each(all.Field(i), "", func(string) {})
		}
		return n + set(all)
	}
	panic(fmt.Sprintf("%s: no value for a %s", path, v.Type()))
}

func everyField[T any](t *testing.T, least int, write func(*object, *T)) {
	v := new(T)
	check := func(path string) { same(t, path, v, write) }
	check("zero")
	if n := each(reflect.ValueOf(v).Elem(), reflect.TypeFor[T]().Name(), check); n < least {
		t.Errorf("only %d fields were looked at", n)
	}
}

// TestAppendEveryField sets each field there is, alone and with all others: one that the hand-written form does not know, or
// writes otherwise than encoding/json, is found.
func TestAppendEveryField(t *testing.T) {
	everyField(t, 100, (*object).route)
	everyField(t, 60, (*object).cluster)
	everyField(t, 8, (*object).endpointSet)
}

func TestAppendStrings(t *testing.T) {
	for _, s := range []string{"", "plain", "<a>&'", `q"\`, "\x00\x1f\x7f", "é\u2028\u2029", "\xff", "\r\n\t"} {
		same(t, fmt.Sprintf("%q", s), &Route{Name: s}, (*object).route)
	}
}
