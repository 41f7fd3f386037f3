package command

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/files"
	"github.com/chancery-gateway/chancery/snapshot/manifest"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/emissary"
	"github.com/chancery-gateway/chancery/translators/gatewayapi"
	"github.com/chancery-gateway/chancery/translators/ingress"
	"github.com/chancery-gateway/chancery/translators/knative"
)

// frontEnd returns the front end for Emissary's kinds that the settings describe.
func (a *app) frontEnd() *emissary.FrontEnd {
	s := a.settings
	return emissary.New(emissary.Options{
		AmbassadorID: s.AmbassadorID, Namespace: s.Namespace,
		SingleNamespace: s.SingleNamespace, CertsSingleNamespace: s.CertsSingleNamespace,
		BindAddress: s.BindAddress, ReadyPort: uint32(s.ReadyPort), DiagService: s.DiagnosticsAddress(), LooseLabelSelectors: s.LooseLabelSelectors,
	})
}

// newCompiler returns the compiler that the settings describe.
func (a *app) newCompiler() *translators.Compiler {
	front := a.frontEnd()
	fronts := []translators.FrontEnd{front, ingress.New(front), gatewayapi.New(front, gatewayapi.Options{Addresses: a.settings.GatewayAddresses})}
	if a.settings.Knative {
		fronts = append(fronts, knative.New(front, a.settings.AmbassadorID))
	}
	o := translators.Options{
		FrontEnds:    fronts,
		Admitter:     a.newAdmitter(),
		EnvoyVersion: a.envoyVersion,
		Locate: func(o *snapshot.Object, d *snapshot.Diagnostic) {
			if d.Position == o.Source.Position {
				manifest.Resolve(o.Source, d)
			}
		},
	}
	switch {
	case a.modules != nil && a.aside:
		o.Extender = a.modules.Aside()
	case a.modules != nil:
		o.Extender = a.modules
	}
	return translators.New(o)
}

// frontEndKinds reports whether a front end reads the kind.
func frontEndKinds() func(snapshot.GroupKind) bool {
	known := map[snapshot.GroupKind]bool{}
	front := emissary.New(emissary.Options{})
	for _, k := range slices.Concat(front.Kinds(), ingress.New(front).Kinds(), gatewayapi.New(front, gatewayapi.Options{}).Kinds()) {
		known[k] = true
	}
	return func(k snapshot.GroupKind) bool { return known[k] }
}

// timings are what --timings prints: one line of JSON, times in nanoseconds.
type timings struct {
	Load      time.Duration `json:"loadNanos"`
	Admit     time.Duration `json:"admitNanos"`
	Lower     time.Duration `json:"lowerNanos"`
	Link      time.Duration `json:"linkNanos"`
	Endpoints time.Duration `json:"endpointsNanos"`
	Emit      time.Duration `json:"emitNanos"`
	Compile   time.Duration `json:"compileNanos"`
	Validate  time.Duration `json:"validateNanos"`
	Write     time.Duration `json:"writeNanos"`
	Total     time.Duration `json:"totalNanos"`

	Objects     int `json:"objects"`
	Lowered     int `json:"lowered"`
	Linked      int `json:"linked"`
	Emitted     int `json:"emitted"`
	Resources   int `json:"resources"`
	Bytes       int `json:"resourceBytes"`
	Diagnostics int `json:"diagnostics"`

	begun time.Time
}

// finish writes the line when it is wanted.
func (t *timings) finish(a *app, wanted bool) error {
	if !wanted {
		return nil
	}
	t.Total = time.Since(t.begun)
	line, err := json.Marshal(t)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.err, "%s\n", line)
	return err
}

// collectRarely suits a command that compiles once and ends: a heap that may grow costs less than its collection (a tenth of the
// CPU time at 10,000 Mappings, for a tenth more memory). The first collection comes at 256 MB, most inputs need none; later ones
// when the heap is nine times what is in use. What it returns restores the setting.
func collectRarely() func() {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	const first, later = 64 * 100, 800 // percent, the first of the runtime's least heap of 4 MB
	before := debug.SetGCPercent(first)
	collected := runtime.AddCleanup(new([64]byte), func(percent int) { debug.SetGCPercent(percent) }, later)
	return func() {
		collected.Stop()
		debug.SetGCPercent(before)
	}
}

// compilePaths loads and compiles the paths from nothing.
func (a *app) compilePaths(ctx context.Context, paths []string) (*translators.Result, *timings, error) {
	t := &timings{begun: time.Now()}
	if err := a.loadPolicies(ctx); err != nil {
		return nil, nil, err
	}
	p := a.progress("reading " + describe(paths))
	s, err := files.Load(paths, a.in)
	p.done()
	if err != nil {
		return nil, nil, &status{exitUsage, err}
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, failure("interrupted")
	}
	t.Load = time.Since(t.begun)
	end, err := a.takeModules(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	defer end()
	p = a.progress("compiling")
	r := a.newCompiler().Compile(s)
	p.done()
	a.withModules(r)
	t.Admit, t.Lower, t.Link, t.Endpoints, t.Emit, t.Compile = r.Timings.Admit, r.Timings.Lower, r.Timings.Link, r.Timings.Endpoints, r.Timings.Emit, r.Timings.Total
	t.Objects, t.Lowered, t.Linked, t.Emitted = r.Counts.Objects, r.Counts.Lowered, r.Counts.Linked, r.Counts.Emitted
	t.Diagnostics = len(r.Diagnostics)
	for _, rs := range r.Resources {
		t.Resources += len(rs)
		for _, x := range rs {
			t.Bytes += len(x.Value)
		}
	}
	return r, t, nil
}

func describe(paths []string) string {
	if len(paths) == 1 {
		if paths[0] == "-" {
			return "standard input"
		}
		return filepath.Clean(paths[0])
	}
	return fmt.Sprintf("%d paths", len(paths))
}

// progress is a line on a terminal that says what takes long.
type progress struct {
	stop, stopped chan struct{}
}

// progress shows what is being done once that has taken a while; done takes the line away. Elsewhere than on a terminal it shows nothing.
func (a *app) progress(what string) *progress {
	if !terminal(a.err) {
		return &progress{}
	}
	p := &progress{stop: make(chan struct{}), stopped: make(chan struct{})}
	go func() {
		defer close(p.stopped)
		begun := time.Now()
		tick := time.NewTicker(300 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-p.stop:
				fmt.Fprint(a.err, "\r\x1b[K")
				return
			case <-tick.C:
				fmt.Fprintf(a.err, "\r\x1b[K%s ... %.1f s", what, time.Since(begun).Seconds())
			}
		}
	}()
	return p
}

func (p *progress) done() {
	if p.stop != nil {
		close(p.stop)
		<-p.stopped
	}
}
