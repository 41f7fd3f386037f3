package policies

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	policy "github.com/chancery-gateway/chancery/policies/api"
	"github.com/chancery-gateway/chancery/policies/engine"
	"github.com/chancery-gateway/chancery/policies/index"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
)

// maxRounds is how often mutations may build on each other.
const maxRounds = 5

// mutation is what came of the mutate rules for one object.
type mutation struct {
	// Changes are the fields that differ, by path.
	changes []Change
	notes   []snapshot.Diagnostic
	faults  []fault
}

// fault is a mutation that keeps the object out.
type fault struct {
	policy  *engine.Policy
	finding snapshot.Diagnostic
}

// Change is one field that a policy set.
type Change struct {
	Path string `json:"path"`
	// Steps are the names and places that the path is made of. A parent that was absent is a change of its own, with all that is below.
	Steps []string `json:"-"`
	// Old and New are JSON; nil for a field that is absent.
	Old    json.RawMessage `json:"old,omitempty"`
	New    json.RawMessage `json:"new,omitempty"`
	Policy string          `json:"policy"`
	Rule   string          `json:"rule"`
}

// operation is one wish of a mutate rule.
type operation struct {
	result engine.Result
	op     string
	path   []string
	value  any
}

// readOperation checks the form of a mutate result.
func readOperation(r engine.Result) (operation, string) {
	var body struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	d := json.NewDecoder(bytes.NewReader(r.Value))
	d.UseNumber()
	d.DisallowUnknownFields()
	if err := d.Decode(&body); err != nil {
		return operation{}, fmt.Sprintf("a mutation is {op, path, value}, not %s", r.Value)
	}
	o := operation{result: r, op: body.Op, value: body.Value}
	switch body.Op {
	case "set", "add", "replace":
		o.op = "set"
	case "default", "remove":
	default:
		return o, fmt.Sprintf("op %q is not known; right is set, default or remove", body.Op)
	}
	if rest, ok := strings.CutPrefix(body.Path, "/"); ok {
		for _, p := range strings.Split(rest, "/") {
			o.path = append(o.path, strings.NewReplacer("~1", "/", "~0", "~").Replace(p))
		}
	} else {
		o.path = strings.Split(strings.NewReplacer("[", ".", "]", "").Replace(body.Path), ".")
	}
	if slices.Contains(o.path, "") {
		return o, fmt.Sprintf("path %q is no field; write spec.timeout_ms or /spec/timeout_ms", body.Path)
	}
	return o, ""
}

func (o operation) where() string { return strings.Join(o.path, ".") }

// granted reports whether the policy may write the path.
func granted(p *engine.Policy, path []string) bool {
	return slices.ContainsFunc(p.Spec.Writes, func(w string) bool {
		want := strings.Split(w, ".")
		return len(path) >= len(want) && slices.Equal(path[:len(want)], want)
	})
}

// mutate asks for mutations until none changes the object any more, applies them, and returns the document to judge.
func (a *Admitter) mutate(ctx context.Context, e *entry) *index.Document {
	w := a.world
	if e.question.mutations == nil {
		return e.document
	}
	document, doc := e.document, any(nil)
	var last []operation
	for round := 0; ; round++ {
		answer := e.question.mutations.About(ctx, document, e.object.Namespace, a.input(e.object, document, document == e.document), w.store)
		e.failures = append(e.failures, answer.Failures...)
		e.reads = append(e.reads, answer.Reads...)
		ops := a.operations(e, answer.Results)
		if len(ops) == 0 || len(e.mutation.faults) > 0 {
			break
		}
		if doc == nil {
			doc = decode(e.object.Raw)
		}
		var effective []operation
		for _, o := range ops {
			next, changed, err := apply(doc, o)
			if err != nil {
				e.blame(o.result, codeScope, o.where(), "cannot be applied: "+err.Error(), "")
				continue
			}
			if changed {
				effective, doc = append(effective, o), next
			}
		}
		if len(effective) == 0 || len(e.mutation.faults) > 0 {
			break
		}
		if round == maxRounds {
			for _, o := range effective {
				e.blame(o.result, codeUnstable, o.where(), fmt.Sprintf("policy %s still changes %s after %d rounds", o.result.Policy.ID, o.where(), maxRounds), "")
			}
			break
		}
		last = append(last, effective...)
		text, err := json.Marshal(doc)
		if err != nil {
			e.blame(effective[0].result, codeSpoiled, "", err.Error(), "")
			break
		}
		document = index.NewDocument(text)
	}
	if len(last) == 0 || len(e.mutation.faults) > 0 {
		return e.document
	}
	return a.adopt(e, doc, last, document)
}

func decode(raw []byte) any {
	var doc any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	_ = d.Decode(&doc) // Raw is well formed: it was made by the decoder
	return doc
}

// blame notes a mutation that keeps the object out.
func (e *entry) blame(r engine.Result, c *snapshot.Code, path, message, help string) {
	e.mutation.faults = append(e.mutation.faults, fault{r.Policy, about(e.object, snapshot.Error, c, r.Policy, r.Rule, path, message, help)})
}

// operations reads the wishes of one round, leaves out those on trial, and settles or reports conflicts.
func (a *Admitter) operations(e *entry, results []engine.Result) []operation {
	var ops []operation
	for _, r := range results {
		o, wrong := readOperation(r)
		switch {
		case wrong != "":
			e.blame(r, engine.CodeShape, "", fmt.Sprintf("policy %s: %s", r.Policy.ID, wrong), "")
		case !granted(r.Policy, o.path):
			e.blame(r, codeScope, o.where(), fmt.Sprintf("policy %s may not write %s", r.Policy.ID, o.where()),
				fmt.Sprintf("its writes are %q", r.Policy.Spec.Writes))
		case r.Policy.Spec.At(a.world.point) != policy.EnforceDeny:
			note := about(e.object, snapshot.Info, engine.CodeDryRun, r.Policy, r.Rule, o.where(), fmt.Sprintf("policy %s would %s %s: %s", r.Policy.ID, o.op, o.where(), r.Value), "")
			if !slices.Contains(e.mutation.notes, note) {
				e.mutation.notes = append(e.mutation.notes, note)
			}
		default:
			ops = append(ops, o)
		}
	}
	slices.SortStableFunc(ops, func(a, b operation) int { return strings.Compare(a.where(), b.where()) })
	var out []operation
	for i, o := range ops {
		stands := true
		for j, other := range ops {
			if i == j || !clash(o, other) {
				continue
			}
			mine, theirs := o.result.Policy.Spec.Priority, other.result.Policy.Spec.Priority
			if mine > theirs {
				continue
			}
			stands = false
			if mine == theirs {
				e.blame(o.result, codeFight, o.where(), fmt.Sprintf("policies %s (%s) and %s (%s) write different values to %s",
					o.result.Policy.ID, o.result.Rule.Position, other.result.Policy.ID, other.result.Rule.Position, o.where()), "give one of them a higher priority")
			}
			break
		}
		if stands {
			out = append(out, o)
		}
	}
	return out
}

// clash reports whether two operations cannot both be done.
func clash(a, b operation) bool {
	n := min(len(a.path), len(b.path))
	if !slices.Equal(a.path[:n], b.path[:n]) {
		return false
	}
	return len(a.path) != len(b.path) || a.op != b.op || !reflect.DeepEqual(a.value, b.value)
}

// apply does one operation on a copy of what it touches and reports whether anything differs.
func apply(doc any, o operation) (any, bool, error) {
	return descend(doc, o.path, o)
}

func descend(at any, path []string, o operation) (any, bool, error) {
	step, last := path[0], len(path) == 1
	switch node := at.(type) {
	case map[string]any:
		child, there := node[step]
		switch {
		case last && o.op == "remove":
			if !there {
				return at, false, nil
			}
			next := copied(node)
			delete(next, step)
			return next, true, nil
		case last && (o.op == "default" && there || there && reflect.DeepEqual(child, o.value)):
			return at, false, nil
		case last:
			next := copied(node)
			next[step] = o.value
			return next, true, nil
		case !there && o.op == "remove":
			return at, false, nil
		case !there || child == nil:
			child = map[string]any{}
		}
		changed, did, err := descend(child, path[1:], o)
		if err != nil || !did {
			return at, false, err
		}
		next := copied(node)
		next[step] = changed
		return next, true, nil
	case []any:
		i, err := strconv.Atoi(step)
		if step == "-" && last && o.op == "set" {
			return append(slices.Clip(node), o.value), true, nil
		}
		if err != nil || i < 0 || i >= len(node) {
			return at, false, fmt.Errorf("%q is no place in a list of %d", step, len(node))
		}
		next := slices.Clone(node)
		if last {
			if o.op == "remove" {
				return slices.Delete(next, i, i+1), true, nil
			}
			if o.op == "default" || reflect.DeepEqual(node[i], o.value) {
				return at, false, nil
			}
			next[i] = o.value
			return next, true, nil
		}
		changed, did, err := descend(node[i], path[1:], o)
		next[i] = changed
		return next, did, err
	}
	return at, false, fmt.Errorf("there is no field %q in a value that is no object", step)
}

func copied(m map[string]any) map[string]any {
	out := make(map[string]any, len(m)+1)
	for k, v := range m {
		out[k] = v
	}
	return out
}

// adopt decodes and checks the result, and notes what changed.
func (a *Admitter) adopt(e *entry, doc any, done []operation, document *index.Document) *index.Document {
	text, err := json.Marshal(doc)
	if err != nil {
		e.blame(done[0].result, codeSpoiled, "", err.Error(), "")
		return e.document
	}
	o, found := api.Decode(text, e.object.Source, nil)
	if o == nil {
		for _, d := range found {
			for i := len(done) - 1; i >= 0; i-- {
				if strings.HasPrefix(d.Path+".", done[i].where()+".") || strings.HasPrefix(done[i].where()+".", d.Path+".") || i == 0 {
					e.blame(done[i].result, codeSpoiled, d.Path, fmt.Sprintf("after policy %s set %s: %s", done[i].result.Policy.ID, done[i].where(), d.Message), d.Help)
					break
				}
			}
		}
		return e.document
	}
	if o.Ref != e.object.Ref {
		e.blame(done[0].result, codeScope, "metadata", "the object's name, namespace or kind cannot be changed", "")
		return e.document
	}
	o.Parent, o.APIVersion = e.object.Parent, e.object.APIVersion
	e.form = o
	before := decode(e.object.Raw)
	seen := map[string]bool{}
	for i := len(done) - 1; i >= 0; i-- {
		op := done[i]
		path := op.path
		for len(path) > 1 && lookup(before, path[:len(path)-1]) == nil { // the parent is new too
			path = path[:len(path)-1]
		}
		c := Change{Path: strings.Join(path, "."), Steps: path, Old: lookup(before, path), New: lookup(doc, path), Policy: op.result.Policy.ID, Rule: op.result.Rule.Position.String()}
		if seen[c.Path] {
			continue
		}
		seen[c.Path] = true
		e.mutation.changes = append(e.mutation.changes, c)
		was := "was absent"
		if c.Old != nil {
			was = "was " + string(c.Old)
		}
		message := fmt.Sprintf("policy %s set %s to %s (%s)", c.Policy, c.Path, c.New, was)
		if c.New == nil {
			message = fmt.Sprintf("policy %s removed %s (%s)", c.Policy, c.Path, was)
		}
		e.mutation.notes = append(e.mutation.notes, about(e.object, snapshot.Info, codeMutated, op.result.Policy, op.result.Rule, op.where(), message, ""))
	}
	slices.SortFunc(e.mutation.changes, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return document
}

func lookup(at any, path []string) json.RawMessage {
	for _, step := range path {
		switch node := at.(type) {
		case map[string]any:
			next, ok := node[step]
			if !ok {
				return nil
			}
			at = next
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(node) {
				return nil
			}
			at = node[i]
		default:
			return nil
		}
	}
	text, err := json.Marshal(at)
	if err != nil {
		return nil
	}
	return text
}

// Changes returns what policies changed in the object, by path.
func (a *Admitter) Changes(r snapshot.Ref) []Change {
	if e := a.entries[r]; e != nil {
		return e.mutation.changes
	}
	return nil
}
