package linker

import (
	"cmp"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// routeSet is the ordered routes of all hosts that take the same fragments. It relinks only the groups that changed.
type routeSet struct {
	key     string
	host    *ir.HostFragment // one of the hosts; only SNI and the selector are read
	buckets []*bucket
	groups  map[string]*group
	ordered []*group
	fresh   []*group
	removed bool
	dirty   bool
	changed bool // by the last relink
	ported  bool // a fragment asks for a host with a port

	routes    []*ir.Route
	always    []*ir.Route
	byPrelude map[prelude][]*ir.Route
	findings  []snapshot.Diagnostic
}

// group holds the branches of one match.
type group struct {
	key, order string
	fragments  []*ir.RouteFragment
	dirty      bool
	gone       bool // it has lost its last branch
	routes     []*ir.Route
	findings   []snapshot.Diagnostic
}

// newRouteSet makes a set with room for some groups.
func newRouteSet(h *ir.HostFragment, groups int) *routeSet {
	return &routeSet{host: h, groups: make(map[string]*group, groups), dirty: true}
}

func (s *routeSet) add(f *ir.RouteFragment) bool {
	g := s.groups[f.Group]
	if g != nil && slices.Contains(g.fragments, f) {
		return false
	}
	if g == nil {
		g = &group{key: f.Group, order: f.Order}
		s.groups[f.Group] = g
		s.fresh = append(s.fresh, g)
	}
	at, _ := slices.BinarySearchFunc(g.fragments, f, compareFragments)
	g.fragments = slices.Insert(g.fragments, at, f)
	g.dirty, s.dirty = true, true
	return true
}

func (s *routeSet) remove(f *ir.RouteFragment) bool {
	g := s.groups[f.Group]
	if g == nil || !slices.Contains(g.fragments, f) {
		return false
	}
	g.fragments = slices.DeleteFunc(g.fragments, func(o *ir.RouteFragment) bool { return o == f })
	if len(g.fragments) == 0 {
		delete(s.groups, g.key)
		g.gone, s.removed = true, true
	}
	g.dirty, s.dirty = true, true
	return true
}

// compareFragments orders the branches of a group by their objects, and fragments of one object by name of route.
func compareFragments(a, b *ir.RouteFragment) int {
	if a.Origin != nil && b.Origin != nil {
		if c := a.Origin.Ref.Compare(b.Origin.Ref); c != 0 {
			return c
		}
	}
	return strings.Compare(a.Route.Name, b.Route.Name)
}

func compareGroups(a, b *group) int {
	return cmp.Or(strings.Compare(b.order, a.order), strings.Compare(a.key, b.key))
}

// relink brings the routes up to date and returns the number of groups linked anew.
func (s *routeSet) relink(v *variants) int {
	if s.changed = s.dirty; !s.dirty {
		return 0
	}
	s.reorder()
	linked := 0
	s.routes = make([]*ir.Route, 0, len(s.ordered))
	s.always, s.findings, s.byPrelude, s.ported = nil, nil, nil, false
	for _, g := range s.ordered {
		if g.dirty {
			g.routes, g.findings = link(g.fragments, s.host, v)
			g.dirty = false
			linked++
		}
		s.routes = append(s.routes, g.routes...)
		s.findings = append(s.findings, g.findings...)
		s.ported = s.ported || len(g.fragments) > 0 && g.fragments[0].Hosts.Port != "" && !needsAuthority(s.host, g.fragments[0])
		if len(g.fragments) > 0 && g.fragments[0].Always {
			s.always = append(s.always, g.routes...)
		}
	}
	s.dirty = false
	return linked
}

// reorder merges new groups into the order and drops the empty ones.
func (s *routeSet) reorder() {
	if len(s.fresh) == 0 && !s.removed {
		return
	}
	gone := func(g *group) bool { return g.gone }
	s.ordered, s.fresh = slices.DeleteFunc(s.ordered, gone), slices.DeleteFunc(s.fresh, gone)
	if n := len(s.fresh); n > 0 {
		slices.SortFunc(s.fresh, compareGroups)
		at := len(s.ordered)
		s.ordered = append(s.ordered, s.fresh...)
		for ; n > 0; n-- { // from the end on, each new group moves what follows it once
			place, _ := slices.BinarySearchFunc(s.ordered[:at], s.fresh[n-1], compareGroups)
			copy(s.ordered[place+n:], s.ordered[place:at])
			s.ordered[place+n-1], at = s.fresh[n-1], place
		}
	}
	s.fresh, s.removed = nil, false
}

// under returns the routes behind the prelude. The slice is the same until the set changes.
func (s *routeSet) under(p prelude, v *variants) []*ir.Route {
	if p == preludeNone {
		return s.routes
	}
	if got, is := s.byPrelude[p]; is {
		return got
	}
	conditional := p == preludeRedirectInsecure || p == preludeRejectInsecure
	var out []*ir.Route
	for _, r := range s.always {
		if conditional {
			r = v.insecureOnly(r)
		}
		out = append(out, r)
	}
	switch p {
	case preludeRedirectAll, preludeRedirectInsecure:
		out = s.appendRedirects(out, conditional, v)
	default:
		out = append(out, rejects[p])
	}
	if conditional {
		out = append(out, s.routes...)
	}
	if s.byPrelude == nil {
		s.byPrelude = map[prelude][]*ir.Route{}
	}
	s.byPrelude[p] = out
	return out
}

// appendRedirects appends redirects to https for whatever some route would match: one for each group, or one for all
// where a route takes every path. What nothing matches stays a 404, as in Emissary.
func (s *routeSet) appendRedirects(out []*ir.Route, conditional bool, v *variants) []*ir.Route {
	for _, g := range s.ordered {
		if len(g.routes) > 0 && takesAll(g.routes[0].Match) {
			return append(out, redirectAll[conditional])
		}
	}
	for _, g := range s.ordered {
		if len(g.routes) > 0 {
			out = append(out, v.httpsRedirect(v.plain(g.fragments[0], needsAuthority(s.host, g.fragments[0])), conditional))
		}
	}
	return out
}

func takesAll(m ir.Match) bool {
	return m.PathKind == ir.PathPrefix && m.Path == "/" && len(m.Headers) == 0 && len(m.Query) == 0
}

// prelude is what stands before the routes of a virtual host, from the listener's security model and the host's insecure action.
type prelude uint8

const (
	preludeNone prelude = iota
	// preludeRedirectInsecure and preludeRejectInsecure act on requests whose x-forwarded-proto is not https.
	preludeRedirectInsecure
	preludeRejectInsecure
	// preludeRedirectAll and preludeRejectAll act on every request: no route is behind them.
	preludeRedirectAll
	preludeRejectAll
)

var (
	insecure   = ir.ValueMatch{Name: "x-forwarded-proto", Kind: ir.ValueExact, Value: "https", Invert: true}
	everything = ir.Match{PathKind: ir.PathPrefix, Path: "/"}
	exposed    = ir.Match{PathKind: ir.PathPrefix, Path: "/", Headers: []ir.ValueMatch{insecure}}
)

// The routes of the preludes have no origins of their own: their virtual host's Hosts want them.
var (
	rejects = map[prelude]*ir.Route{
		preludeRejectInsecure: {Name: "insecure-reject", Own: true, Match: exposed, Direct: &ir.DirectResponse{Status: 404}},
		preludeRejectAll:      {Name: "insecure-reject", Own: true, Match: everything, Direct: &ir.DirectResponse{Status: 404}},
	}
	redirectAll = map[bool]*ir.Route{
		true:  {Name: "insecure-redirect", Own: true, Match: exposed, Redirect: toHTTPS},
		false: {Name: "insecure-redirect", Own: true, Match: everything, Redirect: toHTTPS},
	}
	toHTTPS = &ir.Redirect{HTTPS: true, Code: 301}
)

// preludeFor is the table of Emissary's Listener.securityModel × Host.requestPolicy.insecure.action for one chain. With
// XFP, Envoy sets x-forwarded-proto from the connection itself unless hops before it are trusted (Envoy docs:
// use_remote_address, x-forwarded-proto), so that a chain's requests are then all secure or all insecure.
func preludeFor(m ir.SecurityModel, a ir.InsecureAction, chain *ir.HTTPChain, tls bool) prelude {
	certain := chain != nil && chain.TrustedHops == 0 && chain.Settings != nil && chain.Settings.UseRemoteAddress
	switch {
	case m == ir.SecuritySecure || a == ir.InsecureRoute || m == ir.SecurityXFP && certain && tls:
		return preludeNone
	case m == ir.SecurityInsecure || certain:
		if a == ir.InsecureReject {
			return preludeRejectAll
		}
		return preludeRedirectAll
	case a == ir.InsecureReject:
		return preludeRejectInsecure
	default:
		return preludeRedirectInsecure
	}
}
