package policies_test

import (
	"slices"
	"strings"
	"testing"
)

// TestMistakenNames: a name in METADATA or match.kinds that is nearly a known one is told, for a guardrail that judges nothing, or judges
// otherwise than was meant, looks like one that has nothing to say. Names of somebody's own are left alone.
func TestMistakenNames(t *testing.T) {
	head := func(custom string) string {
		return "# METADATA\n# custom:\n#   " + custom + "\npackage chancery.admission.p\n\ndeny contains \"x\"\n"
	}
	object := func(kinds string) string {
		return "---\napiVersion: chancery.dev/v1alpha1\nkind: Policy\nmetadata: {name: p, namespace: platform}\nspec: {package: chancery.admission.p, match: {kinds: " + kinds + "}}\n"
	}
	for name, c := range map[string]struct{ custom, manifest, code, says string }{
		"kind":               {"match: {kinds: [Maping]}", "", "CH-POLICY-036", `no kind is called "Maping"`},
		"case of a kind":     {"match: {kinds: [Host, mapping]}", "", "CH-POLICY-036", `no kind is called "mapping"`},
		"kind in an object":  {"severity: low", object("[Maping]"), "CH-POLICY-036", `did you mean "Mapping"?`},
		"own kind":           {"match: {kinds: [Greeting, Greeting.example.com, Maping.example.com]}", "", "", ""},
		"field":              {"enforcment: dryrun", "", "CH-POLICY-033", `custom.enforcment is not known; did you mean "enforcement"?`},
		"field in camels":    {"on_deny: keepLastGood", "", "CH-POLICY-033", `did you mean "onDeny"?`},
		"field of one's own": {"ticket: 12", "", "", ""},
	} {
		_, found := admitter(rules("p.rego", head(c.custom))).Admit(world(t, c.manifest))
		said := lines(found)
		for _, d := range found {
			said += d.Help + "\n"
		}
		if c.code == "" && (strings.Contains(said, "CH-POLICY-033") || strings.Contains(said, "CH-POLICY-036")) ||
			c.code != "" && (!slices.Contains(codes(found), c.code) || !strings.Contains(said, c.says)) {
			t.Errorf("%s: want %s %s\n%s", name, c.code, c.says, said)
		}
	}
}
