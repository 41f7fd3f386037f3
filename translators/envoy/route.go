package envoy

import (
	"net/http"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// routeMessage builds one route. present tells which clusters exist; asked is routeFilters'.
func routeMessage(r *ir.Route, present func(string) bool, asked services, f *faults) *routev3.Route {
	out := &routev3.Route{
		Name:                    r.Name,
		Match:                   routeMatch(&r.Match, f),
		RequestHeadersToAdd:     headersToAdd("request", r.RequestHeaders.Add, f),
		RequestHeadersToRemove:  headersToRemove("request", r.RequestHeaders.Remove, f),
		ResponseHeadersToAdd:    headersToAdd("response", r.ResponseHeaders.Add, f),
		ResponseHeadersToRemove: headersToRemove("response", r.ResponseHeaders.Remove, f),
	}
	actions := 0
	if r.Forward != nil {
		actions++
		out.Action = &routev3.Route_Route{Route: routeAction(r.Forward, &r.Match, present, f)}
	}
	if r.Redirect != nil {
		actions++
		out.Action = &routev3.Route_Redirect{Redirect: redirectAction(r.Redirect, f)}
	}
	if r.Direct != nil {
		actions++
		out.Action = &routev3.Route_DirectResponse{DirectResponse: directResponse(r.Direct, f)}
	}
	if actions != 1 {
		f.add(codeValue, "action", "a route has exactly one action, this one has %d", actions)
	}
	out.TypedPerFilterConfig = routeFilters(r, asked, f)
	return out
}

func directResponse(d *ir.DirectResponse, f *faults) *routev3.DirectResponseAction {
	out := &routev3.DirectResponseAction{Status: d.Status}
	if d.Body != "" {
		if len(d.Body) > maxBody {
			f.add(codeValue, "direct_response.body", "it has %d bytes, Envoy takes %d", len(d.Body), maxBody)
		}
		out.Body = &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: d.Body}}
	}
	return out
}

// maxBody is RouteConfiguration.max_direct_response_body_size_bytes' default.
const maxBody = 4096

// closedRoute answers 503 to what the route would have taken, so that no wider route takes it instead.
func closedRoute(r *ir.Route, f *faults) *routev3.Route {
	return &routev3.Route{
		Name:   r.Name,
		Match:  routeMatch(&r.Match, f),
		Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: http.StatusServiceUnavailable}},
	}
}

func sortedKeys[V any](m map[string]V) []string {
	if len(m) == 0 {
		return nil
	}
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
