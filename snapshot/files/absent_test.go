//go:build unix

package files

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
)

// said returns the codes of the findings, each with the file that it is about.
func said(s *snapshot.Snapshot, dir string) string {
	var all []string
	for _, d := range s.Findings() {
		file := strings.TrimPrefix(strings.TrimPrefix(d.Position.File, dir), string(filepath.Separator))
		all = append(all, d.Code.ID+" "+file)
	}
	return strings.Join(all, ", ")
}

// TestWhereNothingIsRead: a path from which nothing comes is told of, and so is a file that would be read forever.
func TestWhereNothingIsRead(t *testing.T) {
	dir := tree(t, "empty/notes.txt", "no manifest", "hollow/none.yaml", "# nothing\n", "ones/a.yaml", mapping("a", "/a"), "twice/a.yaml", mapping("b", "/b"))
	if err := syscall.Mkfifo(filepath.Join(dir, "ones", "pipe.yaml"), 0o600); err != nil {
		t.Skip(err)
	}
	if err := os.Symlink("/dev/zero", filepath.Join(dir, "ones", "zero.yaml")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ paths, stdin, want, mappings string }{
		{"empty", "", "CH-FILE-026 empty", ""},
		{"hollow", "", "", ""}, // somebody put it there to say that there is nothing
		{"hollow/none.yaml", "", "CH-FILE-026 hollow/none.yaml", ""},
		{"-", "# nothing\n", "CH-FILE-026 <stdin>", ""},
		{"-", mapping("c", "/c"), "", "c"},
		{"ones", "", "CH-FILE-020 ones/pipe.yaml, CH-FILE-020 ones/zero.yaml", "a"},
		{"empty twice", "", "CH-FILE-026 empty", "b"},
	} {
		var paths []string
		for p := range strings.FieldsSeq(c.paths) {
			if p != "-" {
				p = filepath.Join(dir, p)
			}
			paths = append(paths, p)
		}
		s, err := Load(paths, strings.NewReader(c.stdin))
		if err != nil {
			t.Fatal(err)
		}
		if got := said(s, dir); got != c.want || names(s) != c.mappings {
			t.Errorf("%s: %q and Mappings %q, not %q and %q", c.paths, got, names(s), c.want, c.mappings)
		}
	}
}

// TestAnEmptyFolderInPlaceOfAFullOne is no order to take everything away; files that are deleted one by one are.
func TestAnEmptyFolderInPlaceOfAFullOne(t *testing.T) {
	root := tree(t, "m/sub/a.yaml", mapping("a", "/a"), "m/b.yaml", mapping("b", "/b"))
	dir := filepath.Join(root, "m")
	w := watching(t, Options{}, dir)
	emptied := func(what string) {
		t.Helper()
		s := w.until(what, func(s *snapshot.Snapshot) bool { return said(s, root) == "CH-FILE-027 m" })
		if names(s) != "a b" {
			t.Fatalf("%s: there are Mappings %q", what, names(s))
		}
	}
	if err := os.Rename(dir, filepath.Join(root, "old")); err != nil { // as a deletion, but in one step
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	emptied("the folder is another")
	write(t, filepath.Join(dir, "a.yaml"), mapping("a", "/a")+"---\n"+mapping("b", "/b"))
	w.until("a manifest is back", func(s *snapshot.Snapshot) bool { return names(s) == "a b" && said(s, root) == "" })
	if err := os.Rename(dir, filepath.Join(root, "aside")); err != nil {
		t.Fatal(err)
	}
	w.until("the folder is moved away", func(s *snapshot.Snapshot) bool { return names(s) == "a b" && said(s, root) == "CH-FILE-020 m" })
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	emptied("an empty one is in its place")
	write(t, filepath.Join(dir, "none.yaml"), "")
	w.until("a file says that there is nothing", func(s *snapshot.Snapshot) bool { return names(s) == "" && said(s, root) == "" })
	write(t, filepath.Join(dir, "a.yaml"), mapping("a", "/a"))
	w.mappings("a")
	for _, name := range []string{"none.yaml", "a.yaml"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	w.until("each file is deleted", func(s *snapshot.Snapshot) bool { return names(s) == "" && said(s, root) == "CH-FILE-026 m" })
}

// TestAFileThatBecomesAPipe keeps what it held, and holds nobody up.
func TestAFileThatBecomesAPipe(t *testing.T) {
	dir := tree(t, "a.yaml", mapping("a", "/a"), "b.yaml", mapping("b", "/b"))
	w := watching(t, Options{}, dir)
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Skip(err)
	}
	if err := os.Rename(filepath.Join(dir, "pipe"), filepath.Join(dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	w.until("the pipe is told of", func(s *snapshot.Snapshot) bool {
		return names(s) == "a b" && strings.Contains(said(s, dir), "CH-FILE-020 a.yaml")
	})
	write(t, filepath.Join(dir, "b.yaml"), mapping("b", "/b")+"---\n"+mapping("c", "/c"))
	w.mappings("a b c")
}
