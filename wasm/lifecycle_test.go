package wasm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/fault"
	. "github.com/chancery-gateway/chancery/wasm/internal/assemble"
	"github.com/chancery-gateway/chancery/wasm/source"
	"github.com/chancery-gateway/chancery/wasm/trust"
)

func TestRollback(t *testing.T) {
	h := newTestHost(t, nil)
	src := &memory{}
	spec := Spec{Name: "m", Source: src, Grant: grantAll()}
	for i := range 4 {
		src.put(guest{Manifest: versioned(fmt.Sprintf("1.0.%d", i), nil), Answer: setHeader(fmt.Sprint("v", i))}.Bytes(), nil, nil)
		if s := apply1(t, h, spec); s.Live == nil {
			t.Fatal(s.Candidate.Err)
		}
		h.Look()
		settle(t, h)
	}
	if s := find(t, h, "m"); s.Live.Version != "1.0.3" || len(s.Previous) != 2 {
		t.Fatalf("%+v", s)
	}
	if err := h.Rollback("m"); err != nil {
		t.Fatal(err)
	}
	if got := note(t, runOne(h, unitOf("u", "a"))); got != "v2" {
		t.Errorf("after the rollback the output is %q", got)
	}
	h.Look() // the source still has the version that was rolled back
	settle(t, h)
	if s := find(t, h, "m"); s.Live.Version != "1.0.2" || !fault.Is(s.Candidate.Err, fault.Regression) {
		t.Errorf("the version that was rolled back came back: %+v", s)
	}
	if err := h.Rollback("m"); err != nil {
		t.Fatal(err)
	}
	if err := h.Rollback("m"); !fault.Is(err, fault.NoPrevious) {
		t.Errorf("a third rollback: %v", err)
	}
	if err := h.Rollback("other"); !fault.Is(err, fault.Unknown) {
		t.Errorf("a rollback of nothing: %v", err)
	}
}

func TestFailurePolicies(t *testing.T) {
	for _, c := range []struct {
		policy  FailurePolicy
		first   bool // the unit was good before
		action  FailurePolicy
		blocked bool
		note    string
	}{
		{OnFailureKeep, true, OnFailureKeep, false, "fine"},
		{"", true, OnFailureKeep, false, "fine"},
		{OnFailureKeep, false, OnFailureBlock, true, ""},
		{OnFailureSkip, true, OnFailureSkip, false, ""},
		{OnFailureBlock, true, OnFailureBlock, true, ""},
	} {
		h := newTestHost(t, nil)
		apply1(t, h, Spec{Name: "m", Source: &memory{module: guest{Answer: setHeader("fine"), Translate: trapOnX()}.Bytes()}, Grant: grantAll(), Failure: c.policy})
		if c.first {
			runOne(h, unitOf("u", "a"))
		}
		o := runOne(h, unitOf("u", "x"))
		if len(o.Failures) != 1 || o.Failures[0].Action != c.action || o.Blocked != c.blocked || note(t, o) != c.note || !fault.Is(o.Failures[0].Err, fault.Trap) {
			t.Errorf("%+v: %+v", c, o)
		}
		if c.note != "" && !strings.Contains(string(o.Items[0].Value), `"content":"a"`) {
			t.Errorf("the unit did not keep its last good form: %s", o.Items[0].Value)
		}
	}
}

func TestOrderAndConflicts(t *testing.T) {
	h := newTestHost(t, nil)
	apply := func(priority int, path string) Outcome {
		specs := []Spec{
			{Name: "a", Source: &memory{module: guest{Answer: setHeader("a")}.Bytes()}, Grant: grantAll()},
			{Name: "b", Source: &memory{module: guest{Answer: setField(path, "b")}.Bytes()}, Grant: grantAll(), Priority: priority, Failure: OnFailureSkip},
		}
		if errs := h.Apply(specs); len(errs) > 0 {
			t.Fatal(errs)
		}
		h.Look()
		settle(t, h)
		return runOne(h, unitOf("u", "a"))
	}
	if o := apply(1, "/note"); note(t, o) != "b" || len(o.Failures) > 0 {
		t.Errorf("the greater priority does not win: %+v", o)
	}
	if o := apply(-1, "/note"); note(t, o) != "a" {
		t.Errorf("the lower priority wins: %+v", o)
	}
	o := apply(0, "/note")
	if len(o.Failures) != 1 || o.Failures[0].Module != "b" || !fault.Is(o.Failures[0].Err, fault.Conflict) || note(t, o) != "a" {
		t.Errorf("equal priorities on one field: %+v", o)
	}
	if o := apply(0, "/other"); len(o.Failures) > 0 || len(o.Writes) != 2 {
		t.Errorf("equal priorities on two fields: %+v", o)
	}
}

func TestTenancy(t *testing.T) {
	h := newTestHost(t, nil)
	grant := grantAll()
	grant.Namespaces = []string{"red"}
	apply1(t, h, Spec{Name: "m", Source: &memory{module: guest{Answer: setHeader("seen")}.Bytes()}, Grant: grant})
	mine, theirs := unitOf("u", "a"), unitOf("v", "a")
	mine.Tenant, theirs.Tenant = "red", "blue"
	if note(t, runOne(h, mine)) != "seen" {
		t.Error("the module does not see its own tenant's unit")
	}
	before := find(t, h, "m").Counts.Calls
	if runOne(h, theirs).Changed || find(t, h, "m").Counts.Calls != before {
		t.Error("the module was given another tenant's unit")
	}
	// Items of other namespaces in a shared unit are neither shown nor writable.
	hidden := abi.Item{Kind: "Mapping.getambassador.io", Namespace: "blue", Name: "x", Value: json.RawMessage(`{"apiVersion":"getambassador.io/v3alpha1","kind":"Mapping","metadata":{"name":"x","namespace":"blue"}}`)}
	answer := `{"operations":[{"op":"remove","kind":"Mapping.getambassador.io","namespace":"blue","name":"x","reason":"mine now"}]}`
	m := versioned("1.0.0", func(m *abi.Manifest) {
		m.Reads = []string{"ir/VirtualHost", "Mapping.getambassador.io"}
		m.Writes = []abi.Scope{{Kind: "Mapping.getambassador.io"}}
	})
	h = newTestHost(t, nil)
	apply1(t, h, Spec{Name: "m", Source: &memory{module: guest{Manifest: m, Answer: answer}.Bytes()}, Grant: grant})
	u := mine
	items := append(mine.Items(), hidden)
	u.Items, u.Hash = func() []abi.Item { return items }, HashItems(items)
	if o := runOne(h, u); len(o.Failures) != 1 || !fault.Is(o.Failures[0].Err, fault.Scope) {
		t.Errorf("a hidden item was removed: %+v", o)
	}
}

func TestTransientFailuresAreTriedAgain(t *testing.T) {
	h := newTestHost(t, nil)
	src := &memory{err: fault.Retry(fault.Fetch, "down")}
	if errs := h.Apply([]Spec{{Name: "m", Source: src, Grant: grantAll()}}); len(errs) > 0 {
		t.Fatal(errs)
	}
	settle(t, h)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) { // while it is tried again there is nothing to say
		s := find(t, h, "m")
		if s.Candidate.Stage == StageFetch && !s.Candidate.RetryAt.IsZero() && fault.Is(s.Candidate.Err, fault.Fetch) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v", s.Candidate)
		}
	}
	src.put(guest{Answer: setHeader("up")}.Bytes(), nil, nil)
	for deadline := time.Now().Add(time.Minute); find(t, h, "m").Live == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it was not tried again: %+v", find(t, h, "m").Candidate)
		}
	}
	src.put(nil, nil, fault.Retry(fault.Fetch, "down again"))
	h.Look()
	settle(t, h)
	if s := find(t, h, "m"); s.Live == nil || note(t, runOne(h, unitOf("u", "a"))) != "up" {
		t.Errorf("a failed fetch touched what is live: %+v", s)
	}
}

// TestSignatureComesLater: a module that was refused for its signature is looked at again when it has another one, be it that
// the file beside it changed, or that a web server has it.
func TestSignatureComesLater(t *testing.T) {
	private, public, err := trust.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	key, err := trust.ParsePrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	module := guest{Answer: setHeader("signed")}.Bytes()
	info, err := Inspect(module)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := trust.Sign(key, StatementOf(info), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, remote := range []bool{false, true} {
		h := newTestHost(t, func(c *Config) { c.Trust, c.CacheDir = rootOf(t, public), filepath.Join(t.TempDir(), "cache") })
		src := &memory{module: module, remote: remote}
		if s := apply1(t, h, Spec{Name: "m", Source: src, Digest: &info.Digest, Grant: grantAll()}); s.Live != nil || !fault.Is(s.Candidate.Err, fault.Signature) {
			t.Fatalf("without a signature: %+v", s.Candidate)
		}
		src.put(module, signature, nil)
		h.Look()
		settle(t, h)
		if s := find(t, h, "m"); s.Live == nil || len(s.Candidate.Signers) != 1 {
			t.Errorf("with a signature (remote: %v): %+v", remote, s.Candidate)
		}
		if err := h.Rollback("m"); !fault.Is(err, fault.NoPrevious) {
			t.Error(err)
		}
	}
}

func TestSpecErrors(t *testing.T) {
	h := newTestHost(t, nil)
	file := source.File{Path: "x.wasm"}
	for name, c := range map[string]struct {
		spec Spec
		want string
	}{
		"no source":      {Spec{}, "source"},
		"unknown policy": {Spec{Source: file, Failure: "explode"}, "failurePolicy"},
		"remote without": {Spec{Source: source.HTTP{URL: "https://example.com/m.wasm"}}, "sha256"},
		"bad scope":      {Spec{Source: file, Grant: Grant{Writes: []abi.Scope{{Kind: "ir/X", Fields: []string{"no"}}}}}, "grant.writes[0].fields"},
		"bad phase":      {Spec{Source: file, Phases: []abi.Phase{"later"}}, "phases[0]"},
	} {
		c.spec.Name = name
		if errs := h.Apply([]Spec{c.spec}); errs[name] == nil || !strings.Contains(errs[name].Error(), c.want) {
			t.Errorf("%s: %v", name, errs[name])
		}
	}
	good := Spec{Name: "good", Source: &memory{module: guest{Answer: setHeader("x")}.Bytes()}, Grant: grantAll()}
	apply1(t, h, good)
	bad := good
	bad.Failure = "explode"
	if errs := h.Apply([]Spec{bad}); len(errs) != 1 || find(t, h, "good").Live == nil {
		t.Error("a spec with an error took the live module away")
	}
	if h.Apply(nil); len(h.Status()) != 0 || runOne(h, unitOf("u", "a")).Changed {
		t.Error("a module that is configured no more still runs")
	}
}

// TestRestart brings a module up from a web server, closes the host, and starts another with the same cache while the
// server is down. It takes the version that was live for the lowest that it takes.
func TestRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	module := guest{Manifest: versioned("2.0.0", nil), Answer: setHeader("up")}.Bytes()
	var down atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() || strings.HasSuffix(r.URL.Path, ".sig") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Write(module)
	}))
	defer server.Close()
	digest := DigestOf(module)
	spec := Spec{Name: "m", Source: source.HTTP{URL: server.URL + "/m.wasm"}, Digest: &digest, Grant: grantAll()}
	for range 2 {
		h, err := NewHost(Config{CacheDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if s := apply1(t, h, spec); s.Live == nil {
			t.Fatal(s.Candidate.Err)
		}
		older := spec
		older.Name, older.Digest, older.Source = "older", nil, &memory{module: guest{Manifest: versioned("1.9.0", nil)}.Bytes()}
		if errs := h.Apply([]Spec{spec, older}); len(errs) > 0 {
			t.Fatal(errs)
		}
		settle(t, h)
		if s := find(t, h, "older"); !fault.Is(s.Candidate.Err, fault.Downgrade) {
			t.Errorf("an older version: %v", s.Candidate.Err)
		}
		h.Close()
		down.Store(true)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := NewHost(Config{CacheDir: dir}); !fault.Is(err, fault.Cache) {
		t.Errorf("a cache that others can read: %v", err)
	}
}

// TestInterpreter: a module runs in the interpreter where that is asked for, and tail calls, which nothing would end, in
// neither.
func TestInterpreter(t *testing.T) {
	h := newTestHost(t, nil)
	spec := Spec{Name: "m", Source: &memory{module: guest{Answer: setHeader("slow")}.Bytes()}, Grant: grantAll(), Interpreter: true}
	if s := apply1(t, h, spec); s.Live == nil || s.Live.Guard != GuardInterpreter || note(t, runOne(h, unitOf("u", "a"))) != "slow" {
		t.Fatalf("%+v", s)
	}
	endless := func(m *Module) { m.Func(nil, nil, nil, With(0x12, m.Next())) }
	spec.Source = &memory{module: guest{Manifest: versioned("1.0.1", nil), With: endless}.Bytes()}
	if s := apply1(t, h, spec); !fault.Is(s.Candidate.Err, fault.Compile) {
		t.Errorf("%+v", s.Candidate)
	}
	spec.Interpreter = false
	if s := apply1(t, h, spec); !fault.Is(s.Candidate.Err, fault.Unsupported) {
		t.Errorf("%+v", s.Candidate)
	}
}

// TestUnmetered: a module that can't be metered, here for a function of many nested loops, does not run at all, or in the
// interpreter when the configuration says so; the status tells which. Endless work in it ends by its deadline.
func TestUnmetered(t *testing.T) {
	large := func(m *Module) {
		m.Func(nil, nil, nil, bytes.Repeat(Op(0x03, 0x40), 600), bytes.Repeat(Op(0x0b), 600))
	}
	limited := func(version string) abi.Manifest {
		return versioned(version, func(m *abi.Manifest) { m.Limits.Milliseconds = 50 })
	}
	h := newTestHost(t, nil)
	src := &memory{module: guest{Manifest: limited("1.0.0"), With: large, Answer: setHeader("fine")}.Bytes()}
	spec := Spec{Name: "m", Source: src, Grant: grantAll(), Failure: OnFailureSkip}
	s := apply1(t, h, spec)
	if s.Live != nil || s.Candidate.Stage != StageInspect || !fault.Is(s.Candidate.Err, fault.Unsupported) || !strings.Contains(s.Candidate.Err.Error(), "more than 500 loops") {
		t.Fatalf("without the interpreter: %+v", s)
	}
	if o := runOne(h, unitOf("u", "a")); o.Changed || len(o.Failures) > 0 {
		t.Errorf("a module that is not live does something: %+v", o)
	}
	spec.Interpreter = true
	if s := apply1(t, h, spec); s.Live == nil || s.Live.Guard != GuardInterpreter || note(t, runOne(h, unitOf("u", "a"))) != "fine" {
		t.Fatalf("with the interpreter: %+v", s)
	}
	for i, endless := range [][]byte{spin, Code(Call(34), packed(0, 0))} {
		src.put(guest{Manifest: limited(fmt.Sprintf("1.1.%d", i)), Prepare: exponential(34), With: large, Translate: endless}.Bytes(), nil, nil)
		h.Look()
		settle(t, h)
		if s := find(t, h, "m"); !fault.Is(s.Candidate.Err, fault.Deadline) || s.Live == nil || s.Live.Version != "1.0.0" {
			t.Errorf("endless work: %+v", s.Candidate)
		}
	}
}

// TestFirstModuleIsTriedOnPresentInput: a module without predecessor is shadow-run on what is compiled at present.
func TestFirstModuleIsTriedOnPresentInput(t *testing.T) {
	h := newTestHost(t, func(c *Config) {
		c.Sample = sampleOf(unitOf("u", "a"), unitOf("v", "b"))
	})
	if s := apply1(t, h, Spec{Name: "m", Source: &memory{module: counting(versioned("1.0.0", nil))}, Grant: grantAll()}); s.Live != nil || !fault.Is(s.Candidate.Err, fault.Nondeterministic) {
		t.Errorf("%+v", s.Candidate)
	}
	if s := apply1(t, h, Spec{Name: "m", Source: &memory{module: guest{Answer: setHeader("x")}.Bytes()}, Grant: grantAll()}); s.Live == nil || s.Candidate.Shadow.Units != 2 {
		t.Errorf("%+v", s.Candidate)
	}
}

// TestFolder puts modules into a watched folder, changes and removes them.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	h := newTestHost(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	reports := make(chan map[string]error, 100)
	done := make(chan error, 1)
	go func() {
		done <- h.Follow(ctx, Folder{Dir: dir, Grant: grantAll()}, nil, func(errs map[string]error) { reports <- errs })
	}()
	until := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %+v", what, h.Status())
			}
		}
	}
	is := func(want string) func() bool {
		return func() bool { return note(t, runOne(h, unitOf("u", "a"))) == want }
	}
	write := func(name string, data []byte) {
		t.Helper()
		writeTestFile(t, filepath.Join(dir, ".new"), data)
		if err := os.Rename(filepath.Join(dir, ".new"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	write("m.wasm", guest{Answer: setHeader("one")}.Bytes())
	until("a module appears", is("one"))
	write("m.wasm", guest{Manifest: versioned("1.0.1", nil), Answer: setHeader("two")}.Bytes())
	until("the module changes", is("two"))
	write("m.wasm", []byte("\x00asm\x01\x00\x00\x00broken"))
	until("the module breaks", func() bool { return find(t, h, "m").Candidate.Err != nil })
	if !is("two")() {
		t.Error("a broken file took the live module away")
	}
	write("m.json", []byte(`{"priority":"high"}`))
	until("a broken document", func() bool {
		select {
		case errs := <-reports:
			return fault.Is(errs["m"], fault.Spec)
		default:
			return false
		}
	})
	if err := os.Remove(filepath.Join(dir, "m.json")); err != nil {
		t.Fatal(err)
	}
	write("m.wasm", guest{Manifest: versioned("1.0.2", nil), Answer: setHeader("three")}.Bytes())
	until("the module is repaired", is("three"))
	if err := os.Remove(filepath.Join(dir, "m.wasm")); err != nil {
		t.Fatal(err)
	}
	until("the module is removed", is(""))
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
