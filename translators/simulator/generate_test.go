package simulator

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// generator makes random programs and requests from small alphabets, so that near misses are frequent.
type generator struct {
	*rand.Rand
	// backends are the ports of the upstreams, one cluster each.
	backends []uint32
}

func pick[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func clusterName(i int) string { return fmt.Sprintf("cluster-%d", i) }

// program makes n listeners, each on a loopback address of its own and a port that Envoy gets from the OS.
func (g *generator) program(n int, certificate, key []byte) *ir.Program {
	p := &ir.Program{Version: ir.Version, Secrets: []*ir.Secret{{Name: "test/cert", Certificate: certificate, Key: key}}}
	for i, port := range g.backends {
		p.Clusters = append(p.Clusters, &ir.Cluster{Name: clusterName(i), Discovery: ir.DiscoveryStatic, Host: "127.0.0.1", Port: port, ConnectTimeoutMillis: 5000, LoadBalancer: "round_robin"})
	}
	for i := range n {
		settings := &ir.HTTPSettings{
			UseRemoteAddress: g.chance(70), StripMatchingHostPort: g.chance(30), MergeSlashes: g.chance(30), RejectEscapedSlashes: g.chance(20),
			HeadersWithUnderscoresAction: pick(g, "", "", "DROP_HEADER", "REJECT_REQUEST"),
		}
		l := &ir.Listener{Name: fmt.Sprintf("listener-%03d", i), Address: fmt.Sprintf("127.0.1.%d", i+1)}
		matches := []ir.ChainMatch{{}}
		if i%4 == 0 {
			l.TLSInspector, matches = true, g.chainMatches()
		}
		for j, m := range matches {
			name := fmt.Sprintf("%s-chain-%d", l.Name, j)
			c := &ir.FilterChain{Name: name, Match: m, HTTP: &ir.HTTPChain{RouteConfig: name, StatPrefix: "test", Settings: settings, TrustedHops: pick[uint32](g, 0, 0, 1)}}
			if m.Transport == "tls" || len(m.ServerNames) > 0 {
				c.TLS = &ir.DownstreamTLS{Certificates: []string{"test/cert"}}
			}
			l.Chains = append(l.Chains, c)
			p.RouteConfigs = append(p.RouteConfigs, g.routeConfig(name))
		}
		p.Listeners = append(p.Listeners, l)
	}
	return p
}

func (g *generator) chainMatches() []ir.ChainMatch {
	out := []ir.ChainMatch{}
	if g.chance(60) {
		out = append(out, ir.ChainMatch{Transport: pick(g, "raw_buffer", "")})
	}
	names := []string{"a.test", "*.a.test", "*.test", "b.a.test", "*.b.a.test"}
	g.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, n := range names[:1+g.IntN(4)] {
		out = append(out, ir.ChainMatch{ServerNames: []string{n}, Transport: pick(g, "tls", "tls", "tls", "")})
	}
	if g.chance(50) {
		out = append(out, ir.ChainMatch{Transport: "tls"})
	}
	return out
}

var domains = []string{
	"*", "a.test", "b.a.test", "*.a.test", "*a.test", "*.test", "*-x.test", "a.*", "b.a.*", "b.*", "a.test:81", "a.test:*", "*.a.test:81", "*:81", "c.b.a.test", "[::1]",
}

func (g *generator) routeConfig(name string) *ir.RouteConfig {
	rc := &ir.RouteConfig{Name: name, IgnorePort: g.chance(30)}
	all := append([]string{}, domains...)
	g.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for i := 0; i < 1+g.IntN(4) && len(all) > 2; i++ {
		n := 1 + g.IntN(2)
		v := &ir.VirtualHost{Name: fmt.Sprintf("v%d", i), Domains: all[:n]}
		all = all[n:]
		for j := range 2 + g.IntN(10) {
			v.Routes = append(v.Routes, g.route(fmt.Sprintf("%s.r%d", v.Name, j)))
		}
		rc.VirtualHosts = append(rc.VirtualHosts, v)
	}
	if g.chance(80) && slices.Contains(all, "*") {
		v := &ir.VirtualHost{Name: "vz", Domains: []string{"*"}}
		for j := range 6 {
			v.Routes = append(v.Routes, g.route(fmt.Sprintf("vz.r%d", j)))
		}
		rc.VirtualHosts = append(rc.VirtualHosts, v)
	}
	return rc
}

var (
	expressions = []string{"/a.*", "/(a|b)/[^/]+", "/a/b?", ".*b", "(?i)/a/?", "/a", "/[a-z]{1,2}", "/a|/a/b", `/\w+/(\w+)`, "^/a$"}
	values      = []string{"", "a", "b", "ab", "A", "aB"}
)

func (g *generator) match() ir.Match {
	m := ir.Match{PathKind: pick(g, ir.PathPrefix, ir.PathPrefix, ir.PathExact, ir.PathSegments, ir.PathRegex), IgnoreCase: g.chance(15)}
	if m.PathKind == ir.PathRegex {
		m.Path, m.IgnoreCase = pick(g, expressions...), false
	} else {
		m.Path = pick(g, "/", "/", "/", "/a", "/a", "/a/", "/a/b", "/ab", "/A", "/b", "/a.b")
	}
	for g.chance(20) {
		m.Headers = append(m.Headers, g.headerMatch())
	}
	for g.chance(15) {
		q := ir.ValueMatch{Name: pick(g, "q", "r"), Kind: pick(g, ir.ValueExact, ir.ValueRegex, ir.ValuePrefix, ir.ValueSuffix, ir.ValuePresent)}
		g.value(&q)
		m.Query = append(m.Query, q)
	}
	if g.chance(20) {
		m.Fraction = &ir.Fraction{Numerator: pick[uint32](g, 0, 100, 0, 100, 40), Denominator: 100}
		if g.chance(30) {
			m.Fraction = &ir.Fraction{Numerator: pick[uint32](g, 0, 1_000_000, 250_000), Denominator: 1_000_000}
		}
	}
	return m
}

// value fills in what a value match compares with. Envoy refuses empty prefixes and suffixes.
func (g *generator) value(m *ir.ValueMatch) {
	switch m.Kind {
	case ir.ValuePresent:
	case ir.ValueRegex:
		m.Value = pick(g, "a", "a.*", "[ab]+", "(?i)ab", ".+", ".*")
	case ir.ValuePrefix, ir.ValueSuffix:
		m.Value, m.IgnoreCase = pick(g, values[1:]...), g.chance(30)
	default:
		m.Value, m.IgnoreCase = pick(g, values[1:]...), g.chance(30)
	}
}

func (g *generator) headerMatch() ir.ValueMatch {
	m := ir.ValueMatch{Kind: ir.ValueExact, Invert: g.chance(20)}
	switch g.IntN(10) {
	case 0, 1:
		m.Name, m.Value = ":method", pick(g, "GET", "POST", "OPTIONS")
	case 2:
		m.Name, m.Kind, m.Value, m.IgnoreCase = ":authority", pick(g, ir.ValueExact, ir.ValuePrefix, ir.ValueSuffix), pick(g, "a.test", "b.a.test", "A.test"), g.chance(60)
	case 3:
		m.Name, m.Value = "x-forwarded-proto", pick(g, "http", "https")
	case 4:
		m.Name, m.Kind = pick(g, "x-forwarded-for", "host", "x_u", "x-request-id", "x-envoy-retry-on", "te", "upgrade", "x-envoy-downstream-service-cluster"), ir.ValuePresent
	default:
		m.Name = pick(g, "x-a", "x-b", "x-b", "accept")
		m.Kind = pick(g, ir.ValueExact, ir.ValueRegex, ir.ValuePrefix, ir.ValueSuffix, ir.ValuePresent)
		g.value(&m)
	}
	return m
}

func (g *generator) rewrites() (prefix *string, regex *ir.RegexRewrite) {
	switch g.IntN(4) {
	case 0:
		s := pick(g, "/", "", "/z", "/z/", "/a")
		return &s, nil
	case 1:
		return nil, &ir.RegexRewrite{Pattern: pick(g, "^/([^/]*)", "(a)(b)?", "(/)", "b*(x?)"), Substitution: pick(g, `/z`, `/x\1y`, `/\0\\`, `/$1`)}
	}
	return nil, nil
}

// route makes a route that answers with its own name in the header x-route, whatever it does.
func (g *generator) route(name string) *ir.Route {
	r := &ir.Route{Name: name, Match: g.match(), ResponseHeaders: ir.HeaderChanges{Add: []ir.HeaderValue{{Name: "x-route", Value: name}, {Name: "x-path", Value: "%REQ(:PATH)%"}}}}
	if g.chance(10) {
		r.CORS = &ir.CORS{Origins: []string{pick(g, "http://o", "*")}, Methods: "GET", KeepPreflights: g.chance(50)}
	}
	prefix, regex := g.rewrites()
	switch g.IntN(5) {
	case 0, 1:
		r.Direct = &ir.DirectResponse{Status: pick[uint32](g, 200, 201, 403, 404, 307, 503), Body: name}
	case 2:
		r.Redirect = &ir.Redirect{HTTPS: g.chance(40), Host: pick(g, "", "", "r.test", "r.test:99"), Port: pick[uint32](g, 0, 0, 8443), Code: pick[uint32](g, 301, 302, 303, 307, 308), PrefixRewrite: prefix, RegexRewrite: regex}
		if prefix == nil && regex == nil {
			r.Redirect.Path = pick(g, "", "/p", "/p?q=1")
		}
		if !r.Redirect.HTTPS {
			r.Redirect.Scheme = pick(g, "", "https", "ftp")
		}
	default:
		f := &ir.Forward{TimeoutMillis: 10_000, PrefixRewrite: prefix, RegexRewrite: regex, HostRewrite: pick(g, "", "", "up.test")}
		for len(f.Clusters) == 0 || g.chance(25) {
			f.Clusters = append(f.Clusters, ir.WeightedCluster{Cluster: clusterName(g.IntN(len(g.backends))), Weight: pick[uint32](g, 1, 20, 50, 100)})
		}
		if g.chance(20) {
			f.Upgrades = []string{"websocket"}
		}
		r.Forward = f
	}
	return r
}

// request makes a request to the listener.
func (g *generator) request(l *ir.Listener) Request {
	r := Request{Listener: l.Name, Port: l.Port, Scheme: "http", Method: pick(g, "GET", "GET", "GET", "POST", "OPTIONS", "PUT")}
	r.Host = pick(g, "a.test", "A.test", "b.a.test", "c.b.a.test", "d.test", "q-x.test", "a.example", "b.a.example", "b.", "other", "[::1]", "x.a.test")
	switch g.IntN(6) {
	case 0:
		r.Host += ":81"
	case 1:
		r.Host += fmt.Sprintf(":%d", l.Port)
	case 2:
		r.Host += pick(g, ":80", ":443")
	}
	if g.chance(40) {
		r.Path = pick(g, "/", "/a", "/a/", "/a/b", "/A", "/ab", "/b/a", "/a.b")
	} else {
		for range 1 + g.IntN(4) {
			r.Path += "/" + pick(g, "a", "b", "A", "ab", "a.b", "", "..", ".", "%2e%2E", "%2f", "%5C", "%61", "~", "%7e", "a%20b", "a;b", "+", "a=b", "%zz", "...", "a..", "(a)", "@:", "a,b", "%00"[:g.IntN(2)*3], `\a`, "{a}", "[a]", "|", "^")
		}
	}
	for sep := "?"; g.chance(35); sep = "&" {
		r.Path += sep + pick(g, "q", "r", "s", "q=", "q=a", "q=ab", "r=a", "r=b", "q=%61", "=a", "q=a=b", "q=/../a//b")
	}
	for g.chance(40) {
		r.Headers = append(r.Headers, Header{pick(g, "x-a", "x-b", "x-b", "accept"), pick(g, values...)})
	}
	if g.chance(10) {
		r.Headers = append(r.Headers, Header{"x-forwarded-proto", pick(g, "http", "https", "HTTPS", "ftp")})
	}
	if g.chance(5) {
		r.Headers = append(r.Headers, Header{pick(g, "x_u", "x-envoy-retry-on", "te", "x-envoy-downstream-service-cluster"), "1"})
	}
	if g.chance(5) {
		r.Headers = append(r.Headers, Header{"connection", "upgrade"}, Header{"upgrade", pick(g, "websocket", "other")})
	}
	if g.chance(8) {
		r.Headers = append(r.Headers, Header{"origin", pick(g, "http://o", "http://p")}, Header{"access-control-request-method", "GET"})
	}
	if len(l.Chains) > 1 || l.Chains[0].TLS != nil {
		if g.chance(70) {
			r.TLS, r.Scheme, r.SNI = true, "https", pick(g, "a.test", "A.test", "b.a.test", "c.b.a.test", "x.test", "other", "")
		}
	}
	return r
}
