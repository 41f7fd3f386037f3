// Package files is the source of snapshots that reads manifests from files, folders and the standard input: once, for
// commands that compile and end, or again and again as the files change.
package files

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/manifest"
)

// Load reads the paths once: files, folders (all .yaml, .yml and .json files below), and "-" for stdin. What is wrong
// with the content of a file is in the snapshot's findings. The error is about the paths themselves: one that does not
// exist or cannot be read.
func Load(paths []string, stdin io.Reader) (*snapshot.Snapshot, error) {
	var roots []string
	var all []*content
	w := newWorld()
	for _, p := range paths {
		if p != "-" {
			roots = append(roots, p)
			continue
		}
		if len(all) > 0 {
			continue
		}
		data, failed := readAll(stdinName, stdin)
		if failed != nil {
			return nil, fmt.Errorf("%s: %s", stdinName, failed.Message)
		}
		all = append(all, parse(stdinName, data, nil))
	}
	l := walk(roots)
	if err := l.rootError(roots); err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(l.files))
	all = append(all, readMany(names)...)
	for _, name := range slices.Sorted(maps.Keys(l.failed)) {
		all = append(all, &content{name: name, failed: unreadable(name, l.failed[name])})
	}
	w.fill(all)
	named := map[string]bool{}
	for _, root := range roots {
		named[filepath.Clean(root)] = true
		if c := w.files[filepath.Clean(root)]; c != nil && c.failed != nil {
			return nil, fmt.Errorf("%s: %s", root, c.failed.Message)
		}
	}
	w.notes = l.notes()
	for _, c := range all {
		if len(c.units) == 0 && c.failed == nil && (c.name == stdinName || named[c.name]) {
			w.notes = append(w.notes, nothing(c.name, "there is no document"))
		}
	}
	s, _ := w.snapshot()
	s.Forget()
	return s, nil
}

// readMany reads and parses files on all cores.
func readMany(names []string) []*content {
	out := make([]*content, len(names))
	parallel(len(names), 1, func(i int) { out[i] = readOne(names[i], nil) })
	return out
}

// parallel calls do for 0 to n-1 on all cores, step of them at a time.
func parallel(n, step int, do func(i int)) {
	var next atomic.Int64
	var done sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), (n+step-1)/step) {
		done.Go(func() {
			for end := int(next.Add(int64(step))); end-step < n; end = int(next.Add(int64(step))) {
				for i := end - step; i < min(end, n); i++ {
					do(i)
				}
			}
		})
	}
	done.Wait()
}

func readOne(name string, before *content) *content {
	data, failed := read(name)
	if failed != nil {
		return &content{name: name, failed: failed}
	}
	return parse(name, data, before)
}

// Resolve points each diagnostic that names an object and a field at the field's own line. It changes the list in place.
func Resolve(s *snapshot.Snapshot, ds []snapshot.Diagnostic) {
	for i := range ds {
		d := &ds[i]
		if d.Object.Name == "" || d.Path == "" {
			continue
		}
		if o := s.Get(d.Object.GroupKind(), d.Object.Namespace, d.Object.Name); o != nil && d.Position == o.Source.Position {
			manifest.Resolve(o.Source, d)
		}
	}
}
