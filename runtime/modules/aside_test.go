package modules

import (
	"maps"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
)

// TestAsideLeavesNoTrace: a compile that is not published comes out as any other, and the modules in force know nothing of it.
func TestAsideLeavesNoTrace(t *testing.T) {
	m := start(t, all(t)...)
	c := newCompiler(m)
	published := world(t, base)
	c.Compile(published)
	if !m.Fresh() {
		t.Fatal("nothing has changed, and the answers are not fresh")
	}
	m.stale.Store(true) // another set of modules is in force since
	last := m.last.snapshot
	var tried *snapshot.Object
	for _, k := range published.Kinds() {
		for o := range published.List(k) {
			tried = o
		}
	}
	with := published.Derive(nil, []snapshot.Ref{tried.Ref}, nil)
	aside := newCompiler(m.Aside().(*Modules))
	got := everything(t, aside.Compile(with))
	if m.Fresh() {
		t.Error("a compile aside made the answers of the published ones look fresh")
	}
	if m.last.snapshot != last {
		t.Error("new modules would be tried on what was only asked about")
	}
	if want := everything(t, c.Compile(with)); !maps.Equal(got, want) {
		t.Error("a compile aside comes out differently")
	}
}
