package wasm

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/wasm/fault"
	. "github.com/chancery-gateway/chancery/wasm/internal/assemble"
)

// TestRegressionRollsBack promotes versions that are good on recorded inputs and bad afterwards.
func TestRegressionRollsBack(t *testing.T) {
	slow := Code(Const32(300_000), Put(2), Loop(Get(2), Const32(1), Op(Sub32), Tee(2), BrIf(0)))
	for _, c := range []struct {
		name      string
		translate []byte
	}{
		{"failures", trapOnX()},
		{"fuel", Code(slow, packed(answerAt, uint32(len(setHeader("fine")))))},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newTestHost(t, nil)
			src := &memory{module: guest{Answer: setHeader("good")}.Bytes()}
			apply1(t, h, Spec{Name: "m", Source: src, Grant: grantAll()})
			runOne(h, unitOf("u", "a"))
			src.put(guest{Manifest: versioned("1.0.1", nil), Answer: setHeader("fine"), Translate: c.translate}.Bytes(), nil, nil)
			h.Look()
			settle(t, h)
			if s := find(t, h, "m"); s.Live.Version != "1.0.1" {
				t.Fatalf("the candidate was not promoted: %v", s.Candidate.Err)
			}
			for i := range watchCalls {
				o := runOne(h, unitOf("u", fmt.Sprint("x", i)))
				if got := note(t, o); got != "good" && got != "fine" {
					t.Fatalf("call %d: %q", i, got)
				}
			}
			s := find(t, h, "m")
			if s.Live.Version != "1.0.0" || !fault.Is(s.Candidate.Err, fault.Regression) {
				t.Errorf("version %s is live, the candidate ended with %v", s.Live.Version, s.Candidate.Err)
			}
		})
	}
}

// TestSlownessRollsBack: a version is rolled back when its calls take longer than those of the one before by more than the factor, for
// the same work, and not when they take as long as the factor allows. How long a call took is given.
func TestSlownessRollsBack(t *testing.T) {
	for _, c := range []struct {
		name                string
		before, tried, live time.Duration
		gone                bool
	}{
		{"eleven times as long", 2 * time.Millisecond, 2 * time.Millisecond, 22 * time.Millisecond, true},
		{"nine times as long", 2 * time.Millisecond, 2 * time.Millisecond, 18 * time.Millisecond, false},
		{"a hundred times as long, and not long", 40 * time.Microsecond, 40 * time.Microsecond, 4 * time.Millisecond, false},
		{"slow when it was tried only", 2 * time.Millisecond, 40 * time.Millisecond, 2 * time.Millisecond, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var takes atomic.Int64
			takes.Store(int64(c.before))
			h := newTestHost(t, func(o *Config) { o.since = func(time.Time) time.Duration { return time.Duration(takes.Load()) } })
			src := &memory{module: guest{Answer: setHeader("good")}.Bytes()}
			apply1(t, h, Spec{Name: "m", Source: src, Grant: grantAll()})
			runOne(h, unitOf("u", "a"))
			takes.Store(int64(c.tried))
			src.put(guest{Manifest: versioned("1.0.1", nil), Answer: setHeader("fine")}.Bytes(), nil, nil)
			h.Look()
			settle(t, h)
			if s := find(t, h, "m"); s.Live.Version != "1.0.1" {
				t.Fatalf("the candidate was not promoted: %v", s.Candidate.Err)
			}
			takes.Store(int64(c.live))
			for i := range watchCalls {
				if s := find(t, h, "m"); s.Live.Version != "1.0.1" {
					t.Fatalf("it is judged after %d calls: %v", i, s.Candidate.Err)
				}
				if got := note(t, runOne(h, unitOf("u", fmt.Sprint("b", i)))); got != "fine" {
					t.Fatalf("call %d: %q", i, got)
				}
			}
			s := find(t, h, "m")
			if !c.gone {
				if s.Live.Version != "1.0.1" || s.Candidate.Err != nil {
					t.Errorf("version %s is live, the candidate ended with %v", s.Live.Version, s.Candidate.Err)
				}
				return
			}
			if s.Live.Version != "1.0.0" || !fault.Is(s.Candidate.Err, fault.Regression) || !strings.Contains(s.Candidate.Err.Error(), "takes 22ms on average; it was 2ms before") {
				t.Errorf("version %s is live, the candidate ended with %v", s.Live.Version, s.Candidate.Err)
			}
			if got := note(t, runOne(h, unitOf("u", "after"))); got != "good" {
				t.Errorf("the next call is answered with %q", got)
			}
			h.Look() // the source still has it
			settle(t, h)
			if s := find(t, h, "m"); s.Live.Version != "1.0.0" {
				t.Errorf("version %s came back", s.Live.Version)
			}
		})
	}
}
