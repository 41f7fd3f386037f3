package policies

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/chancery-gateway/chancery/policies/engine"
	"github.com/chancery-gateway/chancery/policies/index"
	"github.com/chancery-gateway/chancery/policies/merge"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
)

// resolution is what a resolve rule may answer.
type resolution struct {
	Winner  string                     `json:"winner"`
	Reason  string                     `json:"reason"`
	Reject  []struct{ ID, Msg string } `json:"reject"`
	Fields  map[string]merge.Strategy  `json:"fields"`
	Default merge.Strategy             `json:"default"`
}

// joins reports whether the claims become one, field by field.
func (r *resolution) joins() bool { return len(r.Fields) > 0 || r.Default != "" }

// askMergers asks the merge policies that take all of the kinds, until one answers. It reports whether one did.
func (a *Admitter) askMergers(m *merged, entries, claims []*entry, kinds ...snapshot.GroupKind) bool {
	for _, p := range a.world.mergers {
		takes := !slices.ContainsFunc(kinds, func(k snapshot.GroupKind) bool { return !p.Spec.Match.TakesKind(k) })
		if p.Broken == nil && !p.Quarantined() && takes && a.applyMerge(m, p, entries, claims) {
			return true
		}
	}
	return false
}

// applyMerge asks one merge policy. It reports whether the policy had an answer; one that fails keeps every claim but the
// first out.
func (a *Admitter) applyMerge(m *merged, p *engine.Policy, entries, claims []*entry) bool {
	by := &settlement{policy: p, rule: p.Rules[0].Position}
	answer, rule, failure := a.world.askMerge(p, m, claims)
	if failure == nil && answer == nil {
		return false
	}
	fail := func(c *snapshot.Code, message string) bool {
		m.forms, m.findings = map[snapshot.Ref]*snapshot.Object{}, nil
		for _, e := range entries {
			if owner(e) != owner(claims[0]) || e != claims[0] && !shared(m.key.kind) {
				a.lose(m, e, claims[0], by, "", fmt.Sprintf("merge policy %s failed, so the first claim stands: %s", p.ID, message))
			}
		}
		m.findings[0].Code = c
		m.outcome = &Merged{Kind: m.key.kind, Claim: m.key.what, Winner: claims[0].object.Ref, Losers: losers(m)}
		return true
	}
	if failure != nil {
		return fail(failure.Code, failure.Message)
	}
	by.rule = rule.Position
	byID := map[string]*entry{}
	for _, e := range claims {
		byID[e.object.Ref.String()] = e
	}
	standing := slices.Clone(claims)
	for _, r := range answer.Reject {
		e := byID[r.ID]
		if e == nil {
			return fail(engine.CodeShape, fmt.Sprintf("%q is no claim", r.ID))
		}
		a.lose(m, e, claims[0], by, "", r.Msg)
		standing = slices.DeleteFunc(standing, func(s *entry) bool { return s == e })
	}
	m.outcome = &Merged{Kind: m.key.kind, Claim: m.key.what, Policy: p.ID, Revision: p.Revision, Rule: by.rule.String(), Reason: answer.Reason}
	var winner *entry
	if len(standing) > 0 {
		winner = standing[0]
	}
	if answer.Winner != "" {
		if winner = byID[answer.Winner]; winner == nil || !slices.Contains(standing, winner) {
			return fail(engine.CodeShape, fmt.Sprintf("winner %q is no claim that stands", answer.Winner))
		}
	}
	if winner != nil {
		m.outcome.Winner = winner.object.Ref
		if answer.joins() {
			if err := a.join(m, by, winner, standing, entries, answer); err != nil {
				return fail(engine.CodeShape, err.Error())
			}
		}
	}
	for _, e := range entries {
		switch {
		case e == winner, winner != nil && shared(m.key.kind) && owner(e) == owner(winner):
		case winner == nil:
			a.lose(m, e, nil, by, "", fmt.Sprintf("policy %s rejects every claim", p.ID))
		default:
			why := fmt.Sprintf("%s stands", winner.object.Ref)
			if answer.Reason != "" {
				why += ": " + answer.Reason
			}
			a.lose(m, e, winner, by, "", why)
		}
	}
	m.outcome.Losers = losers(m)
	return true
}

// join merges the fields of the claims into the winner, and into each of what stands beside it.
func (a *Admitter) join(m *merged, by *settlement, winner *entry, standing, entries []*entry, answer *resolution) error {
	claims := make([]merge.Claim, len(standing))
	for i, e := range standing {
		claims[i] = claimFor(e)
	}
	spec, fields, rejected, err := merge.Merge(claims, answer.Fields, answer.Default)
	if err != nil {
		return err
	}
	for _, r := range rejected {
		for _, e := range standing {
			if e.object.Ref.String() == r.ID {
				a.lose(m, e, standing[0], by, r.Path, r.Message)
			}
		}
	}
	if _, lost := m.forms[winner.object.Ref]; lost {
		return fmt.Errorf("%s is to win, and %s", winner.object.Ref, rejected[0].Message)
	}
	if m.forms[winner.object.Ref], err = withSpec(winner.candidate, spec); err != nil {
		return err
	}
	m.outcome.Fields = fields
	at := slices.Index(standing, winner)
	for _, e := range entries {
		if e == winner || !shared(m.key.kind) || owner(e) != owner(winner) {
			continue
		}
		// A branch beside the winner is bound by the same strategies, in the winner's place.
		branch := slices.Clone(claims)
		branch[at] = claimFor(e)
		spec, _, rejected, err := merge.Merge(branch, answer.Fields, answer.Default)
		if err != nil {
			return err
		}
		if len(rejected) > 0 {
			a.lose(m, e, winner, by, rejected[0].Path, fmt.Sprintf("%s cannot stand beside %s: %s", e.object.Ref, winner.object.Ref, rejected[0].Message))
			continue
		}
		for _, own := range []string{"service", "weight"} { // what makes it a branch
			delete(spec, own)
			if v, has := branch[at].Spec[own]; has {
				spec[own] = v
			}
		}
		if m.forms[e.object.Ref], err = withSpec(e.candidate, spec); err != nil {
			return err
		}
	}
	for _, e := range standing {
		if _, done := m.forms[e.object.Ref]; !done {
			m.forms[e.object.Ref] = nil
			m.findings = append(m.findings, by.sign(e.object.About(snapshot.Info, codeJoined, "", fmt.Sprintf("joined into %s by policy %s", winner.object.Ref, by.policy.ID), "")))
		}
	}
	return nil
}

func claimFor(e *entry) merge.Claim {
	return merge.Claim{ID: e.object.Ref.String(), Parent: e.question.owner == "", Spec: specOf(e.candidate)}
}

func specOf(o *snapshot.Object) map[string]any {
	doc, _ := decode(o.Raw).(map[string]any)
	spec, _ := doc["spec"].(map[string]any)
	return spec
}

// withSpec returns the object with another spec, checked like any other object.
func withSpec(of *snapshot.Object, spec map[string]any) (*snapshot.Object, error) {
	doc, ok := decode(of.Raw).(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s cannot be read", of.Ref)
	}
	doc["spec"] = spec
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	o, found := api.Decode(text, of.Source, nil)
	if o == nil {
		return nil, fmt.Errorf("the joined object is invalid: %s", found[0].Message)
	}
	o.Parent, o.APIVersion = of.Parent, of.APIVersion
	return o, nil
}

// askMerge asks the policy with the claims in several orders: an answer that depends on the order is none.
func (w *world) askMerge(p *engine.Policy, m *merged, claims []*entry) (*resolution, *engine.Rule, *engine.Failure) {
	back := slices.Clone(claims)
	slices.Reverse(back)
	turned := append(slices.Clone(claims[1:]), claims[0])
	var first *engine.Result
	for i, order := range [][]*entry{claims, back, turned} {
		if i == 2 && len(claims) < 3 {
			break
		}
		said, reads, failure := w.askInOrder(p, m.key, claims, order)
		m.reads = append(m.reads, reads...)
		if failure != nil {
			return nil, nil, failure
		}
		if i == 0 {
			first = said
		} else if (said == nil) != (first == nil) || said != nil && string(said.Value) != string(first.Value) {
			return nil, nil, &engine.Failure{Policy: p, Code: engine.CodeOrder, Message: "its answer depends on the order of the claims"}
		}
	}
	if first == nil {
		return nil, nil, nil
	}
	var r resolution
	if err := json.Unmarshal(first.Value, &r); err != nil {
		return nil, nil, &engine.Failure{Policy: p, Code: engine.CodeShape, Message: "resolve gives {winner, reason, reject, fields, default}: " + err.Error()}
	}
	return &r, first.Rule, nil
}

// askInOrder asks the policy with the claims, which are sorted by age, in the given order.
func (w *world) askInOrder(p *engine.Policy, key claimed, claims, order []*entry) (*engine.Result, []index.Key, *engine.Failure) {
	terms := make([]*ast.Term, len(order))
	for i, e := range order {
		terms[i] = ast.NewTerm(claimValue(e, slices.Index(claims, e)))
	}
	q := w.set.Prepare(engine.Resolve, []*engine.Policy{p})
	answer := q.Ask(context.Background(), func(parameters *ast.Term) (ast.Value, error) {
		return ast.NewObject(ast.Item(ast.StringTerm("kind"), ast.StringTerm(key.kind)), ast.Item(ast.StringTerm("claim"), ast.StringTerm(key.what)),
			ast.Item(ast.StringTerm("claims"), ast.ArrayTerm(terms...)), ast.Item(ast.StringTerm("parameters"), parameters)), nil
	}, w.store)
	switch {
	case len(answer.Failures) > 0:
		return nil, answer.Reads, &answer.Failures[0]
	case len(answer.Results) == 0:
		return nil, answer.Reads, nil
	}
	return &answer.Results[0], answer.Reads, nil
}

func claimValue(e *entry, age int) ast.Value {
	object, err := index.Value(e.candidate.Raw)
	if err != nil {
		object = ast.NewObject()
	}
	created := ""
	if !e.object.Created.IsZero() {
		created = e.object.Created.UTC().Format(time.RFC3339)
	}
	return ast.NewObject(ast.Item(ast.StringTerm("object"), ast.NewTerm(object)), ast.Item(ast.StringTerm("id"), ast.StringTerm(e.object.Ref.String())),
		ast.Item(ast.StringTerm("tenant"), ast.StringTerm(e.question.owner)), ast.Item(ast.StringTerm("created"), ast.StringTerm(created)),
		ast.Item(ast.StringTerm("age"), ast.IntNumberTerm(age)))
}
