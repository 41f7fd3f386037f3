package xds

import (
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// TestSeveralNodes: Envoys with node ids of their own, in both protocols, are served side by side. What one of them refuses or leaves
// without an answer neither holds up nor changes what another gets.
func TestSeveralNodes(t *testing.T) {
	s := newServer(Options{})
	set := small()
	s.Publish(set)
	conn := serve(t, s)
	clients := map[string]*client{}
	for id, delta := range map[string]bool{"fast": true, "refusing": false, "silent": true} {
		c := connect(t, conn, delta)
		c.node = &core.Node{Id: id, Cluster: "of-" + id, UserAgentVersionType: &core.Node_UserAgentBuildVersion{
			UserAgentBuildVersion: &core.BuildVersion{Version: &typev3.SemanticVersion{MajorNumber: 1, MinorNumber: 36, Patch: 4}}}}
		c.boot(set)
		clients[id] = c
	}
	n := s.Publish(with(set, cluster("c3", "1", ""), res(ir.TypeRouteConfig, "r1", "2", "c3")))
	clients["silent"].next(ir.TypeCluster)
	clients["fast"].expect(ir.TypeCluster, []string{"c3"})
	clients["fast"].expect(ir.TypeRouteConfig, []string{"r1"})
	settled(t, s, n)
	clients["refusing"].reply(clients["refusing"].next(ir.TypeCluster), "Error adding/updating cluster(s) c3: no")
	clients["refusing"].expect(ir.TypeRouteConfig, []string{"r1"})
	clients["silent"].silent() // its own route waits
	shows := func() bool {
		status := s.Status()
		if len(status) != 3 || status[0].ID != "fast" || status[1].ID != "refusing" || status[2].ID != "silent" {
			return false
		}
		for _, st := range status {
			if st.Cluster != "of-"+st.ID || st.Version != "1.36.4" || st.Delta != (st.ID != "refusing") {
				return false
			}
		}
		refused := 0
		for _, typ := range status[1].Types {
			for _, r := range typ.Refused {
				if r.Node != "refusing" || len(r.Names) != 1 || r.Names[0] != "c3" {
					return false
				}
				refused++
			}
		}
		return status[0].Publication == n && refused == 1 && status[2].Publication < n
	}
	eventually(t, "the status shows each", shows)
}
