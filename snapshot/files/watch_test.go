package files

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
)

// watch runs a source and keeps what it delivers.
type watch struct {
	t      *testing.T
	source *Source
	mu     sync.Mutex
	all    []*snapshot.Snapshot
	times  []time.Time
}

func watching(t *testing.T, o Options, paths ...string) *watch {
	t.Helper()
	source, err := New(paths, o)
	if err != nil {
		t.Fatal(err)
	}
	w := &watch{t: t, source: source}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- source.Run(ctx, func(s *snapshot.Snapshot) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.all, w.times = append(w.all, s), append(w.times, time.Now())
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	w.until("the first snapshot", func(*snapshot.Snapshot) bool { return true })
	return w
}

func (w *watch) last() *snapshot.Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.all) == 0 {
		return nil
	}
	return w.all[len(w.all)-1]
}

func (w *watch) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.all)
}

// until waits for a snapshot that fits.
func (w *watch) until(what string, fits func(*snapshot.Snapshot) bool) *snapshot.Snapshot {
	w.t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if s := w.last(); s != nil && fits(s) {
			return s
		}
	}
	s := w.last()
	if s == nil {
		w.t.Fatalf("no snapshot within 10 s: %s", what)
	}
	w.t.Fatalf("not within 10 s: %s; there are Mappings %q and findings:\n%s", what, names(s), lines(s, ""))
	return nil
}

func (w *watch) mappings(want string) *snapshot.Snapshot {
	w.t.Helper()
	return w.until("Mappings "+want, func(s *snapshot.Snapshot) bool { return names(s) == want })
}

func get(s *snapshot.Snapshot, name string) *snapshot.Object {
	return s.Get(snapshot.GroupKind{Group: snapshot.EmissaryGroup, Kind: "Mapping"}, "default", name)
}

func TestWatchEdits(t *testing.T) {
	dir := tree(t, "a.yaml", mapping("one", "/1")+"---\n"+mapping("two", "/2"), "b.yaml", mapping("three", "/3"))
	w := watching(t, Options{}, dir)
	before := w.last()
	if names(before) != "one three two" {
		t.Fatalf("first snapshot: %s", names(before))
	}

	write(t, filepath.Join(dir, "a.yaml"), "# a comment more\n"+mapping("one", "/1")+"---\n"+mapping("two", "/two"))
	s := w.until("an edit", func(s *snapshot.Snapshot) bool { return get(s, "two") != get(before, "two") })
	for _, name := range []string{"one", "three"} {
		if get(s, name) != get(before, name) {
			t.Errorf("%s is another object though it says the same", name)
		}
	}
	if c := s.Changes(before); len(c) != 1 {
		t.Errorf("%d changes, want 1", len(c))
	}
	ds := []snapshot.Diagnostic{get(s, "one").About(snapshot.Error, codeKept, "spec.prefix", "", "")}
	w.source.Resolve(ds)
	if got := ds[0].Position.Line; got != 8 {
		t.Errorf("spec.prefix of an object that moved a line is at %d, want 8", got)
	}

	// An editor writes a new file and puts it in place.
	write(t, filepath.Join(dir, ".a.yaml.swp"), mapping("one", "/1"))
	if err := os.Rename(filepath.Join(dir, ".a.yaml.swp"), filepath.Join(dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	w.mappings("one three")

	// A new folder with a file, a renamed file, a removed one.
	write(t, filepath.Join(dir, "new", "deep", "c.yaml"), mapping("four", "/4"))
	w.mappings("four one three")
	write(t, filepath.Join(dir, "new", "deep", "d.yaml"), mapping("five", "/5"))
	w.mappings("five four one three")
	if err := os.Rename(filepath.Join(dir, "b.yaml"), filepath.Join(dir, "new", "b.yaml")); err != nil {
		t.Fatal(err)
	}
	w.until("a rename", func(s *snapshot.Snapshot) bool {
		if get(s, "three") == nil {
			return false
		}
		src, _ := w.source.at(get(s, "three").Ref)
		return src.Position.File == filepath.Join(dir, "new", "b.yaml")
	})
	if err := os.RemoveAll(filepath.Join(dir, "new", "deep")); err != nil {
		t.Fatal(err)
	}
	w.mappings("one three")
}

func TestWatchOneFile(t *testing.T) {
	dir := tree(t, "a.yaml", mapping("one", "/1"), "b.yaml", mapping("two", "/2"))
	w := watching(t, Options{}, filepath.Join(dir, "a.yaml"))
	write(t, filepath.Join(dir, "b.yaml"), mapping("three", "/3"))
	write(t, filepath.Join(dir, "tmp"), mapping("four", "/4"))
	if err := os.Rename(filepath.Join(dir, "tmp"), filepath.Join(dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	w.mappings("four")
	// A root that is gone keeps what it said.
	if err := os.Remove(filepath.Join(dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	s := w.until("a finding", func(s *snapshot.Snapshot) bool { return strings.Contains(lines(s, dir), "a.yaml: error CH-FILE-020") })
	if names(s) != "four" {
		t.Errorf("a root that vanished took its objects along: %q", names(s))
	}
	write(t, filepath.Join(dir, "a.yaml"), mapping("five", "/5"))
	s = w.mappings("five")
	if got := lines(s, dir); got != "" {
		t.Errorf("findings remain: %s", got)
	}
}

func TestWatchFolderGone(t *testing.T) {
	dir := tree(t, "in/a.yaml", mapping("one", "/1"), "in/b.yaml", mapping("two", "/2"))
	in := filepath.Join(dir, "in")
	w := watching(t, Options{}, in)
	if err := os.Rename(in, filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	s := w.until("a finding", func(s *snapshot.Snapshot) bool { return strings.Contains(lines(s, dir), "in: error CH-FILE-020") })
	if names(s) != "one two" || len(s.Findings()) != 1 {
		t.Errorf("Mappings %q, findings:\n%s", names(s), lines(s, dir))
	}
	write(t, filepath.Join(in, "a.yaml"), mapping("one", "/1"))
	s = w.mappings("one")
	if len(s.Findings()) != 0 {
		t.Errorf("findings remain: %s", lines(s, dir))
	}
}

func TestWatchConfigMap(t *testing.T) {
	dir := tree(t, "..1/a.yaml", mapping("one", "/1"), "..1/b.yaml", mapping("two", "/2"))
	link := func(to, name string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("..1", "..data")
	link("..data/a.yaml", "a.yaml")
	link("..data/b.yaml", "b.yaml")
	w := watching(t, Options{}, dir)
	w.mappings("one two")
	for round := 2; round < 6; round++ {
		// What the kubelet's atomic writer does (Kubernetes' pkg/volume/util/atomic_writer.go).
		now := fmt.Sprintf("..%d", round)
		write(t, filepath.Join(dir, now, "a.yaml"), mapping("one", "/1"))
		write(t, filepath.Join(dir, now, "b.yaml"), mapping(fmt.Sprintf("two-%d", round), "/2"))
		link(now, "..data_tmp")
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(dir, fmt.Sprintf("..%d", round-1))); err != nil {
			t.Fatal(err)
		}
		w.mappings(fmt.Sprintf("one two-%d", round))
	}
	for _, s := range w.all {
		if len(s.Findings()) > 0 || get(s, "one") != get(w.all[0], "one") {
			t.Errorf("a swap shows: Mappings %q, findings %s", names(s), lines(s, dir))
		}
	}
}

func TestWatchKeepsLastGood(t *testing.T) {
	dir := tree(t, "a.yaml", mapping("one", "/1")+"---\n"+mapping("two", "/2")+"---\n"+mapping("three", "/3"))
	name := filepath.Join(dir, "a.yaml")
	w := watching(t, Options{}, dir)
	before := w.last()

	// The second document breaks, the third is edited in the same moment.
	write(t, name, mapping("one", "/1")+"---\n"+strings.Replace(mapping("two", "/2"), "spec:", "spec: :", 1)+"---\n"+mapping("three", "/33"))
	s := w.until("a finding", func(s *snapshot.Snapshot) bool { return len(s.Findings()) > 0 })
	if names(s) != "one three two" || get(s, "two") != get(before, "two") || get(s, "three") == get(before, "three") {
		t.Errorf("Mappings %q, findings:\n%s", names(s), lines(s, dir))
	}
	if got := lines(s, dir); !strings.Contains(got, "a.yaml:14: error CH-FILE-001") || !strings.Contains(got, "info CH-FILE-024 Mapping/default/two") {
		t.Errorf("findings:\n%s", got)
	}

	// It stays while other things change, and goes when the file is clean again.
	write(t, name, strings.Replace(mapping("two", "/2"), "spec:", "spec: :", 1)+"---\n"+mapping("three", "/333"))
	s = w.until("another edit", func(s *snapshot.Snapshot) bool { return get(s, "three").Hash != get(before, "three").Hash })
	if get(s, "two") != get(before, "two") {
		t.Errorf("Mappings %q", names(s))
	}
	write(t, name, mapping("three", "/3"))
	if s = w.mappings("three"); len(s.Findings()) > 0 {
		t.Errorf("findings remain: %s", lines(s, dir))
	}

	// An object that fails its schema keeps its last good form; others of the file may go.
	write(t, name, mapping("three", "/3")+"---\n"+mapping("four", "/4"))
	w.mappings("four three")
	write(t, name, strings.Replace(mapping("three", "/3"), "prefix: /3", "prefix: [1]", 1))
	s = w.mappings("three")
	if got := lines(s, dir); !strings.Contains(got, "a.yaml:7: error CH-API-") || get(s, "three").Hash != get(before, "three").Hash {
		t.Errorf("findings:\n%s", got)
	}
}

func TestWatchHalfWritten(t *testing.T) {
	dir := tree(t, "a.yaml", mapping("one", "/1"))
	w := watching(t, Options{}, dir)
	name := filepath.Join(dir, "a.yaml")
	for i := range 10 {
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		text := mapping("one", fmt.Sprintf("/%d", i)) + "---\n" + mapping(fmt.Sprintf("two-%d", i), "/2")
		for _, part := range []string{text[:70], text[70:100], text[100:]} {
			if _, err := f.WriteString(part); err != nil {
				t.Fatal(err)
			}
			time.Sleep(25 * time.Millisecond)
		}
		f.Close()
		w.until("an edit", func(s *snapshot.Snapshot) bool { return strings.HasSuffix(names(s), fmt.Sprintf("two-%d", i)) })
	}
	for _, s := range w.all {
		if get(s, "one") == nil {
			t.Errorf("a half-written file took an object away: %q, findings:\n%s", names(s), lines(s, dir))
		}
	}
}

func TestWatchBursts(t *testing.T) {
	dir := tree(t, "a.yaml", mapping("one", "/1"))
	w := watching(t, Options{MinInterval: 100 * time.Millisecond}, dir)
	w.until("quiet", func(*snapshot.Snapshot) bool { return true })

	start := time.Now()
	write(t, filepath.Join(dir, "first.yaml"), mapping("first", "/"))
	w.mappings("first one")
	if late := time.Since(start); late > 3*time.Second {
		t.Errorf("the first change after quiet took %v", late)
	}
	from := w.count()
	const files = 200
	for i := range files {
		write(t, filepath.Join(dir, fmt.Sprintf("f%03d.yaml", i)), mapping(fmt.Sprintf("f%03d", i), "/"))
		time.Sleep(2 * time.Millisecond)
	}
	s := w.until("the whole burst", func(s *snapshot.Snapshot) bool {
		return strings.HasSuffix(names(s), fmt.Sprintf("f%03d first one", files-1))
	})
	if got := len(strings.Fields(names(s))); got != files+2 {
		t.Errorf("%d Mappings, want %d", got, files+2)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := from; i < len(w.times); i++ {
		if gap := w.times[i].Sub(w.times[i-1]); gap < 90*time.Millisecond {
			t.Errorf("snapshot %d came %v after the one before", i, gap)
		}
	}
}

func TestWatchDeliversNothingForNothing(t *testing.T) {
	dir := tree(t, "a.yaml", mapping("one", "/1"))
	w := watching(t, Options{Rescan: 30 * time.Millisecond}, dir)
	now := time.Now()
	for i := range 5 {
		if err := os.Chtimes(filepath.Join(dir, "a.yaml"), now, now.Add(time.Duration(i)*time.Second)); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "notes.txt"), fmt.Sprint(i))
		write(t, filepath.Join(dir, "a.yaml"), mapping("one", "/1"))
		time.Sleep(40 * time.Millisecond)
	}
	if n := w.count(); n != 1 {
		t.Errorf("%d snapshots of one state", n)
	}
}

// TestWatchEqualsLoad edits a folder in many ways; at rest, the source says what a fresh load says.
func TestWatchEqualsLoad(t *testing.T) {
	dir := tree(t, "a.yaml", mapping("a", "/"))
	w := watching(t, Options{MinInterval: time.Millisecond, Rescan: time.Hour}, dir)
	seed := uint32(1)
	next := func(n int) int { seed = seed*1664525 + 1013904223; return int(seed>>16) % n }
	for step := range 60 {
		name := filepath.Join(dir, []string{"", "x", "y"}[next(3)], fmt.Sprintf("%d.yaml", next(4)))
		switch next(5) {
		case 0:
			_ = os.Remove(name) // it need not be there
		case 1:
			_ = os.Rename(name, filepath.Join(dir, fmt.Sprintf("%d.yaml", next(4))))
		default:
			text := ""
			for range next(4) {
				text += "---\n" + mapping(fmt.Sprintf("m%d", next(8)), fmt.Sprintf("/%d", next(3)))
			}
			write(t, name, text)
		}
		if step%6 != 5 {
			continue
		}
		want, err := Load([]string{dir}, nil)
		if err != nil {
			t.Fatal(err)
		}
		w.until(fmt.Sprintf("step %d: %s\n%s", step, names(want), lines(want, dir)), func(s *snapshot.Snapshot) bool {
			if names(s) != names(want) || lines(s, dir) != lines(want, dir) {
				return false
			}
			for o := range want.List(snapshot.GroupKind{Group: snapshot.EmissaryGroup, Kind: "Mapping"}) {
				if get(s, o.Name).Hash != o.Hash {
					return false
				}
			}
			return true
		})
	}
}

// at returns where an object stands now.
func (s *Source) at(r snapshot.Ref) (snapshot.Source, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.world.source(r)
}
