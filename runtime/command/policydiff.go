package command

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/chancery-gateway/chancery/policies"
	"github.com/chancery-gateway/chancery/policies/engine"
	"github.com/chancery-gateway/chancery/runtime/compare"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators"
)

// verdictChange is one object about which two sets of rules differ.
type verdictChange struct {
	Object string   `json:"object"`
	Tenant string   `json:"tenant"`
	Old    string   `json:"old"`
	New    string   `json:"new"`
	Why    []string `json:"why"`
}

// policyDiff is the answer of `chancery policy diff`.
type policyDiff struct {
	Verdicts []verdictChange `json:"verdicts"`
	// Tenants count, by tenant ("" for none), the objects that would be denied anew.
	Tenants map[string]int `json:"deniedAnewByTenant"`
	Config  any            `json:"config"`
}

func (a *app) policyDiffCommand() *cobra.Command {
	var format string
	var from []string
	c := &cobra.Command{
		Use:   "diff OLD NEW --from PATH",
		Short: "Say which objects another set of rules would judge differently, and what Envoy would be told",
		Long: `Judges the objects of --from with both sets of rules and prints whose verdict changes, by tenant, and how the Envoy
configuration would differ: the evidence for a step from dryrun to warn to deny.

Exit codes: 0 nothing is denied anew, 1 something is, 2 wrong usage, 3 a policy is broken.`,
		Example: `  chancery policy diff guardrails/ guardrails-next/ --from manifests/`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 2 || len(from) == 0 {
				return usage("diff needs the old and the new rules, and --from; see %q", c.CommandPath()+" --help")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if format != "text" && format != "json" {
				return usage("--format %q is not known; right is text or json", format)
			}
			world, err := a.readWorld(from)
			if err != nil {
				return err
			}
			var verdicts [2]map[snapshot.Ref]*policies.Verdict
			var found []snapshot.Diagnostic
			var results [2]*translators.Result
			for i, path := range args {
				s, err := a.readPolicies(c.Context(), []string{path})
				if err != nil {
					return err
				}
				a.rules = func() *policies.Supply { return s }
				r := a.newCompiler().Compile(world)
				results[i], found, verdicts[i] = r, r.Diagnostics, map[snapshot.Ref]*policies.Verdict{}
				for _, v := range a.admitter.Load().Verdicts() {
					verdicts[i][v.Object.Ref] = v
				}
			}
			d := &policyDiff{Verdicts: []verdictChange{}, Tenants: map[string]int{}}
			d.compare(verdicts[0], verdicts[1])
			config := compare.Results(results[0], results[1])
			d.Config = config
			if format == "json" {
				err = writeJSON(a.out, d)
			} else if err = d.write(a.out); err == nil {
				err = config.Write(a.out)
			}
			if err != nil {
				return failure("writing the answer: %w", err)
			}
			if slices.ContainsFunc(found, engine.Faulty) {
				return &status{code: exitFailure}
			}
			if len(d.Tenants) > 0 {
				return &status{code: exitErrors}
			}
			return nil
		},
	}
	c.Flags().StringSliceVar(&from, "from", nil, "manifests whose objects are judged")
	c.Flags().StringVar(&format, "format", "text", "text or json")
	return c
}

// standing says in one word what was made of an object.
func standing(v *policies.Verdict) string {
	switch {
	case v == nil:
		return "admitted"
	case v.Denied:
		return "denied"
	case slices.ContainsFunc(v.Findings, func(d snapshot.Diagnostic) bool { return d.Severity == snapshot.Warning }):
		return "warned"
	case len(v.Changes) > 0:
		return "changed"
	}
	return "admitted"
}

func (d *policyDiff) compare(old, now map[snapshot.Ref]*policies.Verdict) {
	refs := maps.Clone(old)
	maps.Copy(refs, now)
	for _, ref := range slices.SortedFunc(maps.Keys(refs), snapshot.Ref.Compare) {
		before, after := old[ref], now[ref]
		c := verdictChange{Object: ref.String(), Old: standing(before), New: standing(after), Why: []string{}}
		said := func(v *policies.Verdict) (out []string) {
			if v != nil {
				for _, f := range v.Findings {
					out = append(out, strings.TrimSpace(f.Severity.String()+" "+f.Policy)+": "+f.Message)
				}
				c.Tenant = cmp.Or(v.Tenant, c.Tenant)
			}
			return out
		}
		was, is := said(before), said(after)
		for _, s := range is {
			if !slices.Contains(was, s) {
				c.Why = append(c.Why, "new: "+s)
			}
		}
		for _, s := range was {
			if !slices.Contains(is, s) {
				c.Why = append(c.Why, "gone: "+s)
			}
		}
		if len(c.Why) == 0 && c.Old == c.New {
			continue
		}
		if c.New == "denied" && c.Old != "denied" {
			d.Tenants[c.Tenant]++
		}
		d.Verdicts = append(d.Verdicts, c)
	}
}

func (d *policyDiff) write(w io.Writer) error {
	var b strings.Builder
	for _, c := range d.Verdicts {
		tenant := ""
		if c.Tenant != "" {
			tenant = " (tenant " + c.Tenant + ")"
		}
		fmt.Fprintf(&b, "%s%s: %s -> %s\n", c.Object, tenant, c.Old, c.New)
		for _, y := range c.Why {
			fmt.Fprintf(&b, "    %s\n", y)
		}
	}
	if len(d.Verdicts) == 0 {
		b.WriteString("no object is judged differently\n")
	}
	for _, t := range slices.Sorted(maps.Keys(d.Tenants)) {
		name := "without tenant"
		if t != "" {
			name = "of tenant " + t
		}
		s := "s"
		if d.Tenants[t] == 1 {
			s = ""
		}
		fmt.Fprintf(&b, "denied anew: %d object%s %s\n", d.Tenants[t], s, name)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
