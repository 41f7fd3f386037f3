// Package quarantine keeps out of the traffic what the validating Envoy refuses, and as little else as possible. An object whose
// new form is refused goes on in its last good form; one that never had a good form loses what is refused of it. Everything
// else is published in the same step.
package quarantine

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chancery-gateway/chancery/runtime/pipeline"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/ir"
	"github.com/chancery-gateway/chancery/xds/validator"
)

// The findings of this stage.
var (
	// Held is about an object whose last good form is served.
	Held = snapshot.NewCode("CH-PROOF-011", "Envoy refuses the object's new form; its last good form is served",
		"What is made of the object was shown to an Envoy that carries no traffic, and that one does not take it.",
		"Change the object by what Envoy's sentence says. Its next form is tried at once.")
	// Faulty is about an object whose last good form is served although Envoy was not asked about the new one.
	Faulty = snapshot.NewCode("CH-PROOF-013", "The object's new form is faulty; its last good form is served",
		"The object was changed to something that Chancery's rules refuse or that cannot be read. The errors about the same object say what.",
		"Correct the object. Its next form is tried at once; to take the object out of service, delete it.")
	// Omitted is about an object that is left out for the sake of others.
	Omitted = snapshot.NewCode("CH-PROOF-014", "A new object would cost others their configuration; it is left out",
		"The object adds to what other objects that are served make together, such as the filters of a listener, and with it nothing of that could be served.",
		"Correct the object by the error's sentence. Its next form is tried at once.")
	// Unproven says that there is no Envoy to ask.
	Unproven = snapshot.NewCode("CH-PROOF-012", "There is no validating Envoy",
		"The Envoy that judges configuration before the traffic sees it does not start, so only Chancery's own rules are applied.",
		"See why it does not start. With --require-validator nothing is published until it does.")
)

// Judge gives verdicts; *validator.Validator is one.
type Judge interface {
	Judge(ctx context.Context, units []*ir.Unit) (validator.Verdicts, error)
}

// Options are what a quarantine works with.
type Options struct {
	// Open is called when there is something to judge for the first time, and again while it fails. The bootstrap is the one with
	// which the traffic's Envoy starts. Nil: there is nobody to ask, and Chancery's own rules are the proof.
	Open func(context.Context, *ir.Bootstrap) (Judge, error)
	// Require holds back what nobody could judge; otherwise it is served with a warning.
	Require bool
	// Dir keeps the last good forms of all objects between runs; "" for nowhere.
	Dir string
	Log *slog.Logger
}

// Quarantine is the proof stage of one pipeline.
type Quarantine struct {
	options Options
	judge   Judge

	// reopen: the judge is to be replaced before the next judgement.
	reopen atomic.Bool

	// pending are units that nobody could judge yet; only Prove looks at them.
	pending map[uint64]*ir.Unit

	mu    sync.Mutex // never held while Envoy is asked
	cases []*holding
	good  *snapshot.Snapshot // the objects of the last proven result
}

// holding is one refused unit and the objects that are served in their last good form because of it.
type holding struct {
	what    string // of which text speaks
	text    string
	since   time.Time
	members []member
	// found is what Chancery's own rules said of the refused form; text is "" then.
	found []snapshot.Diagnostic
}

// member is one object: the form that is refused, and the one that was good. Nil is the good form of what was not there.
type member struct {
	refused, good *snapshot.Object
}

// New returns a quarantine. It fails when the last good forms of an earlier run are there but cannot be used; the quarantine is
// usable then and starts without any.
func New(o Options) (*Quarantine, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	q := &Quarantine{options: o, pending: map[uint64]*ir.Unit{}, good: snapshot.Empty()}
	good, err := load(o.Dir)
	if good != nil {
		q.good = good
	}
	return q, err
}

// Take implements pipeline.Prover: each object whose form is refused stands in its last good one, until any of those that were
// refused together changes.
func (q *Quarantine) Take(s *snapshot.Snapshot) *snapshot.Snapshot {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.cases = slices.DeleteFunc(q.cases, func(h *holding) bool {
		return slices.ContainsFunc(h.members, func(m member) bool {
			now := s.Get(m.refused.GroupKind(), m.refused.Namespace, m.refused.Name)
			return now == nil || now.Hash != m.refused.Hash
		})
	})
	put := q.restored(s)
	if len(q.cases) == 0 && len(put) == 0 {
		return s
	}
	var remove []snapshot.Ref
	for _, h := range q.cases {
		for _, m := range h.members {
			if m.good == nil {
				remove = append(remove, m.refused.Ref)
			} else {
				put = append(put, m.good)
			}
		}
	}
	return s.Derive(put, remove, s.Findings())
}

// Reopen has the next proof begin with another judge, because Envoy was replaced. What the last one refused is tried again.
func (q *Quarantine) Reopen() { q.reopen.Store(true) }

// release ends every case. It returns false when there was none.
func (q *Quarantine) release() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	any := len(q.cases) > 0
	q.cases = nil
	return any
}

// retry is the time after which what nobody could judge is tried again.
const retry = time.Second

// Prove implements pipeline.Prover.
func (q *Quarantine) Prove(ctx context.Context, s *snapshot.Snapshot, r *translators.Result) pipeline.Proof {
	if q.reopen.Swap(false) {
		q.judge = nil
		if q.release() { // once more, with the newest forms
			for _, u := range r.Changed {
				q.pending[u.ID] = u
			}
			return pipeline.Proof{Again: true}
		}
	}
	units := slices.Clone(r.Changed)
	if len(q.pending) > 0 {
		new := map[uint64]bool{}
		for _, u := range units {
			new[u.ID] = true
		}
		for id, u := range q.pending {
			if !new[id] {
				units = append(units, u)
			}
		}
		slices.SortStableFunc(units, func(a, b *ir.Unit) int { return compareUnits(a, b) })
	}
	var verdicts validator.Verdicts
	var err error
	if q.judge == nil && q.options.Open != nil {
		q.judge, err = q.options.Open(ctx, r.Program.Bootstrap)
	}
	switch {
	case err != nil:
		verdicts.Unjudged = units
	case len(units) > 0 && q.judge != nil:
		verdicts, err = q.judge.Judge(ctx, units)
	}
	clear(q.pending)
	for _, u := range verdicts.Unjudged {
		q.pending[u.ID] = u
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	p := pipeline.Proof{Refused: map[*ir.Unit]string{}}
	for _, u := range units { // in their order, not the map's
		text, refused := verdicts.Refused[u]
		if !refused {
			continue
		}
		p.Again = true
		q.options.Log.Warn("Envoy refuses a part of the configuration", "kind", string(u.Kind), "name", u.Name, "origins", u.Origins, "text", text)
		if h := q.hold(u, text, s, r.Snapshot); h != nil {
			q.cases = append(q.cases, h)
		} else {
			p.Refused[u] = text
		}
	}
	if held := append(q.holdSecrets(s, r), q.holdFaulty(s, r)...); len(held) > 0 {
		q.cases, p.Again = append(q.cases, held...), true
	}
	if err != nil {
		p.Retry = retry
		p.Hold = q.options.Require
		what := "only Chancery's own rules are applied"
		if p.Hold {
			what = "nothing new is published"
		}
		p.Findings = append(p.Findings, snapshot.Diagnostic{Severity: snapshot.Warning, Code: Unproven, Message: fmt.Sprintf("%v; %s", err, what)})
	}
	p.Findings = append(p.Findings, q.findings(s)...)
	if !p.Again {
		Locate(r.Diagnostics, r.Snapshot)
	}
	if !p.Again && len(q.pending) == 0 && err == nil {
		q.good = q.withoutFaults(r)
	}
	return p
}

// withoutFaults returns the objects of a proven result, those with errors in their earlier form: what lost by our own rules is
// not good either, so that a route that never was one has no good form.
func (q *Quarantine) withoutFaults(r *translators.Result) *snapshot.Snapshot {
	var put []*snapshot.Object
	var remove []snapshot.Ref
	for i := range r.Diagnostics {
		d := &r.Diagnostics[i]
		if d.Severity != snapshot.Error {
			continue
		}
		if was := q.good.Get(d.Object.GroupKind(), d.Object.Namespace, d.Object.Name); was != nil {
			put = append(put, was)
		} else if neverGood(d) {
			remove = append(remove, d.Object)
		}
	}
	if len(put)+len(remove) == 0 {
		return r.Snapshot
	}
	s := r.Snapshot.Derive(put, remove, nil)
	s.Forget()
	return s
}

func compareUnits(a, b *ir.Unit) int {
	switch {
	case a.ID < b.ID:
		return -1
	case a.ID > b.ID:
		return 1
	}
	return 0
}

// hold puts objects that the unit was made from into their last good form: those that have changed since, else those that are new
// while others of the unit were good. It returns nil when there are none, so that the unit itself must go. given is what the source
// delivered, compiled what the unit was made from.
func (q *Quarantine) hold(u *ir.Unit, text string, given, compiled *snapshot.Snapshot) *holding {
	h := &holding{what: fmt.Sprintf("%s %q: Envoy says: ", u.Kind, u.Name), text: text, since: time.Now()}
	for _, ref := range u.Origins {
		if m, ok := q.member(ref, given, compiled.Get(ref.GroupKind(), ref.Namespace, ref.Name)); ok {
			h.members = append(h.members, m)
		}
	}
	if len(h.members) == 0 && slices.ContainsFunc(u.Origins, func(ref snapshot.Ref) bool { return q.good.Get(ref.GroupKind(), ref.Namespace, ref.Name) != nil }) {
		for _, ref := range u.Origins {
			if m, ok := q.newcomer(ref, given, compiled); ok {
				h.members = append(h.members, m)
			}
		}
	}
	if len(h.members) == 0 {
		return nil
	}
	return h
}

// newcomer is an object that was not there when all was good. ok is false when it is none, or restricts access: what it is part of
// stays closed then.
func (q *Quarantine) newcomer(ref snapshot.Ref, given, compiled *snapshot.Snapshot) (m member, ok bool) {
	now := compiled.Get(ref.GroupKind(), ref.Namespace, ref.Name)
	source := given.Get(ref.GroupKind(), ref.Namespace, ref.Name)
	if now == nil || source == nil || q.good.Get(ref.GroupKind(), ref.Namespace, ref.Name) != nil {
		return member{}, false
	}
	if field := withdraws(&snapshot.Object{Ref: ref}, source); field != "" {
		q.options.Log.Warn("a new object with a fault is not left out: it restricts access", "object", ref, "field", field)
		return member{}, false
	}
	return member{refused: source}, true
}

// member pairs the form of an object that was compiled with its good one. ok is false when there is none that could be served: it
// had no good form, or that is what was compiled, or it would let in who is to stay out.
func (q *Quarantine) member(ref snapshot.Ref, given *snapshot.Snapshot, now *snapshot.Object) (m member, ok bool) {
	was := q.good.Get(ref.GroupKind(), ref.Namespace, ref.Name)
	source := given.Get(ref.GroupKind(), ref.Namespace, ref.Name)
	if now == nil || was == nil || source == nil || now.Hash == was.Hash {
		return member{}, false
	}
	if was.UID != source.UID && was.UID != "" && source.UID != "" {
		return member{}, false // another object, which never had a good form
	}
	if field := withdraws(was, source); field != "" {
		q.options.Log.Warn("an object with a fault is not served in its last good form: its new one withdraws access", "object", ref, "field", field)
		return member{}, false
	}
	return member{refused: source, good: was}, true
}

// findings says of each held object what Envoy said of it.
func (q *Quarantine) findings(s *snapshot.Snapshot) []snapshot.Diagnostic {
	var ds []snapshot.Diagnostic
	for _, h := range q.cases {
		help := "the last good form is served since " + h.since.UTC().Format(time.RFC3339)
		ds = append(ds, h.found...)
		for _, m := range h.members {
			o := s.Get(m.refused.GroupKind(), m.refused.Namespace, m.refused.Name)
			if o == nil {
				o = m.refused
			}
			if m.good == nil {
				severity := snapshot.Error
				if len(h.found) > 0 {
					severity = snapshot.Info // the errors are said already
				}
				ds = append(ds, o.About(severity, Omitted, Field(o, h.text), h.what+h.text, "the object is left out since "+h.since.UTC().Format(time.RFC3339)+", and the rest is served without it"))
				continue
			}
			if len(h.found) > 0 {
				ds = append(ds, o.About(snapshot.Info, Faulty, "", "its new form has faults", help))
				continue
			}
			ds = append(ds, o.About(snapshot.Error, Held, Field(o, h.text), h.what+h.text, help))
		}
	}
	for _, o := range q.restored(s) {
		ds = append(ds, o.About(snapshot.Info, Faulty, "", "it cannot be read", "the last good form is served, from an earlier run"))
	}
	return ds
}

// Held returns the number of objects that are served in their last good form.
func (q *Quarantine) Held() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for _, h := range q.cases {
		for _, m := range h.members {
			if m.good != nil {
				n++
			}
		}
	}
	return n
}

// Save writes the last good forms to the disk.
func (q *Quarantine) Save() error {
	q.mu.Lock()
	good := q.good
	q.mu.Unlock()
	return save(q.options.Dir, good)
}
