package envoy

import (
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// dispensable reports whether a chain is served without a filter that is faulty. Without one that keeps somebody or something out, the
// chain itself is left out: that is so for what asks a service or looks at addresses and sizes, and for scripts that answer requests.
func dispensable(x *ir.Filter) bool {
	switch c := x.Config.(type) {
	case *ir.Compressor:
		return x.Name == ir.FilterCompressor
	case *ir.GRPCStats:
		return x.Name == ir.FilterGRPCStats
	case *ir.Lua:
		return x.Name == ir.FilterLua && !strings.Contains(c.Script, "respond")
	}
	return false
}

// filterUnit is the memo of one dispensable filter. It is shown to Envoy alone, so that a refusal of the chain that it stands in
// finds it out already.
type filterUnit struct {
	id          uint64
	faults      faults
	diagnostics []snapshot.Diagnostic
}

// withoutFaulty returns the chain without those of its dispensable filters that are faulty, their names, and what there is to say.
func (e *Emitter) withoutFaulty(c *ir.FilterChain) (_ *ir.FilterChain, omitted string, _ []snapshot.Diagnostic) {
	if c.HTTP == nil || !slices.ContainsFunc(c.HTTP.Filters, dispensable) {
		return c, "", nil
	}
	var diagnostics []snapshot.Diagnostic
	var good []*ir.Filter
	for _, x := range c.HTTP.Filters {
		if ds := e.filterFaults(x); len(ds) > 0 {
			diagnostics = append(diagnostics, ds...)
			omitted += x.Name + "\n"
			continue
		}
		good = append(good, x)
	}
	if omitted == "" {
		return c, "", nil
	}
	fit, http := *c, *c.HTTP
	http.Filters = good
	fit.HTTP = &http
	return &fit, omitted, diagnostics
}

func (e *Emitter) filterFaults(x *ir.Filter) []snapshot.Diagnostic {
	if !dispensable(x) {
		return nil
	}
	u := e.chains.filters[x]
	if u != nil && !e.refused.has(u.id) {
		return u.diagnostics
	}
	if u == nil {
		u = &filterUnit{}
		e.chains.filters[x] = u
		if m := filterMessage(x, e.clusters.world.has, &u.faults); m != nil && len(u.faults) == 0 {
			h := httpFilter(x.Name, m, &u.faults)
			value := u.faults.marshal("", &corev3.TypedExtensionConfig{Name: x.Name, TypedConfig: h.GetTypedConfig()})
			if len(u.faults) == 0 {
				u.id = e.refused.show(ir.UnitExtension, x.Name, value, contentHash(value), x.Origins, &u.faults)
			}
		}
	} else {
		u.faults = nil
		e.refused.blame(u.id, &u.faults)
	}
	u.diagnostics = u.faults.diagnostics(unitName("HTTP filter", x.Name), leftOut, x.Origins)
	return u.diagnostics
}
