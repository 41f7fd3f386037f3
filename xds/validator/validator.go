// Package validator proves configuration on a real Envoy that carries no traffic. It runs Envoy as a child in a network of
// its own, hands it one unit (or a chunk of them) per response over delta ADS, everything in flight, and takes Envoy's answer
// to each response as the verdict. One changed route costs a third of a millisecond, whatever else is served.
//
// The child keeps nothing from one verdict to the next: clusters and listeners are withdrawn, routes, secrets and extension
// settings go under probe names. So a child that a unit kills or hangs is replaced without ceremony, and whatever had no
// answer is judged again in lockstep, which finds the guilty exactly.
package validator

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// Confinement says whether the child has namespaces of its own.
type Confinement int

// The choices.
const (
	// Confine tries namespaces and does without where they are forbidden.
	Confine Confinement = iota
	// Unconfined never tries: listeners do not bind, names are not resolved, health checks are left out.
	Unconfined
)

// Options say which Envoy judges, and how.
type Options struct {
	// Envoy is the binary and Version what it says of itself; verdicts of another version are not believed.
	Envoy, Version string
	// Runtime are the entries of the traffic Envoy's static runtime layer, for they decide about verdicts.
	Runtime map[string]any
	// Dir keeps the verdicts between runs; "" for nowhere.
	Dir         string
	Confinement Confinement
	// Deadline is the time for one response, and DeadlinePerUnit what each unit in it adds; zero means 500 ms and 0.1 ms.
	Deadline, DeadlinePerUnit time.Duration
	Log                       *slog.Logger
}

// Verdicts is the outcome of one judgement.
type Verdicts struct {
	// Refused holds Envoy's sentence for each unit that it does not take.
	Refused map[*ir.Unit]string
	// Unjudged are the units about which nobody said anything, because no Envoy could be had.
	Unjudged []*ir.Unit
}

// Metrics are totals since the start.
type Metrics struct {
	// Judged counts units that Envoy was asked about, Refused those that it did not take, CacheHits those whose verdict was known.
	Judged, Refused, CacheHits uint64
	// Starts counts Envoys that came up, Deaths those that ended by themselves, Hangs those that were ended for not answering.
	Starts, Deaths, Hangs uint64
	// Responses counts what was sent for a verdict; Took is the time of all judgements.
	Responses uint64
	Took      time.Duration
}

// Status is the present state.
type Status struct {
	Running  bool `json:"running"`
	Confined bool `json:"confined"`
	PID      int  `json:"pid,omitempty"`
	// Problem says why there is no Envoy to ask; "" when there is one.
	Problem string `json:"problem,omitempty"`
	Metrics
}

// Validator judges units. All methods are safe for concurrent use; judgements take turns.
type Validator struct {
	options Options
	good    *good
	cache   *cache

	turn  sync.Mutex // held by a judgement
	child *child
	// own is what to try next.
	own       spaces
	notBefore time.Time
	pause     time.Duration

	mu      sync.Mutex
	status  Status
	closed  bool
	closing chan struct{}
	idle    sync.WaitGroup
}

// format is the version of how units are shown to Envoy, and with which flags; verdicts given to another format do not count.
const format = "3"

// The pause after a failed start, which doubles.
const (
	pauseMin = 250 * time.Millisecond
	pauseMax = 30 * time.Second
)

// New returns a validator that starts its Envoy when it is first asked. It fails when this machine cannot make a test certificate.
func New(o Options) (*Validator, error) {
	if o.Deadline == 0 {
		o.Deadline = 500 * time.Millisecond
	}
	if o.DeadlinePerUnit == 0 {
		o.DeadlinePerUnit = 100 * time.Microsecond
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	good, err := newGood()
	if err != nil {
		return nil, fmt.Errorf("validator: %w", err)
	}
	runtime, err := json.Marshal(o.Runtime) // keys are sorted
	if err != nil {
		return nil, fmt.Errorf("validator: runtime of Envoy: %w", err)
	}
	binary := ""
	if info, err := os.Stat(o.Envoy); err == nil {
		binary = fmt.Sprint(info.Size(), info.ModTime().UnixNano())
	}
	context := sha256.Sum256([]byte(format + "\x00" + o.Version + "\x00" + binary + "\x00" + string(runtime)))
	path := ""
	if o.Dir != "" {
		path = filepath.Join(o.Dir, "verdicts")
	}
	v := &Validator{options: o, good: good, cache: newCache(path, context), pause: pauseMin, closing: make(chan struct{})}
	if o.Confinement == Confine {
		v.own = ownUser
	}
	sweepFolders(o.Log)
	if path != "" {
		sweepFiles(path)
	}
	if err := v.cache.load(); err != nil && !missing(err) {
		o.Log.Warn("verdicts of the last run are not used", "file", path, "error", err)
	}
	return v, nil
}

// Close ends the Envoy and writes the verdicts down. Judgements that are under way end without one.
func (v *Validator) Close() error {
	v.mu.Lock()
	if v.closed {
		v.mu.Unlock()
		return nil
	}
	v.closed = true
	close(v.closing)
	v.mu.Unlock()
	v.turn.Lock()
	if v.child != nil {
		v.child.kill()
		<-v.child.dead
	}
	v.turn.Unlock()
	v.idle.Wait()
	return v.cache.save()
}

// Save writes new verdicts to the disk.
func (v *Validator) Save() error { return v.cache.save() }

// Status returns the present state and the totals.
func (v *Validator) Status() Status {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.status
}

func (v *Validator) count(change func(*Status)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	change(&v.status)
}

// Start makes sure that an Envoy runs, so that the first judgement does not wait for it.
func (v *Validator) Start(ctx context.Context) error {
	v.turn.Lock()
	defer v.turn.Unlock()
	_, err := v.running(ctx)
	return err
}

var errClosed = errors.New("the validator is closed")

// running returns the child, started anew when there is none. The caller has the turn.
func (v *Validator) running(ctx context.Context) (*child, error) {
	if v.child != nil && v.child.alive() {
		return v.child, nil
	}
	v.child = nil
	select {
	case <-v.closing:
		return nil, errClosed
	default:
	}
	if time.Now().Before(v.notBefore) {
		return nil, errors.New(v.Status().Problem)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-v.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	c, err := startChild(ctx, &v.options, v.good, v.own)
	for v.own != noSpaces && err != nil && forbidden(err) {
		v.options.Log.Info("the validating Envoy makes do with less of its own", "forbidden", v.own.String(), "instead", v.own.fewer().String(), "error", err)
		v.own = v.own.fewer()
		c, err = startChild(ctx, &v.options, v.good, v.own)
	}
	if err != nil {
		if ctx.Err() == nil {
			v.notBefore = time.Now().Add(v.pause)
			v.pause = min(2*v.pause, pauseMax)
		}
		v.count(func(s *Status) { s.Running, s.PID, s.Problem = false, 0, err.Error() })
		return nil, err
	}
	v.pause, v.child = pauseMin, c
	v.count(func(s *Status) {
		s.Running, s.Confined, s.PID, s.Problem, s.Starts = true, c.confined, c.pid, "", s.Starts+1
	})
	v.options.Log.Debug("validating Envoy started", "pid", c.pid, "confined", c.confined)
	v.idle.Go(func() { v.follow(c) })
	return c, nil
}

// follow replaces a child that ended while nobody was using it.
func (v *Validator) follow(c *child) {
	<-c.dead
	v.count(func(s *Status) {
		if c.hung.Load() {
			s.Hangs++
		} else {
			s.Deaths++
		}
		if s.PID == c.pid {
			s.Running, s.PID, s.Problem = false, 0, "the validating Envoy ended: "+c.exit
		}
	})
	pause := time.Duration(0)
	for {
		select {
		case <-v.closing:
			return
		case <-time.After(pause):
		}
		if !v.turn.TryLock() { // whoever has the turn starts one when he needs it
			pause = 100 * time.Millisecond
			continue
		}
		mine := v.child == c || v.child == nil
		var err error
		if mine {
			_, err = v.running(context.Background())
		}
		v.turn.Unlock()
		if !mine || err == nil {
			return
		}
		pause = max(pauseMin, time.Until(v.notBefore))
	}
}

// Judge returns the verdict over each unit. The error says why some could not be judged, nil when all were.
func (v *Validator) Judge(ctx context.Context, units []*ir.Unit) (Verdicts, error) {
	v.turn.Lock()
	defer v.turn.Unlock()
	begun := time.Now()
	j := &judgement{v: v, ctx: ctx, out: Verdicts{Refused: map[*ir.Unit]string{}}}
	err := j.run(units)
	v.count(func(s *Status) { s.Took += time.Since(begun) })
	return j.out, err
}
