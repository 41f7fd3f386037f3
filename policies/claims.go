package policies

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/chancery-gateway/chancery/policies/engine"
	"github.com/chancery-gateway/chancery/policies/index"
	"github.com/chancery-gateway/chancery/policies/merge"
	"github.com/chancery-gateway/chancery/snapshot"
)

// Merged is what came of one claim.
type Merged struct {
	// Kind is that of the claims, or "Defaults"; Claim is what is claimed.
	Kind  string `json:"kind"`
	Claim string `json:"claim"`
	// Winner is the object that stands, the zero value for none; Losers are those that do not.
	Winner snapshot.Ref   `json:"winner"`
	Losers []snapshot.Ref `json:"losers"`
	// Policy settled it, with the rule at Rule; "" for the default. Fields say where each field came from, when they were joined.
	Policy   string        `json:"policy,omitempty"`
	Revision string        `json:"revision,omitempty"`
	Rule     string        `json:"rule,omitempty"`
	Reason   string        `json:"reason,omitempty"`
	Fields   []merge.Field `json:"fields,omitempty"`
}

// merged is a claim with its outcome.
type merged struct {
	key      claimed
	members  map[snapshot.Ref]*entry
	forms    map[snapshot.Ref]*snapshot.Object // what stands of the members that were touched; nil for nothing
	findings []snapshot.Diagnostic
	outcome  *Merged
	// reads are the entries of the index that merge policies have read.
	reads []index.Key
}

// contested reports whether claims have to be looked at at all.
func (w *world) contested() bool { return len(w.mergers) > 0 || len(w.tenancy.All()) > 0 }

// enter takes up what the object claims in the form, nil for nothing, in place of what it claimed before.
func (a *Admitter) enter(e *entry, form *snapshot.Object, dirty map[claimed]bool) {
	key := claimOf(form, a.options.AmbassadorID)
	if e.claim != key {
		a.leave(e, dirty)
	}
	if key == (claimed{}) {
		return
	}
	m := a.merges[key]
	if m == nil {
		m = &merged{key: key, members: map[snapshot.Ref]*entry{}}
		a.merges[key] = m
	}
	e.claim = key
	m.members[e.object.Ref] = e
	dirty[key] = true
}

func (a *Admitter) leave(e *entry, dirty map[claimed]bool) {
	if m := a.merges[e.claim]; m != nil {
		delete(m.members, e.object.Ref)
		dirty[e.claim] = true
	}
	e.claim = claimed{}
}

// settle puts the verdicts into the snapshot that goes on. stale are the claims whose policies have read what changed.
func (a *Admitter) settle(decided []*entry, stale map[claimed]bool, now time.Time) (put []*snapshot.Object, remove []snapshot.Ref) {
	contested := a.world.contested()
	dirty := a.vacated
	a.vacated = map[claimed]bool{}
	maps.Copy(dirty, stale)
	touched := map[snapshot.Ref]*entry{}
	for _, e := range decided {
		if e.withdrawn { // it was not let in
			e.withdrawn, e.admitted = false, nil
		}
		switch {
		case !e.verdict.denied:
			e.admitted = e.form
		case e.verdict.keep && a.stillGood(e, now):
			// what was admitted last stays: the entry has it from the one before
		case e.verdict.platform:
			e.admitted = nil
		default:
			e.admitted, e.withdrawn = e.form, true
		}
		e.under = a.world.set.Digest
		e.candidate = e.admitted
		touched[e.object.Ref] = e
		if e.object.Kind == "Module" && (contested || e.claim != claimed{}) {
			a.enter(e, e.candidate, dirty)
		}
	}
	a.resolve(dirty, "Module")
	a.bindDefaults(touched, dirty)
	for _, e := range touched {
		if e.object.Kind != "Module" && (contested || e.claim != claimed{}) {
			a.enter(e, e.candidate, dirty)
		}
	}
	a.resolve(dirty, "")
	for key := range dirty {
		if m := a.merges[key]; m != nil && key.kind != kindDefaults {
			maps.Copy(touched, m.members)
		}
	}
	for ref, e := range touched {
		if form := a.standing(e); form != nil {
			put = append(put, form)
		} else {
			remove = append(remove, ref)
		}
	}
	return put, remove
}

// standing returns what is compiled of an object, nil for nothing.
func (a *Admitter) standing(e *entry) *snapshot.Object {
	if e.withdrawn {
		return nil
	}
	if m := a.merges[e.claim]; m != nil {
		if form, touched := m.forms[e.object.Ref]; touched {
			return form
		}
	}
	return e.candidate
}

// resolve settles the dirty claims of one kind, "" for those of every kind that have objects as members.
func (a *Admitter) resolve(dirty map[claimed]bool, kind string) {
	for key := range dirty {
		m := a.merges[key]
		if m == nil || key.kind == kindDefaults || kind == "" && key.kind == "Module" || kind != "" && key.kind != kind {
			continue
		}
		if len(m.members) == 0 {
			delete(a.merges, key)
			continue
		}
		m.forms, m.findings, m.outcome, m.reads = map[snapshot.Ref]*snapshot.Object{}, nil, nil, nil
		a.settleClaim(m)
	}
}

// owner names who an object belongs to: a tenant, or a namespace without one.
func owner(e *entry) string {
	if e.question.owner != "" {
		return "tenant " + e.question.owner
	}
	return "namespace " + e.object.Namespace
}

// settleClaim decides one claim.
func (a *Admitter) settleClaim(m *merged) {
	if len(m.members) < 2 {
		return
	}
	entries := slices.SortedFunc(maps.Values(m.members), func(x, y *entry) int {
		if single(m.key.kind) && (x.question.owner == "") != (y.question.owner == "") {
			if x.question.owner == "" {
				return -1
			}
			return 1
		}
		if x.candidate.NewerThan(y.candidate) {
			return 1
		}
		return -1
	})
	claims := entries
	if shared(m.key.kind) {
		// What one owner has stands side by side; the first speaks for all.
		claims = nil
		owners := map[string]bool{}
		for _, e := range entries {
			if o := owner(e); !owners[o] {
				owners[o] = true
				claims = append(claims, e)
			}
		}
		if len(claims) < 2 {
			return
		}
	}
	if !a.askMergers(m, entries, claims, claims[0].object.GroupKind()) {
		a.firstTenant(m, entries, claims)
	}
}

// firstTenant is what holds without a policy: between tenants the oldest claim stands, and the platform's for what there is
// one of. Claims of one tenant, and those of namespaces without tenant, are left to the linker.
func (a *Admitter) firstTenant(m *merged, entries, claims []*entry) {
	first, why := claims[0], "is older"
	for _, e := range entries {
		if e.question.owner == first.question.owner {
			continue
		}
		if !e.candidate.NewerThan(first.candidate) {
			why = "comes first"
		}
		a.lose(m, e, first, nil, "", fmt.Sprintf("%s of %s claims the same and %s", first.object.Ref, describeOwner(first), why))
	}
	if len(m.forms) > 0 {
		m.outcome = &Merged{Kind: m.key.kind, Claim: m.key.what, Winner: first.object.Ref, Losers: losers(m)}
	}
}

func describeOwner(e *entry) string {
	if e.question.owner == "" {
		return "the platform"
	}
	return "tenant " + e.question.owner
}

func losers(m *merged) []snapshot.Ref {
	var out []snapshot.Ref
	for r, form := range m.forms {
		if form == nil {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, snapshot.Ref.Compare)
	return out
}

// lose takes a claim out and tells its owner.
func (a *Admitter) lose(m *merged, e, winner *entry, by *settlement, path, why string) {
	if _, done := m.forms[e.object.Ref]; done {
		return
	}
	m.forms[e.object.Ref] = nil
	d := e.object.About(snapshot.Error, codeLost, path, why, "agree with the owner of the other object, or claim something else")
	m.findings = append(m.findings, by.sign(d))
}

// settlement is the policy, and the rule of it, that settles a claim; nil for the default.
type settlement struct {
	policy *engine.Policy
	rule   snapshot.Position
}

func (s *settlement) sign(d snapshot.Diagnostic) snapshot.Diagnostic {
	if s != nil {
		d.Policy, d.Rule = s.policy.ID, s.rule
	}
	return d
}

// Merges returns the claims for which several objects compete, by kind and claim.
func (a *Admitter) Merges() []*Merged {
	var out []*Merged
	for _, m := range a.merges {
		if m.outcome != nil {
			out = append(out, m.outcome)
		}
	}
	slices.SortFunc(out, func(x, y *Merged) int {
		return cmp.Or(cmp.Compare(slices.Index(claimKinds, x.Kind), slices.Index(claimKinds, y.Kind)), strings.Compare(x.Claim, y.Claim))
	})
	return out
}

// MergesOf returns what came of the claims that the object takes part in.
func (a *Admitter) MergesOf(r snapshot.Ref) (out []*Merged) {
	e := a.entries[r]
	if e == nil {
		return nil
	}
	for _, key := range []claimed{defaultsOf(r), e.claim} {
		if m := a.merges[key]; m != nil && m.outcome != nil {
			out = append(out, m.outcome)
		}
	}
	return out
}

// staleClaims returns the claims whose merge policies have read one of the entries of the index.
func (a *Admitter) staleClaims(keys map[index.Key]struct{}) map[claimed]bool {
	out := map[claimed]bool{}
	for key, m := range a.merges {
		for _, k := range m.reads {
			if _, changed := keys[k]; changed {
				out[key] = true
				break
			}
		}
	}
	return out
}
