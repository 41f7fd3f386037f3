package modules

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/wasm"
	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/wasmtest"
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

// TestAsideIsNotHeldAgainst: a module that fails on what is only asked about is neither counted nor suspended, and what it
// answered there is not what units fall back on.
func TestAsideIsNotHeldAgainst(t *testing.T) {
	m := start(t, handWritten(t, wasmtest.Guest{Translate: wasmtest.TrapEvery(2)}, abi.IR, kindVirtualHost))
	c := newCompiler(m)
	published := world(t, base)
	want := everything(t, c.Compile(published))
	counts := m.Host().Status()[0].Counts
	for i := range 20 {
		tried := world(t, strings.Replace(base, "prefix: /m/", fmt.Sprintf("prefix: /try%d/", i), 1))
		newCompiler(m.Aside().(*Modules)).Compile(tried)
	}
	s := m.Host().Status()[0]
	if !reflect.DeepEqual(s.Counts, counts) || s.Breaker != wasm.Closed {
		t.Errorf("counted: %+v, before %+v; the breaker is %s", s.Counts, counts, s.Breaker)
	}
	if got := everything(t, c.Compile(published)); !maps.Equal(got, want) {
		t.Error("what was only asked about changed what is served")
	}
	if n := m.Host().Status()[0].Counts; n.Calls != counts.Calls || n.Remembered != counts.Remembered+1 {
		t.Errorf("an unchanged unit entered the module: %+v", n)
	}
}
