// Package pipeline is the loop of a running Chancery: the newest snapshot is compiled and published, endpoint changes
// take the fast path, and findings are reported when they appear or vanish.
package pipeline

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/chancery-gateway/chancery/runtime/metrics"
	"github.com/chancery-gateway/chancery/runtime/report"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// Compiler compiles snapshots; *translators.Compiler is one.
type Compiler interface {
	Compile(*snapshot.Snapshot) *translators.Result
	// Endpoints is the fast path: ok only if nothing but endpoints changed since the last snapshot that it was given.
	Endpoints(*snapshot.Snapshot) (changed []*ir.Resource, ok bool)
	// Refuse makes the next compiles do without units of earlier results; texts holds Envoy's sentence for each.
	Refuse(texts map[*ir.Unit]string)
}

// Publisher hands resources to Envoys; *xds.Server is one.
type Publisher interface {
	// EndpointMark marks the moment before a compile. PublishSince returns the number of the publication; endpoint changes that
	// were published after the mark outlive it.
	EndpointMark() uint64
	PublishSince(set ir.ResourceSet, mark uint64) uint64
	PublishEndpoints(changed []*ir.Resource, removed []string)
}

// Options are what a pipeline works with.
type Options struct {
	// NewCompiler returns a compiler that remembers nothing. Cold asks for a new one for each compile.
	NewCompiler func() Compiler
	Cold        bool
	Publisher   Publisher
	// Prover judges each result before it is published; nil publishes what compiles.
	Prover  Prover
	Metrics *metrics.Metrics
	Log     *slog.Logger
	// Resolve, which may be nil, brings the positions of findings up to date, in place.
	Resolve func([]snapshot.Diagnostic)
	// Changed is told of findings that appeared and vanished; calls do not overlap.
	Changed func(appeared, vanished []snapshot.Diagnostic)
	// Published is called after each publication with its number; the number is 0 for the fast path, which has none.
	Published func(r *translators.Result, publication uint64)
	// Acknowledged, which may be nil, waits until an Envoy has taken a publication and everything before it; nil says that it has.
	Acknowledged func(ctx context.Context, publication uint64) error
}

// Pipeline is one loop.
type Pipeline struct {
	options  Options
	next     chan delivery
	applying chan applying // publications whose way to an Envoy is timed
	compiler Compiler
	heard    []snapshot.Diagnostic // the source's findings that the last compile took up
	last     *snapshot.Snapshot    // as it was delivered
	again    <-chan time.Time      // the last snapshot is to be proven once more then; nil for not
	renew    chan struct{}         // everything is to be compiled and proven anew

	mu       sync.Mutex
	result   *translators.Result
	added    map[string][]snapshot.Diagnostic // findings of others than the compiler, by who found them
	findings []snapshot.Diagnostic
	busy     time.Time // begin of the step that is under way; zero when idle

	telling sync.Mutex
}

// delivery is a snapshot and when the oldest change in it came that has not been taken up.
type delivery struct {
	snapshot *snapshot.Snapshot
	since    time.Time
}

// New returns a pipeline that has not begun.
func New(o Options) *Pipeline {
	return &Pipeline{options: o, next: make(chan delivery, 1), applying: make(chan applying, 16), renew: make(chan struct{}, 1), added: map[string][]snapshot.Diagnostic{}}
}

// Deliver hands over a snapshot and returns at once. A snapshot that has not been taken up yet is replaced.
func (p *Pipeline) Deliver(s *snapshot.Snapshot) { p.deliver(delivery{s, time.Now()}) }

func (p *Pipeline) deliver(d delivery) {
	for {
		select {
		case p.next <- d:
			return
		default:
		}
		select {
		case replaced := <-p.next:
			d.since = replaced.since
		default:
		}
	}
}

// Run takes up snapshots until ctx ends.
func (p *Pipeline) Run(ctx context.Context) {
	if p.options.Acknowledged != nil {
		var timing sync.WaitGroup
		defer timing.Wait()
		timing.Go(func() { p.timeApplying(ctx) })
	}
	for {
		select {
		case <-ctx.Done():
			return
		case d := <-p.next:
			p.step(ctx, d)
		case <-p.again:
			p.again = nil
			p.compileStep(ctx, delivery{p.last, time.Now()})
		case <-p.renew:
			if p.last != nil {
				p.compiler = nil
				p.compileStep(ctx, delivery{p.last, time.Now()})
			}
		}
	}
}

// Renew has the last snapshot compiled and proven from nothing: whoever proves judges by other rules from now on. It returns at once.
func (p *Pipeline) Renew() {
	select {
	case p.renew <- struct{}{}:
	default: // it is about to
	}
}

func (p *Pipeline) step(ctx context.Context, d delivery) {
	p.setBusy(time.Now())
	defer p.setBusy(time.Time{})
	p.options.Metrics.Stage("wait", time.Since(d.since))
	if p.compiler != nil && !p.options.Cold && p.fast(d) {
		return
	}
	p.compileStep(ctx, d)
}

// fast publishes a snapshot in which nothing but endpoints has changed; it returns false for others.
func (p *Pipeline) fast(d delivery) bool {
	o, s, begun := p.options, d.snapshot, time.Now()
	if p.Result() == nil || !slices.Equal(p.heard, s.Findings()) {
		return false // before the first publication there is nothing that could be brought up to date
	}
	changed, ok := p.compiler.Endpoints(p.take(s))
	if !ok {
		return false
	}
	s.Forget()
	p.last = s
	o.Metrics.Stage("endpoints", time.Since(begun))
	at := time.Now()
	o.Publisher.PublishEndpoints(changed, nil)
	o.Metrics.Stage("publish", time.Since(at))
	o.Metrics.EndpointsUpdated()
	o.Log.Debug("endpoints published", "changed", len(changed), "took", time.Since(begun))
	if o.Published != nil {
		o.Published(p.Result(), 0)
	}
	return true
}

// compileStep compiles, proves and publishes a snapshot.
func (p *Pipeline) compileStep(ctx context.Context, d delivery) {
	begun := time.Now()
	p.setBusy(begun)
	defer p.setBusy(time.Time{})
	o := p.options
	p.last, p.again = d.snapshot, nil
	mark := o.Publisher.EndpointMark()
	r, proof, ok := p.prove(ctx)
	if !ok {
		return
	}
	if proof.Retry > 0 {
		p.again = time.After(proof.Retry)
	}
	if o.Prover != nil {
		p.mu.Lock()
		p.added["proof of units"] = proof.Findings
		p.mu.Unlock()
	}
	if proof.Hold {
		o.Log.Warn("the configuration is not published: nobody can prove it", "retry", proof.Retry)
		p.tell()
		return
	}
	at := time.Now()
	publication := o.Publisher.PublishSince(r.Resources, mark)
	o.Metrics.Stage("publish", time.Since(at))
	o.Metrics.Compiled(r.Counts.Objects)
	p.mu.Lock()
	p.result = r
	p.mu.Unlock()
	p.tell()
	n := 0
	for _, rs := range r.Resources {
		n += len(rs)
	}
	o.Log.Info("configuration published", "resources", n, "objects", r.Counts.Objects, "lowered", r.Counts.Lowered,
		"emitted", r.Counts.Emitted, "proven", r.Counts.Shown, "took", time.Since(begun).Round(10*time.Microsecond))
	select {
	case p.applying <- applying{publication, d.since}:
	default: // Envoy is far behind; some publications go untimed
	}
	if o.Published != nil {
		o.Published(r, publication)
	}
}

// compile compiles what is to be compiled of the last snapshot. first says that it is the first time: later ones know what has been
// refused meanwhile.
func (p *Pipeline) compile(first bool) *translators.Result {
	o, begun := p.options, time.Now()
	if p.compiler == nil || o.Cold && first {
		p.compiler = o.NewCompiler()
	}
	s := p.last
	taken := p.take(s)
	r := p.compiler.Compile(taken)
	p.heard = s.Findings()
	taken.Forget() // what was before is of no use any more, and must not be held
	s.Forget()
	for stage, took := range map[string]time.Duration{
		"lower": r.Timings.Lower, "link": r.Timings.Link, "emit": r.Timings.Emit, "compile": time.Since(begun),
	} {
		o.Metrics.Stage(stage, took)
	}
	return r
}

// Add puts the findings of another stage beside the compiler's; they replace the last ones under the same name.
func (p *Pipeline) Add(name string, ds []snapshot.Diagnostic) {
	p.mu.Lock()
	p.added[name] = ds
	p.mu.Unlock()
	p.tell()
}

// tell works out the present findings and reports what is different from the last ones.
func (p *Pipeline) tell() {
	p.telling.Lock()
	defer p.telling.Unlock()
	p.mu.Lock()
	var now []snapshot.Diagnostic
	if p.result != nil {
		now = slices.Clone(p.result.Diagnostics)
	}
	for _, ds := range p.added {
		now = append(now, ds...)
	}
	if p.options.Resolve != nil {
		p.options.Resolve(now)
	}
	now = snapshot.SortDiagnostics(now)
	before := p.findings
	p.findings = now
	p.mu.Unlock()
	p.options.Metrics.Diagnostics(now)
	appeared, vanished := report.Transitions(before, now)
	if p.options.Changed != nil && len(appeared)+len(vanished) > 0 {
		p.options.Changed(appeared, vanished)
	}
}

// Result returns the last result, nil before the first.
func (p *Pipeline) Result() *translators.Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.result
}

// Findings returns the present findings of all stages, sorted.
func (p *Pipeline) Findings() []snapshot.Diagnostic {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.findings
}

// Busy returns how long the step that is under way has been running, 0 when none is.
func (p *Pipeline) Busy() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy.IsZero() {
		return 0
	}
	return time.Since(p.busy)
}

func (p *Pipeline) setBusy(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy = t
}
