package pipeline

import (
	"context"
	"time"
)

// applying is a publication on its way to the Envoys, and when the change came that it brings.
type applying struct {
	publication uint64
	since       time.Time
}

// timeApplying measures how long changes take from the source to an Envoy's acknowledgement of everything.
func (p *Pipeline) timeApplying(ctx context.Context) {
	for {
		var a applying
		select {
		case <-ctx.Done():
			return
		case a = <-p.applying:
		}
		if p.options.Acknowledged(ctx, a.publication) == nil {
			p.options.Metrics.Stage("apply", time.Since(a.since))
		}
	}
}
