package wasm

import (
	"bytes"
	"context"
	"encoding/json"
	"runtime"
	"slices"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/fault"
	"github.com/chancery-gateway/chancery/wasm/fuel"
)

// module is a compiled module with its settings: what a set is made of. It is shared by all sets that have it.
type module struct {
	spec    Spec
	code    *code
	phases  []abi.Phase
	limits  abi.Limits
	scope   scope
	pool    *pool
	memo    *memo
	breaker *breaker
	stats   *stats
	record  *recorder
	config  []byte

	// refs counts the sets and the history that hold the module; guarded by the host's mutex.
	refs int
}

// newModule joins code and spec. The spec was admitted.
func newModule(spec Spec, c *code, now func() time.Time) (*module, error) {
	m := c.info.Manifest
	if err := checkSettings(m.Settings, spec.Settings); err != nil {
		return nil, err
	}
	config, err := json.Marshal(abi.Configuration{ABI: m.ABI, Features: abi.Features, Settings: spec.Settings})
	if err != nil {
		return nil, fault.New(fault.Settings, "settings: %w", err)
	}
	phases := m.Phases
	if len(spec.Phases) > 0 {
		phases = spec.Phases
	}
	mod := &module{
		spec:    spec,
		code:    c,
		phases:  phases,
		limits:  effective(m.Limits, spec.Grant.Limits),
		scope:   scope{masks(m.Writes), masks(spec.Grant.Writes), spec.Grant.Namespaces},
		memo:    newMemo(maxMemo),
		breaker: newBreaker(now),
		stats:   newStats(now),
		record:  newRecorder(),
		config:  config,
	}
	mod.pool = newPool(runtime.GOMAXPROCS(0), c.pages, mod.instance)
	return mod, nil
}

// instance makes an instance and configures it.
func (m *module) instance(ctx context.Context) (*instance, error) {
	start := budget{
		fuel:   max(m.limits.Fuel, DefaultFuel),
		time:   startMilliseconds * time.Millisecond,
		input:  max(m.limits.InputBytes, len(m.config)),
		output: m.limits.OutputBytes,
	}
	i, spent, err := m.code.instantiate(ctx, start)
	m.stats.spent(spent)
	if err != nil {
		return nil, err
	}
	output, spent, err := i.call(ctx, exportConfigure, m.config, start)
	m.stats.spent(spent)
	m.stats.collect(i.sandbox)
	if err == nil {
		_, err = parseResponse(output)
	}
	if fault.Is(err, fault.Guest) {
		err = fault.New(fault.Settings, "the module refused its settings: %w", err)
	}
	if err != nil {
		i.close()
		return nil, err
	}
	return i, nil
}

// exchange runs one exported function on one input and reads its response. Only an instance that answered without any
// error serves again.
func (m *module) exchange(ctx context.Context, name string, input []byte, fresh bool) (*abi.Response, usage, error) {
	i, err := m.pool.lease(ctx, fresh || m.spec.Fresh)
	if err != nil {
		return nil, usage{}, err
	}
	var response *abi.Response
	output, spent, err := i.call(ctx, name, input, budgetOf(m.limits))
	if err == nil {
		response, err = parseResponse(output)
	}
	m.stats.collect(i.sandbox)
	m.pool.release(i, err == nil && !m.spec.Fresh, spent)
	return response, spent, err
}

// visible reports whether the module is given the item.
func (m *module) visible(i *abi.Item) bool {
	reads := m.code.info.Manifest.Reads
	return (slices.Contains(reads, i.Kind) || slices.Contains(reads, "*")) && namespaceGranted(m.spec.Grant.Namespaces, i.Namespace)
}

// translate runs the module on one unit. The answer is not memoised.
func (m *module) translate(ctx context.Context, phase abi.Phase, unit string, in snapshot.Hash, items []abi.Item, fresh bool) (*answer, usage, error) {
	a := &answer{in: in, out: in, before: items}
	input, err := m.request(phase, unit, items)
	if input == nil || err != nil {
		return a, usage{}, err
	}
	response, spent, err := m.exchange(ctx, exportTranslate, input, fresh)
	if err != nil {
		return nil, spent, err
	}
	a.diagnostics = response.Diagnostics
	if len(response.Operations) == 0 {
		return a, spent, nil
	}
	within, cancel := context.WithTimeout(ctx, time.Duration(m.limits.Milliseconds)*time.Millisecond)
	defer cancel()
	after, writes, err := apply(within, items, response.Operations, &m.scope, func(i *abi.Item) bool { return !m.visible(i) })
	if err != nil {
		return nil, spent, err
	}
	for i := range writes {
		writes[i].Module, writes[i].Digest, writes[i].priority = m.spec.Name, m.code.info.Digest, m.spec.Priority
	}
	a.after, a.before, a.writes = after, nil, writes
	a.out = chain(in, hashItems(after))
	return a, spent, nil
}

// request encodes what the module may see of a unit; nil when that is nothing.
func (m *module) request(phase abi.Phase, unit string, items []abi.Item) ([]byte, error) {
	r := abi.Request{Phase: phase, Unit: unit, Items: make([]abi.Item, 0, len(items))}
	for i := range items {
		if m.visible(&items[i]) {
			r.Items = append(r.Items, items[i])
		}
	}
	if len(r.Items) == 0 {
		return nil, nil
	}
	return encodeRequest(&r)
}

// validate asks the module's validate for its findings about a unit; none where it has no validate.
func (m *module) validate(ctx context.Context, phase abi.Phase, unit string, items []abi.Item) ([]abi.Diagnostic, error) {
	if !m.validates() {
		return nil, nil
	}
	input, err := m.request(phase, unit, items)
	if input == nil || err != nil {
		return nil, err
	}
	response, _, err := m.exchange(ctx, exportValidate, input, false)
	if err != nil {
		return nil, err
	}
	return response.Diagnostics, nil
}

// validates reports whether the module has a validate.
func (m *module) validates() bool {
	return slices.ContainsFunc(m.code.info.Interface.Exports, func(e fuel.Export) bool { return e.Name == exportValidate })
}

func encodeRequest(r *abi.Request) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return nil, fault.New(fault.Host, "the unit can't be encoded: %w", err)
	}
	return b.Bytes(), nil
}

// selfTest makes an instance, configures it and runs the module's own test.
func (m *module) selfTest(ctx context.Context) error {
	i, err := m.pool.lease(ctx, true)
	if err != nil {
		return err
	}
	if i.mod.ExportedFunction(exportSelfTest) == nil {
		m.pool.release(i, true, usage{})
		return nil
	}
	output, spent, err := i.call(ctx, exportSelfTest, nil, budgetOf(m.limits))
	m.stats.spent(spent)
	m.stats.collect(i.sandbox)
	m.pool.release(i, false, spent)
	if err == nil {
		_, err = parseResponse(output)
	}
	if fault.Is(err, fault.Guest) {
		return fault.New(fault.SelfTest, "%w", err)
	}
	return err
}

// close frees the instances; the code is the host's.
func (m *module) close() { m.pool.close() }
