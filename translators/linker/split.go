package linker

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// variants makes and keeps routes that differ from a fragment's own by the host they are on, so that equal ones are one
// pointer in every virtual host.
type variants struct {
	authority map[*ir.Route]*ir.Route
	insecure  map[*ir.Route]*ir.Route
	redirects map[redirectKey]*ir.Route
	splits    map[splitKey][]split
}

// redirectKey finds the redirect to https of what a route matches, on condition of the request being insecure or always.
type redirectKey struct {
	route       *ir.Route
	conditional bool
}

// splitKey finds the splits that begin and end with the same fragments.
type splitKey struct {
	first, last *ir.RouteFragment
	length      int
	authority   bool
}

type split struct {
	fragments []*ir.RouteFragment
	routes    []*ir.Route
	findings  []snapshot.Diagnostic
}

func newVariants() variants {
	return variants{authority: map[*ir.Route]*ir.Route{}, insecure: map[*ir.Route]*ir.Route{}, redirects: map[redirectKey]*ir.Route{}, splits: map[splitKey][]split{}}
}

// withAuthority returns the route with the condition on :authority.
func (v *variants) withAuthority(f *ir.RouteFragment) *ir.Route {
	if got := v.authority[f.Route]; got != nil {
		return got
	}
	r := *f.Route
	r.Match.Headers = append([]ir.ValueMatch{*f.Authority}, r.Match.Headers...)
	v.authority[f.Route] = &r
	return &r
}

// insecureOnly returns the route for insecure requests alone.
func (v *variants) insecureOnly(r *ir.Route) *ir.Route {
	if got := v.insecure[r]; got != nil {
		return got
	}
	n := *r
	n.Match.Headers = append([]ir.ValueMatch{insecure}, n.Match.Headers...)
	v.insecure[r] = &n
	return &n
}

// httpsRedirect returns the redirect to https for what the route matches.
func (v *variants) httpsRedirect(r *ir.Route, conditional bool) *ir.Route {
	key := redirectKey{r, conditional}
	if got := v.redirects[key]; got != nil {
		return got
	}
	n := &ir.Route{Name: "insecure-redirect", Own: true, Match: r.Match, Redirect: toHTTPS, Origins: r.Origins}
	if conditional {
		n.Match.Headers = append([]ir.ValueMatch{insecure}, n.Match.Headers...)
	}
	v.redirects[key] = n
	return n
}

// forget drops what was made from the fragment.
func (v *variants) forget(f *ir.RouteFragment) {
	for _, r := range []*ir.Route{f.Route, v.authority[f.Route]} {
		delete(v.insecure, r)
		delete(v.redirects, redirectKey{r, true})
		delete(v.redirects, redirectKey{r, false})
	}
	delete(v.authority, f.Route)
}

// endPass forgets the splits: they are shared between the virtual hosts of one pass only, later ones keep their routes.
func (v *variants) endPass() { clear(v.splits) }

// needsAuthority reports whether the host's domain lets names pass that the fragment does not want.
func needsAuthority(h *ir.HostFragment, f *ir.RouteFragment) bool {
	return f.Authority != nil && (f.Hosts.Kind != ir.HostGlob || f.Hosts.Value != h.SNI)
}

// link makes the routes of one group: one for each branch, told apart by fractions of the requests that reach them.
func link(fragments []*ir.RouteFragment, h *ir.HostFragment, v *variants) ([]*ir.Route, []snapshot.Diagnostic) {
	if len(fragments) == 0 {
		return nil, nil
	}
	authority := needsAuthority(h, fragments[0])
	if f := fragments[0]; len(fragments) == 1 && !f.Shadow && (f.Weight == nil || *f.Weight != 0) {
		return []*ir.Route{v.plain(f, authority)}, nil
	}
	key := splitKey{fragments[0], fragments[len(fragments)-1], len(fragments), authority}
	for _, s := range v.splits[key] {
		if slices.Equal(s.fragments, fragments) {
			return s.routes, s.findings
		}
	}
	routes, findings := v.split(fragments, authority)
	v.splits[key] = append(v.splits[key], split{slices.Clone(fragments), routes, findings})
	return routes, findings
}

func (v *variants) plain(f *ir.RouteFragment, authority bool) *ir.Route {
	if authority {
		return v.withAuthority(f)
	}
	return f.Route
}

func (v *variants) split(fragments []*ir.RouteFragment, authority bool) ([]*ir.Route, []snapshot.Diagnostic) {
	fragments, findings := withoutYounger(fragments)
	var live, shadows []*ir.RouteFragment
	for _, f := range fragments {
		if f.Shadow {
			shadows = append(shadows, f)
		} else {
			live = append(live, f)
		}
	}
	if len(live) == 0 {
		for _, f := range shadows {
			findings = blame(findings, f, snapshot.Warning, codeShadowAlone, "spec.shadow",
				"there is no live route with the same host and match whose requests could be copied", "create the live Mapping, or correct this one's match")
		}
		return nil, findings
	}
	live, findings = withoutMixed(live, findings)
	// Branches without a weight come last; the sort is stable, so that the order within stays that of the objects.
	slices.SortStableFunc(live, func(a, b *ir.RouteFragment) int { return btoi(a.Weight == nil) - btoi(b.Weight == nil) })
	shares, total, why := share(live)
	if why != nil {
		for _, f := range live {
			if f.Weight != nil {
				findings = blame(findings, f, snapshot.Warning, why.code, "spec.weight", why.message, why.help)
			}
		}
	}
	mirrors := mirrorsOf(shadows)
	var routes []*ir.Route
	given := 0
	for i, f := range live {
		if shares[i] == 0 {
			continue
		}
		given += shares[i]
		routes = append(routes, branch(v.plain(f, authority), fractionOf(given, total), mirrors))
	}
	if len(routes) == 0 {
		dead := *v.plain(live[0], authority)
		dead.Forward, dead.Redirect = nil, nil
		dead.Direct = &ir.DirectResponse{Status: 503}
		for _, f := range live[1:] {
			dead.Origins = append(slices.Clip(dead.Origins), f.Route.Origins...)
		}
		routes = append(routes, &dead)
	}
	return routes, findings
}

// withoutYounger settles the claims of Sole fragments to the match: the oldest claim stands. Shadows claim nothing.
func withoutYounger(fragments []*ir.RouteFragment) ([]*ir.RouteFragment, []snapshot.Diagnostic) {
	if !slices.ContainsFunc(fragments, func(f *ir.RouteFragment) bool { return f.Sole }) {
		return fragments, nil
	}
	claims := slices.DeleteFunc(slices.Clone(fragments), func(f *ir.RouteFragment) bool { return f.Shadow })
	first := claims[oldest(claims, func(f *ir.RouteFragment) *snapshot.Object { return f.Origin })]
	var kept []*ir.RouteFragment
	var findings []snapshot.Diagnostic
	for _, f := range fragments {
		if f.Shadow || f == first || !f.Sole && !first.Sole {
			kept = append(kept, f)
			continue
		}
		findings = blame(findings, f, snapshot.Error, codeMatchTaken, cmp.Or(f.At, "spec.prefix"), fmt.Sprintf("%s has the same host and path already", nameOf(first.Origin)),
			"change the host or path of one of them")
	}
	return kept, findings
}

// withoutMixed keeps either the redirect or the forwarding branches, whichever comes first: the two cannot share a match.
func withoutMixed(live []*ir.RouteFragment, findings []snapshot.Diagnostic) ([]*ir.RouteFragment, []snapshot.Diagnostic) {
	first := live[0]
	var kept []*ir.RouteFragment
	for i, f := range live {
		redirect := f.Route.Redirect != nil
		if i == 0 || !redirect && first.Route.Redirect == nil {
			kept = append(kept, f)
			continue
		}
		findings = blame(findings, f, snapshot.Error, codeMixedSplit, "spec.host_redirect",
			fmt.Sprintf("%s has the same host and match already, and a redirect cannot share its requests with another route", first.Route.Name),
			"change the match of one of them")
	}
	return kept, findings
}

type weightProblem struct {
	code          *snapshot.Code
	message, help string
}

// share turns the wanted weights into shares of total, and says what was wrong with them. One branch has everything, even
// with a weight; branches without weight divide evenly what is left.
func share(live []*ir.RouteFragment) (shares []int, total int, why *weightProblem) {
	shares = make([]int, len(live))
	sum, open := 0, 0
	for _, f := range live {
		if f.Weight == nil {
			open++
		} else {
			sum += *f.Weight
		}
	}
	switch {
	case open == 0 && sum == 0:
		return shares, 1, &weightProblem{codeZeroWeights, "every branch of this match has weight 0, so its requests are answered 503",
			"give at least one branch a weight above 0"}
	case len(live) == 1:
		shares[0] = 1
		return shares, 1, nil
	case open > 0 && sum <= 100:
		for i, f := range live {
			if f.Weight != nil {
				shares[i] = *f.Weight * open
			} else {
				shares[i] = 100 - sum
			}
		}
		return shares, 100 * open, nil
	}
	for i, f := range live {
		if f.Weight != nil {
			shares[i] = *f.Weight
		}
	}
	if sum != 100 {
		why = &weightProblem{codeWeights, fmt.Sprintf("the weights of this match sum to %d, so each branch gets its weight's part of %d", sum, sum),
			"let the weights sum to 100, or leave one branch without weight to take the rest"}
	}
	return shares, sum, why
}

// fractionOf returns given/total, nil when that is all. Envoy draws one number for a request and compares it with each
// branch in turn, so fractions are cumulative.
func fractionOf(given, total int) *ir.Fraction {
	switch {
	case given >= total:
		return nil
	case given*100%total == 0:
		return &ir.Fraction{Numerator: uint32(given * 100 / total), Denominator: 100}
	default:
		return &ir.Fraction{Numerator: uint32((int64(given)*1_000_000 + int64(total)/2) / int64(total)), Denominator: 1_000_000}
	}
}

func mirrorsOf(shadows []*ir.RouteFragment) []ir.Mirror {
	var out []ir.Mirror
	for _, f := range shadows {
		m := ir.Mirror{Cluster: f.Route.Forward.Clusters[0].Cluster, Origins: f.Route.Origins}
		if f.Weight != nil && *f.Weight < 100 {
			m.Fraction = &ir.Fraction{Numerator: uint32(max(*f.Weight, 0)), Denominator: 100}
		}
		out = append(out, m)
	}
	return out
}

// branch returns the route with its fraction and mirrors; the route itself when neither is needed.
func branch(r *ir.Route, fraction *ir.Fraction, mirrors []ir.Mirror) *ir.Route {
	if fraction == nil && (len(mirrors) == 0 || r.Forward == nil) {
		return r
	}
	n := *r
	n.Match.Fraction = fraction
	if len(mirrors) > 0 && r.Forward != nil {
		forward := *r.Forward
		forward.Mirrors = mirrors
		n.Forward = &forward
	}
	return &n
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// blame appends a finding about the fragment's object; a fragment that no object wanted has nobody to tell.
func blame(findings []snapshot.Diagnostic, f *ir.RouteFragment, s snapshot.Severity, c *snapshot.Code, path, message, help string) []snapshot.Diagnostic {
	if f.Origin == nil {
		return findings
	}
	return append(findings, f.Origin.About(s, c, path, message, help))
}
