package translators

import (
	"slices"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/envoy"
	"github.com/chancery-gateway/chancery/translators/ir"
	"github.com/chancery-gateway/chancery/translators/linker"
)

// Options configure a Compiler.
type Options struct {
	// FrontEnds lower the source objects; each kind belongs to one of them.
	FrontEnds []FrontEnd
	// Admitter decides which objects the front ends see, and in which form; nil admits all as they are.
	Admitter Admitter
	// Extender changes what is made between the stages; nil changes nothing.
	Extender Extender
	// Locate moves a diagnostic's position from the object's first line to the field's own; may be nil.
	Locate func(o *snapshot.Object, d *snapshot.Diagnostic)
	// EnvoyVersion is the version of the Envoy that is written for, such as "1.36.4"; "" means the newest that is known.
	EnvoyVersion string
}

// Admitter stands between the snapshot and the front ends. The compiler asks; policies answer.
type Admitter interface {
	// Admit returns the snapshot to compile in place of s, and what there is to say about objects that were refused or
	// changed. Objects that it leaves alone keep their pointers.
	Admit(s *snapshot.Snapshot) (*snapshot.Snapshot, []snapshot.Diagnostic)
	// Fresh reports whether the last answer stands for a snapshot in which nothing but endpoints has changed.
	Fresh() bool
}

// Compiler turns snapshots into results and keeps whatever the next snapshot leaves unchanged. Its answers depend on the
// snapshot alone, never on what it compiled before. It is not safe for concurrent use.
type Compiler struct {
	options   Options
	byKind    map[snapshot.GroupKind]FrontEnd
	given     *snapshot.Snapshot // the last one
	last      *snapshot.Snapshot // what was admitted of it
	entries   map[snapshot.Ref]*entry
	readers   map[snapshot.Ref]*readers
	listed    map[snapshot.GroupKind]int
	findings  findings
	statuses  statuses
	linker    *linker.Linker
	linked    linker.Linked
	endpoints *endpointTable
	emitter   *envoy.Emitter
	extended  extended
}

// entry is the memo of one lowering: what came out, and everything that was read for it.
type entry struct {
	ref       snapshot.Ref
	fragments *ir.Fragments
	refs      []snapshot.Ref
	kinds     []snapshot.GroupKind
}

// ambientGroup is the group of the references that stand for what a front end makes of the input as a whole.
const ambientGroup = "chancery.dev/ambient"

// New returns a compiler that has compiled the empty snapshot.
func New(o Options) *Compiler {
	c := &Compiler{
		options:   o,
		byKind:    map[snapshot.GroupKind]FrontEnd{},
		given:     snapshot.Empty(),
		last:      snapshot.Empty(),
		entries:   map[snapshot.Ref]*entry{},
		readers:   map[snapshot.Ref]*readers{},
		listed:    map[snapshot.GroupKind]int{},
		findings:  newFindings(o.Locate),
		statuses:  newStatuses(),
		linker:    linker.New(),
		endpoints: newEndpointTable(),
		emitter:   envoy.NewEmitter(envoy.Options{Version: o.EnvoyVersion}),
	}
	for _, f := range o.FrontEnds {
		for _, k := range f.Kinds() {
			c.byKind[k] = f
		}
	}
	return c
}

// Compile brings everything up to the snapshot. It never fails: what is wrong is in the result's diagnostics, and the
// rest is compiled.
func (c *Compiler) Compile(s *snapshot.Snapshot) *Result {
	start := time.Now()
	r := &Result{Snapshot: s, Admitted: s}
	var x Extension
	if c.options.Extender != nil {
		x = c.options.Extender.Begin()
	}
	var refused []snapshot.Diagnostic
	var low Lowered
	r.Admitted, low = c.extend(x, s)
	if c.options.Admitter != nil {
		r.Admitted, refused = c.options.Admitter.Admit(r.Admitted)
	}
	r.Admitted = c.admitted(r.Admitted, &low)
	c.given, s = s, r.Admitted
	admitted := time.Now()
	changes := s.Changes(c.last)
	edits := append(c.lower(s, changes), c.foreign(low.Fragments)...)
	r.Counts.Lowered, r.Counts.Objects = len(edits), len(c.entries)-len(c.options.FrontEnds) // each has its ambient entry
	lowered := time.Now()
	c.linked = c.linker.Link(edits)
	r.Counts.Linked = c.linked.Groups
	linkedAt := time.Now()
	r.Program = c.linked.Program
	r.Program.EndpointSets = c.endpoints.update(s, c.linked.Requests, changes)
	r.Counts.EndpointSets = c.endpoints.made
	endpointsAt := time.Now()
	extending := low.Diagnostics
	if x != nil {
		var found []snapshot.Diagnostic
		r.Program, found = x.Link(s, r.Program)
		extending = append(extending, found...)
	}
	out := c.emitter.Emit(r.Program)
	if x != nil {
		extending = append(extending, c.rewrite(x, s, &out)...)
		r.Written = x.End()
	}
	r.Resources = out.Resources
	r.Changed = out.Changed
	r.Counts.Emitted = out.Emitted
	heard := r.Snapshot.Findings()
	if low.Answered != nil {
		heard = slices.DeleteFunc(slices.Clone(heard), low.Answered)
	}
	c.statuses.refuse(c.linked.Refused)
	c.statuses.keepAway(c.linked.RefusedRoutes)
	r.Statuses = c.statuses.list()
	r.Diagnostics = c.findings.list(r.Snapshot, changes, heard, refused, extending, c.linked.Diagnostics, out.Diagnostics)
	c.last = s
	if c.extended.snapshot != r.Snapshot {
		c.extended.snapshot.Forget()
	}
	end := time.Now()
	r.Timings = Timings{Admit: admitted.Sub(start), Lower: lowered.Sub(admitted), Link: linkedAt.Sub(lowered), Endpoints: endpointsAt.Sub(linkedAt), Emit: end.Sub(endpointsAt), Total: end.Sub(start)}
	return r
}

// Refuse makes the next compiles do without these units of earlier results; texts holds Envoy's sentence for each.
func (c *Compiler) Refuse(texts map[*ir.Unit]string) { c.emitter.Refuse(texts) }

// Endpoints is the fast path: when nothing but endpoints changed since the last snapshot, it brings those up to date past
// all other stages and returns the endpoint resources that differ. ok is false when a Compile is needed instead.
func (c *Compiler) Endpoints(s *snapshot.Snapshot) (changed []*ir.Resource, ok bool) {
	if c.options.Admitter != nil && !c.options.Admitter.Fresh() {
		return nil, false
	}
	if c.options.Extender != nil && !c.options.Extender.Fresh() {
		return nil, false
	}
	changes := s.Changes(c.given)
	for _, ch := range changes {
		k := ch.Ref().GroupKind()
		if k != snapshot.KindEndpointSlice && k != snapshot.KindEndpoints || c.listed[k] > 0 || c.readers[ch.Ref()] != nil {
			return nil, false
		}
	}
	e := &c.extended
	if len(e.objects) > 0 {
		put, gone := make([]*snapshot.Object, 0, len(changes)), []snapshot.Ref(nil)
		for _, ch := range changes {
			if ch.New != nil {
				put = append(put, ch.New)
			} else {
				gone = append(gone, ch.Ref())
			}
		}
		e.snapshot = e.snapshot.Derive(put, gone, s.Findings())
		defer e.snapshot.Forget()
	} else {
		e.snapshot = s
	}
	c.given, s = s, e.snapshot
	if c.options.Admitter != nil {
		s, _ = c.options.Admitter.Admit(s)
	}
	s = c.admitted(s, &Lowered{})
	for _, set := range c.endpoints.refresh(s, changes) {
		if r, _ := envoy.EndpointResource(set); r != nil {
			changed = append(changed, r)
		}
	}
	c.last = s
	return changed, true
}

// lower lowers what the changes concern and returns the edits for the linker, in the order of the references.
func (c *Compiler) lower(s *snapshot.Snapshot, changes []snapshot.Change) []linker.Change {
	lowered := 0 // objects that some front end lowers
	for k := range c.byKind {
		lowered += s.Len(k)
	}
	targets := make([]target, 0, min(lowered+len(c.options.FrontEnds), len(changes)))
	if len(c.entries) == 0 {
		c.entries = make(map[snapshot.Ref]*entry, cap(targets))
	}
	var dirty map[snapshot.Ref]struct{} // those that did not change themselves, but read something that did
	mark := func(ref snapshot.Ref) {
		if dirty == nil {
			dirty = map[snapshot.Ref]struct{}{}
		}
		dirty[ref] = struct{}{}
	}
	var kinds map[snapshot.GroupKind]bool
	var last snapshot.GroupKind
	var front FrontEnd
	for _, ch := range changes {
		ref := ch.Ref()
		if k := ref.GroupKind(); k != last {
			last, front = k, c.byKind[k]
		}
		if front != nil {
			targets = append(targets, target{ref, ch.New, ch.Old == nil})
		}
		for e := range c.readers[ref].all() {
			mark(e.ref)
		}
		if k := ref.GroupKind(); c.listed[k] > 0 {
			if kinds == nil {
				kinds = map[snapshot.GroupKind]bool{}
			}
			kinds[k] = true
		}
	}
	if c.listed[snapshot.KindFinding] > 0 && !slices.Equal(s.Findings(), c.last.Findings()) {
		if kinds == nil {
			kinds = map[snapshot.GroupKind]bool{}
		}
		kinds[snapshot.KindFinding] = true
	}
	if kinds != nil {
		for _, e := range c.entries {
			if slices.ContainsFunc(e.kinds, func(k snapshot.GroupKind) bool { return kinds[k] }) {
				mark(e.ref)
			}
		}
	}
	for _, f := range c.options.FrontEnds {
		if ref := ambientRef(f); c.entries[ref] == nil {
			mark(ref)
		}
	}
	if len(dirty) > 0 {
		for ref := range dirty {
			targets = append(targets, target{ref, s.Get(ref.GroupKind(), ref.Namespace, ref.Name), false})
		}
		slices.SortFunc(targets, func(a, b target) int { return a.ref.Compare(b.ref) })
		targets = slices.CompactFunc(targets, func(a, b target) bool { return a.ref == b.ref })
	}
	edits := make([]linker.Change, 0, len(targets))
	for _, t := range targets {
		edits = append(edits, c.relower(s, t))
	}
	return edits
}

// target is what is to be lowered: an object, nil for one that is gone or for what a front end makes of the input as a whole.
type target struct {
	ref   snapshot.Ref
	o     *snapshot.Object
	fresh bool // there was no such object before
}

func ambientRef(f FrontEnd) snapshot.Ref {
	return snapshot.Ref{Group: ambientGroup, Kind: "Ambient", Name: f.Name()}
}

// relower lowers one object, or forgets it when it is gone.
func (c *Compiler) relower(s *snapshot.Snapshot, t target) linker.Change {
	ref, o := t.ref, t.o
	edit := linker.Change{Ref: ref}
	if !t.fresh {
		if old := c.entries[ref]; old != nil {
			edit.Old = old.fragments
			c.forget(old)
		}
	}
	e := &entry{ref: ref}
	v := snapshot.NewView(s)
	if ref.Group == ambientGroup {
		i := slices.IndexFunc(c.options.FrontEnds, func(f FrontEnd) bool { return f.Name() == ref.Name })
		e.fragments = c.options.FrontEnds[i].Ambient(v)
	} else {
		if o == nil {
			c.findings.put(s, ref, nil)
			c.statuses.put(ref, nil)
			return edit
		}
		e.fragments = c.byKind[ref.GroupKind()].Lower(o, v)
	}
	e.refs, e.kinds = v.Reads()
	c.remember(e)
	edit.New = e.fragments
	var said []snapshot.Diagnostic
	var status *ir.Status
	if e.fragments != nil {
		said, status = e.fragments.Diagnostics, e.fragments.Status
	}
	c.findings.put(s, ref, said)
	c.statuses.put(ref, status)
	return edit
}

func (c *Compiler) remember(e *entry) {
	c.entries[e.ref] = e
	for _, r := range e.refs {
		if there := c.readers[r]; there != nil {
			there.add(e)
		} else {
			c.readers[r] = &readers{one: e}
		}
	}
	for _, k := range e.kinds {
		c.listed[k]++
	}
}

func (c *Compiler) forget(e *entry) {
	delete(c.entries, e.ref)
	for _, r := range e.refs {
		if there := c.readers[r]; there != nil && there.drop(e) {
			delete(c.readers, r)
		}
	}
	for _, k := range e.kinds {
		c.listed[k]--
	}
}
