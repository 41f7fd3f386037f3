package wasm

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/fault"
)

// Status is the state of one configured module.
type Status struct {
	Name   string
	Source string
	// SpecErr is what is wrong with the spec itself.
	SpecErr error
	// Live is the version that runs, nil when none does; Previous are those that can be rolled back to, newest first.
	Live     *Version
	Previous []Version
	// Candidate is the version that was looked at last. When its stage is promoted and it has no error, it is the live one.
	Candidate Candidate
	// Breaker is the live version's; ProbeAt is when the next call is let through while it is open.
	Breaker BreakerState
	ProbeAt time.Time
	// Idle and Made are the live version's instances: those waiting, and all that were made.
	Idle, Made int
	Counts     Counts
	Logs       []LogLine
}

// Version is one version of a module.
type Version struct {
	Digest  Digest
	Name    string
	Version string
	// Guard says what ends the module when it does not end by itself.
	Guard  Guard
	Limits abi.Limits
	Phases []abi.Phase
	Since  time.Time
	// CompileTime is how long compiling, or loading from the cache, took.
	CompileTime time.Duration
}

// Candidate is a version on its way, or what became of it.
type Candidate struct {
	Digest  *Digest
	Version string
	Stage   Stage
	// Err is why it got no further; RetryAt is when it is tried again, zero when it is not.
	Err     error
	RetryAt time.Time
	Since   time.Time
	// Signers are the trusted keys that signed it.
	Signers []string
	// Shadow is the report of its shadow run, nil when it did not come to that.
	Shadow *ShadowReport
}

// Status returns the state of every configured module, sorted by name.
func (h *Host) Status() []Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]Status, 0, len(h.lines))
	for name, l := range h.lines {
		s := Status{Name: name, SpecErr: l.specErr}
		if l.spec.Source != nil {
			s.Source = l.spec.Source.String()
		}
		if c := l.candidate; c.stage != "" {
			s.Candidate = Candidate{c.digest, c.version, c.stage, c.err, c.retryAt, c.since, c.signers, c.shadow}
		}
		for _, m := range l.kept {
			s.Previous = append(s.Previous, m.version(time.Time{}))
		}
		if m := l.live; m != nil {
			v := m.version(l.since)
			s.Live = &v
			s.Breaker, s.ProbeAt = m.breaker.status()
			s.Idle, s.Made = m.pool.size()
			s.Counts, s.Logs = m.stats.read()
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Status) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Find returns the state of one module.
func (h *Host) Find(name string) (Status, error) {
	for _, s := range h.Status() {
		if s.Name == name {
			return s, nil
		}
	}
	return Status{}, fault.New(fault.Unknown, "no module %q is configured", escape(name, 100))
}

func (m *module) version(since time.Time) Version {
	i := m.code.info
	return Version{i.Digest, i.Manifest.Name, i.Manifest.Version, m.code.guard, m.limits, m.phases, since, m.code.took}
}

// Settle waits until every configured module is live, refused, or waiting to be tried again. A program that compiles once
// uses it; one that runs on need not.
func (h *Host) Settle(ctx context.Context) error {
	for {
		if !h.busy() {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

func (h *Host) busy() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.lines {
		if l.busy {
			return true
		}
	}
	return false
}
