package settings

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// byLibraries are variables that our libraries and the system read for us.
var byLibraries = []string{"KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "HOME", "HOSTNAME", "PATH"}

// notEmissarys are variables that the program reads and Emissary does not know, beside CHANCERY_*.
var notEmissarys = []string{"NO_COLOR", "TERM", "GOGC", "CLUSTER_ANY_RANGE"}

// inSource returns the variables that the sources name where they read the environment.
func inSource(t *testing.T) map[string]bool {
	t.Helper()
	read := map[string]bool{}
	call := regexp.MustCompile(`os\.(?:Getenv|LookupEnv)\("([A-Za-z_]+)"`)
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if name := d.Name(); strings.HasPrefix(name, ".") && path != root || strings.HasSuffix(name, "test") {
				return filepath.SkipDir // helpers of tests are no part of the program
			}
			return nil
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range call.FindAllStringSubmatch(string(text), -1) {
			read[m[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// documented returns the variables of the table in COMPATIBILITY.md with their verdicts.
func documented(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "translators", "COMPATIBILITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## Environment variables\n")
	if !found {
		t.Fatal("COMPATIBILITY.md has no section on environment variables")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	all := map[string]string{}
	name := regexp.MustCompile("`([A-Za-z_]+)`")
	for _, line := range strings.Split(section, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		verdict, note := strings.TrimSpace(cells[2]), strings.TrimSpace(cells[3])
		for _, m := range name.FindAllStringSubmatch(cells[1], -1) {
			if all[m[1]] != "" {
				t.Errorf("%s stands twice", m[1])
			}
			all[m[1]] = verdict
			if !slices.Contains([]string{"same", "better", "not"}, verdict) {
				t.Errorf("%s: %q is no verdict", m[1], verdict)
			}
			if verdict != "same" && note == "" {
				t.Errorf("%s: %s, but not why", m[1], verdict)
			}
		}
	}
	return all
}

func TestVariablesAreDocumented(t *testing.T) {
	read := inSource(t)
	for _, d := range definitions {
		for _, e := range d.Environment {
			read[e.Name] = true
		}
	}
	if len(read) < 20 {
		t.Fatalf("only %d variables are found in the sources", len(read))
	}
	docs := documented(t)
	for name := range read {
		if strings.HasPrefix(name, "CHANCERY_") || slices.Contains(notEmissarys, name) {
			continue
		}
		if verdict := docs[name]; verdict != "same" && verdict != "better" {
			t.Errorf("%s is read, and COMPATIBILITY.md says %q of it", name, verdict)
		}
	}
	for name := range withoutEffect {
		if docs[name] != "not" {
			t.Errorf("%s has no effect, and COMPATIBILITY.md says %q of it", name, docs[name])
		}
		if read[name] {
			t.Errorf("%s is read, and told to have no effect", name)
		}
	}
	for name, verdict := range docs {
		isRead := read[name] || slices.Contains(byLibraries, name)
		switch {
		case verdict == "not" && isRead:
			t.Errorf("COMPATIBILITY.md says that %s has no effect, and it is read", name)
		case verdict == "not" && strings.HasPrefix(name, "AMBASSADOR_") && withoutEffect[name] == "":
			t.Errorf("whoever sets %s is not told why it has no effect", name)
		case verdict != "not" && !isRead:
			t.Errorf("COMPATIBILITY.md says %q of %s, which nobody reads", verdict, name)
		}
	}
}
