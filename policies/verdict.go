package policies

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/chancery-gateway/chancery/policies/api"
	"github.com/chancery-gateway/chancery/policies/decision"
	"github.com/chancery-gateway/chancery/policies/engine"
	"github.com/chancery-gateway/chancery/policies/index"
	"github.com/chancery-gateway/chancery/snapshot"
)

// question is which policies are asked about an object.
type question struct {
	platform, tenant []*engine.Policy
	// broken cannot be asked.
	broken []*engine.Policy
	key    string
	owner  string

	prepared                      sync.Once
	judge, judgeTenant, mutations *engine.Query
}

// prepare compiles the questions when they are first asked.
func (q *question) prepare(s *engine.Set, m *engine.Memory) {
	q.prepared.Do(func() {
		q.judge, q.judgeTenant = s.Prepare(engine.Judge, q.platform).Remember(m), s.Prepare(engine.Judge, q.tenant).Remember(m)
		q.mutations = s.Prepare(engine.Mutate, q.platform).Remember(m)
	})
}

// entry is what is known of one object.
type entry struct {
	object   *snapshot.Object
	question *question
	stale    bool
	document *index.Document
	// form is the object after mutations; the object itself when there were none.
	form     *snapshot.Object
	mutation mutation
	results  []engine.Result
	failures []engine.Failure
	reads    []index.Key
	verdict  verdict

	// admitted is what was admitted of the object, nil for nothing; candidate what would stand if it competed with the
	// platform's defaults only.
	admitted, candidate *snapshot.Object
	claim               claimed
	// under is the set that admitted. withdrawn says that only the tenant's own policies keep the object out: what it claims stays
	// taken, so that no tenant's policy lets in what was out.
	under     string
	withdrawn bool
}

// verdict is what came of it.
type verdict struct {
	denied, keep bool
	// by are the policies that deny, or that cannot judge; platform is set when one of them is the platform's.
	by       []*engine.Policy
	platform bool
	findings []snapshot.Diagnostic
}

// question finds which policies are asked about an object; objects of which the same are asked share one.
func (w *world) question(o *snapshot.Object) *question {
	q := &question{owner: w.tenancy.Name(o.Namespace)}
	pick := func(from []*engine.Policy) (out []*engine.Policy) {
		for _, p := range from {
			if !p.Spec.Match.Takes(o, q.owner) {
				continue
			}
			if p.Broken != nil || p.Quarantined() {
				q.broken = append(q.broken, p)
			} else {
				out = append(out, p)
			}
		}
		return out
	}
	q.platform = pick(w.platform)
	if q.owner != "" {
		q.tenant = pick(w.byTenant[q.owner])
	}
	var b strings.Builder
	b.WriteString(q.owner + "|")
	for _, list := range [][]*engine.Policy{q.platform, q.tenant, q.broken} {
		for _, p := range list {
			b.WriteString(p.ID + "@" + p.Revision + " ")
		}
		b.WriteByte('|')
	}
	q.key = b.String()
	if have := w.questions[q.key]; have != nil {
		return have
	}
	w.questions[q.key] = q
	return q
}

// around returns the parts of the input that follow from the namespace.
func (w *world) surround(o *snapshot.Object) surroundings {
	w.mu.Lock()
	defer w.mu.Unlock()
	if have, ok := w.around[o.Namespace]; ok {
		return have
	}
	labels, owner, namespaces, hosts, limits := map[string]string{}, "", []string{}, []string{}, map[string]int{}
	if ns := w.labels[o.Namespace]; ns != nil {
		labels = ns
	}
	name := w.tenancy.Name(o.Namespace)
	if t := w.tenancy.Of(o.Namespace); t != nil {
		owner, namespaces, hosts, limits = t.Spec.Owner, w.tenancy.Namespaces(name), t.Spec.Hosts, t.Spec.Limits
	}
	value := func(v any) *ast.Term {
		text, err := json.Marshal(v)
		if err != nil {
			return ast.NullTerm()
		}
		parsed, err := index.Value(text)
		if err != nil {
			return ast.NullTerm()
		}
		parsed.Hash()
		return ast.NewTerm(parsed)
	}
	s := surroundings{
		namespace: value(map[string]any{"name": o.Namespace, "labels": labels}),
		tenant:    value(map[string]any{"name": name, "owner": owner, "namespaces": namespaces, "hosts": nonNil(hosts), "limits": limits}),
	}
	w.around[o.Namespace] = s
	return s
}

func nonNil(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// input returns a function that builds what rules see of the object, whose text is the document's.
func (a *Admitter) input(o *snapshot.Object, document *index.Document, counted bool) engine.InputFunc {
	w := a.world
	s, operation, old := w.surround(o), "CREATE", ast.Value(nil)
	if a.review != nil && a.review.ref == o.Ref {
		operation, old = a.review.operation, a.review.old
	}
	return func(parameters *ast.Term) (ast.Value, error) {
		object, made, err := document.Value()
		if made && counted {
			a.counts.Converted.Add(1)
		}
		if err != nil {
			return nil, err
		}
		pairs := [][2]*ast.Term{
			{ast.InternedTerm("object"), ast.NewTerm(object)},
			{ast.InternedTerm("operation"), ast.InternedTerm(operation)},
			{ast.InternedTerm("point"), ast.InternedTerm(string(w.point))},
			{ast.InternedTerm("namespace"), s.namespace},
			{ast.InternedTerm("tenant"), s.tenant},
			{ast.InternedTerm("parameters"), parameters},
		}
		if old != nil {
			pairs = append(pairs, [2]*ast.Term{ast.InternedTerm("old"), ast.NewTerm(old)})
		}
		return ast.NewObject(pairs...), nil
	}
}

// ask fills in the entry. It runs beside other asks.
func (a *Admitter) ask(e *entry) {
	w := a.world
	e.form, e.mutation, e.results, e.failures, e.reads, e.stale = e.object, mutation{}, nil, nil, nil, false
	if len(e.question.platform)+len(e.question.tenant) == 0 {
		return
	}
	a.counts.Evaluated.Add(1)
	if e.document == nil {
		e.document = index.NewDocument(e.object.Raw)
	}
	e.question.prepare(w.set, w.memory)
	ctx := context.Background()
	document := a.mutate(ctx, e)
	input := a.input(e.form, document, document == e.document)
	for _, q := range []*engine.Query{e.question.judge, e.question.judgeTenant} {
		answer := q.About(ctx, document, e.object.Namespace, input, w.store)
		e.results = append(e.results, answer.Results...)
		e.failures = append(e.failures, answer.Failures...)
		e.reads = append(e.reads, answer.Reads...)
	}
	slices.SortFunc(e.reads, func(a, b index.Key) int {
		return cmp.Or(strings.Compare(a.Table, b.Table), strings.Compare(a.Name, b.Name))
	})
	e.reads = slices.Compact(e.reads)
}

// about returns a finding of a policy about the object.
func about(o *snapshot.Object, s snapshot.Severity, c *snapshot.Code, p *engine.Policy, r *engine.Rule, path, message, help string) snapshot.Diagnostic {
	d := o.About(s, c, path, message, help)
	d.Policy = p.ID
	if r != nil {
		d.Rule = r.Position
	}
	return d
}

// decide turns the answers into a verdict.
func (a *Admitter) decide(e *entry, now time.Time) {
	w, v := a.world, verdict{}
	refuse := func(p *engine.Policy, keep bool) {
		v.keep = (v.keep || !v.denied) && keep
		v.denied, v.platform = true, v.platform || p.Tenant == ""
		v.by = append(v.by, p)
	}
	for _, r := range e.results {
		p, severity, code := r.Policy, snapshot.Warning, engine.CodeWarned
		at := p.Spec.At(w.point)
		help := ""
		switch {
		case at == api.EnforceDryRun || at == api.EnforceAudit:
			severity, code = snapshot.Info, engine.CodeDryRun
		case r.Rule.Name == "warn" || at == api.EnforceWarn:
		default:
			if x := w.waiver(p, e.object, now); x != nil {
				severity, code = snapshot.Info, engine.CodeWaived
				help = fmt.Sprintf("waived until %s by %s for %s: %s", x.Spec.Expires, x.Object.Ref, x.Spec.Owner, x.Spec.Reason)
				break
			}
			severity, code = snapshot.Error, engine.CodeDenied
			refuse(p, p.Spec.KeepsLastGood())
		}
		v.findings = append(v.findings, about(e.object, severity, code, p, r.Rule, r.Path, r.Message, help))
	}
	fail := func(p *engine.Policy, c *snapshot.Code, message, help string) {
		if at := p.Spec.At(w.point); at != api.EnforceDeny || p.Spec.FailsOpen() {
			v.findings = append(v.findings, about(e.object, snapshot.Warning, c, p, nil, "", message, help))
			return
		}
		refuse(p, true)
		v.findings = append(v.findings, about(e.object, snapshot.Error, c, p, nil, "", message, help))
	}
	for _, f := range e.failures {
		fail(f.Policy, f.Code, fmt.Sprintf("policy %s: %s", f.Policy.ID, f.Message), "")
	}
	for _, p := range e.question.broken {
		why := "it is quarantined"
		if p.Broken != nil {
			why = p.Broken.Message
		}
		fail(p, engine.CodeBroken, fmt.Sprintf("policy %s cannot judge the object: %s", p.ID, why), "correct the policy, or let it fail open (onFailure)")
	}
	for _, f := range e.mutation.faults {
		refuse(f.policy, true)
		v.findings = append(v.findings, f.finding)
	}
	for _, n := range e.mutation.notes {
		if n.Code != codeMutated || w.point != api.PointCompile { // a running gateway would say it of every object all the time
			v.findings = append(v.findings, n)
		}
	}
	if a.options.Decided != nil {
		a.tell(e, e.verdict.findings, v.findings, now)
	}
	e.verdict = v
	if len(v.findings) > 0 {
		a.talking[e.object.Ref] = e
	} else {
		delete(a.talking, e.object.Ref)
	}
}

// stillGood reports whether the form that was admitted last may stay for an object that is refused now: under another set than
// the one that admitted it, those of the platform's policies that do not keep it themselves must not deny it.
func (a *Admitter) stillGood(e *entry, now time.Time) bool {
	w := a.world
	if e.admitted == nil || e.under == w.set.Digest {
		return e.admitted != nil
	}
	others := slices.DeleteFunc(slices.Clone(e.question.platform), func(p *engine.Policy) bool { return slices.Contains(e.verdict.by, p) || p.Quarantined() })
	document := index.NewDocument(e.admitted.Raw)
	answer := w.set.Prepare(engine.Judge, others).Ask(context.Background(), a.input(e.admitted, document, false), w.store)
	a.note(e, answer.Reads)
	for _, r := range answer.Results {
		if r.Rule.Name == "deny" && r.Policy.Spec.At(w.point) == api.EnforceDeny && w.waiver(r.Policy, e.object, now) == nil {
			return false
		}
	}
	return !slices.ContainsFunc(answer.Failures, func(f engine.Failure) bool {
		return f.Policy.Spec.At(w.point) == api.EnforceDeny && !f.Policy.Spec.FailsOpen()
	})
}

func quarantineFinding(p *engine.Policy) snapshot.Diagnostic {
	message := fmt.Sprintf("policy %s ran over its deadline of %s again and again, or over its budget for one compile, so it is not asked any more", p.ID, p.Spec.TimeLimit())
	var d snapshot.Diagnostic
	if p.Object != nil {
		d = p.Object.About(snapshot.Error, engine.CodeQuarantined, "", message, "")
	} else {
		d = snapshot.Diagnostic{Severity: snapshot.Error, Code: engine.CodeQuarantined, Message: message}
	}
	d.Policy = p.ID
	if len(p.Rules) > 0 {
		d.Rule = p.Rules[0].Position
		if d.Position == (snapshot.Position{}) {
			d.Position = d.Rule
		}
	}
	return d
}

// tell reports the policies whose verdict on the object is another one now.
func (a *Admitter) tell(e *entry, before, after []snapshot.Diagnostic, now time.Time) {
	worst := func(ds []snapshot.Diagnostic) map[string]snapshot.Diagnostic {
		m := map[string]snapshot.Diagnostic{}
		for _, d := range ds {
			if have, ok := m[d.Policy]; !ok || d.Severity < have.Severity {
				m[d.Policy] = d
			}
		}
		return m
	}
	was, is := worst(before), worst(after)
	ids := maps.Clone(was)
	maps.Copy(ids, is)
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		old, had := was[id]
		d, has := is[id]
		if had == has && old.Severity == d.Severity && old.Code == d.Code && old.Message == d.Message {
			continue
		}
		t := decision.Transition{Time: now.UTC(), Object: e.object.Ref.String(), Tenant: e.question.owner, Policy: id, Set: a.world.set.Digest}
		for _, p := range a.world.set.Policies {
			if p.ID == id {
				t.Revision = p.Revision
			}
		}
		if had {
			t.From = old.Severity.String()
		}
		if has {
			t.To, t.Code, t.Path, t.Rule, t.Message = d.Severity.String(), d.Code.ID, d.Path, d.Rule.String(), d.Message
		}
		a.options.Decided(t)
	}
}
