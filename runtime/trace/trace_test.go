package trace

import (
	"testing"

	"github.com/chancery-gateway/chancery/translators/ir"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		match ir.Match
		want  string
	}{
		{ir.Match{PathKind: ir.PathPrefix, Path: "/a/"}, "prefix /a/"},
		{ir.Match{PathKind: ir.PathExact, Path: "/a", IgnoreCase: true}, "exact /a in any case"},
		{ir.Match{PathKind: ir.PathPrefix, Path: "/", Headers: []ir.ValueMatch{{Name: ":method", Kind: ir.ValueExact, Value: "GET"}, {Name: "x-a", Kind: ir.ValueRegex, Value: "b+", Invert: true}, {Name: "x-b", Kind: ir.ValuePresent}}},
			`GET prefix /, header not x-a regex "b+", header x-b`},
		{ir.Match{PathKind: ir.PathRegex, Path: "/.*", Query: []ir.ValueMatch{{Name: "q", Kind: ir.ValueExact, Value: "1"}}, Fraction: &ir.Fraction{Numerator: 20, Denominator: 100}},
			`regex /.*, query q = "1", 20 of 100 requests`},
	} {
		if got := Match(&c.match); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestAction(t *testing.T) {
	prefix := "/p"
	for _, c := range []struct {
		route ir.Route
		want  string
	}{
		{ir.Route{Forward: &ir.Forward{Clusters: []ir.WeightedCluster{{Cluster: "a"}}}}, "forward to a"},
		{ir.Route{Forward: &ir.Forward{Clusters: []ir.WeightedCluster{{Cluster: "a", Weight: 1}, {Cluster: "b", Weight: 3}}}}, "forward to a (weight 1), b (weight 3)"},
		{ir.Route{Redirect: &ir.Redirect{HTTPS: true, Code: 301}}, "redirect 301 to https"},
		{ir.Route{Redirect: &ir.Redirect{Scheme: "http", Host: "h", PrefixRewrite: &prefix, Code: 302}}, "redirect 302 to scheme http, host h, prefix /p"},
		{ir.Route{Direct: &ir.DirectResponse{Status: 404}}, "answer 404"},
		{ir.Route{}, "nothing"},
	} {
		if got := Action(&c.route); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
