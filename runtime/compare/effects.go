package compare

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/runtime/trace"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// Effects are what the change of one object does, for whoever is about to make it.
type Effects struct {
	// Added, Changed and Removed count routes, each match of a domain once.
	Added, Changed, Removed int
	Drains                  []Drain
	// Sentences say what others lose to the object and where it loses to them, gravest first.
	Sentences []string
}

// Of returns what a change of the object makes of the first program's routes and connections in the second. Parts that
// both share cost a look at a pointer.
func Of(a, b *ir.Program, about snapshot.Ref) *Effects {
	e := &effects{about: about, groups: map[string]*group{}, pairs: map[[2]*ir.VirtualHost]bool{}}
	e.out.Drains = drains(a, b)
	e.chains(a, b)
	was := map[string]*ir.RouteConfig{}
	for _, rc := range a.RouteConfigs {
		was[rc.Name] = rc
	}
	for _, rc := range b.RouteConfigs {
		e.tables(was[rc.Name], rc)
		delete(was, rc.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(was)) {
		e.tables(was[name], nil)
	}
	for _, d := range e.out.Drains {
		if d.Chain == "" {
			e.note(drainsAll, d.Listener, d.Reason)
		} else {
			e.note(drainsChain, d.Listener+", chain "+d.Chain, d.Reason)
		}
	}
	for _, verb := range verbs {
		if g := e.groups[verb.verb]; g != nil {
			e.out.Sentences = append(e.out.Sentences, g.sentence(verb))
		}
	}
	return &e.out
}

// verb is one kind of effect: what is done, and how the others take part in it.
type verb struct{ verb, join string }

var (
	takesHost   = verb{"takes over host", "from"}
	losesHost   = verb{"loses host", "to"}
	drainsAll   = verb{"drains listener", "because"}
	drainsChain = verb{"drains connections of", "because"}
	takes       = verb{"takes over", "from"}
	ends        = verb{"ends", "of"}
	shadows     = verb{"shadows", "of"}
	loses       = verb{"loses", "to what stands before it:"}
	shares      = verb{"shares", "with"}
	changes     = verb{"changes", "of"}

	// verbs in the order of their gravity.
	verbs = []verb{takesHost, losesHost, drainsAll, drainsChain, takes, ends, shadows, loses, shares, changes}
)

// group gathers effects of one kind, so that a change of a thousand routes is one sentence.
type group struct{ what, who list }

// list is a list without doubles.
type list struct {
	all  []string
	seen map[string]bool
}

func (l *list) add(text string) {
	if l.seen == nil {
		l.seen = map[string]bool{}
	}
	if !l.seen[text] {
		l.seen[text], l.all = true, append(l.all, text)
	}
}

// sentence names the first few of both.
func (g *group) sentence(v verb) string {
	what := g.what.all[0]
	if n := len(g.what.all); n > 1 {
		what = fmt.Sprintf("%s (and %d more)", what, n-1)
	}
	const most = 3
	who := strings.Join(g.who.all[:min(most, len(g.who.all))], ", ")
	if n := len(g.who.all); n > most {
		who = fmt.Sprintf("%s and %d more", who, n-most)
	}
	return v.verb + " " + what + " " + v.join + " " + who
}

type effects struct {
	about  snapshot.Ref
	out    Effects
	groups map[string]*group
	// pairs of tables that have been compared: several domains share one.
	pairs map[[2]*ir.VirtualHost]bool
}

func (e *effects) note(v verb, what string, who ...string) {
	g := e.groups[v.verb]
	if g == nil {
		g = &group{}
		e.groups[v.verb] = g
	}
	g.what.add(what)
	for _, w := range who {
		g.who.add(w)
	}
}

// names returns the objects but for the one that changes.
func (e *effects) names(origins []ir.Origin) []string {
	var out []string
	for _, o := range origins {
		if o != e.about && !slices.Contains(out, o.String()) {
			out = append(out, o.String())
		}
	}
	return out
}

// chains tells whose TLS connections the object takes.
func (e *effects) chains(a, b *ir.Program) {
	was := map[string]*ir.Listener{}
	for _, l := range a.Listeners {
		was[l.Name] = l
	}
	for _, l := range b.Listeners {
		before := was[l.Name]
		if before == nil || before == l {
			continue
		}
		old, now := byServerName(before), byServerName(l)
		for _, name := range slices.Sorted(maps.Keys(now)) {
			if is, had := now[name], serving(old, name); had != nil && is != had {
				e.host(name, had.Origins, is.Origins)
			}
		}
	}
}

func byServerName(l *ir.Listener) map[string]*ir.FilterChain {
	all := map[string]*ir.FilterChain{}
	for _, c := range l.Chains {
		if c.TLS == nil {
			continue
		}
		for _, name := range c.Match.ServerNames {
			all[name] = c
		}
		if len(c.Match.ServerNames) == 0 {
			all["*"] = c
		}
	}
	return all
}

// serving returns what the most specific of the names leads to that takes the name: itself, "*." and a rest of it, or "*".
func serving[T any](all map[string]*T, name string) *T {
	if v := all[name]; v != nil {
		return v
	}
	for rest := strings.TrimPrefix(name, "*."); ; {
		_, after, more := strings.Cut(rest, ".")
		if !more {
			return all["*"]
		}
		if v := all["*."+after]; v != nil {
			return v
		}
		rest = after
	}
}

// host tells that a host name changes hands.
func (e *effects) host(name string, was, is []ir.Origin) {
	mine, theirs := slices.Contains(was, e.about), slices.Contains(is, e.about)
	switch {
	case !mine && theirs:
		if lost := e.names(slices.DeleteFunc(slices.Clone(was), func(o ir.Origin) bool { return slices.Contains(is, o) })); len(lost) > 0 {
			e.note(takesHost, name, lost...)
		}
	case mine && !theirs:
		if won := e.names(slices.DeleteFunc(slices.Clone(is), func(o ir.Origin) bool { return slices.Contains(was, o) })); len(won) > 0 {
			e.note(losesHost, name, won...)
		}
	}
}

// tables compares two route configurations, of which one may be nil, by domain.
func (e *effects) tables(a, b *ir.RouteConfig) {
	if a == b {
		return
	}
	old, now := byDomain(a), byDomain(b)
	all := maps.Clone(old)
	maps.Copy(all, now)
	for _, domain := range slices.Sorted(maps.Keys(all)) {
		was, is := serving(old, domain), serving(now, domain)
		if was == is {
			continue
		}
		if was != nil && is != nil {
			e.host(domain, was.Origins, is.Origins)
		}
		if pair := [2]*ir.VirtualHost{was, is}; !e.pairs[pair] {
			e.pairs[pair] = true
			e.routes(domain, was, is)
		}
	}
}

func byDomain(rc *ir.RouteConfig) map[string]*ir.VirtualHost {
	all := map[string]*ir.VirtualHost{}
	if rc == nil {
		return all
	}
	for _, v := range rc.VirtualHosts {
		for _, d := range v.Domains {
			all[d] = v
		}
	}
	return all
}

// most bounds the comparisons of each route with each.
const most = 50

// routes compares two tables of one domain.
func (e *effects) routes(domain string, a, b *ir.VirtualHost) {
	old, now := entries(a), entries(b)
	gone, come := apart(old, now)
	for _, key := range slices.Sorted(maps.Keys(gone)) {
		was, is := gone[key], come[key]
		if len(is) == 0 {
			e.out.Removed++
			if others := e.names(was[0].Origins); len(others) > 0 && !was[0].Own {
				e.note(ends, key+" on "+domain, others...)
			}
			continue
		}
		for i := range min(len(was), len(is)) {
			e.route(key+" on "+domain, was[i], is[i])
		}
	}
	for key := range come {
		if len(gone[key]) == 0 {
			e.out.Added++
		}
	}
	compared := 0
	for i, r := range now {
		if compared == most {
			break
		}
		if slices.Contains(r.Origins, e.about) && slices.Contains(come[key(r)], r) {
			compared++
			e.precedence(domain, now, i)
		}
	}
}

// route tells of one match what becomes of those who answered it.
func (e *effects) route(what string, was, is *ir.Route) {
	if reflect.DeepEqual(was, is) {
		return
	}
	e.out.Changed++
	others := e.names(was.Origins)
	if len(others) == 0 || was.Own {
		return
	}
	if lost := slices.DeleteFunc(slices.Clone(others), func(o string) bool { return slices.Contains(e.names(is.Origins), o) }); len(lost) > 0 {
		e.note(takes, what, lost...)
		return
	}
	before, after := words(was), words(is)
	if before != after {
		what += ": " + after + " instead of " + before + ","
	}
	if slices.Contains(is.Origins, e.about) || slices.Contains(was.Origins, e.about) {
		e.note(shares, what, others...)
	} else {
		e.note(changes, what, others...)
	}
}

// precedence tells which route before the i-th takes its requests or a share of them, and whose requests it takes.
func (e *effects) precedence(domain string, all []*ir.Route, i int) {
	r := all[i]
	where := key(r) + " on " + domain
	for _, before := range all[:i] {
		whole, part := covers(&before.Match, &r.Match), before.Match.Fraction != nil && key(before) == key(r)
		if !whole && !part || slices.Contains(before.Origins, e.about) {
			continue
		}
		others := e.names(before.Origins)
		switch {
		case len(others) == 0:
		case whole:
			e.note(loses, where, others...)
			return
		default:
			e.note(shares, where, others...)
		}
	}
	for _, after := range all[i+1:] {
		whole, part := covers(&r.Match, &after.Match), r.Match.Fraction != nil && key(after) == key(r)
		if !whole && !part || after.Own || slices.Contains(after.Origins, e.about) {
			continue
		}
		others := e.names(after.Origins)
		switch {
		case len(others) == 0:
		case whole:
			e.note(shadows, key(after)+" on "+domain, others...)
		default:
			e.note(shares, where+": "+words(r), others...)
		}
	}
}

func entries(v *ir.VirtualHost) []*ir.Route {
	if v == nil {
		return nil
	}
	return v.Routes
}

// key is what a route takes, whatever its share.
func key(r *ir.Route) string {
	m := r.Match
	m.Fraction = nil
	return trace.Match(&m)
}

// apart returns the routes of a that are not in b, and those of b that are not in a, by what they take. Most tables differ in
// one place: what they begin and end with alike costs a look at a pointer.
func apart(a, b []*ir.Route) (gone, come map[string][]*ir.Route) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return without(a, b), without(b, a)
}

func without(a, b []*ir.Route) map[string][]*ir.Route {
	has := make(map[*ir.Route]struct{}, len(b))
	for _, r := range b {
		has[r] = struct{}{}
	}
	out := map[string][]*ir.Route{}
	for _, r := range a {
		if _, both := has[r]; !both {
			out[key(r)] = append(out[key(r)], r)
		}
	}
	return out
}

// covers reports whether the first match certainly takes every request that the second takes.
func covers(a, b *ir.Match) bool {
	if a.Fraction != nil || b.IgnoreCase && !a.IgnoreCase {
		return false
	}
	for _, h := range a.Headers {
		if !slices.Contains(b.Headers, h) {
			return false
		}
	}
	for _, q := range a.Query {
		if !slices.Contains(b.Query, q) {
			return false
		}
	}
	p, q := a.Path, b.Path
	if a.IgnoreCase {
		p, q = strings.ToLower(p), strings.ToLower(q)
	}
	if a.PathKind == ir.PathRegex || b.PathKind == ir.PathRegex {
		return a.PathKind == b.PathKind && p == q || a.PathKind == ir.PathPrefix && p == "/"
	}
	switch a.PathKind {
	case ir.PathPrefix:
		return strings.HasPrefix(q, p)
	case ir.PathSegments:
		return strings.HasPrefix(q, strings.TrimSuffix(p, "/")+"/") || q == p && b.PathKind != ir.PathPrefix
	default:
		return b.PathKind == ir.PathExact && p == q
	}
}
