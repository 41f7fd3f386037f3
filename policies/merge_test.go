package policies_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/policies"
	"github.com/chancery-gateway/chancery/snapshot"
)

const twoTenants = `---
apiVersion: chancery.dev/v1alpha1
kind: Tenant
metadata: {name: shop}
spec: {owner: anna, namespaces: [shop], hosts: [shop.example.com]}
---
apiVersion: chancery.dev/v1alpha1
kind: Tenant
metadata: {name: bank}
spec: {owner: bob, namespaces: [bank], hosts: [bank.example.com]}
`

func claim(ns, name, created, fields string) string {
	return fmt.Sprintf("---\napiVersion: getambassador.io/v3alpha1\nkind: Mapping\nmetadata: {name: %s, namespace: %s, creationTimestamp: %q}\nspec: {prefix: /same/, hostname: a.example.com, service: %s%s}\n", name, ns, created, name, fields)
}

var contest = twoTenants +
	claim("bank", "old", "2024-01-01T00:00:00Z", ", timeout_ms: 900, allow_upgrade: [websocket], bypass_auth: true") +
	claim("shop", "young", "2025-01-01T00:00:00Z", ", timeout_ms: 500, allow_upgrade: [spdy/3.1], bypass_auth: false") +
	claim("bank", "canary", "2025-06-01T00:00:00Z", ", weight: 10")

func mappings(s *snapshot.Snapshot) string {
	var out []string
	for o := range s.List(snapshot.GroupKind{Group: snapshot.EmissaryGroup, Kind: "Mapping"}) {
		out = append(out, o.Namespace+"/"+o.Name)
	}
	return strings.Join(out, " ")
}

// TestOldestTenant: between tenants the oldest claim stands, with all its canaries; the loser is told.
func TestOldestTenant(t *testing.T) {
	out, found := admitter(nil).Admit(world(t, contest))
	if got := mappings(out); got != "bank/canary bank/old" {
		t.Error(got)
	}
	if len(found) != 1 || found[0].Code.ID != "CH-POLICY-070" || !strings.Contains(found[0].Message, "Mapping/bank/old of tenant bank") || found[0].Object.Name != "young" {
		t.Error(lines(found))
	}
}

const joining = `# METADATA
# custom:
#   match: {kinds: [Mapping]}
package chancery.merge.routes

resolve := {"fields": {"spec.timeout_ms": "min", "spec.allow_upgrade": "union"}, "default": "first-wins"} if count(input.claims) > 1
`

func TestJoin(t *testing.T) {
	a := admitter(rules("join.rego", joining))
	out, found := a.Admit(world(t, contest))
	if got := mappings(out); got != "bank/canary bank/old" {
		t.Fatal(got, lines(found))
	}
	raw := string(out.Get(snapshot.GroupKind{Group: snapshot.EmissaryGroup, Kind: "Mapping"}, "bank", "old").Raw)
	for _, want := range []string{`"timeout_ms":500`, `"allow_upgrade":["spdy/3.1","websocket"]`, `"bypass_auth":false`, `"service":"old"`} {
		if !strings.Contains(raw, want) {
			t.Errorf("no %s in %s", want, raw)
		}
	}
	if m := a.Merges(); len(m) != 1 || m[0].Policy != "routes" || m[0].Winner.Name != "old" || len(m[0].Fields) < 5 {
		t.Errorf("%+v", m)
	} else {
		for _, f := range m[0].Fields {
			if f.Path == "spec.timeout_ms" && (f.Winner != "Mapping/shop/young" || f.Strategy != "min" || len(f.Contributors) != 2) {
				t.Errorf("%+v", f)
			}
		}
	}
}

func TestMergePolicies(t *testing.T) {
	for name, c := range map[string]struct{ rego, stands, code string }{
		"winner":               {`resolve := {"winner": "Mapping/shop/young", "reason": "the shop pays"} if count(input.claims) > 1`, "shop/young", "CH-POLICY-070"},
		"reject":               {`resolve := {"reject": [{"id": c.id, "msg": "no"} | some c in input.claims; c.tenant == "bank"]} if input.kind == "Mapping"`, "shop/young", "CH-POLICY-070"},
		"by place":             {`resolve := {"winner": input.claims[0].id} if count(input.claims) > 1`, "bank/canary bank/old", "CH-POLICY-072"},
		"conflicting rules":    {"resolve := {\"winner\": c.id} if some c in input.claims", "bank/canary bank/old", "CH-POLICY-045"},
		"no such claim":        {`resolve := {"winner": "Mapping/no/one"} if count(input.claims) > 1`, "bank/canary bank/old", "CH-POLICY-047"},
		"no such strategy":     {`resolve := {"fields": {"spec.timeout_ms": "random"}} if count(input.claims) > 1`, "bank/canary bank/old", "CH-POLICY-047"},
		"security by the last": {`resolve := {"fields": {"spec.bypass_auth": "last-wins"}} if count(input.claims) > 1`, "bank/canary bank/old", "CH-POLICY-047"},
		"strategy that misses": {`resolve := {"fields": {"spec.service": "min"}} if count(input.claims) > 1`, "bank/canary bank/old", "CH-POLICY-047"},
		"entry point missing":  {`resolves := {"winner": "x"}`, "bank/canary bank/old", "CH-POLICY-025"},
		"typo":                 {`resolve := {"winner": input.claim.id}`, "bank/canary bank/old", "CH-POLICY-023"},
	} {
		t.Run(name, func(t *testing.T) {
			a := admitter(rules("m.rego", "package chancery.merge.m\n\n"+c.rego+"\n"))
			out, found := a.Admit(world(t, contest))
			if got := mappings(out); got != c.stands {
				t.Errorf("%s stand, want %s\n%s", got, c.stands, lines(found))
			}
			if !slices.Contains(codes(found), c.code) {
				t.Errorf("no %s in\n%s", c.code, lines(found))
			}
		})
	}
}

// bounding makes a default a ceiling as long as there is a Service of a certain name.
const bounding = `# METADATA
# custom:
#   match: {kinds: [Module, Mapping]}
package chancery.merge.bound

resolve := {"fields": {"spec.timeout_ms": "parent-ceiling", "spec.cors": "first-wins"}} if {
	input.kind == "Defaults"
	not data.chancery.index.services["free/strict"]
}

resolve := {"fields": {"spec.timeout_ms": "parent-ceiling"}} if {
	input.kind == "Defaults"
	data.chancery.index.services["free/strict"]
}
`

// TestWarmEqualsCold drives random edits through one admitter and compares each answer with that of a new one.
func TestWarmEqualsCold(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	supply := rules("owner.rego", owner, "join.rego", joining, "bound.rego", bounding)
	for round := range 6 {
		current := supply
		options := func() *policies.Supply { return current }
		warm := policies.New(policies.Options{Point: "cli", Supply: options, Namespaces: []string{"platform"}})
		s := world(t, contest)
		for step := range 60 {
			ns, name := []string{"bank", "shop", "free"}[rng.IntN(3)], fmt.Sprintf("m%d", rng.IntN(4))
			var put []*snapshot.Object
			var remove []snapshot.Ref
			created := fmt.Sprintf("2024-0%d-01T00:00:00Z", 1+rng.IntN(9))
			switch rng.IntN(9) {
			case 6:
				put = parse(t, "d.yaml", fmt.Sprintf("apiVersion: getambassador.io/v3alpha1\nkind: Module\nmetadata: {name: ambassador, namespace: %s, creationTimestamp: %q}\nspec: {config: {cluster_request_timeout_ms: %d, cors: {origins: [a]}}}\n", ns, created, 1+rng.IntN(3)))
			case 7:
				kind := []string{"AuthService", "Host", "Listener", "Service", "Module"}[rng.IntN(5)]
				if rng.IntN(3) == 0 {
					remove = []snapshot.Ref{{Group: snapshot.EmissaryGroup, Kind: kind, Namespace: ns, Name: map[bool]string{true: "ambassador", false: name}[kind == "Module"]}}
					break
				}
				put = parse(t, "k.yaml", map[string]string{
					"AuthService": fmt.Sprintf("apiVersion: getambassador.io/v3alpha1\nkind: AuthService\nmetadata: {name: %s, namespace: %s, creationTimestamp: %q}\nspec: {auth_service: a, proto: grpc}\n", name, ns, created),
					"Host":        fmt.Sprintf("apiVersion: getambassador.io/v3alpha1\nkind: Host\nmetadata: {name: %s, namespace: %s, creationTimestamp: %q}\nspec: {hostname: a.example.com}\n", name, ns, created),
					"Listener":    fmt.Sprintf("apiVersion: getambassador.io/v3alpha1\nkind: Listener\nmetadata: {name: %s, namespace: %s, creationTimestamp: %q}\nspec: {port: 8080, protocol: HTTP, securityModel: XFP, hostBinding: {namespace: {from: ALL}}}\n", name, ns, created),
					"Service":     "apiVersion: v1\nkind: Service\nmetadata: {name: strict, namespace: free}\nspec: {ports: [{port: 80}]}\n",
					"Module":      "apiVersion: getambassador.io/v3alpha1\nkind: Module\nmetadata: {name: ambassador, namespace: " + ns + "}\nspec: {config: {}}\n",
				}[kind])
			case 8:
				remove = []snapshot.Ref{{Kind: "Service", Namespace: "free", Name: "strict"}}
			case 0:
				remove = []snapshot.Ref{{Group: snapshot.EmissaryGroup, Kind: "Mapping", Namespace: ns, Name: name}}
			case 1:
				put = parse(t, "t.yaml", "apiVersion: chancery.dev/v1alpha1\nkind: Tenant\nmetadata: {name: third}\nspec: {owner: eve, namespaces: [free"+fmt.Sprint(rng.IntN(2))+"]}\n")
			case 2:
				if current == supply {
					current = rules("owner.rego", owner)
				} else {
					current = supply
				}
			default:
				put = parse(t, "m.yaml", claim(ns, name, created, fmt.Sprintf(", timeout_ms: %d, prefix_regex: %t, cors: {origins: [%s]}", rng.IntN(3), rng.IntN(2) == 0, name)))
				if rng.IntN(2) == 0 {
					put[0].Labels = map[string]string{"owner": "x"}
				}
			}
			s = s.Derive(put, remove, nil)
			out, found := warm.Admit(s)
			s.Forget()
			wantOut, want := policies.New(policies.Options{Point: "cli", Supply: options, Namespaces: []string{"platform"}}).Admit(s)
			if lines(found) != lines(want) {
				t.Fatalf("round %d step %d:\nwarm\n%s\ncold\n%s", round, step, lines(found), lines(want))
			}
			for _, c := range out.Changes(wantOut) {
				if c.Old == nil || c.New == nil || string(c.Old.Raw) != string(c.New.Raw) {
					t.Fatalf("round %d step %d: %s differs", round, step, c.Ref())
				}
			}
		}
	}
}
