package endtoend

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/snapshot/porttest"
)

// TestFeatures asks a real Envoy for every routing feature: status, body, headers, TLS.
func TestFeatures(t *testing.T) {
	p := porttest.Free(t, 4)
	clear, secure, raw, mtls := p[0], p[1], p[2], p[3]
	a, b, shadow := newBackend(t, "a", nil), newBackend(t, "b", nil), newBackend(t, "shadow", nil)
	ca := newAuthority(t)
	cert, key := ca.issue("upstream.example.com")
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	upstream := newBackend(t, "tls", &tls.Config{Certificates: []tls.Certificate{pair}})
	at := func(b *backend) string { return fmt.Sprintf(`"127.0.0.1:%d"`, b.port) }
	listener := func(name string, port int, protocol string) string {
		return object("Listener", name, fmt.Sprintf("port: %d, protocol: %s, securityModel: XFP, hostBinding: {namespace: {from: ALL}}", port, protocol))
	}
	docs := []string{
		listener("clear", clear, "HTTP"), listener("secure", secure, "HTTPS"),
		object("Host", "web", "hostname: web.example.com, requestPolicy: {insecure: {action: Route}}"),
		object("Host", "tls", "hostname: tls.example.com, tlsSecret: {name: tls}"), ca.secret("tls", "tls.example.com"),
		object("Host", "wild", `hostname: "*.wild.example.com", tlsSecret: {name: wild}, tls: {min_tls_version: v1.3}`), ca.secret("wild", "*.wild.example.com"),
		object("Host", "mtls", "hostname: mtls.example.com, tlsSecret: {name: mtls}, tls: {ca_secret: client-ca, cert_required: true}"), ca.secret("mtls", "mtls.example.com"),
		fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: client-ca, namespace: app}\ntype: Opaque\ndata: {ca.crt: %s}\n", base64.StdEncoding.EncodeToString(ca.pem())),
		object("TLSContext", "upstream", "ca_secret: client-ca, sni: upstream.example.com"),
		object("TCPMapping", "raw", fmt.Sprintf("port: %d, service: %s", raw, at(a))),
		object("TCPMapping", "sni", fmt.Sprintf("port: %d, host: tls.example.com, service: %s", mtls, at(b))),
		object("Mapping", "on-tls", "hostname: tls.example.com, prefix: /, service: "+at(a)),
		object("Mapping", "on-wild", `hostname: "*.wild.example.com", prefix: /, service: `+at(b)),
		object("Mapping", "on-mtls", "hostname: mtls.example.com, prefix: /, service: "+at(b)),
		"apiVersion: v1\nkind: Service\nmetadata: {name: eds, namespace: app}\nspec: {ports: [{name: web, port: 80, targetPort: 8080}]}\n",
		fmt.Sprintf("apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: eds-1, namespace: app, labels: {kubernetes.io/service-name: eds}}\naddressType: IPv4\nports: [{name: web, port: %d}]\nendpoints: [{addresses: [127.0.0.1]}]\n", b.port),
	}
	for name, spec := range map[string]string{
		"default":       "prefix: /, service: " + at(a),
		"prefix":        "prefix: /prefix/, service: " + at(b),
		"exact":         "prefix: /exact, prefix_exact: true, service: " + at(b),
		"regex":         `prefix: "/regex/[0-9]+", prefix_regex: true, rewrite: "", service: ` + at(b),
		"method":        "prefix: /method/, method: POST, service: " + at(b),
		"header":        "prefix: /header/, headers: {x-tenant: b}, service: " + at(b),
		"regex-header":  `prefix: /header/, regex_headers: {x-other: "b.*"}, service: ` + at(b),
		"query":         "prefix: /query/, query_parameters: {v: b}, service: " + at(b),
		"nocase":        "prefix: /NoCase/, case_sensitive: false, service: " + at(b),
		"precedence":    "prefix: /fir, precedence: 5, service: " + at(b),
		"norewrite":     `prefix: /kept/, rewrite: "", service: ` + at(b),
		"rewrite":       "prefix: /old/, rewrite: /new/, service: " + at(b),
		"regex-rewrite": `prefix: /rr/, regex_rewrite: {pattern: "/rr/([a-z]+)/(.*)", substitution: '/\2/\1'}, service: ` + at(b),
		"host-rewrite":  "prefix: /hostrw/, host_rewrite: inner.example.com, service: " + at(b),
		"headers":       "prefix: /headers/, add_request_headers: {x-added: {value: one}}, remove_request_headers: [x-gone], add_response_headers: {x-out: {value: two}}, remove_response_headers: [x-internal], service: " + at(b),
		"redirect":      "prefix: /redirect/, host_redirect: true, path_redirect: /there, redirect_response_code: 302, service: elsewhere.example.com",
		"prefix-redir":  "prefix: /preredir/, host_redirect: true, prefix_redirect: /moved/, service: elsewhere.example.com",
		"regex-redir":   `prefix: "^/rxredir/(.*)$", prefix_regex: true, host_redirect: true, regex_redirect: {pattern: "^/rxredir/(.*)$", substitution: '/x/\1'}, service: elsewhere.example.com`,
		"timeout":       `prefix: /slow/, rewrite: "", timeout_ms: 200, service: ` + at(b),
		"retry":         `prefix: /flaky/, rewrite: "", retry_policy: {retry_on: "5xx", num_retries: 3}, service: ` + at(b),
		"cors":          "prefix: /cors/, cors: {origins: [https://ok.example.com], methods: [GET, PUT], headers: [x-a], max_age: '600', credentials: true}, service: " + at(b),
		"canary-a":      "prefix: /canary/, service: " + at(a),
		"canary-b":      "prefix: /canary/, weight: 20, service: " + at(b),
		"shadowed":      "prefix: /shadowed/, service: " + at(a),
		"shadow":        "prefix: /shadowed/, shadow: true, service: " + at(shadow),
		"upgrade":       "prefix: /ws/, allow_upgrade: [websocket], service: " + at(b),
		"grpc":          "prefix: /grpc/, grpc: true, service: " + at(b),
		"originate":     fmt.Sprintf(`prefix: /tls/, tls: upstream, service: "https://127.0.0.1:%d"`, upstream.port),
		"eds":           "prefix: /eds/, resolver: endpoint, service: eds",
		"eds-empty":     "prefix: /empty/, resolver: endpoint, service: nobody",
		"dark":          "prefix: /dark/, weight: 0, service: " + at(b),
	} {
		docs = append(docs, object("Mapping", name, "hostname: web.example.com, "+spec))
	}
	g := start(t, map[string]string{"all.yaml": join(docs...)})

	base := fmt.Sprintf("http://127.0.0.1:%d", clear)
	for _, c := range []struct {
		name, method, path string
		headers            []string
		status             int
		backend, upath     string
		check              func(t *testing.T, a answer)
	}{
		{"default", "GET", "/anything?x=1", nil, 200, "a", "/anything", func(t *testing.T, a answer) { equal(t, "query", a.echo.Query, "x=1") }},
		{"prefix", "GET", "/prefix/x", nil, 200, "b", "/x", nil},
		{"exact", "GET", "/exact", nil, 200, "b", "/", nil},
		{"not exact", "GET", "/exact/x", nil, 200, "a", "/exact/x", nil},
		{"regex", "GET", "/regex/17", nil, 200, "b", "/regex/17", nil},
		{"not regex", "GET", "/regex/x", nil, 200, "a", "/regex/x", nil},
		{"method", "POST", "/method/", nil, 200, "b", "/", nil},
		{"other method", "GET", "/method/", nil, 200, "a", "/method/", nil},
		{"header", "GET", "/header/", []string{"X-Tenant", "b"}, 200, "b", "/", nil},
		{"header expression", "GET", "/header/", []string{"X-Other", "bcd"}, 200, "b", "/", nil},
		{"other header", "GET", "/header/", []string{"X-Tenant", "c"}, 200, "a", "/header/", nil},
		{"query", "GET", "/query/?v=b", nil, 200, "b", "/", nil},
		{"other query", "GET", "/query/?v=c", nil, 200, "a", "/query/", nil},
		{"case", "GET", "/nocase/x", nil, 200, "b", "/x", nil},
		{"precedence", "GET", "/prefix/../first/", nil, 200, "b", "/st/", nil},
		{"no rewrite", "GET", "/kept/x", nil, 200, "b", "/kept/x", nil},
		{"rewrite", "GET", "/old/x", nil, 200, "b", "/new/x", nil},
		{"regex rewrite", "GET", "/rr/ab/cd", nil, 200, "b", "/cd/ab", nil},
		{"host rewrite", "GET", "/hostrw/", nil, 200, "b", "/", func(t *testing.T, a answer) { equal(t, "host", a.echo.Host, "inner.example.com") }},
		{"headers", "GET", "/headers/", []string{"X-Gone", "1"}, 200, "b", "/", func(t *testing.T, a answer) {
			equal(t, "added", a.echo.Header.Get("X-Added"), "one")
			equal(t, "removed", a.echo.Header.Get("X-Gone"), "")
			equal(t, "added to the answer", a.header.Get("X-Out"), "two")
			equal(t, "removed from the answer", a.header.Get("X-Internal"), "")
		}},
		{"redirect", "GET", "/redirect/x", nil, 302, "", "", func(t *testing.T, a answer) {
			equal(t, "location", a.header.Get("Location"), "http://elsewhere.example.com/there")
		}},
		{"prefix redirect", "GET", "/preredir/x", nil, 301, "", "", func(t *testing.T, a answer) {
			equal(t, "location", a.header.Get("Location"), "http://elsewhere.example.com/moved/x")
		}},
		{"regex redirect", "GET", "/rxredir/x", nil, 301, "", "", func(t *testing.T, a answer) {
			equal(t, "location", a.header.Get("Location"), "http://elsewhere.example.com/x/x")
		}},
		{"timeout", "GET", "/slow/", nil, 504, "", "", nil},
		{"preflight", "OPTIONS", "/cors/", []string{"Origin", "https://ok.example.com", "Access-Control-Request-Method", "PUT"}, 200, "", "", func(t *testing.T, a answer) {
			equal(t, "origin", a.header.Get("Access-Control-Allow-Origin"), "https://ok.example.com")
			equal(t, "methods", a.header.Get("Access-Control-Allow-Methods"), "GET, PUT")
			equal(t, "age", a.header.Get("Access-Control-Max-Age"), "600")
			equal(t, "credentials", a.header.Get("Access-Control-Allow-Credentials"), "true")
		}},
		{"foreign origin", "GET", "/cors/", []string{"Origin", "https://bad.example.com"}, 200, "b", "/", func(t *testing.T, a answer) { equal(t, "origin", a.header.Get("Access-Control-Allow-Origin"), "") }},
		{"HTTP/2 upstream", "GET", "/grpc/", nil, 200, "b", "/", func(t *testing.T, a answer) { equal(t, "protocol", a.echo.Proto, "HTTP/2.0") }},
		{"TLS upstream, verified", "GET", "/tls/", nil, 200, "tls", "/", nil},
		{"endpoints", "GET", "/eds/x", nil, 200, "b", "/x", nil},
		{"no endpoints", "GET", "/empty/", nil, 503, "", "", nil},
		{"only weight 0", "GET", "/dark/", nil, 503, "", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ask(t, c.method, base+c.path, "web.example.com", nil, c.headers...)
			if err != nil {
				t.Fatal(err)
			}
			if got.status != c.status || got.echo.Backend != c.backend || got.echo.Path != c.upath {
				t.Fatalf("%d from %q at %q, want %d from %q at %q", got.status, got.echo.Backend, got.echo.Path, c.status, c.backend, c.upath)
			}
			if c.check != nil {
				c.check(t, got)
			}
		})
	}
	t.Run("retries", func(t *testing.T) {
		for range 6 {
			if got, err := ask(t, "GET", base+"/flaky/", "web.example.com", nil); err != nil || got.status != 200 {
				t.Fatalf("%d, %v", got.status, err)
			}
		}
	})
	t.Run("unknown host", func(t *testing.T) {
		if got, err := ask(t, "GET", base+"/", "nobody.example.org", nil); err != nil || got.status != 404 {
			t.Fatalf("%d, %v", got.status, err)
		}
	})
	t.Run("canary shares", func(t *testing.T) {
		before, total := b.hits.Load(), int64(1500)
		for range total {
			if got, err := ask(t, "GET", base+"/canary/", "web.example.com", nil); err != nil || got.status != 200 {
				t.Fatalf("%d, %v", got.status, err)
			}
		}
		// 20 % of 1,500 is 300 with a standard deviation of 15.5: five of them, and some.
		if got := b.hits.Load() - before; got < 220 || got > 380 {
			t.Errorf("the canary got %d of %d requests, want about 300", got, total)
		}
	})
	t.Run("shadow", func(t *testing.T) {
		before := shadow.hits.Load()
		for range 20 {
			if got, err := ask(t, "GET", base+"/shadowed/", "web.example.com", nil); err != nil || got.echo.Backend != "a" {
				t.Fatalf("%q, %v", got.echo.Backend, err)
			}
		}
		eventually(t, "the copies arrive", func() bool { return shadow.hits.Load() == before+20 })
	})
	t.Run("websocket", func(t *testing.T) { websocket(t, clear, "web.example.com", "/ws/") })
	t.Run("redirect of clear text", func(t *testing.T) {
		for _, port := range []int{clear, secure} {
			got, err := ask(t, "GET", fmt.Sprintf("http://127.0.0.1:%d/x?y=1", port), "tls.example.com", nil)
			if err != nil || got.status != 301 {
				t.Fatalf("%d, %v", got.status, err)
			}
			equal(t, "location", got.header.Get("Location"), "https://tls.example.com/x?y=1")
		}
	})
	overTLS := func(sni, host string, c *tls.Config) (answer, error) {
		if c == nil {
			c = &tls.Config{}
		}
		c.ServerName, c.InsecureSkipVerify = sni, true
		return ask(t, "GET", fmt.Sprintf("https://127.0.0.1:%d/x", secure), host, c)
	}
	t.Run("TLS by server name", func(t *testing.T) {
		got, err := overTLS("tls.example.com", "tls.example.com", nil)
		if err != nil || got.status != 200 || got.echo.Backend != "a" || got.cert.VerifyHostname("tls.example.com") != nil {
			t.Errorf("%+v, %v", got, err)
		}
		got, err = overTLS("x.wild.example.com", "x.wild.example.com", nil)
		if err != nil || got.status != 200 || got.echo.Backend != "b" || got.cert.VerifyHostname("x.wild.example.com") != nil {
			t.Errorf("%+v, %v", got, err)
		}
		if _, err := overTLS("x.wild.example.com", "x.wild.example.com", &tls.Config{MaxVersion: tls.VersionTLS12}); err == nil {
			t.Error("TLS 1.2 was accepted although 1.3 is the least")
		}
		if _, err := overTLS("unknown.example.com", "tls.example.com", nil); err == nil {
			t.Error("an unknown server name was answered")
		}
		if got, err := overTLS("tls.example.com", "x.wild.example.com", nil); err != nil || got.status != http.StatusMisdirectedRequest {
			t.Errorf("a foreign authority was answered %d, %v", got.status, err)
		}
	})
	t.Run("client certificates", func(t *testing.T) {
		if _, err := overTLS("mtls.example.com", "mtls.example.com", nil); err == nil {
			t.Error("no client certificate was needed")
		}
		cert, key := ca.issue("client")
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := overTLS("mtls.example.com", "mtls.example.com", &tls.Config{Certificates: []tls.Certificate{pair}}); err != nil || got.status != 200 {
			t.Errorf("%d, %v", got.status, err)
		}
		if got, err := overTLS("tls.example.com", "mtls.example.com", nil); err != nil || got.status != http.StatusMisdirectedRequest {
			t.Errorf("the protected host was reached past its client certificates: %d, %v", got.status, err)
		}
	})
	t.Run("TCP", func(t *testing.T) {
		if got, err := ask(t, "GET", fmt.Sprintf("http://127.0.0.1:%d/tcp", raw), "any", nil); err != nil || got.echo.Backend != "a" {
			t.Errorf("%+v, %v", got, err)
		}
		got, err := ask(t, "GET", fmt.Sprintf("https://127.0.0.1:%d/tcp", mtls), "tls.example.com", nil)
		if err != nil || got.echo.Backend != "b" || got.cert.VerifyHostname("tls.example.com") != nil {
			t.Errorf("%+v, %v", got, err)
		}
	})
	if n := g.stat("listener_manager.lds.update_rejected"); n != 0 {
		t.Errorf("Envoy refused %d listener updates", n)
	}
}

func equal(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %q, want %q", what, got, want)
	}
}

func websocket(t *testing.T, port int, host, path string) {
	t.Helper()
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", path, host)
	r := bufio.NewReader(c)
	line, err := r.ReadString('\n')
	if err != nil || !strings.Contains(line, "101") {
		t.Fatalf("%q, %v", line, err)
	}
	for line != "\r\n" {
		if line, err = r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.WriteString(c, "ping!"); err != nil {
		t.Fatal(err)
	}
	back := make([]byte, 5)
	if _, err := io.ReadFull(r, back); err != nil || string(back) != "ping!" {
		t.Fatalf("%q, %v", back, err)
	}
}
