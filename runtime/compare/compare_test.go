package compare

import (
	"bytes"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// program returns a program of one listener with two chains and one route, after the edit.
func program(edit func(*ir.Program)) *translators.Result {
	origin := []ir.Origin{{Kind: "Listener", Name: "l"}}
	p := &ir.Program{
		Listeners: []*ir.Listener{{Name: "l", Address: "0.0.0.0", Port: 8443, TLSInspector: true, Origins: origin, Chains: []*ir.FilterChain{
			{Name: "a", Match: ir.ChainMatch{ServerNames: []string{"a"}}, HTTP: &ir.HTTPChain{RouteConfig: "a", Settings: &ir.HTTPSettings{Origins: origin}}, Origins: origin},
			{Name: "b", Match: ir.ChainMatch{ServerNames: []string{"b"}}, HTTP: &ir.HTTPChain{RouteConfig: "b", Settings: &ir.HTTPSettings{}}},
		}}},
		RouteConfigs: []*ir.RouteConfig{{Name: "a", VirtualHosts: []*ir.VirtualHost{{Name: "a", Domains: []string{"a"}, Routes: []*ir.Route{
			{Name: "r", Match: ir.Match{PathKind: ir.PathPrefix, Path: "/"}, Forward: &ir.Forward{Clusters: []ir.WeightedCluster{{Cluster: "c"}}}, Origins: origin},
		}}}}},
	}
	edit(p)
	set := ir.ResourceSet{ir.TypeCluster: {{Name: "c", Version: "1"}}}
	return &translators.Result{Snapshot: snapshot.Empty(), Program: p, Resources: set}
}

func TestDrains(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*ir.Program)
		want []Drain
	}{
		{"nothing", func(*ir.Program) {}, nil},
		{"origins alone", func(p *ir.Program) {
			p.Listeners[0].Origins, p.Listeners[0].Chains[0].Origins, p.Listeners[0].Chains[0].HTTP.Settings.Origins = nil, nil, nil
		}, nil},
		{"route", func(p *ir.Program) { p.RouteConfigs[0].VirtualHosts[0].Routes[0].Match.Path = "/x" }, nil},
		{"chain added", func(p *ir.Program) { p.Listeners[0].Chains = append(p.Listeners[0].Chains, &ir.FilterChain{Name: "c"}) }, nil},
		{"chains reordered", func(p *ir.Program) { c := p.Listeners[0].Chains; c[0], c[1] = c[1], c[0] }, nil},
		{"chain changed", func(p *ir.Program) { p.Listeners[0].Chains[0].HTTP.Settings.ServerName = "x" }, []Drain{{"l", "a", "the filter chain changes"}}},
		{"chain removed", func(p *ir.Program) { p.Listeners[0].Chains = p.Listeners[0].Chains[:1] }, []Drain{{"l", "b", "the filter chain is removed"}}},
		{"chain renamed", func(p *ir.Program) { p.Listeners[0].Chains[1].Name = "bb" }, []Drain{{"l", "b", "the filter chain is removed"}}},
		{"buffer limit", func(p *ir.Program) { p.Listeners[0].BufferLimit = 9 }, []Drain{{"l", "", "settings of the listener itself change"}}},
		{"listener filter", func(p *ir.Program) { p.Listeners[0].TLSInspector = false }, []Drain{{"l", "", "settings of the listener itself change"}}},
		{"listener removed", func(p *ir.Program) { p.Listeners = nil }, []Drain{{"l", "", "the listener is removed"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Results(program(func(*ir.Program) {}), program(c.edit)).Drains
			if len(got) != len(c.want) || len(got) > 0 && got[0] != c.want[0] {
				t.Errorf("drains %v, want %v", got, c.want)
			}
		})
	}
}

func TestRoutes(t *testing.T) {
	before := program(func(*ir.Program) {})
	after := program(func(p *ir.Program) {
		v := p.RouteConfigs[0].VirtualHosts[0]
		canary := *v.Routes[0]
		canary.Match.Fraction = &ir.Fraction{Numerator: 20, Denominator: 100}
		canary.Forward = &ir.Forward{Clusters: []ir.WeightedCluster{{Cluster: "d"}}}
		redirect := &ir.Route{Match: ir.Match{PathKind: ir.PathExact, Path: "/old"}, Redirect: &ir.Redirect{Host: "x", Code: 301}}
		v.Routes = append([]*ir.Route{redirect, &canary}, v.Routes...)
	})
	r := Results(before, after)
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"+ a: a exact /old\n      is  redirect 301 to host x",
		"~ a: a prefix /\n      was forward to c", "is  20 % forward to d",
		"+ a: a prefix / (2)\n      is  forward to c",
		"no connection would be drained",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestSettingsOfARoute(t *testing.T) {
	after := program(func(p *ir.Program) {
		f := p.RouteConfigs[0].VirtualHosts[0].Routes[0].Forward
		f.TimeoutMillis, f.Priority = 5000, "high"
	})
	got := Results(program(func(*ir.Program) {}), after).Routes
	want := Change{Changed, "a: a prefix /", "forward to c, forward.timeoutMillis 0", "forward to c, forward.priority high, forward.timeoutMillis 5000"}
	if len(got) != 1 || got[0] != want {
		t.Errorf("routes %+v, want %+v", got, want)
	}
}

func TestObjectsAndResources(t *testing.T) {
	before, after := program(func(*ir.Program) {}), program(func(*ir.Program) {})
	object := func(name string, hash byte) *snapshot.Object {
		return &snapshot.Object{Ref: snapshot.Ref{Kind: "Service", Namespace: "n", Name: name}, Hash: snapshot.Hash{hash}}
	}
	before.Snapshot = snapshot.Empty().Derive([]*snapshot.Object{object("same", 1), object("changed", 1), object("gone", 1)}, nil, nil)
	after.Snapshot = snapshot.Empty().Derive([]*snapshot.Object{object("same", 1), object("changed", 2), object("new", 1)}, nil, nil)
	after.Resources = ir.ResourceSet{ir.TypeCluster: {{Name: "c", Version: "2"}}, ir.TypeSecret: {{Name: "s", Version: "1"}}}
	r := Results(before, after)
	var got []string
	for _, c := range append(r.Objects, r.Resources...) {
		got = append(got, c.Change+" "+c.Name)
	}
	want := "changed Service/n/changed, removed Service/n/gone, added Service/n/new, changed Cluster c, added Secret s"
	if strings.Join(got, ", ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, ", "), want)
	}
}
