package webhook

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chancery-gateway/chancery/runtime/compare"
	"github.com/chancery-gateway/chancery/runtime/pipeline"
	"github.com/chancery-gateway/chancery/runtime/quarantine"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators"
)

// Trial compiles what there would be if an object were there, or gone. It has a compiler of its own, which it gives up
// when it has not been asked for a while.
type Trial struct {
	// NewCompiler returns a compiler that remembers nothing, and whose findings nobody else is told of.
	NewCompiler func() pipeline.Compiler
	// Mentioned, which may be nil, returns what the source has not read because only the object mentions it.
	Mentioned func(context.Context, *snapshot.Object) []*snapshot.Object
	// Idle is the time after which the compiler is given up; default 10 minutes.
	Idle time.Duration

	compiles atomic.Int64

	mu    sync.Mutex
	live  *snapshot.Snapshot
	judge quarantine.Judge
	turn  chan struct{} // holds a token while a review is under way, who may use what follows

	compiler pipeline.Compiler
	base     *translators.Result // of the snapshot that was live at the last review
	known    map[finding]bool
	idle     *time.Timer
}

// finding is a diagnostic without what moves when others change.
type finding struct {
	code          *snapshot.Code
	object        snapshot.Ref
	path, message string
}

func identify(d *snapshot.Diagnostic) finding {
	return finding{d.Code, d.Object, d.Path, d.Message}
}

// Observe takes the snapshot that is in force. It is cheap.
func (t *Trial) Observe(s *snapshot.Snapshot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.live = s
}

// Prove lets Envoy's verdict count, too.
func (t *Trial) Prove(j quarantine.Judge) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.judge = j
}

// Live returns the snapshot in force, nil before the first.
func (t *Trial) Live() *snapshot.Snapshot {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.live
}

// Compiles returns how many compiles reviews have taken.
func (t *Trial) Compiles() int64 { return t.compiles.Load() }

// Outcome is what a trial found.
type Outcome struct {
	// Own are the findings about the object itself, Others those about others that are not there now.
	Own, Others []snapshot.Diagnostic
	// Effects are what would change.
	Effects *compare.Effects
}

var (
	// ErrEarly says that nothing has been compiled yet, so that there is nothing to compare with.
	ErrEarly = errors.New("nothing has been compiled yet")
	errBusy  = errors.New("other reviews take too long")
)

// Review returns what there would be with the object in place.
func (t *Trial) Review(ctx context.Context, o *snapshot.Object) (*Outcome, error) {
	put := []*snapshot.Object{o}
	if t.Mentioned != nil {
		put = append(put, t.Mentioned(ctx, o)...)
	}
	return t.with(ctx, o.Ref, put, nil)
}

// Without returns what there would be without the object.
func (t *Trial) Without(ctx context.Context, r snapshot.Ref) (*Outcome, error) {
	return t.with(ctx, r, nil, []snapshot.Ref{r})
}

func (t *Trial) with(ctx context.Context, about snapshot.Ref, put []*snapshot.Object, gone []snapshot.Ref) (*Outcome, error) {
	t.mu.Lock()
	if t.turn == nil {
		t.turn = make(chan struct{}, 1)
	}
	turn := t.turn
	t.mu.Unlock()
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return nil, errBusy
	}
	if ctx.Err() != nil {
		return nil, errBusy
	}
	t.mu.Lock()
	live, judge := t.live, t.judge
	t.mu.Unlock()
	if live == nil {
		return nil, ErrEarly
	}
	t.prepare(ctx, live, judge)
	r := t.compile(ctx, live.Derive(put, gone, live.Findings()), judge)
	out := &Outcome{Effects: compare.Of(t.base.Program, r.Program, about)}
	for _, d := range r.Diagnostics {
		switch {
		case d.Object == about:
			out.Own = append(out.Own, d)
		case !t.known[identify(&d)]:
			out.Others = append(out.Others, d)
		}
	}
	return out, nil
}

// prepare brings the compiler to what is live.
func (t *Trial) prepare(ctx context.Context, live *snapshot.Snapshot, judge quarantine.Judge) {
	if t.compiler == nil {
		t.compiler, t.base = t.NewCompiler(), nil
	}
	idle := t.Idle
	if idle <= 0 {
		idle = 10 * time.Minute
	}
	if t.idle == nil {
		t.idle = time.AfterFunc(idle, t.rest)
	}
	t.idle.Reset(idle)
	if t.base != nil && t.base.Snapshot == live {
		return
	}
	t.base = t.compile(ctx, live, judge)
	t.known = make(map[finding]bool, len(t.base.Diagnostics))
	for i := range t.base.Diagnostics {
		t.known[identify(&t.base.Diagnostics[i])] = true
	}
}

// compile compiles a snapshot and lets go what Envoy refuses of it, as the pipeline does. Without a verdict Chancery's own
// rules have to do: whatever is applied is shown to Envoy again before traffic sees it.
func (t *Trial) compile(ctx context.Context, s *snapshot.Snapshot, judge quarantine.Judge) *translators.Result {
	for {
		t.compiles.Add(1)
		r := t.compiler.Compile(s)
		if judge == nil || len(r.Changed) == 0 {
			return r
		}
		v, err := judge.Judge(ctx, r.Changed)
		if err != nil || len(v.Refused) == 0 {
			return r
		}
		t.compiler.Refuse(v.Refused)
	}
}

// rest gives the compiler up.
func (t *Trial) rest() {
	t.turn <- struct{}{}
	defer func() { <-t.turn }()
	t.compiler, t.base, t.known = nil, nil, nil
}

// Sentence renders a finding for whoever applies an object: which object and field, what is wrong, and what would be right.
func Sentence(d *snapshot.Diagnostic) string {
	var b strings.Builder
	if d.Object.Name != "" {
		b.WriteString(d.Object.String() + " ")
	}
	if d.Path != "" && !strings.HasPrefix(d.Message, d.Path) {
		b.WriteString(d.Path)
	}
	text := strings.TrimSpace(b.String())
	if text != "" {
		text += ": "
	}
	text += d.Message
	help := d.Help
	if help == "" && d.Policy == "" {
		help = strings.TrimSuffix(d.Code.Cure, ".")
	}
	if help != "" {
		text += " (" + help + ")"
	}
	if d.Policy != "" {
		text += " (policy " + d.Policy
		if at := d.Rule.String(); at != "" {
			text += ", " + at
		}
		text += ")"
	}
	return text + " [" + d.Code.ID + "]"
}

// ofOthers are the codes of errors that another object's arrival or change can heal. Objects arrive in any order, so
// that such an error is no reason to turn one away.
var ofOthers = map[string]bool{
	"CH-TLS-001": true, "CH-TLS-002": true, "CH-TLS-003": true, "CH-TLS-004": true, "CH-TLS-005": true,
	"CH-CLUSTER-002": true, "CH-CLUSTER-003": true, "CH-CLUSTER-009": true, "CH-HOST-004": true,
	"CH-AUTH-001": true, "CH-RATELIMIT-001": true, "CH-RATELIMIT-002": true, "CH-SERVICE-001": true, "CH-MODULE-004": true, "CH-INGRESS-009": true,
	"CH-GATEWAY-001": true, "CH-GATEWAY-004": true, "CH-GATEWAY-005": true, "CH-GATEWAY-007": true, "CH-GATEWAY-008": true, "CH-GATEWAY-011": true, "CH-GATEWAY-012": true,
	"CH-ENVOY-002": true, "CH-ENVOY-004": true, "CH-ENVOY-005": true, "CH-ENVOY-006": true, "CH-ENVOY-015": true, "CH-ENVOY-018": true,
}

// OfOthers reports whether an error of this code speaks of how the object stands to others.
func OfOthers(c *snapshot.Code) bool {
	return ofOthers[c.ID] || strings.HasPrefix(c.ID, "CH-LINK-") || strings.HasPrefix(c.ID, "CH-KUBE-")
}
