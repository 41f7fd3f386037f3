package deploy_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chancery-gateway/chancery/runtime/deploy"
	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
)

// field is what Emissary's definitions say of a value.
type field struct {
	kind                string // string, integer, boolean, array, object; any, object+any
	required            bool
	enum                []string
	least, most         *int64
	minItems, oneMember bool
	scheme              bool
	flat                bool // members are texts, of which the definition says nothing
	members             map[string]*field
	item, other         *field // of a list, and of an object whose members may have any name
}

// facts reads what Emissary's definitions say, by kind and version.
func facts(t *testing.T) map[string]map[string]*field {
	t.Helper()
	text, err := os.ReadFile("testdata/emissary.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string]*field{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if strings.HasPrefix(line, "#") || len(words) == 0 {
			continue
		}
		f := &field{kind: words[3], members: map[string]*field{}}
		f.flat = strings.HasSuffix(words[2], "_headers") || strings.HasSuffix(words[2], ".headers") || strings.HasSuffix(words[2], "_parameters")
		for _, word := range words[4:] {
			name, value, _ := strings.Cut(word, "=")
			number, err := strconv.ParseInt(value, 10, 64)
			switch {
			case name == "required":
				f.required = true
			case name == "enum":
				f.enum = strings.Split(value, ",")
			case name == "pattern":
				f.scheme = true // the only one is that of the scheme of a service
			case err != nil:
				t.Fatalf("%q: %v", line, err)
			case name == "minimum":
				f.least = &number
			case name == "maximum":
				f.most = &number
			case name == "minItems":
				f.minItems = true
			case name == "minProperties", name == "maxProperties":
				f.oneMember = true
			default:
				t.Fatalf("%q: what is %s?", line, name)
			}
		}
		if words[2] == "spec" {
			if all[words[0]] == nil {
				all[words[0]] = map[string]*field{}
			}
			all[words[0]][words[1]] = f
			continue
		}
		at := all[words[0]][words[1]]
		steps := strings.Split(strings.NewReplacer("[]", ".[]", "{}", ".{}").Replace(strings.TrimPrefix(words[2], "spec.")), ".")
		for i, step := range steps {
			last := i == len(steps)-1
			switch {
			case step == "[]" && last:
				at.item = f
			case step == "[]":
				at = at.item
			case step == "{}" && last:
				at.other = f
			case step == "{}":
				at = at.other
			case last:
				at.members[step] = f
			default:
				at = at.members[step]
			}
		}
	}
	return all
}

// maker makes values of a field. Turn picks among the values that it may have, share is the chance in percent that what
// may be absent is there.
type maker struct {
	random      *rand.Rand
	turn, share int
}

func (m *maker) value(f *field) any {
	switch f.kind {
	case "string":
		switch {
		case len(f.enum) > 0:
			return f.enum[m.turn%len(f.enum)]
		case f.scheme:
			return []string{"", "http://", "hTTpS://"}[m.turn%3]
		}
		return []string{"a", "", "*", strings.Repeat("x", 70), "1m", "é"}[(m.turn+m.random.IntN(6))%6]
	case "integer":
		if len(f.enum) > 0 {
			n, _ := strconv.ParseInt(f.enum[m.turn%len(f.enum)], 10, 64)
			return n
		}
		low, high := int64(-1<<31), int64(1<<31-1) // Listeners have 32 bits
		if f.least != nil {
			low = *f.least
		}
		if f.most != nil {
			high = *f.most
		}
		return []int64{low, high, low + (high-low)/2}[m.turn%3]
	case "boolean":
		return m.turn%2 == 0
	case "array":
		list := []any{}
		for range m.random.IntN(3) {
			list = append(list, m.value(f.item))
		}
		if f.minItems && len(list) == 0 {
			list = append(list, m.value(f.item))
		}
		return list
	case "object+any":
		if f.flat {
			return map[string]any{"a": "b", "c": "d"}
		}
		return map[string]any{"a": true, "b": "c", "d": []any{int64(1), map[string]any{"e": "f"}}}
	}
	o := map[string]any{}
	names := make([]string, 0, len(f.members))
	for name := range f.members {
		names = append(names, name)
	}
	slices.Sort(names)
	if f.oneMember && len(names) > 0 {
		names = names[m.turn%len(names):][:1]
	}
	for _, name := range names {
		if inner := f.members[name]; inner.required || f.oneMember || m.random.IntN(100) < m.share {
			o[name] = m.value(inner)
		}
	}
	switch {
	case f.oneMember && len(names) == 0:
		if o["only"] = "anything"; f.other != nil {
			o["only"] = m.value(f.other)
		}
	case f.other != nil:
		for _, name := range []string{"", "a", "b.c/d"}[:m.random.IntN(4)] {
			o[name] = m.value(f.other)
		}
	}
	return o
}

// loose are the fields of v2 and v1 of which a structural schema can say nothing, and what they may hold.
var loose = []struct {
	kinds  []string // none for all
	path   []string
	values []any
}{
	{nil, []string{"ambassador_id"}, []any{"a", []any{"a", "b"}, []any{}}},
	{[]string{"AuthService", "Mapping", "RateLimitService", "TCPMapping"}, []string{"tls"}, []any{true, false, "", "context"}},
	{[]string{"Host"}, []string{"ambassadorId"}, []any{"a", []any{"a"}}},
	{[]string{"Mapping"}, []string{"remove_request_headers"}, []any{"a", []any{"a"}}},
	{[]string{"Mapping"}, []string{"remove_response_headers"}, []any{"a", []any{"a"}}},
	{[]string{"Mapping"}, []string{"cors", "origins"}, []any{"a,b", []any{"a"}}},
	{[]string{"Mapping"}, []string{"cors", "methods"}, []any{"GET", []any{"GET"}}},
	{[]string{"Mapping"}, []string{"cors", "headers"}, []any{"a", []any{"a"}}},
	{[]string{"Mapping"}, []string{"cors", "exposed_headers"}, []any{"a", []any{"a"}}},
	{[]string{"Mapping"}, []string{"labels"}, []any{map[string]any{"d": []any{map[string]any{"g": []any{"remote_address", map[string]any{"generic_key": "k"}, map[string]any{"h": map[string]any{"header": "x"}}}}}}}},
	{[]string{"Mapping"}, []string{"headers"}, []any{map[string]any{"a": true, "b": "c"}}},
	{[]string{"Mapping"}, []string{"add_request_headers"}, []any{map[string]any{"a": "b", "c": map[string]any{"value": "d", "append": false}}}},
}

// Whatever Emissary's definitions take, ours take, and keep every word of it.
func TestDefinitionsTakeAllThatEmissarysTake(t *testing.T) {
	c := kubetest.Shared(t)
	client := kubetest.NewClient(t, c.Config())
	client.Apply(string(deploy.CRDs))
	made := 0
	for kind, byVersion := range facts(t) {
		for version, spec := range byVersion {
			versions := []string{version}
			if version == "v2" && kind != "Host" {
				versions = append(versions, "v1")
			}
			for _, v := range versions {
				random := rand.New(rand.NewPCG(3, 9))
				for turn := range 16 {
					m := &maker{random: random, turn: turn, share: []int{0, 100, 30}[min(turn, 2)]}
					if turn >= 3 && turn < 9 {
						m.share = 100
					}
					o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "getambassador.io/" + v, "kind": kind,
						"metadata": map[string]any{"name": fmt.Sprintf("x%d", turn), "namespace": "default"}, "spec": m.value(spec)}}
					if version == "v2" && turn > 1 {
						loosen(t, o, turn)
					}
					if turn > 8 {
						_ = unstructured.SetNestedField(o.Object, []any{int64(1), "a"}, "spec", "unknown")
					}
					want := o.DeepCopy()
					got, err := client.Of(o).Create(t.Context(), o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
					if err != nil {
						t.Errorf("%s %s: %v\n%s", v, kind, err, specText(t, want))
						continue
					}
					made++
					if diff := cmp.Diff(want.Object["spec"], got.Object["spec"]); diff != "" {
						t.Errorf("%s %s is not what it was:\n%s", v, kind, diff)
					}
				}
			}
		}
	}
	t.Logf("%d objects", made)
	if made < 400 {
		t.Errorf("only %d objects were made", made)
	}
}

func loosen(t *testing.T, o *unstructured.Unstructured, turn int) {
	t.Helper()
	for _, l := range loose {
		if l.kinds == nil || slices.Contains(l.kinds, o.GetKind()) {
			value := l.values[turn%len(l.values)]
			if err := unstructured.SetNestedField(o.Object, value, append([]string{"spec"}, l.path...)...); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func specText(t *testing.T, o *unstructured.Unstructured) string {
	t.Helper()
	text, err := json.Marshal(o.Object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
