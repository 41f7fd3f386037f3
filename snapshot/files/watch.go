package files

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/manifest"
)

// Options tunes a Source. The zero value is the default of each.
type Options struct {
	// MinInterval is the least time between two snapshots; default 100 ms.
	MinInterval time.Duration
	// MaxDelay is the most that a change may wait for its file to come to rest; default 1 s.
	MaxDelay time.Duration
	// Rescan is the time between two looks at all files, for changes that the system did not announce; default 30 s.
	Rescan time.Duration
	// Logger is told what cannot be watched; default slog.Default.
	Logger *slog.Logger
}

const (
	// settle is how long a file must be quiet before it is read: an editor's or a copy's writes come in several steps.
	settle = 15 * time.Millisecond
	// doubtful is how long a file that broke or vanished is given to come right before the finding is believed.
	doubtful = 60 * time.Millisecond
)

// Source keeps a current snapshot of files and folders.
type Source struct {
	roots   []string
	options Options

	mu    sync.Mutex // guards world, which Resolve reads
	world *world
	seen  map[string]stamp
	// listing is the last one.
	listing *listing
	// filled are the roots as they were when they last held manifests, lost those that have been missing since.
	filled map[string]identity
	lost   map[string]bool

	watcher *fsnotify.Watcher
	watched map[string]bool
	// blind is set when the system cannot announce changes.
	blind bool
}

// New returns a source of the paths: files and folders as for Load, without "-".
func New(paths []string, o Options) (*Source, error) {
	if len(paths) == 0 {
		return nil, errors.New("no file or folder is given")
	}
	if slices.Contains(paths, "-") {
		return nil, errors.New("the standard input cannot be watched")
	}
	if err := walk(paths).rootError(paths); err != nil {
		return nil, err
	}
	for at, is := range map[*time.Duration]time.Duration{&o.MinInterval: 100 * time.Millisecond, &o.MaxDelay: time.Second, &o.Rescan: 30 * time.Second} {
		if *at <= 0 {
			*at = is
		}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Source{roots: paths, options: o, world: newWorld(), seen: map[string]stamp{}, listing: &listing{}, filled: map[string]identity{}, lost: map[string]bool{}, watched: map[string]bool{}}, nil
}

// Run delivers the first snapshot at once, and another one each time that the files say something else, until the
// context ends. A change after quiet is delivered as soon as its file has come to rest, later ones at most once per
// MinInterval. What arrives while deliver runs becomes one next snapshot. A document that breaks does not take away the
// object that it held; a root that vanishes keeps all it had. The error is nil when the context ended.
func (s *Source) Run(ctx context.Context, deliver func(*snapshot.Snapshot)) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		s.options.Logger.Warn("files cannot be watched; they are looked at each second", "error", err)
		s.blind = true
	} else {
		s.watcher = watcher
		defer watcher.Close()
	}
	pending := newPending(s.roots)
	s.sync(walk(s.roots)) // watch first, then read: no change falls in between
	if s.watcher != nil {
		go pending.collect(s.watcher, s.options.Logger)
	}
	pending.add("", true)
	return s.loop(ctx, pending, deliver)
}

func (s *Source) loop(ctx context.Context, pending *pending, deliver func(*snapshot.Snapshot)) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var delivered time.Time
	first, scanned := true, time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-pending.wake:
		case <-timer.C:
		}
		now := time.Now()
		if wait := delivered.Add(s.options.MinInterval).Sub(now); wait > 0 {
			timer.Reset(wait)
			continue
		}
		work := pending.take(now, s.options.MaxDelay, first)
		work.scan = work.scan || now.Sub(scanned) >= s.rescan()
		if work.scan {
			scanned = now
		}
		if work.scan || len(work.files) > 0 {
			if current, changed := s.read(work, first, now, pending); changed || first {
				deliver(current)
				delivered, first = time.Now(), false
			}
		}
		wait := time.Until(scanned.Add(s.rescan()))
		if next, waiting := pending.next(s.options.MaxDelay); waiting {
			wait = min(wait, next)
		}
		timer.Reset(max(wait, time.Millisecond))
	}
}

// rescan is the time between two looks at all files.
func (s *Source) rescan() time.Duration {
	if s.blind {
		return min(s.options.Rescan, time.Second)
	}
	return s.options.Rescan
}

// read does the work and derives a snapshot. A scan reads the files whose stamp changed, a forced one all.
func (s *Source) read(work work, first bool, now time.Time, pending *pending) (current *snapshot.Snapshot, changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := map[string]bool{}
	for _, name := range work.files {
		if s.listing.has(name) {
			names[name] = true
		} else {
			work.scan = true // it may be what a link leads to, or a file beside one that is watched
		}
	}
	if work.scan {
		l := walk(s.roots)
		if s.sync(l) && !first {
			pending.add("", false) // what was put into a new folder before it was watched
		}
		for _, root := range work.lost {
			s.lost[root] = true
		}
		s.hold(l)
		s.world.notes = l.notes()
		s.listed(l, work.force, names)
	}
	for _, name := range work.files {
		if !names[name] {
			pending.trust(name)
		}
	}
	sorted := slices.Sorted(maps.Keys(names))
	if first {
		for _, name := range sorted {
			s.note(name)
		}
		s.world.fill(readMany(sorted))
		return s.world.snapshot()
	}
	for _, name := range sorted {
		s.update(name, now, pending)
	}
	return s.world.snapshot()
}

// listed adds the files that a listing shows to be worth reading.
func (s *Source) listed(l *listing, force bool, names map[string]bool) {
	for name, st := range l.files {
		if c := s.world.files[name]; force || c == nil || c.failed != nil || s.seen[name] != st {
			names[name] = true
		}
	}
	for name := range s.world.files {
		if _, there := l.files[name]; !there {
			names[name] = true
		}
	}
	for name := range l.failed {
		names[name] = true
	}
	s.listing = l
}

// hold notes the roots that are empty folders in the place of those that held manifests: deleted and made anew, moved away, or
// unmounted. Where somebody deletes the files one by one, the folder stays the same.
func (s *Source) hold(l *listing) {
	for root := range l.failed {
		s.lost[root] = true // if it is one
	}
	for root, is := range l.roots {
		if !slices.Contains(l.empty, root) {
			s.filled[root] = is
			delete(s.lost, root)
			continue
		}
		was, filled := s.filled[root]
		for name := range s.world.files {
			if filled && (was != is || s.lost[root]) && below(name, root) {
				l.held[root] = true
				break
			}
		}
	}
}

// note remembers a file's stamp.
func (s *Source) note(name string) {
	if info, err := os.Stat(name); err == nil {
		s.seen[name] = stamp{size: info.Size(), mod: info.ModTime(), inode: inode(info)}
	} else {
		delete(s.seen, name)
	}
}

// update reads one file again. Content that is worse than before (broken, empty or gone) is doubted first: it is read
// once more a little later, since it may be half of an edit.
func (s *Source) update(name string, now time.Time, pending *pending) {
	before := s.world.files[name]
	s.note(name)
	var c *content
	switch data, failed := s.content(name); {
	case failed == nil && before != nil && before.failed == nil && before.sum == sum(data):
		pending.trust(name)
		return
	case failed == nil:
		c = parse(name, data, before)
	case s.listing.failed[name] != nil:
		c = &content{name: name, failed: unreadable(name, s.listing.failed[name])}
	case s.orphan(name):
		pending.trust(name)
		return // the finding is about the folder
	case s.there(name):
		c = &content{name: name, failed: failed}
	}
	worse := c == nil || c.broken() || before != nil && len(c.units) == 0
	if worse && pending.doubts(name, c, now, s.options.MaxDelay) {
		return
	}
	pending.trust(name)
	if c != nil {
		c.keep(before)
	}
	s.world.set(name, c)
}

// content reads a file that is known to end.
func (s *Source) content(name string) ([]byte, *snapshot.Diagnostic) {
	if err := s.listing.failed[name]; errors.Is(err, errIrregular) {
		return nil, unreadable(name, err)
	}
	return read(name)
}

// there reports whether the name is a file that could be read if permissions allowed it.
func (s *Source) there(name string) bool {
	info, err := os.Stat(name)
	return err == nil && !info.IsDir() || err != nil && !errors.Is(err, fs.ErrNotExist)
}

// orphan reports whether a root above the file is gone as a whole, or replaced by an empty one: what it held stays until it is back.
func (s *Source) orphan(name string) bool {
	for root := range s.listing.failed {
		if below(name, root) {
			return true
		}
	}
	for root := range s.listing.held {
		if below(name, root) {
			return true
		}
	}
	return false
}

// below reports whether the file lies in the folder or deeper.
func below(name, folder string) bool {
	return folder == "." || strings.HasPrefix(name, strings.TrimSuffix(folder, string(filepath.Separator))+string(filepath.Separator))
}

// sync watches the folders of the listing, and no others. It reports whether there are new ones.
func (s *Source) sync(l *listing) (added bool) {
	if s.watcher == nil {
		return false
	}
	for dir := range s.watched {
		if !l.dirs[dir] {
			_ = s.watcher.Remove(dir) // it is gone already in most cases
			delete(s.watched, dir)
		}
	}
	s.blind = false
	for _, dir := range slices.Sorted(maps.Keys(l.dirs)) {
		// Adding a folder again is cheap, and needed for one that was removed and made anew.
		if err := s.watcher.Add(dir); err != nil {
			if !s.blind {
				s.options.Logger.Warn("a folder cannot be watched; all files are looked at each second", "folder", dir, "error", err)
			}
			s.blind = true
			continue
		}
		added = added || !s.watched[dir]
		s.watched[dir] = true
	}
	return added
}

// Resolve points each diagnostic at the place where its object, and the field in it, stand now. It changes the list in place.
func (s *Source) Resolve(ds []snapshot.Diagnostic) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range ds {
		if ds[i].Object.Name == "" {
			continue
		}
		o := s.world.last.Get(ds[i].Object.GroupKind(), ds[i].Object.Namespace, ds[i].Object.Name)
		if src, known := s.world.source(ds[i].Object); known && o != nil && ds[i].Position.File == o.Source.Position.File {
			manifest.Resolve(src, &ds[i])
		}
	}
}
