package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

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
	asked    atomic.Int64
	recall   *recall // nil for a query that remembers nothing
}

// InputFunc makes the input document for a parameters document.
type InputFunc func(parameters *ast.Term) (ast.Value, error)

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

// sampled is how often policies that could be asked together are asked alone, so that the time of each is known.
const sampled = 64

// Ask asks the question with the data of the store. A policy that fails is asked again alone, so that it costs no other its
// answer. The results are in the order of the policies.
func (q *Query) Ask(ctx context.Context, input InputFunc, store *index.Store) Answer {
	var a Answer
	if q == nil {
		return a
	}
	together := q.asked.Add(1)%sampled != 1
	for _, g := range q.groups {
		if (together || len(g.policies) == 1) && !slices.ContainsFunc(g.policies, (*Policy).Quarantined) {
			one, took, err := g.ask(ctx, input, store, g.run)
			if err == nil && (took < slow || len(g.policies) == 1) {
				g.charge(took)
				a.take(one)
				continue
			}
		}
		// Somebody failed, or took long, or the time of each is wanted: each is asked alone.
		for _, p := range g.policies {
			if p.Quarantined() { // since the question was put: it will be put anew
				a.Failures = append(a.Failures, Failure{p, CodeTimeout, errQuarantined.Error()})
				continue
			}
			alone, ok := q.alone.Load(p)
			if !ok {
				alone, _ = q.alone.LoadOrStore(p, q.set.compile(q.phase, []*Policy{p}, p.parameters))
			}
			one, took, err := alone.(*plan).ask(ctx, input, store, alone.(*plan).patient)
			alone.(*plan).charge(took)
			a.take(one)
			if err != nil {
				p.Stats.Errors.Add(1)
				a.Failures = append(a.Failures, p.failure(err))
			}
		}
	}
	if len(q.groups) > 1 {
		a.sort(q.policies)
	}
	return a
}

// sort brings the results into the order of the policies.
func (a *Answer) sort(policies []*Policy) {
	slices.SortStableFunc(a.Results, func(x, y Result) int {
		return slices.Index(policies, x.Policy) - slices.Index(policies, y.Policy)
	})
}

var errQuarantined = errors.New("the policy is quarantined")

// take adds an answer and books its results.
func (a *Answer) take(b Answer) {
	for i := range b.Results {
		b.Results[i].count()
	}
	a.add(b)
}

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
