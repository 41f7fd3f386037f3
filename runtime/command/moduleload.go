package command

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/chancery-gateway/chancery/runtime/modules"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/wasm"
	"github.com/chancery-gateway/chancery/wasm/trust"
)

// settleTime is how long a command waits for modules to be fetched, compiled and tried.
const settleTime = 10 * time.Minute

// modulesOnce returns modules as the settings have them, for one compile; with specs, these and no others.
func (a *app) modulesOnce(specs ...wasm.Spec) (*modules.Modules, error) {
	return a.newModules(a.settings.StateDir, modules.Options{Specs: specs, Once: true, Ask: a.asking, Log: slog.New(slog.DiscardHandler)})
}

// newModules returns modules as the settings have them. What is kept between runs is kept in dir.
func (a *app) newModules(dir string, o modules.Options) (*modules.Modules, error) {
	s := a.settings
	o.Namespaces, o.Poll = append(list(s.PolicyNamespaces), s.Namespace), time.Minute
	if len(o.Specs) == 0 {
		o.Folder = s.Modules
	}
	if o.Folder != "" {
		if info, err := os.Stat(s.Modules); err != nil || !info.IsDir() {
			return nil, usage("--modules %s is no folder", s.Modules)
		}
	}
	if s.ModuleKeys != "" {
		root, err := trust.LoadRoot(s.ModuleKeys, 1)
		if err != nil {
			return nil, usage("--module-keys: %w", err)
		}
		o.Trust = root
	}
	o.CacheDir = filepath.Join(dir, "modules")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		o.CacheDir = ""
		o.Log.Warn("compiled modules are not kept", "error", err)
	}
	m, err := modules.New(o)
	if err != nil {
		return nil, usage("modules: %w", err)
	}
	return m, nil
}

// takeModules brings the modules of a snapshot up before a compile from nothing, and returns what ends them.
func (a *app) takeModules(ctx context.Context, s *snapshot.Snapshot) (end func(), err error) {
	if a.settings.Modules == "" && s.Len(modules.KindTranslator) == 0 {
		return func() {}, nil
	}
	m, err := a.modulesOnce()
	if err != nil {
		return nil, err
	}
	a.modules = m
	end = func() { a.modules = nil; m.Close() }
	m.Take(s)
	bounded, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	p := a.progress("loading modules")
	err = m.Settle(bounded)
	p.done()
	if err != nil {
		end()
		return nil, failure("modules are not loaded: %w", err)
	}
	return end, nil
}

// withModules adds what there is to say of modules to a result.
func (a *app) withModules(r *translators.Result) {
	if a.modules == nil {
		return
	}
	if found := a.modules.Findings(); len(found) > 0 {
		r.Diagnostics = snapshot.SortDiagnostics(append(slices.Clone(r.Diagnostics), found...))
	}
}
