package simulator

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/translators/ir"
)

func origin(kind, name string) []ir.Origin {
	return []ir.Origin{{Kind: kind, Namespace: "default", Name: name}}
}

// edge is a small program as the linker makes it: a clear-text listener and a TLS listener with three hosts.
func edge() *ir.Program {
	settings := &ir.HTTPSettings{UseRemoteAddress: true}
	http := func(rc string) *ir.HTTPChain {
		return &ir.HTTPChain{RouteConfig: rc, StatPrefix: "ingress", Settings: settings}
	}
	tls := func(name, sni string) *ir.FilterChain {
		m := ir.ChainMatch{Transport: "tls"}
		if sni != "" {
			m.ServerNames = []string{sni}
		}
		return &ir.FilterChain{Name: name, Match: m, TLS: &ir.DownstreamTLS{Certificates: []string{"c"}}, HTTP: http(name), Origins: origin("Host", name)}
	}
	route := func(name string, m ir.Match, cluster string) *ir.Route {
		return &ir.Route{Name: name, Match: m, Forward: &ir.Forward{Clusters: []ir.WeightedCluster{{Cluster: cluster}}, TimeoutMillis: 3000}, Origins: origin("Mapping", name)}
	}
	slash := "/"
	cart := route("cart", ir.Match{PathKind: ir.PathPrefix, Path: "/cart/", Fraction: &ir.Fraction{Numerator: 30, Denominator: 100}}, "cart-canary")
	cart.Forward.PrefixRewrite = &slash
	secure := &ir.RouteConfig{Name: "shop", VirtualHosts: []*ir.VirtualHost{{Name: "shop", Domains: []string{"shop.example"}, Origins: origin("Host", "shop"), Routes: []*ir.Route{
		route("tenant", ir.Match{PathKind: ir.PathPrefix, Path: "/cart/", Headers: []ir.ValueMatch{{Name: "x-tenant", Kind: ir.ValueExact, Value: "a"}}}, "tenant-a"),
		cart,
		route("cart", ir.Match{PathKind: ir.PathPrefix, Path: "/cart/"}, "cart-main"),
		route("exact", ir.Match{PathKind: ir.PathExact, Path: "/Exact"}, "exact"),
	}}}}
	clear := &ir.RouteConfig{Name: "clear", VirtualHosts: []*ir.VirtualHost{{Name: "all", Domains: []string{"*"}, Routes: []*ir.Route{
		{Name: "to-https", Match: ir.Match{PathKind: ir.PathPrefix, Path: "/"}, Redirect: &ir.Redirect{HTTPS: true, Code: 301}, Origins: origin("Host", "shop")},
	}}}}
	return &ir.Program{
		Version: ir.Version,
		Listeners: []*ir.Listener{
			{Name: "http", Address: "0.0.0.0", Port: 8080, Origins: origin("Listener", "http"), Chains: []*ir.FilterChain{
				{Name: "clear", Match: ir.ChainMatch{}, HTTP: http("clear"), Origins: origin("Listener", "http")}}},
			{Name: "https", Address: "0.0.0.0", Port: 8443, TLSInspector: true, Origins: origin("Listener", "https"), Chains: []*ir.FilterChain{
				tls("shop", "shop.example"), tls("wild", "*.example"),
				{Name: "raw", Match: ir.ChainMatch{Transport: "tls", ServerNames: []string{"db.internal"}}, TCP: &ir.TCPChain{Clusters: []ir.WeightedCluster{{Cluster: "db", Weight: 1}, {Cluster: "db2", Weight: 3}}}},
			}},
		},
		RouteConfigs: []*ir.RouteConfig{clear, secure, {Name: "wild", VirtualHosts: nil}},
		Clusters:     []*ir.Cluster{{Name: "cart-main", Host: "cart.default", Port: 80, Discovery: ir.DiscoveryStrictDNS, Origins: origin("Mapping", "cart")}},
	}
}

func simulate(t *testing.T, p *ir.Program, method, url string, headers ...string) Trace {
	t.Helper()
	r, err := ParseRequest(method, url, headers)
	if err != nil {
		t.Fatal(err)
	}
	return Simulate(p, r)
}

func TestEdge(t *testing.T) {
	p := edge()

	trace := simulate(t, p, "GET", "https://shop.example/cart/1?q=2")
	if a, b := trace.Share("cart-canary"), trace.Share("cart-main"); a != 30 || b != 70 {
		t.Errorf("shares are %g and %g, want 30 and 70\n%s", a, b, trace.Text())
	}
	if o := trace.Outcomes[0]; o.Path != "/1?q=2" || *o.TimeoutMillis != 3000 {
		t.Errorf("path %q, timeout %d", o.Path, *o.TimeoutMillis)
	}
	text := trace.Text()
	for _, want := range []string{"no listener has port 443; port 8443 takes TLS", `server name "shop.example"`, `header x-tenant is absent, wanted "a"`,
		"30 % forwarded", "Mapping/default/cart", "http://cart.default:80", "filter chain wild"} {
		if !strings.Contains(text, want) {
			t.Errorf("text lacks %q:\n%s", want, text)
		}
	}
	if _, err := json.Marshal(trace); err != nil {
		t.Error(err)
	}

	if trace = simulate(t, p, "GET", "https://shop.example/cart/", "X-Tenant: a"); trace.Share("tenant-a") != 100 || len(trace.Outcomes) != 1 {
		t.Errorf("tenant a:\n%s", trace.Text())
	}
	if trace = simulate(t, p, "GET", "http://shop.example/x?y"); trace.Outcomes[0].Location != "https://shop.example/x?y" {
		t.Errorf("redirect:\n%s", trace.Text())
	}
	if trace = simulate(t, p, "GET", "https://shop.example/exact"); trace.Outcomes[0].Kind != NotFound || !strings.Contains(trace.Text(), "differs in case") {
		t.Errorf("case:\n%s", trace.Text())
	}
	if trace = simulate(t, p, "GET", "https://db.internal/"); trace.Outcomes[0].Kind != Proxied || trace.Share("db2") != 75 {
		t.Errorf("tcp:\n%s", trace.Text())
	}
	if trace = simulate(t, p, "GET", "https://other.test/"); trace.Outcomes[0].Kind != Refused {
		t.Errorf("unknown server name:\n%s", trace.Text())
	}
	if trace = simulate(t, p, "GET", "http://shop.example:8443/"); trace.Outcomes[0].Kind != Refused {
		t.Errorf("clear text on the TLS port:\n%s", trace.Text())
	}
}

func TestParseRequest(t *testing.T) {
	for _, c := range []struct {
		url     string
		headers []string
		want    Request
	}{
		{"http://a.b", nil, Request{Scheme: "http", Host: "a.b", Path: "/", Port: 80}},
		{"https://A.b:443?x", nil, Request{Scheme: "https", Host: "A.b", Path: "/?x", Port: 443, TLS: true, SNI: "a.b"}},
		{"https://a:8443/%2e/é#top", nil, Request{Scheme: "https", Host: "a:8443", Path: "/%2e/%C3%A9", Port: 8443, TLS: true, SNI: "a"}},
		{"https://[::1]:9/", []string{"Host: x", "A: b: c"}, Request{Scheme: "https", Host: "x", Path: "/", Port: 9, TLS: true, Headers: []Header{{"a", "b: c"}}}},
	} {
		c.want.Method = "GET"
		have, err := ParseRequest("", c.url, c.headers)
		if a, _ := json.Marshal(have); err != nil || string(a) != func() string { b, _ := json.Marshal(c.want); return string(b) }() {
			t.Errorf("%s: %+v, %v; want %+v", c.url, have, err, c.want)
		}
	}
	for _, c := range []struct{ method, url, header, want string }{
		{"G ET", "http://a/", "", "no HTTP method"},
		{"GET", "a.b/c", "", "not absolute"},
		{"GET", "ftp://a/", "", "not http or https"},
		{"GET", "http:///x", "", "has no host"},
		{"GET", "http://a:99999/", "", "not in 1 to 65535"},
		{"GET", "http://a:b/", "", "invalid port"},
		{"GET", "http://u:p@a/", "", "passwords are not supported"},
		{"GET", "http://a/b c", "", "write it as %20"},
		{"GET", "http://é/", "", "xn--"},
		{"GET", "http://a/", "x", "has no colon"},
		{"GET", "http://a/", ":path: /", "leading colon"},
		{"GET", "http://a/", "a b: c", "no header name"},
		{"GET", "http://a/", "a: b\nc", "line break"},
	} {
		var headers []string
		if c.header != "" {
			headers = []string{c.header}
		}
		if _, err := ParseRequest(c.method, c.url, headers); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s %q: error %v, want %q", c.method, c.url, c.header, err, c.want)
		}
	}
}

func TestNormalizePath(t *testing.T) {
	for in, want := range map[string]string{
		"/a/b": "/a/b", "/a/./b": "/a/b", "/a/../b": "/b", "/../../b": "/b", "/a/..": "/", "/a/.": "/a/", "/a/%2e%2E/b": "/b", "/a/%2e": "/a/",
		"/a%2eb": "/a.b", "/.a/..b/...": "/.a/..b/...", `/a\b`: "/a/b", `/a\..\b`: "/b", "/%41%7e": "/A~", "/%2f%5c%2F": "/%2f%5c%2F", "/a//b": "/a//b", "/%zz%": "/%zz%",
		`/a"b{c}`: "/a%22b%7Bc%7D", "/a/..//b": "//b", "//../a": "/a", "/%20+": "/%20+",
	} {
		if have, ok := normalizePath(in); !ok || have != want {
			t.Errorf("%s: %s, %v; want %s", in, have, ok, want)
		}
	}
	if _, ok := normalizePath("/a%00"); ok {
		t.Error("an escaped NUL must be refused")
	}
	if have := mergeSlashes("//a///b/"); have != "/a/b/" {
		t.Errorf("merged: %s", have)
	}
}

func TestPickVirtualHost(t *testing.T) {
	rc := &ir.RouteConfig{VirtualHosts: []*ir.VirtualHost{
		{Name: "any", Domains: []string{"*"}}, {Name: "exact", Domains: []string{"a.example.com"}}, {Name: "port", Domains: []string{"a.example.com:8443"}},
		{Name: "short", Domains: []string{"*.com"}}, {Name: "long", Domains: []string{"*.example.com"}}, {Name: "glued", Domains: []string{"*-x.example.com"}},
		{Name: "start", Domains: []string{"b.*"}}, {Name: "longer-start", Domains: []string{"b.example.*"}},
	}}
	for host, want := range map[string]string{
		"A.Example.com": "exact", "a.example.com:8443": "port", "z.example.com": "long", "example.com": "short", ".example.com": "short", "q-x.example.com": "glued", "-x.example.com": "long",
		"b.example.net": "longer-start", "b.net": "start", "b.": "any", "b.example.com": "long", "z.example.com:80": "any",
	} {
		if v := pickVirtualHost(rc, host, &Trace{}); v == nil || v.Name != want {
			t.Errorf("%s: %+v, want %s", host, v, want)
		}
	}
	trace := &Trace{}
	pickVirtualHost(&ir.RouteConfig{VirtualHosts: rc.VirtualHosts[1:2]}, "a.example.com:9", trace)
	if len(trace.Candidates) != 1 || !strings.Contains(trace.Candidates[0].Reason, "has a port") {
		t.Errorf("candidates: %+v", trace.Candidates)
	}
}

func TestPickChain(t *testing.T) {
	chain := func(name, transport string, names ...string) *ir.FilterChain {
		return &ir.FilterChain{Name: name, Match: ir.ChainMatch{ServerNames: names, Transport: transport}}
	}
	l := &ir.Listener{Chains: []*ir.FilterChain{
		chain("any", ""), chain("clear", "raw_buffer"), chain("exact", "tls", "a.b.c"), chain("short", "tls", "*.c"), chain("long", "", "*.b.c"), chain("trap", "raw_buffer", "t.b.c"),
	}}
	for _, c := range []struct {
		tls       bool
		sni, want string
	}{
		{false, "", "clear"}, {true, "", "any"}, {true, "A.b.c", "exact"}, {true, "x.b.c", "long"}, {true, "x.y.b.c", "long"}, {true, "b.c", "short"}, {true, "c", "any"}, {true, "t.b.c", ""},
	} {
		have, _ := pickChain(l, Request{TLS: c.tls, SNI: c.sni})
		if name := func() string {
			if have == nil {
				return ""
			}
			return have.Name
		}(); name != c.want {
			t.Errorf("tls %v, %q: %q, want %q", c.tls, c.sni, name, c.want)
		}
	}
}

func TestMatch(t *testing.T) {
	get := func(headers ...string) *exchange {
		r, err := ParseRequest("GET", "http://Host.example/a/b?x=1&y=%31&x=2&z", headers)
		if err != nil {
			t.Fatal(err)
		}
		x, _, _ := receive(&ir.HTTPChain{Settings: &ir.HTTPSettings{UseRemoteAddress: true}}, &ir.Listener{}, r)
		return x
	}
	for _, c := range []struct {
		kind ir.PathKind
		path string
		want bool
	}{
		{ir.PathPrefix, "/a", true}, {ir.PathPrefix, "/A", false}, {ir.PathPrefix, "/a/bc", false},
		{ir.PathExact, "/a/b", true}, {ir.PathExact, "/a", false},
		{ir.PathRegex, "/a", false}, {ir.PathRegex, "/a|/a/.", true}, {ir.PathRegex, "[", false},
		{ir.PathSegments, "/a", true}, {ir.PathSegments, "/a/", true}, {ir.PathSegments, "/", true}, {ir.PathSegments, "/a/b/c", false}, {ir.PathSegments, "/a/", true},
	} {
		if _, ok := matchPath(&ir.Match{PathKind: c.kind, Path: c.path}, "/a/b"); ok != c.want {
			t.Errorf("%s %s: %v, want %v", c.kind, c.path, ok, c.want)
		}
	}
	if matched, ok := matchPath(&ir.Match{PathKind: ir.PathSegments, Path: "/A", IgnoreCase: true}, "/a/b"); !ok || matched != "/a" {
		t.Errorf("ignore case: %q, %v", matched, ok)
	}
	for _, c := range []struct {
		m      ir.ValueMatch
		header string
		want   string
	}{
		{ir.ValueMatch{Name: "h", Kind: ir.ValueExact, Value: "v"}, "h: v", ""},
		{ir.ValueMatch{Name: "h", Kind: ir.ValueExact, Value: "v"}, "h: w", `header h is "w", wanted "v"`},
		{ir.ValueMatch{Name: "h", Kind: ir.ValueExact, Value: "v", Invert: true}, "h: w", ""},
		{ir.ValueMatch{Name: "h", Kind: ir.ValueExact, Value: "v", Invert: true}, "g: w", `header h is absent, wanted anything but "v"`},
		{ir.ValueMatch{Name: "h", Kind: ir.ValueRegex, Value: "v+"}, "h: vv", ""},
		{ir.ValueMatch{Name: "h", Kind: ir.ValueRegex, Value: "v"}, "h: vv", `header h is "vv", wanted a match of "v"`},
		{ir.ValueMatch{Name: "h", Kind: ir.ValuePrefix, Value: "V", IgnoreCase: true}, "h: vv", ""},
		{ir.ValueMatch{Name: "h", Kind: ir.ValueSuffix, Value: "w"}, "h: vw", ""},
		{ir.ValueMatch{Name: "h", Kind: ir.ValuePresent}, "g: 1", "header h is absent, wanted present"},
		{ir.ValueMatch{Name: "h", Kind: ir.ValuePresent, Invert: true}, "g: 1", ""},
		{ir.ValueMatch{Name: ":method", Kind: ir.ValueExact, Value: "POST"}, "g: 1", `method is "GET", wanted "POST"`},
		{ir.ValueMatch{Name: ":authority", Kind: ir.ValueSuffix, Value: ".EXAMPLE", IgnoreCase: true}, "g: 1", ""},
		{ir.ValueMatch{Name: "x-forwarded-proto", Kind: ir.ValueExact, Value: "https"}, "x-forwarded-proto: https", `header x-forwarded-proto is "http", wanted "https"`},
	} {
		if have := mismatch(&ir.Match{Headers: []ir.ValueMatch{c.m}}, get(c.header)); have != c.want {
			t.Errorf("%+v with %q: %q, want %q", c.m, c.header, have, c.want)
		}
	}
	for _, c := range []struct {
		m    ir.ValueMatch
		want string
	}{
		{ir.ValueMatch{Name: "x", Kind: ir.ValueExact, Value: "1"}, ""},
		{ir.ValueMatch{Name: "x", Kind: ir.ValueExact, Value: "2"}, `query parameter x is "1", wanted "2"`},
		{ir.ValueMatch{Name: "y", Kind: ir.ValueExact, Value: "%31"}, ""},
		{ir.ValueMatch{Name: "z", Kind: ir.ValuePresent}, ""},
		{ir.ValueMatch{Name: "q", Kind: ir.ValuePresent}, "query parameter q is absent, wanted present"},
	} {
		if have := mismatch(&ir.Match{Query: []ir.ValueMatch{c.m}}, get()); have != c.want {
			t.Errorf("%+v: %q, want %q", c.m, have, c.want)
		}
	}
}

func TestSettings(t *testing.T) {
	settings := &ir.HTTPSettings{StripMatchingHostPort: true, MergeSlashes: true, RejectEscapedSlashes: true, HeadersWithUnderscoresAction: "REJECT_REQUEST"}
	for _, c := range []struct {
		url, header  string
		host, target string
		status       uint32
	}{
		{"http://a:8080//b///c?//", "", "a", "/b/c?//", 0},
		{"http://a:8081/", "", "a:8081", "/", 0},
		{"http://a/%2F", "", "", "", 400},
		{"http://a/?%2F", "", "a", "/?%2F", 0},
		{"http://a/", "a_b: c", "", "", 400},
	} {
		var headers []string
		if c.header != "" {
			headers = []string{c.header}
		}
		r, err := ParseRequest("GET", c.url, headers)
		if err != nil {
			t.Fatal(err)
		}
		x, status, _ := receive(&ir.HTTPChain{Settings: settings}, &ir.Listener{Port: 8080}, r)
		if status != c.status || status == 0 && (x.authority != c.host || x.target != c.target) {
			t.Errorf("%s: %+v, %d; want %s%s, %d", c.url, x, status, c.host, c.target, c.status)
		}
	}
}

func TestText(t *testing.T) {
	p := edge()
	p.Clusters = append(p.Clusters, &ir.Cluster{Name: "dns", Host: "up.example", Port: 443, Discovery: ir.DiscoveryLogicalDNS, TLS: &ir.UpstreamTLS{}},
		&ir.Cluster{Name: "pods", EndpointSet: "k8s/default/pods/80", Discovery: ir.DiscoveryEDS})
	p.RouteConfigs[0].VirtualHosts[0].Routes = []*ir.Route{{
		Name: "split", Match: ir.Match{PathKind: ir.PathPrefix, Path: "/"},
		Forward: &ir.Forward{AutoHostRewrite: true, Priority: "high", Upgrades: []string{"websocket"}, Mirrors: []ir.Mirror{{Cluster: "shadow", Fraction: &ir.Fraction{Numerator: 5, Denominator: 100}}},
			Clusters: []ir.WeightedCluster{{Cluster: "dns", Weight: 1, RequestHeaders: ir.HeaderChanges{Add: []ir.HeaderValue{{Name: "x-c", Value: "1", Append: true}}}}, {Cluster: "pods", Weight: 2}}},
		RequestHeaders: ir.HeaderChanges{Remove: []string{"x-r"}}, ResponseHeaders: ir.HeaderChanges{Add: []ir.HeaderValue{{Name: "x-s", Value: "2"}}},
		CORS:    &ir.CORS{OriginRegex: []string{"http://.*"}},
		Origins: []ir.Origin{{Kind: "Mapping", Namespace: "a", Name: "1"}, {Kind: "Mapping", Namespace: "a", Name: "2"}, {Kind: "Mapping", Namespace: "a", Name: "3"}, {Kind: "Mapping", Namespace: "a", Name: "4"}},
	}}
	trace := simulate(t, p, "GET", "http://a.example:8080/./x", "Connection: keep-alive, Upgrade", "Upgrade: WebSocket")
	want := `GET http://a.example:8080/./x
  listener      http (port 8080)  from Listener/default/http
  filter chain  clear (every connection)  from Listener/default/http
  routes        clear
  virtual host  all (domain "*")
  seen as       a.example:8080/x (as Envoy normalises it)
100 % forwarded
  route         split (prefix "/")  from Mapping/a/1, Mapping/a/2, Mapping/a/3 and 1 more
  cluster       33.3333 % dns (https://up.example:443)
    host up.example
    request       add x-c: 1
  cluster       66.6667 % pods (http to the endpoints of k8s/default/pods/80)
  upstream sees a.example:8080/x
  timeout       none
  priority      high
  mirror        5 % of these to shadow
  request       remove x-r
  response      set x-s: 2
`
	if have := trace.Text(); have != want {
		t.Errorf("have\n%swant\n%s", have, want)
	}
	for _, c := range []struct {
		method  string
		headers []string
		kind    OutcomeKind
		status  uint32
	}{
		{"GET", []string{"connection: upgrade", "upgrade: h2c"}, Intercepted, 403},
		{"OPTIONS", []string{"origin: http://o", "access-control-request-method: PUT"}, Intercepted, 200},
		{"OPTIONS", []string{"origin: ftp://o", "access-control-request-method: PUT"}, Forwarded, 0},
		{"CONNECT", nil, NotFound, 404},
	} {
		trace := simulate(t, p, c.method, "http://a.example:8080/", c.headers...)
		if o := trace.Outcomes[0]; o.Kind != c.kind || o.Status != c.status {
			t.Errorf("%s %v: %s %d, want %s %d", c.method, c.headers, o.Kind, o.Status, c.kind, c.status)
		}
	}
}

func TestPickListener(t *testing.T) {
	p := edge()
	p.Listeners = append(p.Listeners, &ir.Listener{Name: "https-2", Port: 9443, TLSInspector: true, Chains: p.Listeners[1].Chains}, &ir.Listener{Name: "quic", Port: 443, UDP: true, Chains: p.Listeners[1].Chains})
	for _, c := range []struct{ url, listener, want, lost string }{
		{"https://shop.example/", "", "https", "https-2"},
		{"https://shop.example:9443/", "", "https-2", ""},
		{"https://shop.example/", "https-2", "https-2", ""},
		{"https://shop.example/", "nowhere", "", ""},
		{"http://shop.example:7/", "", "http", ""},
		{"https://nobody.test/", "", "", "https"},
	} {
		r, err := ParseRequest("", c.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Listener = c.listener
		trace := Simulate(p, r)
		have, lost := "", ""
		if trace.Listener != nil {
			have = trace.Listener.Name
		}
		for _, l := range trace.Candidates {
			if l.Kind == "listener" && (lost == "" || l.Name == c.lost) {
				lost = l.Name
			}
		}
		if have != c.want || lost != c.lost || have == "" && trace.Outcomes[0].Kind != Refused {
			t.Errorf("%s at %q: %q, lost %q; want %q, %q\n%s", c.url, c.listener, have, lost, c.want, c.lost, trace.Text())
		}
	}
	r, _ := ParseRequest("", "https://shop.example/cart/", nil)
	r.Listener = "quic"
	if trace := Simulate(p, r); trace.Outcomes[0].Kind != Refused {
		t.Errorf("chains for transport protocol tls take no QUIC:\n%s", trace.Text())
	}
	if trace := Simulate(nil, r); trace.Outcomes[0].Kind != Refused {
		t.Errorf("no program:\n%s", trace.Text())
	}
}

func FuzzSimulate(f *testing.F) {
	f.Add("GET", "https://shop.example/cart/?a=b", "x-tenant: a")
	f.Add("OPTIONS", "http://[::1]:8080/%2e%2e/%00//..\\?", "connection: upgrade")
	f.Add("CONNECT", "http://a:1", "x-forwarded-proto: ftp")
	p := edge()
	f.Fuzz(func(t *testing.T, method, url, header string) {
		r, err := ParseRequest(method, url, []string{header})
		if err != nil {
			return
		}
		trace := Simulate(p, r)
		sum := 0.0
		for _, o := range trace.Outcomes {
			sum += o.Share
		}
		if math.Abs(sum-100) > 1e-6 {
			t.Errorf("shares add up to %g:\n%s", sum, trace.Text())
		}
		if again := Simulate(p, r); again.Text() != trace.Text() {
			t.Errorf("two answers:\n%s\n%s", trace.Text(), again.Text())
		}
	})
}
