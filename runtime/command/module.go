package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/chancery-gateway/chancery/runtime/modules"
	"github.com/chancery-gateway/chancery/wasm"
	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/fault"
	"github.com/chancery-gateway/chancery/wasm/source"
)

func (a *app) moduleCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "module",
		Short: "Make, inspect, try, test and sign WebAssembly modules that extend the compiler",
		Long: `A module lowers kinds that Chancery does not know, or changes what the compiler made, inside the scope that it was
granted. It is put into the folder that --modules names, or named by a Translator object, and is taken while Chancery runs.`,
		Example: `  chancery module new pages && cd pages && make
  chancery module inspect module.wasm
  chancery module run module.wasm --from manifests/
  chancery serve --modules modules/ manifests/`,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
		Args: noCommand,
	}
	c.AddCommand(a.moduleNewCommand(), a.moduleInspectCommand(), a.moduleVerifyCommand(), a.moduleRunCommand(), a.moduleTestCommand(),
		a.moduleBenchCommand(), a.moduleSignCommand(), a.modulePackCommand(), a.moduleCRDCommand())
	for _, action := range []struct{ name, short string }{
		{"rollback", "Make the version before the live one live again, in a running Chancery"},
		{"reset", "Call a suspended module again, and try refused versions again, in a running Chancery"},
		{"reload", "Look at a module's source now, in a running Chancery"},
	} {
		c.AddCommand(a.moduleActionCommand(action.name, action.short))
	}
	return c
}

func (a *app) moduleCRDCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "crd",
		Short:   "Print the CustomResourceDefinition of Translator",
		Example: "  chancery module crd | kubectl apply -f -",
		Args:    takes(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			_, err := a.out.Write(modules.Definition)
			return err
		},
	}
}

// refused turns an error of a module into an exit code: 1, for it is the input that is wrong.
func refused(err error) error {
	var f *fault.Error
	if !errors.As(err, &f) || f.Code == nil {
		return &status{exitErrors, err}
	}
	return &status{exitErrors, fmt.Errorf("%w\n  what to do: %s", err, f.Code.Cure)}
}

// oneModule is cobra's check for commands that take one module.
func oneModule(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage("%s takes one module, a .wasm file; see %q", c.CommandPath(), c.CommandPath()+" --help")
	}
	return nil
}

// readModule reads a module and, where there is one, the signature beside it.
func readModule(path string) (*source.Artifact, error) {
	art, err := source.File{Path: path}.Fetch(context.Background())
	if err != nil {
		return nil, &status{exitUsage, err}
	}
	return art, nil
}

// openModule reads a module, and what it says of itself.
func openModule(path string) (*source.Artifact, *wasm.Info, error) {
	art, err := readModule(path)
	if err != nil {
		return nil, nil, err
	}
	info, err := wasm.Inspect(art.Module)
	if err != nil {
		return nil, nil, refused(fmt.Errorf("%s: %w", path, err))
	}
	return art, info, nil
}

// specFlags are those that say how a module is configured.
type specFlags struct {
	settings, translator string
}

func (f *specFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.settings, "settings", "", "the module's settings: JSON, or @FILE")
	c.Flags().StringVar(&f.translator, "translator", "", "JSON file with grant, settings and limits, as NAME.json of a watched folder")
}

// spec returns the configuration of the module at the path. Without grant it gets what it asks for.
func (f *specFlags) spec(path string) (wasm.Spec, error) {
	s := wasm.Spec{}
	if f.translator != "" {
		text, err := os.ReadFile(f.translator)
		if err != nil {
			return s, usage("--translator: %w", err)
		}
		if s, err = wasm.ParseSpec("", text, filepath.Dir(f.translator)); err != nil {
			return s, usage("--translator %s: %w", f.translator, err)
		}
	}
	if f.settings != "" {
		text := []byte(f.settings)
		if name, isFile := strings.CutPrefix(f.settings, "@"); isFile {
			var err error
			if text, err = os.ReadFile(name); err != nil {
				return s, usage("--settings: %w", err)
			}
		}
		if !json.Valid(text) {
			return s, usage("--settings %s is no JSON; as in '{\"label\": \"team\"}', or @FILE", f.settings)
		}
		s.Settings = text
	}
	s.Source = source.File{Path: path}
	return s, nil
}

// granted completes a spec that grants nothing with what the manifest asks for.
func granted(s wasm.Spec, m *abi.Manifest) wasm.Spec {
	s.Name = m.Name
	if len(s.Grant.Phases) == 0 {
		s.Grant.Phases, s.Grant.Reads, s.Grant.Writes, s.Grant.Namespaces = m.Phases, m.Reads, m.Writes, []string{"*"}
	}
	return s
}

func (a *app) moduleActionCommand(name, short string) *cobra.Command {
	return &cobra.Command{
		Use:     name + " NAME",
		Short:   short,
		Long:    short + " on this machine (see --health-port). NAME is the module's in \"chancery status\".",
		Example: "  chancery module " + name + " team-header",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("%s takes the name of one module; \"chancery status\" lists them", c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			text, err := a.operate(c.Context(), "modules/"+name, url.Values{"name": {args[0]}})
			if err != nil {
				return err
			}
			var report modules.Report
			if err := json.Unmarshal(text, &report); err != nil {
				return failure("what answers on port %d is not Chancery", a.settings.HealthPort)
			}
			return writeModules(a.out, []modules.Report{report})
		},
	}
}
