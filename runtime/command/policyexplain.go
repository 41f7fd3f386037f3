package command

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/chancery-gateway/chancery/policies"
	"github.com/chancery-gateway/chancery/runtime/report"
	"github.com/chancery-gateway/chancery/runtime/trace"
	"github.com/chancery-gateway/chancery/snapshot"
)

func (a *app) policyExplainCommand() *cobra.Command {
	var object, format string
	var from []string
	c := &cobra.Command{
		Use:     "explain PATH... --from PATH --object KIND/NS/NAME",
		Short:   "Say what policies made of one object: who was asked, who said what, who set which field",
		Example: `  chancery policy explain guardrails/ --from manifests/ --object Mapping/shop/cart`,
		Args: func(c *cobra.Command, args []string) error {
			if object == "" || len(from) == 0 {
				return usage("explain needs --from and --object; see %q", c.CommandPath()+" --help")
			}
			return needPaths(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if format != "text" && format != "json" {
				return usage("--format %q is not known; right is text or json", format)
			}
			s, err := a.readPolicies(c.Context(), args)
			if err != nil {
				return err
			}
			world, err := a.readWorld(from)
			if err != nil {
				return err
			}
			admitter, _ := a.admit(s, world)
			found := trace.Find(world, object)
			if len(found) == 0 {
				return usage("there is no object %q in the input; write it as KIND/NAMESPACE/NAME", object)
			}
			for _, o := range found {
				v := admitter.Verdict(o.Ref)
				if v == nil {
					v = &policies.Verdict{Object: o, Form: o}
				}
				e := explain(admitter, v)
				if format == "json" {
					err = writeJSON(a.out, e)
				} else {
					err = e.write(a.out)
				}
				if err != nil {
					return failure("writing the answer: %w", err)
				}
			}
			return nil
		},
	}
	c.Flags().StringSliceVar(&from, "from", nil, "manifests that hold the object and its world")
	c.Flags().StringVar(&object, "object", "", "KIND/NAMESPACE/NAME")
	c.Flags().StringVar(&format, "format", "text", "text or json")
	return c
}

// explanation is the answer of `chancery policy explain`.
type explanation struct {
	Object   string            `json:"object"`
	Tenant   string            `json:"tenant"`
	Verdict  string            `json:"verdict"`
	Asked    []askedPolicy     `json:"asked"`
	Findings []report.Finding  `json:"findings"`
	Changes  []policies.Change `json:"changes"`
	// Merges are the claims that the object takes part in.
	Merges []*policies.Merged `json:"merges,omitempty"`
}

type askedPolicy struct {
	ID       string `json:"id"`
	Package  string `json:"package"`
	Revision string `json:"revision"`
	Broken   bool   `json:"broken,omitempty"`
}

func explain(a *policies.Admitter, v *policies.Verdict) *explanation {
	e := &explanation{Object: v.Object.Ref.String(), Tenant: v.Tenant, Verdict: standing(v), Asked: []askedPolicy{}, Changes: v.Changes,
		Findings: report.NewDocument(v.Findings).Diagnostics}
	if e.Changes == nil {
		e.Changes = []policies.Change{}
	}
	add := func(ids []string, broken bool) {
		for _, id := range ids {
			for _, p := range a.Policies() {
				if p.ID == id {
					e.Asked = append(e.Asked, askedPolicy{p.ID, p.Package, p.Revision, broken})
				}
			}
		}
	}
	add(v.Asked, false)
	add(v.Broken, true)
	e.Merges = a.MergesOf(v.Object.Ref)
	for _, m := range e.Merges {
		if slices.Contains(m.Losers, v.Object.Ref) {
			e.Verdict = "lost"
		}
	}
	return e
}

func (e *explanation) write(w io.Writer) error {
	var b strings.Builder
	tenant := ""
	if e.Tenant != "" {
		tenant = ", tenant " + e.Tenant
	}
	fmt.Fprintf(&b, "%s: %s%s\n", e.Object, e.Verdict, tenant)
	for _, p := range e.Asked {
		broken := ""
		if p.Broken {
			broken = " (broken)"
		}
		fmt.Fprintf(&b, "  asked %s%s, revision %s\n", p.ID, broken, p.Revision)
		for _, f := range e.Findings {
			if f.Policy != nil && f.Policy.ID == p.ID {
				fmt.Fprintf(&b, "    %s %s: %s\n", f.Severity, f.Policy.Rule, f.Message)
			}
		}
	}
	for _, c := range e.Changes {
		fmt.Fprintf(&b, "  %s: %s -> %s by %s at %s\n", c.Path, absent(c.Old), absent(c.New), c.Policy, c.Rule)
	}
	for _, f := range e.Findings {
		if f.Policy == nil || !slices.ContainsFunc(e.Asked, func(p askedPolicy) bool { return p.ID == f.Policy.ID }) {
			fmt.Fprintf(&b, "  %s: %s\n", f.Severity, f.Message)
		}
	}
	for _, m := range e.Merges {
		writeMerge(&b, m)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeMerge says who won a claim by which rule, and where each field came from.
func writeMerge(b *strings.Builder, m *policies.Merged) {
	by := "the default (between tenants the oldest stands; the platform's where there is one for all)"
	if m.Kind == "Defaults" {
		by = "the default (a Mapping's own settings hold, but for those of security)"
	}
	if m.Policy != "" {
		by = fmt.Sprintf("policy %s, revision %s, rule at %s", m.Policy, m.Revision, m.Rule)
	}
	fmt.Fprintf(b, "  claim to %s %s\n    ", m.Kind, m.Claim)
	if m.Winner.Name == "" {
		fmt.Fprintf(b, "nobody wins, decided by %s\n", by)
	} else {
		fmt.Fprintf(b, "won by %s, decided by %s\n", m.Winner, by)
	}
	if m.Reason != "" {
		fmt.Fprintf(b, "    reason: %s\n", m.Reason)
	}
	for _, l := range m.Losers {
		fmt.Fprintf(b, "    lost: %s\n", l)
	}
	for _, f := range m.Fields {
		from := f.Winner
		if from == "" {
			from = "several"
		}
		fmt.Fprintf(b, "    %s from %s (%s of %s)\n", f.Path, from, f.Strategy, strings.Join(f.Contributors, ", "))
	}
}

// explainPolicies adds what policies made of the objects: who set which field, who denied, who won a claim.
func (a *app) explainPolicies(refs []snapshot.Ref) error {
	admitter := a.admitter.Load()
	if admitter == nil || admitter.Set() == nil {
		return nil
	}
	seen := map[snapshot.Ref]bool{}
	for _, r := range refs {
		v := admitter.Verdict(r)
		if v == nil || seen[r] {
			continue
		}
		seen[r] = true
		if len(seen) == 1 {
			if _, err := io.WriteString(a.out, "\npolicies\n"); err != nil {
				return err
			}
		}
		if err := explain(admitter, v).write(a.out); err != nil {
			return err
		}
	}
	return nil
}

func absent(v []byte) string {
	if v == nil {
		return "(absent)"
	}
	return string(v)
}
