package api

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestProperIsDecoding makes values of all types at random places and compares what is read without reflection with what decoding
// makes of it. What is not taken has to be something that decoding complains about.
func TestProperIsDecoding(t *testing.T) {
	d := rand.New(rand.NewPCG(3, 5))
	for _, c := range []struct {
		empty func() readable
		texts []string
	}{
		{func() readable { return new(metadata) }, []string{
			`{"name":§,"namespace":§,"uid":§,"generation":§,"creationTimestamp":§,"labels":{"a":§,"":§},"annotations":{"b\n":§},"other":§}`,
			`{"name":§,"labels":§,"annotations":§}`, `§`}},
		{func() readable { return new(serviceSpec) }, []string{
			`{"type":§,"clusterIP":§,"externalName":§,"ports":[{"name":§,"protocol":§,"port":§,"targetPort":§,"nodePort":§},{"targetPort":§},§]}`,
			`{"ports":§,"selector":{"x":§}}`, `§`}},
		{func() readable { return new(endpointPorts) }, []string{`[{"name":§,"protocol":§,"port":§,"appProtocol":§},§]`, `§`}},
		{func() readable { return new(sliceEndpoints) }, []string{
			`[{"addresses":[§,§],"conditions":{"ready":§,"serving":§,"terminating":§,"x":§},"zone":§},{"addresses":§,"conditions":§},§]`, `§`}},
	} {
		usual := map[bool]int{}
		for range 4000 {
			text := c.texts[d.IntN(len(c.texts))]
			values := []string{`"a"`, `80`, `true`, `"b\"ü"`, `"2006-01-02T15:04:05Z"`, `{}`, `[]`, `-1.5`, `1e2`, `99999999999`, `"TCP"`, `false`, `{"q":1}`}
			for strings.Contains(text, "§") {
				value := "null"
				if d.IntN(6) == 0 {
					value = values[d.IntN(len(values))]
				}
				text = strings.Replace(text, "§", value, 1)
			}
			got, want := c.empty(), c.empty()
			ok, err := got.read(jsontext.Value(text)), json.Unmarshal([]byte(text), want, lax)
			usual[ok]++
			switch {
			case ok != (err == nil):
				t.Fatalf("%T of %s: taken %v, decoding says %v", got, text, ok, err)
			case ok:
				if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
					t.Fatalf("%T of %s (-decoded +read):\n%s", got, text, diff)
				}
			}
		}
		if usual[true] < 100 || usual[false] < 100 {
			t.Errorf("%T: %d taken, %d not: too few to say much", c.empty(), usual[true], usual[false])
		}
	}
}
