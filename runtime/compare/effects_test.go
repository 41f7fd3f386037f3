package compare

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

var (
	mine   = snapshot.Ref{Kind: "Mapping", Name: "mine"}
	theirs = snapshot.Ref{Kind: "Mapping", Name: "theirs"}
	ours   = snapshot.Ref{Kind: "Host", Name: "ours"}
	their  = snapshot.Ref{Kind: "Host", Name: "their"}
)

func prefix(path, cluster string, origins ...ir.Origin) *ir.Route {
	return &ir.Route{Match: ir.Match{PathKind: ir.PathPrefix, Path: path}, Origins: origins,
		Forward: &ir.Forward{Clusters: []ir.WeightedCluster{{Cluster: cluster}}}}
}

// table is a program of one listener and one route configuration, with one virtual host for each domain.
func table(hosts map[string][]ir.Origin, routes ...*ir.Route) *ir.Program {
	rc := &ir.RouteConfig{Name: "r"}
	l := &ir.Listener{Name: "l"}
	for d, o := range hosts {
		rc.VirtualHosts = append(rc.VirtualHosts, &ir.VirtualHost{Name: d, Domains: []string{d}, Routes: routes, Origins: o})
		c := &ir.FilterChain{Name: d, TLS: &ir.DownstreamTLS{}, Origins: o}
		if d != "*" {
			c.Match.ServerNames = []string{d}
		}
		l.Chains = append(l.Chains, c)
	}
	return &ir.Program{Listeners: []*ir.Listener{l}, RouteConfigs: []*ir.RouteConfig{rc}}
}

func TestEffects(t *testing.T) {
	any := func(o ...ir.Origin) map[string][]ir.Origin { return map[string][]ir.Origin{"*": o} }
	a := prefix("/a/", "a", theirs)
	for _, c := range []struct {
		name   string
		was    *ir.Program
		is     *ir.Program
		about  snapshot.Ref
		counts string
		want   string
	}{
		{"a route is taken over", table(any(), a), table(any(), prefix("/a/", "b", mine)), mine, "0 1 0", "takes over prefix /a/ on * from Mapping/theirs"},
		{"a route is shared", table(any(), a), table(any(), prefix("/a/", "b", theirs, mine)), mine, "0 1 0", "shares prefix /a/ on *: forward to b instead of forward to a, with Mapping/theirs"},
		{"a route of others changes", table(any(), a), table(any(), prefix("/a/", "b", theirs)), ours, "0 1 0", "changes prefix /a/ on *: forward to b instead of forward to a, of Mapping/theirs"},
		{"a route of others ends", table(any(), a), table(any()), ours, "0 0 1", "ends prefix /a/ on * of Mapping/theirs"},
		{"a route of its own ends", table(any(), prefix("/a/", "a", mine)), table(any()), mine, "0 0 1", ""},
		{"the same anew", table(any(), a), table(any(), prefix("/a/", "a", theirs)), mine, "0 0 0", ""},
		{"a host under a wildcard", table(map[string][]ir.Origin{"*.example.com": {their}}, a),
			table(map[string][]ir.Origin{"*.example.com": {their}, "a.example.com": {ours}}, a), ours, "0 0 0", "takes over host a.example.com from Host/their"},
		{"a host that is given up", table(map[string][]ir.Origin{"*": {their}, "a.example.com": {ours}}, a), table(map[string][]ir.Origin{"*": {their}}, a), ours, "0 0 0",
			"loses host a.example.com to Host/their\ndrains connections of l, chain a.example.com because the filter chain is removed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := Of(c.was, c.is, c.about)
			if counts := fmt.Sprint(e.Added, e.Changed, e.Removed); counts != c.counts {
				t.Errorf("counts %s, want %s", counts, c.counts)
			}
			if said := strings.Join(e.Sentences, "\n"); said != c.want {
				t.Errorf("said %q, want %q", said, c.want)
			}
		})
	}
}

func TestEffectsOnManyAreOneSentence(t *testing.T) {
	var routes []*ir.Route
	for i := range 5000 {
		routes = append(routes, prefix(fmt.Sprintf("/%d/", i), "a", snapshot.Ref{Kind: "Mapping", Name: fmt.Sprint(i)}))
	}
	host := map[string][]ir.Origin{"*": {ours}}
	e := Of(table(host, routes...), table(nil), ours)
	if want := "ends prefix /0/ on * (and 4999 more) of Mapping/0, "; e.Removed != 5000 || !slices.ContainsFunc(e.Sentences, func(s string) bool { return strings.HasPrefix(s, want) && strings.HasSuffix(s, " and 4997 more") }) {
		t.Errorf("%d removed, %q", e.Removed, e.Sentences)
	}
}

func TestCovers(t *testing.T) {
	match := func(kind ir.PathKind, path string, edit ...func(*ir.Match)) *ir.Match {
		m := &ir.Match{PathKind: kind, Path: path}
		for _, f := range edit {
			f(m)
		}
		return m
	}
	get := func(m *ir.Match) {
		m.Headers = append(m.Headers, ir.ValueMatch{Name: ":method", Kind: ir.ValueExact, Value: "GET"})
	}
	anyCase := func(m *ir.Match) { m.IgnoreCase = true }
	share := func(m *ir.Match) { m.Fraction = &ir.Fraction{Numerator: 1, Denominator: 100} }
	for _, c := range []struct {
		a, b *ir.Match
		want bool
	}{
		{match(ir.PathPrefix, "/a"), match(ir.PathPrefix, "/a/b"), true},
		{match(ir.PathPrefix, "/a"), match(ir.PathExact, "/ab"), true},
		{match(ir.PathPrefix, "/a/b"), match(ir.PathPrefix, "/a"), false},
		{match(ir.PathSegments, "/a"), match(ir.PathExact, "/ab"), false},
		{match(ir.PathSegments, "/a"), match(ir.PathSegments, "/a"), true},
		{match(ir.PathSegments, "/a"), match(ir.PathPrefix, "/a"), false},
		{match(ir.PathSegments, "/a"), match(ir.PathPrefix, "/a/"), true},
		{match(ir.PathExact, "/a"), match(ir.PathPrefix, "/a"), false},
		{match(ir.PathExact, "/a"), match(ir.PathExact, "/a"), true},
		{match(ir.PathPrefix, "/"), match(ir.PathRegex, "/x.*"), true},
		{match(ir.PathPrefix, "/x"), match(ir.PathRegex, "/x.*"), false},
		{match(ir.PathRegex, "/x.*"), match(ir.PathRegex, "/x.*"), true},
		{match(ir.PathPrefix, "/", get), match(ir.PathPrefix, "/a"), false},
		{match(ir.PathPrefix, "/"), match(ir.PathPrefix, "/a", get), true},
		{match(ir.PathPrefix, "/A", anyCase), match(ir.PathPrefix, "/a/b"), true},
		{match(ir.PathPrefix, "/a"), match(ir.PathPrefix, "/a/b", anyCase), false},
		{match(ir.PathPrefix, "/a", share), match(ir.PathPrefix, "/a"), false},
	} {
		if got := covers(c.a, c.b); got != c.want {
			t.Errorf("%+v covers %+v: %t", c.a, c.b, got)
		}
	}
}
