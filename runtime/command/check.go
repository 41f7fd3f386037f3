package command

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/chancery-gateway/chancery/runtime/proof"
	"github.com/chancery-gateway/chancery/runtime/report"
	"github.com/chancery-gateway/chancery/runtime/supervisor"
	"github.com/chancery-gateway/chancery/snapshot"
)

func (a *app) checkCommand() *cobra.Command {
	var format, admission string
	var timed, failOnWarning bool
	c := &cobra.Command{
		Use:   "check PATH...",
		Short: "Say what is wrong with manifests",
		Long: `Compiles manifests and prints what is wrong with them: file and line, object and field, what would be
right. Where an Envoy binary is found, Envoy is asked for its verdict too (--envoy none leaves that out).`,
		Example: `  chancery check manifests/
  chancery check --format github manifests/           # annotations in a GitHub workflow
  chancery check --format sarif manifests/ > out.sarif
  chancery check --policies guardrails/ manifests/
  chancery check --policies guardrails/ --admission-review review.json
  helm template shop ./chart | chancery check --fail-on-warning -`,
		Args: func(c *cobra.Command, args []string) error {
			if admission != "" {
				return nil
			}
			return needPaths(c, args)
		},
		RunE: func(c *cobra.Command, paths []string) error {
			if admission != "" {
				return a.reviewAdmission(c.Context(), admission, paths)
			}
			if !slices.Contains(report.Formats(), format) {
				return usage("--format %q is not known; right is one of %s", format, strings.Join(report.Formats(), ", "))
			}
			path, err := supervisor.Find(a.settings.Envoy)
			if errors.Is(err, supervisor.ErrNotFound) {
				fmt.Fprintln(a.err, "note: only Chancery's own rules are applied: "+err.Error())
			} else if err != nil {
				return &status{exitUsage, err}
			}
			defer collectRarely()()
			a.asking = true
			r, t, err := a.compilePaths(c.Context(), paths)
			if err != nil {
				return err
			}
			found := slices.Clone(r.Diagnostics)
			if path != "" {
				begun := time.Now()
				p := a.progress("asking Envoy")
				judged, unasked := a.prove(c.Context(), path, r)
				p.done()
				if unasked == nil {
					r, found, path = judged, slices.Clone(judged.Diagnostics), ""
					t.Validate = time.Since(begun)
				}
			}
			if path != "" { // that Envoy does not serve as a validator: it is asked for one verdict over the whole
				begun := time.Now()
				static, err := output{result: r, settings: a.settings}.static()
				if err != nil {
					return failure("the static configuration: %w", err)
				}
				p := a.progress("asking Envoy")
				refusal, err := proof.Validate(c.Context(), path, static, os.TempDir())
				p.done()
				if err != nil {
					return failure("asking Envoy: %w", err)
				}
				if refusal != "" {
					found = append(found, proof.Diagnostics(proof.Refused, refusal, "", proof.About(refusal, r.Resources), r.Snapshot)...)
				}
				t.Validate = time.Since(begun)
			}
			found = snapshot.SortDiagnostics(found)
			if err := report.Write(a.out, format, found, report.Options{Colour: terminal(a.out), Version: Version}); err != nil {
				return failure("writing diagnostics: %w", err)
			}
			if format == "text" {
				read := 0
				for _, k := range r.Snapshot.Kinds() {
					read += r.Snapshot.Len(k)
				}
				fmt.Fprintf(a.err, "%s; %s read\n", report.Summary(found), report.Count(read, "object"))
			}
			if err := t.finish(a, timed); err != nil {
				return failure("writing timings: %w", err)
			}
			return verdict(found, failOnWarning)
		},
	}
	c.Flags().StringVar(&format, "format", "text", strings.Join(report.Formats(), ", "))
	c.Flags().StringVar(&admission, "admission-review", "", "answer this Kubernetes AdmissionReview (a file, or -) as the webhook would; PATHs are the world around the object")
	c.Flags().BoolVar(&timed, "timings", false, "print one line of JSON with nanoseconds per stage and counts to standard error")
	c.Flags().BoolVar(&failOnWarning, "fail-on-warning", false, "exit with 4 when there are warnings")
	return c
}
