package envoy

import (
	"slices"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// TestRefuse refuses each unit of a program in turn and looks at what becomes of the rest.
func TestRefuse(t *testing.T) {
	prog := full()
	whole := clean(t, emit(t, prog))
	if len(whole.Changed) == 0 {
		t.Fatal("nothing to prove")
	}
	kinds := map[ir.UnitKind]int{}
	for i, u := range whole.Changed {
		kinds[u.Kind]++
		e := NewEmitter(Options{})
		first := e.Emit(prog)
		guilty := first.Changed[i]
		if guilty.ID != u.ID {
			t.Fatalf("unit %d is %s %q, then %s %q", i, u.Kind, u.Name, guilty.Kind, guilty.Name)
		}
		e.Refuse(map[*ir.Unit]string{guilty: "no, thanks"})
		second := e.Emit(prog)
		told := false
		for _, d := range second.Diagnostics {
			told = told || d.Code == codeRefused && strings.Contains(d.Message, "Envoy says: no, thanks") && (len(guilty.Origins) == 0 || slices.Contains(guilty.Origins, d.Object))
		}
		if !told {
			t.Errorf("%s %q: no diagnostic: %v", u.Kind, u.Name, second.Diagnostics)
		}
		for url, list := range second.Resources {
			for _, r := range list {
				if (u.Kind == ir.UnitCluster && url == ir.TypeCluster || u.Kind == ir.UnitSecret && url == ir.TypeSecret || u.Kind == ir.UnitListener && url == ir.TypeListener) && r.Name == u.Name {
					t.Errorf("%s %q is still served", u.Kind, u.Name)
				}
				if u.Kind == ir.UnitRoute && strings.Contains(string(r.Value), string(u.Value)) && len(u.Value) > 60 {
					t.Errorf("route %q is still served in %s", u.Name, r.Name)
				}
			}
		}
		// What an Emitter answers that knew of the refusal from the start is the same.
		cold := NewEmitter(Options{})
		cold.Refuse(map[*ir.Unit]string{guilty: "no, thanks"})
		if a, b := Version(second.Resources), Version(cold.Emit(prog).Resources); a != b {
			t.Errorf("%s %q: warm %s, cold %s", u.Kind, u.Name, a, b)
		}
		if third := e.Emit(prog); third.Emitted != 0 || len(third.Changed) != 0 || Version(third.Resources) != Version(second.Resources) {
			t.Errorf("%s %q: a further emission makes %d units and shows %d", u.Kind, u.Name, third.Emitted, len(third.Changed))
		}
	}
	for _, k := range []ir.UnitKind{ir.UnitRoute, ir.UnitHost, ir.UnitCluster, ir.UnitSecret, ir.UnitListener, ir.UnitChain} {
		if kinds[k] == 0 {
			t.Errorf("no %s was shown", k)
		}
	}
}

// TestRefuseClosedRoute: a route answers 503 when Envoy does not take it, and is left out when not even that is taken.
func TestRefuseClosedRoute(t *testing.T) {
	e := NewEmitter(Options{})
	prog := small()
	find := func(out Output) *ir.Unit {
		i := slices.IndexFunc(out.Changed, func(u *ir.Unit) bool { return u.Kind == ir.UnitRoute && u.Name == "a" })
		if i < 0 {
			t.Fatalf("route a is not shown: %v", out.Changed)
		}
		return out.Changed[i]
	}
	e.Refuse(map[*ir.Unit]string{find(e.Emit(prog)): "first"})
	out := e.Emit(prog)
	e.Refuse(map[*ir.Unit]string{find(out): "second"})
	if len(out.Changed) != 1 || !strings.Contains(out.Diagnostics[0].Message, closed) {
		t.Errorf("%d units, %v", len(out.Changed), out.Diagnostics)
	}
	out = e.Emit(prog)
	if len(out.Diagnostics) != 2 || !strings.Contains(out.Diagnostics[0].Message, leftOut) || strings.Contains(string(out.Resources[ir.TypeRouteConfig][0].Value), "/a/") {
		t.Errorf("%v", out.Diagnostics)
	}
	if len(out.Changed) != 0 {
		t.Errorf("%d units are shown", len(out.Changed))
	}
}
