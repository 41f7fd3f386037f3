package envoy

import (
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	compressorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/compressor/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// TestOlderEnvoys: what an Envoy lacks is left out and told of, or said in its own words; a newer one gets everything.
func TestOlderEnvoys(t *testing.T) {
	prog := small()
	c := *prog.Clusters[0]
	c.HealthChecks = []ir.HealthCheck{{HTTP: &ir.HTTPHealthCheck{Path: "/a"}}, {HTTP: &ir.HTTPHealthCheck{Path: "/b"}}}
	for i := range c.HealthChecks {
		c.HealthChecks[i].TimeoutMillis, c.HealthChecks[i].IntervalMillis, c.HealthChecks[i].HealthyThreshold, c.HealthChecks[i].UnhealthyThreshold = 1000, 1000, 1, 1
	}
	prog.Clusters[0] = &c
	types := []string{"text/css", "application/json"}
	for _, l := range prog.Listeners {
		for _, chain := range l.Chains {
			if chain.HTTP != nil {
				chain.HTTP.Filters = append(chain.HTTP.Filters, &ir.Filter{Name: ir.FilterCompressor, Config: &ir.Compressor{ContentTypes: types}})
			}
		}
	}
	newest := NewEmitter(Options{}).Emit(prog).Resources
	for version, lacks := range map[string]bool{"": false, "1.40.0": false, "1.41.2": false, "2.0.0": false, "1.39.3": true, "1.36.4": true, "1.36.2.post1": true} {
		out := NewEmitter(Options{Version: version}).Emit(prog)
		told := slices.ContainsFunc(out.Diagnostics, func(d snapshot.Diagnostic) bool {
			return d.Code == TooOld && d.Severity == snapshot.Warning && strings.Contains(d.Message, "1.40")
		})
		var cluster clusterv3.Cluster
		for _, r := range out.Resources[ir.TypeCluster] {
			if r.Name == c.Name {
				if err := proto.Unmarshal(r.Value, &cluster); err != nil {
					t.Fatal(err)
				}
			}
		}
		if n := len(cluster.HealthChecks); told != lacks || lacks && n != 1 || !lacks && n != 2 {
			t.Errorf("Envoy %s: %d health checks, told %v: %v", version, n, told, out.Diagnostics)
		}
		found := 0
		for _, r := range out.Resources[ir.TypeListener] {
			var l listenerv3.Listener
			if err := proto.Unmarshal(r.Value, &l); err != nil {
				t.Fatal(err)
			}
			for _, chain := range l.FilterChains {
				var manager hcmv3.HttpConnectionManager
				if chain.Filters[0].GetTypedConfig().UnmarshalTo(&manager) != nil {
					continue
				}
				for _, h := range manager.HttpFilters {
					var z compressorv3.Compressor
					if h.GetTypedConfig().UnmarshalTo(&z) != nil {
						continue
					}
					found++
					common := z.GetResponseDirectionConfig().GetCommonConfig()
					//lint:ignore SA1019 this is what Envoys before 1.40 know
					if old := common.GetContentType(); lacks != slices.Equal(old, types) || lacks == (len(common.GetContentTypeMatcher()) > 0) {
						t.Errorf("Envoy %s: compressor %v", version, common)
					}
				}
			}
		}
		if found == 0 {
			t.Errorf("Envoy %s: no compressor", version)
		}

		// One of a fleet gets the same, made of what the newest gets.
		fit := Fit(version)
		if (fit != nil) != lacks {
			t.Errorf("Envoy %s: Fit is %v", version, fit != nil)
		}
		if fit == nil {
			continue
		}
		for kind, list := range newest {
			for i, r := range list {
				got, text := fit(r)
				want := out.Resources[kind][i]
				a, b := rewritable[kind](), rewritable[kind]()
				if proto.Unmarshal(got.Value, a) != nil || proto.Unmarshal(want.Value, b) != nil || !proto.Equal(a, b) {
					t.Errorf("Envoy %s: %s %s is %v, emitted for it %v", version, kind, r.Name, a, b)
				}
				if same := proto.Equal(a, mustRead(t, r)); same != (got == r) || same != (got.Version == r.Version) {
					t.Errorf("Envoy %s: %s %s: same %v, versions %s and %s", version, kind, r.Name, same, r.Version, got.Version)
				}
				if (text != "") != (r.Name == c.Name && kind == ir.TypeCluster) || text != "" && !strings.Contains(text, "1.40") {
					t.Errorf("Envoy %s: %s %s lacks %q", version, kind, r.Name, text)
				}
			}
		}
	}
}

func mustRead(t *testing.T, r *ir.Resource) proto.Message {
	t.Helper()
	m := rewritable[r.Type]()
	if err := proto.Unmarshal(r.Value, m); err != nil {
		t.Fatal(err)
	}
	return m
}
