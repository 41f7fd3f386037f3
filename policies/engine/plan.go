package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
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

// plan is a compiled query that asks several policies at once.
type plan struct {
	policies []*Policy
	body     ast.Body
	compiler ast.QueryCompiler
	c        *ast.Compiler
	err      error
}

// The caps on results.
const (
	maxResults = 100
	maxText    = 2000
)

// Key identifies a question up to its input: the policies that are asked, with their revisions.
func Key(ph Phase, policies []*Policy) string {
	var b strings.Builder
	b.WriteString(string(ph))
	for _, p := range policies {
		b.WriteString(" " + p.Tenant + "/" + p.ID + "@" + p.Revision)
	}
	return b.String()
}

func (s *Set) plan(ph Phase, policies []*Policy) *plan {
	key := Key(ph, policies)
	if p, ok := s.plans.Load(key); ok {
		return p.(*plan)
	}
	p := &plan{policies: policies, c: s.units[policies[0].Tenant].compiler}
	for i, one := range policies {
		for _, e := range ph.entries() {
			if !one.has[e] {
				continue
			}
			name := e + suffix
			if ph == Resolve {
				name = e
			}
			ref := ast.Ref{ast.DefaultRootDocument}
			for _, part := range strings.Split(one.Package, ".") {
				ref = append(ref, ast.StringTerm(part))
			}
			expr := ast.Equality.Expr(ast.VarTerm(e+"_"+strconv.Itoa(i)), ast.NewTerm(append(ref, ast.StringTerm(name))))
			if one.usesParameters {
				expr.With = []*ast.With{{Target: ast.NewTerm(ast.Ref{ast.InputRootDocument, ast.StringTerm("parameters")}), Value: one.parameters}}
			}
			expr.Index = len(p.body)
			p.body = append(p.body, expr)
		}
	}
	p.compiler = p.c.QueryCompiler()
	p.body, p.err = p.compiler.Compile(p.body)
	have, _ := s.plans.LoadOrStore(key, p)
	return have.(*plan)
}

// Ask asks the policies, which must be of one owner and not broken, with the input and the data of the store. A policy that
// fails is asked again alone, so that it costs no other its answer.
func (s *Set) Ask(ctx context.Context, ph Phase, policies []*Policy, input ast.Value, store *index.Store) Answer {
	policies = slices.DeleteFunc(slices.Clone(policies), func(p *Policy) bool { return !p.Has(ph) })
	if len(policies) == 0 {
		return Answer{}
	}
	var limit time.Duration
	for _, p := range policies {
		limit = max(limit, p.Spec.TimeLimit())
	}
	a, err := s.plan(ph, policies).run(ctx, ph, input, store, limit)
	if err == nil {
		return a
	}
	a = Answer{}
	for _, p := range policies {
		one, err := s.plan(ph, []*Policy{p}).run(ctx, ph, input, store, p.Spec.TimeLimit())
		a.Results = append(a.Results, one.Results...)
		a.Failures = append(a.Failures, one.Failures...)
		a.Reads = append(a.Reads, one.Reads...)
		if err != nil {
			p.Stats.Errors.Add(1)
			a.Failures = append(a.Failures, p.failure(err))
		}
	}
	return a
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

// run evaluates the query once.
func (p *plan) run(ctx context.Context, ph Phase, input ast.Value, store *index.Store, limit time.Duration) (Answer, error) {
	if p.err != nil {
		return Answer{}, p.err
	}
	begun := time.Now()
	reading := &index.Reading{Tenant: p.policies[0].Tenant}
	cancel := topdown.NewCancel()
	timer := time.AfterFunc(limit, cancel.Cancel)
	defer timer.Stop()
	var a Answer
	err := topdown.NewQuery(p.body).WithQueryCompiler(p.compiler).WithCompiler(p.c).WithStore(store).WithTransaction(reading).
		WithInput(ast.NewTerm(input)).WithCancel(cancel).WithStrictBuiltinErrors(true).WithTime(time.Unix(0, 0)).
		Iter(ctx, func(r topdown.QueryResult) error {
			for i, one := range p.policies {
				for _, e := range ph.entries() {
					if t := r[ast.Var(e+"_"+strconv.Itoa(i))]; t != nil {
						if f := a.take(one, e, t.Value); f != nil {
							a.Failures = append(a.Failures, *f)
						}
					}
				}
			}
			return nil
		})
	took := time.Since(begun).Nanoseconds() / int64(len(p.policies))
	for _, one := range p.policies {
		one.Stats.Evaluations.Add(1)
		one.Stats.Nanos.Add(took)
	}
	a.Reads = reading.Keys
	return a, err
}

// take reads the results of one entry point.
func (a *Answer) take(p *Policy, entry string, v ast.Value) *Failure {
	if entry == "resolve" {
		text, err := toJSON(v)
		if err != nil {
			return &Failure{p, CodeShape, err.Error()}
		}
		a.Results = append(a.Results, Result{Policy: p, Rule: p.Rules[0], Value: text})
		return nil
	}
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
		a.Results = append(a.Results, r)
	}
	return failure
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
