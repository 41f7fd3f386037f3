package policies_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/policies"
	"github.com/chancery-gateway/chancery/policies/decision"
	"github.com/chancery-gateway/chancery/snapshot"
)

// own is a Policy object that carries a module.
func own(namespace, name, fields, rego string) string {
	return fmt.Sprintf("---\napiVersion: chancery.dev/v1alpha1\nkind: Policy\nmetadata: {name: %s, namespace: %s}\nspec:\n%s  rego: |\n    %s\n", name, namespace, fields,
		strings.ReplaceAll(strings.TrimSpace(rego), "\n", "\n    "))
}

func exception(namespace, policy, name, expires string) string {
	return fmt.Sprintf("---\napiVersion: chancery.dev/v1alpha1\nkind: PolicyException\nmetadata: {name: e-%s, namespace: %s}\nspec: {policy: %s, target: {kind: Mapping, namespace: x, name: %s}, owner: anna, reason: because, expires: %q}\n", name, namespace, policy, name, expires)
}

// TestExceptions: the clock of the tests stands at 2026-06-01.
func TestExceptions(t *testing.T) {
	for name, c := range map[string]struct {
		manifest string
		admitted bool
		codes    string
	}{
		"waived":              {exception("platform", "owner", "one", "2027-01-01T00:00:00Z"), true, "CH-POLICY-041 CH-POLICY-043"},
		"ends soon":           {exception("platform", "owner", "one", "2026-06-03T00:00:00Z"), true, "CH-POLICY-041 CH-POLICY-043 CH-POLICY-067"},
		"expired":             {exception("platform", "owner", "one", "2026-05-01T00:00:00Z"), false, "CH-POLICY-041 CH-POLICY-040 CH-POLICY-066"},
		"without expiry":      {exception("platform", "owner", "one", ""), false, "CH-POLICY-041 CH-POLICY-040 CH-POLICY-004"},
		"no time":             {exception("platform", "owner", "one", "tomorrow"), false, "CH-POLICY-041 CH-POLICY-040 CH-POLICY-004"},
		"no authority":        {exception("x", "owner", "one", "2027-01-01T00:00:00Z"), false, "CH-POLICY-041 CH-POLICY-040 CH-POLICY-065"},
		"another object":      {exception("platform", "owner", "two", "2027-01-01T00:00:00Z"), false, "CH-POLICY-041 CH-POLICY-040"},
		"another policy":      {exception("platform", "nobody", "one", "2027-01-01T00:00:00Z"), false, "CH-POLICY-041 CH-POLICY-040 CH-POLICY-068"},
		"pattern":             {exception("platform", "owner", "'*'", "2027-01-01T00:00:00Z"), false, "CH-POLICY-041 CH-POLICY-040 CH-POLICY-002"},
		"overlapping team":    {twoTenants + "---\napiVersion: chancery.dev/v1alpha1\nkind: Tenant\nmetadata: {name: thief}\nspec: {owner: eve, namespaces: [bank]}\n", false, "CH-POLICY-041 CH-POLICY-040 CH-POLICY-003"},
		"overlapping host":    {twoTenants + "---\napiVersion: chancery.dev/v1alpha1\nkind: Tenant\nmetadata: {name: thief}\nspec: {owner: eve, namespaces: [t], hosts: ['*.example.com']}\n", false, "CH-POLICY-041 CH-POLICY-040 CH-POLICY-003"},
		"tenant with a dot":   {"---\napiVersion: chancery.dev/v1alpha1\nkind: Tenant\nmetadata: {name: a.b}\nspec: {owner: eve, namespaces: [t]}\n", false, "CH-POLICY-041 CH-POLICY-040 CH-POLICY-002"},
		"too large":           {twoTenants + own("shop", "p", "", "package chancery.tenants.shop\ndeny contains \"x\" if input.object.kind == \""+strings.Repeat("x", 33000)+"\"\n"), false, "CH-POLICY-041 CH-POLICY-040 CH-POLICY-030"},
		"unknown field":       {"---\napiVersion: chancery.dev/v1alpha1\nkind: Policy\nmetadata: {name: p, namespace: platform}\nspec: {library: tls_floor, enforcment: warn}\n", false, "CH-POLICY-041 CH-POLICY-040 CH-POLICY-001"},
		"wrong type":          {"---\napiVersion: chancery.dev/v1alpha1\nkind: Policy\nmetadata: {name: p, namespace: platform}\nspec: {library: tls_floor, priority: high}\n", false, "CH-POLICY-041 CH-POLICY-040 CH-POLICY-001"},
		"no such library":     {"---\napiVersion: chancery.dev/v1alpha1\nkind: Policy\nmetadata: {name: p, namespace: platform}\nspec: {library: tsl_floor}\n", false, "CH-POLICY-041 CH-POLICY-040 CH-POLICY-028"},
		"wrong parameter":     {"---\napiVersion: chancery.dev/v1alpha1\nkind: Policy\nmetadata: {name: p, namespace: platform}\nspec: {library: tls_floor, parameters: {minVersion: v0.9}}\n", false, "CH-POLICY-041 CH-POLICY-040 CH-POLICY-027"},
		"no authority either": {"---\napiVersion: chancery.dev/v1alpha1\nkind: Policy\nmetadata: {name: p, namespace: nowhere}\nspec: {library: tls_floor}\n", false, "CH-POLICY-041 CH-POLICY-040 CH-POLICY-031"},
	} {
		t.Run(name, func(t *testing.T) {
			out, found := admitter(rules("owner.rego", owner)).Admit(world(t, mapping("x", "one", "")+c.manifest))
			if got := mappings(out) != ""; got != c.admitted {
				t.Errorf("admitted %t\n%s", got, lines(found))
			}
			if got := strings.Join(codes(found), " "); got != c.codes {
				t.Errorf("%s, want %s\n%s", got, c.codes, lines(found))
			}
		})
	}
}

// TestExpiry: an exception ends by itself, without any change of the world.
func TestExpiry(t *testing.T) {
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	supply := rules("owner.rego", owner)
	a := policies.New(policies.Options{Point: "compile", Supply: func() *policies.Supply { return supply }, Namespaces: []string{"platform"}, Now: func() time.Time { return now }})
	s := world(t, mapping("x", "one", "")+exception("platform", "owner", "one", "2026-07-01T00:00:00Z"))
	if out, found := a.Admit(s); mappings(out) == "" || !a.Fresh() {
		t.Fatal(lines(found))
	}
	now = now.AddDate(0, 0, 26)
	if a.Fresh() {
		t.Error("the warning is due")
	}
	if out, found := a.Admit(s); mappings(out) == "" || !slices.Contains(codes(found), "CH-POLICY-067") {
		t.Error(lines(found))
	}
	now = now.AddDate(0, 0, 6)
	if out, found := a.Admit(s); mappings(out) != "" || !slices.Contains(codes(found), "CH-POLICY-066") {
		t.Error(lines(found))
	}
}

// TestKeepLastGood: what was admitted once stays in that form where the policy says so.
func TestKeepLastGood(t *testing.T) {
	for onDeny, want := range map[string]string{"remove": "", "keepLastGood": `"service":"one"`} {
		supply := rules("p.rego", "# METADATA\n# custom:\n#   match: {kinds: [Mapping]}\n#   onDeny: "+onDeny+"\npackage chancery.admission.p\n\ndeny contains \"evil\" if input.object.spec.service == \"evil\"\n")
		a := admitter(supply)
		s := world(t, mapping("x", "one", ""))
		a.Admit(s)
		s = s.Derive(parse(t, "w.yaml", strings.Replace(mapping("x", "one", ""), "service: one", "service: evil", 1)), nil, nil)
		out, found := a.Admit(s)
		got := ""
		for o := range out.List(snapshot.GroupKind{Group: snapshot.EmissaryGroup, Kind: "Mapping"}) {
			got = string(o.Raw)
		}
		if want == "" && got != "" || !strings.Contains(got, want) || len(found) != 1 {
			t.Errorf("%s: %s\n%s", onDeny, got, lines(found))
		}
	}
}

// TestLastGoodRules: a broken revision of a policy changes nothing but what is said about it.
func TestLastGoodRules(t *testing.T) {
	current := rules("owner.rego", owner)
	a := policies.New(policies.Options{Point: "compile", Supply: func() *policies.Supply { return current }})
	s := world(t, mapping("x", "one", "")+mapping("x", "two", ""))
	out, _ := a.Admit(s)
	want := mappings(out)
	current = rules("owner.rego", strings.Replace(owner, "metadata.labels.owner", "metadata.labls.owner", 1))
	out, found := a.Admit(s)
	if mappings(out) != want || !slices.Contains(codes(found), "CH-POLICY-034") || !slices.Contains(codes(found), "CH-POLICY-023") {
		t.Errorf("%s, want %s\n%s", mappings(out), want, lines(found))
	}
}

// TestTighten: adding any tenant policy never lets an object in that was refused, nor changes one that is not the tenant's.
func TestTighten(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	objects := twoTenants + mapping("shop", "a", "") + mapping("shop", "b", ", timeout_ms: 5") + mapping("bank", "c", "") + mapping("bank", "d", ", timeout_ms: 7") + mapping("free", "e", "") +
		"---\napiVersion: v1\nkind: Service\nmetadata: {name: secret, namespace: bank}\nspec: {ports: [{port: 80}]}\n" +
		claim("shop", "first", "2020-01-01T00:00:00Z", ", timeout_ms: 9, cors: {origins: [a]}") + claim("bank", "second", "2021-01-01T00:00:00Z", ", timeout_ms: 9") +
		"---\napiVersion: getambassador.io/v3alpha1\nkind: Host\nmetadata: {name: first, namespace: shop, creationTimestamp: 2020-01-01T00:00:00Z}\nspec: {hostname: c.example.com}\n" +
		"---\napiVersion: getambassador.io/v3alpha1\nkind: Host\nmetadata: {name: second, namespace: bank, creationTimestamp: 2021-01-01T00:00:00Z}\nspec: {hostname: c.example.com}\n"
	platform := rules("owner.rego", "package chancery.admission.t\n\ndeny contains \"no timeout\" if {\n\tinput.object.kind == \"Mapping\"\n\tnot input.object.spec.timeout_ms\n}\n")
	admitted := func(extra string) map[string]string {
		out, _ := admitter(platform).Admit(world(t, objects+extra))
		m := map[string]string{}
		for _, k := range out.Kinds() {
			for o := range out.List(k) {
				if o.Group == snapshot.EmissaryGroup {
					m[o.Ref.String()] = string(o.Raw)
				}
			}
		}
		return m
	}
	before := admitted("")
	heads := []string{"deny contains \"x\"", "warn contains \"x\"", "allow", "mutate contains {\"op\": \"default\", \"path\": \"spec.timeout_ms\", \"value\": 5}", "deny := set()", "admit contains input.object"}
	bodies := []string{"true", "input.object.metadata.name == \"first\"", "input.object.kind == \"Host\"", "input.object.spec.timeout_ms", "input.object.metadata.name == \"a\"", "some k, v in data.chancery.index.services", "data.chancery.admission.t.deny", "input.tenant.name == \"shop\"", "data.chancery.index.hosts"}
	for range 60 {
		var b strings.Builder
		b.WriteString("package chancery.tenants.shop.p\n")
		for range 1 + rng.IntN(3) {
			fmt.Fprintf(&b, "\n%s if %s\n", heads[rng.IntN(len(heads))], bodies[rng.IntN(len(bodies))])
		}
		fields := []string{"", "  enforcement: warn\n", "  onFailure: open\n", "  onDeny: keepLastGood\n", "  match: {namespaces: [bank]}\n"}[rng.IntN(5)]
		after := admitted(own("shop", "p", fields, b.String()))
		for ref, raw := range after {
			if before[ref] != raw {
				t.Fatalf("%s was %q and is %q with\n%s", ref, before[ref], raw, b.String())
			}
		}
		for ref := range before {
			if _, still := after[ref]; !still && !strings.Contains(ref, "/shop/") {
				t.Fatalf("%s of another owner is gone with\n%s", ref, b.String())
			}
		}
	}
	if len(before) != 4 {
		t.Error(slices.Sorted(maps.Keys(before)))
	}
}

// TestTenantView: a tenant's rules see their own entries of the index and nothing of others.
func TestTenantView(t *testing.T) {
	objects := twoTenants + mapping("shop", "a", "") + "---\napiVersion: v1\nkind: Service\nmetadata: {name: mine, namespace: shop}\nspec: {ports: [{port: 80}]}\n" +
		"---\napiVersion: v1\nkind: Service\nmetadata: {name: secret, namespace: bank}\nspec: {ports: [{port: 80}]}\n" +
		"---\napiVersion: getambassador.io/v3alpha1\nkind: Host\nmetadata: {name: h, namespace: bank}\nspec: {hostname: bank.example.com}\n"
	rego := "package chancery.tenants.shop.p\n\nwarn contains sprintf(\"%s\", [k]) if some k, _ in data.chancery.index.services\n\nwarn contains \"sees a host\" if data.chancery.index.hosts[\"bank.example.com\"]\n\nwarn contains \"sees a service\" if data.chancery.index.services[\"bank/secret\"]\n\nwarn contains sprintf(\"%s\", [k]) if some k, _ in data.chancery.index.tenants\n\nwarn contains sprintf(\"%s\", [k]) if some k, _ in data.chancery.index.ranks\n"
	_, found := admitter(nil).Admit(world(t, objects+own("shop", "p", "  match: {kinds: [Mapping]}\n", rego)))
	var got []string
	for _, d := range found {
		got = append(got, d.Message)
	}
	if want := "[Mapping/shop/a shop shop/mine]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// TestFaultyTenant: whatever is wrong in a Tenant is told, and sets nobody free of it: its namespaces stay its own, its hosts
// cover no more than they say, and no other Tenant loses by it.
func TestFaultyTenant(t *testing.T) {
	seen := rules("seen.rego", "package chancery.admission.seen\n\ndeny contains sprintf(\"of %s\", [input.tenant.name]) if input.tenant.name != \"\"\n")
	for name, c := range map[string]struct{ spec, code string }{
		"owner":         {"namespaces: [x]", "CH-POLICY-002"},
		"host":          {"owner: eve, namespaces: [x], hosts: [A.example.com]", "CH-POLICY-002"},
		"every host":    {"owner: eve, namespaces: [x], hosts: ['*']", "CH-POLICY-002"},
		"limit":         {"owner: eve, namespaces: [x], limits: {Mapping: -1}", "CH-POLICY-002"},
		"unknown field": {"owner: eve, namespaces: [x], host: [a.example.com]", "CH-POLICY-001"},
		"type":          {"owner: 5, namespaces: [x]", "CH-POLICY-001"},
		"limit's type":  {"owner: eve, namespaces: [x], limits: {Mapping: many}", "CH-POLICY-001"},
		"one namespace": {"owner: eve, namespaces: [5, x]", "CH-POLICY-001"},
		"hosts's type":  {"hosts: a.example.com, owner: eve, namespaces: [x]", "CH-POLICY-001"},
		"host twice":    {"owner: eve, namespaces: [x], hosts: ['*.example.com']", "CH-POLICY-003"},
		"namespace too": {"owner: eve, namespaces: [x, z]", "CH-POLICY-003"},
	} {
		out, found := admitter(seen).Admit(world(t, mapping("x", "one", "")+mapping("y", "two", "")+
			"---\napiVersion: chancery.dev/v1alpha1\nkind: Tenant\nmetadata: {name: faulty, creationTimestamp: 2020-01-01T00:00:00Z}\nspec: {"+c.spec+"}\n"+
			"---\napiVersion: chancery.dev/v1alpha1\nkind: Tenant\nmetadata: {name: right, creationTimestamp: 2021-01-01T00:00:00Z}\nspec: {owner: anna, namespaces: [z, y], hosts: [b.example.com]}\n"))
		if said := lines(found); mappings(out) != "" || !slices.Contains(codes(found), c.code) || !strings.Contains(said, "of faulty") || !strings.Contains(said, "of right") {
			t.Errorf("%s: admitted %q\n%s", name, mappings(out), said)
		}
	}
}

// TestMemo: an unchanged object is evaluated zero times, and each object is converted once.
func TestMemo(t *testing.T) {
	current := rules("owner.rego", owner, "svc.rego", "# METADATA\n# custom:\n#   match: {kinds: [Mapping]}\npackage chancery.admission.svc\n\nwarn contains \"no service\" if not data.chancery.index.services[sprintf(\"%s/%s\", [input.object.metadata.namespace, input.object.spec.service])]\n")
	a := policies.New(policies.Options{Point: "compile", Supply: func() *policies.Supply { return current }})
	var b strings.Builder
	for i := range 100 {
		b.WriteString(mapping("x", fmt.Sprintf("m%d", i), ""))
	}
	s := world(t, b.String())
	step := func(what string, put []*snapshot.Object, evaluated, converted int64) {
		t.Helper()
		e, c := a.Counts().Evaluated.Load(), a.Counts().Converted.Load()
		s = s.Derive(put, nil, nil)
		a.Admit(s)
		s.Forget()
		if e, c = a.Counts().Evaluated.Load()-e, a.Counts().Converted.Load()-c; e != evaluated || c != converted {
			t.Errorf("%s: %d evaluated and %d converted, want %d and %d", what, e, c, evaluated, converted)
		}
	}
	step("everything", nil, 100, 100)
	step("nothing", nil, 0, 0)
	step("one object", parse(t, "m.yaml", mapping("x", "m7", ", timeout_ms: 5")), 1, 1)
	step("a service that one object names", parse(t, "s.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: m9, namespace: x}\nspec: {ports: [{port: 80}]}\n"), 1, 0)
	step("a service that nobody names", parse(t, "s.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: other, namespace: x}\nspec: {ports: [{port: 80}]}\n"), 0, 0)
	current = rules("owner.rego", strings.Replace(owner, "no timeout", "no time limit", 1), current.Modules[1].File, string(current.Modules[1].Text))
	step("another revision of one policy", nil, 100, 0)
	same := *current
	current = &same
	step("the same revision once more", nil, 0, 0)
}

// TestKeptForm: a form that was admitted last does not outlive a rule of the platform against it, whoever wants to keep it.
func TestKeptForm(t *testing.T) {
	loose := rules("m.rego", "package chancery.lib.nothing\n")
	strict := rules("m.rego", "# METADATA\n# custom:\n#   match: {kinds: [Mapping]}\npackage chancery.admission.m\n\ndeny contains \"no evil\" if input.object.spec.service == \"evil\"\n")
	broken := rules("m.rego", string(strict.Modules[0].Text), "b.rego", "# METADATA\n# custom:\n#   match: {kinds: [Mapping]}\npackage chancery.admission.b\n\ndeny contains \"x\" if to_number(input.object.spec.service) > 1\n")
	theirs := own("shop", "keep", "  onDeny: keepLastGood\n  match: {kinds: [Mapping]}\n", "package chancery.tenants.shop.p\ndeny contains \"not this\" if input.object.spec.service == \"good\"\n")
	mine := func(service string) string {
		return "---\napiVersion: getambassador.io/v3alpha1\nkind: Mapping\nmetadata: {name: m, namespace: shop}\nspec: {prefix: /m/, hostname: a, service: " + service + "}\n"
	}
	for name, c := range map[string]struct {
		then *policies.Supply
		want string
	}{"under the same rules": {loose, "evil"}, "under a rule against it": {strict, ""}, "under that and a broken one": {broken, ""}} {
		current := loose
		a := policies.New(policies.Options{Point: "compile", Supply: func() *policies.Supply { return current }})
		s := world(t, twoTenants+theirs+mine("evil"))
		if out, found := a.Admit(s); mappings(out) != "shop/m" {
			t.Fatal(lines(found))
		}
		current = c.then
		s = s.Derive(parse(t, "m.yaml", mine("good")), nil, nil)
		out, found := a.Admit(s)
		got := ""
		for o := range out.List(snapshot.GroupKind{Group: snapshot.EmissaryGroup, Kind: "Mapping"}) {
			got = string(o.Raw)
		}
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q stands\n%s", name, got, lines(found))
		}
	}
}

// TestUnits: rules are compiled when they change, each owner's apart, and not because of something else.
func TestUnits(t *testing.T) {
	rule := func(ns, text string) string {
		return own(ns, "p", "  match: {kinds: [Mapping]}\n", "package chancery.tenants."+ns+"\ndeny contains \""+text+"\" if input.object.spec.service == \"evil\"\n")
	}
	a := admitter(rules("owner.rego", owner))
	s := world(t, twoTenants+rule("shop", "a")+rule("bank", "a")+mapping("shop", "m", ""))
	compiled := 0
	step := func(what, text string, want int) {
		t.Helper()
		s = s.Derive(parse(t, "s.yaml", text), nil, nil)
		loaded := a.Counts().Loaded
		a.Admit(s)
		s.Forget()
		if got := a.Counts().Compiled - compiled; got != want || a.Counts().Loaded != loaded+1 {
			t.Errorf("%s: %d units compiled, want %d; %d sets", what, got, want, a.Counts().Loaded-loaded)
		}
		compiled = a.Counts().Compiled
	}
	step("all", "apiVersion: v1\nkind: Namespace\nmetadata: {name: free}\n", 3)
	step("a namespace", "apiVersion: v1\nkind: Namespace\nmetadata: {name: free, labels: {a: b}}\n", 0)
	step("a tenant's rules", rule("shop", "b"), 1)
	step("a broken one", rule("shop", "\" if if"), 0)
	step("an exception", exception("platform", "owner", "m", "2099-01-01T00:00:00Z"), 0)
	step("new kinds", strings.Replace(rule("bank", "a"), "[Mapping]", "[Mapping, Host]", 1), 1)
}

// TestSelector: namespaces belong to a tenant by their labels, too, and move when these change.
func TestSelector(t *testing.T) {
	const tenant = "---\napiVersion: chancery.dev/v1alpha1\nkind: Tenant\nmetadata: {name: team}\nspec: {owner: anna, namespaceSelector: {team: red}}\n"
	namespace := func(labels string) string {
		return "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: x, labels: {" + labels + "}}\n"
	}
	a := admitter(rules("t.rego", "# METADATA\n# custom:\n#   match: {kinds: [Mapping], tenants: [team]}\npackage chancery.admission.t\n\ndeny contains \"red\" if input.tenant.name == \"team\"\n"))
	s := world(t, tenant+namespace("team: red")+mapping("x", "m", ""))
	for _, c := range []struct{ labels, want string }{{"team: red", ""}, {"team: blue", "x/m"}, {"team: red, more: labels", ""}} {
		s = s.Derive(parse(t, "n.yaml", namespace(c.labels)), nil, nil)
		out, found := a.Admit(s)
		if mappings(out) != c.want || a.Tenant("x") != map[bool]string{true: "team", false: ""}[c.want == ""] {
			t.Errorf("%s: %q stands, tenant %q\n%s", c.labels, mappings(out), a.Tenant("x"), lines(found))
		}
		s.Forget()
	}
}

// TestTransitions: the log of decisions has what changes, not what is evaluated.
func TestTransitions(t *testing.T) {
	var said []string
	current := rules("owner.rego", owner)
	a := policies.New(policies.Options{Point: "compile", Supply: func() *policies.Supply { return current }, Decided: func(d decision.Transition) {
		said = append(said, fmt.Sprintf("%s %s %s>%s", d.Object, d.Policy, d.From, d.To))
	}})
	s := world(t, mapping("x", "one", "")+mapping("x", "two", ", timeout_ms: 5"))
	step := func(what string, put []*snapshot.Object, want string) {
		t.Helper()
		said = nil
		s = s.Derive(put, nil, nil)
		a.Admit(s)
		s.Forget()
		slices.Sort(said)
		if got := strings.Join(said, ", "); got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	step("first", nil, "Mapping/x/one owner >error, Mapping/x/two owner >error")
	step("an edit that changes no verdict", parse(t, "m.yaml", mapping("x", "two", ", timeout_ms: 6")), "")
	current = rules("owner.rego", owner+"\nwarn contains \"never\" if input.object.spec.prefix == \"/never/\"\n")
	step("a revision that changes no verdict", nil, "")
	step("a cure", parse(t, "m.yaml", strings.Replace(mapping("x", "two", ", timeout_ms: 6"), "namespace: x", "namespace: x, labels: {owner: me}", 1)), "Mapping/x/two owner error>")
}
