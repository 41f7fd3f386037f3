package page

import (
	"context"
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/chancery-gateway/chancery/runtime/modules"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/files"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/emissary"
	"github.com/chancery-gateway/chancery/translators/ir"
	"github.com/chancery-gateway/chancery/xds"
	"github.com/chancery-gateway/chancery/xds/validator"
)

var testCode = snapshot.NewCode("CH-PAGETEST-001", "A finding of a test", "A test.", "None.")

// load asks for the page of a state, and parses it as a browser would.
func load(t *testing.T, s State, query string) (*html.Node, string) {
	t.Helper()
	w := httptest.NewRecorder()
	Handler(func(context.Context) State { return s }).ServeHTTP(w, httptest.NewRequest("GET", "/ambassador/v0/diag/"+query, nil))
	if w.Code != 200 || w.Header().Get("Content-Type") != "text/html; charset=utf-8" || !strings.HasPrefix(w.Header().Get("Content-Security-Policy"), "default-src 'none'; style-src 'sha256-") {
		t.Fatalf("%d %v\n%s", w.Code, w.Header(), w.Body)
	}
	n, err := html.Parse(strings.NewReader(w.Body.String()))
	if err != nil {
		t.Fatal(err)
	}
	return n, w.Body.String()
}

func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// text returns the words of an element, blanks joined; style sheets left out.
func text(n *html.Node) string {
	var all []string
	for d := range n.Descendants() {
		if d.Type == html.TextNode && d.Parent.Data != "style" {
			all = append(all, strings.Fields(d.Data)...)
		}
	}
	return strings.Join(all, " ")
}

// full is a state in which everything has this name.
func full(name string) State {
	ref := []ir.Origin{{Group: "getambassador.io", Kind: "Mapping", Namespace: name, Name: name}}
	p := &ir.Program{
		Listeners: []*ir.Listener{{Name: name, Port: 8443, Chains: []*ir.FilterChain{{Name: name, TLS: &ir.DownstreamTLS{}, HTTP: &ir.HTTPChain{RouteConfig: "rc", Settings: &ir.HTTPSettings{}}}}}},
		RouteConfigs: []*ir.RouteConfig{{Name: "rc", VirtualHosts: []*ir.VirtualHost{
			{Name: name, Domains: []string{name}, Origins: ref, Routes: []*ir.Route{
				{Name: name, Origins: ref, Match: ir.Match{PathKind: ir.PathPrefix, Path: name, Headers: []ir.ValueMatch{{Name: name, Kind: ir.ValueExact, Value: name}}},
					Forward: &ir.Forward{Clusters: []ir.WeightedCluster{{Cluster: name, Weight: 1}, {Cluster: name + "2", Weight: 3}}}},
				{Name: name, Match: ir.Match{PathKind: ir.PathRegex, Path: name}, Redirect: &ir.Redirect{Host: name, Code: 301}},
			}},
			{Name: "empty", Domains: []string{"empty." + name}},
		}}},
		Clusters: []*ir.Cluster{{Name: name, Discovery: ir.DiscoveryStrictDNS, Host: name, Port: 80}},
	}
	found := []snapshot.Diagnostic{{Severity: snapshot.Error, Code: testCode, Object: ref[0], Path: name, Message: name, Help: name, Policy: name, Position: snapshot.Position{File: name, Line: 3}},
		{Severity: snapshot.Warning, Code: testCode, Message: name}}
	return State{
		Version: name, Hostname: name, AmbassadorID: name, Namespace: name, Why: name, Process: name, EnvoyVersion: name, EnvoyUptime: name, EnvoyState: name, SinceUpdate: name, Uptime: time.Minute,
		Result: &translators.Result{Snapshot: snapshot.Empty(), Program: p, Diagnostics: found}, Findings: found,
		Nodes: []xds.NodeStatus{{ID: name, Cluster: name, Version: name, Address: name, Types: []xds.TypeStatus{{Type: ir.TypeListener, Unanswered: 1,
			Refused: []xds.NACK{{Node: name, Type: ir.TypeListener, Names: []string{name}, Text: name, Origins: ref}}}}}},
		Validator: &validator.Status{Problem: name},
		Policies:  []Policy{{ID: name, Tenant: name, Revision: name, Enforcement: name, Status: name, Why: name}},
		Modules: []modules.Report{{Name: name, Source: name, Error: name, Breaker: name, Live: &modules.Version{Digest: "sha256:" + name, Version: name, Phases: []string{name}},
			Candidate: &modules.Candidate{Version: name, Stage: name, Reason: name}}},
	}
}

// skeleton is the page without its texts: elements and the names of their attributes.
func skeleton(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.ElementNode {
			b.WriteString("<" + d.Data)
			for _, a := range d.Attr {
				b.WriteString(" " + a.Key)
			}
			b.WriteString(">\n")
		}
	}
	return b.String()
}

// TestNamesAreTexts: whatever objects are called, the page has the same elements, and shows the names as they are.
func TestNamesAreTexts(t *testing.T) {
	query := func(name string) string {
		return "?" + url.Values{"q": {name}, "host": {""}, "url": {name}, "method": {name}, "headers": {name}, "object": {name}}.Encode()
	}
	tame, _ := load(t, full("tame"), query("tame"))
	for _, name := range []string{
		`<script>alert(1)</script>`, `"><img/src=x/onerror=alert(1)>`, `'onmouseover='alert(1)`, `javascript:alert(1)`, `</style><svg/onload=alert(1)>`, `</textarea><b>`, `-->`, `{{.Version}}`, `</title><h1>`, "&lt;&amp;", "\u202e\u0000", `]]>`, "`${1}`",
	} {
		s := full(name)
		got, body := load(t, s, query(name))
		if a, b := skeleton(tame), skeleton(got); a != b {
			t.Errorf("%q changes the page:\n%s", name, body[:min(len(body), 4000)])
		}
		for d := range got.Descendants() {
			for _, a := range d.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "href" && strings.HasPrefix(strings.ToLower(a.Val), "javascript") {
					t.Errorf("%q becomes the attribute %s=%q", name, a.Key, a.Val)
				}
			}
		}
		shown := strings.Join(strings.Fields(strings.ReplaceAll(name, "\u0000", "\ufffd")), " ")
		if n := strings.Count(text(got), shown); n < 30 {
			t.Errorf("%q is shown %d times", name, n)
		}
	}
}

// TestPageStandsAlone: no script, nothing fetched, and everything that assistive programs need.
func TestPageStandsAlone(t *testing.T) {
	page, _ := load(t, full("tame"), "?url=http://tame/&object=Mapping/tame/tame")
	ids, targets := map[string]int{}, []string{}
	level := 0
	for d := range page.Descendants() {
		if d.Type != html.ElementNode {
			continue
		}
		if id := attribute(d, "id"); id != "" {
			ids[id]++
		}
		switch d.Data {
		case "script", "link", "img", "iframe", "object", "embed", "base":
			t.Errorf("there is an element %s", d.Data)
		case "html":
			if attribute(d, "lang") != "en" {
				t.Error("the language is not told")
			}
		case "a":
			to := attribute(d, "href")
			if at := strings.IndexByte(to, '#'); at >= 0 {
				targets = append(targets, to[at+1:])
			}
			if strings.Contains(to, "//") || text(d) == "" {
				t.Errorf("a link leads to %q, with the text %q", to, text(d))
			}
		case "input", "textarea", "select":
			if d.Parent.Data != "label" {
				t.Errorf("the field %s has no label", attribute(d, "name"))
			}
		case "form":
			if attribute(d, "method") != "get" || !strings.HasPrefix(attribute(d, "action"), "#") {
				t.Errorf("a form goes elsewhere: %v", d.Attr)
			}
		case "th":
			if attribute(d, "scope") == "" {
				t.Errorf("the heading %q heads nothing", text(d))
			}
		case "table":
			if first := d.FirstChild; first == nil || first.Data != "caption" {
				t.Error("a table has no caption")
			}
		case "h1", "h2", "h3":
			now := int(d.Data[1] - '0')
			if now > level+1 {
				t.Errorf("%s %q comes below h%d", d.Data, text(d), level)
			}
			level = now
		}
		if style := attribute(d, "style"); style != "" {
			t.Errorf("%s has a style of its own, which the browser is told to leave out", d.Data)
		}
	}
	for id, n := range ids {
		if n > 1 {
			t.Errorf("%d elements have the id %s", n, id)
		}
	}
	for _, id := range targets {
		if ids[id] == 0 && id != "object" {
			t.Errorf("a link leads to #%s, which is nowhere", id)
		}
	}
}

// TestThousandsOfRoutes: a page stays small, its links lead through all of it, and a search finds one of them.
func TestThousandsOfRoutes(t *testing.T) {
	const n = 3000
	s := full("tame")
	s.Findings = nil
	rc := s.Result.Program.RouteConfigs[0]
	rc.VirtualHosts = nil
	for i := range 50 {
		h := &ir.VirtualHost{Name: fmt.Sprint(i), Domains: []string{fmt.Sprintf("h%d.example.com", i)}}
		for k := range n / 50 {
			name := fmt.Sprintf("m%d-%d", i, k)
			ref := ir.Origin{Group: "getambassador.io", Kind: "Mapping", Namespace: "app", Name: name}
			h.Routes = append(h.Routes, &ir.Route{Name: name, Match: ir.Match{PathKind: ir.PathPrefix, Path: "/" + name + "/"}, Origins: []ir.Origin{ref}, Forward: &ir.Forward{Clusters: []ir.WeightedCluster{{Cluster: name}}}})
			s.Findings = append(s.Findings, snapshot.Diagnostic{Severity: snapshot.Severity(1 + (i+k)%3), Code: testCode, Object: ref, Message: "about " + name})
		}
		rc.VirtualHosts = append(rc.VirtualHosts, h)
	}
	for _, c := range []struct{ key, anchor, word string }{{"rp", "routes", "prefix /"}, {"fp", "findings", "about m"}} {
		seen, query, pages := map[string]int{}, "?", 0
		severity := 0
		for query != "" {
			page, body := load(t, s, query)
			if len(body) > 400_000 {
				t.Fatalf("a page has %d bytes", len(body))
			}
			query = ""
			for d := range page.Descendants() {
				switch {
				case d.Data == "td" && strings.HasPrefix(text(d), c.word):
					seen[strings.TrimSuffix(text(d), " "+testCode.ID)]++
				case d.Data == "span" && c.key == "fp" && strings.HasPrefix(attribute(d, "class"), "tag ") && d.Parent.Data == "td" && d.Parent.PrevSibling == nil:
					now := slices.Index([]string{"error", "warning", "info"}, text(d))
					if now < severity {
						t.Fatalf("%s comes late", text(d))
					}
					severity = now
				case d.Data == "a" && attribute(d, "rel") == "next" && strings.HasSuffix(attribute(d, "href"), "#"+c.anchor):
					query, _, _ = strings.Cut(attribute(d, "href"), "#")
				}
			}
			if pages++; pages > 200 {
				t.Fatal("the pages have no end")
			}
		}
		if len(seen) != n {
			t.Errorf("%s: %d of %d are on %d pages", c.anchor, len(seen), n, pages)
		}
		for what, times := range seen {
			if times != 1 {
				t.Errorf("%s is shown %d times", what, times)
			}
		}
	}
	found, _ := load(t, s, "?q=M7-42&host=H7.example&rp=99&fp=no")
	if got := text(found); strings.Count(got, "prefix /m7-42/") != 1 || strings.Contains(got, "prefix /m7-41/") || !strings.Contains(got, "about m7-42") || strings.Contains(got, "about m7-41") {
		t.Errorf("the search finds %s", got)
	}
	if got, _ := load(t, s, "?q=nothing-has-this"); !strings.Contains(text(got), "No finding has these words.") || !strings.Contains(text(got), "No route has these words.") {
		t.Error("an empty search is not told")
	}
}

// compiled is the state after a compile of these manifests.
func compiled(t *testing.T, manifests string) State {
	t.Helper()
	s, err := files.Load([]string{"-"}, strings.NewReader(manifests))
	if err != nil {
		t.Fatal(err)
	}
	r := translators.New(translators.Options{FrontEnds: []translators.FrontEnd{emissary.New(emissary.Options{AmbassadorID: "default", Namespace: "default", BindAddress: "0.0.0.0"})}}).Compile(s)
	return State{Result: r, Findings: r.Diagnostics}
}

// TestWhyDoesItNotRoute: the answer names what takes the request, or the object whose fault it is that nothing does.
func TestWhyDoesItNotRoute(t *testing.T) {
	object := func(kind, name, spec string) string {
		return fmt.Sprintf("---\napiVersion: getambassador.io/v3alpha1\nkind: %s\nmetadata: {name: %s, namespace: app}\nspec: {%s}\n", kind, name, spec)
	}
	s := compiled(t, object("Listener", "l", "port: 8080, protocol: HTTP, securityModel: XFP, hostBinding: {namespace: {from: ALL}}")+
		object("Host", "shop", "hostname: shop.example.com, requestPolicy: {insecure: {action: Route}}")+
		object("Host", "closed", "hostname: closed.example.com, tlsSecret: {name: nobody}")+
		object("Mapping", "cart", "hostname: shop.example.com, prefix: /cart/, service: cart")+
		object("Mapping", "canary", "hostname: shop.example.com, prefix: /cart/, service: canary, weight: 25")+
		object("Mapping", "pay", `hostname: "*.example.com", prefix: /pay/, service: pay, tls: missing`)+
		object("Mapping", "regex", `hostname: shop.example.com, prefix: "/r/[", prefix_regex: true, service: regex`)+
		object("Mapping", "exact", `hostname: shop.example.com, prefix: /Exact, prefix_exact: true, case_sensitive: false, service: exact, weight: 300`)+
		object("Mapping", "moved", "hostname: shop.example.com, prefix: /moved/, host_redirect: true, service: new.example.com"))
	for _, c := range []struct {
		name, query string
		want, never []string
	}{
		{"served", "url=shop.example.com/cart/1&method=POST", []string{"A service gets this request.", "POST http://shop.example.com/cart/1", "25 % forwarded", "75 % forwarded", "Mapping/app/canary"}, []string{"Findings about Mappings"}},
		{"refused Mapping", "url=http://shop.example.com/pay/x", []string{"No service gets this request: it is answered 404.", "Findings about Mappings and Hosts", `there is no TLSContext "missing"`, "create the TLSContext"}, nil},
		{"another host's", "url=http://shop.example.org/pay/x", []string{"No service gets this request"}, []string{"Findings about Mappings"}},
		{"another path's", "url=http://shop.example.com/payments", []string{"No service gets this request"}, []string{"Findings about Mappings"}},
		{"broken expression", "url=http://shop.example.com/r/1", []string{"Findings about Mappings", "Mapping/app/regex spec.prefix"}, nil},
		{"exact path in any case", "url=http://shop.example.com/exact?x=1", []string{"Findings about Mappings", "Mapping/app/exact spec.weight"}, nil},
		{"closed Host", "url=https://closed.example.com/", []string{"Findings about Mappings and Hosts", "there is no Secret app/nobody"}, nil},
		{"redirect", "url=http://shop.example.com/moved/", []string{"This request is redirected: 301 to http://new.example.com/moved/."}, nil},
		{"no request", "url=ftp://x/", []string{"This is no request:"}, []string{"A service gets"}},
		{"no header", "url=http://shop.example.com/&headers=x-user", []string{"This is no request:", `"x-user"`}, nil},
		{"header", "url=http://shop.example.com/cart/&headers=x-a:+1%0D%0A%0D%0Ax-b:+2%0D%0A", []string{"A service gets this request."}, nil},
		{"object", "object=mapping/app/cart", []string{"Mapping/app/cart", "prefix /cart/ → forward to", "What it became"}, []string{"It became nothing"}},
		{"object that became nothing", "object=Mapping/app/pay", []string{"It became nothing", `there is no TLSContext "missing"`}, nil},
		{"no object", "object=Mapping/app/nobody", []string{"There is no such object"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			page, _ := load(t, s, "?"+c.query)
			shown := text(page)
			shown, _, _ = strings.Cut(shown, "Search in findings and routes") // what follows is there whatever is asked
			for _, w := range c.want {
				if !strings.Contains(shown, w) {
					t.Errorf("%q is not said: %s", w, shown)
				}
			}
			for _, w := range c.never {
				if strings.Contains(shown, w) {
					t.Errorf("%q is said: %s", w, shown)
				}
			}
		})
	}
	routes, _ := load(t, s, "?host=shop.example.com")
	for _, want := range []string{"shop.example.com port 8080, clear text", "of Host/app/shop", "cart.app:80", "/moved/"} {
		if !strings.Contains(text(routes), want) {
			t.Errorf("the routes do not say %q: %s", want, text(routes))
		}
	}
}

// TestBeforeTheFirstCompile: the page is there from the start.
func TestBeforeTheFirstCompile(t *testing.T) {
	page, _ := load(t, State{Why: "waiting for the first configuration", Process: "waiting"}, "?url=http://x/&object=Mapping/a/b&q=x")
	for _, want := range []string{"are not answered", "waiting for the first configuration", "none yet", "Nothing has been compiled yet.", "No Envoy is connected."} {
		if !strings.Contains(text(page), want) {
			t.Errorf("%q is not said: %s", want, text(page))
		}
	}
}

func TestTakesHost(t *testing.T) {
	for _, c := range []struct {
		pattern string
		regex   bool
		host    string
		want    bool
	}{
		{"", false, "a.b", true}, {"*", false, "a.b", true}, {"A.b", false, "a.B:80", true}, {"a.b:8080", false, "a.b", true}, {"*.b", false, "a.b", true}, {"*.b", false, "b", false},
		{"a.*", false, "a.b", true}, {"a.*", false, "b.a.b", false}, {"a", false, "a.b", false}, {"a.+", true, "a.b", true}, {"a", true, "a.b", false}, {"[", true, "a.b", true}, {"[::1]", false, "[::1]:80", true},
	} {
		if got := takesHost(c.pattern, c.regex, c.host); got != c.want {
			t.Errorf("%q takes %q: %v", c.pattern, c.host, got)
		}
	}
}
