// Package command is the command line: one file per command. Standard output carries the answer, standard error
// diagnostics and progress.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/chancery-gateway/chancery/policies"
	policy "github.com/chancery-gateway/chancery/policies/api"
	"github.com/chancery-gateway/chancery/policies/decision"
	"github.com/chancery-gateway/chancery/policies/engine"
	"github.com/chancery-gateway/chancery/policies/supply"
	"github.com/chancery-gateway/chancery/runtime/modules"
	"github.com/chancery-gateway/chancery/runtime/settings"
	"github.com/chancery-gateway/chancery/runtime/supervisor"
	"github.com/chancery-gateway/chancery/snapshot"
)

// The exit codes of every command.
const (
	exitFine    = 0
	exitErrors  = 1 // the input has errors; what could be compiled was
	exitUsage   = 2 // wrong usage or unreadable input
	exitFailure = 3 // Chancery itself or an engine of it failed
	exitWarning = 4 // warnings, with --fail-on-warning
)

// status is an error that carries an exit code. A nil err means that everything has been said.
type status struct {
	code int
	err  error
}

func (s *status) Error() string {
	if s.err == nil {
		return fmt.Sprintf("exit status %d", s.code)
	}
	return s.err.Error()
}

func usage(format string, args ...any) error {
	return &status{exitUsage, fmt.Errorf(format, args...)}
}

func failure(format string, args ...any) error {
	return &status{exitFailure, fmt.Errorf(format, args...)}
}

// app is what every command works with.
type app struct {
	envoyVersion string // of the Envoy that is written for; "" for the newest
	in           io.Reader
	out, err     io.Writer
	settings     *settings.Settings
	// rules returns the operator's policies in force; nil for none. point is where policies are asked.
	rules func() *policies.Supply
	point policy.Point
	// watcher keeps the revisions of the operator's policies in a running Chancery; nil for none.
	watcher *supply.Watcher
	// governing is what this command and copies of it know of policies in force.
	*governing
	// decisions takes what policies decide; nil for nothing.
	decisions *decision.Log
	// modules are what extends the compiler; nil for none.
	modules *modules.Modules
	// aside marks a copy whose compiles are not published.
	aside bool
	// asking has modules say what is wrong with objects before they are compiled.
	asking bool
}

// governing is shared by all copies of an app.
type governing struct {
	// admitter is the one of the last compiler.
	admitter atomic.Pointer[policies.Admitter]
	// reviewer judges objects for the webhook, one at a time; what it knows of the world it keeps from one review to the next.
	reviewing sync.Mutex
	reviewer  *policies.Admitter
}

// busy are the names of the program that pick a command.
var busy = []string{"entrypoint", "kubestatus", "apiext", "version"}

// Main runs the command that args name (args[0] is the program's own name) and returns the exit code. SIGINT and SIGTERM end it.
func Main(args []string, in io.Reader, out, errs io.Writer) int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	go func() {
		switch <-signals {
		case os.Interrupt:
			cancel(supervisor.ErrHurry)
		case syscall.SIGTERM:
			cancel(context.Canceled)
		}
		signal.Stop(signals) // the next one ends the process at once
	}()
	return Run(ctx, args, in, out, errs)
}

// Run is Main without signals: the end of ctx ends the command.
func Run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) (code int) {
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(errs, "chancery: internal error: %v\n%s", p, debug.Stack())
			code = exitFailure
		}
	}()
	a := &app{in: in, out: out, err: errs, point: policy.PointCLI, governing: &governing{}}
	root := a.root()
	rest := args[1:]
	if name := filepath.Base(args[0]); slices.Contains(busy, name) {
		rest = append([]string{name}, rest...)
	}
	root.SetArgs(rest)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitFine
	}
	var s *status
	if !errors.As(err, &s) {
		s = &status{exitUsage, err} // cobra's own errors are about usage
	}
	if s.err != nil {
		fmt.Fprintln(errs, "chancery: "+s.err.Error())
	}
	return s.code
}

const long = `Chancery is a control plane for Envoy.

It takes what Kubernetes manifests say about routing, compiles it to Envoy configuration,
proves the result, and serves it over xDS.

PATH is a file, a directory (searched recursively for .yaml, .yml and .json), or - for
standard input. Settings come from flags, CHANCERY_* and AMBASSADOR_* environment
variables, and chancery.yaml; "chancery settings" shows them all.

Exit codes: 0 fine, 1 the input has errors, 2 wrong usage or unreadable input,
3 Chancery itself failed, 4 warnings with --fail-on-warning.`

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "chancery",
		Short: "A control plane for Envoy",
		Long:  long,
		Example: `  chancery check manifests/            # what is wrong, with file and line
  chancery compile -o out manifests/   # the Envoy configuration, in six files
  chancery serve manifests/            # watch, serve xDS, run Envoy
  chancery explain manifests/ -- GET http://example.com/shop/`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		Args:              noCommand,
		RunE:              func(c *cobra.Command, _ []string) error { return c.Help() },
		PersistentPreRunE: a.load,
	}
	root.SuggestionsMinimumDistance = 2
	settings.AddFlags(root.PersistentFlags())
	root.SetUsageTemplate(usageTemplate(root.UsageTemplate()))
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usage("%w; see %q", err, c.CommandPath()+" --help")
	})
	root.AddCommand(a.compileCommand(), a.checkCommand(), a.serveCommand(), a.explainCommand(), a.diffCommand(),
		a.statusCommand(), a.settingsCommand(), a.versionCommand(), a.demoCommand(), a.codesCommand(), a.policyCommand(), a.moduleCommand(), a.entrypointCommand(), a.kubestatusCommand(), a.apiextCommand())
	return root
}

func noCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := ""
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		hint = fmt.Sprintf(", did you mean %q", strings.Join(near, `" or "`))
	}
	return usage("unknown command %q%s; see %q", args[0], hint, c.CommandPath()+" --help")
}

// settingsHelp is the annotation of commands that most settings are for: their help shows all of them.
const settingsHelp = "settings"

// usageTemplate returns cobra's own, with the settings named where they would bury the flags of a command.
func usageTemplate(cobras string) string {
	const all = "{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}"
	return strings.Replace(cobras, "Global Flags:\n"+all,
		"{{if .Annotations."+settingsHelp+"}}Settings:\n"+all+`{{else}}Each setting is a flag too: "chancery --help" says what it does, "chancery settings" what it is now.{{end}}`, 1)
}

// takes is cobra's check of positional arguments for commands that take a few; what names them in the error.
func takes(least, most int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usage("%s needs %s; see %q", c.Name(), what, c.CommandPath()+" --help")
		case len(args) > most && most == 0:
			return usage("%s takes no arguments, not %q; see %q", c.Name(), args[0], c.CommandPath()+" --help")
		case len(args) > most:
			return usage("%s takes %s, and nothing like %q; see %q", c.Name(), what, args[most], c.CommandPath()+" --help")
		}
		return nil
	}
}

// load reads the settings before every command.
func (a *app) load(c *cobra.Command, _ []string) error {
	s, err := settings.Load(c.Flags())
	if err != nil {
		return &status{exitUsage, err}
	}
	a.settings = s
	return nil
}

// needPaths is cobra's check of positional arguments for commands that take PATH...
func needPaths(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usage("%s needs at least one PATH: a file, a directory, or - for standard input; see %q", c.Name(), c.CommandPath()+" --help")
	}
	return nil
}

// verdict turns what was found into the exit code.
func verdict(ds []snapshot.Diagnostic, failOnWarning bool) error {
	code := exitFine
	if slices.ContainsFunc(ds, engine.Faulty) {
		return &status{code: exitFailure}
	}
	for _, d := range ds {
		switch {
		case d.Severity == snapshot.Error:
			return &status{code: exitErrors}
		case d.Severity == snapshot.Warning && failOnWarning:
			code = exitWarning
		}
	}
	if code == exitFine {
		return nil
	}
	return &status{code: code}
}

// terminal reports whether w is a terminal that wants colours and progress.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && info.Name() != "null"
}
