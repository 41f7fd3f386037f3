package runtime_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/chancery-gateway/chancery"

// rules say who may import what inside this module. The first rule whose folder holds the package counts.
var rules = []struct {
	folder string
	may    []string // folders, with what is below them
	never  []string // import paths of other modules
	reason string
}{
	{"snapshot", []string{"snapshot"}, []string{"github.com/envoyproxy/go-control-plane"},
		"the snapshot is the bottom: it says what the world looks like and knows nothing of what is made of it"},
	{"translators/ir", []string{"snapshot"}, []string{"github.com/envoyproxy/go-control-plane"},
		"the IR is the contract between front ends, policies, modules and the back end: plain data, free of Envoy"},
	{"translators/emissary", []string{"snapshot", "translators/ir", "translators/emissary"}, []string{"github.com/envoyproxy/go-control-plane"},
		"a front end lowers source objects to IR; one that wrote Envoy protobufs would bypass the linker and the policies"},
	{"translators/knative", []string{"snapshot", "translators/ir", "translators/emissary", "translators/knative"}, []string{"github.com/envoyproxy/go-control-plane"},
		"a front end lowers source objects to IR; this one by way of the Mappings that they stand for"},
	{"translators/ingress", []string{"snapshot", "translators/ir", "translators/emissary", "translators/ingress"}, []string{"github.com/envoyproxy/go-control-plane"},
		"a front end lowers source objects to IR; this one by way of the Mappings and Hosts that they stand for"},
	{"translators/gatewayapi", []string{"snapshot", "translators/ir", "translators/emissary", "translators/gatewayapi"}, []string{"github.com/envoyproxy/go-control-plane"},
		"a front end lowers source objects to IR; this one takes from Emissary's what an installation says for every port"},
	{"translators/linker", []string{"snapshot", "translators/ir", "translators/linker"}, []string{"github.com/envoyproxy/go-control-plane"},
		"the linker joins fragments of every front end, so it must know none of them, and nothing of Envoy's encoding"},
	{"translators/envoy", []string{"snapshot", "translators/ir", "translators/envoy"}, nil,
		"the back end reads the linked program alone; a look at a source object would make its bytes depend on more than the IR"},
	{"translators/simulator", []string{"snapshot", "translators/ir", "translators/simulator"}, []string{"github.com/envoyproxy/go-control-plane"},
		"the simulator is a second opinion on the program, so it must not share code with the back end"},
	{"translators", []string{"snapshot", "translators"}, nil,
		"data flows one way: the compiler does not know who serves its result"},
	{"policies", []string{"snapshot", "translators/ir", "policies"}, nil,
		"policies speak of objects and IR; whoever runs them hands these in"},
	{"wasm", []string{"translators/ir", "snapshot", "wasm"}, nil,
		"modules speak of IR; whoever runs them hands it in"},
	{"xds", []string{"snapshot", "translators/ir", "xds"}, nil,
		"the server hands out marshalled resources by name; how they were made is none of its business"},
	{"runtime", []string{"runtime", "snapshot", "translators", "policies", "wasm", "xds"}, nil,
		"the runtime joins all parts"},
	{"", []string{"runtime"}, nil,
		"main only picks a command"},
}

// objectTypes are the decoded source objects, which only sources and front ends look into.
var objectTypes = module + "/snapshot/api"

type goPackage struct {
	ImportPath, Name, Dir                       string
	Imports, GoFiles, TestGoFiles, XTestGoFiles []string
}

func packages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Name,Dir,Imports,GoFiles,TestGoFiles,XTestGoFiles", module+"/...")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, errs.Bytes())
	}
	var all []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func below(path, folder string) bool {
	return folder == "" || path == folder || strings.HasPrefix(path, folder+"/")
}

func TestLayoutImports(t *testing.T) {
	for _, p := range packages(t) {
		at := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		for _, r := range rules {
			if !below(at, r.folder) {
				continue
			}
			for _, imported := range p.Imports {
				if inside, ours := strings.CutPrefix(imported, module+"/"); ours && !slices.ContainsFunc(r.may, func(f string) bool { return below(inside, f) }) {
					t.Errorf("%s imports %s: %s", at, inside, r.reason)
				}
				if slices.ContainsFunc(r.never, func(n string) bool { return below(imported, n) }) {
					t.Errorf("%s imports %s: %s", at, imported, r.reason)
				}
				if strings.HasPrefix(imported, objectTypes) && (r.folder == "translators/envoy" || r.folder == "translators/linker" || r.folder == "translators/simulator") {
					t.Errorf("%s imports %s: only front ends look at source objects", at, imported)
				}
			}
			break
		}
	}
}

func TestLayoutNames(t *testing.T) {
	vague := []string{"util", "utils", "common", "helper", "helpers", "manager", "types", "misc", "base"}
	for _, p := range packages(t) {
		if slices.Contains(vague, p.Name) {
			t.Errorf("package %s: a name that says nothing; packages are nouns", p.ImportPath)
		}
		for _, f := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
			if slices.Contains(vague, strings.TrimSuffix(strings.TrimSuffix(f, ".go"), "_test")) {
				t.Errorf("file %s: a name that says nothing", filepath.Join(p.Dir, f))
			}
			data, err := os.ReadFile(filepath.Join(p.Dir, f))
			if err != nil {
				t.Fatal(err)
			}
			most := 500
			if strings.HasSuffix(f, "_test.go") {
				most = 700 // tables are read by the row
			}
			if n := bytes.Count(data, []byte("\n")); n > most && !bytes.Contains(data[:min(len(data), 400)], []byte("DO NOT EDIT")) {
				t.Errorf("file %s has %d lines; at most %d are readable at one sitting", filepath.Join(p.Dir, f), n, most)
			}
		}
	}
}

func TestLayoutFolders(t *testing.T) {
	for _, folder := range []string{"runtime", "xds", "wasm", "policies", "translators", "snapshot", "testdata"} {
		data, err := os.ReadFile(filepath.Join("..", folder, "README.md"))
		if err != nil {
			t.Error(err)
		} else if n := bytes.Count(data, []byte("\n")); n < 5 || n > 80 {
			t.Errorf("%s/README.md has %d lines; it opens the folder in a few words", folder, n)
		}
	}
}
