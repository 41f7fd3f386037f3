package envoy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	compressorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/compressor/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// An Envoy ignores fields that it does not know without a word, so what an older one lacks of what is emitted has to be known here. That
// is little: of the API's additions between 1.36 and 1.40, the back end sets two, core.v3.HealthCheck.name and the compressor's
// content_type_matcher, both of 1.40. What is emitted is for the Envoy beside Chancery; Fit makes of it what older ones of a fleet get.
// Commands of formats and the like are refused by the validating Envoy, which is of the same version.

const fieldHealthChecks protowire.Number = 8 // Cluster.health_checks

// minor returns the second number of a version such as "1.36.4", 0 where there is none.
func minor(version string) int {
	first, rest, _ := strings.Cut(version, ".")
	second, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(second)
	if first != "1" || err != nil {
		return 0
	}
	return n
}

// older reports whether the Envoy is known to be older than 1.n.
func (e *Emitter) older(n int) bool { return e.minor != 0 && e.minor < n }

// fitCluster returns the cluster without what the Envoy lacks, and what there is to say about that.
func (e *Emitter) fitCluster(c *ir.Cluster) (*ir.Cluster, []snapshot.Diagnostic) {
	if len(c.HealthChecks) < 2 || !e.older(40) {
		return c, nil
	}
	var f faults
	f.add(TooOld, "health_checks", "Envoy 1.%d does one health check a cluster, several need 1.40", e.minor)
	fit := *c
	fit.HealthChecks = c.HealthChecks[:1]
	found := f.diagnostics(unitName("cluster", c.Name), "is checked by the first of its health checks only", c.Origins)
	for i := range found {
		found[i].Severity = snapshot.Warning
	}
	return &fit, found
}

// fitChain says in an older Envoy's words what it knows by another field.
func (e *Emitter) fitChain(m *listenerv3.FilterChain, f *faults) {
	if e.older(40) {
		fitCompressors(m, f)
	}
}

// fitCompressors names content types as Envoys before 1.40 know them. It reports whether that changes anything.
func fitCompressors(m *listenerv3.FilterChain, f *faults) (changed bool) {
	for _, filter := range m.GetFilters() {
		var manager hcmv3.HttpConnectionManager
		if filter.GetTypedConfig().UnmarshalTo(&manager) != nil {
			continue // TCP
		}
		fit := false
		for _, h := range manager.HttpFilters {
			var c compressorv3.Compressor
			if h.Name != ir.FilterCompressor || h.GetTypedConfig().UnmarshalTo(&c) != nil {
				continue
			}
			common := c.GetResponseDirectionConfig().GetCommonConfig()
			if len(common.GetContentTypeMatcher()) == 0 {
				continue
			}
			for _, t := range common.ContentTypeMatcher {
				//lint:ignore SA1019 this is what Envoys before 1.40 know
				common.ContentType = append(common.ContentType, t.GetExact())
			}
			common.ContentTypeMatcher = nil
			h.ConfigType = &hcmv3.HttpFilter_TypedConfig{TypedConfig: f.pack("http_filters."+h.Name, &c)}
			fit = true
		}
		if fit {
			filter.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: f.pack("filters", &manager)}
			changed = true
		}
	}
	return changed
}

// Fit returns what an Envoy of that version, one of a fleet, is to be served in place of a resource that was emitted for a newer one, and
// what it does without, "" for nothing. It is nil for an Envoy that has all that is emitted.
func Fit(version string) func(*ir.Resource) (fit *ir.Resource, lacks string) {
	n := minor(version)
	if n == 0 || n >= 40 {
		return nil
	}
	return func(r *ir.Resource) (*ir.Resource, string) {
		switch {
		case r.Type == ir.TypeCluster && repeats(r.Value, fieldHealthChecks):
			var m clusterv3.Cluster
			if proto.Unmarshal(r.Value, &m) != nil {
				break
			}
			checks := len(m.HealthChecks)
			m.HealthChecks = m.HealthChecks[:1]
			m.HealthChecks[0].Name = "" // which is of 1.40 too
			return fitted(r, &m), fmt.Sprintf("%s is checked by the first of its %d health_checks only: Envoy 1.%d does one a cluster, several need 1.40",
				unitName("cluster", r.Name), checks, n)
		case r.Type == ir.TypeListener:
			var m listenerv3.Listener
			if proto.Unmarshal(r.Value, &m) != nil {
				break
			}
			changed := false
			var f faults
			for _, chain := range append(slices.Clone(m.FilterChains), m.DefaultFilterChain) {
				changed = fitCompressors(chain, &f) || changed
			}
			if changed && len(f) == 0 {
				return fitted(r, &m), ""
			}
		}
		return r, ""
	}
}

// fitted returns the resource with another content.
func fitted(r *ir.Resource, m proto.Message) *ir.Resource {
	value, err := deterministic.Marshal(m)
	if err != nil {
		return r // it was decoded a moment ago
	}
	fit := *r
	fit.Value, fit.Version = value, version(contentHash(value))
	return &fit
}

// repeats reports whether a marshalled message has a field more than once.
func repeats(message []byte, field protowire.Number) bool {
	times := 0
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			break
		}
		if number == field {
			times++
		}
		size := protowire.ConsumeFieldValue(number, kind, message[n:])
		if size < 0 {
			break
		}
		message = message[n+size:]
	}
	return times > 1
}
