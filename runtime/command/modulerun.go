package command

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/chancery-gateway/chancery/runtime/compare"
	"github.com/chancery-gateway/chancery/runtime/modules"
	"github.com/chancery-gateway/chancery/runtime/report"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/wasm"
	"github.com/chancery-gateway/chancery/wasm/abi"
)

// withModule compiles the paths without and with one module.
func (a *app) withModule(ctx context.Context, paths []string, spec wasm.Spec) (plain, extended *translators.Result, state modules.Report, err error) {
	if plain, _, err = a.compilePaths(ctx, paths); err != nil {
		return nil, nil, state, err
	}
	m, err := a.modulesOnce(spec)
	if err != nil {
		return nil, nil, state, err
	}
	defer m.Close()
	m.Take(snapshot.Empty())
	bounded, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	if err := m.Settle(bounded); err != nil {
		return nil, nil, state, failure("the module is not loaded: %w", err)
	}
	if s, err := m.Host().Find(spec.Name); err != nil {
		return nil, nil, state, failure("%w", err)
	} else if s.SpecErr != nil {
		return nil, nil, state, refused(s.SpecErr)
	} else if s.Live == nil {
		return nil, nil, state, refused(fmt.Errorf("refused at %s: %w", s.Candidate.Stage, s.Candidate.Err))
	}
	was := a.modules
	a.modules = m
	compiler := a.newCompiler()
	a.modules = was
	extended = compiler.Compile(plain.Snapshot)
	return plain, extended, m.Reports()[0], nil
}

func (a *app) moduleRunCommand() *cobra.Command {
	var from []string
	var format string
	var flags specFlags
	c := &cobra.Command{
		Use:   "run MODULE --from PATH",
		Short: "Run a module on manifests: its operations, and what they change",
		Long: `Compiles the manifests without and with the module, and prints every field that it wrote with its reason, what it has to say, what it
used, and the difference of the two results, as "chancery diff" does. The module gets what its manifest asks for, or what --translator grants.`,
		Example: `  chancery module run module.wasm --from manifests/
  chancery module run module.wasm --from shop.yaml --settings '{"label": "team", "header": "x-team"}' --format json`,
		Args: oneModule,
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case format != "text" && format != "json":
				return usage("--format %q is not known; right is text or json", format)
			case len(from) == 0:
				return usage("module run needs --from PATH: the manifests to run on; see %q", c.CommandPath()+" --help")
			}
			_, info, err := openModule(args[0])
			if err != nil {
				return err
			}
			spec, err := flags.spec(args[0])
			if err != nil {
				return err
			}
			plain, extended, state, err := a.withModule(c.Context(), from, granted(spec, info.Manifest))
			if err != nil {
				return err
			}
			appeared, vanished := report.Transitions(plain.Diagnostics, extended.Diagnostics)
			for _, d := range vanished {
				fmt.Fprint(a.err, "gone: "+report.Line(d, terminal(a.err)))
			}
			for _, d := range appeared {
				fmt.Fprint(a.err, report.Line(d, terminal(a.err)))
			}
			difference := compare.Results(plain, extended)
			if format == "json" {
				err = writeJSON(a.out, map[string]any{"module": state, "written": slices.Concat(extended.Written...), "difference": difference})
			} else {
				n := state.Counts
				fmt.Fprintf(a.out, "%s %s: %s in %s, %d units of fuel, at most %d pages\n", info.Manifest.Name, info.Manifest.Version, report.Count(int(n.Calls), "unit"), n.Time.Round(time.Microsecond), n.Fuel, n.Pages)
				if n.Calls+n.Remembered+n.Kept+n.Skipped+n.Blocked == 0 {
					fmt.Fprintf(a.err, "note: nothing in the input is of what the module reads: %s\n", strings.Join(info.Manifest.Reads, ", "))
				}
				for _, l := range state.Log {
					fmt.Fprintf(a.out, "log: %s\n", l)
				}
				a.writeOperations(slices.Concat(extended.Written...))
				fmt.Fprintln(a.out)
				err = difference.Write(a.out)
			}
			if err != nil {
				return failure("writing the answer: %w", err)
			}
			return verdict(appeared, false)
		},
	}
	c.Flags().StringSliceVar(&from, "from", nil, "manifests to run on: a file, a directory, or -")
	c.Flags().StringVar(&format, "format", "text", "text or json")
	flags.add(c)
	return c
}

// writeOperations shows what was written, fields of one item together.
func (a *app) writeOperations(all []translators.Written) {
	if len(all) == 0 {
		fmt.Fprintln(a.out, "no operations")
		return
	}
	fmt.Fprintln(a.out, "operations")
	last := ""
	for _, w := range all {
		at := w.Name
		if w.Namespace != "" {
			at = w.Namespace + "/" + at
		}
		head := fmt.Sprintf("  %s %s %s: %s", w.Op, w.Kind, at, w.Reason)
		if head != last {
			fmt.Fprintln(a.out, head)
			last = head
		}
		from := make([]string, len(w.Objects))
		for i, o := range w.Objects {
			from[i] = o.String()
		}
		if w.Path != "" {
			fmt.Fprintf(a.out, "    %s  from %s\n", w.Path, strings.Join(from[:min(len(from), 3)], ", "))
		}
	}
}

func (a *app) moduleBenchCommand() *cobra.Command {
	var from []string
	var rounds int
	var format string
	var flags specFlags
	c := &cobra.Command{
		Use:   "bench MODULE --from PATH",
		Short: "Measure a module: time, fuel and memory for each unit, and what the guards cost",
		Long: `Runs the module on every unit of the manifests and prints the greatest and the sum of time, fuel and memory, and for the unit that took
longest the best time under each guard: metered as Chancery runs it, wazero's own guard, and none.`,
		Example: `  chancery module bench module.wasm --from manifests/
  chancery module bench module.wasm --from manifests/ --rounds 100 --format json`,
		Args: oneModule,
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case format != "text" && format != "json":
				return usage("--format %q is not known; right is text or json", format)
			case len(from) == 0:
				return usage("module bench needs --from PATH: the manifests to run on; see %q", c.CommandPath()+" --help")
			case rounds < 1:
				return usage("--rounds %d is too few; at least 1", rounds)
			}
			art, info, err := openModule(args[0])
			if err != nil {
				return err
			}
			spec, err := flags.spec(args[0])
			if err != nil {
				return err
			}
			r, _, err := a.compilePaths(c.Context(), from)
			if err != nil {
				return err
			}
			return a.bench(c.Context(), art.Module, granted(spec, info.Manifest), info, r, rounds, format)
		},
	}
	c.Flags().StringSliceVar(&from, "from", nil, "manifests to run on: a file, a directory, or -")
	c.Flags().IntVar(&rounds, "rounds", 20, "runs of each unit, of which the best counts")
	c.Flags().StringVar(&format, "format", "text", "text or json")
	flags.add(c)
	return c
}

// measured is the best run of one unit.
type measured struct {
	Phase string     `json:"phase"`
	Unit  string     `json:"unit"`
	Usage wasm.Usage `json:"usage"`
}

func (a *app) bench(ctx context.Context, binary []byte, spec wasm.Spec, info *wasm.Info, r *translators.Result, rounds int, format string) error {
	begun := time.Now()
	trial, err := wasm.Try(ctx, binary, spec)
	if err != nil {
		return refused(err)
	}
	defer trial.Close()
	compiled := time.Since(begun)
	known := frontEndKinds()
	var all []measured
	var slowest wasm.Unit
	var slowestPhase abi.Phase
	for _, p := range info.Manifest.Phases {
		for _, u := range modules.Units(r, known, p) {
			best := measured{Phase: string(p), Unit: u.Key}
			for i := range rounds {
				_, used, err := trial.Translate(ctx, p, u)
				if err != nil {
					return refused(fmt.Errorf("%s %s: %w", p, u.Key, err))
				}
				if i == 0 || used.Time < best.Usage.Time {
					best.Usage = used
				}
			}
			if best.Usage.Time == 0 {
				continue // nothing in it that the module reads
			}
			if len(all) == 0 || best.Usage.Time > slices.MaxFunc(all, func(a, b measured) int { return cmp.Compare(a.Usage.Time, b.Usage.Time) }).Usage.Time {
				slowest, slowestPhase = u, p
			}
			all = append(all, best)
		}
	}
	if len(all) == 0 {
		return usage("the manifests hold no unit that the module reads: %s", strings.Join(info.Manifest.Reads, ", "))
	}
	guards, err := wasm.Compare(ctx, binary, spec, slowestPhase, slowest, rounds)
	if err != nil {
		return refused(err)
	}
	if format == "json" {
		return writeJSON(a.out, map[string]any{"compileNanos": compiled, "units": all, "slowest": slowest.Key, "guards": guards})
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "compiled in %s; %s, best of %s\n\nPHASE\tUNIT\tTIME\tFUEL\tPAGES\n", compiled.Round(time.Millisecond), report.Count(len(all), "unit"), report.Count(rounds, "run"))
	slices.SortStableFunc(all, func(a, b measured) int { return cmp.Compare(b.Usage.Time, a.Usage.Time) })
	var sum wasm.Usage
	for i, m := range all {
		if i < 20 {
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\n", m.Phase, m.Unit, m.Usage.Time.Round(time.Microsecond), m.Usage.Fuel, m.Usage.Pages)
		}
		sum.Time, sum.Fuel, sum.Pages = sum.Time+m.Usage.Time, sum.Fuel+m.Usage.Fuel, max(sum.Pages, m.Usage.Pages)
	}
	fmt.Fprintf(w, "\tall\t%s\t%d\t%d\n\nGUARD\tTIME\tOF NONE\n", sum.Time.Round(time.Microsecond), sum.Fuel, sum.Pages)
	names := make([]string, 0, len(guards))
	for g := range guards {
		names = append(names, string(g))
	}
	slices.Sort(names)
	for _, g := range names {
		none := guards["none"].Time
		share := ""
		if none > 0 {
			share = fmt.Sprintf("%.2f", float64(guards[wasm.Guard(g)].Time)/float64(none))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", g, guards[wasm.Guard(g)].Time.Round(time.Microsecond), share)
	}
	return w.Flush()
}
