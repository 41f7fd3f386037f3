package files

import (
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// pending are the changes that were announced and not yet read.
type pending struct {
	wake chan struct{}

	mu    sync.Mutex
	files map[string]*change
	// scan is the wish to list the folders anew; force, to read all files then.
	scan  *change
	force bool
	// lost are the roots, true for those that were deleted, moved or unmounted since the last scan.
	lost map[string]bool
}

// change is one file's announcements.
type change struct {
	first, last time.Time
	// doubt is set when the file was read and looked worse than before.
	doubt *doubt
}

// doubt is what a file held when it looked worse than before.
type doubt struct {
	gone bool
	sum  uint64
	at   time.Time
}

// work is what has come to rest and is to be read.
type work struct {
	files []string
	scan  bool
	force bool
	lost  []string
}

func newPending(roots []string) *pending {
	p := &pending{wake: make(chan struct{}, 1), files: map[string]*change{}, lost: map[string]bool{}}
	for _, root := range roots {
		p.lost[filepath.Clean(root)] = false
	}
	return p
}

// collect takes the announcements of the system until the watcher is closed. It never waits for a reader, since the
// system drops what is not taken.
func (p *pending) collect(w *fsnotify.Watcher, log *slog.Logger) {
	for {
		select {
		case e, open := <-w.Events:
			if !open {
				return
			}
			p.event(e)
		case err, open := <-w.Errors:
			if !open {
				return
			}
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				log.Warn("watching files failed; all of them are read again", "error", err)
			}
			p.add("", true)
		}
	}
}

// event notes one announcement. A write to a manifest concerns that file only; everything else (new folders, links that
// lead elsewhere, files that take another's place) may concern any file.
func (p *pending) event(e fsnotify.Event) {
	base := filepath.Base(e.Name)
	if e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename) {
		p.mu.Lock()
		if _, is := p.lost[filepath.Clean(e.Name)]; is {
			p.lost[filepath.Clean(e.Name)] = true
		}
		p.mu.Unlock()
	}
	switch {
	case strings.HasPrefix(base, ".") && !strings.HasPrefix(base, ".."):
		// An editor's own.
	case e.Op == fsnotify.Write:
		p.add(filepath.Clean(e.Name), false)
	default:
		p.add("", false)
	}
}

// add notes a change of a file, or with an empty name of any.
func (p *pending) add(name string, force bool) {
	now := time.Now()
	p.mu.Lock()
	c := p.scan
	if name != "" {
		c = p.files[name]
	}
	switch {
	case c != nil:
	case name == "":
		c = &change{first: now}
		p.scan = c
	default:
		c = &change{first: now}
		p.files[name] = c
	}
	c.last, c.doubt = now, nil
	p.force = p.force || force
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// rest returns how long the change still has to wait.
func (c *change) rest(now time.Time, most time.Duration) time.Duration {
	ready := c.last.Add(settle)
	if c.doubt != nil {
		ready = c.doubt.at.Add(doubtful)
	}
	return min(ready.Sub(now), c.first.Add(most).Sub(now))
}

// take removes and returns what has come to rest, or all. Doubted files stay until they are trusted.
func (p *pending) take(now time.Time, most time.Duration, all bool) (w work) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, c := range p.files {
		if all || c.rest(now, most) <= 0 {
			w.files = append(w.files, name)
			if c.doubt == nil {
				delete(p.files, name)
			}
		}
	}
	slices.Sort(w.files)
	if p.scan != nil && (all || p.scan.rest(now, most) <= 0) {
		w.scan, w.force = true, p.force
		p.scan, p.force = nil, false
		for root, gone := range p.lost {
			if gone {
				w.lost, p.lost[root] = append(w.lost, root), false
			}
		}
	}
	return w
}

// next returns the time until something comes to rest.
func (p *pending) next(most time.Duration) (wait time.Duration, waiting bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	consider := func(c *change) {
		if rest := c.rest(now, most); !waiting || rest < wait {
			wait, waiting = rest, true
		}
	}
	for _, c := range p.files {
		consider(c)
	}
	if p.scan != nil {
		consider(p.scan)
	}
	return wait, waiting
}

// doubts reports whether to wait before believing that the file holds this (nil when it is gone): until it has held the
// same for a while, or the change has waited for the most that it may.
func (p *pending) doubts(name string, c *content, now time.Time, most time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	here := p.files[name]
	if here == nil {
		here = &change{first: now, last: now}
		p.files[name] = here
	}
	is := doubt{gone: c == nil, at: now}
	if c != nil {
		is.sum = c.sum
	}
	if was := here.doubt; was != nil && was.gone == is.gone && was.sum == is.sum {
		return now.Sub(was.at) < doubtful && now.Sub(here.first) < most
	}
	here.doubt = &is
	return now.Sub(here.first) < most
}

// trust ends the doubts about a file.
func (p *pending) trust(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.files[name]; c != nil && c.doubt != nil {
		delete(p.files, name)
	}
}
