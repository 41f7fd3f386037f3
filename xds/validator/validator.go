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
	"slices"
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
	// confine is what to try next.
	confine   bool
	notBefore time.Time
	pause     time.Duration

	mu      sync.Mutex
	status  Status
	closed  bool
	closing chan struct{}
	idle    sync.WaitGroup
}

// format is the version of how units are shown to Envoy; verdicts given to another format do not count.
const format = "1"

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
	v := &Validator{options: o, good: good, cache: newCache(path, context), confine: o.Confinement == Confine, pause: pauseMin, closing: make(chan struct{})}
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
	c, err := startChild(ctx, &v.options, v.good, v.confine)
	if v.confine && err != nil && forbidden(err) {
		v.options.Log.Info("namespaces are forbidden here; the validating Envoy runs without a network of its own", "error", err)
		v.confine = false
		c, err = startChild(ctx, &v.options, v.good, false)
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

// judgement is one call of Judge.
type judgement struct {
	v   *Validator
	ctx context.Context
	out Verdicts
	// same are the further units of a content that is judged once.
	same map[key][]*ir.Unit
}

// order is the order of judgement: what others stand in or refer to comes first.
var order = []ir.UnitKind{ir.UnitSecret, ir.UnitExtension, ir.UnitCluster, ir.UnitHost, ir.UnitRoute, ir.UnitListener, ir.UnitChain}

func (j *judgement) run(units []*ir.Unit) error {
	byKind := map[ir.UnitKind][]*candidate{}
	j.same = make(map[key][]*ir.Unit, len(units))
	hits := uint64(0)
	for _, u := range units {
		k := j.v.cache.key(u)
		if others, seen := j.same[k]; seen {
			j.same[k] = append(others, u)
			continue
		}
		if text, known := j.v.cache.get(k); known {
			hits++
			if text != "" {
				j.out.Refused[u] = text
			}
			continue
		}
		j.same[k] = nil
		c := &candidate{unit: u, key: k, inspection: inspect(u)}
		if u.Kind == ir.UnitCluster && u.Name == adsCluster {
			c.refusal = "the name is the validator's own"
		}
		if c.refusal != "" {
			j.settle(c, c.refusal, false)
			continue
		}
		byKind[u.Kind] = append(byKind[u.Kind], c)
	}
	j.v.count(func(s *Status) { s.CacheHits += hits })
	var all []*candidate
	for _, kind := range order {
		all = append(all, byKind[kind]...)
	}
	if len(all) == 0 {
		return nil
	}
	err := j.judge(all)
	if err == nil {
		return nil
	}
	judged := func(u *ir.Unit) bool {
		_, known := j.v.cache.get(j.v.cache.key(u))
		return known || j.out.Refused[u] != ""
	}
	for _, c := range all {
		if !judged(c.unit) {
			j.out.Unjudged = append(append(j.out.Unjudged, c.unit), j.same[c.key]...)
		}
	}
	return err
}

// settle records a verdict; text is "" for accepted.
func (j *judgement) settle(c *candidate, text string, volatile bool) {
	if !c.files {
		j.v.cache.add(c.key, text, volatile)
	}
	if text == "" {
		return
	}
	n := uint64(1)
	j.out.Refused[c.unit] = text
	for _, u := range j.same[c.key] {
		j.out.Refused[u] = text
		n++
	}
	j.v.count(func(s *Status) { s.Refused += n })
}

// judge shows everything to Envoy: what runs no code all at once, in chunks, then the members of refused chunks, each alone;
// in lockstep what runs code, and what had no answer when the child ended.
func (j *judgement) judge(all []*candidate) error {
	j.v.count(func(s *Status) { s.Judged += uint64(len(all)) })
	var quick, slow [][]*candidate
	for i := 0; i < len(all); {
		k := i + 1
		for k < len(all) && all[k].unit.Kind == all[i].unit.Kind && all[k].careful == all[i].careful && !all[i].careful {
			k++
		}
		if all[i].careful {
			slow = append(slow, all[i:k])
		} else {
			quick = append(quick, chunked(all[i:k])...)
		}
		i = k
	}
	for _, size := range []int{chunk, 1} {
		if len(quick) == 0 {
			break
		}
		refused, lost, err := j.inFlight(quick)
		if err != nil {
			return err
		}
		slow = append(slow, lost...)
		quick = nil
		for _, cs := range refused {
			quick = append(quick, singles(cs)...)
		}
		if size == 1 && len(quick) > 0 {
			return errors.New("a unit alone was taken for several") // cannot be: those alone are settled
		}
	}
	for _, cs := range slow {
		if err := j.lockstep(cs); err != nil {
			return err
		}
	}
	return nil
}

func singles(cs []*candidate) [][]*candidate {
	out := make([][]*candidate, len(cs))
	for i := range cs {
		out[i] = cs[i : i+1]
	}
	return out
}

// inFlight sends every group at once. It returns the groups that were refused but have several members, and those without an answer.
func (j *judgement) inFlight(groups [][]*candidate) (refused, lost [][]*candidate, err error) {
	c, err := j.v.running(j.ctx)
	if err != nil {
		return nil, nil, err
	}
	j.v.count(func(s *Status) { s.Responses += uint64(len(groups)) })
	probes := make([]*probe, 0, len(groups))
	for i, cs := range groups {
		p, err := c.submit(cs, j.v.options.budget(len(cs)))
		probes = append(probes, p)
		if err != nil { // the child is gone
			c.kill()
			<-c.dead
			lost = append(lost, groups[i+1:]...)
			break
		}
	}
	for _, p := range probes {
		switch {
		case !c.wait(p):
			lost = append(lost, p.candidates)
		case p.refusal == "":
			for _, x := range p.candidates {
				j.settle(x, "", false)
			}
		case len(p.candidates) == 1:
			j.settle(p.candidates[0], p.refusal, false)
		default:
			refused = append(refused, p.candidates)
		}
	}
	for _, r := range c.withdrawals() {
		if c.send(r, nil) != nil {
			break // the child is gone, and what it held with it
		}
	}
	return refused, lost, nil
}

// patience multiplies the deadline of a unit that is judged alone, so that a busy machine convicts nobody.
const patience = 2

// lockstep judges one group with nothing else in flight, so that the end of the child has one cause; then its members alone. A
// unit is guilty of ending the child only when it does so twice: something else may have ended it once.
func (j *judgement) lockstep(cs []*candidate) error {
	budget := j.v.options.budget(len(cs))
	if len(cs) == 1 {
		budget *= patience
	}
	for try := 0; ; try++ {
		c, err := j.v.running(j.ctx)
		if err != nil {
			return err
		}
		if err := j.ctx.Err(); err != nil {
			return err
		}
		j.v.count(func(s *Status) { s.Responses++ })
		p, err := c.submit(cs, budget)
		if err != nil {
			c.kill()
		}
		if c.wait(p) {
			for _, r := range c.withdrawals() {
				if c.send(r, nil) != nil {
					break // the child is gone, and what it held with it
				}
			}
			switch {
			case p.refusal == "":
				for _, x := range cs {
					j.settle(x, "", false)
				}
			case len(cs) == 1:
				j.settle(cs[0], p.refusal, false)
			default:
				return j.each(cs)
			}
			return nil
		}
		if len(cs) > 1 {
			return j.each(cs)
		}
		if try == 0 {
			continue
		}
		if c.hung.Load() {
			j.settle(cs[0], fmt.Sprintf("Envoy does not answer any more once it has loaded this (waited for %s)", budget), true)
		} else {
			j.settle(cs[0], "Envoy ends when it loads this: "+c.exit, false)
		}
		return nil
	}
}

func (j *judgement) each(cs []*candidate) error {
	for _, one := range singles(cs) {
		if err := j.lockstep(slices.Clone(one)); err != nil {
			return err
		}
	}
	return nil
}
