package gateway

import (
	"context"
	"encoding/json"
	"time"

	"github.com/chancery-gateway/chancery/runtime/page"
)

// state is what the diagnostics page shows: the overview, and the compile that it is about.
func (g *Gateway) state(ctx context.Context) page.State {
	v := g.overviewWithoutRoutes(ctx)
	e := &v.EnvoyStatus
	s := page.State{
		Version: v.System.Version, Hostname: v.System.Hostname, AmbassadorID: v.System.AmbassadorID, Namespace: v.System.Namespace, SingleNamespace: v.System.SingleNamespace,
		Uptime: time.Since(g.booted).Round(time.Second), Process: string(e.Process.State), EnvoyVersion: e.Version, EnvoyUptime: e.Uptime, EnvoyState: e.State,
		Stale: e.Stale, SinceUpdate: e.SinceUpdate, Result: g.pipeline.Result(), Findings: g.pipeline.Findings(), Nodes: v.Nodes, Validator: v.Validator, Modules: v.Modules,
	}
	s.Ready, s.Why = g.isReady(ctx)
	var inForce struct{ Policies []page.Policy }
	if text, err := json.Marshal(v.Policies); err == nil && json.Unmarshal(text, &inForce) == nil { // what the JSON form says, too
		s.Policies = inForce.Policies
	}
	return s
}
