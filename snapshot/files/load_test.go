package files

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
)

func mapping(name, prefix string) string {
	return "apiVersion: getambassador.io/v3alpha1\nkind: Mapping\nmetadata:\n  name: " + name + "\nspec:\n  hostname: \"*\"\n  prefix: " + prefix + "\n  service: web\n"
}

// tree writes files below a new folder: name and content in turn.
func tree(t testing.TB, namesAndTexts ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(namesAndTexts); i += 2 {
		write(t, filepath.Join(dir, namesAndTexts[i]), namesAndTexts[i+1])
	}
	return dir
}

func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// names lists the Mappings of a snapshot.
func names(s *snapshot.Snapshot) string {
	var all []string
	for o := range s.List(snapshot.GroupKind{Group: snapshot.EmissaryGroup, Kind: "Mapping"}) {
		all = append(all, o.Name)
	}
	return strings.Join(all, " ")
}

// lines are the findings with the folder cut off.
func lines(s *snapshot.Snapshot, dir string) string {
	var b strings.Builder
	for _, d := range s.Findings() {
		b.WriteString(strings.ReplaceAll(d.String(), dir+string(filepath.Separator), "") + "\n")
	}
	return b.String()
}

func TestLoad(t *testing.T) {
	dir := tree(t,
		"b.yaml", mapping("two", "/2")+"---\n"+mapping("one", "/other"),
		"a.yml", mapping("one", "/1"),
		"sub/deep/c.json", `{"apiVersion":"getambassador.io/v3alpha1","kind":"Mapping","metadata":{"name":"three"},"spec":{"hostname":"*","prefix":"/3","service":"web"}}`,
		"notes.txt", "not: read", ".hidden.yaml", mapping("hidden", "/h"), ".git/x.yaml", mapping("git", "/g"),
		"more.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: d\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: e\n---\n"+
			"apiVersion: getambassador.io/v3alpha1\nkind: Maping\nmetadata:\n  name: m\n---\napiVersion: v1\nkind: Mapping\nmetadata:\n  name: m\n---\n"+
			"apiVersion: example.com/v1\nkind: Thing\nmetadata:\n  name: t\n",
		"other.yaml", "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: i, namespace: x}\n---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: r, namespace: x}\n---\n"+
			"apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: c}\n---\napiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: c}\n",
	)
	s, err := Load([]string{dir, filepath.Join(dir, "a.yml")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := names(s); got != "one three two" {
		t.Errorf("Mappings: %s", got)
	}
	want := `b.yaml:10: error CH-FILE-021 Mapping/default/one: is defined already at a.yml:1, which counts (remove or rename one of the two)
more.yaml:2: info CH-FILE-023 Deployment/d kind: objects of kind Deployment are not read
more.yaml:12: warning CH-FILE-022 Maping/m kind: the kind Maping of getambassador.io is unknown; the object has no effect (did you mean Mapping?)
more.yaml:16: warning CH-FILE-022 Mapping/m apiVersion: the kind Mapping of core (v1) is unknown; the object has no effect (the kind Mapping is of the group getambassador.io)
more.yaml:22: warning CH-FILE-022 Thing/t kind: the kind Thing of example.com is unknown; the object has no effect (correct apiVersion and kind, or leave the object out)
`
	if got := lines(s, dir); got != want {
		t.Errorf("findings:\n%s\nwant:\n%s", got, want)
	}
}

func TestLoadStdin(t *testing.T) {
	s, err := Load([]string{"-"}, strings.NewReader(mapping("one", "/1")+"---\na: b: c\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := names(s); got != "one" {
		t.Errorf("Mappings: %s", got)
	}
	if got := lines(s, ""); !strings.HasPrefix(got, "<stdin>:10: error CH-FILE-001: mapping values are not allowed") {
		t.Errorf("findings: %s", got)
	}
}

func TestLoadRefusesPaths(t *testing.T) {
	if _, err := Load([]string{filepath.Join(t.TempDir(), "none")}, nil); err == nil || !os.IsNotExist(err) {
		t.Errorf("a path that does not exist: %v", err)
	}
	if os.Getuid() != 0 {
		dir := tree(t, "a.yaml", mapping("one", "/1"))
		if err := os.Chmod(filepath.Join(dir, "a.yaml"), 0); err != nil {
			t.Fatal(err)
		}
		if _, err := Load([]string{filepath.Join(dir, "a.yaml")}, nil); err == nil {
			t.Error("an unreadable file is read")
		}
	}
}

func TestLoadLinks(t *testing.T) {
	dir := tree(t, "..2024_1/a.yaml", mapping("one", "/1"))
	link := func(to, name string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("..2024_1", "..data")
	link(filepath.Join("..data", "a.yaml"), "a.yaml")
	link("nowhere.yaml", "dangling.yaml")
	link(".", "loop")
	s, err := Load([]string{dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := names(s); got != "one" {
		t.Errorf("Mappings: %s", got)
	}
	if got := lines(s, dir); !strings.HasPrefix(got, "dangling.yaml: error CH-FILE-020: the file cannot be read: no such file or directory") || strings.Count(got, "\n") != 1 {
		t.Errorf("findings: %s", got)
	}
}

func TestNearest(t *testing.T) {
	kinds := []snapshot.GroupKind{{Kind: "Service"}, {Group: "getambassador.io", Kind: "Host"}, {Group: "getambassador.io", Kind: "Mapping"}}
	for _, c := range []struct{ group, kind, want string }{
		{"getambassador.io", "Mappnig", "Mapping"}, {"getambassador.io", "mapping", "Mapping"}, {"", "Mapping", "Mapping"}, {"", "Servce", "Service"},
		{"apps", "Deployment", ""}, {"", "Pod", ""}, {"example.com", "Hosts", "Host"}, {"batch", "Job", ""}, {"", "Node", ""},
	} {
		near, _ := nearest(snapshot.GroupKind{Group: c.group, Kind: c.kind}, kinds)
		if near.Kind != c.want {
			t.Errorf("%s/%s: got %q, want %q", c.group, c.kind, near.Kind, c.want)
		}
	}
}
