package pipeline

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/runtime/metrics"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/ir"
)

var code = snapshot.NewCode("CH-PIPELINETEST-001", "t", "c", "c")

// recorder stands in for compiler and publisher and writes down what it is asked.
type recorder struct {
	mu    sync.Mutex
	calls []string
	fast  bool          // what Endpoints answers
	hold  chan struct{} // Compile waits for it when it is not nil
	ds    []snapshot.Diagnostic
}

func (r *recorder) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, fmt.Sprintf(format, args...))
}

func (r *recorder) said() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.calls, " ")
}

func (r *recorder) Compile(s *snapshot.Snapshot) *translators.Result {
	r.note("compile:%d", s.Len(snapshot.KindService))
	if r.hold != nil {
		<-r.hold
	}
	return &translators.Result{Snapshot: s, Program: &ir.Program{}, Diagnostics: append(slices.Clone(s.Findings()), r.ds...)}
}

func (r *recorder) Endpoints(*snapshot.Snapshot) ([]*ir.Resource, bool) {
	r.note("endpoints")
	r.mu.Lock()
	defer r.mu.Unlock()
	return nil, r.fast
}

func (r *recorder) setFast(fast bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fast = fast
}

func (r *recorder) EndpointMark() uint64 { return 7 }

func (r *recorder) PublishSince(_ ir.ResourceSet, mark uint64) uint64 {
	r.note("publish")
	return mark
}

func (r *recorder) Refuse(texts map[*ir.Unit]string)          { r.note("refuse:%d", len(texts)) }
func (r *recorder) PublishEndpoints([]*ir.Resource, []string) { r.note("publish-endpoints") }

// world returns a snapshot of n Services.
func world(n int, findings ...snapshot.Diagnostic) *snapshot.Snapshot {
	var put []*snapshot.Object
	for i := range n {
		put = append(put, &snapshot.Object{Ref: snapshot.Ref{Kind: "Service", Name: fmt.Sprint(i)}, Hash: snapshot.Hash{byte(i + 1)}})
	}
	return snapshot.Empty().Derive(put, nil, findings)
}

func options(r *recorder) Options {
	return Options{NewCompiler: func() Compiler { r.note("new"); return r }, Publisher: r, Metrics: metrics.New("test"), Log: slog.New(slog.DiscardHandler)}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never came about: %s", what)
		}
	}
}

func TestSteps(t *testing.T) {
	broken := snapshot.Diagnostic{Severity: snapshot.Error, Code: code, Message: "broken file"}
	for _, c := range []struct {
		name string
		fast bool
		cold bool
		in   []*snapshot.Snapshot
		want string
	}{
		{"compile and publish", false, false, []*snapshot.Snapshot{world(1)}, "new compile:1 publish"},
		{"a change compiles in the same compiler", false, false, []*snapshot.Snapshot{world(1), world(2)}, "new compile:1 publish endpoints compile:2 publish"},
		{"endpoints alone take the fast path", true, false, []*snapshot.Snapshot{world(1), world(2)}, "new compile:1 publish endpoints publish-endpoints"},
		{"a new finding is never lost on the fast path", true, false, []*snapshot.Snapshot{world(1), world(1, broken)}, "new compile:1 publish compile:1 publish"},
		{"cold starts from nothing each time", true, true, []*snapshot.Snapshot{world(1), world(2)}, "new compile:1 publish new compile:2 publish"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &recorder{fast: c.fast}
			o := options(r)
			o.Cold = c.cold
			p := New(o)
			for _, s := range c.in {
				p.step(t.Context(), delivery{s, time.Now()})
			}
			if r.said() != c.want {
				t.Errorf("got  %s\nwant %s", r.said(), c.want)
			}
		})
	}
}

func TestNewestSnapshotWins(t *testing.T) {
	r := &recorder{hold: make(chan struct{})}
	p := New(options(r))
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { p.Run(ctx) })
	p.Deliver(world(1))
	eventually(t, "the first compile is under way", func() bool { return strings.Contains(r.said(), "compile:1") && p.Busy() > 0 })
	for n := 2; n <= 9; n++ {
		p.Deliver(world(n))
	}
	close(r.hold)
	eventually(t, "the last one is compiled", func() bool { return strings.Contains(r.said(), "compile:9 publish") })
	if want := "new compile:1 publish endpoints compile:9 publish"; r.said() != want {
		t.Errorf("got %s, want %s", r.said(), want)
	}
	eventually(t, "idle", func() bool { return p.Busy() == 0 })
	cancel()
	done.Wait()
}

func TestFindings(t *testing.T) {
	a := snapshot.Diagnostic{Severity: snapshot.Error, Code: code, Message: "a"}
	b := snapshot.Diagnostic{Severity: snapshot.Warning, Code: code, Message: "b"}
	var told []string
	r := &recorder{ds: []snapshot.Diagnostic{a}}
	o := options(r)
	o.Changed = func(appeared, vanished []snapshot.Diagnostic) {
		for _, d := range appeared {
			told = append(told, "+"+d.Message)
		}
		for _, d := range vanished {
			told = append(told, "-"+d.Message)
		}
	}
	o.Resolve = func(ds []snapshot.Diagnostic) {
		for i := range ds {
			ds[i].Position.Line = 7
		}
	}
	p := New(o)
	if p.Result() != nil || p.Findings() != nil {
		t.Error("something is there before the first snapshot")
	}
	p.step(t.Context(), delivery{world(1), time.Now()})
	p.Add("other", []snapshot.Diagnostic{b})
	p.Add("other", []snapshot.Diagnostic{b})
	if ds := p.Findings(); len(ds) != 2 || ds[0].Position.Line != 7 {
		t.Errorf("findings %v", ds)
	}
	r.ds = nil
	p.step(t.Context(), delivery{world(2), time.Now()})
	p.Add("other", nil)
	if got := strings.Join(told, " "); got != "+a +b -a -b" {
		t.Errorf("told %s", got)
	}
	if len(p.Findings()) != 0 {
		t.Errorf("findings %v", p.Findings())
	}
}
