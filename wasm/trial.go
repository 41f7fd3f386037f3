package wasm

import (
	"context"
	"encoding/json"
	"time"

	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/fault"
	"github.com/chancery-gateway/chancery/wasm/trust"
)

// Trial is one module outside of any host: what the command line runs, tests and measures.
type Trial struct {
	Info   *Info
	Guard  Guard
	module *module
}

// Usage is what a call took. Fuel is 0 for a module that is not metered.
type Usage struct {
	Fuel int64
	Time time.Duration
	// Pages is the size of the instance's memory after the call, in pages of 64 KiB.
	Pages uint32
}

// Verify judges a module by digest (nil for any), signature, manifest, interface and grant, without running it.
func Verify(binary, signature []byte, spec Spec, root *trust.Root, now time.Time) (*Info, error) {
	if d := DigestOf(binary); spec.Digest != nil && d != *spec.Digest {
		return nil, fault.New(fault.Digest, "the module has %s; %s is wanted", d, spec.Digest)
	}
	info, err := Inspect(binary)
	if err != nil {
		return nil, err
	}
	if root != nil {
		if _, err := root.Verify(signature, StatementOf(info), now); err != nil {
			return info, err
		}
	}
	_, err = spec.guard(info)
	return info, err
}

// Try compiles a module and configures an instance. The spec's grant is taken as it is, and its settings; a spec without
// grant gets what the manifest asks for.
func Try(ctx context.Context, binary []byte, spec Spec) (*Trial, error) {
	info, err := Inspect(binary)
	if err != nil {
		return nil, err
	}
	m := info.Manifest
	if len(spec.Grant.Phases) == 0 {
		spec.Grant = Grant{Phases: m.Phases, Reads: m.Reads, Writes: m.Writes, Namespaces: []string{"*"}, Limits: spec.Grant.Limits}
	}
	if spec.Name == "" {
		spec.Name = m.Name
	}
	if err := spec.admit(m); err != nil {
		return nil, err
	}
	guard, err := spec.guard(info)
	if err != nil {
		return nil, err
	}
	return tryGuard(ctx, binary, info, spec, guard)
}

func tryGuard(ctx context.Context, binary []byte, info *Info, spec Spec, guard Guard) (*Trial, error) {
	c, err := compile(ctx, info, binary, guard, effective(info.Manifest.Limits, spec.Grant.Limits).Pages, "")
	if err != nil {
		return nil, err
	}
	mod, err := newModule(spec, c, time.Now)
	if err != nil {
		c.close()
		return nil, err
	}
	t := &Trial{Info: info, Guard: guard, module: mod}
	if i, err := mod.pool.lease(ctx, true); err != nil {
		t.Close()
		return nil, err
	} else {
		mod.pool.release(i, true, usage{})
	}
	return t, nil
}

// Settings returns the settings that the module was given.
func (t *Trial) Settings() json.RawMessage { return t.module.spec.Settings }

// Translate runs the module on one unit and applies its operations.
func (t *Trial) Translate(ctx context.Context, p abi.Phase, u Unit) (Outcome, Usage, error) {
	items := u.Items()
	sortItems(items)
	a, spent, err := t.module.translate(ctx, p, u.Key, u.Hash, items, false)
	if err != nil {
		return Outcome{}, usageOf(spent), err
	}
	o := Outcome{Hash: a.out, Changed: a.after != nil, Items: a.after, Writes: a.writes}
	for _, d := range a.diagnostics {
		o.Findings = append(o.Findings, Finding{t.module.spec.Name, d})
	}
	return o, usageOf(spent), nil
}

// Validate asks the module's validate, where it has one, for its findings about a unit.
func (t *Trial) Validate(ctx context.Context, p abi.Phase, u Unit) ([]abi.Diagnostic, error) {
	return t.module.validate(ctx, p, u.Key, u.Items())
}

// SelfTest runs the module's own test, where it has one.
func (t *Trial) SelfTest(ctx context.Context) error { return t.module.selfTest(ctx) }

// Logs returns the last lines of the module's log.
func (t *Trial) Logs() []LogLine {
	_, logs := t.module.stats.read()
	return logs
}

// Close frees the module.
func (t *Trial) Close() {
	t.module.close()
	t.module.code.close()
}

// Compare measures one unit under the guards that there are: metered, wazero's own closeOnDone, and none. It returns the
// best time of so many rounds by the guard's name.
func Compare(ctx context.Context, binary []byte, spec Spec, p abi.Phase, u Unit, rounds int) (map[Guard]Usage, error) {
	info, err := Inspect(binary)
	if err != nil {
		return nil, err
	}
	m := info.Manifest
	spec.Name = m.Name
	spec.Grant = Grant{Phases: m.Phases, Reads: m.Reads, Writes: m.Writes, Namespaces: []string{"*"}, Limits: abi.Limits{Milliseconds: 60_000, Fuel: 1 << 40}}
	trials := map[Guard]*Trial{}
	defer func() {
		for _, t := range trials {
			t.Close()
		}
	}()
	guards := []Guard{guardNone, GuardFuel, guardCloseOnDone}
	if info.Unmetered != nil {
		guards = []Guard{guardNone, guardCloseOnDone}
	}
	for _, g := range guards {
		t, err := tryGuard(ctx, binary, info, spec, g)
		if err != nil {
			return nil, err
		}
		trials[g] = t
	}
	best := map[Guard]Usage{}
	for range rounds { // the guards take turns: what disturbs the machine for a while disturbs all of them
		for _, g := range guards {
			_, spent, err := trials[g].Translate(ctx, p, u)
			if err != nil {
				return nil, err
			}
			if b, seen := best[g]; !seen || spent.Time < b.Time {
				best[g] = spent
			}
		}
	}
	return best, nil
}

func usageOf(u usage) Usage { return Usage{u.fuel, u.time, u.pages} }
