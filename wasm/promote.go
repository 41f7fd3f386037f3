package wasm

import (
	"time"

	"github.com/chancery-gateway/chancery/wasm/fault"
)

// watching is the time after a promotion in which a regression rolls it back.
type watching struct {
	module *module
	until  time.Time
	// fuel and time are the predecessor's means per call, 0 where it had none.
	fuel, time float64
	calls      int64
	failures   int
	usedFuel   int64
	usedTime   time.Duration
}

// promote makes the module live: one atomic switch of the set. The mutex is held, and the caller's reference is taken over.
func (l *line) promote(m *module) {
	h := l.host
	old := l.live
	now := h.config.Now()
	l.live, l.since, l.watching = m, now, nil
	if old != nil {
		m.memo.copyFrom(old.memo)
		l.keep(old)
		if counts, _ := old.stats.read(); h.config.Watch.Time > 0 {
			w := &watching{module: m, until: now.Add(h.config.Watch.Time)}
			if counts.Calls > 0 {
				w.fuel, w.time = float64(counts.Fuel)/float64(counts.Calls), float64(counts.Time)/float64(counts.Calls)
			}
			l.watching = w
		}
	}
	manifest := m.code.info.Manifest
	if err := h.cache.raise(manifest.Name, manifest.Version); err != nil {
		h.log.Warn("promotion not recorded", "module", l.spec.Name, "error", err.Error())
	}
	shadow, signers := l.candidate.shadow, l.candidate.signers
	l.candidate = candidate{digest: &m.code.info.Digest, version: manifest.Version, stage: StagePromoted, since: now, shadow: shadow, signers: signers}
	h.log.Info("module promoted", "module", l.spec.Name, "version", manifest.Version, "digest", m.code.info.Digest.Short(), "guard", string(m.code.guard))
	h.rebuild()
}

// keep puts a version that was live among those that can be rolled back to.
func (l *line) keep(m *module) {
	l.kept = append([]*module{m}, l.kept...)
	if over := l.kept[min(len(l.kept), l.host.config.Keep):]; len(over) > 0 {
		l.host.drop(over...)
		l.kept = l.kept[:l.host.config.Keep:l.host.config.Keep]
	}
}

// Rollback makes the version before the present one live again. The present one is refused until its spec or its bytes change.
func (h *Host) Rollback(name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.lines[name]
	if l == nil {
		return fault.New(fault.Unknown, "no module %q is configured", escape(name, 100))
	}
	return l.rollback(fault.New(fault.Regression, "rolled back by hand"))
}

// rollback switches to the newest kept version; reason is what the present one is refused with. The mutex is held.
func (l *line) rollback(reason error) error {
	if l.live == nil || len(l.kept) == 0 {
		return fault.New(fault.NoPrevious, "no earlier version of %s is kept", l.spec.Name)
	}
	bad := l.live
	l.live, l.kept = l.kept[0], l.kept[1:]
	l.since, l.watching = l.host.config.Now(), nil
	l.live.breaker.reset()
	// Answers that the bad version gave are not fallen back on.
	info := bad.code.info
	l.refuse(refusedKey{digest: info.Digest}, refusedCandidate{StagePromoted, info.Manifest.Version, reason, l.candidate.shadow})
	l.candidate = candidate{digest: &info.Digest, version: info.Manifest.Version, stage: StagePromoted, err: reason, since: l.since, shadow: l.candidate.shadow}
	l.host.log.Warn("module rolled back", "module", l.spec.Name, "from", info.Digest.Short(), "to", l.live.code.info.Digest.Short(), "reason", reason.Error())
	l.host.drop(bad)
	l.host.rebuild()
	return nil
}

// Reset closes the module's breaker and forgets which candidates were refused, so that they are tried again.
func (h *Host) Reset(name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.lines[name]
	if l == nil {
		return fault.New(fault.Unknown, "no module %q is configured", escape(name, 100))
	}
	if l.live != nil {
		l.live.breaker.reset()
	}
	clear(l.refused)
	l.poke()
	return nil
}

// watch takes the outcome of a call, and rolls a new version back that fails or is much slower than the one before.
func (h *Host) watch(m *module, spent usage, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.lines[m.spec.Name]
	if l == nil || l.watching == nil || l.watching.module != m {
		return
	}
	w := l.watching
	if h.config.Now().After(w.until) {
		l.watching = nil
		return
	}
	if !ok {
		w.failures++
	}
	w.calls++
	w.usedFuel += spent.fuel
	w.usedTime += spent.time
	var reason error
	meanFuel, meanTime := float64(w.usedFuel)/float64(w.calls), float64(w.usedTime)/float64(w.calls)
	switch bounds := h.config.Watch; {
	case w.failures >= bounds.Failures:
		reason = fault.New(fault.Regression, "%d of the first %d calls failed", w.failures, w.calls)
	case w.calls < watchCalls:
	case w.fuel > 0 && meanFuel > slowdownFloorFuel && meanFuel > bounds.Slowdown*w.fuel:
		reason = fault.New(fault.Regression, "a call uses %.0f units of fuel on average; it was %.0f before", meanFuel, w.fuel)
	case w.time > 0 && meanTime > float64(slowdownFloorTime) && meanTime > bounds.Slowdown*w.time:
		reason = fault.New(fault.Regression, "a call takes %v on average; it was %v before", time.Duration(meanTime), time.Duration(w.time))
	}
	if reason != nil {
		if err := l.rollback(reason); err != nil {
			l.watching = nil
		}
	}
}
