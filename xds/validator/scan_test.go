package validator

import (
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// TestScan: what is not decoded has nothing in it that a decoded message would be looked at for.
func TestScan(t *testing.T) {
	read, skipped := 0, 0
	check := func(u *ir.Unit) {
		m := message(u.Kind)
		if naming(u.Kind) {
			return // these are decoded anyway
		}
		if !plain(m, u.Value) {
			read++
			return
		}
		skipped++
		x := inspection{}
		if err := proto.Unmarshal(u.Value, m); err != nil {
			t.Fatal(err)
		}
		if x.walk("", m.ProtoReflect(), ""); x.careful || x.files || x.renamed { // protobuf rules Envoy has itself
			t.Errorf("%s %q is not looked at: %+v", u.Kind, u.Name, x)
		}
	}
	for _, s := range suspects(t) {
		check(s.unit)
	}
	// One of everything that counts, at every depth at which it can stand.
	disguised := &anypb.Any{TypeUrl: "else.where/envoy.extensions.filters.http.lua.v3.LuaPerRoute", Value: encoded(&luav3.LuaPerRoute{})}
	for _, u := range []*ir.Unit{
		luaRoute("lua", "x = 1"), bodyFile("file", "/a"), filtered("unknown", &anypb.Any{TypeUrl: "type.googleapis.com/no.such.Message"}),
		filtered("disguised", disguised),
		filtered("wrapped", packed(&routev3.FilterConfig{Config: packed(&luav3.LuaPerRoute{})})),
		eds("tls", upstreamTLS("a", "b")),
		eds("matched", func(c *clusterv3.Cluster) {
			upstreamTLS("a", "b")(c)
			c.TransportSocketMatches, c.TransportSocket = []*clusterv3.Cluster_TransportSocketMatch{{Name: "x", TransportSocket: c.TransportSocket}}, nil
		}),
		eds("file", func(c *clusterv3.Cluster) { c.TransportSocket = upstreamSocket(trusting(filename("/ca"))) }),
		unit(ir.UnitSecret, "file", &tlsv3.Secret{Type: &tlsv3.Secret_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{TrustedCa: filename("/ca")}}}),
		unit(ir.UnitExtension, "lua", &corev3.TypedExtensionConfig{TypedConfig: packed(&luav3.Lua{})}),
	} {
		if plain(message(u.Kind), u.Value) {
			t.Errorf("%s %q is not looked at", u.Kind, u.Name)
		}
	}
	if plain(message(ir.UnitRoute), []byte{0xff}) {
		t.Error("what cannot be read is not looked at")
	}
	if read == 0 || skipped == 0 {
		t.Errorf("%d read, %d skipped", read, skipped)
	}
}

// TestFormsOfClusters: Envoy is asked once about clusters that differ in nothing but names and hosts, and apart about others.
func TestFormsOfClusters(t *testing.T) {
	v := open(t, nil)
	dns := func(name, host string) *ir.Unit {
		return eds(name, func(c *clusterv3.Cluster) { fixed(c, clusterv3.Cluster_STRICT_DNS, host) })
	}
	bad := func(name string) *ir.Unit {
		return eds(name, func(c *clusterv3.Cluster) {
			fixed(c, clusterv3.Cluster_STATIC, "192.0.2.1")
			c.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
		})
	}
	static := func(name, host string) *ir.Unit {
		return eds(name, func(c *clusterv3.Cluster) { fixed(c, clusterv3.Cluster_STATIC, host) })
	}
	good := []*ir.Unit{eds("a", nil), eds("b", nil), dns("c", "c.example.com"), dns("d", "d.example.com"), static("e", "192.0.2.1"), static("f", "192.0.2.2")}
	guilty := []*ir.Unit{bad("g"), bad("h"), static("i", "i.example.com"), static("k", "k.example.com")}
	out := judge(t, v, append(good, guilty...)...)
	if len(out.Refused) != len(guilty) || out.Refused[guilty[0]] == "" || out.Refused[guilty[1]] == "" || out.Refused[guilty[2]] == "" || out.Refused[guilty[3]] == "" {
		t.Errorf("refused %v", out.Refused)
	}
	if a, b := out.Refused[guilty[0]], out.Refused[guilty[1]]; a == b {
		t.Errorf("both are called the same: %q", a)
	}
	if s := v.Status(); s.Judged != 7 { // one for a and b, one for c and d, e, f, one for g and h, i, k
		t.Errorf("judged %d", s.Judged)
	}
	// The next of a known form is not asked about, nor is one that has been refused.
	before := v.Status()
	next, again := dns("l", "l.example.com"), bad("m")
	if out := judge(t, v, next, again); len(out.Refused) != 1 || out.Refused[again] == "" {
		t.Errorf("refused %v", out.Refused)
	}
	if s := v.Status(); s.Judged != before.Judged || s.CacheHits != before.CacheHits+2 {
		t.Errorf("%+v, then %+v", before.Metrics, s.Metrics)
	}
	for name, want := range map[string]bool{"x": true, "": false, "\xff": false, "xdstp://x/y": false} {
		value := append(named(nil, name), encoded(&clusterv3.Cluster{LbPolicy: clusterv3.Cluster_MAGLEV})...)
		if got := nameless(value) != nil; got != want {
			t.Errorf("name %q: %v", name, got)
		}
	}
}

// TestFormsOfChains: Envoy is asked once about chains that differ in nothing but their host, and apart about others.
func TestFormsOfChains(t *testing.T) {
	v := open(t, nil)
	frame := head("l", "192.0.2.1", 443)
	good := []*ir.Unit{chainUnit("a", frame, ciphersOf("cert-a")), chainUnit("b", frame, ciphersOf("cert-b")), chainUnit("c", frame, func(c *listenerv3.FilterChain) {
		ciphersOf("cert-c")(c)
		c.FilterChainMatch.ServerNames = []string{"*.c.example.com", "c.example.com"}
	})}
	other := chainUnit("d", head("other", "192.0.2.1", 443), ciphersOf("cert-d"))
	bad := []*ir.Unit{chainUnit("e", frame, ciphers("NO-SUCH-CIPHER")), chainUnit("f", frame, ciphers("NO-SUCH-CIPHER"))}
	partial := chainUnit("g", frame, func(c *listenerv3.FilterChain) { c.FilterChainMatch.ServerNames = []string{"g*.example.com"} })
	out := judge(t, v, append(append(good, other, partial), bad...)...)
	if len(out.Refused) != 3 || out.Refused[bad[0]] == "" || out.Refused[bad[1]] == "" || out.Refused[partial] == "" {
		t.Errorf("refused %v", out.Refused)
	}
	if s := v.Status(); s.Judged != 4 { // one for a, b and c, d in its listener, e and f, g
		t.Errorf("judged %d", s.Judged)
	}
	for names, want := range map[string]bool{"a.example.com": true, "*.a.example.com b": true, "": false, "*": false, "a*.b": false, "a A": false, "a/b": false} {
		if got := hostNames(strings.Fields(names)); got != want {
			t.Errorf("%q: %v", names, got)
		}
	}
}
