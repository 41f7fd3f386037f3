package policies_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/policies"
	"github.com/chancery-gateway/chancery/policies/api"
	"github.com/chancery-gateway/chancery/policies/engine"
)

// tricky are rules that read their input in ways that are easily overlooked.
const tricky = `# METADATA
# custom:
#   match: {kinds: [Mapping]}
#   writes: [spec.timeout_ms, metadata.labels]
package chancery.admission.tricky

import input.object.spec as s

deny contains sprintf("service %s", [s.service]) if s.service == "evil"

warn contains sprintf("%s of %s", [f, input.object.metadata.name]) if {
	some f in ["timeout_ms", "weight"]
	input.object.spec[f] > 5
}

warn contains sprintf("weight %v", [w]) if {
	w := object.get(input.object.spec, "weight", 0)
	w > 7
}

labels := object.get(input.object.metadata, ["labels", "tier"], "none")

warn contains sprintf("tier %s in %s", [labels, input.namespace.name]) if labels != "none"

other[name] := input.object.spec[name] if some name in ["prefix", "timeout_ms"]

warn contains sprintf("%v", [other]) if input.object.spec.bypass_auth

warn contains "nobody" if {
	input.object.spec.bypass_auth
	not known
}

known if data.chancery.index.services[sprintf("%s/%s", [input.object.metadata.namespace, input.object.spec.service])]

known if input.tenant.name == "shop"

warn contains sprintf("%s is bad", [v]) if {
	walk(input.object.spec.add_request_headers, [_, v])
	v == "bad"
}

warn contains "number" if {
	input.object.spec.rewrite
	to_number(input.object.spec.rewrite) > 3
}

warn contains "shadow" if {
	some f in ["weight"]
	count([1 | some f in object.keys(input.object.spec); f == "bypass_auth"]) > 0
	not input.object.spec[f]
}

level := "high" if input.object.spec.weight > 7

else := "some" if input.object.spec.timeout_ms

warn contains sprintf("level %s", [level]) if input.object.spec.prefix == "/a/"

default tls := "none"

tls := input.object.spec.tls

warn contains sprintf("tls %s", [tls]) if input.object.spec.weight

field(x) := input.object.spec[x]

warn contains sprintf("rewrite %v", [field("rewrite")]) if input.object.metadata.labels

warn contains "no weight" if not input.object.spec.weight

warn contains "equal" if input.object.spec.weight == input.object.spec.timeout_ms

every_small if every k in ["weight", "timeout_ms"] {
	object.get(input.object.spec, k, 0) < 5
}

warn contains "all small" if every_small

mutate contains {"op": "default", "path": "spec.timeout_ms", "value": 5} if input.object.spec.retry_policy

mutate contains {"op": "set", "path": "metadata.labels.seen", "value": "yes"} if {
	input.object.spec.timeout_ms == 5
	input.object.metadata.labels
}
`

// lookalikes makes Mappings that differ in few of their fields.
func lookalikes(rng *rand.Rand, n int) string {
	var b strings.Builder
	b.WriteString(twoTenants)
	any := func(values ...string) string { return values[rng.IntN(len(values))] }
	for i := range n {
		fmt.Fprintf(&b, "---\napiVersion: getambassador.io/v3alpha1\nkind: Mapping\nmetadata: {name: m%d, namespace: %s%s}\nspec: {prefix: %s, service: %s, hostname: %s%s%s%s%s%s%s%s}\n", i,
			any("shop", "bank", "free"), any("", ", labels: {}", ", labels: {tier: a}", ", labels: {tier: b, owner: x}"), any("/a/", "/b/"), any("a", "evil", "b"), any("a.example.com", "'*'"),
			any("", ", timeout_ms: 3", ", timeout_ms: 9", ", timeout_ms: 0"), any("", ", weight: 3", ", weight: 9"), any("", ", bypass_auth: true", ", bypass_auth: false"),
			any("", ", add_request_headers: {x: {value: bad}}", ", add_request_headers: {x: {value: good}}"), any("", ", rewrite: '4'", ", rewrite: x"),
			any("", ", retry_policy: {retry_on: 5xx}", ", retry_policy: {retry_on: 5xx, num_retries: 9}"), any("", ", prefix_regex: true", ", tls: up"))
	}
	b.WriteString("---\napiVersion: v1\nkind: Service\nmetadata: {name: a, namespace: free}\nspec: {ports: [{port: 80}]}\n")
	return b.String()
}

// TestRecall: verdicts are the same whether or not answers about objects that agree in what a policy reads are taken again.
func TestRecall(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	supply := fullLibrary()
	supply.Modules = append(supply.Modules, engine.Module{File: "tricky.rego", Text: []byte(tricky)})
	var again int64
	for range 5 {
		s := world(t, lookalikes(rng, 200))
		var said [2]string
		var outs [2]string
		for i := range said {
			a := policies.New(policies.Options{Point: api.PointCLI, Forgetful: i == 0, Supply: func() *policies.Supply { return supply }, Now: func() time.Time { return time.Unix(0, 0) }})
			out, found := a.Admit(s)
			said[i], outs[i] = lines(found), elsewhere(out, nil)
			var b strings.Builder
			for _, v := range a.Verdicts() {
				fmt.Fprintf(&b, "%s %t %v %s", v.Object.Ref, v.Denied, v.Changes, lines(v.Findings))
			}
			said[i] += b.String()
			for _, p := range a.Policies() {
				if p.Broken != nil {
					t.Fatal(p.Broken)
				}
				if n := p.Stats.Remembered.Load(); i == 1 {
					again += n
				} else if n > 0 {
					t.Errorf("%s took answers again", p.ID)
				}
				said[i] += fmt.Sprintln(p.ID, p.Stats.Denials.Load(), p.Stats.Warnings.Load(), p.Stats.Mutations.Load())
			}
		}
		if said[0] != said[1] || outs[0] != outs[1] {
			for i, line := range strings.Split(said[0], "\n") {
				if other := strings.Split(said[1], "\n"); i < len(other) && other[i] != line {
					t.Fatalf("line %d: asked anew\n%s\nremembered\n%s", i, line, other[i])
				}
			}
			t.Fatal("the outcomes differ")
		}
	}
	if again < 1000 {
		t.Errorf("%d answers were taken again: nothing is shown", again)
	}
}
