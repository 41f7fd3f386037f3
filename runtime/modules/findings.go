package modules

import (
	"fmt"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/wasm"
	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/fault"
)

// findings turns what modules said of a unit, and their failures, into diagnostics. Failures are told about the objects that
// about returns.
func (r *run) findings(o *wasm.Outcome, unit string, about func() []snapshot.Ref) []snapshot.Diagnostic {
	var out []snapshot.Diagnostic
	for _, f := range o.Findings {
		d := snapshot.Diagnostic{Severity: severity(f.Severity), Code: codeFinding, Path: f.Path, Message: "module " + f.Module + ": " + f.Message, Help: f.Help}
		if i := f.Item; i != nil {
			k := groupKind(i.Kind)
			d.Object = snapshot.Ref{Group: k.Group, Kind: k.Kind, Namespace: i.Namespace, Name: i.Name}
		}
		if d.Object.Kind == "" || len(d.Object.Kind) > 3 && d.Object.Kind[:3] == kindPrefixIR || len(d.Object.Kind) > 4 && d.Object.Kind[:4] == kindPrefixXDS {
			d.Object, d.Message = snapshot.Ref{}, d.Message+" ("+unit+")"
			if refs := about(); len(refs) > 0 {
				d.Object = refs[0]
			}
		}
		out = append(out, d)
	}
	for _, f := range o.Failures {
		r.failed = true
		became := map[wasm.FailurePolicy]string{
			wasm.OnFailureKeep: "what its last good answer gave is kept", wasm.OnFailureSkip: "it goes on without the module", wasm.OnFailureBlock: "it does not go on; what was good before stays",
		}[f.Action]
		d := snapshot.Diagnostic{Severity: snapshot.Error, Code: codeFailed, Message: fmt.Sprintf("module %s (%s) failed on %s, %s: %s", f.Module, f.Digest.Short(), unit, became, f.Err)}
		if f.Action == wasm.OnFailureSkip {
			d.Severity = snapshot.Warning
		}
		if c := fault.CodeOf(f.Err); c != nil {
			d.Help = c.Cure
		}
		refs := about()
		if len(refs) == 0 {
			refs = []snapshot.Ref{{}}
		}
		for _, ref := range refs[:min(len(refs), 20)] {
			d.Object = ref
			out = append(out, d)
		}
	}
	return out
}

func severity(s string) snapshot.Severity {
	switch s {
	case "error":
		return snapshot.Error
	case "warning":
		return snapshot.Warning
	}
	return snapshot.Info
}

// wrote notes the fields that modules wrote in one unit.
func (r *run) wrote(list []translators.Written) {
	if len(list) > 0 {
		r.writes = append(r.writes, list)
	}
}

// written turns a write into the compiler's form.
func written(w wasm.Write, p abi.Phase, unit string, objects []snapshot.Ref) translators.Written {
	return translators.Written{
		Module: w.Module, Digest: w.Digest.String(), Phase: string(p), Kind: w.Kind, Namespace: w.Namespace, Name: w.Name, Unit: unit, Path: w.Path,
		Op: string(w.Op), Reason: w.Reason, Objects: objects,
	}
}
