package envoy

import (
	"slices"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// TestFaultyFilters: a chain is served without a faulty filter, and not at all without one that keeps somebody out; what is said of the
// filter is about its own objects, and what Envoy said of it alone takes it out of every chain.
func TestFaultyFilters(t *testing.T) {
	origin := ir.Origin{Group: snapshot.EmissaryGroup, Kind: "Module", Namespace: "app", Name: "ambassador"}
	for _, c := range []struct {
		name    string
		filter  *ir.Filter
		refuses bool // Envoy does
		served  bool
	}{
		{"a loop", &ir.Filter{Name: ir.FilterLua, Config: &ir.Lua{Script: "while true do end"}}, false, true},
		{"a loop in what answers", &ir.Filter{Name: ir.FilterLua, Config: &ir.Lua{Script: "while true do end function envoy_on_request(h) h:respond({}, '') end"}}, false, false},
		{"refused", &ir.Filter{Name: ir.FilterLua, Config: &ir.Lua{Script: "function f("}}, true, true},
		{"refused compressor", &ir.Filter{Name: ir.FilterCompressor, Config: &ir.Compressor{ContentTypes: []string{"a/b"}}}, true, true},
		{"unknown", &ir.Filter{Name: "unknown"}, false, false},
	} {
		prog := small()
		c.filter.Origins = []ir.Origin{origin}
		chains := 0
		for _, l := range prog.Listeners {
			for _, chain := range l.Chains {
				if chain.HTTP != nil {
					chain.HTTP.Filters = append(chain.HTTP.Filters, c.filter)
					chains++
				}
			}
		}
		e := NewEmitter(Options{})
		out := e.Emit(prog)
		if c.refuses {
			refused := map[*ir.Unit]string{}
			for _, u := range out.Changed {
				if u.Kind == ir.UnitExtension {
					refused[u] = "no such thing"
				}
			}
			if len(refused) != 1 || chains == 0 {
				t.Fatalf("%s: %d units of the filter for %d chains", c.name, len(refused), chains)
			}
			e.Refuse(refused)
			out = e.Emit(prog)
		}
		said := slices.ContainsFunc(out.Diagnostics, func(d snapshot.Diagnostic) bool {
			return d.Object == origin && d.Severity == snapshot.Error && strings.HasPrefix(d.Message, "HTTP filter ")
		})
		kept := false
		for _, r := range out.Resources[ir.TypeListener] {
			kept = kept || strings.Contains(string(r.Value), c.filter.Name)
		}
		if served := len(out.Resources[ir.TypeListener]) == len(prog.Listeners); served != c.served || said != c.served || kept {
			t.Errorf("%s: served %v, want %v; said of the filter %v; kept %v: %v", c.name, served, c.served, said, kept, out.Diagnostics)
		}
		if again := e.Emit(prog); again.Emitted != 0 || !slices.EqualFunc(again.Diagnostics, out.Diagnostics, func(a, b snapshot.Diagnostic) bool { return a.Message == b.Message && a.Object == b.Object }) {
			t.Errorf("%s: emitted again %d, %v", c.name, again.Emitted, again.Diagnostics)
		}
	}
}
