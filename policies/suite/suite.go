// Package suite runs the tests of rules: every rule test_... of the files ..._test.rego, with what of the rules they covered.
package suite

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/cover"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/tester"

	"github.com/chancery-gateway/chancery/policies/engine"
	"github.com/chancery-gateway/chancery/snapshot"
)

// Options say what to run.
type Options struct {
	// Run is a regex over "package.test"; "" for all.
	Run string
	// Timeout is for one test; 5 s when zero.
	Timeout time.Duration
	// Data is data for the tests, beside what they set with `with`.
	Data map[string]any
}

// Outcome is what became of one test.
type Outcome struct {
	Package  string            `json:"package"`
	Name     string            `json:"name"`
	Result   string            `json:"result"` // pass, fail, error or skip
	Position snapshot.Position `json:"-"`
	At       string            `json:"at"`
	Message  string            `json:"message,omitempty"`
	Output   string            `json:"output,omitempty"`
	Took     time.Duration     `json:"nanos"`
}

// Rule is one rule of a policy and whether any test went into it.
type Rule struct {
	Package string `json:"package"`
	Name    string `json:"name"`
	At      string `json:"at"`
	Covered bool   `json:"covered"`
}

// Report is the outcome of a run.
type Report struct {
	Tests []Outcome `json:"tests"`
	// Coverage is the part of the rules (tests left out) that some test went into, in percent; 100 when there are none.
	Coverage float64 `json:"coverage"`
	Rules    []Rule  `json:"rules"`
	// Findings say why modules could not be loaded; nothing of theirs was run.
	Findings []snapshot.Diagnostic `json:"-"`
}

// Failed returns the number of tests that did not pass.
func (r *Report) Failed() (n int) {
	for _, t := range r.Tests {
		if t.Result == "fail" || t.Result == "error" {
			n++
		}
	}
	return n
}

// Run runs the tests of the modules. The error is about the run as a whole (a bad filter); a module that does not load is a finding.
func Run(ctx context.Context, modules []engine.Module, o Options) (*Report, error) {
	r := &Report{}
	var broken bool
	if r.Findings, broken = check(modules); broken {
		return r, nil
	}
	parsed := map[string]*ast.Module{}
	for _, m := range modules {
		p, err := ast.ParseModuleWithOpts(m.File, string(m.Text), ast.ParserOptions{ProcessAnnotation: true, RegoVersion: ast.RegoV1, Capabilities: engine.TestCapabilities()})
		if err != nil {
			return nil, err
		}
		parsed[m.File] = p
	}
	coverage := cover.New()
	if o.Data == nil {
		o.Data = map[string]any{}
	}
	store := inmem.NewFromObject(o.Data)
	compiler := ast.NewCompiler().WithCapabilities(engine.TestCapabilities()).WithEnablePrintStatements(true).WithDefaultRegoVersion(ast.RegoV1)
	runner := tester.NewRunner().SetCompiler(compiler).SetStore(store).SetModules(parsed).CapturePrintOutput(true).RaiseBuiltinErrors(true).
		SetTimeout(cmp.Or(o.Timeout, 5*time.Second)).SetCoverageQueryTracer(coverage).Filter(o.Run)
	txn, err := store.NewTransaction(ctx, storage.WriteParams)
	if err != nil {
		return nil, err
	}
	defer store.Abort(ctx, txn)
	results, err := runner.RunTests(ctx, txn)
	if err != nil {
		return nil, err
	}
	for t := range results {
		r.Tests = append(r.Tests, outcome(t))
	}
	slices.SortFunc(r.Tests, func(a, b Outcome) int {
		return cmp.Or(strings.Compare(a.Position.File, b.Position.File), cmp.Compare(a.Position.Line, b.Position.Line))
	})
	r.cover(coverage.Report(parsed), modules, parsed)
	return r, nil
}

// check loads the modules as the engine would, so that a test run never passes what a compile would refuse.
func check(modules []engine.Module) (found []snapshot.Diagnostic, broken bool) {
	set := engine.NewLoader().Load(engine.Input{Modules: slices.Clone(modules)})
	for _, d := range set.Findings {
		broken = broken || d.Severity == snapshot.Error
	}
	found = set.Findings
	for i := range modules {
		if m := &modules[i]; m.IsTest() {
			if ds := engine.Syntax(m); len(ds) > 0 {
				found, broken = append(found, ds...), true
			}
		}
	}
	return found, broken
}

func outcome(t *tester.Result) Outcome {
	o := Outcome{Package: strings.TrimPrefix(t.Package, "data."), Name: t.Name, Result: "pass", Took: t.Duration, Output: string(t.Output)}
	if t.Location != nil {
		o.Position = snapshot.Position{File: t.Location.File, Line: t.Location.Row}
		o.At = o.Position.String()
	}
	switch {
	case t.Error != nil:
		o.Result, o.Message = "error", t.Error.Error()
	case t.Skip:
		o.Result = "skip"
	case t.Fail:
		o.Result, o.Message = "fail", "the test is not true"
	}
	return o
}

// cover works out which rules were gone into: those of which a line of the body, or the head of one without body, was covered.
func (r *Report) cover(c cover.Report, modules []engine.Module, parsed map[string]*ast.Module) {
	covered := 0
	for i := range modules {
		m := &modules[i]
		if m.IsTest() {
			continue
		}
		file := c.Files[m.File]
		for _, rule := range parsed[m.File].Rules {
			if rule.Default {
				continue
			}
			one := Rule{Package: strings.TrimPrefix(parsed[m.File].Package.Path.String(), "data."), Name: rule.Head.Ref().String(), At: fmt.Sprintf("%s:%d", m.File, rule.Location.Row)}
			one.Covered = file != nil && file.IsCovered(rule.Location.Row)
			if one.Covered {
				covered++
			}
			r.Rules = append(r.Rules, one)
		}
	}
	r.Coverage = 100
	if len(r.Rules) > 0 {
		r.Coverage = 100 * float64(covered) / float64(len(r.Rules))
	}
}
