package modules

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/envoy"
	"github.com/chancery-gateway/chancery/translators/ir"
	"github.com/chancery-gateway/chancery/wasm"
)

func all(t testing.TB) []wasm.Spec {
	return []wasm.Spec{spec(t, "lower", ""), spec(t, "header", `{"label":"team","header":"x-team"}`), spec(t, "cluster", `{"limit":77}`)}
}

func everything(t testing.TB, r *translators.Result) map[string]string {
	t.Helper()
	out := map[string]string{}
	for url, rs := range r.Resources {
		for _, x := range rs {
			out[url+" "+x.Name] = x.Version + string(x.Value)
		}
	}
	var program bytes.Buffer
	if err := r.Program.WriteJSON(&program); err != nil {
		t.Fatal(err)
	}
	out["program"] = program.String()
	for i, d := range r.Diagnostics {
		out[fmt.Sprintf("diagnostic %d", i)] = d.String()
	}
	out["written"] = fmt.Sprint(r.Written)
	return out
}

// calls are how often units entered modules, and how often they were answered without.
func calls(m *Modules) (called, remembered int64) {
	for _, s := range m.Host().Status() {
		called, remembered = called+s.Counts.Calls, remembered+s.Counts.Remembered
	}
	return called, remembered
}

// TestExamples: the SDK's three examples through the whole compiler; nothing enters wasm while nothing changes, and a change enters once.
func TestExamples(t *testing.T) {
	m := start(t, all(t)...)
	c := newCompiler(m)
	s := world(t, base)
	r := c.Compile(s)
	for _, d := range r.Diagnostics {
		if d.Severity != snapshot.Info && !strings.Contains(d.Message, "Service") {
			t.Errorf("%v", d)
		}
	}
	program := everything(t, r)["program"]
	contains(t, "the program", program, `"direct":{"status":503,"body":"Back at noon."}`, `"path":"/new"`, `{"name":"x-team","value":"red"}`,
		`"kind":"MaintenancePage"`, `"name":"redirect-moved-0"`)
	if n := strings.Count(program, "x-team"); n != 1 {
		t.Errorf("the header stands on %d routes, not on the one of the labelled Mapping", n)
	}
	limited := 0
	for _, x := range r.Resources[ir.TypeCluster] {
		text, err := envoy.Text(x)
		if err != nil {
			t.Fatal(err)
		}
		limited += strings.Count(string(text), `"maxRequestsPerConnection":77`)
	}
	if limited != 1 {
		t.Errorf("%d clusters have the option; the one with an idle timeout should", limited)
	}
	phases := map[string]bool{}
	for _, w := range slices.Concat(r.Written...) {
		phases[w.Phase] = true
		if w.Reason == "" || len(w.Objects) == 0 || w.Digest == "" {
			t.Errorf("%+v does not say from where and why", w)
		}
	}
	if len(phases) != 3 {
		t.Errorf("phases %v wrote", phases)
	}

	called, remembered := calls(m)
	again := c.Compile(s)
	if n, k := calls(m); n != called || k <= remembered {
		t.Errorf("an unchanged world entered wasm %d times (%d answers were remembered)", n-called, k-remembered)
	}
	if again.Counts.Emitted != 0 || len(again.Changed) != 0 {
		t.Errorf("an unchanged world emitted %d units, %d to prove", again.Counts.Emitted, len(again.Changed))
	}
	edited := s.Derive(parse(t, strings.ReplaceAll(`
apiVersion: getambassador.io/v3alpha1
kind: Mapping
metadata: {name: n, namespace: shop, labels: {team: blue}}
spec: {hostname: "shop.example.com", prefix: /n/, service: "other:8000"}
`, "\t", "")), nil, nil)
	r = c.Compile(edited)
	if n, _ := calls(m); n != called+1 {
		t.Errorf("one label entered wasm %d times", n-called)
	}
	contains(t, "the program", everything(t, r)["program"], `{"name":"x-team","value":"blue"}`)
}

// TestOtherwiseNothing: modules that have nothing to do, and none at all, leave every byte and pointer as it is.
func TestOtherwiseNothing(t *testing.T) {
	s := world(t, base)
	plain := newCompiler(nil).Compile(s)
	for name, m := range map[string]*Modules{"none": start(t), "idle": start(t, spec(t, "header", `{"label":"nobody","header":"x-nobody"}`))} {
		c := newCompiler(m)
		r := c.Compile(s)
		if !maps.Equal(everything(t, plain), everything(t, r)) {
			t.Errorf("%s: the result differs", name)
		}
		before := r.Program.RouteConfigs
		if r = c.Compile(s); len(before) > 0 && &before[0] != &r.Program.RouteConfigs[0] {
			t.Errorf("%s: the list of route configurations is another one", name)
		}
	}
}

// TestWarmEqualsCold walks random edits: an incremental compile with modules equals one from nothing, byte for byte.
func TestWarmEqualsCold(t *testing.T) {
	steps := 60
	if testing.Short() {
		steps = 15
	}
	m, other := start(t, all(t)...), start(t, all(t)...)
	random := rand.New(rand.NewPCG(1, 2))
	warm, s := newCompiler(m), world(t, base)
	one := func(of ...string) string { return of[random.IntN(len(of))] }
	for step := range steps {
		name := one("a", "b", "m")
		var text string
		switch random.IntN(4) {
		case 0:
			text = fmt.Sprintf("apiVersion: pages.example.com/v1\nkind: MaintenancePage\nmetadata: {name: %s, namespace: %s}\nspec: {hostname: %s, prefix: %s, status: %s}",
				name, one("shop", "red"), one(`"*"`, "shop.example.com", "else.example.com"), one("/", "/m/", "bad"), one("503", "200", "17"))
		case 1:
			text = fmt.Sprintf("apiVersion: pages.example.com/v1\nkind: RedirectList\nmetadata: {name: %s, namespace: shop}\nspec: {hostname: shop.example.com, redirects: [{from: %s, to: %q}]}",
				name, one("/m/", "/x/"), one("https://one.example.com/a", "https://two.example.com/", "nonsense"))
		case 2:
			text = fmt.Sprintf("apiVersion: getambassador.io/v3alpha1\nkind: Mapping\nmetadata: {name: %s, namespace: shop, labels: {team: %s}}\nspec: {hostname: %s, prefix: %s, service: %s}",
				one("m", "redirect-a-0", "n"), one("red", "blue"), one(`"*"`, "shop.example.com"), one("/m/", "/n/"), one("one", "two:8000"))
		default:
			text = fmt.Sprintf("apiVersion: getambassador.io/v3alpha1\nkind: Host\nmetadata: {name: %s, namespace: gw}\nspec: {hostname: %s, requestPolicy: {insecure: {action: Route}}}", one("h", "g"), one("shop.example.com", `"*"`))
		}
		o := parse(t, text)
		var gone []snapshot.Ref
		if random.IntN(4) == 0 {
			gone, o = []snapshot.Ref{o[0].Ref}, nil
		}
		s = s.Derive(o, gone, nil)
		got := everything(t, warm.Compile(s))
		var objects []*snapshot.Object
		for _, k := range s.Kinds() {
			objects = slices.AppendSeq(objects, s.List(k))
		}
		random.Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
		want := everything(t, newCompiler(other).Compile(snapshot.Empty().Derive(objects, nil, nil)))
		for _, k := range slices.Sorted(maps.Keys(want)) {
			if got[k] != want[k] {
				t.Fatalf("step %d (%s): %s\n got %q\nwant %q", step, text, k, got[k], want[k])
			}
		}
		if len(got) != len(want) {
			t.Fatalf("step %d (%s): %d parts, want %d", step, text, len(got), len(want))
		}
	}
	if called, remembered := calls(m); remembered < called {
		t.Errorf("%d units entered wasm, %d were remembered", called, remembered)
	}
}

// TestInvalidResult: what a module makes passes the same rules as everything else; the failure names the module and costs its unit only.
func TestInvalidResult(t *testing.T) {
	m := start(t, spec(t, "lower", ""))
	c := newCompiler(m)
	good := c.Compile(world(t, base))
	bad := strings.Replace(base, `to: "https://www.example.com/new"`, `to: "https://www.example.com/new", code: 999`, 1)
	r := c.Compile(world(t, bad))
	i := slices.IndexFunc(r.Diagnostics, func(d snapshot.Diagnostic) bool { return d.Code == codeFailed })
	if i < 0 || !strings.Contains(r.Diagnostics[i].Message, "module lower") || r.Diagnostics[i].Object.Kind != "RedirectList" {
		t.Fatalf("nobody is told: %v", r.Diagnostics)
	}
	was, now := everything(t, good)["program"], everything(t, r)["program"]
	if was != now {
		t.Error("the last good answer is not kept")
	}
	fresh := newCompiler(start(t, spec(t, "lower", ""))).Compile(world(t, bad))
	program := everything(t, fresh)["program"]
	contains(t, "the program", program, "Back at noon.")
	if strings.Contains(program, "redirect-moved") {
		t.Error("an invalid object went on")
	}
}

// TestNameTaken: an object of the manifests stands, whatever modules make.
func TestNameTaken(t *testing.T) {
	m := start(t, spec(t, "lower", ""))
	mine := "\n---\napiVersion: getambassador.io/v3alpha1\nkind: Mapping\nmetadata: {name: redirect-moved-0, namespace: shop}\nspec: {hostname: shop.example.com, prefix: /mine/, service: mine}\n"
	r := newCompiler(m).Compile(world(t, base+mine))
	contains(t, "the program", everything(t, r)["program"], "/mine/")
	if !slices.ContainsFunc(r.Diagnostics, func(d snapshot.Diagnostic) bool {
		return d.Object.Kind == "RedirectList" && strings.Contains(d.Message, "which stands")
	}) {
		t.Errorf("nobody is told: %v", r.Diagnostics)
	}
}

// TestTranslator: an object names a module, with its own grant and settings; one that is wrong is told on the object.
func TestTranslator(t *testing.T) {
	path := example(t, "header")
	translator := func(name, namespace, more string) string {
		return fmt.Sprintf(`
apiVersion: chancery.dev/v1alpha1
kind: Translator
metadata: {name: %s, namespace: %s}
spec:
  source: {file: %s}
  grant: {phases: [ir], reads: ["*"], writes: [{kind: ir/VirtualHost}], namespaces: ["*"], limits: {milliseconds: 60000}}
  %s
`, name, namespace, path, more)
	}
	for _, c := range []struct{ name, text, want string }{
		{"good", translator("t", "gateways", `settings: {label: team, header: x-team}`), ""},
		{"wrong namespace", translator("t", "shop", `settings: {label: team, header: x-team}`), "do not speak for the platform"},
		{"wrong settings", translator("t", "gateways", `settings: {label: ""}`), "settings"},
		{"unknown field", translator("t", "gateways", `sittings: {}`), "sittings"},
		{"wrong digest", translator("t", "gateways", `sha256: "`+strings.Repeat("ab", 32)+`"`), "at verify"},
		{"no grant", strings.Replace(translator("t", "gateways", `settings: {label: team, header: x-team}`), "writes: [{kind: ir/VirtualHost}]", "writes: []", 1), "grant.writes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := New(Options{Namespaces: []string{"gateways"}, CacheDir: cacheDir})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			s := world(t, base+"---"+c.text)
			m.Take(s)
			if err := m.Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
			found := m.Findings()
			if c.want != "" {
				if len(found) != 1 || !strings.Contains(found[0].Message, c.want) || found[0].Object.Kind != "Translator" {
					t.Errorf("found %v, want %q", found, c.want)
				}
				return
			}
			if len(found) > 0 {
				t.Fatal(found)
			}
			contains(t, "the program", everything(t, newCompiler(m).Compile(s))["program"], `{"name":"x-team","value":"red"}`)
		})
	}
}

// TestRefusedByEnvoy: when an Envoy refuses what a module made of a resource, the resource is served as it was without the module.
func TestRefusedByEnvoy(t *testing.T) {
	m := start(t, spec(t, "cluster", `{"limit":77}`))
	c, s := newCompiler(m), world(t, base)
	plain := everything(t, newCompiler(nil).Compile(s))
	refused := map[*ir.Unit]string{}
	for _, u := range c.Compile(s).Changed {
		if u.Kind == ir.UnitCluster && strings.Contains(u.Name, "backend") {
			refused[u] = "Envoy's own words"
		}
	}
	if len(refused) != 2 { // as the back end made it, and as the module did
		t.Fatalf("%d units of the cluster are to be proven", len(refused))
	}
	for u := range refused {
		if r, err := envoy.Text(&ir.Resource{Type: ir.TypeCluster, Value: u.Value}); err == nil && !strings.Contains(string(r), "maxRequestsPerConnection") {
			delete(refused, u)
		}
	}
	c.Refuse(refused)
	r := c.Compile(s)
	for k, v := range everything(t, r) {
		if strings.HasPrefix(k, ir.TypeCluster) && v != plain[k] {
			t.Errorf("%s is not what it is without the module", k)
		}
	}
	if !slices.ContainsFunc(r.Diagnostics, func(d snapshot.Diagnostic) bool {
		return d.Code == codeRefused && strings.Contains(d.Message, "(cluster)") && strings.Contains(d.Message, "Envoy's own words") && d.Object.Name == "m"
	}) {
		t.Errorf("nobody is told: %v", r.Diagnostics)
	}
	if len(r.Written) != 0 {
		t.Errorf("it is said to be written: %v", r.Written)
	}
}
