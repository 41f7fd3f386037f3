package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/chancery-gateway/chancery/runtime/report"
	"github.com/chancery-gateway/chancery/wasm"
	"github.com/chancery-gateway/chancery/wasm/abi"
)

// fixture is the outcome of one case, as want.json holds it.
type fixture struct {
	// Items are those that the module added or changed, Removed those that it removed.
	Items    []abi.Item     `json:"items,omitempty"`
	Removed  []string       `json:"removed,omitempty"`
	Written  []fixtureWrite `json:"written,omitempty"`
	Findings []wasmFinding  `json:"findings,omitempty"`
	// Error is the code of the failure, where the case fails.
	Error string `json:"error,omitempty"`
}

type fixtureWrite struct {
	Op     abi.Op `json:"op"`
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Path   string `json:"path,omitempty"`
	Reason string `json:"reason"`
}

type wasmFinding = abi.Diagnostic

func (a *app) moduleTestCommand() *cobra.Command {
	var update bool
	var module string
	var flags specFlags
	c := &cobra.Command{
		Use:   "test DIR",
		Short: "Run a module's golden fixtures",
		Long: `Every folder below DIR with a request.json is a case: the request is put through the module, twice in two instances, and what comes out must be
as want.json says. settings.json beside it holds the case's settings. --update writes want.json anew; read what changed before you keep it.

  request.json   {"phase": "lower", "unit": "any name", "items": [{"kind", "namespace", "name", "value"}]}
  settings.json  the settings, where the module takes some
  want.json      items that are new or changed, fields that were written with their reasons, findings`,
		Example: `  chancery module test .
  chancery module test testdata --module module.wasm --update`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("module test takes one DIR; see %q", c.CommandPath()+" --help")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			path, err := findModule(args[0], module)
			if err != nil {
				return err
			}
			art, err := readModule(path)
			if err != nil {
				return err
			}
			cases, err := findCases(args[0])
			if err != nil {
				return err
			}
			spec, err := flags.spec(path)
			if err != nil {
				return err
			}
			spec.Fresh = true // each call in an instance of its own
			trials := trials{}
			defer trials.close()
			failed := 0
			for _, dir := range cases {
				begun := time.Now()
				difference, err := runCase(c.Context(), trials, art.Module, spec, dir, update)
				if err != nil {
					return err
				}
				verdict := "ok"
				if difference != "" {
					verdict = "FAIL"
					failed++
				}
				fmt.Fprintf(a.out, "%-4s  %s  %s\n%s", verdict, dir, time.Since(begun).Round(time.Millisecond), difference)
			}
			fmt.Fprintf(a.out, "%s, %d failed\n", report.Count(len(cases), "case"), failed)
			if failed > 0 {
				return &status{code: exitErrors}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&update, "update", false, "write want.json anew")
	c.Flags().StringVar(&module, "module", "", "the module; else the only .wasm file in DIR, or module.wasm in the folder above")
	flags.add(c)
	return c
}

func findModule(dir, given string) (string, error) {
	if given != "" {
		return given, nil
	}
	for _, pattern := range []string{filepath.Join(dir, "*.wasm"), filepath.Join(filepath.Dir(filepath.Clean(dir)), "module.wasm")} {
		found, err := filepath.Glob(pattern)
		if err == nil && len(found) == 1 {
			return found[0], nil
		}
		if len(found) > 1 {
			return "", usage("%s holds %d modules; name one with --module", dir, len(found))
		}
	}
	return "", usage("there is no module in %s; build it first, or name it with --module", dir)
}

func findCases(dir string) ([]string, error) {
	var cases []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && e.Name() == "request.json" {
			cases = append(cases, filepath.Dir(path))
		}
		return err
	})
	if err != nil {
		return nil, &status{exitUsage, err}
	}
	if len(cases) == 0 {
		return nil, usage("%s holds no case: a folder with a request.json", dir)
	}
	slices.Sort(cases)
	return cases, nil
}

// runCase returns how the outcome differs from what is wanted, "" when it does not.
func runCase(ctx context.Context, trials trials, binary []byte, spec wasm.Spec, dir string, update bool) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, "request.json"))
	if err != nil {
		return "", &status{exitUsage, err}
	}
	var request abi.Request
	if err := jsonv2.Unmarshal(text, &request, jsonv2.RejectUnknownMembers(true)); err != nil {
		return "", usage("%s: %w", filepath.Join(dir, "request.json"), err)
	}
	if settings, err := os.ReadFile(filepath.Join(dir, "settings.json")); err == nil {
		spec.Settings = settings
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", &status{exitUsage, err}
	}
	trial, err := trials.get(ctx, binary, spec)
	if err != nil {
		return "", err
	}
	outcomes := [2]fixture{outcomeOf(ctx, trial, &request), outcomeOf(ctx, trial, &request)}
	got := indented(outcomes[0])
	if !bytes.Equal(got, indented(outcomes[1])) {
		return "      two instances answer differently: the output must depend on settings and input alone\n", nil
	}
	path := filepath.Join(dir, "want.json")
	if update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			return "", failure("%w", err)
		}
		return "", nil
	}
	wanted, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "      there is no want.json; --update writes it\n", nil
	}
	if err != nil {
		return "", &status{exitUsage, err}
	}
	return unlike(string(wanted), string(got)), nil
}

// trials are compiled modules by their settings.
type trials map[string]*wasm.Trial

func (t trials) get(ctx context.Context, binary []byte, spec wasm.Spec) (*wasm.Trial, error) {
	if one := t[string(spec.Settings)]; one != nil {
		return one, nil
	}
	one, err := wasm.Try(ctx, binary, spec)
	if err != nil {
		return nil, refused(err)
	}
	t[string(spec.Settings)] = one
	return one, nil
}

func (t trials) close() {
	for _, one := range t {
		one.Close()
	}
}

func outcomeOf(ctx context.Context, trial *wasm.Trial, request *abi.Request) fixture {
	unit := wasm.Unit{Key: request.Unit, Hash: wasm.HashItems(request.Items), Items: func() []abi.Item { return slices.Clone(request.Items) }}
	o, _, err := trial.Translate(ctx, request.Phase, unit)
	if err != nil {
		return fixture{Error: err.Error()}
	}
	var f fixture
	key := func(i abi.Item) string { return i.Kind + " " + i.Namespace + "/" + i.Name }
	before := map[string]string{}
	for _, i := range request.Items {
		before[key(i)] = string(i.Value)
	}
	if o.Changed {
		for _, i := range o.Items {
			if before[key(i)] != string(i.Value) {
				f.Items = append(f.Items, i)
			}
			delete(before, key(i))
		}
		for k := range before {
			f.Removed = append(f.Removed, k)
		}
		slices.Sort(f.Removed)
	}
	for _, w := range o.Writes {
		f.Written = append(f.Written, fixtureWrite{w.Op, w.Kind, w.Name, w.Path, w.Reason})
	}
	for _, x := range o.Findings {
		f.Findings = append(f.Findings, x.Diagnostic)
	}
	return f
}

func indented(f fixture) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if e.Encode(f) != nil { // it holds JSON values that were read before
		return nil
	}
	return b.Bytes()
}

// unlike shows the first lines that differ.
func unlike(want, got string) string {
	if want == got {
		return ""
	}
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		var a, b string
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if a != b {
			return fmt.Sprintf("      line %d of want.json\n      - %s\n      + %s\n", i+1, a, b)
		}
	}
	return ""
}
