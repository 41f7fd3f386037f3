package pipeline

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// prover answers as it is told, one answer per question, the last one for all further ones.
type prover struct {
	r       *recorder
	answers []Proof
	hold    chan struct{} // Prove waits for it when it is not nil
	mu      sync.Mutex
}

func (p *prover) Take(s *snapshot.Snapshot) *snapshot.Snapshot { return s }

func (p *prover) Prove(ctx context.Context, given *snapshot.Snapshot, r *translators.Result) Proof {
	p.r.note("prove:%d", given.Len(snapshot.KindService))
	p.mu.Lock()
	hold := p.hold
	p.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.answers[0]
	if len(p.answers) > 1 {
		p.answers = p.answers[1:]
	}
	return a
}

func (p *prover) setHold(hold chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold = hold
}

func TestProof(t *testing.T) {
	again := Proof{Again: true, Refused: map[*ir.Unit]string{{Name: "x"}: "no"}}
	found := snapshot.Diagnostic{Severity: snapshot.Error, Code: code, Message: "refused"}
	for _, c := range []struct {
		name    string
		answers []Proof
		want    string
	}{
		{"cold, once more without what is refused", []Proof{again, {}}, "new compile:1 prove:1 refuse:1 compile:1 prove:1 publish"},
		{"proven", []Proof{{}}, "new compile:1 prove:1 publish"},
		{"once more without what is refused", []Proof{again, {Findings: []snapshot.Diagnostic{found}}}, "new compile:1 prove:1 refuse:1 compile:1 prove:1 publish"},
		{"held back", []Proof{{Hold: true}}, "new compile:1 prove:1"},
		{"served with a retry to come", []Proof{{Retry: time.Hour}}, "new compile:1 prove:1 publish"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &recorder{}
			o := options(r)
			o.Prover = &prover{r: r, answers: c.answers}
			o.Cold = strings.HasPrefix(c.name, "cold")
			p := New(o)
			p.step(t.Context(), delivery{world(1), time.Now()})
			if r.said() != c.want {
				t.Errorf("got  %s\nwant %s", r.said(), c.want)
			}
			if last := c.answers[len(c.answers)-1]; len(p.Findings()) != len(last.Findings) || (p.again != nil) != (last.Retry > 0) {
				t.Errorf("findings %v, again %v", p.Findings(), p.again != nil)
			}
		})
	}
}

// TestEndlessRefusals: a proof that never ends publishes nothing.
func TestEndlessRefusals(t *testing.T) {
	r := &recorder{}
	o := options(r)
	o.Prover = &prover{r: r, answers: []Proof{{Again: true}}}
	New(o).step(t.Context(), delivery{world(1), time.Now()})
	if said := r.said(); strings.Contains(said, "publish") || strings.Count(said, "prove") != rounds {
		t.Errorf("%s", said)
	}
}

// TestEndpointsDoNotWait: while a proof is under way, endpoint changes are published; another change waits for the next step; and
// what is held back is tried again.
func TestEndpointsDoNotWait(t *testing.T) {
	r := &recorder{}
	o := options(r)
	hold := make(chan struct{})
	pr := &prover{r: r, answers: []Proof{{}, {}, {Hold: true, Retry: time.Millisecond}, {}}}
	o.Prover = pr
	p := New(o)
	ctx, cancel := context.WithCancelCause(t.Context())
	var done sync.WaitGroup
	done.Go(func() { p.Run(ctx) })
	p.Deliver(world(0))
	eventually(t, "the first is proven", func() bool { return strings.HasSuffix(r.said(), "prove:0 publish") })
	pr.setHold(hold)
	p.Deliver(world(1))
	eventually(t, "a proof is under way", func() bool { return strings.Contains(r.said(), "prove:1") })
	r.setFast(true)
	p.Deliver(world(2))
	eventually(t, "endpoints are published", func() bool { return strings.Contains(r.said(), "publish-endpoints") })
	r.setFast(false)
	p.Deliver(world(3))
	eventually(t, "the other change has been looked at", func() bool { return strings.Count(r.said(), "endpoints") >= 4 })
	close(hold)
	eventually(t, "all is published", func() bool { return strings.HasSuffix(r.said(), "publish") && strings.Contains(r.said(), "compile:3") })
	if want := "new compile:0 prove:0 publish endpoints compile:1 prove:1 endpoints publish-endpoints endpoints publish endpoints compile:3 prove:3 compile:3 prove:3 publish"; r.said() != want {
		t.Errorf("got  %s\nwant %s", r.said(), want)
	}
	cancel(errors.New("end"))
	done.Wait()
}

// TestRenew: everything is compiled and proven by a compiler that remembers nothing; before the first snapshot there is nothing to do.
func TestRenew(t *testing.T) {
	r := &recorder{}
	o := options(r)
	o.Prover = &prover{r: r, answers: []Proof{{}}}
	p := New(o)
	ctx, cancel := context.WithCancelCause(t.Context())
	var done sync.WaitGroup
	done.Go(func() { p.Run(ctx) })
	p.Renew()
	p.Deliver(world(1))
	eventually(t, "it is published", func() bool { return strings.HasSuffix(r.said(), "publish") })
	p.Renew()
	const once = "new compile:1 prove:1 publish"
	eventually(t, "once more", func() bool { return r.said() == once+" "+once || r.said() == once+" "+once+" "+once })
	cancel(errors.New("end"))
	done.Wait()
}
