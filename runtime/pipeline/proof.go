package pipeline

import (
	"context"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// Prover stands between compile and publication. Take may be called while Prove runs; otherwise calls do not overlap.
type Prover interface {
	// Take returns the snapshot to compile in place of s.
	Take(s *snapshot.Snapshot) *snapshot.Snapshot
	// Prove judges what is new in a result. given is the snapshot of which Take made the one that was compiled.
	Prove(ctx context.Context, given *snapshot.Snapshot, r *translators.Result) Proof
}

// Proof is the outcome for one result.
type Proof struct {
	// Again asks for one more compile, of what Take returns now and without the Refused units, before anything is published.
	Again   bool
	Refused map[*ir.Unit]string
	// Hold forbids the publication. Retry, when it is not 0, is the time after which the same snapshot is to be tried again.
	Hold  bool
	Retry time.Duration
	// Findings are those of the proof as a whole; they replace the last ones.
	Findings []snapshot.Diagnostic
}

// rounds bounds the compiles of one snapshot. Each round takes at least one unit out, and what is put in its place is either
// proven or simpler, so that a few are enough for any input; many faults go in one round.
const rounds = 50

// prove compiles the last snapshot until nothing of the result is refused. ok is false when ctx ended.
func (p *Pipeline) prove(ctx context.Context) (r *translators.Result, proof Proof, ok bool) {
	o := p.options
	shown := 0
	for round := range rounds {
		r = p.compile(round == 0)
		if o.Prover == nil {
			return r, proof, true
		}
		shown += len(r.Changed)
		begun := time.Now()
		if proof, ok = p.await(ctx, r); !ok {
			return nil, proof, false
		}
		o.Metrics.Stage("prove", time.Since(begun))
		if !proof.Again {
			r.Counts.Shown = shown
			return r, proof, true
		}
		p.compiler.Refuse(proof.Refused)
	}
	o.Log.Error("Envoy refuses whatever is put in place of what it refuses; nothing new is published", "compiles", rounds)
	proof.Hold = true
	return r, proof, true
}

// await waits for the proof. Endpoint changes that come meanwhile do not wait; other snapshots stay for the next step.
func (p *Pipeline) await(ctx context.Context, r *translators.Result) (Proof, bool) {
	done := make(chan Proof, 1)
	given := p.last
	go func() { done <- p.options.Prover.Prove(ctx, given, r) }()
	var later *delivery
	for {
		next := p.next
		if later != nil || p.options.Cold {
			next = nil
		}
		select {
		case proof := <-done:
			if later != nil {
				select {
				case p.next <- *later:
				case newer := <-p.next:
					newer.since = later.since
					p.deliver(newer)
				}
			}
			return proof, ctx.Err() == nil
		case d := <-next:
			if !p.fast(d) {
				later = &d
			}
		}
	}
}

// take returns what is compiled in place of s.
func (p *Pipeline) take(s *snapshot.Snapshot) *snapshot.Snapshot {
	if p.options.Prover == nil {
		return s
	}
	return p.options.Prover.Take(s)
}
