package wasm

import (
	"cmp"
	"context"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/fault"
)

// Set is an immutable set of modules. One compile uses one set from its start to its end.
type Set struct {
	host    *Host
	modules []*module
	// refs counts the leases, and one for being the current set; guarded by the host's mutex.
	refs int
	// aside is set for runs that leave no trace.
	aside bool
}

// Aside returns the set for runs that are not published: modules answer in them as in all others, but nothing is
// remembered, counted, or held against a module. It holds until s is released.
func (s *Set) Aside() *Set { return &Set{host: s.host, modules: s.modules, aside: true} }

// phase returns the modules of a phase in the order in which they run.
func (s *Set) phase(p abi.Phase) []*module {
	var out []*module
	for _, m := range s.modules {
		if slices.Contains(m.phases, p) {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b *module) int {
		return cmp.Or(cmp.Compare(a.spec.Priority, b.spec.Priority), strings.Compare(a.spec.Name, b.spec.Name))
	})
	return out
}

// Len returns the number of modules that run in the phase: callers need not make units when it is 0.
func (s *Set) Len(p abi.Phase) int { return len(s.phase(p)) }

// Reads returns the kinds that the modules of a phase want to see, sorted.
func (s *Set) Reads(p abi.Phase) []string {
	var kinds []string
	for _, m := range s.phase(p) {
		kinds = append(kinds, m.code.info.Manifest.Reads...)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// Digests returns the name and digest of every module, sorted by name.
func (s *Set) Digests() []Digest {
	out := make([]Digest, len(s.modules))
	for i, m := range s.modules {
		out[i] = m.code.info.Digest
	}
	return out
}

// Run puts the units through the modules of a phase, on all cores. The outcomes are in the order of the units. A module
// that fails does not keep others, or other units, from going on.
func (s *Set) Run(ctx context.Context, p abi.Phase, units []Unit) []Outcome {
	out := make([]Outcome, len(units))
	modules := s.phase(p)
	workers := min(runtime.GOMAXPROCS(0), len(units))
	if workers <= 1 {
		for i := range units {
			out[i] = s.unit(ctx, p, modules, &units[i])
		}
		return out
	}
	var next atomic.Int64
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(units)); i = next.Add(1) - 1 {
				out[i] = s.unit(ctx, p, modules, &units[i])
			}
		})
	}
	group.Wait()
	return out
}

func (s *Set) unit(ctx context.Context, p abi.Phase, modules []*module, u *Unit) Outcome {
	out := Outcome{Hash: u.Hash}
	items := sync.OnceValue(func() []abi.Item {
		all := slices.Clone(u.Items())
		sortItems(all)
		return all
	})
	for _, m := range modules {
		if !namespaceGranted(m.spec.Grant.Namespaces, u.Tenant) {
			continue
		}
		current := func() []abi.Item {
			if out.Changed {
				return out.Items
			}
			return items()
		}
		a, err := s.answer(ctx, m, p, u, &out, current)
		if err != nil {
			a = m.failed(p, u, err, &out, s.aside)
			if out.Blocked {
				return out
			}
			if a == nil {
				continue
			}
		}
		if a.after != nil {
			out.Changed, out.Items = true, a.after
			if out.Writes == nil {
				out.Writes = slices.Clip(a.writes) // what is appended goes elsewhere
			} else {
				out.Writes = append(out.Writes, a.writes...)
			}
		}
		out.Hash = a.out
		for _, d := range a.diagnostics {
			out.Findings = append(out.Findings, Finding{m.spec.Name, d})
		}
	}
	return out
}

// answer returns the module's answer for the unit as it is now: the remembered one when the unit did not change.
func (s *Set) answer(ctx context.Context, m *module, p abi.Phase, u *Unit, soFar *Outcome, items func() []abi.Item) (a *answer, err error) {
	k := unitKey{p, u.Key}
	a = m.memo.get(k)
	if a != nil && !a.stale && a.in == soFar.Hash {
		if !s.aside {
			m.stats.note(func(c *Counts) { c.Remembered++ })
		}
		return a, conflicts(soFar.Writes, a.writes)
	}
	if !s.aside && !m.breaker.allow() {
		_, until := m.breaker.status()
		return nil, fault.Retry(fault.Open, "%s is suspended until %s", m.spec.Name, until.Format("15:04:05"))
	}
	blameless := true
	defer func() { // a fault of ours, or of a hook, costs this unit, not the process
		if reason := recover(); reason != nil {
			a, err = nil, fault.New(fault.Host, "running the module failed: %v", reason)
			s.host.log.Error("running a module failed", "module", m.spec.Name, "panic", reason, "stack", string(debug.Stack()))
		}
		if !s.aside {
			m.breaker.done(blameless)
		}
	}()
	now := items()
	var spent usage
	a, spent, err = m.translate(ctx, p, u.Key, soFar.Hash, now, false)
	if err == nil {
		err = conflicts(soFar.Writes, a.writes)
	}
	if err == nil && a.after != nil && s.host.config.Validate != nil {
		if problem := s.host.config.Validate(ctx, p, u, a.after); problem != nil {
			err = fault.New(fault.Result, "%w", problem)
		}
	}
	if s.aside {
		if err != nil {
			return nil, err
		}
		return a, nil
	}
	m.stats.called(spent, err)
	blameless = err == nil || fault.Is(err, fault.Conflict) || fault.Is(err, fault.Canceled)
	s.host.watch(m, spent, blameless)
	if err != nil {
		return nil, err
	}
	m.memo.put(k, a)
	m.record.add(p, u, soFar.Hash, now, a, spent)
	return a, nil
}

// failed applies the module's failure policy to a unit, and returns the answer that stands in.
func (m *module) failed(p abi.Phase, u *Unit, err error, out *Outcome, aside bool) *answer {
	f := Failure{Module: m.spec.Name, Digest: m.code.info.Digest, Err: err, Action: cmp.Or(m.spec.Failure, OnFailureKeep)}
	var kept *answer
	if f.Action == OnFailureKeep {
		if kept = m.memo.get(unitKey{p, u.Key}); kept == nil {
			f.Action = OnFailureBlock
		}
	}
	if !aside {
		m.stats.note(func(c *Counts) {
			switch f.Action {
			case OnFailureKeep:
				c.Kept++
			case OnFailureSkip:
				c.Skipped++
			default:
				c.Blocked++
			}
		})
	}
	out.Failures = append(out.Failures, f)
	out.Blocked = f.Action == OnFailureBlock
	if kept == nil {
		return nil
	}
	// The unit as a whole goes back to its last good form, so that nothing new passes by the module unseen.
	stand := *kept
	if stand.after == nil {
		stand.after = kept.before
	}
	return &stand
}

// Asks reports whether a module of the phase has a validate.
func (s *Set) Asks(p abi.Phase) bool {
	return slices.ContainsFunc(s.phase(p), func(m *module) bool { return m.validates() })
}

// Validate asks the modules of a phase that have a validate for their findings about a unit, for a webhook or `check`.
// Nothing is changed, remembered or counted against a module.
func (s *Set) Validate(ctx context.Context, p abi.Phase, u Unit) ([]Finding, []Failure) {
	var findings []Finding
	var failures []Failure
	for _, m := range s.phase(p) {
		if !namespaceGranted(m.spec.Grant.Namespaces, u.Tenant) {
			continue
		}
		found, err := m.validate(ctx, p, u.Key, u.Items())
		if err != nil {
			failures = append(failures, Failure{Module: m.spec.Name, Digest: m.code.info.Digest, Err: err, Action: OnFailureSkip})
		}
		for _, d := range found {
			findings = append(findings, Finding{m.spec.Name, d})
		}
	}
	return findings, failures
}
