package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/chancery-gateway/chancery/runtime/compare"
	"github.com/chancery-gateway/chancery/runtime/report"
)

func (a *app) diffCommand() *cobra.Command {
	var format string
	c := &cobra.Command{
		Use:   "diff A B",
		Short: "Say what changes between two inputs, and whose connections would be drained",
		Long: `Compiles both inputs and prints what differs: by object, by route (what it did and does), by Envoy resource,
and which listeners or filter chains Envoy would drain. Edits of routes, endpoints, clusters and certificates drain nothing.`,
		Example: `  chancery diff manifests/ manifests-new/
  git show main:shop.yaml | chancery diff - shop.yaml
  chancery diff --format json old.yaml new.yaml`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usage("diff needs two PATHs, the old and the new one; see %q", c.CommandPath()+" --help")
			}
			if args[0] == "-" && args[1] == "-" {
				return usage("only one of the two inputs can be standard input")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if format != "text" && format != "json" {
				return usage("--format %q is not known; right is text or json", format)
			}
			defer collectRarely()()
			old, _, err := a.compilePaths(c.Context(), args[:1])
			if err != nil {
				return err
			}
			now, _, err := a.compilePaths(c.Context(), args[1:])
			if err != nil {
				return err
			}
			appeared, vanished := report.Transitions(old.Diagnostics, now.Diagnostics)
			for _, d := range vanished {
				fmt.Fprint(a.err, "gone: "+report.Line(d, terminal(a.err)))
			}
			for _, d := range appeared {
				fmt.Fprint(a.err, "new: "+report.Line(d, terminal(a.err)))
			}
			r := compare.Results(old, now)
			if format == "json" {
				err = writeJSON(a.out, r)
			} else {
				err = r.Write(a.out)
			}
			if err != nil {
				return failure("writing the answer: %w", err)
			}
			return verdict(now.Diagnostics, false)
		},
	}
	c.Flags().StringVar(&format, "format", "text", "text or json")
	return c
}
