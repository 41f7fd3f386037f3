package webhook

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/chancery-gateway/chancery/runtime/pipeline"
	"github.com/chancery-gateway/chancery/snapshot"
)

// Trial compiles what there would be if an object were there. It has a compiler of its own, which it gives up when it has
// not been asked for a while.
type Trial struct {
	// NewCompiler returns a compiler that remembers nothing.
	NewCompiler func() pipeline.Compiler
	// Idle is the time after which the compiler is given up; default 10 minutes.
	Idle time.Duration

	mu       sync.Mutex
	live     *snapshot.Snapshot
	compiler pipeline.Compiler
	base     *snapshot.Snapshot // that known is about
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

// Live returns the snapshot in force, nil before the first.
func (t *Trial) Live() *snapshot.Snapshot {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.live
}

// Review returns the findings that there would be with the object: all about the object itself, and those about others
// that are not there now. ok is false when there is nothing to compare with yet.
func (t *Trial) Review(o *snapshot.Object) (own, others []snapshot.Diagnostic, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.live == nil {
		return nil, nil, false
	}
	if t.compiler == nil {
		t.compiler = t.NewCompiler()
		t.base = nil
	}
	idle := t.Idle
	if idle <= 0 {
		idle = 10 * time.Minute
	}
	if t.idle == nil {
		t.idle = time.AfterFunc(idle, t.rest)
	}
	t.idle.Reset(idle)
	if t.base != t.live {
		t.known = map[finding]bool{}
		for _, d := range t.compiler.Compile(t.live).Diagnostics {
			t.known[identify(&d)] = true
		}
		t.base = t.live
	}
	with := t.live.Derive([]*snapshot.Object{o}, nil, t.live.Findings())
	for _, d := range t.compiler.Compile(with).Diagnostics {
		switch {
		case d.Object == o.Ref:
			own = append(own, d)
		case !t.known[identify(&d)]:
			others = append(others, d)
		}
	}
	return own, others, true
}

// rest gives the compiler up.
func (t *Trial) rest() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.compiler, t.base, t.known = nil, nil, nil
}

// Sentence renders a finding for whoever applies an object.
func Sentence(d *snapshot.Diagnostic, about snapshot.Ref) string {
	s := d.Message
	if d.Path != "" {
		s = d.Path + ": " + s
	}
	if d.Object != about {
		s = d.Object.String() + ": " + s
	}
	if d.Help != "" {
		s += " (" + d.Help + ")"
	}
	return fmt.Sprintf("%s [%s]", s, d.Code.ID)
}

// ofOthers are the codes of errors that another object's arrival or change can heal. Objects arrive in any order, so
// that such an error is no reason to turn one away.
var ofOthers = map[string]bool{
	"CH-TLS-001": true, "CH-TLS-002": true, "CH-TLS-003": true, "CH-TLS-004": true, "CH-TLS-005": true,
	"CH-CLUSTER-002": true, "CH-CLUSTER-003": true, "CH-CLUSTER-009": true, "CH-HOST-004": true,
	"CH-AUTH-001": true, "CH-RATELIMIT-001": true, "CH-RATELIMIT-002": true, "CH-SERVICE-001": true, "CH-MODULE-004": true,
	"CH-ENVOY-002": true, "CH-ENVOY-004": true, "CH-ENVOY-005": true, "CH-ENVOY-006": true, "CH-ENVOY-015": true, "CH-ENVOY-018": true,
}

// OfOthers reports whether an error of this code speaks of how the object stands to others.
func OfOthers(c *snapshot.Code) bool {
	return ofOthers[c.ID] || strings.HasPrefix(c.ID, "CH-LINK-") || strings.HasPrefix(c.ID, "CH-PROOF-") || strings.HasPrefix(c.ID, "CH-KUBE-")
}
