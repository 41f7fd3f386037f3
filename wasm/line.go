package wasm

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/chancery-gateway/chancery/wasm/fault"
	"github.com/chancery-gateway/chancery/wasm/source"
	"github.com/chancery-gateway/chancery/wasm/trust"
)

// Stage is how far a candidate has come.
type Stage string

// The stages, in order.
const (
	StageFetch    Stage = "fetch"
	StageVerify   Stage = "verify"
	StageInspect  Stage = "inspect"
	StageCompile  Stage = "compile"
	StageSelfTest Stage = "self_test"
	StageShadow   Stage = "shadow"
	StagePromoted Stage = "promoted"
)

// line is one configured module over time: the version that is live, those before it, and the candidate. Its fields are
// guarded by the host's mutex.
type line struct {
	host   *Host
	spec   Spec
	print  [sha256.Size]byte
	ctx    context.Context
	cancel context.CancelFunc
	wake   chan struct{}

	started   bool
	specErr   error
	live      *module
	since     time.Time
	kept      []*module // newest first
	candidate candidate
	refused   map[refusedKey]refusedCandidate
	watching  *watching
	busy      bool // a round runs, or is asked for
}

type candidate struct {
	digest  *Digest
	version string
	stage   Stage
	err     error
	since   time.Time
	retryAt time.Time
	shadow  *ShadowReport
	signers []string
}

// refusedKey names a refused candidate: what one signature did not suffice for, another may. A version that was rolled back
// is refused whatever its signature, which is then zero.
type refusedKey struct {
	digest    Digest
	signature [sha256.Size]byte
}

// refusedCandidate is a candidate that need not be tried again with the same spec.
type refusedCandidate struct {
	stage   Stage
	version string
	err     error
	shadow  *ShadowReport
}

func newLine(h *Host, s Spec) *line {
	l := &line{host: h, spec: s, print: fingerprint(&s), wake: make(chan struct{}, 1), refused: map[refusedKey]refusedCandidate{}}
	l.ctx, l.cancel = context.WithCancel(h.ctx)
	return l
}

// fingerprint covers everything of a spec that the module's behaviour depends on, and the source.
func fingerprint(s *Spec) [sha256.Size]byte {
	from := ""
	if s.Source != nil {
		from = fmt.Sprintf("%T %s", s.Source, s.Source)
	}
	text, err := json.Marshal(struct {
		From string
		Spec
	}{From: from, Spec: Spec{
		Name: s.Name, Digest: s.Digest, Phases: s.Phases, Grant: s.Grant, Settings: s.Settings, Failure: s.Failure,
		Priority: s.Priority, Interpreter: s.Interpreter, Fresh: s.Fresh, Shadow: s.Shadow, Force: s.Force,
	}})
	if err != nil { // settings that are no JSON; they are refused later
		text = fmt.Append(nil, err, s.Settings)
	}
	return sha256.Sum256(text)
}

func (l *line) start() {
	l.started = true
	l.busy, l.candidate = true, candidate{stage: StageFetch, since: l.host.config.Now()}
	l.host.group.Go(l.run)
}

// update takes a changed spec. The mutex is held.
func (l *line) update(s Spec) {
	if print := fingerprint(&s); print != l.print || !l.started {
		l.print, l.spec = print, s
		clear(l.refused)
		l.candidate = candidate{stage: StageFetch, since: l.host.config.Now()}
		if !l.started {
			l.start()
			return
		}
		l.poke()
		return
	}
	l.spec = s
}

func (l *line) poke() {
	l.busy = true
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// release returns every module that the line holds a reference of. The mutex is held.
func (l *line) release() []*module {
	out := l.kept
	if l.live != nil {
		out = append(out, l.live)
	}
	l.live, l.kept, l.watching = nil, nil, nil
	return out
}

// run brings up what the spec asks for, again and again: at once when something changed, with growing pauses while
// failures may pass, and when it is time to look at the source.
func (l *line) run() {
	pause := time.Duration(0)
	for {
		err := l.round()
		var timer <-chan time.Time
		l.host.mu.Lock()
		if l.busy = len(l.wake) > 0; fault.IsTemporary(err) {
			pause = min(max(2*pause, l.host.config.backoff), backoffMost)
			l.candidate.retryAt = l.host.config.Now().Add(pause)
			timer = time.After(pause)
		} else if pause = 0; l.host.config.Poll > 0 {
			timer = time.After(l.host.config.Poll)
		}
		l.host.mu.Unlock()
		select {
		case <-l.ctx.Done():
			return
		case <-l.wake:
			pause = 0
		case <-timer:
		}
	}
}

// round takes one candidate from its source as far as it gets.
func (l *line) round() error {
	h := l.host
	h.mu.Lock()
	spec, print := l.spec, l.print
	h.mu.Unlock()
	c := &attempt{line: l, spec: spec, print: print}
	m, err := c.bring(l.ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.print != print || l.ctx.Err() != nil {
		if m != nil {
			h.drop(m)
		}
		return fault.Retry(fault.Canceled, "the configuration changed meanwhile")
	}
	if err != nil {
		l.candidate.err = err
		if c.known || fault.IsTemporary(err) || c.info == nil && c.digest == (Digest{}) {
			return err
		}
		l.refuse(refusedKey{c.digest, c.signature}, refusedCandidate{l.candidate.stage, l.candidate.version, err, l.candidate.shadow})
		h.log.Warn("module refused", "module", l.spec.Name, "digest", c.digest.Short(), "stage", string(l.candidate.stage), "error", err.Error())
		return err
	}
	if m != nil {
		l.promote(m)
	}
	return nil
}

func (l *line) refuse(k refusedKey, r refusedCandidate) {
	if len(l.refused) >= keptRefused {
		clear(l.refused)
	}
	l.refused[k] = r
}

// attempt is one candidate on its way.
type attempt struct {
	line   *line
	spec   Spec
	print  [sha256.Size]byte
	digest Digest
	info   *Info
	known  bool // refused earlier for the same reason
	// signature is a hash of the signatures; cached says that they and the module were fetched earlier.
	signature [sha256.Size]byte
	cached    bool
}

// enter notes that the candidate reached a stage.
func (c *attempt) enter(s Stage) {
	h := c.line.host
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.line.print != c.print {
		return
	}
	now := &c.line.candidate
	if now.stage != s || now.err != nil {
		now.since = h.config.Now()
	}
	now.stage, now.err, now.retryAt = s, nil, time.Time{}
}

func (c *attempt) note(f func(*candidate)) {
	h := c.line.host
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.line.print == c.print {
		f(&c.line.candidate)
	}
}

// bring takes the candidate through all stages. It returns nil when what the source has is live already.
func (c *attempt) bring(ctx context.Context) (m *module, err error) {
	h, l := c.line.host, c.line
	defer func() { // a fault of ours, or of a hook, costs this candidate, not the process
		if reason := recover(); reason != nil {
			if m != nil {
				h.mu.Lock()
				h.drop(m)
				h.mu.Unlock()
			}
			m, err = nil, fault.New(fault.Host, "bringing the module up failed: %v", reason)
			h.log.Error("bringing a module up failed", "module", c.spec.Name, "panic", reason, "stack", string(debug.Stack()))
		}
	}()
	h.mu.Lock()
	previous := l.candidate
	h.mu.Unlock()
	c.enter(StageFetch)
	artifact, err := c.fetch(ctx)
	if err != nil {
		return nil, err
	}
	c.digest = DigestOf(artifact.Module)
	h.mu.Lock()
	if l.print != c.print {
		h.mu.Unlock()
		return nil, fault.Retry(fault.Canceled, "the configuration changed meanwhile")
	}
	live := l.live
	c.signature = sha256.Sum256(artifact.Signature)
	refused, known := l.refused[refusedKey{digest: c.digest}]
	if !known {
		refused, known = l.refused[refusedKey{c.digest, c.signature}]
	}
	if live != nil && live.code.info.Digest == c.digest && fingerprint(&live.spec) == c.print {
		l.candidate = previous
		if previous.stage != StagePromoted {
			l.candidate = candidate{stage: StagePromoted, since: l.since, digest: &live.code.info.Digest, version: live.code.info.Manifest.Version}
		}
		h.mu.Unlock()
		return nil, nil
	}
	l.candidate.digest, l.candidate.shadow, l.candidate.version, l.candidate.signers = &c.digest, nil, "", nil
	if known {
		c.known = true
		l.candidate.stage, l.candidate.version, l.candidate.shadow = refused.stage, refused.version, refused.shadow
		h.mu.Unlock()
		return nil, refused.err
	}
	h.mu.Unlock()

	c.enter(StageVerify)
	if pinned := c.spec.Digest; pinned != nil && *pinned != c.digest {
		return nil, fault.New(fault.Digest, "%s has %s; the configuration wants %s", c.spec.Source, c.digest, pinned)
	}
	c.enter(StageInspect)
	if c.info, err = Inspect(artifact.Module); err != nil {
		return nil, err
	}
	manifest := c.info.Manifest
	c.note(func(n *candidate) { n.version = manifest.Version })
	c.enter(StageVerify)
	if err := c.verify(ctx, artifact); err != nil {
		return nil, err
	}
	c.enter(StageInspect)
	if err := c.spec.admit(manifest); err != nil {
		return nil, err
	}
	if err := checkSettings(manifest.Settings, c.spec.Settings); err != nil {
		return nil, err
	}
	guard, err := c.spec.guard(c.info)
	if err != nil {
		return nil, err
	}

	c.enter(StageCompile)
	pages := effective(manifest.Limits, c.spec.Grant.Limits).Pages
	code, err := h.codeFor(ctx, c.info, artifact.Module, guard, pages)
	if err != nil {
		return nil, err
	}
	c.info.metered = nil // compiled; megabytes that nobody reads again
	m, err = newModule(c.spec, code, h.config.Now)
	if err != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.dropCode(code)
		return nil, err
	}
	m.refs = 1
	if err := c.try(ctx, m, live); err != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.drop(m)
		return nil, err
	}
	return m, nil
}

// fetch gets the module; one that is pinned and was fetched before needs no source.
func (c *attempt) fetch(ctx context.Context) (*source.Artifact, error) {
	h := c.line.host
	if d := c.spec.Digest; d != nil && c.spec.Source.Remote() {
		if module, signature := h.cache.load(*d); module != nil {
			c.cached = true
			return &source.Artifact{Module: module, Signature: signature}, nil
		}
	}
	return c.spec.Source.Fetch(ctx)
}

// verify judges signature and version. What a remote source had is kept once its signature is good.
func (c *attempt) verify(ctx context.Context, a *source.Artifact) error {
	h, m := c.line.host, c.info.Manifest
	signers, err := h.config.Trust.Verify(a.Signature, StatementOf(c.info), h.config.Now())
	if err != nil && c.cached { // the source may have another signature by now
		fresh, failed := c.spec.Source.Fetch(ctx)
		if failed != nil || DigestOf(fresh.Module) != c.digest {
			return err
		}
		c.cached, c.signature = false, sha256.Sum256(fresh.Signature)
		a = fresh
		signers, err = h.config.Trust.Verify(a.Signature, StatementOf(c.info), h.config.Now())
	}
	if err != nil {
		return err
	}
	if pinned := c.spec.Digest; c.spec.Source.Remote() && pinned != nil && !c.cached {
		if err := h.cache.store(c.digest, a.Module, a.Signature); err != nil {
			h.log.Warn("module not cached", "module", c.spec.Name, "error", err.Error())
		}
	}
	c.note(func(n *candidate) { n.signers = signers })
	offered, _ := parseVersion(m.Version)
	if highest, ok := parseVersion(h.cache.highest(m.Name)); ok && offered.compare(highest) < 0 && !c.spec.Force {
		return fault.New(fault.Downgrade, "%s %s is lower than %s, which was live", m.Name, m.Version, h.cache.highest(m.Name))
	}
	return nil
}

// StatementOf returns what a signature of the module says, but for the time from which it holds.
func StatementOf(i *Info) trust.Statement {
	return trust.Statement{Digest: i.Digest.String(), Name: i.Manifest.Name, Version: i.Manifest.Version, Manifest: i.ManifestDigest.String()}
}

// try runs the candidate's own test and the shadow run.
func (c *attempt) try(ctx context.Context, m, live *module) error {
	c.enter(StageSelfTest)
	if err := m.selfTest(ctx); err != nil {
		return err
	}
	c.enter(StageShadow)
	report, err := c.line.host.shadow(ctx, m, live)
	c.note(func(n *candidate) { n.shadow = report })
	return err
}
