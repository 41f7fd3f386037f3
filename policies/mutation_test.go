package policies_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/policies"
	"github.com/chancery-gateway/chancery/policies/api"
	"github.com/chancery-gateway/chancery/snapshot"
)

// mutator is a policy that changes timeouts and labels.
func mutator(name, custom, rules string) string {
	return fmt.Sprintf("# METADATA\n# custom:\n#   match: {kinds: [Mapping]}\n#   writes: [spec.timeout_ms, spec.retry_policy, metadata.labels]\n%spackage chancery.admission.%s\n\n%s\n", custom, name, rules)
}

// TestMutations: mutations build on each other until nothing changes, a higher priority decides, the result is judged, and
// trials only tell.
func TestMutations(t *testing.T) {
	const labels = `{"op": "set", "path": "metadata.labels.%s", "value": "yes"}`
	set := func(n int) string {
		return fmt.Sprintf(`mutate contains {"op": "set", "path": "spec.timeout_ms", "value": %d}`, n)
	}
	chain := "mutate contains " + fmt.Sprintf(labels, "a") + "\n\nmutate contains " + fmt.Sprintf(labels, "b") + " if input.object.metadata.labels.a\n\nmutate contains " + fmt.Sprintf(labels, "c") + " if input.object.metadata.labels.b"
	for name, c := range map[string]struct {
		files []string
		want  string // part of the object; "" when it is refused
		codes string
	}{
		"chain":                {[]string{mutator("p", "", chain)}, `"labels":{"a":"yes","b":"yes","c":"yes"}`, "CH-POLICY-064"},
		"agreeing":             {[]string{mutator("p", "", set(5)), mutator("q", "", set(5))}, `"timeout_ms":5`, "CH-POLICY-064"},
		"priority":             {[]string{mutator("p", "#   priority: 2\n", set(5)), mutator("q", "", set(7))}, `"timeout_ms":5`, "CH-POLICY-064"},
		"fight":                {[]string{mutator("p", "", set(5)), mutator("q", "", set(7))}, "", "CH-POLICY-061 CH-POLICY-061"},
		"below and above":      {[]string{mutator("p", "", `mutate contains {"op": "set", "path": "spec.retry_policy", "value": {}}`), mutator("q", "", `mutate contains {"op": "set", "path": "spec.retry_policy.retry_on", "value": "5xx"}`)}, "", "CH-POLICY-061 CH-POLICY-061"},
		"default":              {[]string{mutator("p", "", `mutate contains {"op": "default", "path": "spec.timeout_ms", "value": 9}`)}, `"timeout_ms":3`, ""},
		"remove":               {[]string{mutator("p", "", `mutate contains {"op": "remove", "path": "/spec/timeout_ms"}`)}, `"service":"m"`, "CH-POLICY-064"},
		"judged after":         {[]string{mutator("p", "", set(5)+"\n\ndeny contains \"five\" if input.object.spec.timeout_ms == 5")}, "", "CH-POLICY-064 CH-POLICY-040"},
		"cured before":         {[]string{mutator("p", "", set(5)+"\n\ndeny contains \"three\" if input.object.spec.timeout_ms == 3")}, `"timeout_ms":5`, "CH-POLICY-064"},
		"trial":                {[]string{mutator("p", "#   enforcement: dryrun\n", set(5))}, `"timeout_ms":3`, "CH-POLICY-042"},
		"undoing each other":   {[]string{mutator("p", "", set(5)+" if input.object.spec.timeout_ms == 3\n\n"+set(3)+" if input.object.spec.timeout_ms == 5")}, "", "CH-POLICY-062"},
		"invalid by schema":    {[]string{mutator("p", "", `mutate contains {"op": "set", "path": "spec.retry_policy", "value": {"num_retries": "many"}}`)}, "", "CH-POLICY-063"},
		"below what is a leaf": {[]string{mutator("p", "", `mutate contains {"op": "set", "path": "spec.timeout_ms.deep", "value": 1}`)}, "", "CH-POLICY-060"},
	} {
		t.Run(name, func(t *testing.T) {
			var files []string
			for i, f := range c.files {
				files = append(files, fmt.Sprintf("%d.rego", i), f)
			}
			a := admitter(rules(files...))
			out, found := a.Admit(world(t, mapping("x", "m", ", timeout_ms: 3")))
			o := out.Get(snapshot.GroupKind{Group: snapshot.EmissaryGroup, Kind: "Mapping"}, "x", "m")
			if (o != nil) != (c.want != "") || o != nil && !strings.Contains(string(o.Raw), c.want) {
				t.Errorf("%v\n%s", o, lines(found))
			}
			got := slices.Compact(codes(found))
			if name == "fight" || name == "below and above" {
				got = codes(found)
			}
			slices.SortFunc(got, func(a, b string) int { return -strings.Compare(a, b) })
			if strings.Join(got, " ") != c.codes {
				t.Errorf("%s, want %s\n%s", strings.Join(got, " "), c.codes, lines(found))
			}
			if name == "fight" && (!strings.Contains(found[0].Message, "p (0.rego:") || !strings.Contains(found[0].Message, "q (1.rego:")) {
				t.Errorf("both policies are to be named: %s", found[0].Message)
			}
		})
	}
}

// TestPoints: what a denial does follows from the enforcement and from the point.
func TestPoints(t *testing.T) {
	for _, c := range []struct {
		custom string
		point  api.Point
		want   string // the code, "" for nothing
		in     bool
	}{
		{"enforcement: deny", "cli", "CH-POLICY-040", false}, {"enforcement: deny", "webhook", "CH-POLICY-040", false}, {"enforcement: deny", "compile", "CH-POLICY-040", false},
		{"enforcement: warn", "compile", "CH-POLICY-041", true}, {"enforcement: dryrun", "compile", "CH-POLICY-042", true}, {"enforcement: audit", "cli", "CH-POLICY-042", true},
		{"points: [webhook]", "cli", "", true}, {"points: [webhook]", "webhook", "CH-POLICY-040", false}, {"points: [audit]", "compile", "CH-POLICY-042", true}, {"points: [audit]", "webhook", "", true},
		{"points: [audit, compile]", "compile", "CH-POLICY-040", false},
	} {
		supply := rules("p.rego", "# METADATA\n# custom:\n#   match: {kinds: [Mapping]}\n#   "+c.custom+"\npackage chancery.admission.p\n\ndeny contains \"no\" if input.point == \""+string(c.point)+"\"\n")
		a := policies.New(policies.Options{Point: c.point, Supply: func() *policies.Supply { return supply }})
		out, found := a.Admit(world(t, mapping("x", "m", "")))
		if got := strings.Join(codes(found), " "); got != c.want || (mappings(out) != "") != c.in {
			t.Errorf("%s at %s: %q, admitted %q", c.custom, c.point, got, mappings(out))
		}
	}
}

// TestOrder: the outcome does not depend on the order in which objects come.
func TestOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	supply := rules("join.rego", joining, "bound.rego", bounding, "hosts.rego", "# METADATA\n# custom:\n#   match: {kinds: [Host, Listener, AuthService]}\npackage chancery.merge.hosts\n\nresolve := {\"default\": \"first-wins\"} if count(input.claims) > 1\n")
	var texts []string
	for i, ns := range []string{"bank", "shop", "free", "bank", "shop"} {
		year := fmt.Sprintf("20%d-01-01T00:00:00Z", 20+i%3)
		texts = append(texts, claim(ns, fmt.Sprintf("m%d", i), year, fmt.Sprintf(", timeout_ms: %d, bypass_auth: %t, allow_upgrade: [u%d]", i*100, i%2 == 0, i)),
			fmt.Sprintf("---\napiVersion: getambassador.io/v3alpha1\nkind: Host\nmetadata: {name: h%d, namespace: %s, creationTimestamp: %q}\nspec: {hostname: a.example.com, requestPolicy: {insecure: {action: %s}}}\n", i, ns, year, []string{"Route", "Reject", "Redirect"}[i%3]),
			fmt.Sprintf("---\napiVersion: getambassador.io/v3alpha1\nkind: AuthService\nmetadata: {name: a%d, namespace: %s, creationTimestamp: %q}\nspec: {auth_service: a, proto: grpc, failure_mode_allow: %t}\n", i, ns, year, i%2 == 0))
	}
	texts = append(texts, twoTenants, "---\napiVersion: getambassador.io/v3alpha1\nkind: Module\nmetadata: {name: ambassador, namespace: free}\nspec: {config: {cluster_request_timeout_ms: 250}}\n")
	first := ""
	for round := range 40 {
		rng.Shuffle(len(texts), func(i, j int) { texts[i], texts[j] = texts[j], texts[i] })
		a := policies.New(policies.Options{Point: "cli", Supply: func() *policies.Supply { return supply }, Now: func() time.Time { return time.Unix(0, 0) }})
		var out *snapshot.Snapshot
		var found []snapshot.Diagnostic
		s := snapshot.Empty()
		for i, text := range texts {
			for _, o := range parse(t, "w.yaml", text) {
				o.Source = snapshot.Source{}
				s = s.Derive([]*snapshot.Object{o}, nil, nil)
			}
			if round%2 == 0 || i == len(texts)-1 { // one by one, or all at once
				out, found = a.Admit(s)
				s.Forget()
			}
		}
		got := elsewhere(out, nil) + lines(found)
		if first == "" {
			first = got
		}
		if got != first {
			t.Fatalf("round %d:\n%s\nwant\n%s", round, got, first)
		}
	}
}
