package envoy

import (
	"slices"

	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	bufferv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/buffer/v3"
	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	bridgev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/grpc_http1_bridge/v3"
	webv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/grpc_web/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// httpFilters builds the filters of a chain. The CORS filter is always there, so that the first route with a policy
// changes no listener; the router comes last. present tells which clusters exist.
func httpFilters(list []*ir.Filter, s *ir.HTTPSettings, present func(string) bool, f *faults) []*hcmv3.HttpFilter {
	out := make([]*hcmv3.HttpFilter, 0, len(list)+2)
	if !slices.ContainsFunc(list, func(x *ir.Filter) bool { return x.Name == ir.FilterCORS }) {
		out = append(out, httpFilter(ir.FilterCORS, &corsv3.Cors{}, f))
	}
	for _, x := range list {
		if m := filterMessage(x, present, f); m != nil {
			out = append(out, httpFilter(x.Name, m, f))
		}
	}
	return append(out, httpFilter("envoy.filters.http.router", &routerv3.Router{SuppressEnvoyHeaders: s.SuppressEnvoyHeaders}, f))
}

func httpFilter(name string, config validated, f *faults) *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: f.pack("http_filters."+name, config)}}
}

// filterMessage builds the configuration of one filter; nil for one that cannot be emitted, which is a fault.
func filterMessage(x *ir.Filter, present func(string) bool, f *faults) validated {
	switch c := x.Config.(type) {
	case nil:
		switch x.Name {
		case ir.FilterCORS:
			return &corsv3.Cors{}
		case ir.FilterGRPCWeb:
			return &webv3.GrpcWeb{}
		case ir.FilterGRPCBridge:
			return &bridgev3.Config{}
		}
	case *ir.ExtAuthz:
		if x.Name == ir.FilterExtAuthz {
			return extAuthz(c, present, f)
		}
	case *ir.RateLimit:
		if x.Name == ir.FilterRateLimit {
			return rateLimit(c, present)
		}
	case *ir.AddressRules:
		if x.Name == ir.FilterRBAC {
			return addressRules(c, f)
		}
	case *ir.Buffer:
		if x.Name == ir.FilterBuffer {
			return &bufferv3.Buffer{MaxRequestBytes: wrapperspb.UInt32(c.MaxRequestBytes)}
		}
	case *ir.Compressor:
		if x.Name == ir.FilterCompressor {
			return compressor(c, f)
		}
	case *ir.Lua:
		if x.Name == ir.FilterLua {
			script("http_filters."+x.Name, c.Script, f)
			return &luav3.Lua{DefaultSourceCode: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: c.Script}}}
		}
	case *ir.GRPCStats:
		if x.Name == ir.FilterGRPCStats {
			return grpcStats(c)
		}
	}
	f.add(codeFilter, "http_filters", "the filter %q with settings of type %T cannot be emitted", x.Name, x.Config)
	return nil
}

// services says which of the filters that ask a service stand in some chain.
type services struct{ auth, limits bool }

// routeFilters builds a route's settings for filters; those for filters that stand nowhere are left out. The gateway's own
// answers are exempt from authentication.
func routeFilters(r *ir.Route, asked services, f *faults) map[string]*anypb.Any {
	var out map[string]*anypb.Any
	put := func(name string, m validated) {
		if out == nil {
			out = map[string]*anypb.Any{}
		}
		out[name] = f.pack("typed_per_filter_config."+name, m)
	}
	if r.CORS != nil {
		put(ir.FilterCORS, corsPolicy(r.CORS, f))
	}
	if r.Own && asked.auth {
		put(ir.FilterExtAuthz, extAuthzRoute(&ir.ExtAuthzRoute{Disabled: true}))
	}
	for _, name := range sortedKeys(r.Filters) {
		switch c := r.Filters[name].(type) {
		case *ir.ExtAuthzRoute:
			if name == ir.FilterExtAuthz {
				if asked.auth && !r.Own {
					put(name, extAuthzRoute(c))
				}
				continue
			}
		case *ir.RateLimitRoute:
			if name == ir.FilterRateLimit {
				if m := rateLimitRoute(c, f); asked.limits {
					put(name, m)
				}
				continue
			}
		}
		f.add(codeFilter, "typed_per_filter_config", "settings of type %T for the filter %q cannot be emitted", r.Filters[name], name)
	}
	return out
}

// servicesOf returns which services the chains of the listeners ask.
func servicesOf(listeners []*ir.Listener) (s services) {
	for _, l := range listeners {
		for _, c := range l.Chains {
			if c.HTTP == nil {
				continue
			}
			for _, x := range c.HTTP.Filters {
				s.auth = s.auth || x.Name == ir.FilterExtAuthz
				s.limits = s.limits || x.Name == ir.FilterRateLimit
			}
		}
	}
	return s
}

// lostServices says of a chain which services it names that do not exist, and what becomes of their filters. standIn is
// set where the unavailable cluster takes a place.
func lostServices(c *ir.FilterChain, present func(string) bool) (diagnostics []snapshot.Diagnostic, missing string, standIn bool) {
	lose := func(cluster, what, effect string, origins []ir.Origin) bool {
		if cluster == "" || present(cluster) {
			return false
		}
		var f faults
		f.add(codeMissing, "cluster", "there is no usable cluster %q", cluster)
		diagnostics = append(diagnostics, f.diagnostics(what, effect, origins)...)
		missing += what + " " + cluster + "\n"
		return true
	}
	lostLogs := func(list []ir.AccessLog) {
		for i := range list {
			lose(list[i].Cluster, unitName("access log", list[i].LogName), leftOut, list[i].Origins)
		}
	}
	if c.TCP != nil {
		lostLogs(c.TCP.AccessLogs)
	}
	if c.HTTP == nil {
		return diagnostics, missing, standIn
	}
	for _, x := range c.HTTP.Filters {
		what := unitName("filter", x.Name)
		switch c := x.Config.(type) {
		case *ir.ExtAuthz:
			if lose(c.Cluster, what, "refuses every request", x.Origins) || c.Cluster == "" || c.Closed != "" {
				standIn = true
			}
		case *ir.RateLimit:
			if lose(c.Cluster, what, "has nobody to ask", x.Origins) || c.Cluster == "" {
				standIn = true
			}
		}
	}
	lostLogs(c.HTTP.AccessLogs)
	if t := c.HTTP.Tracing; t != nil {
		lose(t.Cluster, "tracing", leftOut, t.Origins)
	}
	return diagnostics, missing, standIn
}

// filterOrigins returns the origins of the filters that have faults, and whether that explains all faults of the chain.
func filterOrigins(h *ir.HTTPChain, present func(string) bool, total int) (origins []ir.Origin, all bool) {
	found := 0
	for _, x := range h.Filters {
		var f faults
		if m := filterMessage(x, present, &f); m != nil {
			httpFilter(x.Name, m, &f)
		}
		if len(f) > 0 {
			origins = append(origins, x.Origins...)
		}
		found += len(f)
	}
	return origins, found >= total
}
