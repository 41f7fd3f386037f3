package supply

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/policies"
)

// run starts a watcher of the folder that keeps its state.
func run(t *testing.T, dir, state string, key *Key) *Watcher {
	t.Helper()
	w, err := New(context.Background(), []string{dir}, Options{Dir: state, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, time.Now(), time.Now().Add(time.Duration(len(text))*time.Second)); err != nil {
		t.Fatal(err)
	}
}

func found(s *policies.Supply) string {
	var out []string
	for _, d := range s.Findings {
		out = append(out, d.Code.ID)
	}
	return strings.Join(out, " ")
}

// TestRestart: what was in force comes back when the path is gone or holds what may not be taken, and the highest revision is
// known from run to run.
func TestRestart(t *testing.T) {
	private, public := keys(t)
	dir, state := folder(t, map[string]string{"a.rego": rego, ".manifest": `{"revision": "2.0"}`}), filepath.Join(t.TempDir(), "state")
	sign := func() {
		t.Helper()
		signature, err := Sign(dir, private, "k1")
		if err != nil {
			t.Fatal(err)
		}
		put(t, dir, ".signatures.json", string(signature))
	}
	sign()
	first := run(t, dir, state, &public).Current().Digest
	for name, c := range map[string]struct{ manifest, code string }{
		"lower": {`{"revision": "1.9"}`, "CH-POLICY-083"}, "without an order": {`{"revision": "latest"}`, "CH-POLICY-083"}, "without a revision": {`{}`, "CH-POLICY-083"},
	} {
		put(t, dir, ".manifest", c.manifest)
		sign()
		if s := run(t, dir, state, &public).Current(); s.Digest != first || found(s) != c.code {
			t.Errorf("%s: digest %s, want %s; found %q", name, s.Digest, first, found(s))
		}
	}
	_, other := keys(t)
	if _, err := New(context.Background(), []string{dir}, Options{Dir: state, Key: &other}); code(t, err) != "CH-POLICY-081" {
		t.Errorf("what was kept is taken without the right signature: %v", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if s := run(t, dir, state, &public).Current(); s.Digest != first || len(s.Modules) != 1 || found(s) != "CH-POLICY-080" {
		t.Errorf("the folder is gone: digest %s, found %q", s.Digest, found(s))
	}
	if err := os.WriteFile(filepath.Join(state, recordName), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(context.Background(), []string{dir}, Options{Dir: state}); err == nil || !strings.Contains(err.Error(), state) {
		t.Errorf("a damaged record: %v", err)
	}
}

// TestRollback: a kept revision comes back at once, stays over a restart, and yields to the next change of the rules.
func TestRollback(t *testing.T) {
	dir, state := folder(t, map[string]string{"a.rego": rego, ".manifest": `{"revision": "1"}`}), filepath.Join(t.TempDir(), "state")
	w := run(t, dir, state, nil)
	first := w.Current()
	for i := range 12 {
		put(t, dir, ".manifest", `{"revision": "`+strings.Repeat("9", i+1)+`"}`)
		if !w.look(context.Background(), false) {
			t.Fatal("a change is not seen")
		}
	}
	last := w.Current()
	if all := w.Revisions(); len(all) != kept || !all[kept-1].InForce || all[kept-1].Bundle != last.Revision {
		t.Errorf("%+v", all)
	}
	if files, err := os.ReadDir(state); err != nil || len(files) != kept+1 {
		t.Errorf("%d files are kept", len(files))
	}
	if err := w.Rollback(first.Digest); err == nil {
		t.Error("a revision that is not kept any more")
	}
	if err := w.Rollback(""); err != nil || w.Current().Revision != strings.Repeat("9", 11) || found(w.Current()) != "CH-POLICY-085" {
		t.Fatalf("%v, revision %s, found %q", err, w.Current().Revision, found(w.Current()))
	}
	if w.look(context.Background(), false) {
		t.Error("a rollback is undone without a change")
	}
	w = run(t, dir, state, nil)
	if all := w.Revisions(); w.Current().Revision != strings.Repeat("9", 11) || !all[kept-2].RolledBack {
		t.Fatalf("after a restart revision %s is in force", w.Current().Revision)
	}
	if err := w.Rollback(strings.Repeat("9", 12)); err != nil || found(w.Current()) != "" || w.Current().Digest != last.Digest {
		t.Errorf("back to the newest: %v, found %q", err, found(w.Current()))
	}
	if err := w.Rollback(last.Digest[:8]); err != nil {
		t.Error(err)
	}
	if err := w.Rollback(strings.Repeat("9", 5)); err != nil || len(w.Current().Modules) != 1 {
		t.Errorf("a revision of the run before: %v", err)
	}
	put(t, dir, "b.rego", rego+"\n")
	if !w.look(context.Background(), false) || len(w.Current().Modules) != 2 || found(w.Current()) != "" {
		t.Errorf("the next change does not end the rollback: %q", found(w.Current()))
	}
}
