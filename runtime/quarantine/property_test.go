package quarantine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/envoy"
	"github.com/chancery-gateway/chancery/translators/ir"
	"github.com/chancery-gateway/chancery/xds/validator"
)

// strict refuses routes whose bytes hold the word "envoy-refuses".
type strict struct{}

func (strict) Judge(_ context.Context, units []*ir.Unit) (validator.Verdicts, error) {
	out := validator.Verdicts{Refused: map[*ir.Unit]string{}}
	for _, u := range units {
		if strings.Contains(string(u.Value), "envoy-refuses") {
			out.Refused[u] = "no"
		}
	}
	return out, nil
}

// TestRandomEdits: over random edits, many at a time, with faults that our rules and Envoy find, each object is served in its
// newest form that was good since it was made, or not at all; nothing else changes for it; and a program that starts in the middle
// with what is on the disk serves the same.
func TestRandomEdits(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 4))
			dir := t.TempDir()
			c := newChain(t, dir, strict{})
			c.deliver(c.put(listener))
			served := map[string]string{} // what must be served, by object
			for step := range 60 {
				var put []string
				var gone []snapshot.Ref
				for range 1 + r.IntN(4) {
					name := fmt.Sprint("m", r.IntN(6))
					if slices.ContainsFunc(put, func(text string) bool { return strings.Contains(text, `"`+name+`"`) }) ||
						slices.ContainsFunc(gone, func(ref snapshot.Ref) bool { return ref.Name == name }) {
						continue
					}
					prefix := fmt.Sprintf("/%s-%d/", name, step)
					form := fmt.Sprintf(`{"hostname":"*","prefix":%q,"service":"s"`, prefix)
					switch r.IntN(6) {
					case 0:
						gone = append(gone, snapshot.Ref{Group: snapshot.EmissaryGroup, Kind: "Mapping", Namespace: "app", Name: name})
						delete(served, name)
						continue
					case 1:
						form += `,"add_request_headers":{"x a":{"value":"y"}}}`
					case 2:
						form += `,"regex_rewrite":{"pattern":"(a)","substitution":"\\9"}}`
					case 3:
						form += `,"add_request_headers":{"x":{"value":"envoy-refuses"}}}`
					default:
						form += `}`
						served[name] = prefix
					}
					put = append(put, object("Mapping", name, form))
				}
				s := c.put(put...)
				s = s.Derive(nil, gone, nil)
				result, ds := c.deliver(s)
				var want []string
				for _, prefix := range served {
					want = append(want, prefix)
				}
				slices.Sort(want)
				if got := routesOf(result); got != strings.Join(want, " ") {
					t.Fatalf("step %d: served are %s\nwant %s\n%v", step, got, strings.Join(want, " "), ds)
				}
				if step%20 != 19 {
					continue
				}
				if err := c.q.Save(); err != nil {
					t.Fatal(err)
				}
				later := newChain(t, dir, strict{})
				cold, _ := later.deliver(s.Derive(nil, nil, nil))
				if a, b := envoy.Version(result.Resources), envoy.Version(cold.Resources); a != b {
					t.Fatalf("step %d: a program that starts now serves %s, want %s", step, routesOf(cold), routesOf(result))
				}
			}
		})
	}
}
