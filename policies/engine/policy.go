package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/chancery-gateway/chancery/policies/api"
	"github.com/chancery-gateway/chancery/snapshot"
)

// Policy is one instance of a package in a set.
type Policy struct {
	// ID names the policy in findings and exceptions.
	ID string
	// Package is the dotted name of the package that holds the rules.
	Package string
	// Tenant owns the policy; "" for the platform.
	Tenant string
	Spec   api.PolicySpec
	Meta   *Meta
	// Object is the Policy object; nil for a package that is its own policy.
	Object *snapshot.Object
	// Rules are the deny, warn, mutate and resolve rules of the package, in the order of file and line.
	Rules []*Rule
	// Broken says why the policy cannot be asked; nil when it can.
	Broken *snapshot.Diagnostic
	// Revision identifies the rules and parameters: equal revisions give equal answers to equal questions.
	Revision string
	// Stats counts what the policy did, over all sets that had it in this revision.
	Stats *Stats

	parameters *ast.Term
	// sharable says that the rules ask for parameters by name only, so that names of others beside do not matter.
	sharable bool
	reads    projection
	has      map[string]bool // names of entry points
	modules  []*module
}

// Stats counts what a policy did. All fields may be read at any time.
type Stats struct {
	Evaluations, Denials, Warnings, Mutations, Resolved, Errors, Timeouts atomic.Int64
	// Remembered is how often an answer was taken again, since the policy had been asked about the same before.
	Remembered atomic.Int64
	// Times are the evaluations that were measured alone, by the bound of Bounds that they keep to, the last for longer ones.
	Times [len(Bounds) + 1]atomic.Int64
	// Measured is the time of these, in nanoseconds.
	Measured atomic.Int64
	// Nanos is the time of all evaluations; policies that are asked together share theirs. LastHit is the time of the last result, in Unix seconds.
	Nanos, LastHit atomic.Int64
	// passed is Nanos at the begin of the present compile.
	passed atomic.Int64
	// quarantined is set once the policy has run over its deadline too often, or over its budget for one compile.
	quarantined atomic.Bool
}

// Bounds are those of Times.
var Bounds = [...]time.Duration{20 * time.Microsecond, 50 * time.Microsecond, 100 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, time.Second}

// observe books an evaluation that was measured alone.
func (s *Stats) observe(took time.Duration) {
	at := 0
	for at < len(Bounds) && took > Bounds[at] {
		at++
	}
	s.Times[at].Add(1)
	s.Measured.Add(took.Nanoseconds())
}

// Quarantined reports whether the policy is not asked any more because it ran over its deadline too often.
func (p *Policy) Quarantined() bool { return p.Stats.quarantined.Load() }

// IsMerge reports whether the policy settles competing claims.
func (p *Policy) IsMerge() bool { return strings.HasPrefix(p.Package, mergeRoot) }

// Rule is one entry-point rule.
type Rule struct {
	Name     string
	Position snapshot.Position
	// Title is that of the rule's own METADATA block; may be "".
	Title string
	Hits  atomic.Int64
	// fallback is set for a default rule, which answers when no other does.
	fallback bool
}

// entryPoints of admission packages. The rules are asked under the name with suffix, in which each result is paired with
// the number of its rule.
var entryPoints = []string{"deny", "warn", "mutate"}

const suffix = "__rules"

// inspect finds the entry points of a package, and adds the numbered twins to the modules that are compiled. Twins is nil
// when the package is no policy.
func inspect(mods []*module) (rules []*Rule, has map[string]bool, twins map[*module]*ast.Module, found []snapshot.Diagnostic) {
	has = map[string]bool{}
	twins = map[*module]*ast.Module{}
	merge := strings.HasPrefix(mods[0].pkg, mergeRoot)
	var near []string
	for _, m := range mods {
		copied := m.parsed.Copy()
		twins[m] = copied
		for _, r := range slices.Clone(copied.Rules) {
			name := r.Head.Ref()[0].Value.String()
			switch {
			case merge && name == "resolve":
				if len(r.Head.Args) > 0 || len(r.Head.Ref()) > 1 || r.Head.RuleKind() == ast.MultiValue {
					found = append(found, m.about(codeEntry, r.Location, "resolve must be a complete rule", `write resolve := {...} if {...}`))
					continue
				}
				has[name] = true
				copied.Rules = append(copied.Rules, renamed(r, resolveName(len(rules))))
				rules = append(rules, &Rule{Name: name, Position: m.at(r.Location), Title: titleOf(r), fallback: r.Default})
			case !merge && slices.Contains(entryPoints, name):
				if len(r.Head.Args) > 0 || len(r.Head.Ref()) > 1 || r.Head.RuleKind() != ast.MultiValue || r.Default {
					found = append(found, m.about(codeEntry, r.Location, fmt.Sprintf("%s must be a set", name), fmt.Sprintf("write %s contains ... if {...}", name)))
					continue
				}
				has[name] = true
				copied.Rules = append(copied.Rules, twin(r, name, len(rules)))
				rules = append(rules, &Rule{Name: name, Position: m.at(r.Location), Title: titleOf(r)})
			default:
				near = append(near, name)
			}
		}
	}
	if len(rules) == 0 && len(found) == 0 {
		want := "a rule deny, warn or mutate"
		if merge {
			want = "a rule resolve"
		}
		slices.Sort(near)
		message := fmt.Sprintf("package %s has no entry point", mods[0].pkg)
		if near = slices.Compact(near); len(near) > 0 {
			message += fmt.Sprintf(" (only %s)", strings.Join(near[:min(len(near), 5)], ", "))
		}
		found = append(found, mods[0].about(codeEntry, mods[0].parsed.Package.Location, message, "add "+want))
	}
	return rules, has, twins, found
}

// twin copies a rule so that its results are pairs of the rule's number and the result.
func twin(r *ast.Rule, name string, n int) *ast.Rule {
	t := r.Copy()
	t.Annotations = nil
	t.Head.Name = ast.Var(name + suffix)
	t.Head.Reference = ast.Ref{ast.VarTerm(name + suffix)}
	key := t.Head.Key
	t.Head.Key = ast.ArrayTerm(ast.IntNumberTerm(n), key)
	t.Head.Key.Location = key.Location
	t.Module = r.Module
	return t
}

// resolveName is the name under which one resolve rule is asked alone, so that it is known which of them answered.
func resolveName(n int) string { return "resolve" + suffix + "_" + strconv.Itoa(n) }

// renamed copies a complete rule, with what follows its else, under another name.
func renamed(r *ast.Rule, name string) *ast.Rule {
	t := r.Copy()
	t.Annotations, t.Module = nil, r.Module
	for at := t; at != nil; at = at.Else {
		at.Head.Name, at.Head.Reference = ast.Var(name), ast.Ref{ast.VarTerm(name)}
		at.Module = r.Module
	}
	return t
}

func titleOf(r *ast.Rule) string {
	for _, a := range r.Annotations {
		if a.Title != "" {
			return a.Title
		}
	}
	return ""
}

// finish works out the parameters and the revision.
func (p *Policy) finish(digest string) *snapshot.Diagnostic {
	value, path, message := p.Meta.parameters(p.Spec.Parameters)
	if message != "" {
		d := p.About(codeParameters, path, message, "see the policy's parameters in its METADATA")
		return &d
	}
	p.parameters = value
	spec, _ := json.Marshal(p.Spec)
	sum := sha256.Sum256([]byte(digest + "\x00" + p.ID + "\x00" + string(spec) + "\x00" + value.String()))
	p.Revision = hex.EncodeToString(sum[:8])
	return nil
}

// About returns an error about the policy itself, at its object or its first rule.
func (p *Policy) About(c *snapshot.Code, path, message, help string) snapshot.Diagnostic {
	if p.Object != nil {
		return p.Object.About(snapshot.Error, c, path, message, help)
	}
	d := snapshot.Diagnostic{Severity: snapshot.Error, Code: c, Message: fmt.Sprintf("policy %s: %s", p.ID, message), Help: help}
	if len(p.Rules) > 0 {
		d.Position = p.Rules[0].Position
	}
	return d
}

// merged returns the spec with what METADATA says where the object says nothing.
func merged(s, meta api.PolicySpec) api.PolicySpec {
	if s.Match.Kinds == nil {
		s.Match.Kinds = meta.Match.Kinds
	}
	if s.Match.Namespaces == nil {
		s.Match.Namespaces = meta.Match.Namespaces
	}
	if s.Match.ExcludedNamespaces == nil {
		s.Match.ExcludedNamespaces = meta.Match.ExcludedNamespaces
	}
	if s.Match.Labels == nil {
		s.Match.Labels = meta.Match.Labels
	}
	if s.Match.Tenants == nil {
		s.Match.Tenants = meta.Match.Tenants
	}
	if s.Enforcement == "" {
		s.Enforcement = meta.Enforcement
	}
	if s.Enforcement == "" {
		s.Enforcement = api.EnforceDeny
	}
	if s.Points == nil {
		s.Points = meta.Points
	}
	if s.Writes == nil {
		s.Writes = meta.Writes
	}
	if s.Priority == 0 {
		s.Priority = meta.Priority
	}
	for _, f := range []struct{ into, from *string }{{&s.OnDeny, &meta.OnDeny}, {&s.OnFailure, &meta.OnFailure}, {&s.Deadline, &meta.Deadline}} {
		if *f.into == "" {
			*f.into = *f.from
		}
	}
	return s
}
