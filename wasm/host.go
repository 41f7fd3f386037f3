// Package wasm hosts translators: WebAssembly modules that lower kinds which the core does not know, and change the linked
// program and Envoy's resources, inside the scope that they were granted. Modules come and go while the program runs; what
// a module does can never break the live set.
//
// Host takes specs, and turns each into a live module in stages: fetch, verify, inspect, compile, self-test, shadow run,
// promotion. A stage that fails leaves the live module as it is. Acquire hands out the present set of modules; a compile
// holds one set from start to end and gives it back.
package wasm

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/fault"
	"github.com/chancery-gateway/chancery/wasm/trust"
)

// Config configures a Host. The zero value is usable.
type Config struct {
	Logger *slog.Logger
	// Trust judges signatures; nil trusts no key and asks for no signature.
	Trust *trust.Root
	// CacheDir holds compiled code and fetched modules across restarts. It must be private to this user (mode 0700), and
	// is made so when it does not exist. "" keeps nothing.
	CacheDir string
	// Workers is the number of modules that are compiled at a time (default 1; each uses two threads), CompileTime the
	// time that one may take (default 1 min).
	Workers     int
	CompileTime time.Duration
	// Keep is the number of earlier versions of each module that stay compiled for a rollback (default 2).
	Keep int
	// Poll is how often sources are looked at for a change; 0 looks only when Apply or Look says so.
	Poll time.Duration
	// Watch is how long a new version is watched after its promotion (default 10 min), and what it is rolled back for.
	Watch Watch
	// Validate judges a unit that a module changed: u is the unit as it was given to Run (in a shadow run: to the module),
	// items what became of it. nil takes everything.
	Validate func(ctx context.Context, p abi.Phase, u *Unit, items []abi.Item) error
	// Sample returns units of the present input, to try new modules on; nil for none.
	Sample func(p abi.Phase) []Unit
	// Changed is called after the set of modules changed.
	Changed func()
	// Now is the clock; nil is time.Now.
	Now func() time.Time

	// backoff is the pause after a first failure that may pass; tests shorten it.
	backoff time.Duration
	// since says how long a call took; nil is the processor's time. Tests put their own in.
	since func(start time.Time) time.Duration
}

// Watch says what a module is rolled back for after its promotion.
type Watch struct {
	// Time is how long; negative means not at all.
	Time time.Duration
	// Failures is the number of failed calls (default 3).
	Failures int
	// Slowdown is the factor by which the mean fuel or time of a call may exceed the predecessor's (default 10; judged
	// after 20 calls).
	Slowdown float64
}

const (
	watchCalls  = 20
	backoffMost = 5 * time.Minute
	keptRefused = 100
)

// Host runs the lives of modules.
type Host struct {
	config  Config
	log     *slog.Logger
	ctx     context.Context
	cancel  context.CancelFunc
	group   sync.WaitGroup
	slots   chan struct{}
	cache   *cache
	changes chan struct{}

	mu    sync.Mutex
	lines map[string]*line
	codes map[codeKey]*codeEntry
	set   *Set
}

// NewHost returns a host without modules. An error is returned for a cache folder that can't be used.
func NewHost(config Config) (*Host, error) {
	config.Workers = cmp.Or(config.Workers, 1)
	config.CompileTime = cmp.Or(config.CompileTime, time.Minute)
	config.Keep = cmp.Or(config.Keep, 2)
	config.Watch.Time = cmp.Or(config.Watch.Time, 10*time.Minute)
	config.Watch.Failures = cmp.Or(config.Watch.Failures, 3)
	config.Watch.Slowdown = cmp.Or(config.Watch.Slowdown, 10)
	config.backoff = cmp.Or(config.backoff, time.Second)
	if config.Now == nil {
		config.Now = time.Now
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.Trust == nil {
		config.Trust = &trust.Root{}
	}
	c, err := openCache(config.CacheDir, config.Now)
	if err != nil {
		return nil, err
	}
	h := &Host{
		config:  config,
		log:     config.Logger,
		slots:   make(chan struct{}, config.Workers),
		cache:   c,
		changes: make(chan struct{}, 1),
		lines:   map[string]*line{},
		codes:   map[codeKey]*codeEntry{},
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.set = &Set{host: h, refs: 1}
	h.group.Go(h.announce)
	return h, nil
}

// announce tells the owner of changes of the set, one call at a time.
func (h *Host) announce() {
	for {
		select {
		case <-h.changes:
			if h.config.Changed != nil {
				h.config.Changed()
			}
		case <-h.ctx.Done():
			return
		}
	}
}

// Apply makes the specs the wanted state: new ones are brought up, changed ones replaced, and those that are not named
// are removed. It returns the specs' own errors by name; a spec with an error leaves an earlier one of its name as it is.
// The work itself goes on in the background; see Status and Settle.
func (h *Host) Apply(specs []Spec) map[string]error {
	errs := map[string]error{}
	h.mu.Lock()
	defer h.mu.Unlock()
	named := map[string]bool{}
	for _, s := range specs {
		err := s.check()
		if err == nil && named[s.Name] {
			err = fault.New(fault.Spec, "name: %s is configured twice", escape(s.Name, 100))
		}
		named[s.Name] = true
		if err != nil {
			errs[s.Name] = err
		}
		l := h.lines[s.Name]
		if l == nil {
			l = newLine(h, s)
			h.lines[s.Name] = l
			if err == nil {
				l.start()
			}
		} else if err == nil {
			l.update(s)
		}
		l.specErr = err
	}
	removed := false
	for name, l := range h.lines {
		if !named[name] {
			l.cancel()
			delete(h.lines, name)
			removed = removed || l.live != nil
			defer h.drop(l.release()...)
		}
	}
	if removed {
		h.rebuild()
	}
	return errs
}

// Look makes the host look at the named module's source now, or at all when no name is given.
func (h *Host) Look(names ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, l := range h.lines {
		if len(names) == 0 || slices.Contains(names, name) {
			l.poke()
		}
	}
}

// Acquire returns the present set. Release must be called when the compile is done.
func (h *Host) Acquire() *Set {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.set.refs++
	return h.set
}

// Release gives the set back. Modules that no set holds any more are closed.
func (s *Set) Release() {
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	s.host.unref(s)
}

func (h *Host) unref(s *Set) {
	if s.refs--; s.refs == 0 {
		h.drop(s.modules...)
	}
}

// rebuild makes a new set of what is live and puts it in the place of the present one. The mutex is held.
func (h *Host) rebuild() {
	next := &Set{host: h, refs: 1}
	for _, l := range h.lines {
		if l.live != nil {
			l.live.refs++
			next.modules = append(next.modules, l.live)
		}
	}
	slices.SortFunc(next.modules, func(a, b *module) int { return strings.Compare(a.spec.Name, b.spec.Name) })
	old := h.set
	h.set = next
	h.unref(old)
	select {
	case h.changes <- struct{}{}:
	default:
	}
}

// drop takes one reference from each module, and closes those that have none left, with the code that no module has any
// more. The mutex is held; the closing itself waits for nobody, as nothing of what is closed is running.
func (h *Host) drop(modules ...*module) {
	for _, m := range modules {
		if m.refs--; m.refs > 0 {
			continue
		}
		m.close()
		h.dropCode(m.code)
	}
}

// Close stops everything and frees it. Sets that are still leased stay usable until they are released.
func (h *Host) Close() {
	h.cancel()
	h.group.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.lines {
		defer h.drop(l.release()...)
	}
	h.lines = map[string]*line{}
	h.rebuild()
}
