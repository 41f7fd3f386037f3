package wasm

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/fault"
	. "github.com/chancery-gateway/chancery/wasm/internal/assemble"
	"github.com/chancery-gateway/chancery/wasm/source"
	"github.com/chancery-gateway/chancery/wasm/trust"
	"github.com/chancery-gateway/chancery/wasm/wasmtest"
)

// memory is a source whose content a test changes.
type memory struct {
	mu        sync.Mutex
	module    []byte
	signature []byte
	err       error
	fetched   int
	remote    bool
}

func (m *memory) Remote() bool   { return m.remote }
func (m *memory) String() string { return "memory" }
func (m *memory) Fetch(context.Context) (*source.Artifact, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fetched++
	if m.err != nil {
		return nil, m.err
	}
	return &source.Artifact{Module: m.module, Signature: m.signature}, nil
}

func (m *memory) put(module, signature []byte, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.module, m.signature, m.err = module, signature, err
}

func grantAll() Grant {
	return Grant{
		Phases: []abi.Phase{abi.Lower, abi.IR, abi.XDS}, Reads: []string{"*"}, Namespaces: []string{"*"},
		Writes: []abi.Scope{{Kind: "*"}},
	}
}

// setHeader is an answer that sets a field of the virtual host vh to a value.
func setHeader(value string) string { return setField("/note", value) }

func setField(path, value string) string {
	r := abi.Response{Operations: []abi.Operation{{
		Op: abi.Patch, Kind: "ir/VirtualHost", Name: "vh", Reason: "a test",
		Patch: []abi.Step{{Op: abi.Add, Path: path, Value: json.RawMessage(fmt.Sprintf("%q", value))}},
	}}}
	text, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func versioned(version string, change func(*abi.Manifest)) abi.Manifest {
	m := testManifest()
	m.Version = version
	if change != nil {
		change(&m)
	}
	return m
}

func unitOf(key, content string) Unit {
	items := []abi.Item{{Kind: "ir/VirtualHost", Name: "vh", Value: json.RawMessage(fmt.Sprintf(`{"name":"vh","content":%q}`, content))}}
	return Unit{Key: key, Hash: HashItems(items), Items: func() []abi.Item { return items }}
}

func newTestHost(t testing.TB, change func(*Config)) *Host {
	t.Helper()
	c := Config{backoff: time.Millisecond}
	if change != nil {
		change(&c)
	}
	h, err := NewHost(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

func settle(t testing.TB, h *Host) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if err := h.Settle(ctx); err != nil {
		t.Fatal(err)
	}
}

func apply1(t testing.TB, h *Host, s Spec) Status {
	t.Helper()
	if errs := h.Apply([]Spec{s}); len(errs) > 0 {
		t.Fatal(errs)
	}
	h.Look() // a test's sources all have one name
	settle(t, h)
	return find(t, h, s.Name)
}

func find(t testing.TB, h *Host, name string) Status {
	t.Helper()
	s, err := h.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// runOne runs one unit through the IR phase of the present set and returns what became of it.
func runOne(h *Host, u Unit) Outcome {
	set := h.Acquire()
	defer set.Release()
	return set.Run(context.Background(), abi.IR, []Unit{u})[0]
}

func note(t testing.TB, o Outcome) string {
	t.Helper()
	if !o.Changed {
		return ""
	}
	var v struct{ Note string }
	if err := json.Unmarshal(o.Items[0].Value, &v); err != nil {
		t.Fatal(err)
	}
	return v.Note
}

func TestModuleComesUp(t *testing.T) {
	h := newTestHost(t, nil)
	s := apply1(t, h, Spec{Name: "one", Source: &memory{module: guest{Answer: setHeader("one")}.Bytes()}, Grant: grantAll()})
	if s.Live == nil || s.Candidate.Stage != StagePromoted || s.Live.Guard != GuardFuel {
		t.Fatalf("%+v", s)
	}
	o := runOne(h, unitOf("u", "a"))
	if note(t, o) != "one" {
		t.Fatalf("%+v", o)
	}
	want := Write{Module: "one", Digest: s.Live.Digest, Kind: "ir/VirtualHost", Name: "vh", Path: "/note", Op: abi.Patch, Reason: "a test"}
	got := o.Writes[0]
	got.path = nil
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("wrote %+v, want %+v", got, want)
	}
}

func TestUnchangedUnitsNeverEnterTheModule(t *testing.T) {
	h := newTestHost(t, nil)
	apply1(t, h, Spec{Name: "one", Source: &memory{module: guest{Answer: setHeader("one")}.Bytes()}, Grant: grantAll()})
	units := make([]Unit, 100)
	for i := range units {
		units[i] = unitOf(fmt.Sprint(i), "a")
	}
	run := func() []Outcome {
		set := h.Acquire()
		defer set.Release()
		return set.Run(context.Background(), abi.IR, units)
	}
	cold := run()
	warm := run()
	if c := find(t, h, "one").Counts; c.Calls != 100 || c.Remembered != 100 {
		t.Errorf("%d calls, %d remembered; 100 and 100 were wanted", c.Calls, c.Remembered)
	}
	for i := range cold {
		if string(cold[i].Items[0].Value) != string(warm[i].Items[0].Value) || cold[i].Hash != warm[i].Hash {
			t.Fatalf("unit %d differs when warm", i)
		}
	}
	units[7] = unitOf("7", "b")
	run()
	if c := find(t, h, "one").Counts; c.Calls != 101 {
		t.Errorf("%d calls; one changed unit must make one call", c.Calls-100)
	}
	// The same module with other settings is another one.
	if errs := h.Apply([]Spec{{Name: "one", Source: &memory{module: guest{Answer: setHeader("one")}.Bytes()}, Grant: grantAll(), Priority: 3}}); len(errs) > 0 {
		t.Fatal(errs)
	}
	settle(t, h)
	run()
	if c := find(t, h, "one").Counts; c.Calls != 100 {
		t.Errorf("%d calls after the spec changed; 100 were wanted", c.Calls)
	}
}

// TestRefusedCandidates replaces a live module by bad ones: each is refused at its stage with its code, and the live one
// goes on with the same bytes.
func TestRefusedCandidates(t *testing.T) {
	private, public, err := trust.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	key, _ := trust.ParsePrivateKey(private)
	root := rootOf(t, public)
	sign := func(module []byte) []byte {
		info, err := Inspect(module)
		if err != nil {
			return nil // refused before the signature is looked at
		}
		out, err := trust.Sign(key, StatementOf(info), nil)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	two := versioned("1.1.0", nil)
	valid := guest{Manifest: two, Answer: setHeader("two")}.Bytes()
	for _, c := range []struct {
		name     string
		module   []byte
		unsigned bool
		change   func(*Spec)
		stage    Stage
		code     *snapshot.Code
	}{
		{name: "no signature", module: valid, unsigned: true, stage: StageVerify, code: fault.Signature},
		{name: "truncated", module: valid[:len(valid)/2], stage: StageInspect, code: fault.Malformed},
		{name: "more types than memory", module: withSection(valid, []byte("\x00asm\x01\x00\x00\x00\x01\x08\x01\x60\x00\xff\xff\xff\xff\x0f")), stage: StageInspect, code: fault.Malformed},
		{name: "more exports than memory", module: withSection(valid, []byte("\x00asm\x01\x00\x00\x00\x07\x05\xff\xff\xff\xff\x0f")), stage: StageInspect, code: fault.Malformed},
		{name: "table larger than memory", module: guest{Manifest: two, With: func(m *Module) { m.Table(1 << 27) }}.Bytes(), stage: StageInspect, code: fault.Unsupported},
		{name: "component", module: []byte("\x00asm\x0d\x00\x01\x00"), stage: StageInspect, code: fault.Unsupported},
		{name: "not a module", module: []byte("#!/bin/sh\n"), stage: StageInspect, code: fault.Malformed},
		{name: "no manifest", module: (&Module{}).Bytes(), stage: StageInspect, code: fault.NoManifest},
		{name: "unknown field in the manifest", module: withManifest(valid, `{"abi":"1.0","nmae":"x"}`), stage: StageInspect, code: fault.Manifest},
		{name: "next ABI", module: guest{Manifest: versioned("1.1.0", func(m *abi.Manifest) { m.ABI = "2.0" })}.Bytes(), stage: StageInspect, code: fault.ABI},
		{name: "unknown feature", module: guest{Manifest: versioned("1.1.0", func(m *abi.Manifest) { m.Features = []string{"time-travel"} })}.Bytes(), stage: StageInspect, code: fault.Feature},
		{name: "abi_version differs from the manifest", module: guest{Manifest: two, Version: 2 << 16}.Bytes(), stage: StageSelfTest, code: fault.ABI},
		{name: "unknown import", module: guest{Manifest: two, Prepare: func(m *Module) { m.Import(wasi, "path_open", []byte{I32}, []byte{I32}) }}.Bytes(), stage: StageInspect, code: fault.Import},
		{name: "import with another signature", module: guest{Manifest: two, Prepare: func(m *Module) { m.Import(wasi, "fd_write", []byte{I32}, []byte{I32}) }}.Bytes(), stage: StageInspect, code: fault.Import},
		{name: "missing export", module: guest{Manifest: two, NoAlloc: true}.Bytes(), stage: StageInspect, code: fault.Export},
		{name: "export with another signature", module: guest{Manifest: two, NoAlloc: true, With: func(m *Module) {
			m.Export("alloc", Function, m.Func(nil, []byte{I32}, nil, Const32(1)))
		}}.Bytes(), stage: StageInspect, code: fault.Export},
		{name: "reserved export", module: guest{Manifest: two, With: func(m *Module) { m.Export("chancery:fuel", Function, 0) }}.Bytes(), stage: StageInspect, code: fault.Reserved},
		{name: "reserved import", module: guest{Manifest: two, Prepare: func(m *Module) { m.Import("chancery:meter", "tick", nil, []byte{I64}) }}.Bytes(), stage: StageInspect, code: fault.Reserved},
		{name: "duplicate export", module: guest{Manifest: two, With: func(m *Module) { m.Export("memory", Memory, 0) }}.Bytes(), stage: StageCompile, code: fault.Compile},
		{name: "lower version", module: guest{Manifest: versioned("0.9.0", nil)}.Bytes(), stage: StageVerify, code: fault.Downgrade},
		{name: "phase not granted", module: valid, change: func(s *Spec) { s.Grant.Phases = []abi.Phase{abi.XDS} }, stage: StageInspect, code: fault.Grant},
		{name: "read not granted", module: valid, change: func(s *Spec) { s.Grant.Reads = []string{"ir/Cluster"} }, stage: StageInspect, code: fault.Grant},
		{name: "write not granted", module: valid, change: func(s *Spec) { s.Grant.Writes = []abi.Scope{{Kind: "ir/Cluster"}} }, stage: StageInspect, code: fault.Grant},
		{name: "settings without schema", module: valid, change: func(s *Spec) { s.Settings = json.RawMessage(`{"a":1}`) }, stage: StageInspect, code: fault.Settings},
		{name: "settings against the schema", module: guest{Manifest: versioned("1.1.0", func(m *abi.Manifest) {
			m.Settings = json.RawMessage(`{"type":"object","properties":{"header":{"type":"string"}}}`)
		})}.Bytes(), change: func(s *Spec) { s.Settings = json.RawMessage(`{"header":7}`) }, stage: StageInspect, code: fault.Settings},
		{name: "too much memory", module: guest{Manifest: two, Pages: 600}.Bytes(), stage: StageCompile, code: fault.MemorySize},
		{name: "another digest", module: valid, change: func(s *Spec) { s.Digest = &Digest{1} }, stage: StageVerify, code: fault.Digest},
		{name: "trap in configure", module: guest{Manifest: two, Configure: Op(Unreachable)}.Bytes(), stage: StageSelfTest, code: fault.Trap},
		{name: "trap in self_test", module: guest{Manifest: two, SelfTest: Op(Unreachable)}.Bytes(), stage: StageSelfTest, code: fault.Trap},
		{name: "self_test reports an error", module: guest{Manifest: two, Answer: `{"error":{"message":"no good"}}`, SelfTest: packed(answerAt, 31)}.Bytes(), stage: StageSelfTest, code: fault.SelfTest},
		{name: "timeout in self_test", module: guest{Manifest: versioned("1.1.0", func(m *abi.Manifest) { m.Limits.Milliseconds = 20 }), SelfTest: spin}.Bytes(), stage: StageSelfTest, code: fault.Deadline},
		{name: "fuel in self_test", module: guest{Manifest: versioned("1.1.0", func(m *abi.Manifest) { m.Limits.Fuel = 10_000 }), SelfTest: spin}.Bytes(), stage: StageSelfTest, code: fault.Fuel},
		{name: "start function that spins", module: guest{Manifest: two, With: func(m *Module) { m.Start(m.Func(nil, nil, nil, Loop(Br(0)))) }}.Bytes(), stage: StageSelfTest, code: fault.Fuel},
		{name: "start function that traps", module: guest{Manifest: two, With: func(m *Module) { m.Start(m.Func(nil, nil, nil, Op(Unreachable))) }}.Bytes(), stage: StageSelfTest, code: fault.Trap},
		{name: "trap on recorded input", module: guest{Manifest: two, Translate: Op(Unreachable)}.Bytes(), stage: StageShadow, code: fault.Trap},
		{name: "output that is no JSON", module: guest{Manifest: two, Answer: "no"}.Bytes(), stage: StageShadow, code: fault.Output},
		{name: "output with an unknown member", module: guest{Manifest: two, Answer: `{"ops":[]}`}.Bytes(), stage: StageShadow, code: fault.Output},
		{name: "output with a duplicate member", module: guest{Manifest: two, Answer: `{"operations":[],"operations":[]}`}.Bytes(), stage: StageShadow, code: fault.Output},
		{name: "operation without reason", module: guest{Manifest: two, Answer: `{"operations":[{"op":"remove","kind":"ir/VirtualHost","name":"vh","reason":""}]}`}.Bytes(), stage: StageShadow, code: fault.Output},
		{name: "operation on nothing", module: guest{Manifest: two, Answer: strings.ReplaceAll(setHeader("x"), `"vh"`, `"other"`)}.Bytes(), stage: StageShadow, code: fault.Operation},
		{name: "patch of nothing", module: guest{Manifest: two, Answer: setField("/a/b/c", "x")}.Bytes(), stage: StageShadow, code: fault.Operation},
		{name: "write of a kind outside the scope", module: guest{Manifest: two, Answer: `{"operations":[{"op":"add","kind":"ir/Cluster","name":"c","value":{"name":"c"},"origin":{"kind":"ir/VirtualHost","name":"vh"},"reason":"x"}]}`}.Bytes(), stage: StageShadow, code: fault.Scope},
		{name: "write of a field outside the scope", module: guest{Manifest: versioned("1.1.0", func(m *abi.Manifest) { m.Writes[0].Fields = []string{"/routes/*/requestHeaders"} }), Answer: setHeader("x")}.Bytes(), stage: StageShadow, code: fault.Scope},
		{name: "write of a field outside the grant", module: valid, change: func(s *Spec) { s.Grant.Writes[0].Fields = []string{"/routes"} }, stage: StageShadow, code: fault.Scope},
		{name: "write of origins", module: guest{Manifest: two, Answer: setField("/origins", "x")}.Bytes(), stage: StageShadow, code: fault.Scope},
		{name: "another name for itself", module: guest{Manifest: two, Answer: setField("/name", "x")}.Bytes(), stage: StageShadow, code: fault.Operation},
		{name: "refused by validation", module: guest{Manifest: two, Answer: setHeader("invalid")}.Bytes(), stage: StageShadow, code: fault.Result},
		{name: "too large a change", module: valid, change: func(s *Spec) { s.Shadow.MaxChanged = 2 }, stage: StageShadow, code: fault.Diff},
		{name: "output that grows from call to call", module: counting(two), stage: StageShadow, code: fault.Nondeterministic},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newTestHost(t, func(c *Config) {
				c.Trust = root
				c.Validate = func(_ context.Context, _ abi.Phase, _ *Unit, items []abi.Item) error {
					if strings.Contains(string(items[0].Value), "invalid") {
						return fmt.Errorf("vh.note: invalid")
					}
					return nil
				}
			})
			good := guest{Answer: setHeader("one")}.Bytes()
			src := &memory{module: good, signature: sign(good)}
			spec := Spec{Name: "m", Source: src, Grant: grantAll()}
			live := apply1(t, h, spec).Live
			if live == nil {
				t.Fatalf("the good module did not come up: %v", find(t, h, "m").Candidate.Err)
			}
			units := []Unit{unitOf("a", "a"), unitOf("b", "b"), unitOf("c", "c")}
			before := fmt.Sprint(runAll(h, units))

			signature := sign(c.module)
			if c.unsigned {
				signature = nil
			}
			src.put(c.module, signature, nil)
			if c.change != nil {
				c.change(&spec)
				if errs := h.Apply([]Spec{spec}); len(errs) > 0 {
					t.Fatal(errs)
				}
			}
			h.Look()
			settle(t, h)
			s := find(t, h, "m")
			if s.Candidate.Stage != c.stage || !fault.Is(s.Candidate.Err, c.code) {
				t.Errorf("at %s with %v; %s with %s was wanted", s.Candidate.Stage, s.Candidate.Err, c.stage, c.code.ID)
			}
			if s.Live == nil || s.Live.Digest != live.Digest {
				t.Errorf("the live module changed: %+v", s.Live)
			}
			if after := fmt.Sprint(runAll(h, append(slices.Clone(units), unitOf("d", "d"))[:3])); after != before {
				t.Errorf("the live output changed:\n%s\n%s", before, after)
			}
		})
	}
}

func runAll(h *Host, units []Unit) []string {
	set := h.Acquire()
	defer set.Release()
	var out []string
	for _, o := range set.Run(context.Background(), abi.IR, units) {
		for _, i := range o.Items {
			out = append(out, string(i.Value))
		}
	}
	return out
}

func rootOf(t *testing.T, public []byte) *trust.Root {
	t.Helper()
	dir := t.TempDir()
	writeTestFile(t, dir+"/key.pub", public)
	root, err := trust.LoadRoot(dir, 1)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// counting is a module that keeps state: each call of an instance returns one more field.
func counting(m abi.Manifest) []byte {
	answer := setHeader("count-0")
	digit := strings.Index(answer, "count-") + len("count-")
	return guest{Manifest: m, Answer: answer, Translate: wasmtest.Counting(answer, digit)}.Bytes()
}

// sampleOf makes units the present input.
func sampleOf(units ...Unit) func(abi.Phase) []Unit {
	return func(abi.Phase) []Unit { return units }
}
