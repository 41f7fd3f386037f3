package gateway

import (
	"context"
	"errors"

	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// statuses follows what the translation says of Gateway API's objects on its way to an Envoy. Gateway.mu guards it.
type statuses struct {
	// published are those of publications that no Envoy has answered as a whole, the oldest first.
	published []publishedStatuses
	// answered are those of the last one that has been.
	answered []*ir.Status
}

type publishedStatuses struct {
	publication uint64
	statuses    []*ir.Status
}

// mostAwaited bounds the publications that are told apart; later ones count as one.
const mostAwaited = 64

// await notes what a publication says.
func (g *Gateway) await(r *translators.Result, publication uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := publishedStatuses{publication, r.Statuses}
	if n := len(g.statuses.published); n == mostAwaited {
		g.statuses.published[n-1] = p
	} else {
		g.statuses.published = append(g.statuses.published, p)
	}
	newest(g.awaited, publication)
}

// newest puts a value into a channel with room for one, in place of one that nobody has taken.
func newest(c chan uint64, value uint64) {
	select {
	case <-c:
	default:
	}
	select {
	case c <- value:
	default: // another one was faster
	}
}

// followPublications has the answers of Envoys looked at when all of a publication has been answered: one that changes
// nothing for Envoy has no answer of its own.
func (g *Gateway) followPublications(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case publication := <-g.awaited:
			_ = g.server.Acknowledged(ctx, publication) // refusals are answers too
			g.heard(0)
		}
	}
}

// settle notes which publications have been answered as a whole by now, and tells of it. Refusals have become findings before.
func (g *Gateway) settle(ctx context.Context) {
	now, cancel := context.WithCancel(ctx)
	cancel() // only what is known now counts
	g.mu.Lock()
	before := g.statuses.answered
	for p := &g.statuses.published; len(*p) > 0; *p = (*p)[1:] {
		if err := g.server.Acknowledged(now, (*p)[0].publication); errors.Is(err, context.Canceled) {
			break
		}
		g.statuses.answered = (*p)[0].statuses
	}
	news := !sameSlice(before, g.statuses.answered)
	g.mu.Unlock()
	if news {
		g.observe(g.pipeline.Result())
	}
}

// sameSlice reports whether two results have the same list: one in which nothing changed has that of the last one.
func sameSlice(a, b []*ir.Status) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
