package page

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/runtime/trace"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// routes is one page of them, in the order in which Envoy tries them, under the hosts that they belong to.
type routes struct {
	Hosts []host
	pager
}

// host is a virtual host, or the part of it that is on the page.
type host struct {
	Domains []string
	// Ports says where its table is reached; nil where nothing leads to it.
	Ports   []string
	Sources []source
	Routes  []route
	// Empty: it has no routes at all, so whatever is asked for is answered 404.
	Empty bool
}

type route struct {
	Match string
	// Targets are where it forwards to; Action is what it does else.
	Targets []target
	Action  string
	Sources []source
}

// target is one cluster with its share of the requests.
type target struct {
	Share, Cluster, To string
}

// place is a route of a host; a host without routes has one place without a route.
type place struct {
	config *ir.RouteConfig
	host   *ir.VirtualHost
	route  *ir.Route
}

// find returns the routes that the search leaves.
func find(p *ir.Program, search, domain string, q url.Values) (r routes) {
	var kept []place
	for _, rc := range p.RouteConfigs {
		for _, h := range rc.VirtualHosts {
			if domain != "" && !slices.ContainsFunc(h.Domains, func(d string) bool { return strings.Contains(d, domain) }) {
				continue
			}
			if len(h.Routes) == 0 && has(search, append(names(h.Origins), h.Domains...)...) {
				kept = append(kept, place{rc, h, nil})
			}
			for _, x := range h.Routes {
				if search == "" || has(search, append(texts(x), h.Domains...)...) {
					kept = append(kept, place{rc, h, x})
				}
			}
		}
	}
	low, high, pager := page(q, "rp", "routes", routesShown, len(kept))
	r.pager = pager
	ports := ports(p)
	clusters := map[string]*ir.Cluster{}
	for _, c := range p.Clusters {
		clusters[c.Name] = c
	}
	var last *ir.VirtualHost
	for _, k := range kept[low:high] {
		if k.host != last {
			last = k.host
			r.Hosts = append(r.Hosts, host{Domains: k.host.Domains, Ports: ports[k.config.Name], Sources: sources(k.host.Origins), Empty: k.route == nil})
		}
		if k.route != nil {
			h := &r.Hosts[len(r.Hosts)-1]
			h.Routes = append(h.Routes, describe(k.route, clusters))
		}
	}
	return r
}

// texts are what a search looks at, without the cost of putting the route in words.
func texts(r *ir.Route) []string {
	all := append(names(r.Origins), r.Match.Path)
	if r.Forward != nil {
		for _, c := range r.Forward.Clusters {
			all = append(all, c.Cluster)
		}
	}
	return all
}

func names(origins []ir.Origin) (all []string) {
	for _, o := range origins {
		all = append(all, o.String())
	}
	return all
}

func describe(r *ir.Route, clusters map[string]*ir.Cluster) route {
	out := route{Match: trace.Match(&r.Match), Sources: sources(r.Origins)}
	if r.Forward == nil {
		out.Action = trace.Action(r)
		return out
	}
	sum := 0.0
	for _, c := range r.Forward.Clusters {
		sum += float64(c.Weight)
	}
	for _, c := range r.Forward.Clusters {
		t := target{Cluster: c.Cluster, To: reach(clusters[c.Cluster])}
		if len(r.Forward.Clusters) > 1 && sum > 0 {
			t.Share = fmt.Sprintf("%.4g %%", 100*float64(c.Weight)/sum)
		}
		out.Targets = append(out.Targets, t)
	}
	return out
}

// reach says in words how a cluster finds its endpoints.
func reach(c *ir.Cluster) string {
	switch {
	case c == nil:
		return "does not exist: requests are answered 503"
	case c.EndpointSet != "":
		return "endpoints of " + c.EndpointSet
	case c.Host != "":
		return fmt.Sprintf("%s:%d", c.Host, c.Port)
	}
	return string(c.Discovery)
}

// ports returns where each route configuration is reached.
func ports(p *ir.Program) map[string][]string {
	all := map[string][]string{}
	for _, l := range p.Listeners {
		for _, c := range l.Chains {
			if c.HTTP == nil {
				continue
			}
			how := fmt.Sprintf("port %d, clear text", l.Port)
			if c.TLS != nil {
				how = fmt.Sprintf("port %d, TLS", l.Port)
			}
			if l.UDP {
				how = fmt.Sprintf("port %d, HTTP/3", l.Port)
			}
			if at := all[c.HTTP.RouteConfig]; !slices.Contains(at, how) {
				all[c.HTTP.RouteConfig] = append(at, how)
			}
		}
	}
	return all
}
