// Package decision writes what policies decide, one line of JSON for each verdict that changes, never for each evaluation.
package decision

import (
	"encoding/json"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Transition is one change of one policy's verdict on one object.
type Transition struct {
	Time   time.Time `json:"time"`
	Object string    `json:"object"`
	Tenant string    `json:"tenant,omitempty"`
	Policy string    `json:"policy"`
	// From and To are "" (nothing to say), info, warning or error.
	From    string `json:"from"`
	To      string `json:"to"`
	Code    string `json:"code,omitempty"`
	Path    string `json:"path,omitempty"`
	Rule    string `json:"rule,omitempty"`
	Message string `json:"message,omitempty"`
	// Revision is the policy's, Set the digest of all policies in force.
	Revision string `json:"revision"`
	Set      string `json:"set"`
}

// Log writes transitions behind a bounded buffer. Record never waits: what does not fit is counted and dropped.
type Log struct {
	queue   chan Transition
	mask    []string
	dropped atomic.Uint64
	written atomic.Uint64
	done    sync.WaitGroup
	close   sync.Once
}

// Maskable are the names of the fields that New can be told to write as "***".
var Maskable = []string{"object", "tenant", "message", "path"}

// New returns a log that writes to w. mask names fields of Maskable whose content is not written.
func New(w io.Writer, size int, mask []string) *Log {
	l := &Log{queue: make(chan Transition, size), mask: mask}
	l.done.Go(func() {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		for t := range l.queue {
			if e.Encode(l.masked(t)) == nil {
				l.written.Add(1)
			} else {
				l.dropped.Add(1)
			}
		}
	})
	return l
}

func (l *Log) masked(t Transition) Transition {
	for name, at := range map[string]*string{"object": &t.Object, "tenant": &t.Tenant, "message": &t.Message, "path": &t.Path} {
		if *at != "" && slices.Contains(l.mask, name) {
			*at = "***"
		}
	}
	return t
}

// Record hands over a transition. It must not be called after Close.
func (l *Log) Record(t Transition) {
	select {
	case l.queue <- t:
	default:
		l.dropped.Add(1)
	}
}

// Counts returns how many transitions were written and how many were dropped.
func (l *Log) Counts() (written, dropped uint64) { return l.written.Load(), l.dropped.Load() }

// Close writes what is in the buffer and returns.
func (l *Log) Close() {
	l.close.Do(func() { close(l.queue) })
	l.done.Wait()
}
