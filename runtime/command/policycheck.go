package command

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/chancery-gateway/chancery/policies"
	"github.com/chancery-gateway/chancery/runtime/report"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/files"
)

func (a *app) policyCheckCommand() *cobra.Command {
	var format string
	var from []string
	var failOnWarning bool
	c := &cobra.Command{
		Use:   "check PATH...",
		Short: "Load rules, and say what is wrong with them or with the objects that they judge",
		Long: `Loads rules as a compile does: parses them, checks that they use nothing that is not allowed, and type-checks them against
the schemas of the objects. With --from, the objects there are judged too, and nothing else about them is checked.

Exit codes: 0 fine, 1 an object is denied, 2 wrong usage, 3 a policy is broken, 4 warnings with --fail-on-warning.`,
		Example: `  chancery policy check guardrails/
  chancery policy check guardrails/ --from manifests/ --format sarif`,
		Args: needPaths,
		RunE: func(c *cobra.Command, paths []string) error {
			if !slices.Contains(report.Formats(), format) {
				return usage("--format %q is not known; right is one of %s", format, strings.Join(report.Formats(), ", "))
			}
			admitter, found, err := a.judge(c.Context(), paths, from)
			if err != nil {
				return err
			}
			if err := report.Write(a.out, format, found, report.Options{Colour: terminal(a.out), Version: Version}); err != nil {
				return failure("writing diagnostics: %w", err)
			}
			if format == "text" {
				fmt.Fprintf(a.err, "%s; %s, %s judged\n", report.Summary(found), report.Count(len(admitter.Policies()), "policy"), report.Count(len(admitter.Verdicts()), "object"))
			}
			return verdict(found, failOnWarning)
		},
	}
	c.Flags().StringSliceVar(&from, "from", nil, "judge the objects of these paths")
	c.Flags().StringVar(&format, "format", "text", strings.Join(report.Formats(), ", "))
	c.Flags().BoolVar(&failOnWarning, "fail-on-warning", false, "exit with 4 when there are warnings")
	return c
}

// judge loads the rules of the paths and judges the objects of from with them.
func (a *app) judge(ctx context.Context, rules, from []string) (*policies.Admitter, []snapshot.Diagnostic, error) {
	s, err := a.readPolicies(ctx, rules)
	if err != nil {
		return nil, nil, err
	}
	world, err := a.readWorld(from)
	if err != nil {
		return nil, nil, err
	}
	admitter, found := a.admit(s, world)
	return admitter, found, nil
}

func (a *app) readWorld(from []string) (*snapshot.Snapshot, error) {
	if len(from) == 0 {
		return snapshot.Empty(), nil
	}
	world, err := files.Load(from, a.in)
	if err != nil {
		return nil, &status{exitUsage, err}
	}
	return world, nil
}

func (a *app) admit(s *policies.Supply, world *snapshot.Snapshot) (*policies.Admitter, []snapshot.Diagnostic) {
	a.rules = func() *policies.Supply { return s }
	admitter := a.newAdmitter()
	_, found := admitter.Admit(world)
	files.Resolve(world, found)
	return admitter, found
}
