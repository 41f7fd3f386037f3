package envoy

import (
	"net/http"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// route appends the fields of one config.route.v3.Route. present tells which clusters exist; asked is routeFilters'.
func (w *encoding) route(r *ir.Route, present func(string) bool, asked services, f *faults) {
	w.routeMatch(1, &r.Match, f)
	for _, h := range headersToAdd("request", r.RequestHeaders.Add, f) {
		w.trusted(9, h)
	}
	for _, h := range headersToAdd("response", r.ResponseHeaders.Add, f) {
		w.trusted(10, h)
	}
	for _, n := range headersToRemove("response", r.ResponseHeaders.Remove, f) {
		w.member(11, n)
	}
	for _, n := range headersToRemove("request", r.RequestHeaders.Remove, f) {
		w.member(12, n)
	}
	filters := routeFilters(r, asked, f)
	for _, name := range sortedKeys(filters) {
		w.packed(13, name, filters[name])
	}
	w.text(14, r.Name)
	actions := 0
	if r.Forward != nil {
		actions++
		w.routeAction(2, r.Forward, &r.Match, present, f)
	}
	if r.Redirect != nil {
		actions++
		w.redirectAction(3, r.Redirect, f)
	}
	if r.Direct != nil {
		actions++
		w.directResponse(7, r.Direct, f)
	}
	if actions != 1 {
		f.add(codeValue, "action", "a route has exactly one action, this one has %d", actions)
	}
}

// directResponse appends a config.route.v3.DirectResponseAction.
func (w *encoding) directResponse(n protowire.Number, d *ir.DirectResponse, f *faults) {
	at := w.begin(n)
	w.number(1, uint64(d.Status))
	w.odd = w.odd || d.Status < 200 || d.Status >= 600
	if d.Body != "" {
		if len(d.Body) > maxBody {
			f.add(codeValue, "direct_response.body", "it has %d bytes, Envoy takes %d", len(d.Body), maxBody)
		}
		body := w.begin(2)
		w.member(3, d.Body)
		w.end(body)
	}
	w.end(at)
}

// maxBody is RouteConfiguration.max_direct_response_body_size_bytes' default.
const maxBody = 4096

// closedRoute appends a route that answers 503 to what the route would have taken, so that no wider route takes it instead.
func (w *encoding) closedRoute(r *ir.Route, f *faults) {
	w.routeMatch(1, &r.Match, f)
	w.text(14, r.Name)
	w.directResponse(7, &ir.DirectResponse{Status: http.StatusServiceUnavailable}, f)
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
