package command

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/chancery-gateway/chancery/runtime/report"
)

func (a *app) compileCommand() *cobra.Command {
	var dir, emit, format string
	var timed, failOnWarning bool
	c := &cobra.Command{
		Use:   "compile PATH...",
		Short: "Compile manifests to Envoy configuration",
		Long: `Compiles manifests and prints one part of the result, or with -o writes all of it to a directory:

  static.json       one complete Envoy configuration: envoy -c static.json runs it without a control plane
  bootstrap.json    the bootstrap of an Envoy that asks Chancery for its configuration
  ads.json          every resource that Chancery serves, by type
  clustermap.json   each cluster with its endpoints and the objects it came from
  ir.json           the linked program
  diagnostics.json  what is wrong, by object and field

static.json and ads.json hold private keys and are readable by their owner only. Diagnostics go to standard error.`,
		Example: `  chancery compile manifests/ > envoy.json && envoy -c envoy.json
  chancery compile -o out manifests/
  chancery compile --emit ir --format yaml host.yaml mapping.yaml
  kubectl get mappings,hosts,listeners -A -o yaml | chancery compile --emit clustermap -`,
		Args: needPaths,
		RunE: func(c *cobra.Command, paths []string) error {
			if !slices.Contains(emitted, emit) {
				return usage("--emit %q is not known; right is one of %s", emit, strings.Join(emitted, ", "))
			}
			if format != "json" && format != "yaml" {
				return usage("--format %q is not known; right is json or yaml", format)
			}
			if dir != "" && (c.Flags().Changed("emit") || format != "json") {
				return usage("-o writes all parts as JSON; leave out --emit and --format yaml")
			}
			defer collectRarely()()
			r, t, err := a.compilePaths(c.Context(), paths)
			if err != nil {
				return err
			}
			begun := time.Now()
			o := output{result: r, settings: a.settings}
			p := a.progress("writing")
			if dir != "" {
				err = o.writeAll(dir)
			} else {
				err = o.write(a.out, emit, format)
			}
			p.done()
			if err != nil {
				return failure("writing the result: %w", err)
			}
			t.Write = time.Since(begun)
			if err := report.Write(a.err, "text", r.Diagnostics, report.Options{Colour: terminal(a.err)}); err != nil {
				return failure("writing diagnostics: %w", err)
			}
			if len(r.Diagnostics) > 0 {
				fmt.Fprintln(a.err, report.Summary(r.Diagnostics))
			}
			if err := t.finish(a, timed); err != nil {
				return failure("writing timings: %w", err)
			}
			return verdict(r.Diagnostics, failOnWarning)
		},
	}
	c.Flags().StringVarP(&dir, "output", "o", "", "write all parts to this directory, which is made if missing")
	c.Flags().StringVar(&emit, "emit", "static", "print one part: "+strings.Join(emitted, ", "))
	c.Flags().StringVar(&format, "format", "json", "json or yaml")
	c.Flags().BoolVar(&timed, "timings", false, "print one line of JSON with nanoseconds per stage and counts to standard error")
	c.Flags().BoolVar(&failOnWarning, "fail-on-warning", false, "exit with 4 when there are warnings")
	return c
}
