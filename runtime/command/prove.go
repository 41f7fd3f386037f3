package command

import (
	"context"
	"slices"

	"github.com/chancery-gateway/chancery/runtime/quarantine"
	"github.com/chancery-gateway/chancery/runtime/supervisor"
	"github.com/chancery-gateway/chancery/snapshot/manifest"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/envoy"
	"github.com/chancery-gateway/chancery/xds/validator"
)

// prove shows every part of a result to an Envoy that is started for it, and returns the result of a compile without the parts
// that it refuses. The error says why that Envoy could not be asked.
func (a *app) prove(ctx context.Context, path string, r *translators.Result) (*translators.Result, error) {
	version, err := supervisor.Version(ctx, path)
	if err != nil {
		return nil, err
	}
	v, err := validator.New(validator.Options{Envoy: path, Version: version, Runtime: envoy.Runtime(r.Program.Bootstrap)})
	if err != nil {
		return nil, err
	}
	defer v.Close() // writes nothing: there is no directory
	compiler := a.newCompiler()
	for {
		verdicts, err := v.Judge(ctx, r.Changed)
		if err != nil {
			return nil, err
		}
		if len(verdicts.Refused) == 0 {
			r.Diagnostics = slices.Clone(r.Diagnostics)
			quarantine.Locate(r.Diagnostics, r.Snapshot)
			for i := range r.Diagnostics {
				d := &r.Diagnostics[i]
				if o := r.Snapshot.Get(d.Object.GroupKind(), d.Object.Namespace, d.Object.Name); o != nil && d.Position == o.Source.Position {
					manifest.Resolve(o.Source, d)
				}
			}
			return r, nil
		}
		compiler.Refuse(verdicts.Refused)
		r = compiler.Compile(r.Snapshot)
	}
}
