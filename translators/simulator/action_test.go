package simulator

import (
	"math"
	"testing"

	"github.com/chancery-gateway/chancery/translators/ir"
)

func TestDraw(t *testing.T) {
	f := func(n, d uint32) *ir.Fraction { return &ir.Fraction{Numerator: n, Denominator: d} }
	for _, c := range []struct {
		fractions []*ir.Fraction
		want      []float64
	}{
		{[]*ir.Fraction{f(30, 100), nil}, []float64{30, 70}},
		{[]*ir.Fraction{f(30, 100), f(50, 100), f(100, 100)}, []float64{30, 20, 50}},
		{[]*ir.Fraction{f(50, 100), f(30, 100), nil}, []float64{50, 0, 50}},
		{[]*ir.Fraction{f(333333, 1000000), f(666666, 1000000), nil}, []float64{33.3333, 33.3333, 33.3334}},
		{[]*ir.Fraction{f(10, 100), f(500000, 1000000), nil}, []float64{10, 45, 45}},
		{[]*ir.Fraction{f(0, 100), f(200, 100)}, []float64{0, 100}},
	} {
		left := everything()
		for i, fraction := range c.fractions {
			taken := left.take(fraction)
			if math.Abs(taken.percent()-c.want[i]) > 1e-9 {
				t.Errorf("%d: route %d takes %g %%, want %g", i, i, taken.percent(), c.want[i])
			}
		}
	}
	all := everything()
	low := all.take(f(30, 100))
	for _, c := range []struct {
		name    string
		d       drawn
		weights []uint32
		want    []float64
	}{
		{"one", low, []uint32{0}, []float64{30}},
		{"the number that chose the route chooses the cluster too", low, []uint32{50, 50}, []float64{30, 0}},
		{"the rest", all, []uint32{50, 50}, []float64{20, 50}},
		{"coprime weights are independent", low, []uint32{1, 2}, []float64{10, 20}},
		{"whole", everything(), []uint32{1, 2, 1}, []float64{25, 50, 25}},
		{"no weight", everything(), []uint32{0, 0}, []float64{0, 0}},
	} {
		for i, have := range c.d.split(c.weights) {
			if math.Abs(have-c.want[i]) > 1e-9 {
				t.Errorf("%s: cluster %d gets %g, want %g", c.name, i, have, c.want[i])
			}
		}
	}
}

func TestLocation(t *testing.T) {
	text := func(s string) *string { return &s }
	for _, c := range []struct {
		url, matched string
		redirect     ir.Redirect
		want         string
	}{
		{"http://a/x?y=1", "/", ir.Redirect{HTTPS: true}, "https://a/x?y=1"},
		{"http://a:8080/x", "/", ir.Redirect{HTTPS: true}, "https://a:8080/x"},
		{"http://a/x", "/", ir.Redirect{Host: "b"}, "http://b/x"},
		{"http://a:8080/x", "/", ir.Redirect{Port: 9}, "http://a:9/x"},
		{"http://[::1]:8080/x", "/", ir.Redirect{Port: 9}, "http://[::1]:9/x"},
		{"http://a/x?y", "/", ir.Redirect{Path: "/p"}, "http://a/p?y"},
		{"http://a/x?y", "/", ir.Redirect{Path: "/p?z"}, "http://a/p?z"},
		{"http://a/x/y?q", "/x", ir.Redirect{PrefixRewrite: text("/z")}, "http://a/z/y?q"},
		{"http://a/x/y?q", "/x/y", ir.Redirect{RegexRewrite: &ir.RegexRewrite{Pattern: "^/(.)/(.)", Substitution: `/\2/$1/\1`}}, "http://a/y/$1/x?q"},
		{"http://a/x", "/", ir.Redirect{Scheme: "ftp"}, "ftp://a/x"},
	} {
		r, err := ParseRequest("GET", c.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		x, _, _ := receive(&ir.HTTPChain{}, &ir.Listener{}, r)
		if have := location(&c.redirect, c.matched, x); have != c.want {
			t.Errorf("%s %+v: %s, want %s", c.url, c.redirect, have, c.want)
		}
	}
}
