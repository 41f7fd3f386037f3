package merge

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func spec(t *testing.T, text string) map[string]any {
	t.Helper()
	var m map[string]any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestStrategies(t *testing.T) {
	for name, c := range map[string]struct {
		strategy Strategy
		values   []string // of field f, the oldest first; "" for absent
		want     string   // "" for an error
	}{
		"first":                 {FirstWins, []string{"", "1", "2"}, `1`},
		"last":                  {LastWins, []string{"1", "2", ""}, `2`},
		"union of lists":        {Union, []string{`["b","a"]`, `["c","a"]`}, `["a","b","c"]`},
		"union of objects":      {Union, []string{`{"a":1}`, `{"a":2,"b":3}`}, `{"a":1,"b":3}`},
		"union of numbers":      {Union, []string{"1", "2"}, ""},
		"intersection":          {Intersection, []string{`["b","a"]`, `["c","a"]`}, `["a"]`},
		"intersection of names": {Intersection, []string{`{"a":1,"b":2}`, `{"b":5}`}, `{"b":2}`},
		"min":                   {Min, []string{"3", "1.5", "2"}, `1.5`},
		"max":                   {Max, []string{"3", "1.5", "20"}, `20`},
		"min of texts":          {Min, []string{`"a"`, "1"}, ""},
		"deny":                  {DenyOverrides, []string{"true", "false"}, `false`},
		"deny by word":          {DenyOverrides, []string{`{"insecure":{"action":"Route"}}`, `{"insecure":{"action":"Reject"}}`}, `{"insecure":{"action":"Reject"}}`},
		"deny without order":    {DenyOverrides, []string{`"blue"`, `"red"`}, ""},
		"append":                {AppendByKey, []string{`[{"name":"b","v":1}]`, `[{"name":"a"},{"name":"b","v":2}]`}, `[{"name":"a"},{"name":"b","v":1}]`},
		"append without key":    {AppendByKey, []string{`[{"v":1}]`, `[]`}, ""},
		"ceiling":               {ParentCeiling, []string{"5", "9"}, `5`},
		"ceiling below":         {ParentCeiling, []string{"5", "3"}, `3`},
		"floor":                 {ParentFloor, []string{"5", "3"}, `5`},
		"floor above":           {ParentFloor, []string{"5", "9"}, `9`},
		"unknown":               {"random", []string{"1", "2"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var claims []Claim
			for i, v := range c.values {
				s := map[string]any{}
				if v != "" {
					s = spec(t, `{"f":`+v+`}`)
				}
				claims = append(claims, Claim{ID: string(rune('a' + i)), Parent: i == 0, Spec: s})
			}
			out, fields, _, err := Merge(claims, map[string]Strategy{"spec.f": c.strategy}, "")
			if c.want == "" {
				if err == nil {
					t.Errorf("no error but %v", out)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := canonical(out["f"]); got != c.want || len(fields) != 1 {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// TestLattice: the combinators that need no order give one result for the claims in every order.
func TestLattice(t *testing.T) {
	values := []string{`{"n":3,"l":["a","b"],"b":true}`, `{"n":1,"l":["b","c"],"b":false}`, `{"n":2,"l":["b"],"b":true}`}
	fields := map[string]Strategy{"spec.n": Min, "spec.l": Intersection, "spec.b": DenyOverrides}
	var first map[string]any
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		var claims []Claim
		for _, i := range order {
			claims = append(claims, Claim{ID: string(rune('a' + i)), Spec: spec(t, values[i])})
		}
		out, _, _, err := Merge(claims, fields, "")
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = out
		} else if !reflect.DeepEqual(out, first) {
			t.Errorf("order %v gives %v, want %v", order, out, first)
		}
		for f, s := range map[string]Strategy{"n": Min, "l": Intersection} { // idempotent
			again, err := combine(s, []value{{v: out[f]}, {v: out[f]}}, fact{})
			if err != nil || !reflect.DeepEqual(again, out[f]) {
				t.Errorf("%s of itself is %v", s, again)
			}
		}
	}
}

// TestSecurity: security fields are equal or strictest unless a rule picks otherwise, and never the youngest's.
func TestSecurity(t *testing.T) {
	claims := []Claim{{ID: "old", Spec: spec(t, `{"bypass_auth":true,"cors":{"origins":["a"]},"x":1}`)}, {ID: "young", Spec: spec(t, `{"bypass_auth":false,"cors":{"origins":["a"]},"x":2}`)},
		{ID: "odd", Spec: spec(t, `{"cors":{"origins":["*"]}}`)}}
	out, _, rejected, err := Merge(claims, nil, LastWins)
	if err != nil || out["bypass_auth"] != false || canonical(out["x"]) != "2" || canonical(out["cors"]) != `{"origins":["a"]}` {
		t.Errorf("%v %v", out, err)
	}
	if len(rejected) != 1 || rejected[0].ID != "odd" || rejected[0].Path != "spec.cors" {
		t.Errorf("%+v", rejected)
	}
	if _, _, _, err := Merge(claims, map[string]Strategy{"spec.tls.sni": LastWins}, ""); err == nil {
		t.Error("a security field by the last claim")
	}
}

// TestBelow: strategies of what is below a field hold there, and the field's own for the rest.
func TestBelow(t *testing.T) {
	claims := []Claim{{ID: "platform", Parent: true, Spec: spec(t, `{"retry_policy":{"num_retries":2,"retry_on":"5xx"}}`)}, {ID: "team", Spec: spec(t, `{"retry_policy":{"num_retries":9,"per_try_timeout":"1s"}}`)}}
	out, fields, _, err := Merge(claims, map[string]Strategy{"spec.retry_policy.num_retries": ParentCeiling, "spec.retry_policy": LastWins}, "")
	if got := canonical(out); err != nil || got != `{"retry_policy":{"num_retries":2,"per_try_timeout":"1s","retry_on":"5xx"}}` {
		t.Error(got, err)
	}
	if len(fields) != 3 || fields[0].Path != "spec.retry_policy.num_retries" || fields[0].Winner != "platform" || len(fields[0].Contributors) != 2 {
		t.Errorf("%+v", fields)
	}
}

// TestAbsent: what a claim does not say counts as what it means, and 0 as no limit.
func TestAbsent(t *testing.T) {
	for name, c := range map[string]struct {
		old, young string
		fields     map[string]Strategy
		want       string
	}{
		"bypass":         {`{"bypass_auth":true}`, `{}`, nil, `{"bypass_auth":false}`},
		"request policy": {`{"requestPolicy":{"insecure":{"action":"Route"}}}`, `{}`, nil, `{"requestPolicy":{"insecure":{"action":"Redirect"}}}`},
		"failure closed": {`{"failure_mode_deny":true}`, `{}`, nil, `{"failure_mode_deny":true}`},
		"failure open":   {`{}`, `{"failure_mode_allow":true}`, nil, `{"failure_mode_allow":false}`},
		"endless":        {`{"timeout_ms":5000}`, `{"timeout_ms":0}`, map[string]Strategy{"spec.timeout_ms": Min}, `{"timeout_ms":5000}`},
		"endless most":   {`{"timeout_ms":5000}`, `{"timeout_ms":0}`, map[string]Strategy{"spec.timeout_ms": Max}, `{"timeout_ms":0}`},
		"endless child":  {`{"timeout_ms":5000}`, `{"timeout_ms":0}`, map[string]Strategy{"spec.timeout_ms": ParentCeiling}, `{"timeout_ms":5000}`},
		"TLS":            {`{"tls":{"min_tls_version":"v1.2"}}`, `{"tls":{"min_tls_version":"v1.3"}}`, map[string]Strategy{"spec.tls.min_tls_version": DenyOverrides}, `{"tls":{"min_tls_version":"v1.3"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			out, _, rejected, err := Merge([]Claim{{ID: "old", Parent: true, Spec: spec(t, c.old)}, {ID: "young", Spec: spec(t, c.young)}}, c.fields, "")
			if got := canonical(out); err != nil || got != c.want || len(rejected) > 0 {
				t.Errorf("%s, want %s; %v %v", got, c.want, err, rejected)
			}
		})
	}
}
