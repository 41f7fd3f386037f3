package gateway

import (
	"context"
	"net/netip"

	"github.com/chancery-gateway/chancery/runtime/supervisor"
	"github.com/chancery-gateway/chancery/translators/envoy"
	"github.com/chancery-gateway/chancery/xds"
)

// warm asks our own Envoy which clusters are warm. Others have an admin interface that is not ours to reach; of two with our own's name, as
// during a hot restart, nobody knows which one would answer.
func (g *Gateway) warm(ctx context.Context, node xds.NodeStatus, clusters []string) []string {
	status, _, ok := g.child()
	r := g.pipeline.Result()
	if !ok || status.State != supervisor.Running || r == nil || node.ID != envoy.NodeID(r.Program.Bootstrap) {
		return nil
	}
	if at, err := netip.ParseAddrPort(node.Address); err != nil || !at.Addr().Unmap().IsLoopback() {
		return nil
	}
	alike := 0
	for _, n := range g.server.Status() {
		if n.ID == node.ID {
			alike++
		}
	}
	if alike != 1 {
		return nil
	}
	return xds.WarmAt(ctx, g.admin(), clusters)
}
