package command

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/chancery-gateway/chancery/policies"
)

// policyBench is the answer of `chancery policy bench`.
type policyBench struct {
	Objects  int           `json:"objects"`
	Rounds   int           `json:"rounds"`
	Cold     int64         `json:"coldNanos"` // fastest round, all objects
	Policies []policyCosts `json:"policies"`
}

type policyCosts struct {
	ID string `json:"id"`
	// Nanos is the mean time for one object.
	Nanos       int64 `json:"nanos"`
	Evaluations int64 `json:"evaluations"`
	// Remembered are the answers that were taken again, since the policy had been asked about the same before.
	Remembered int64 `json:"remembered"`
}

func (a *app) policyBenchCommand() *cobra.Command {
	var from []string
	var rounds int
	var save, against string
	var threshold float64
	var format string
	c := &cobra.Command{
		Use:   "bench PATH... --from PATH",
		Short: "Measure what rules cost",
		Long: `Judges the objects of --from several times from nothing and prints the time of the fastest round, and the mean of each
policy (what policies that are asked together took is divided among them). --save keeps the figures; --compare fails with 1
when the fastest round is slower than the kept one by more than --threshold percent.`,
		Example: `  chancery policy bench guardrails/ --from manifests/ --save base.json
  chancery policy bench guardrails/ --from manifests/ --compare base.json --threshold 20`,
		Args: func(c *cobra.Command, args []string) error {
			if len(from) == 0 || rounds < 1 {
				return usage("bench needs --from, and at least one round; see %q", c.CommandPath()+" --help")
			}
			return needPaths(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if format != "text" && format != "json" {
				return usage("--format %q is not known; right is text or json", format)
			}
			var base policyBench
			if against != "" {
				text, err := os.ReadFile(against)
				if err != nil {
					return usage("--compare: %w", err)
				}
				if err := json.Unmarshal(text, &base); err != nil || base.Cold == 0 {
					return usage("--compare: %s holds no figures", against)
				}
			}
			s, err := a.readPolicies(c.Context(), args)
			if err != nil {
				return err
			}
			world, err := a.readWorld(from)
			if err != nil {
				return err
			}
			a.rules = func() *policies.Supply { return s }
			b := policyBench{Rounds: rounds}
			var last *policies.Admitter
			for i := range rounds {
				last = a.newAdmitter()
				begun := time.Now()
				last.Admit(world)
				if took := time.Since(begun).Nanoseconds(); i == 0 || took < b.Cold {
					b.Cold = took
				}
			}
			b.Objects = len(last.Verdicts())
			for _, p := range last.Policies() {
				n := p.Stats.Evaluations.Load()
				b.Policies = append(b.Policies, policyCosts{ID: p.ID, Evaluations: n, Remembered: p.Stats.Remembered.Load(), Nanos: p.Stats.Nanos.Load() / max(n, 1)})
			}
			if format == "json" {
				err = writeJSON(a.out, b)
			} else {
				fmt.Fprintf(a.out, "%d objects in %s (fastest of %d rounds)\n", b.Objects, time.Duration(b.Cold), rounds)
				for _, p := range b.Policies {
					fmt.Fprintf(a.out, "  %-40s %10s per object, asked %d times, remembered %d times\n", p.ID, time.Duration(p.Nanos), p.Evaluations, p.Remembered)
				}
			}
			if err != nil {
				return failure("writing the answer: %w", err)
			}
			if save != "" {
				text, err := json.MarshalIndent(b, "", "  ")
				if err == nil {
					err = os.WriteFile(save, append(text, '\n'), 0o644)
				}
				if err != nil {
					return failure("--save: %w", err)
				}
			}
			if against == "" {
				return nil
			}
			slower := 100 * (float64(b.Cold)/float64(base.Cold) - 1)
			fmt.Fprintf(a.out, "%+.1f %% against %s\n", slower, against)
			if slower > threshold {
				return &status{exitErrors, fmt.Errorf("slower by %.1f %%, more than %g %%", slower, threshold)}
			}
			return nil
		},
	}
	c.Flags().StringSliceVar(&from, "from", nil, "manifests whose objects are judged")
	c.Flags().IntVar(&rounds, "rounds", 5, "how often")
	c.Flags().StringVar(&save, "save", "", "keep the figures in this file")
	c.Flags().StringVar(&against, "compare", "", "compare with the figures of this file")
	c.Flags().Float64Var(&threshold, "threshold", 20, "percent by which the fastest round may be slower")
	c.Flags().StringVar(&format, "format", "text", "text or json")
	return c
}
