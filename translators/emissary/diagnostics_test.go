package emissary_test

import (
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/translators/emissary"
)

// TestLocalDiagnostics: who may see the diagnostics page follows from the Module (Emissary: enabled or allow_non_local).
func TestLocalDiagnostics(t *testing.T) {
	for config, want := range map[string]bool{
		`{}`:                                  false,
		`{"diagnostics": {"enabled": true}}`:  false,
		`{"diagnostics": {"enabled": false}}`: true,
		`{"diagnostics": {"enabled": false, "allow_non_local": true}}`:  false,
		`{"diagnostics": {"enabled": false, "allow_non_local": false}}`: true,
	} {
		o, ds := api.Decode([]byte(`{"apiVersion": "getambassador.io/v3alpha1", "kind": "Module", "metadata": {"name": "ambassador"}, "spec": {"config": `+config+`}}`), snapshot.Source{}, nil)
		if o == nil {
			t.Fatal(ds)
		}
		s := snapshot.Empty().Derive([]*snapshot.Object{o}, nil, nil)
		out := emissary.New(emissary.Options{}).Lower(o, snapshot.NewView(s))
		if out.Bootstrap == nil || out.Bootstrap.LocalDiagnostics != want || len(out.Diagnostics) > 0 {
			t.Errorf("%s: %+v, %v, want %t", config, out.Bootstrap, out.Diagnostics, want)
		}
	}
}
