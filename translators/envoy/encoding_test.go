package envoy

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// canonical fails unless wire is the deterministic encoding of the message that it decodes to, and that keeps Envoy's rules.
func canonical(t *testing.T, src any, wire []byte, m validated) {
	t.Helper()
	if err := proto.Unmarshal(wire, m); err != nil {
		t.Fatalf("%+v: %v", src, err)
	}
	again, err := deterministic.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(wire, again) {
		t.Errorf("%+v became %x, right is %x: %v", src, wire, again, m)
	}
	if len(m.ProtoReflect().GetUnknown()) > 0 {
		t.Errorf("%+v: unknown fields in %v", src, m)
	}
	if err := m.ValidateAll(); err != nil {
		t.Errorf("%+v: %v", src, err)
	}
}

// draws makes nodes of every shape, some with values that Envoy's rules refuse.
type draws struct{ *rand.Rand }

func (d draws) one(n int) bool { return d.IntN(n) == 0 }

func (d draws) text() string {
	if d.one(60) {
		odd := []string{"", "a\x00b", "\xff", "über", "/a?b#c", "a\nb", strings.Repeat("x", 2000), "\x7f"}
		return odd[d.IntN(len(odd))]
	}
	return []string{"a", "/b/", "x-c", "d.example.com", strings.Repeat("e", 200)}[d.IntN(5)]
}

func (d draws) texts() []string {
	if d.one(2) {
		return nil
	}
	return []string{d.text(), d.text()}[:1+d.IntN(2)]
}

func (d draws) millis() int64 {
	return []int64{0, 1, 999, 1000, 61_001, 1 << 40, 3000, 3000, 3000, -1}[d.IntN(10-d.IntN(2))]
}

func maybe[T any](d draws, v T) *T {
	if d.one(2) {
		return nil
	}
	return &v
}

func (d draws) headers() (h ir.HeaderChanges) {
	if d.one(2) {
		return h
	}
	for range d.IntN(3) {
		h.Add = append(h.Add, ir.HeaderValue{Name: "x-" + d.text(), Value: d.text(), Append: d.one(2)})
	}
	h.Remove = d.texts()
	return h
}

func (d draws) values() (out []ir.ValueMatch) {
	kinds := []ir.ValueKind{ir.ValueExact, ir.ValueRegex, ir.ValuePrefix, ir.ValueSuffix, ir.ValuePresent}
	for range d.IntN(3) {
		out = append(out, ir.ValueMatch{Name: d.text(), Kind: kinds[d.IntN(5)], Value: d.text(), Invert: d.one(3), IgnoreCase: d.one(2)})
	}
	return out
}

func (d draws) fraction() *ir.Fraction {
	return maybe(d, ir.Fraction{Numerator: d.Uint32N(200), Denominator: []uint32{100, 10_000, 1_000_000}[d.IntN(3)]})
}

func (d draws) clusters() (out []ir.WeightedCluster) {
	for range 1 + d.IntN(2)*d.IntN(3) {
		out = append(out, ir.WeightedCluster{Cluster: d.text(), Weight: d.Uint32N(1000), RequestHeaders: d.headers()})
	}
	return out
}

func (d draws) route() *ir.Route {
	paths := []ir.PathKind{ir.PathPrefix, ir.PathExact, ir.PathRegex, ir.PathSegments}
	r := &ir.Route{Name: d.text(), RequestHeaders: d.headers(), ResponseHeaders: d.headers(), Own: d.one(5),
		Match: ir.Match{PathKind: paths[d.IntN(4)], Path: d.text(), IgnoreCase: d.one(2), Headers: d.values(), Fraction: d.fraction()}}
	if d.one(4) {
		r.Match.Query = d.values()
	}
	switch d.IntN(4) {
	case 0:
		r.Redirect = &ir.Redirect{HTTPS: d.one(2), Scheme: d.text(), Host: d.text(), Port: d.Uint32N(9), Code: []uint32{0, 301, 302, 303, 307, 308}[d.IntN(6)]}
		switch d.IntN(4) {
		case 0:
			r.Redirect.Path = d.text()
		case 1:
			r.Redirect.PrefixRewrite = new(d.text())
		case 2:
			r.Redirect.RegexRewrite = &ir.RegexRewrite{Pattern: d.text(), Substitution: d.text()}
		}
	case 1:
		r.Direct = &ir.DirectResponse{Status: 200 + d.Uint32N(401), Body: d.text()}
	default:
		w := &ir.Forward{Clusters: d.clusters(), TimeoutMillis: d.millis(), IdleTimeoutMillis: maybe(d, d.millis()), Upgrades: d.texts(),
			Priority: []string{"", "default", "high"}[d.IntN(3)], AutoHostRewrite: d.one(3), HostRewrite: d.text()}
		switch d.IntN(3) {
		case 0:
			w.PrefixRewrite = new(d.text())
		case 1:
			w.RegexRewrite = &ir.RegexRewrite{Pattern: d.text(), Substitution: d.text()}
		}
		w.Retry = maybe(d, ir.RetryPolicy{On: "5xx", NumRetries: maybe(d, d.Uint32N(3)), PerTryTimeoutMillis: maybe(d, int64(5))})
		for range d.IntN(2) {
			w.Mirrors = append(w.Mirrors, ir.Mirror{Cluster: d.text(), Fraction: d.fraction()})
		}
		if d.one(4) {
			w.Hash = []ir.HashPolicy{{Header: d.text()}, {SourceIP: true}, {Cookie: &ir.HashCookie{Name: d.text(), TTLSeconds: maybe(d, int64(7))}}}
		}
		r.Forward = w
	}
	if d.one(4) {
		r.CORS = &ir.CORS{Origins: d.texts(), Methods: d.text(), Credentials: maybe(d, d.one(2)), KeepPreflights: d.one(2)}
	}
	return r
}

func (d draws) cluster() *ir.Cluster {
	c := &ir.Cluster{Name: d.text(), StatName: d.text(), Host: d.text(), Port: d.Uint32N(66_000), EndpointSet: d.text(),
		Discovery:            []ir.Discovery{ir.DiscoveryStrictDNS, ir.DiscoveryLogicalDNS, ir.DiscoveryStatic, ir.DiscoveryEDS}[d.IntN(4)],
		ConnectTimeoutMillis: d.millis(), DNSFamily: []string{"", "v4", "v6", "auto"}[d.IntN(4)], RespectDNSTTL: d.one(2),
		LoadBalancer: []string{"", "round_robin", "least_request", "ring_hash", "maglev"}[d.IntN(5)], HTTP2: d.one(3),
		Keepalive: maybe(d, ir.Keepalive{Probes: maybe(d, uint32(3)), Interval: maybe(d, uint32(0))})}
	for range d.IntN(2) {
		c.More = append(c.More, ir.Target{Host: d.text(), Port: d.Uint32N(3)})
		c.CircuitBreakers = append(c.CircuitBreakers, ir.CircuitBreaker{Priority: "high", MaxRetries: maybe(d, d.Uint32N(2))})
		c.HealthChecks = append(c.HealthChecks, ir.HealthCheck{TimeoutMillis: d.millis(), IntervalMillis: 9, HTTP: &ir.HTTPHealthCheck{Path: d.text()}})
	}
	if d.one(4) {
		c.TLS = &ir.UpstreamTLS{SNI: d.text()}
	}
	return c
}

// TestEncodingsAreCanonical: what is encoded without a fault are the bytes of the deterministic marshaller, and Envoy's protobuf rules,
// which are asked only where a value is odd, have nothing against it.
func TestEncodingsAreCanonical(t *testing.T) {
	d := draws{rand.New(rand.NewPCG(7, 11))}
	w := &encoding{}
	all := func(string) bool { return true }
	fine := map[string]int{}
	for range 20_000 {
		var f faults
		r := d.route()
		w.reset()
		w.route(r, all, services{auth: true, limits: true}, &f)
		if w.checkRoute(0, &f); len(f) == 0 {
			fine["route"]++
			canonical(t, r, w.b, &routev3.Route{})
		}
		f = nil
		c := d.cluster()
		w.reset()
		w.cluster(c, &f)
		if w.checkCluster(&f); len(f) == 0 {
			fine["cluster"]++
			canonical(t, c, w.b, &clusterv3.Cluster{})
		}
		if t.Failed() {
			return
		}
	}
	for _, what := range []string{"route", "cluster"} {
		if n := fine[what]; n < 5_000 || n > 18_000 {
			t.Errorf("%d times a %s without a fault: too few or too many to say much", n, what)
		}
	}
}
