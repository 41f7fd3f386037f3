package policies

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/chancery-gateway/chancery/policies/engine"
	"github.com/chancery-gateway/chancery/policies/index"
	"github.com/chancery-gateway/chancery/policies/merge"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
)

// claimed is what several objects compete for.
type claimed struct {
	kind, what string
}

// claimOf returns what an object claims; ok is false for objects that compete for nothing.
func claimOf(o *snapshot.Object) (claimed, bool) {
	if o == nil || o.Group != snapshot.EmissaryGroup {
		return claimed{}, false
	}
	var fields []string
	switch o.Kind {
	case "Host":
		fields = []string{"hostname", "ambassador_id"}
	case "Listener":
		fields = []string{"port", "ambassador_id"}
	case "AuthService":
		fields = []string{"ambassador_id"}
	case "Mapping":
		fields = []string{"hostname", "host", "host_regex", "prefix", "prefix_regex", "prefix_exact", "method", "method_regex", "headers", "regex_headers",
			"query_parameters", "regex_query_parameters", "ambassador_id"}
	default:
		return claimed{}, false
	}
	spec := specOf(o)
	var parts []string
	for _, f := range fields {
		if v, ok := spec[f]; ok {
			text, err := json.Marshal(v)
			if err == nil {
				parts = append(parts, f+"="+strings.ToLower(string(text)))
			}
		}
	}
	return claimed{o.Kind, strings.Join(parts, " ")}, true
}

func specOf(o *snapshot.Object) map[string]any {
	doc, _ := decode(o.Raw).(map[string]any)
	spec, _ := doc["spec"].(map[string]any)
	return spec
}

// Merged is what came of one claim.
type Merged struct {
	Kind, Claim string
	// Winner is the object that stands, Losers those that do not.
	Winner snapshot.Ref
	Losers []snapshot.Ref
	// Policy settled it; "" for the default. Fields say where each field came from, when they were joined.
	Policy, Revision string
	Fields           []merge.Field
}

// merged is a claim with its outcome.
type merged struct {
	key      claimed
	members  map[snapshot.Ref]*entry
	forms    map[snapshot.Ref]*snapshot.Object // what stands of the members that were touched; nil for nothing
	findings []snapshot.Diagnostic
	outcome  *Merged
}

// contested reports whether claims have to be looked at at all.
func (w *world) contested() bool { return len(w.mergers) > 0 || len(w.tenancy.All()) > 0 }

// enter takes the object's claim up, or out when form is nil, and returns the claims that have to be settled anew.
func (a *Admitter) enter(e *entry, form *snapshot.Object, dirty map[claimed]bool) {
	key, ok := claimOf(form)
	if e.claims && (!ok || e.claim != key) {
		a.leave(e, dirty)
	}
	if !ok {
		return
	}
	m := a.merges[key]
	if m == nil {
		m = &merged{key: key, members: map[snapshot.Ref]*entry{}}
		a.merges[key] = m
	}
	e.claim, e.claims = key, true
	m.members[e.object.Ref] = e
	dirty[key] = true
}

func (a *Admitter) leave(e *entry, dirty map[claimed]bool) {
	if !e.claims {
		return
	}
	if m := a.merges[e.claim]; m != nil {
		delete(m.members, e.object.Ref)
		dirty[e.claim] = true
	}
	e.claims = false
}

// resolve settles the claims and returns what stands of every object that takes part in one of them.
func (a *Admitter) resolve(dirty map[claimed]bool) map[snapshot.Ref]*snapshot.Object {
	out := map[snapshot.Ref]*snapshot.Object{}
	for key := range dirty {
		m := a.merges[key]
		if m == nil {
			continue
		}
		if len(m.members) == 0 {
			delete(a.merges, key)
			continue
		}
		m.forms, m.findings, m.outcome = map[snapshot.Ref]*snapshot.Object{}, nil, nil
		a.settleClaim(m)
		for ref, e := range m.members {
			out[ref] = e.candidate
			if form, touched := m.forms[ref]; touched {
				out[ref] = form
			}
		}
	}
	return out
}

// settleClaim decides one claim.
func (a *Admitter) settleClaim(m *merged) {
	if len(m.members) < 2 {
		return
	}
	entries := slices.SortedFunc(maps.Values(m.members), func(x, y *entry) int {
		if x.candidate.NewerThan(y.candidate) {
			return 1
		}
		return -1
	})
	claims := entries
	if m.key.kind == "Mapping" {
		// Branches of one owner are a canary; the oldest speaks for all.
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
	for _, p := range a.world.mergers {
		if p.Broken != nil || p.Quarantined() || !p.Spec.Match.TakesKind(entries[0].object.GroupKind()) {
			continue
		}
		if a.applyMerge(m, p, entries, claims) {
			return
		}
	}
	a.oldestTenant(m, entries, claims)
}

func owner(e *entry) string {
	if e.question.owner != "" {
		return "tenant " + e.question.owner
	}
	return "namespace " + e.object.Namespace
}

// oldestTenant is what holds without a policy: between tenants the oldest claim stands. Claims of one tenant, and those of
// namespaces without tenant, are left to the linker.
func (a *Admitter) oldestTenant(m *merged, entries, claims []*entry) {
	if m.key.kind != "Mapping" && m.key.kind != "Host" {
		return
	}
	first := claims[0]
	for _, e := range entries {
		if e.question.owner != first.question.owner {
			a.lose(m, e, first, nil, "", fmt.Sprintf("%s of %s claims the same and is older", first.object.Ref, describeOwner(first)))
		}
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
func (a *Admitter) lose(m *merged, e, winner *entry, p *engine.Policy, path, why string) {
	m.forms[e.object.Ref] = nil
	d := e.object.About(snapshot.Error, codeLost, path, why, "agree with the owner of the other object, or claim something else")
	if p != nil {
		d.Policy = p.ID
		if len(p.Rules) > 0 {
			d.Rule = p.Rules[0].Position
		}
	}
	m.findings = append(m.findings, d)
}

// resolution is what a resolve rule may answer.
type resolution struct {
	Winner  string                     `json:"winner"`
	Reason  string                     `json:"reason"`
	Reject  []struct{ ID, Msg string } `json:"reject"`
	Fields  map[string]merge.Strategy  `json:"fields"`
	Default merge.Strategy             `json:"default"`
}

// applyMerge asks one merge policy. It reports whether the policy had an answer; one that fails keeps every claim but the
// oldest out.
func (a *Admitter) applyMerge(m *merged, p *engine.Policy, entries, claims []*entry) bool {
	answer, failure := a.world.askMerge(p, m.key, claims)
	if failure == nil && answer == nil {
		return false
	}
	fail := func(c *snapshot.Code, message string) bool {
		for _, e := range claims[1:] {
			a.lose(m, e, claims[0], p, "", fmt.Sprintf("merge policy %s failed, so the oldest claim stands: %s", p.ID, message))
		}
		m.findings[0].Code = c
		return true
	}
	if failure != nil {
		return fail(failure.Code, failure.Message)
	}
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
		a.lose(m, e, claims[0], p, "", r.Msg)
		standing = slices.DeleteFunc(standing, func(s *entry) bool { return s == e })
	}
	if len(standing) == 0 {
		m.outcome = &Merged{Kind: m.key.kind, Claim: m.key.what, Losers: losers(m), Policy: p.ID, Revision: p.Revision}
		return true
	}
	winner := standing[0]
	if answer.Winner != "" {
		if winner = byID[answer.Winner]; winner == nil || !slices.Contains(standing, winner) {
			return fail(engine.CodeShape, fmt.Sprintf("winner %q is no claim that stands", answer.Winner))
		}
	}
	m.outcome = &Merged{Kind: m.key.kind, Claim: m.key.what, Winner: winner.object.Ref, Policy: p.ID, Revision: p.Revision}
	if len(answer.Fields) > 0 || answer.Default != "" {
		if err := a.join(m, p, winner, standing, answer); err != nil {
			m.forms, m.findings, m.outcome = map[snapshot.Ref]*snapshot.Object{}, nil, nil
			return fail(engine.CodeShape, err.Error())
		}
	}
	for _, e := range entries {
		if owner(e) == owner(winner) && m.key.kind == "Mapping" || e == winner {
			continue
		}
		if _, done := m.forms[e.object.Ref]; !done {
			why := fmt.Sprintf("%s stands", winner.object.Ref)
			if answer.Reason != "" {
				why += ": " + answer.Reason
			}
			a.lose(m, e, winner, p, "", why)
		}
	}
	m.outcome.Losers = losers(m)
	return true
}

// join merges the fields of the claims into the winner.
func (a *Admitter) join(m *merged, p *engine.Policy, winner *entry, standing []*entry, answer *resolution) error {
	var claims []merge.Claim
	for _, e := range standing {
		claims = append(claims, merge.Claim{ID: e.object.Ref.String(), Parent: e.question.owner == "", Spec: specOf(e.candidate)})
	}
	spec, fields, rejected, err := merge.Merge(claims, answer.Fields, answer.Default)
	if err != nil {
		return err
	}
	for _, r := range rejected {
		for _, e := range standing {
			if e.object.Ref.String() == r.ID {
				a.lose(m, e, standing[0], p, r.Path, r.Message)
			}
		}
	}
	doc, ok := decode(winner.candidate.Raw).(map[string]any)
	if !ok {
		return fmt.Errorf("%s cannot be read", winner.object.Ref)
	}
	doc = copied(doc)
	doc["spec"] = spec
	text, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	o, found := api.Decode(text, winner.object.Source, nil)
	if o == nil {
		return fmt.Errorf("the joined object is invalid: %s", found[0].Message)
	}
	o.Parent, o.APIVersion = winner.object.Parent, winner.object.APIVersion
	m.forms[winner.object.Ref] = o
	m.outcome.Fields = fields
	for _, e := range standing {
		if _, done := m.forms[e.object.Ref]; !done && e != winner {
			m.forms[e.object.Ref] = nil
			d := e.object.About(snapshot.Info, codeJoined, "", fmt.Sprintf("joined into %s by policy %s", winner.object.Ref, p.ID), "")
			d.Policy = p.ID
			m.findings = append(m.findings, d)
		}
	}
	return nil
}

// askMerge asks the policy twice, with the claims in two orders: an answer that depends on the order is none.
func (w *world) askMerge(p *engine.Policy, key claimed, claims []*entry) (*resolution, *engine.Failure) {
	one, failure := w.askInOrder(p, key, claims, claims)
	if failure != nil {
		return nil, failure
	}
	back := slices.Clone(claims)
	slices.Reverse(back)
	other, failure := w.askInOrder(p, key, claims, back)
	if failure != nil {
		return nil, failure
	}
	if string(one) != string(other) {
		return nil, &engine.Failure{Policy: p, Code: engine.CodeOrder, Message: "its answer depends on the order of the claims"}
	}
	if one == nil {
		return nil, nil
	}
	var r resolution
	if err := json.Unmarshal(one, &r); err != nil {
		return nil, &engine.Failure{Policy: p, Code: engine.CodeShape, Message: "resolve gives {winner, reason, reject, fields, default}: " + err.Error()}
	}
	return &r, nil
}

// askInOrder asks the policy with the claims, which are sorted by age, in the given order.
func (w *world) askInOrder(p *engine.Policy, key claimed, claims, order []*entry) ([]byte, *engine.Failure) {
	terms := make([]*ast.Term, len(order))
	for i, e := range order {
		terms[i] = ast.NewTerm(claimValue(e, slices.Index(claims, e)))
	}
	q := w.set.Prepare(engine.Resolve, []*engine.Policy{p})
	answer := q.Ask(context.Background(), func(parameters *ast.Term) ast.Value {
		return ast.NewObject(ast.Item(ast.StringTerm("kind"), ast.StringTerm(key.kind)), ast.Item(ast.StringTerm("claim"), ast.StringTerm(key.what)),
			ast.Item(ast.StringTerm("claims"), ast.ArrayTerm(terms...)), ast.Item(ast.StringTerm("parameters"), parameters))
	}, w.store)
	if len(answer.Failures) > 0 {
		return nil, &answer.Failures[0]
	}
	if len(answer.Results) == 0 {
		return nil, nil
	}
	return answer.Results[0].Value, nil
}

// rehearse asks a merge policy about made-up claims in every order, and marks it broken when the order matters.
func (w *world) rehearse(p *engine.Policy) {
	if p.Broken != nil {
		return
	}
	for _, kind := range []string{"Host", "Listener", "Mapping", "AuthService"} {
		if !p.Spec.Match.TakesKind(snapshot.GroupKind{Group: snapshot.EmissaryGroup, Kind: kind}) {
			continue
		}
		var claims []*entry
		for i, tenant := range []string{"", "one", "two"} {
			text := fmt.Sprintf(`{"apiVersion":"getambassador.io/v3alpha1","kind":%q,"metadata":{"name":"n%d","namespace":"ns%d","labels":{"owner":"o%d"}},`+
				`"spec":{"hostname":"a.example.com","prefix":"/a/","service":"s%d","port":%d,"protocol":"HTTP","securityModel":"XFP","timeout_ms":%d,"weight":%d,"auth_service":"s%d"}}`, kind, i, i, i, i, 8080, 1000*(3-i), 10*i, i)
			o := &snapshot.Object{Ref: snapshot.Ref{Group: snapshot.EmissaryGroup, Kind: kind, Namespace: fmt.Sprintf("ns%d", i), Name: fmt.Sprintf("n%d", i)}, Raw: []byte(text),
				Created: time.Unix(int64(1_700_000_000+i), 0)}
			claims = append(claims, &entry{object: o, candidate: o, question: &question{owner: tenant}})
		}
		first := ""
		for i, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
			answer, failure := w.askInOrder(p, claimed{kind, "rehearsal"}, claims, []*entry{claims[order[0]], claims[order[1]], claims[order[2]]})
			text := string(answer)
			if failure != nil {
				text = failure.Code.ID
				if failure.Code == engine.CodeFailed { // conflicting rules and the like, which made-up claims may provoke rightly
					text = ""
				}
			}
			if i == 0 {
				first = text
			}
			if text != first {
				d := p.About(engine.CodeOrder, "", fmt.Sprintf("merge policy %s gives different answers for one set of %s claims in different orders", p.ID, kind), "decide by age, tenant or fields, never by the place in the list")
				p.Broken = &d
				w.findings = append(w.findings, d)
				return
			}
		}
	}
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

// Merges returns the claims for which several objects compete, by kind and claim.
func (a *Admitter) Merges() []*Merged {
	var out []*Merged
	for _, m := range a.merges {
		if m.outcome != nil {
			out = append(out, m.outcome)
		}
	}
	slices.SortFunc(out, func(x, y *Merged) int { return strings.Compare(x.Kind+x.Claim, y.Kind+y.Claim) })
	return out
}
