package envoy

import (
	"strconv"
	"strings"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	compressorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/compressor/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// An Envoy ignores fields that it does not know without a word, so what an older one lacks of what is emitted has to be known here. That
// is little: of the API's additions between 1.36 and 1.40, the back end sets two, core.v3.HealthCheck.name and the compressor's
// content_type_matcher, both of 1.40. Commands of formats and the like are refused by the validating Envoy, which is of the same version.

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
	f.add(codeOlder, "health_checks", "Envoy 1.%d does one health check a cluster, several need 1.40", e.minor)
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
	if !e.older(40) {
		return
	}
	for _, filter := range m.Filters {
		var manager hcmv3.HttpConnectionManager
		if filter.GetTypedConfig().UnmarshalTo(&manager) != nil {
			continue // TCP
		}
		for _, h := range manager.HttpFilters {
			var c compressorv3.Compressor
			if h.Name != ir.FilterCompressor || h.GetTypedConfig().UnmarshalTo(&c) != nil {
				continue
			}
			common := c.GetResponseDirectionConfig().GetCommonConfig()
			for _, t := range common.GetContentTypeMatcher() {
				//lint:ignore SA1019 this is what Envoys before 1.40 know
				common.ContentType = append(common.ContentType, t.GetExact())
			}
			common.ContentTypeMatcher = nil
			h.ConfigType = &hcmv3.HttpFilter_TypedConfig{TypedConfig: f.pack("http_filters."+h.Name, &c)}
		}
		filter.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: f.pack("filters", &manager)}
	}
}
