package policies

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/chancery-gateway/chancery/policies/engine"
	"github.com/chancery-gateway/chancery/policies/index"
	"github.com/chancery-gateway/chancery/snapshot"
)

// Verdict is what policies made of one object.
type Verdict struct {
	Object *snapshot.Object
	// Form is the object as the front ends see it; nil when it was refused and no earlier form was kept.
	Form   *snapshot.Object
	Tenant string
	Denied bool
	// Asked are the ids of the policies that were asked, Broken of those that could not be.
	Asked, Broken []string
	Findings      []snapshot.Diagnostic
	// Changes are the fields that policies set.
	Changes []Change
}

// Verdict returns what was made of the object in the last Admit; nil when no policy looked at it.
func (a *Admitter) Verdict(r snapshot.Ref) *Verdict {
	e := a.entries[r]
	if e == nil {
		return nil
	}
	v := &Verdict{Object: e.object, Tenant: e.question.owner, Denied: e.verdict.denied, Findings: e.verdict.findings, Changes: e.mutation.changes,
		Form: a.out.Get(r.GroupKind(), r.Namespace, r.Name)}
	for _, key := range []claimed{defaultsOf(r), e.claim} {
		m := a.merges[key]
		if m == nil {
			continue
		}
		for _, d := range m.findings {
			if d.Object == r {
				v.Findings = append(slices.Clip(v.Findings), d)
			}
		}
		if form, touched := m.forms[r]; touched && form == nil {
			v.Denied = true
		}
	}
	for _, p := range slices.Concat(e.question.platform, e.question.tenant) {
		v.Asked = append(v.Asked, p.ID)
	}
	for _, p := range e.question.broken {
		v.Broken = append(v.Broken, p.ID)
	}
	return v
}

// Verdicts returns the verdicts on every object that policies looked at, by reference.
func (a *Admitter) Verdicts() []*Verdict {
	var out []*Verdict
	for r := range a.entries {
		out = append(out, a.Verdict(r))
	}
	slices.SortFunc(out, func(x, y *Verdict) int { return x.Object.Ref.Compare(y.Object.Ref) })
	return out
}

// Tenant returns the tenant that a namespace belongs to, "" for none.
func (a *Admitter) Tenant(namespace string) string {
	if a.world == nil {
		return ""
	}
	return a.world.tenancy.Name(namespace)
}

// review is an object that is asked about before it is there.
type review struct {
	ref       snapshot.Ref
	old       ast.Value
	operation string
}

// Review answers for an object that somebody is about to create or change: old is what it is now, nil for a new one. It
// judges it in the world of s, and leaves the admitter as if it had admitted s with the object.
func (a *Admitter) Review(s *snapshot.Snapshot, o, old *snapshot.Object, operation string) *Verdict {
	a.review = &review{ref: o.Ref, operation: operation}
	defer func() { a.review = nil }()
	if old != nil {
		if v, err := index.Value(old.Raw); err == nil {
			a.review.old = v
		}
	}
	if e := a.entries[o.Ref]; e != nil {
		e.stale = true
	}
	a.Admit(s.Derive([]*snapshot.Object{o}, nil, s.Findings()))
	if v := a.Verdict(o.Ref); v != nil {
		return v
	}
	return &Verdict{Object: o, Form: o}
}

// Policies returns the policies in force; nil when there are none.
func (a *Admitter) Policies() []*engine.Policy {
	if s := a.Set(); s != nil {
		return s.Policies
	}
	return nil
}
