package files

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/manifest"
)

// TestBroken reads the corpus of broken manifests: each gives its one diagnostic, and the rest of the file loads.
func TestBroken(t *testing.T) {
	wants, err := filepath.Glob(filepath.Join("..", "..", "testdata", "broken", "*.want"))
	if err != nil || len(wants) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	for _, want := range wants {
		base := strings.TrimSuffix(want, ".want")
		t.Run(filepath.Base(base), func(t *testing.T) {
			name := base + ".yaml"
			if _, err := os.Stat(name); err != nil {
				name = base + ".json"
			}
			text, err := os.ReadFile(want)
			if err != nil {
				t.Fatal(err)
			}
			s, err := Load([]string{name}, nil)
			if err != nil {
				t.Fatal(err)
			}
			found := s.Findings()
			if len(found) != 1 {
				t.Fatalf("%d findings, want 1:\n%s", len(found), lines(s, filepath.Dir(name)))
			}
			d, code := found[0], strings.TrimSpace(string(text))
			got := d.Code.ID
			if strings.Contains(code, ":") {
				got = fmt.Sprintf("%s:%d", got, d.Position.Line)
			}
			if got != code {
				t.Errorf("got %s, want %s: %s", got, code, d)
			}
			if d.Position.File != name || d.Position.Line == 0 || d.Message == "" {
				t.Errorf("no position or message: %s", d)
			}
			if good := get(s, "good"); good == nil && filepath.Base(base) != "utf-16" {
				t.Errorf("the sound object is missing: %s", d)
			}
		})
	}
}

// TestBig reads texts that are too big or too deep to keep as files.
func TestBig(t *testing.T) {
	good := mapping("good", "/") + "---\n"
	for _, c := range []struct {
		name, text, want string
		objects          bool
	}{
		{"ten megabytes of objects", good + strings.Repeat(mapping("big", "/")+"---\n", 10<<20/len(mapping("big", "/"))), "CH-FILE-021", true},
		{"ten megabytes of text", good + "apiVersion: v1\nkind: Pod\nmetadata:\n  name: x\ndata:\n  text: |\n" + strings.Repeat("    some text\n", 10<<20/14), "CH-FILE-023", true},
		{"over the limit", good + strings.Repeat("# comment\n", manifest.MaxFile/10+1), "CH-FILE-007", false},
		{"deep flow list", good + strings.Repeat("[", 100_000), "CH-FILE-006", true},
		{"deep closed flow list", good + "a: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000), "CH-FILE-006", true},
		{"deep JSON", good + strings.Repeat(`{"a":`, 100_000), "CH-FILE-006", true},
		{"deep sequence", good + strings.Repeat("- ", 5_000) + "a\n", "CH-FILE-006", true},
		{"deep mapping", good + deep(400), "CH-FILE-006", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Load([]string{"-"}, strings.NewReader(c.text))
			if err != nil {
				t.Fatal(err)
			}
			var first *snapshot.Diagnostic
			for _, d := range s.Findings() {
				if d.Code.ID != c.want {
					t.Fatalf("got %s, want %s", d, c.want)
				}
				first = &d
			}
			if first == nil {
				t.Fatalf("no finding, want %s", c.want)
			}
			if c.objects && get(s, "good") == nil {
				t.Error("the sound object is missing")
			}
		})
	}
}

func deep(levels int) string {
	var b strings.Builder
	for i := range levels {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}
