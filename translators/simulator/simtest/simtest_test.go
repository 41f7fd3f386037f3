package simtest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/translators/ir"
	"github.com/chancery-gateway/chancery/translators/simulator/simtest"
)

func program() *ir.Program {
	slash := "/"
	to := func(name, cluster string, f *ir.Fraction) *ir.Route {
		return &ir.Route{Name: name, Match: ir.Match{PathKind: ir.PathPrefix, Path: "/cart/", Fraction: f}, Origins: []ir.Origin{{Kind: "Mapping", Namespace: "default", Name: name}},
			Forward: &ir.Forward{Clusters: []ir.WeightedCluster{{Cluster: cluster}}, PrefixRewrite: &slash, HostRewrite: "inner"}}
	}
	tenant := to("tenant", "cluster_tenant", nil)
	tenant.Match.Headers = []ir.ValueMatch{{Name: "x-tenant", Kind: ir.ValueExact, Value: "a"}}
	return &ir.Program{
		Listeners: []*ir.Listener{{Name: "l", Port: 8080, Chains: []*ir.FilterChain{{Name: "c", HTTP: &ir.HTTPChain{RouteConfig: "r", Settings: &ir.HTTPSettings{}}}}}},
		RouteConfigs: []*ir.RouteConfig{{Name: "r", VirtualHosts: []*ir.VirtualHost{{Name: "v", Domains: []string{"shop.example"}, Routes: []*ir.Route{
			tenant, to("canary", "cluster_canary", &ir.Fraction{Numerator: 30, Denominator: 100}), to("main", "cluster_main", nil),
			{Name: "old", Match: ir.Match{PathKind: ir.PathExact, Path: "/old"}, Redirect: &ir.Redirect{HTTPS: true, Code: 308}},
			{Name: "down", Match: ir.Match{PathKind: ir.PathExact, Path: "/down"}, Direct: &ir.DirectResponse{Status: 503}},
		}}}}},
	}
}

func TestExpect(t *testing.T) {
	p := program()
	simtest.Expect(t, p, "GET http://shop.example/cart/1?q", simtest.To("main", 70), simtest.To("canary", 30), simtest.To("cluster_", 100),
		simtest.Path("/1?q"), simtest.Host("inner"), simtest.From("Mapping/default/main"), simtest.Lost("tenant", "x-tenant is absent"))
	simtest.Expect(t, p, "POST http://shop.example/cart/ -H 'X-Tenant: a' -H \"x-b: c\"", simtest.To("tenant", 100))
	simtest.Expect(t, p, "GET http://shop.example/old", simtest.Redirect(308, "https://shop.example/old"))
	simtest.Expect(t, p, "GET http://shop.example/down", simtest.Status(503))
	simtest.Expect(t, p, "GET http://other.example/", simtest.NotFound())
	simtest.Expect(t, p, "GET https://shop.example/", simtest.Refused())
}

// recorder stands in for a test that is meant to fail.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Helper()    {}
func (r *recorder) Log(...any) {}
func (r *recorder) Errorf(f string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(f, args...))
}

func TestExpectFails(t *testing.T) {
	for _, c := range []struct {
		request string
		check   simtest.Check
		want    string
	}{
		{"GET http://shop.example/cart/", simtest.To("main", 71), `70 % go to cluster "main", want 71 %`},
		{"GET http://shop.example/cart/", simtest.Redirect(301, "x"), "2 outcomes, want one"},
		{"GET http://shop.example/old", simtest.Redirect(301, "x"), `want redirect 301 "x"`},
		{"GET http://shop.example/old", simtest.Status(301), "status 308, want 301"},
		{"GET http://shop.example/old", simtest.NotFound(), `outcome is "redirect", want "not found"`},
		{"GET http://shop.example/old", simtest.Refused(), `want "refused"`},
		{"GET http://shop.example/old", simtest.Path("/"), "nothing is forwarded"},
		{"GET http://shop.example/cart/", simtest.Path("/x"), `upstream path is "/", want "/x"`},
		{"GET http://shop.example/cart/", simtest.Host("x"), `upstream host is "inner", want "x"`},
		{"GET http://shop.example/cart/", simtest.From("Mapping/default/x"), "want Mapping/default/x"},
		{"GET http://shop.example/cart/", simtest.Lost("tenant", "weather"), `no candidate "tenant" lost`},
		{"http://shop.example/", simtest.NotFound(), "want METHOD URL"},
	} {
		r := &recorder{}
		simtest.Expect(r, program(), c.request, c.check)
		if len(r.errors) != 1 || !strings.Contains(r.errors[0], c.want) {
			t.Errorf("%s: errors %q, want one with %q", c.request, r.errors, c.want)
		}
	}
}
