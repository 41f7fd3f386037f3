package engine_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/chancery-gateway/chancery/policies"
	"github.com/chancery-gateway/chancery/policies/engine"
	"github.com/chancery-gateway/chancery/policies/library"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/snapshot/manifest"
)

func world(t *testing.T) *snapshot.Snapshot {
	t.Helper()
	var all []*snapshot.Object
	for _, file := range []string{"bank", "news", "shop", "platform"} {
		text, err := os.ReadFile("../testdata/teams/manifests/" + file + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		filled := strings.NewReplacer("PORT_CLEAR", "8080", "PORT_BACKEND", "9000").Replace(string(text))
		for _, d := range manifest.Documents(file, []byte(filled)) {
			if o, _ := api.Decode(d.JSON, snapshot.Source{Position: d.Position}, nil); o != nil {
				all = append(all, o)
			}
		}
	}
	return snapshot.Empty().Derive(all, nil, nil)
}

// TestIndexing: the engine's index of rules changes no verdict. (An index that left a rule out would let objects in.)
func TestIndexing(t *testing.T) {
	defer engine.Indexed(true)
	s := world(t)
	supply := &policies.Supply{Digest: "x"}
	supply.Modules = append(supply.Modules, library.Modules()...)
	supply.Modules = append(supply.Modules, engine.Module{File: "index.rego", Text: []byte("package chancery.admission.index\n\ndeny contains \"a\" if input.object.kind in {\"Mapping\", input.object.metadata.name}\n\n" +
		"deny contains \"b\" if {\n\tinput.object.kind == \"Mapping\"\n\tstartswith(input.object.spec.prefix, \"/bank\")\n}\n\ndeny contains \"c\" if glob.match(\"/news-*\", [], input.object.spec.prefix)\n")})
	var said [2]string
	for i, on := range []bool{true, false} {
		engine.Indexed(on)
		a := policies.New(policies.Options{Point: "cli", Supply: func() *policies.Supply { return supply }})
		_, found := a.Admit(s)
		said[i] = fmt.Sprint(found)
		if len(found) < 50 {
			t.Errorf("%d findings are too few to show anything", len(found))
		}
	}
	if said[0] != said[1] {
		t.Errorf("with the index\n%s\nwithout\n%s", said[0], said[1])
	}
}

// TestProfile: no builtin that reaches out of the rules, that is not deterministic, or whose result can exceed the machine,
// can be called; each that exists and is left out is refused with its name.
func TestProfile(t *testing.T) {
	var allowed []string
	for _, b := range engine.Capabilities().Builtins {
		allowed = append(allowed, b.Name)
		if b.Nondeterministic {
			t.Errorf("%s is not deterministic", b.Name)
		}
	}
	for _, never := range []string{"http.send", "opa.runtime", "net.lookup_ip_addr", "rand.intn", "uuid.rfc4122", "time.now_ns", "bits.lsh", "units.parse_bytes", "units.parse", "numbers.range",
		"numbers.range_step", "net.cidr_expand", "rego.parse_module", "io.jwt.decode_verify", "json.match_schema", "trace", "print"} {
		if slices.Contains(allowed, never) {
			t.Errorf("%s is allowed", never)
		}
		if _, exists := ast.BuiltinMap[never]; !exists {
			t.Errorf("there is no %s any more", never)
		}
	}
	if net := engine.Capabilities().AllowNet; net == nil || len(net) > 0 {
		t.Errorf("hosts: %v", net)
	}
	for _, name := range []string{"bits.lsh", "units.parse_bytes", "net.cidr_expand"} {
		args := "1"
		if b := ast.BuiltinMap[name]; len(b.Decl.FuncArgs().Args) == 2 {
			args = "1, 100000000000"
		}
		set := engine.NewLoader().Load(input("package chancery.admission.p\n\ndeny contains \"x\" if " + name + "(" + args + ")\n"))
		if len(set.Findings) != 1 || set.Findings[0].Code.ID != "CH-POLICY-022" || !strings.Contains(set.Findings[0].Message, name) {
			t.Errorf("%s: %v", name, set.Findings)
		}
	}
}

func input(files ...string) engine.Input {
	in := engine.Input{Library: library.Find}
	for i, text := range files {
		in.Modules = append(in.Modules, engine.Module{File: fmt.Sprintf("p%d.rego", i), Text: []byte(text)})
	}
	return in
}

// TestDigest: whatever a verdict depends on is in the digest of the set.
func TestDigest(t *testing.T) {
	const one = "# METADATA\n# custom:\n#   defaults: {n: 1}\npackage chancery.admission.p\n\nimport data.chancery.lib.l\n\ndeny contains \"x\" if l.f(input.parameters.n)\n"
	const lib = "package chancery.lib.l\n\nf(n) if n > 1\n"
	seen := map[string]string{}
	for name, in := range map[string]engine.Input{
		"plain": input(one, lib), "another parameter": input(strings.Replace(one, "n: 1", "n: 2", 1), lib), "another library": input(one, strings.Replace(lib, "n > 1", "n > 2", 1)),
		"another rule": input(strings.Replace(one, `"x"`, `"y"`, 1), lib), "another enforcement": input(strings.Replace(one, "custom:", "custom:\n#   enforcement: warn", 1), lib),
		"other data": func() engine.Input { in := input(one, lib); in.Data = "other"; return in }(),
	} {
		set := engine.NewLoader().Load(in)
		if len(set.Findings) > 0 {
			t.Errorf("%s: %v", name, set.Findings)
		}
		if other := seen[set.Digest]; other != "" {
			t.Errorf("%s and %s have one digest", name, other)
		}
		seen[set.Digest] = name
		if again := engine.NewLoader().Load(in); again.Digest != set.Digest {
			t.Errorf("%s has two digests", name)
		}
	}
}
