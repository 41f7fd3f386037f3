package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/chancery-gateway/chancery/policies/index"
	"github.com/chancery-gateway/chancery/snapshot"
)

// Phase is one of the questions that are asked about an object.
type Phase string

// The phases.
const (
	// Judge asks for deny and warn; Mutate for operations; Resolve a merge policy about claims.
	Judge   Phase = "judge"
	Mutate  Phase = "mutate"
	Resolve Phase = "resolve"
)

func (p Phase) entries() []string {
	switch p {
	case Judge:
		return []string{"deny", "warn"}
	case Mutate:
		return []string{"mutate"}
	}
	return []string{"resolve"}
}

// Has reports whether the policy has anything to say in the phase.
func (p *Policy) Has(ph Phase) bool {
	return slices.ContainsFunc(ph.entries(), func(e string) bool { return p.has[e] })
}

// Result is one thing that a rule said.
type Result struct {
	Policy *Policy
	Rule   *Rule
	// Message and Path are those of deny and warn; Path may be "".
	Message, Path string
	// Value is the whole result as JSON.
	Value []byte
}

// Failure is a policy that could not answer about one object.
type Failure struct {
	Policy  *Policy
	Code    *snapshot.Code
	Message string
}

// Answer is what the policies of one owner said about one object.
type Answer struct {
	Results  []Result
	Failures []Failure
	// Reads are the entries of the index that the answer depends on.
	Reads []index.Key
}

// Query is a question to several policies of one owner, compiled. It is safe for concurrent use.
type Query struct {
	phase    Phase
	policies []*Policy
	groups   []*plan
	set      *Set
	alone    sync.Map // *Policy → *plan
}

// plan asks policies that can share one parameters document, in one evaluation.
type plan struct {
	policies   []*Policy
	parameters *ast.Term
	body       ast.Body
	compiler   ast.QueryCompiler
	c          *ast.Compiler
	limit      time.Duration
	err        error
	outputs    []output
}

// output is where one entry point's results come out.
type output struct {
	policy *Policy
	entry  string
	name   ast.Var
}

// The caps on results.
const (
	maxResults = 100
	maxText    = 2000
)

// Prepare compiles a question. Policies that have nothing to say in the phase are left out; the others must be of one owner
// and not broken. It returns nil when none is left.
func (s *Set) Prepare(ph Phase, policies []*Policy) *Query {
	q := &Query{phase: ph, set: s}
	for _, p := range policies {
		if p.Has(ph) {
			q.policies = append(q.policies, p)
		}
	}
	if len(q.policies) == 0 {
		return nil
	}
	// Policies are asked together as long as one parameters document serves them all.
	var groups [][]*Policy
	var documents []map[string]*ast.Term
	for _, p := range q.policies {
		at := slices.IndexFunc(documents, func(d map[string]*ast.Term) bool { return d != nil && p.sharable && fits(d, p.parameters) })
		if at < 0 {
			at = len(groups)
			groups = append(groups, nil)
			if p.sharable {
				documents = append(documents, map[string]*ast.Term{})
			} else {
				documents = append(documents, nil)
			}
		}
		groups[at] = append(groups[at], p)
		if d := documents[at]; d != nil {
			p.parameters.Value.(ast.Object).Foreach(func(k, v *ast.Term) { d[k.Value.String()] = v })
		}
	}
	for i, g := range groups {
		parameters := g[0].parameters
		if documents[i] != nil && len(g) > 1 {
			all := ast.NewObject()
			for _, p := range g {
				p.parameters.Value.(ast.Object).Foreach(func(k, v *ast.Term) { all.Insert(k, v) })
			}
			all.Hash()
			parameters = ast.NewTerm(all)
		}
		q.groups = append(q.groups, s.compile(ph, g, parameters))
	}
	return q
}

// fits reports whether the parameters agree with a document on every name that both have.
func fits(d map[string]*ast.Term, parameters *ast.Term) bool {
	o, ok := parameters.Value.(ast.Object)
	return ok && !o.Until(func(k, v *ast.Term) bool {
		have, there := d[k.Value.String()]
		return there && !have.Equal(v)
	})
}

func (s *Set) compile(ph Phase, policies []*Policy, parameters *ast.Term) *plan {
	p := &plan{policies: policies, parameters: parameters, c: s.units[policies[0].Tenant].compiler}
	add := func(o output, value *ast.Term) {
		expr := ast.Equality.Expr(ast.NewTerm(o.name), value)
		expr.Index = len(p.body)
		p.body = append(p.body, expr)
		p.outputs = append(p.outputs, o)
	}
	for i, one := range policies {
		p.limit = max(p.limit, one.Spec.TimeLimit())
		rule := func(name string) *ast.Term {
			ref := ast.Ref{ast.DefaultRootDocument}
			for _, part := range strings.Split(one.Package+"."+name, ".") {
				ref = append(ref, ast.StringTerm(part))
			}
			return ast.NewTerm(ref)
		}
		for _, e := range ph.entries() {
			switch {
			case !one.has[e]:
			case ph == Resolve: // each rule alone, in a list that is empty when it does not answer
				for n := range one.Rules {
					x := ast.VarTerm("answer_" + strconv.Itoa(n))
					add(output{one, e, ast.Var("resolve_" + strconv.Itoa(n))}, ast.ArrayComprehensionTerm(x, ast.NewBody(ast.Equality.Expr(x, rule(resolveName(n))))))
				}
			default:
				add(output{one, e, ast.Var(e + "_" + strconv.Itoa(i))}, rule(e+suffix))
			}
		}
	}
	p.compiler = p.c.QueryCompiler()
	p.body, p.err = p.compiler.Compile(p.body)
	return p
}

// Ask asks the question with the data of the store. Input makes the input document for a parameters document. A policy that
// fails is asked again alone, so that it costs no other its answer.
func (q *Query) Ask(ctx context.Context, input func(parameters *ast.Term) ast.Value, store *index.Store) Answer {
	var a Answer
	if q == nil {
		return a
	}
	for _, g := range q.groups {
		var one Answer
		var took time.Duration
		err := errQuarantined
		if !slices.ContainsFunc(g.policies, (*Policy).Quarantined) {
			one, took, err = g.run(ctx, input(g.parameters), store, g.limit)
		}
		if err == nil && (took < slow || len(g.policies) == 1) {
			g.charge(took)
			a.add(one)
			continue
		}
		// Somebody failed, or took long: each is asked alone, so that it is known who.
		for _, p := range g.policies {
			if p.Quarantined() { // since the question was put: it will be put anew
				a.Failures = append(a.Failures, Failure{p, CodeTimeout, errQuarantined.Error()})
				continue
			}
			alone, ok := q.alone.Load(p)
			if !ok {
				alone, _ = q.alone.LoadOrStore(p, q.set.compile(q.phase, []*Policy{p}, p.parameters))
			}
			one, took, err := alone.(*plan).patient(ctx, input(p.parameters), store)
			alone.(*plan).charge(took)
			a.add(one)
			if err != nil {
				p.Stats.Errors.Add(1)
				a.Failures = append(a.Failures, p.failure(err))
			}
		}
	}
	return a
}

var errQuarantined = errors.New("the policy is quarantined")

func (a *Answer) add(b Answer) {
	a.Results, a.Failures, a.Reads = append(a.Results, b.Results...), append(a.Failures, b.Failures...), append(a.Reads, b.Reads...)
}

func (p *Policy) failure(err error) Failure {
	if topdown.IsCancel(err) {
		n := p.Stats.Timeouts.Add(1)
		if n > 3 && 2*n > p.Stats.Evaluations.Load() {
			p.Stats.quarantined.Store(true)
		}
		return Failure{p, CodeTimeout, fmt.Sprintf("took longer than %s", p.Spec.TimeLimit())}
	}
	message := firstLine(err.Error())
	var e *topdown.Error
	if errors.As(err, &e) {
		message = e.Message
		if e.Location != nil {
			message = fmt.Sprintf("%s (%s)", e.Message, p.place(e.Location))
		}
	}
	return Failure{p, CodeFailed, message}
}

// place translates a location in the policy's modules.
func (p *Policy) place(l *ast.Location) snapshot.Position {
	for _, m := range p.modules {
		if m.File == l.File {
			return m.at(l)
		}
	}
	return snapshot.Position{File: l.File, Line: l.Row}
}

// slow is what policies that are asked together may take before each is measured alone; passBudget is how long one policy
// may take in all for the objects of one compile.
const (
	slow       = 20 * time.Millisecond
	passBudget = 5 * time.Second
)

// BeginPass starts the budgets of one compile.
func (s *Set) BeginPass() {
	for _, p := range s.Policies {
		p.Stats.passed.Store(p.Stats.Nanos.Load())
	}
}

// charge books an evaluation on the policies, which share its time. One whose budget is used up is quarantined.
func (p *plan) charge(took time.Duration) {
	for _, one := range p.policies {
		one.Stats.Evaluations.Add(1)
		if now := one.Stats.Nanos.Add(took.Nanoseconds() / int64(len(p.policies))); now-one.Stats.passed.Load() > passBudget.Nanoseconds() {
			one.Stats.quarantined.Store(true)
		}
	}
}

// patient evaluates the plan under its deadline as processor time: on a machine that is busy with other things an
// evaluation that was cut before it had its time is given more of the wall clock, up to 64 times the deadline.
func (p *plan) patient(ctx context.Context, input ast.Value, store *index.Store) (a Answer, took time.Duration, err error) {
	for limit := p.limit; ; limit *= 4 {
		a, took, err = p.run(ctx, input, store, limit)
		if err == nil || !topdown.IsCancel(err) || took >= p.limit || limit >= 64*p.limit {
			return a, took, err
		}
	}
}

// run evaluates the plan once, for at most limit of the wall clock. took is the processor time, or the time of the wall
// clock where that cannot be measured.
func (p *plan) run(ctx context.Context, input ast.Value, store *index.Store, limit time.Duration) (a Answer, took time.Duration, err error) {
	if p.err != nil {
		return Answer{}, 0, p.err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	wall := time.Now()
	begun, measured := threadTime()
	reading := &index.Reading{Tenant: p.policies[0].Tenant}
	defer func() {
		if r := recover(); r != nil { // a fault of the engine is one of this question
			err = fmt.Errorf("the engine failed: %v", r)
		}
		a.Reads = reading.Keys
		if took = time.Since(wall); measured {
			end, _ := threadTime()
			took = end - begun
		}
	}()
	cancel := topdown.NewCancel()
	timer := time.AfterFunc(limit, cancel.Cancel)
	defer timer.Stop()
	err = topdown.NewQuery(p.body).WithQueryCompiler(p.compiler).WithCompiler(p.c).WithStore(store).WithTransaction(reading).
		WithInput(ast.NewTerm(input)).WithCancel(cancel).WithStrictBuiltinErrors(true).WithTime(time.Unix(0, 0)).
		Iter(ctx, func(r topdown.QueryResult) error {
			if p.outputs[0].entry == "resolve" {
				return a.settle(p, r)
			}
			for _, o := range p.outputs {
				if t := r[o.name]; t != nil {
					if f := a.take(o.policy, o.entry, t.Value); f != nil {
						a.Failures = append(a.Failures, *f)
					}
				}
			}
			return nil
		})
	return a, 0, err
}

// take reads the results of one entry point.
func (a *Answer) take(p *Policy, entry string, v ast.Value) *Failure {
	set, ok := v.(ast.Set)
	if !ok {
		return &Failure{p, CodeShape, entry + " is no set"}
	}
	if n := set.Len(); n > maxResults {
		return &Failure{p, CodeCaps, fmt.Sprintf("%s gave %d results, at most %d are taken", entry, n, maxResults)}
	}
	var failure *Failure
	for _, t := range set.Slice() { // sorted
		pair, ok := t.Value.(*ast.Array)
		if !ok || pair.Len() != 2 {
			continue
		}
		n, _ := pair.Elem(0).Value.(ast.Number).Int()
		r := Result{Policy: p, Rule: p.Rules[n]}
		text, err := toJSON(pair.Elem(1).Value)
		if err != nil || len(text) > 64<<10 {
			failure = &Failure{p, CodeCaps, fmt.Sprintf("a result of %s is too large", entry)}
			continue
		}
		r.Value = text
		if entry != "mutate" {
			var body struct {
				Msg  string `json:"msg"`
				Path string `json:"path"`
			}
			if text[0] == '"' {
				err = json.Unmarshal(text, &body.Msg)
			} else {
				err = json.Unmarshal(text, &body)
			}
			if err != nil || body.Msg == "" {
				failure = &Failure{p, CodeShape, fmt.Sprintf("%s at %s gave %s, which is no text and has no msg", entry, r.Rule.Position, clip(string(text), 80))}
				continue
			}
			r.Message, r.Path = clip(body.Msg, maxText), clip(body.Path, 200)
		}
		r.Rule.Hits.Add(1)
		p.Stats.LastHit.Store(time.Now().Unix())
		switch entry {
		case "deny":
			p.Stats.Denials.Add(1)
		case "warn":
			p.Stats.Warnings.Add(1)
		default:
			p.Stats.Mutations.Add(1)
		}
		a.Results = append(a.Results, r)
	}
	return failure
}

// settle reads the answers of resolve rules: they must agree, and a default counts when no other answers.
func (a *Answer) settle(p *plan, r topdown.QueryResult) error {
	var said, fallback *Result
	for n, o := range p.outputs {
		list, ok := r[o.name].Value.(*ast.Array)
		if !ok || list.Len() == 0 {
			continue
		}
		text, err := toJSON(list.Elem(0).Value)
		if err != nil {
			return err
		}
		one := &Result{Policy: o.policy, Rule: o.policy.Rules[n], Value: text}
		switch {
		case one.Rule.fallback:
			fallback = one
		case said == nil:
			said = one
		case string(said.Value) != string(text):
			a.Failures = append(a.Failures, Failure{o.policy, CodeFailed, fmt.Sprintf("the resolve rules at %s and %s give different answers", said.Rule.Position, one.Rule.Position)})
			return nil
		}
	}
	if said = cmp.Or(said, fallback); said != nil {
		said.Rule.Hits.Add(1)
		said.Policy.Stats.Resolved.Add(1)
		said.Policy.Stats.LastHit.Store(time.Now().Unix())
		a.Results = append(a.Results, *said)
	}
	return nil
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}

func toJSON(v ast.Value) ([]byte, error) {
	plain, err := ast.JSON(v)
	if err != nil {
		return nil, err
	}
	return json.Marshal(plain)
}
