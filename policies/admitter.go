// Package policies is the stage between the snapshot and the front ends: platform teams' rules admit, change or refuse
// objects before anything is made of them.
package policies

import (
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chancery-gateway/chancery/policies/api"
	"github.com/chancery-gateway/chancery/policies/decision"
	"github.com/chancery-gateway/chancery/policies/engine"
	"github.com/chancery-gateway/chancery/policies/index"
	"github.com/chancery-gateway/chancery/snapshot"
)

// Options configure an Admitter.
type Options struct {
	// Point is where the policies are asked.
	Point api.Point
	// Supply returns the newest revision of the operator's rules, nil for none. It must be cheap.
	Supply func() *Supply
	// Namespaces are those in which Policy and PolicyException objects speak for the platform; "" (no namespace) always does.
	Namespaces []string
	// AmbassadorID picks the objects that are for this installation; "" means "default".
	AmbassadorID string
	// Now is the clock, for the expiry of exceptions only; nil for the machine's.
	Now func() time.Time
	// Forgetful asks every policy about every object, even where all that it reads is as in another object.
	Forgetful bool
	// Decided is told of each verdict that changes; nil for nobody. It must not wait.
	Decided func(decision.Transition)
}

// Admitter turns a snapshot into the one that is compiled. It keeps what the next snapshot leaves unchanged; its answer is
// that of an Admitter that starts from nothing, except that policies with keepLastGood, and those that are out of order,
// leave an object in the form that was last admitted. It is not safe for concurrent use.
type Admitter struct {
	options Options
	loader  *engine.Loader
	counts  Counts
	// inForce is the set of the last Admit, for others to look at beside.
	inForce atomic.Pointer[engine.Set]

	active  bool
	last    *snapshot.Snapshot
	out     *snapshot.Snapshot
	supply  *Supply
	world   *world
	entries map[snapshot.Ref]*entry
	readers map[index.Key]map[snapshot.Ref]struct{}
	talking map[snapshot.Ref]*entry
	// expiry is when the next exception ends or comes near its end; zero for never.
	expiry time.Time
	// said are the findings of the last Admit; they stand while no verdict changes.
	said   []snapshot.Diagnostic
	merges map[claimed]*merged
	// vacated are the claims that an object left since they were settled.
	vacated  map[claimed]bool
	defaults *defaults
	review   *review
}

// Counts says how much work Admit did in all; tests assert on it instead of on time.
type Counts struct {
	// Evaluated is the number of objects about which policies were asked, Converted that of objects turned into values.
	Evaluated, Converted atomic.Int64
	// Loaded is the number of sets made, Compiled that of units of rules (the platform's, one for each tenant) compiled for them.
	Loaded, Compiled int
}

// New returns an admitter that has admitted nothing.
func New(o Options) *Admitter {
	if o.Supply == nil {
		o.Supply = func() *Supply { return nil }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	a := &Admitter{options: o, loader: engine.NewLoader()}
	a.reset()
	return a
}

func (a *Admitter) reset() {
	a.active, a.last, a.out, a.supply, a.world = false, snapshot.Empty(), snapshot.Empty(), nil, nil
	a.entries, a.readers, a.talking = map[snapshot.Ref]*entry{}, map[index.Key]map[snapshot.Ref]struct{}{}, map[snapshot.Ref]*entry{}
	a.expiry, a.merges, a.vacated, a.defaults = time.Time{}, map[claimed]*merged{}, map[claimed]bool{}, &defaults{}
}

// Counts returns the counters.
func (a *Admitter) Counts() *Counts { return &a.counts }

// Set returns the set in force, nil for none. It may be called beside Admit.
func (a *Admitter) Set() *engine.Set { return a.inForce.Load() }

// Fresh reports whether the last answer still stands for a snapshot in which nothing that policies see has changed: no new
// revision of the rules has come and no exception has ended.
func (a *Admitter) Fresh() bool {
	supply := a.options.Supply()
	if !a.active {
		return supply.Empty()
	}
	return supply == a.supply && (a.expiry.IsZero() || a.options.Now().Before(a.expiry))
}

// Admit returns the snapshot to compile, and what the policies found. Without any policy it returns s itself.
func (a *Admitter) Admit(s *snapshot.Snapshot) (*snapshot.Snapshot, []snapshot.Diagnostic) {
	supply := a.options.Supply()
	if supply.Empty() && !api.Any(s) {
		if a.active {
			a.inForce.Store(nil)
			a.reset()
		}
		return s, nil
	}
	now := a.options.Now()
	changes := s.Changes(a.last)
	renewed := !a.active || supply != a.supply || slices.ContainsFunc(changes, concernsWorld)
	if renewed {
		before := a.world
		a.world = a.newWorld(s, supply, before)
		a.inForce.Store(a.world.set)
		a.counts.Loaded++
		a.counts.Compiled = a.loader.Compiled
		if before == nil || a.world.index != before.index {
			for _, e := range a.entries {
				e.stale = true
			}
			a.world.index.Update(a.last.Changes(snapshot.Empty()))
		}
	}
	a.active, a.supply, a.last = true, supply, s
	keys := a.world.index.Update(changes)
	dirty, claims := a.concerned(changes, keys), a.staleClaims(keys)
	if renewed {
		dirty = everything(s, dirty)
	}
	put, remove := a.passThrough(changes)
	a.world.set.BeginPass()
	decided := a.judge(s, dirty)
	if !a.expiry.IsZero() && !now.Before(a.expiry) || renewed {
		a.expiry = a.world.nextExpiry(now)
		decided = append(decided, slices.Collect(maps.Values(a.talking))...)
		if renewed {
			decided = slices.SortedFunc(maps.Values(a.entries), func(x, y *entry) int { return x.object.Ref.Compare(y.object.Ref) })
		}
	}
	vacated := len(a.vacated) > 0
	for _, e := range decided {
		a.decide(e, now)
	}
	p, r := a.settle(decided, claims, now)
	put, remove = append(put, p...), append(remove, r...)
	out := a.out.Derive(put, remove, s.Findings())
	a.out.Forget()
	a.out = out
	if renewed || vacated || len(decided)+len(dirty)+len(claims) > 0 {
		a.said = a.findings(now)
	}
	return out, a.said
}

// concernsWorld reports whether a change is about policies, tenancy or exceptions.
func concernsWorld(c snapshot.Change) bool {
	k := c.Ref().GroupKind()
	return k == api.KindPolicy || k == api.KindTenant || k == api.KindException || k == snapshot.KindNamespace
}

// Judged reports whether policies are asked about objects of the kind. Secrets are never shown to rules, endpoints are too
// many, and policies do not govern themselves.
func Judged(k snapshot.GroupKind) bool {
	switch k {
	case snapshot.KindSecret, snapshot.KindEndpoints, snapshot.KindEndpointSlice, api.KindPolicy, api.KindTenant, api.KindException:
		return false
	}
	return true
}

// passThrough returns the changes of objects that no policy is asked about.
func (a *Admitter) passThrough(changes []snapshot.Change) (put []*snapshot.Object, remove []snapshot.Ref) {
	for _, c := range changes {
		switch {
		case c.New == nil:
			remove = append(remove, c.Ref())
		case !Judged(c.Ref().GroupKind()):
			put = append(put, c.New)
		}
	}
	return put, remove
}

func everything(s *snapshot.Snapshot, all map[snapshot.Ref]struct{}) map[snapshot.Ref]struct{} {
	for _, k := range s.Kinds() {
		if Judged(k) {
			for o := range s.List(k) {
				all[o.Ref] = struct{}{}
			}
		}
	}
	return all
}

// concerned returns the objects that changed and those whose verdict depends on what changed.
func (a *Admitter) concerned(changes []snapshot.Change, keys map[index.Key]struct{}) map[snapshot.Ref]struct{} {
	dirty := map[snapshot.Ref]struct{}{}
	for _, c := range changes {
		if Judged(c.Ref().GroupKind()) {
			dirty[c.Ref()] = struct{}{}
		}
	}
	for k := range keys {
		for r := range a.readers[k] {
			dirty[r] = struct{}{}
			if e := a.entries[r]; e != nil {
				e.stale = true
			}
		}
	}
	return dirty
}

// judge brings the entries of the objects up to date, on all cores, and returns those that were asked anew, by reference.
func (a *Admitter) judge(s *snapshot.Snapshot, dirty map[snapshot.Ref]struct{}) []*entry {
	refs := slices.SortedFunc(maps.Keys(dirty), snapshot.Ref.Compare)
	todo := make([]*entry, 0, len(refs))
	for _, ref := range refs {
		o := s.Get(ref.GroupKind(), ref.Namespace, ref.Name)
		if o == nil {
			if e := a.entries[ref]; e != nil {
				a.leave(e, a.vacated)
				delete(a.merges, defaultsOf(ref))
				a.forget(e)
			}
			continue
		}
		if e := a.renew(o); e != nil {
			todo = append(todo, e)
		}
	}
	for {
		quarantined := a.world.quarantined()
		parallel(len(todo), func(i int) { a.ask(todo[i]) })
		if a.world.quarantined() == quarantined {
			break
		}
		// A policy has just been quarantined: what it was asked, it was not asked.
		asked := map[snapshot.Ref]bool{}
		for _, e := range todo {
			asked[e.object.Ref] = true
		}
		for _, ref := range slices.SortedFunc(maps.Keys(a.entries), snapshot.Ref.Compare) {
			if !asked[ref] {
				if e := a.renew(a.entries[ref].object); e != nil {
					todo = append(todo, e)
				}
			}
		}
		for i, e := range todo {
			if n := a.renew(e.object); n != nil {
				todo[i] = n
			}
		}
	}
	for _, e := range todo {
		reads := e.reads
		e.reads = nil
		a.note(e, reads)
	}
	return todo
}

// note remembers that the verdict on the object depends on the entries of the index.
func (a *Admitter) note(e *entry, keys []index.Key) {
	for _, k := range keys {
		if a.readers[k] == nil {
			a.readers[k] = map[snapshot.Ref]struct{}{}
		}
		a.readers[k][e.object.Ref] = struct{}{}
	}
	e.reads = append(e.reads, keys...)
}

// renew returns a new entry for the object when the present one cannot stay, else nil.
func (a *Admitter) renew(o *snapshot.Object) *entry {
	old := a.entries[o.Ref]
	q := a.world.question(o)
	if old != nil && old.object == o && !old.stale && old.question.key == q.key {
		old.question = q
		return nil
	}
	e := &entry{object: o, question: q}
	if old != nil {
		if old.object == o {
			e.document = old.document
		}
		e.verdict, e.admitted, e.candidate, e.claim, e.under = old.verdict, old.admitted, old.candidate, old.claim, old.under
		e.withdrawn = old.withdrawn
		a.forget(old)
	}
	a.entries[o.Ref] = e
	return e
}

func (a *Admitter) forget(e *entry) {
	delete(a.entries, e.object.Ref)
	delete(a.talking, e.object.Ref)
	for _, k := range e.reads {
		delete(a.readers[k], e.object.Ref)
		if len(a.readers[k]) == 0 {
			delete(a.readers, k)
		}
	}
}

// parallel calls do for 0 to n-1 on all cores.
func parallel(n int, do func(i int)) {
	workers := min(runtime.GOMAXPROCS(0), n)
	if workers < 2 {
		for i := range n {
			do(i)
		}
		return
	}
	var next atomic.Int64
	var done sync.WaitGroup
	for range workers {
		done.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	done.Wait()
}

// findings gathers what there is to say about policies and objects.
func (a *Admitter) findings(now time.Time) []snapshot.Diagnostic {
	out := slices.Clone(a.world.findings)
	out = append(out, a.world.exceptionFindings(now)...)
	for _, e := range a.talking {
		out = append(out, e.verdict.findings...)
	}
	for _, m := range a.merges {
		out = append(out, m.findings...)
	}
	for _, p := range a.world.set.Policies {
		if p.Quarantined() {
			out = append(out, quarantineFinding(p))
		}
	}
	return snapshot.SortDiagnostics(out)
}
