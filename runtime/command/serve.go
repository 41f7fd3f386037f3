package command

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	policy "github.com/chancery-gateway/chancery/policies/api"
	"github.com/chancery-gateway/chancery/policies/engine"
	"github.com/chancery-gateway/chancery/runtime/gateway"
	"github.com/chancery-gateway/chancery/runtime/modules"
	"github.com/chancery-gateway/chancery/runtime/pipeline"
	"github.com/chancery-gateway/chancery/runtime/report"
	"github.com/chancery-gateway/chancery/runtime/settings"
	"github.com/chancery-gateway/chancery/runtime/supervisor"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/consul"
	"github.com/chancery-gateway/chancery/snapshot/files"
)

func (a *app) serveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "serve PATH...",
		Short: "Watch manifests, serve xDS, and run an Envoy",
		Long: `Compiles the manifests, serves the result over xDS (--ads-address), and runs an Envoy that asks for it. Edits of the
files are live within a moment; what is wrong is printed when it appears and when it is gone, and costs only the
object concerned. SIGTERM and Ctrl-C let requests in flight come to their end; a second Ctrl-C does not wait. With --envoy-base-id, SIGHUP has
Envoy restarted hot: another one, of the binary as it is then, takes over its sockets.

  8877  health and diagnostics: /ambassador/v0/check_alive, check_ready, diag/ (a page; ?json=true for programs), /metrics
  8003  xDS, loopback only
  8001  Envoy's admin interface, loopback only
  8006  Envoy's ready listener, loopback only`,
		Example: `  chancery serve manifests/
  chancery serve --envoy none --ads-address 127.0.0.1:18003 manifests/
  curl localhost:8877/ambassador/v0/check_ready`,
		Args:        needPaths,
		Annotations: map[string]string{settingsHelp: "all"},
		RunE: func(c *cobra.Command, paths []string) error {
			return a.serve(c.Context(), paths, func(at gateway.Addresses) {
				fmt.Fprintf(a.err, "ready: health on %s, xDS on %s\n", at.Health, at.ADS)
			})
		},
	}
}

// serve runs the gateway over the paths until ctx ends.
func (a *app) serve(ctx context.Context, paths []string, ready func(gateway.Addresses)) error {
	s := a.settings
	log := newLogger(a.err, s.LogLevel, s.LogFormat)
	source, err := files.New(paths, files.Options{MaxDelay: s.ReconfigMaxDelay, Logger: log})
	if err != nil {
		return &status{exitUsage, err}
	}
	dir, err := stateDir(s.StateDir, paths)
	if err != nil {
		return failure("state directory: %w", err)
	}
	return a.gateway(ctx, gateway.Options{Source: source, StateDir: dir, Log: log, Ready: ready})
}

// gateway runs the gateway over a source, whose options lack what the settings say, until ctx ends.
func (a *app) gateway(ctx context.Context, o gateway.Options) error {
	s, log := a.settings, o.Log
	envoy, err := supervisor.Find(s.Envoy)
	if err != nil {
		return &status{exitUsage, err}
	}
	if envoy != "" {
		if a.envoyVersion, err = supervisor.Version(ctx, envoy); err != nil {
			return failure("the Envoy to run: %w", err)
		}
	}
	for _, line := range settings.Unused() {
		log.Warn(line)
	}
	a.point = policy.PointCompile
	rules, err := a.watchPolicies(ctx, o.StateDir, log)
	if err != nil {
		return err
	}
	decisions, closer, err := a.decisionLog()
	if err != nil {
		return err
	}
	if a.decisions = decisions; decisions != nil {
		defer closer.Close()
		defer decisions.Close()
	}
	inForce := func() *engine.Set {
		if admitter := a.admitter.Load(); admitter != nil {
			return admitter.Set()
		}
		return nil
	}
	o.Collectors = append(o.Collectors, &policyMetrics{set: inForce, log: decisions})
	o.Policies = func() any { return a.policyReport(inForce()) }
	if rules != nil {
		o.PolicyActions = a.policyActions()
	}
	if a.modules, err = a.newModules(o.StateDir, modules.Options{Log: log}); err != nil {
		return err
	}
	defer a.modules.Close()
	o.Modules = a.modules
	if o.Source, err = a.joined(&o); err != nil {
		return err
	}
	withConsul := consul.New(a.modules.Extend(o.Source), consul.Options{Want: a.frontEnd().Consul, Logger: log})
	o.Settings, o.Version, o.Source, o.Envoy, o.EnvoyOutput = s, Version, governed(withConsul, rules), envoy, a.out
	o.NewCompiler = func() pipeline.Compiler { return a.newCompiler() }
	o.Changed = func(appeared, vanished []snapshot.Diagnostic) { a.tell(log, appeared, vanished) }
	err = gateway.Run(ctx, o)
	var inUse *gateway.InUse
	var fleet *gateway.FleetFault
	switch {
	case errors.As(err, &inUse), errors.As(err, &fleet):
		return &status{exitUsage, err}
	case err != nil:
		return &status{exitFailure, err}
	}
	return nil
}

// mostAlike bounds how many remarks of one code are told at once: a file of thousands of objects that breaks is one fault.
const mostAlike = 10

// tell prints findings that appeared and vanished, for people or as log records. Of remarks that are alike it tells the first.
func (a *app) tell(log *slog.Logger, appeared, vanished []snapshot.Diagnostic) {
	record := func(message string, d snapshot.Diagnostic) {
		level := map[snapshot.Severity]slog.Level{snapshot.Error: slog.LevelError, snapshot.Warning: slog.LevelWarn}[d.Severity]
		log.Log(context.Background(), level, message, "code", d.Code.ID, "severity", d.Severity.String(), "object", d.Object.String(),
			"position", d.Position.String(), "path", d.Path, "text", d.Message, "help", d.Help)
	}
	structured := a.settings.LogFormat == "json"
	say := func(ds []snapshot.Diagnostic, message, prefix string) {
		alike := map[*snapshot.Code]int{}
		for _, d := range ds {
			if d.Severity == snapshot.Info {
				if alike[d.Code]++; alike[d.Code] > mostAlike {
					continue
				}
			}
			if structured {
				record(message, d)
			} else {
				fmt.Fprint(a.err, prefix+report.Line(d, terminal(a.err)))
			}
		}
		for _, c := range slices.SortedFunc(maps.Keys(alike), func(a, b *snapshot.Code) int { return strings.Compare(a.ID, b.ID) }) {
			more := alike[c] - mostAlike
			switch {
			case more <= 0:
			case structured:
				log.Info(message, "code", c.ID, "severity", snapshot.Info.String(), "more", more)
			default:
				fmt.Fprintf(a.err, "%sinfo: the same of %d more [%s]\n", prefix, more, c.ID)
			}
		}
	}
	say(vanished, "finding is gone", "gone: ")
	say(appeared, "finding", "")
}

func newLogger(w io.Writer, level, format string) *slog.Logger {
	var at slog.Level
	if at.UnmarshalText([]byte(level)) != nil {
		at = slog.LevelInfo // settings admit only names that slog knows
	}
	o := &slog.HandlerOptions{Level: at}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// stateDir gives each set of paths a directory of its own, so that no run serves the last good state of another input.
func stateDir(base string, paths []string) (string, error) {
	var all []string
	for _, p := range paths {
		abs, err := filepath.Abs(p)
		if err != nil {
			return "", err
		}
		all = append(all, abs)
	}
	sum := sha256.Sum256([]byte(strings.Join(all, "\x00")))
	return filepath.Join(base, "files-"+hex.EncodeToString(sum[:6])), nil
}
