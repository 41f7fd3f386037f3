// Package modules joins the room of WebAssembly modules to the compiler: it makes units of objects, of the linked program and
// of Envoy's resources, puts them through the present set of modules, and reads the results back.
package modules

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/ir"
	"github.com/chancery-gateway/chancery/wasm"
	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/trust"
)

// Options configure Modules.
type Options struct {
	// Folder is a folder of modules, "" for none. Namespaces are those whose Translator objects count.
	Folder     string
	Namespaces []string
	// Specs are further modules.
	Specs []wasm.Spec
	// Ask has modules that can say what is wrong with objects before they are compiled (validate) do so in every compile.
	Ask bool
	// Once says that one compile is all there is: nobody minds which versions were live before.
	Once bool
	// CacheDir keeps compiled code between runs, "" for not.
	CacheDir string
	Trust    *trust.Root
	Log      *slog.Logger
	// Poll is how often remote sources are looked at; 0 for only when something changed.
	Poll time.Duration
}

// Modules is a translators.Extender over a host of modules. One compiler uses it at a time.
type Modules struct {
	options Options
	host    *wasm.Host
	poke    chan struct{}
	stale   atomic.Bool
	looks   atomic.Bool // some module looks at endpoints

	kinds   kinds
	nodes   nodes
	results resources
	asked   map[askedUnit]asked
	aside   bool

	mu    sync.Mutex
	last  present
	specs specs
	retry *time.Timer
}

// present is what the last compile was made of, to try new modules on.
type present struct {
	snapshot *snapshot.Snapshot
	known    func(snapshot.GroupKind) bool
	program  *ir.Program
	set      ir.ResourceSet
}

// New returns modules without any. An error is returned for a cache folder that cannot be used.
func New(o Options) (*Modules, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	m := &Modules{options: o, poke: make(chan struct{}, 1)}
	host, err := wasm.NewHost(wasm.Config{
		Logger: o.Log, Trust: o.Trust, CacheDir: o.CacheDir, Poll: o.Poll, Validate: validate, Sample: m.sample,
		Changed: func() { m.stale.Store(true); m.wake() },
	})
	if err != nil {
		return nil, err
	}
	m.host = host
	return m, nil
}

// Host returns the host, for status and for rolling back.
func (m *Modules) Host() *wasm.Host { return m.host }

// Close ends all modules.
func (m *Modules) Close() {
	m.mu.Lock()
	if m.retry != nil {
		m.retry.Stop()
	}
	m.mu.Unlock()
	m.host.Close()
}

// Changed is sent on when a compile would come out differently: another set of modules, or one that is to be tried again.
func (m *Modules) Changed() <-chan struct{} { return m.poke }

func (m *Modules) wake() {
	select {
	case m.poke <- struct{}{}:
	default:
	}
}

// Fresh implements translators.Extender.
func (m *Modules) Fresh() bool { return !m.stale.Load() && !m.looks.Load() }

// Begin implements translators.Extender.
func (m *Modules) Begin() translators.Extension {
	m.stale.Store(false)
	set := m.host.Acquire()
	r := &run{modules: m, set: set, on: set}
	if m.aside {
		r.on = set.Aside()
	}
	for _, p := range []abi.Phase{abi.Lower, abi.IR, abi.XDS} {
		r.reads[index(p)] = newReads(set, p)
	}
	m.looks.Store(r.reads[index(abi.XDS)].has(kindPrefixXDS + endpointMessage))
	return r
}

// Aside returns an extender for compiles that are not published: the modules do in them what they do in all, but what they
// did is remembered apart and reported to nobody. Those that can are asked for what is wrong with objects (see Options.Ask).
func (m *Modules) Aside() translators.Extender {
	o := m.options
	o.Ask = true
	return &Modules{options: o, host: m.host, poke: make(chan struct{}, 1), aside: true}
}

func index(p abi.Phase) int {
	switch p {
	case abi.Lower:
		return 0
	case abi.IR:
		return 1
	}
	return 2
}

// run is one compile.
type run struct {
	modules *Modules
	set     *wasm.Set // held until End
	on      *wasm.Set // what units are run on
	reads   [3]reads
	present present
	writes  [][]translators.Written // one list per unit
	failed  bool
}

// End implements translators.Extension.
func (r *run) End() [][]translators.Written {
	m := r.modules
	r.set.Release()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = r.present
	if m.retry != nil {
		m.retry.Stop()
		m.retry = nil
	}
	if r.failed {
		wait := 5 * time.Second
		for _, s := range m.host.Status() {
			if left := time.Until(s.ProbeAt); s.Breaker != wasm.Closed && s.Breaker != "" && left > 0 {
				wait = min(wait, left+10*time.Millisecond)
			}
		}
		m.retry = time.AfterFunc(max(wait, 100*time.Millisecond), func() { m.stale.Store(true); m.wake() })
	}
	return r.writes
}

// sampled bounds the units that a new module is tried on.
const sampled = 64

// sample returns units of the last compile.
func (m *Modules) sample(p abi.Phase) []wasm.Unit {
	m.mu.Lock()
	last := m.last
	m.mu.Unlock()
	if last.snapshot == nil {
		return nil
	}
	units := last.units(p)
	return units[:min(len(units), sampled)]
}

// units returns all units of a phase.
func (last present) units(p abi.Phase) []wasm.Unit {
	var units []wasm.Unit
	all := reads{all: true}
	switch p {
	case abi.Lower:
		units = kindUnits(last.snapshot, last.known, all)
	case abi.IR:
		if last.program != nil {
			var n nodes
			for _, u := range n.units(last.snapshot, last.program, all) {
				units = append(units, u.unit)
			}
		}
	case abi.XDS:
		var rs resources
		for _, u := range rs.units(last.set, all) {
			units = append(units, u.unit)
		}
	}
	return units
}

// Units returns the units of a phase that modules would be given of a result.
func Units(r *translators.Result, known func(snapshot.GroupKind) bool, p abi.Phase) []wasm.Unit {
	return present{r.Admitted, known, r.Program, r.Resources}.units(p)
}

// runUnits puts units through a phase.
func (r *run) runUnits(p abi.Phase, units []wasm.Unit) []wasm.Outcome {
	out := r.on.Run(context.Background(), p, units)
	if r.modules.options.Ask && r.on.Asks(p) {
		r.ask(p, units, out)
	}
	return out
}
