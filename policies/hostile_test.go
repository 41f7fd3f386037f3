package policies_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/policies"
	"github.com/chancery-gateway/chancery/snapshot"
)

// target is the head of a hostile policy that is about namespace target alone.
const target = "# METADATA\n# title: hostile\n# custom:\n#   match: {kinds: [Mapping], namespaces: [target]}\n#   writes: [spec.timeout_ms, spec.prefix, metadata.labels]\npackage chancery.admission.hostile\n\n"

// tenants are two tenants, of which shop has a policy of its own.
func tenants(rego string) string {
	indented := strings.ReplaceAll(strings.TrimSpace(rego), "\n", "\n    ")
	return "---\napiVersion: chancery.dev/v1alpha1\nkind: Tenant\nmetadata: {name: shop}\nspec: {owner: anna, namespaces: [target]}\n" +
		"---\napiVersion: chancery.dev/v1alpha1\nkind: Tenant\nmetadata: {name: bank}\nspec: {owner: bob, namespaces: [bank]}\n" +
		"---\napiVersion: chancery.dev/v1alpha1\nkind: Policy\nmetadata: {name: own, namespace: target}\nspec:\n  match: {kinds: [Mapping]}\n  rego: |\n    " + indented + "\n"
}

var hostile = []struct {
	name, rego string
	// manifest replaces the module by objects.
	manifest string
	code     string
}{
	{"syntax error", target + "deny contains \"x\" if {\n", "", "CH-POLICY-020"},
	{"not rego at all", "\x00\xff{}[]", "", "CH-POLICY-020"},
	{"version 0 syntax", target + "deny[msg] { msg := \"x\" }\n", "", "CH-POLICY-020"},
	{"unknown builtin", target + "deny contains \"x\" if make_coffee(input)\n", "", "CH-POLICY-022"},
	{"http.send", target + "deny contains \"x\" if http.send({\"method\": \"get\", \"url\": \"http://127.0.0.1\"}).status_code == 200\n", "", "CH-POLICY-022"},
	{"clock", target + "deny contains \"x\" if time.now_ns() > 0\n", "", "CH-POLICY-022"},
	{"environment", target + "deny contains \"x\" if opa.runtime().env.HOME\n", "", "CH-POLICY-022"},
	{"memory by shift", target + "deny contains \"x\" if bits.lsh(1, 100000000000) > 0\n", "", "CH-POLICY-022"},
	{"memory by range", target + "deny contains \"x\" if count(numbers.range(1, 1000000000)) > 0\n", "", "CH-POLICY-022"},
	{"huge literal", target + "deny contains \"x\" if 1e1000000000 % 3 == 1\n", "", "CH-POLICY-020"},
	{"typo", target + "deny contains \"x\" if input.object.spec.prefx == \"/\"\n", "", "CH-POLICY-023"},
	{"typo in the index", target + "deny contains \"x\" if data.chancery.index.hostz.a\n", "", "CH-POLICY-023"},
	{"recursion", target + "deny contains \"x\" if a(1)\n\na(x) := b(x)\n\nb(x) := a(x)\n", "", "CH-POLICY-024"},
	{"unsafe variable", target + "deny contains x if input.object.kind\n", "", "CH-POLICY-024"},
	{"no entry point", target + "denied contains \"x\" if input.object.kind\n", "", "CH-POLICY-025"},
	{"deny that is no set", target + "deny := true if input.object.kind\n", "", "CH-POLICY-025"},
	{"wrong package", strings.Replace(target, "chancery.admission.hostile", "chancery.index.hosts", 1) + "deny contains \"x\" if true\n", "", "CH-POLICY-021"},
	{"package of a tenant", strings.Replace(target, "chancery.admission.hostile", "chancery.tenants.shop", 1) + "deny contains \"x\" if true\n", "", "CH-POLICY-021"},
	{"endless comprehension", target + loops, "", "CH-POLICY-044"},
	{"doubling", target + "deny contains \"x\" if {\n\ta := \"aaaaaaaaaa\"\n" + doubling() + "\tcount(b30) > 0\n}\n", "", "CH-POLICY-044"},
	{"huge result", target + "digits := [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]\n\ndeny contains sprintf(\"%d%d%d\", [i, j, k]) if {\n\tsome i in digits\n\tsome j in digits\n\tsome k in digits\n}\n", "", "CH-POLICY-046"},
	{"result of the wrong form", target + "deny contains {\"message\": \"x\"} if input.object.kind\n", "", "CH-POLICY-047"},
	{"conflicting rules", target + "who := \"a\" if input.object.kind\n\nwho := \"b\" if input.object.spec\n\ndeny contains who\n", "", "CH-POLICY-045"},
	{"failing builtin", target + "deny contains \"x\" if to_number(input.object.kind) > 0\n", "", "CH-POLICY-045"},
	{"mutation outside its scope", target + "mutate contains {\"op\": \"set\", \"path\": \"spec.service\", \"value\": \"evil\"}\n", "", "CH-POLICY-060"},
	{"mutation of the name", strings.Replace(target, "spec.timeout_ms", "metadata.name", 1) + "mutate contains {\"op\": \"set\", \"path\": \"metadata.name\", \"value\": \"evil\"}\n", "", "CH-POLICY-060"},
	{"fighting mutations", target + "mutate contains {\"op\": \"set\", \"path\": \"spec.timeout_ms\", \"value\": 1}\n\nmutate contains {\"op\": \"set\", \"path\": \"spec.timeout_ms\", \"value\": 2}\n", "", "CH-POLICY-061"},
	{"mutation that never rests", target + "mutate contains {\"op\": \"set\", \"path\": \"spec.prefix\", \"value\": sprintf(\"%sx\", [input.object.spec.prefix])}\n", "", "CH-POLICY-062"},
	{"mutation that spoils", target + "mutate contains {\"op\": \"set\", \"path\": \"spec.timeout_ms\", \"value\": \"soon\"}\n", "", "CH-POLICY-063"},
	{"mutation of the wrong form", target + "mutate contains {\"op\": \"destroy\", \"path\": \"spec.timeout_ms\"}\n", "", "CH-POLICY-047"},
	{"tenant refers to another", "", tenants("package chancery.tenants.shop.own\ndeny contains \"x\" if data.chancery.tenants.bank.secret\n"), "CH-POLICY-026"},
	{"tenant reads all data", "", tenants("package chancery.tenants.shop.own\ndeny contains \"x\" if some k in data[input.object.kind]\n"), "CH-POLICY-026"},
	{"tenant in another's package", "", tenants("package chancery.tenants.bank\ndeny contains \"x\" if true\n"), "CH-POLICY-021"},
	{"tenant in the platform's package", "", tenants("package chancery.admission.own\ndeny contains \"x\" if true\n"), "CH-POLICY-021"},
	{"tenant in a package with a dot", "", tenants("package chancery.tenants.shop[\"a.b\"]\ndeny contains \"x\" if true\n"), "CH-POLICY-021"},
	{"tenant mutates", "", tenants("package chancery.tenants.shop.own\nmutate contains {\"op\": \"set\", \"path\": \"spec.prefix\", \"value\": \"/\"}\n"), "CH-POLICY-032"},
	{"tenant loops", "", tenants("package chancery.tenants.shop.own\n" + loops), "CH-POLICY-044"},
}

const loops = `
digits := [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]

deny contains "x" if {
	n := count([1 | some a in digits; some b in digits; some c in digits; some d in digits; some e in digits; some f in digits; some g in digits; some h in digits; some i in digits])
	n > 5
}
`

func doubling() string {
	var b strings.Builder
	b.WriteString("\tb0 := concat(\"\", [a, a])\n")
	for i := 1; i <= 30; i++ {
		fmt.Fprintf(&b, "\tb%d := concat(\"\", [b%d, b%d, b%d, b%d])\n", i, i-1, i-1, i-1, i-1)
	}
	return b.String()
}

// elsewhere renders all that a snapshot and its findings say of other namespaces than target.
func elsewhere(s *snapshot.Snapshot, found []snapshot.Diagnostic) string {
	var b strings.Builder
	for _, k := range s.Kinds() {
		for o := range s.List(k) {
			if o.Namespace != "target" && policies.Judged(k) {
				fmt.Fprintf(&b, "%s %s\n", o.Ref, o.Raw)
			}
		}
	}
	for _, d := range found {
		if d.Object.Namespace != "target" && d.Object.Kind == "Mapping" {
			b.WriteString(lines([]snapshot.Diagnostic{d}))
		}
	}
	return b.String()
}

// TestHostile shows that every hostile policy is refused or cut under its own code, and costs nothing but what it is about.
func TestHostile(t *testing.T) {
	objects := mapping("target", "one", "") + mapping("target", "two", "") + mapping("other", "three", "") + mapping("bank", "four", ", timeout_ms: 5")
	out, found := admitter(rules("owner.rego", owner)).Admit(world(t, objects))
	want := elsewhere(out, found)
	for _, h := range hostile {
		t.Run(h.name, func(t *testing.T) {
			files := []string{"owner.rego", owner}
			if h.rego != "" {
				files = append(files, "hostile.rego", h.rego)
			}
			begun := time.Now()
			out, found := admitter(rules(files...)).Admit(world(t, objects+h.manifest))
			if took := time.Since(begun); took > 20*time.Second {
				t.Errorf("took %s", took)
			}
			if !slices.Contains(codes(found), h.code) {
				t.Errorf("no finding %s:\n%s", h.code, lines(found))
			}
			if got := elsewhere(out, found); got != want {
				t.Errorf("others are not as before:\n%s\nwant\n%s", got, want)
			}
			for _, d := range found {
				if d.Code.ID == h.code && d.Position.File == "" {
					t.Errorf("no place: %s", d)
				}
			}
		})
	}
}
