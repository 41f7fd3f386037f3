package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/chancery-gateway/chancery/policies/index"
)

// plan asks policies that can share one parameters document, in one evaluation.
type plan struct {
	set        *Set
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

func (s *Set) compile(ph Phase, policies []*Policy, parameters *ast.Term) *plan {
	p := &plan{set: s, policies: policies, parameters: parameters, c: s.units[policies[0].Tenant].compiler}
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

// slow is what policies that are asked together may take before each is measured alone; passBudget is how long one policy,
// and tenantBudget how long all policies of one tenant, may take in all for the objects of one compile.
const (
	slow         = 20 * time.Millisecond
	passBudget   = 5 * time.Second
	tenantBudget = 10 * time.Second
)

// BeginPass starts the budgets of one compile.
func (s *Set) BeginPass() {
	for _, p := range s.Policies {
		p.Stats.passed.Store(p.Stats.Nanos.Load())
	}
	for _, spent := range s.spent {
		spent.Store(0)
	}
}

// charge books an evaluation on the policies, which share its time. One whose budget is used up is quarantined; when that of a
// tenant is, the one of its policies that took most.
func (p *plan) charge(took time.Duration) {
	if len(p.policies) == 1 {
		p.policies[0].Stats.observe(took)
	}
	for _, one := range p.policies {
		one.Stats.Evaluations.Add(1)
		one.Stats.Nanos.Add(took.Nanoseconds() / int64(len(p.policies)))
		if one.Stats.pass() > passBudget {
			one.Stats.quarantined.Store(true)
		}
	}
	if spent := p.set.spent[p.policies[0].Tenant]; spent != nil && time.Duration(spent.Add(took.Nanoseconds())) > tenantBudget {
		var most *Policy
		for _, one := range p.set.Policies {
			if one.Tenant == p.policies[0].Tenant && !one.Quarantined() && (most == nil || one.Stats.pass() > most.Stats.pass()) {
				most = one
			}
		}
		if most != nil {
			most.Stats.quarantined.Store(true)
			spent.Add(-most.Stats.pass().Nanoseconds())
		}
	}
}

// pass is the time that the policy took in the present compile.
func (s *Stats) pass() time.Duration { return time.Duration(s.Nanos.Load() - s.passed.Load()) }

// ask evaluates the plan over the input that it makes.
func (p *plan) ask(ctx context.Context, input InputFunc, store *index.Store, run func(context.Context, ast.Value, *index.Store, time.Duration) (Answer, time.Duration, error)) (Answer, time.Duration, error) {
	document, err := input(p.parameters)
	if err != nil {
		return Answer{}, 0, fmt.Errorf("the object cannot be read: %w", err)
	}
	return run(ctx, document, store, p.limit)
}

// patient evaluates the plan under its deadline as processor time: on a machine that is busy with other things an
// evaluation that was cut before it had its time is given more of the wall clock, up to 64 times the deadline.
func (p *plan) patient(ctx context.Context, input ast.Value, store *index.Store, limit time.Duration) (a Answer, took time.Duration, err error) {
	for ; ; limit *= 4 {
		a, took, err = p.run(ctx, input, store, limit)
		if err == nil || !topdown.IsCancel(err) || took >= p.limit || limit >= 64*p.limit {
			return a, took, err
		}
	}
}

// indexed lets the engine leave out rules of which its index says that they cannot hold. Tests turn it off to compare.
var indexed = true

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
		WithInput(ast.NewTerm(input)).WithIndexing(indexed).WithCancel(cancel).WithStrictBuiltinErrors(true).WithTime(time.Unix(0, 0)).
		Iter(ctx, func(r topdown.QueryResult) error {
			if p.outputs[0].entry == "resolve" {
				return a.settle(p, r)
			}
			for _, o := range p.outputs {
				if t := r[o.name]; t != nil {
					if f := a.read(o.policy, o.entry, t.Value); f != nil {
						a.Failures = append(a.Failures, *f)
					}
				}
			}
			return nil
		})
	if err != nil && cancel.Cancelled() { // an error of a builtin before would hide that the rest was not looked at
		err = &topdown.Error{Code: topdown.CancelErr, Message: "the time is over"}
	}
	return a, 0, err
}

// read reads the results of one entry point.
func (a *Answer) read(p *Policy, entry string, v ast.Value) *Failure {
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
		a.Results = append(a.Results, r)
	}
	return failure
}

// count books a result.
func (r *Result) count() {
	r.Rule.Hits.Add(1)
	n := r.Policy.Stats
	n.LastHit.Store(time.Now().Unix())
	switch r.Rule.Name {
	case "deny":
		n.Denials.Add(1)
	case "warn":
		n.Warnings.Add(1)
	case "mutate":
		n.Mutations.Add(1)
	default:
		n.Resolved.Add(1)
	}
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
