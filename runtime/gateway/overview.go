package gateway

import (
	"context"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/chancery-gateway/chancery/runtime/health"
	"github.com/chancery-gateway/chancery/runtime/modules"
	"github.com/chancery-gateway/chancery/runtime/page"
	"github.com/chancery-gateway/chancery/runtime/report"
	"github.com/chancery-gateway/chancery/runtime/supervisor"
	"github.com/chancery-gateway/chancery/runtime/trace"
	"github.com/chancery-gateway/chancery/runtime/watt"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/xds"
	"github.com/chancery-gateway/chancery/xds/validator"
)

// Overview is the content of /ambassador/v0/diag/?json=true: Emissary's keys that apply, and ours.
type Overview struct {
	System struct {
		Version         string `json:"version"`
		Hostname        string `json:"hostname"`
		AmbassadorID    string `json:"ambassador_id"`
		Namespace       string `json:"ambassador_namespace"`
		SingleNamespace bool   `json:"single_namespace"`
		BootTime        string `json:"boot_time"`
	} `json:"system"`
	EnvoyStatus struct {
		Alive  bool   `json:"alive"`
		Ready  bool   `json:"ready"`
		State  string `json:"state,omitempty"`
		Uptime string `json:"uptime,omitempty"`
		// Stale says that the configuration is the last good one of an earlier run, since nothing could be compiled yet.
		Stale       bool              `json:"stale,omitempty"`
		SinceUpdate string            `json:"since_update,omitempty"`
		Version     string            `json:"version,omitempty"`
		Process     supervisor.Status `json:"process"`
	} `json:"envoy_status"`
	// Validator is the Envoy that judges configuration before the traffic sees it; nil without one.
	Validator *validator.Status `json:"validator,omitempty"`
	// Errors are pairs of "name.namespace.1", as Emissary names an object, and what is wrong.
	Errors [][2]string `json:"errors"`
	Routes []RouteInfo `json:"route_info"`
	// Nodes are the Envoys that are connected, Diagnostics all findings.
	Nodes       []xds.NodeStatus `json:"nodes"`
	Diagnostics []report.Finding `json:"diagnostics"`
	// Policies says which policies are in force, in which revision.
	Policies any `json:"policies,omitempty"`
	// Modules are the WebAssembly modules, each with its stages.
	Modules []modules.Report `json:"modules,omitempty"`
}

// RouteInfo is one route in words.
type RouteInfo struct {
	Hosts   []string `json:"hosts"`
	Match   string   `json:"match"`
	Action  string   `json:"action"`
	Origins []string `json:"origins"`
}

func (g *Gateway) handler() http.Handler {
	handler := health.New(health.Options{
		Alive: g.isAlive, Ready: g.isReady, Metrics: g.writeMetrics, OwnMetrics: g.writeOwnMetrics,
		Overview: func(ctx context.Context) any { return g.overview(ctx) }, Page: page.Handler(g.state),
		Local: func() bool {
			r := g.pipeline.Result()
			return r != nil && r.Program.Bootstrap != nil && r.Program.Bootstrap.LocalDiagnostics
		},
	})
	word, err := makeOperatorToken(g.settings.StateDir)
	if err != nil {
		g.log.Warn("no operator can change what runs", "error", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", handler)
	if g.options.Modules != nil {
		mux.Handle("POST /ambassador/v0/modules/{action}", operatorOnly(word, g.options.Modules))
	}
	if g.options.Posted != nil {
		mux.Handle("POST "+watt.Path, health.Local(g.options.Posted))
	}
	if g.options.PolicyActions != nil {
		mux.Handle("POST /ambassador/v0/policies/{action}", operatorOnly(word, g.options.PolicyActions))
	}
	return mux
}

// overviewWithoutRoutes returns all of the overview that costs little, whatever there is.
func (g *Gateway) overviewWithoutRoutes(ctx context.Context) *Overview {
	v := &Overview{Errors: [][2]string{}, Routes: []RouteInfo{}, Nodes: g.server.Status()}
	if v.Nodes == nil {
		v.Nodes = []xds.NodeStatus{}
	}
	v.System.Version, v.System.AmbassadorID, v.System.Namespace = g.options.Version, g.settings.AmbassadorID, g.settings.Namespace
	v.System.SingleNamespace = g.settings.SingleNamespace
	v.System.Hostname, _ = os.Hostname() // "" where the system does not know
	v.System.BootTime = g.booted.UTC().Format(time.RFC3339)
	e := &v.EnvoyStatus
	status, version, ok := g.child()
	e.Process, e.Version = status, version
	e.Ready, _ = g.isReady(ctx)
	e.Stale = g.stale.Load()
	if ok && status.State == supervisor.Running {
		e.State = g.envoyState(ctx)
		e.Alive = e.State != ""
		e.Uptime = time.Since(status.Since).Round(time.Second).String()
	}
	if at := g.updated.Load(); at > 0 {
		e.SinceUpdate = time.Since(time.Unix(0, at)).Round(time.Second).String()
	}
	if g.proving.asks {
		s := g.proving.status()
		v.Validator = &s
	}
	if g.options.Policies != nil {
		v.Policies = g.options.Policies()
	}
	if g.options.Modules != nil {
		v.Modules = g.options.Modules.Reports()
	}
	return v
}

func (g *Gateway) overview(ctx context.Context) *Overview {
	v := g.overviewWithoutRoutes(ctx)
	findings := g.pipeline.Findings()
	v.Diagnostics = report.NewDocument(findings).Diagnostics
	for _, d := range findings {
		if d.Severity == snapshot.Error {
			v.Errors = append(v.Errors, [2]string{key(d.Object), d.Message})
		}
	}
	if r := g.pipeline.Result(); r != nil {
		for _, rc := range r.Program.RouteConfigs {
			for _, host := range rc.VirtualHosts {
				for _, route := range host.Routes {
					info := RouteInfo{Hosts: host.Domains, Match: trace.Match(&route.Match), Action: trace.Action(route), Origins: []string{}}
					for _, o := range route.Origins {
						info.Origins = append(info.Origins, o.String())
					}
					v.Routes = append(v.Routes, info)
				}
			}
		}
	}
	return v
}

// key names an object as Emissary's diagnostics do.
func key(r snapshot.Ref) string {
	if r.Name == "" {
		return "-global-"
	}
	return strings.Trim(r.Name+"."+r.Namespace, ".") + ".1"
}
