package policies_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/policies"
	"github.com/chancery-gateway/chancery/policies/api"
	"github.com/chancery-gateway/chancery/policies/engine"
	"github.com/chancery-gateway/chancery/snapshot"
	decoder "github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/snapshot/manifest"
)

// parse decodes manifests.
func parse(t testing.TB, file, text string) []*snapshot.Object {
	t.Helper()
	var out []*snapshot.Object
	for _, d := range manifest.Documents(file, []byte(text)) {
		if d.Err != nil {
			t.Fatalf("%s: %v", file, d.Err)
		}
		o, found := decoder.Decode(d.JSON, snapshot.Source{Position: d.Position, Text: d.Text}, nil)
		if o == nil {
			t.Fatalf("%s: %v", file, found)
		}
		out = append(out, o)
	}
	return out
}

func world(t testing.TB, text string) *snapshot.Snapshot {
	t.Helper()
	return snapshot.Empty().Derive(parse(t, "world.yaml", text), nil, nil)
}

// rules returns a supply of modules by file name.
func rules(files ...string) *policies.Supply {
	s := &policies.Supply{Digest: strings.Join(files, "\x00")}
	for i := 0; i < len(files); i += 2 {
		s.Modules = append(s.Modules, engine.Module{File: files[i], Text: []byte(files[i+1])})
	}
	return s
}

func admitter(s *policies.Supply) *policies.Admitter {
	return policies.New(policies.Options{Point: api.PointCLI, Supply: func() *policies.Supply { return s }, Namespaces: []string{"platform"},
		Now: func() time.Time { return time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC) }})
}

func lines(ds []snapshot.Diagnostic) string {
	var b strings.Builder
	for _, d := range ds {
		b.WriteString(d.String())
		if d.Policy != "" {
			fmt.Fprintf(&b, " by %s at %s", d.Policy, d.Rule)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func codes(ds []snapshot.Diagnostic) (out []string) {
	for _, d := range ds {
		out = append(out, d.Code.ID)
	}
	return out
}

func mapping(ns, name, fields string) string {
	return fmt.Sprintf("---\napiVersion: getambassador.io/v3alpha1\nkind: Mapping\nmetadata: {name: %s, namespace: %s}\nspec: {prefix: /%s/, service: %s, hostname: a.example.com%s}\n", name, ns, name, name, fields)
}

const owner = `# METADATA
# title: Owner label
# custom:
#   match: {kinds: [Mapping]}
package chancery.admission.owner

# METADATA
# title: the owner must be named
deny contains {"msg": "label owner is missing", "path": "metadata.labels"} if {
	not input.object.metadata.labels.owner
}

warn contains "no timeout" if not input.object.spec.timeout_ms
`

func TestDeny(t *testing.T) {
	a := admitter(rules("owner.rego", owner))
	s := world(t, mapping("x", "one", "")+"---\napiVersion: getambassador.io/v3alpha1\nkind: Mapping\nmetadata: {name: two, namespace: x, labels: {owner: me}}\nspec: {prefix: /two/, service: two, timeout_ms: 5, hostname: a}\n")
	out, found := a.Admit(s)
	if out.Len(snapshot.GroupKind{Group: snapshot.EmissaryGroup, Kind: "Mapping"}) != 1 || len(found) != 2 {
		t.Fatal(lines(found))
	}
	if d := found[1]; d.Policy != "owner" || d.Rule != (snapshot.Position{File: "owner.rego", Line: 9}) || d.Object.Name != "one" || d.Path != "metadata.labels" {
		t.Errorf("%+v", d)
	}
}

func TestTypo(t *testing.T) {
	a := admitter(rules("typo.rego", "# METADATA\n# custom:\n#   match: {kinds: [Mapping]}\npackage chancery.admission.typo\n\ndeny contains \"x\" if input.object.spec.prefx == \"/\"\n", "owner.rego", owner,
		"http.rego", "package chancery.admission.http\n\ndeny contains \"x\" if http.send({\"url\": \"http://x\"}).status_code == 200\n"))
	_, found := a.Admit(world(t, mapping("x", "one", "")))
	want := `http.rego:3: error CH-POLICY-022: rules may not call http.send (use what the profile pure/1 has; a rule knows its input and data.chancery.index only)
typo.rego:6: error CH-POLICY-023: undefined ref: input.object.spec.prefx (it has prefix, grpc, cors, docs, host, ...)
`
	if got := lines(found); !strings.HasPrefix(got, want) {
		t.Error(got)
	}
	if got, want := fmt.Sprint(codes(found)[2:]), "[CH-POLICY-041 CH-POLICY-048 CH-POLICY-048 CH-POLICY-040]"; got != want {
		t.Error(got, "want", want)
	}
}
