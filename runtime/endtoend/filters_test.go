package endtoend

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	logv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/chancery-gateway/chancery/snapshot/porttest"
)

// guard is an AuthService that speaks HTTP: it lets through what has "x-token: good" and writes down what it is asked.
type guard struct {
	port  int
	mu    sync.Mutex
	asked []*http.Request
}

func newGuard(t testing.TB) *guard {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &guard{port: l.Addr().(*net.TCPAddr).Port}
	s := &http.Server{Handler: g}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return g
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	g.asked = append(g.asked, r)
	g.mu.Unlock()
	w.Header().Set("X-User", "alice")
	w.Header().Set("X-Private", "secret")
	switch {
	case r.Header.Get("X-Token") == "good":
	case r.Header.Get("X-Token") == "go":
		w.Header().Set("Location", "https://login.example.com/")
		w.WriteHeader(http.StatusFound)
	default:
		w.WriteHeader(http.StatusUnauthorized)
	}
}

// count returns how many questions there were, and the last.
func (g *guard) count() (int, *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.asked) == 0 {
		return 0, nil
	}
	return len(g.asked), g.asked[len(g.asked)-1]
}

func clearListener(port int) string {
	return object("Listener", "clear", fmt.Sprintf("port: %d, protocol: HTTP, securityModel: XFP, hostBinding: {namespace: {from: ALL}}", port))
}

// TestAuthentication asks about every request, but for what is exempt, and never opens while it changes.
func TestAuthentication(t *testing.T) {
	p := porttest.Free(t, 2)
	clear, secure := p[0], p[1]
	app, guard, ca := newBackend(t, "app", nil), newGuard(t), newAuthority(t)
	at := fmt.Sprintf(`"127.0.0.1:%d"`, app.port)
	auth := func(spec string) string {
		return object("AuthService", "auth", fmt.Sprintf(`auth_service: "127.0.0.1:%d", path_prefix: /check, allowed_request_headers: [X-Token], allowed_authorization_headers: [X-User]%s`, guard.port, spec))
	}
	g := start(t, map[string]string{"auth.yaml": auth(", proto: smoke"), "all.yaml": join(clearListener(clear),
		object("Listener", "secure", fmt.Sprintf("port: %d, protocol: HTTPS, securityModel: XFP, hostBinding: {namespace: {from: ALL}}", secure)),
		object("Host", "web", "hostname: web.example.com, requestPolicy: {insecure: {action: Route}}"),
		object("Host", "tls", "hostname: tls.example.com, tlsSecret: {name: tls}"), ca.secret("tls", "tls.example.com"),
		object("Mapping", "all", `hostname: "*", prefix: /, rewrite: "", service: `+at),
		object("Mapping", "open", `hostname: "*", prefix: /open/, rewrite: "", bypass_auth: true, service: `+at),
		object("Mapping", "moved", `hostname: "*", prefix: /moved/, host_redirect: true, service: elsewhere.example.com`),
		object("Mapping", "free", `hostname: "*", prefix: "^/test$", prefix_regex: true, host_redirect: true, path_redirect: /test/, bypass_auth: true, service: elsewhere.example.com`),
	)})
	base := fmt.Sprintf("http://127.0.0.1:%d", clear)
	get := func(url, host string, headers ...string) answer {
		t.Helper()
		var config *tls.Config
		a, err := ask(t, "GET", url, host, config, headers...)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	status := func(want int) func() bool {
		return func() bool { return get(base+"/x", "web.example.com", "X-Token", "good").status == want }
	}
	// One that its schema refuses from the start has no last good form: its routes are closed.
	if !status(500)() {
		t.Error("open beside a refused AuthService")
	}
	g.write("auth.yaml", auth(""))
	eventually(t, "mended", status(200))
	for _, c := range []struct {
		name, url, host, token string
		status, asked          int
	}{
		{"without token", base + "/x", "web.example.com", "", 401, 1},
		{"with token", base + "/x?q=1", "web.example.com", "good", 200, 1},
		{"sent to the login", base + "/x", "web.example.com", "go", 302, 1},
		{"bypassed", base + "/open/x", "web.example.com", "", 200, 0},
		{"redirect", base + "/moved/", "web.example.com", "", 401, 1},
		{"redirect with token", base + "/moved/", "web.example.com", "good", 301, 1},
		{"bypassed redirect", base + "/test", "web.example.com", "", 301, 0},
		{"to https", base + "/x", "tls.example.com", "", 301, 0},
		{"liveness", base + "/ambassador/v0/check_alive", "web.example.com", "", 200, 0},
		{"diagnostics", base + "/ambassador/v0/diag/", "web.example.com", "", 401, 1},
		{"over TLS", fmt.Sprintf("https://127.0.0.1:%d/x", secure), "tls.example.com", "", 401, 1},
		{"no such host", base + "/x", "none.example.com", "", 404, 0},
		{"foreign name on a certificate", fmt.Sprintf("https://127.0.0.1:%d/x", secure), "tls.example.com", "good", 200, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, _ := guard.count()
			a := get(c.url, c.host, "X-Token", c.token, "X-Other", "1")
			after, last := guard.count()
			live := c.name == "liveness" // The port of the probes is not the standard one here: 503 in place of 200.
			if a.status != c.status && !(live && a.status == 503) || after-before != c.asked {
				t.Fatalf("%d after %d questions, want %d after %d", a.status, after-before, c.status, c.asked)
			}
			if c.asked == 0 {
				return
			}
			if !strings.HasPrefix(last.URL.Path, "/check/") || last.Header.Get("X-Other") != "" || last.Header.Get("X-Token") != c.token || last.Host != c.host {
				t.Errorf("asked %s of %s with %v", last.URL, last.Host, last.Header)
			}
			switch a.status {
			case 200:
				equal(t, "told upstream", a.echo.Header.Get("X-User"), "alice")
				equal(t, "kept from upstream", a.echo.Header.Get("X-Private"), "")
			case 302:
				equal(t, "location", a.header.Get("Location"), "https://login.example.com/")
			case 401:
				equal(t, "told the client", a.header.Get("X-User"), "alice")
				equal(t, "kept from the client", a.header.Get("X-Private"), "")
			}
		})
	}

	// One that cannot be asked closes, and no edit opens on its way.
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
			if a, err := ask(t, "GET", base+"/x", "web.example.com", nil); err == nil && a.status == 200 {
				t.Error("a request without token went through")
			}
		}
	}()
	g.write("auth.yaml", auth(", tls: nowhere"))
	eventually(t, "closed", status(500))
	if a := get(base+"/open/x", "web.example.com"); a.status != 200 {
		t.Errorf("bypassed route: %d", a.status)
	}
	if a := get(base+"/x", "tls.example.com"); a.status != 301 {
		t.Errorf("redirect to https: %d", a.status)
	}
	g.write("auth.yaml", auth(""))
	eventually(t, "open again", status(200))
	close(stop)
	<-done
	g.remove("auth.yaml")
	eventually(t, "nobody is asked", func() bool { return get(base+"/x", "web.example.com").status == 200 })
}

// TestAuthenticationWhileItChanges edits the AuthService under constant traffic: not one request that may pass is refused,
// and not one is let through unasked, not even while it moves to another address.
func TestAuthenticationWhileItChanges(t *testing.T) {
	clear := porttest.Free(t, 1)[0]
	app := newBackend(t, "app", nil)
	guards := []*guard{newGuard(t), newGuard(t)}
	auth := func(at *guard, timeout int) string {
		return object("AuthService", "auth", fmt.Sprintf(`auth_service: "127.0.0.1:%d", allowed_request_headers: [X-Token], timeout_ms: %d`, at.port, timeout))
	}
	g := start(t, map[string]string{"auth.yaml": auth(guards[0], 60000), "all.yaml": join(clearListener(clear),
		object("Host", "web", "hostname: web.example.com, requestPolicy: {insecure: {action: Route}}"),
		object("Mapping", "all", fmt.Sprintf(`hostname: "*", prefix: /, timeout_ms: 60000, service: "127.0.0.1:%d"`, app.port)))})
	stop := make(chan struct{})
	var traffic sync.WaitGroup
	for token, want := range map[string]int{"good": 200, "bad": 401} {
		traffic.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					if n < 20 {
						t.Errorf("only %d requests", n)
					}
					return
				default:
				}
				a, err := ask(t, "GET", fmt.Sprintf("http://127.0.0.1:%d/", clear), "web.example.com", nil, "X-Token", token)
				if err != nil || a.status != want {
					t.Errorf("token %s: %d %v, want %d", token, a.status, err, want)
				}
			}
		})
	}
	updates := func() int { return g.stat("listener_manager.listener_in_place_updated") }
	for i := 1; i <= 10; i++ {
		before := updates()
		g.write("auth.yaml", auth(guards[0], 60000+i))
		eventually(t, "the edit is in force", func() bool { return updates() > before })
	}
	for i := 1; i <= 20; i++ {
		at := guards[i%2]
		before, _ := at.count()
		g.write("auth.yaml", auth(at, 60000))
		eventually(t, "the other is asked", func() bool { n, _ := at.count(); return n > before })
	}
	close(stop)
	traffic.Wait()
}

// grpcServer serves on a free port until the test ends.
func grpcServer(t testing.TB, register func(*grpc.Server)) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	register(s)
	go s.Serve(l)
	t.Cleanup(s.Stop)
	return l.Addr().(*net.TCPAddr).Port
}

// judge answers for authorization and rate limits over gRPC.
type judge struct {
	authv3.UnimplementedAuthorizationServer
	ratelimitv3.UnimplementedRateLimitServiceServer
	logv3.UnimplementedAccessLogServiceServer
	logged chan string
}

// Check lets through what the route vouches for.
func (j *judge) Check(_ context.Context, r *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	if r.GetAttributes().GetContextExtensions()["vouched"] == "yes" {
		return &authv3.CheckResponse{Status: &statuspb.Status{Code: int32(codes.OK)}}, nil
	}
	return &authv3.CheckResponse{Status: &statuspb.Status{Code: int32(codes.PermissionDenied)}}, nil
}

// ShouldRateLimit refuses descriptors that end in "tenant: greedy" behind the default label.
func (j *judge) ShouldRateLimit(_ context.Context, r *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
	code := ratelimitv3.RateLimitResponse_OK
	for _, d := range r.Descriptors {
		if e := d.Entries; r.Domain == "ambassador" && len(e) == 2 && e[0].Key == "generic_key" && e[0].Value == "edge" && e[1].Key == "tenant" && e[1].Value == "greedy" {
			code = ratelimitv3.RateLimitResponse_OVER_LIMIT
		}
	}
	return &ratelimitv3.RateLimitResponse{OverallCode: code}, nil
}

// StreamAccessLogs passes on the paths that are logged.
func (j *judge) StreamAccessLogs(s logv3.AccessLogService_StreamAccessLogsServer) error {
	for {
		m, err := s.Recv()
		if err != nil {
			return err
		}
		for _, e := range m.GetHttpLogs().GetLogEntry() {
			j.logged <- e.GetRequest().GetPath() + " " + e.GetRequest().GetRequestHeaders()["x-tenant"]
		}
	}
}

// TestServicesOverGRPC has authentication, rate limits and access logs asked and told over gRPC.
func TestServicesOverGRPC(t *testing.T) {
	clear := porttest.Free(t, 1)[0]
	app := newBackend(t, "app", nil)
	at := fmt.Sprintf(`"127.0.0.1:%d"`, app.port)
	j := &judge{logged: make(chan string, 100)}
	port := grpcServer(t, func(s *grpc.Server) {
		authv3.RegisterAuthorizationServer(s, j)
		ratelimitv3.RegisterRateLimitServiceServer(s, j)
		logv3.RegisterAccessLogServiceServer(s, j)
	})
	service := fmt.Sprintf(`"127.0.0.1:%d"`, port)
	start(t, map[string]string{"all.yaml": join(clearListener(clear),
		object("Host", "web", "hostname: web.example.com, requestPolicy: {insecure: {action: Route}}"),
		object("Module", "ambassador", "config: {default_labels: {ambassador: {defaults: [{generic_key: {value: edge}}]}}}"),
		object("AuthService", "auth", "proto: grpc, protocol_version: v3, timeout_ms: 60000, auth_service: "+service),
		object("RateLimitService", "limits", "protocol_version: v3, timeout_ms: 60000, service: "+service),
		object("LogService", "log", "driver: http, driver_config: {additional_log_headers: [{header_name: X-Tenant}]}, protocol_version: v3, flush_interval_time: 1, flush_interval_byte_size: 1, service: "+service),
		object("Mapping", "closed", `hostname: "*", prefix: /closed/, rewrite: "", service: `+at),
		object("Mapping", "vouched", `hostname: "*", prefix: /vouched/, rewrite: "", auth_context_extensions: {vouched: "yes"}, service: `+at),
		object("Mapping", "limited", `hostname: "*", prefix: /limited/, rewrite: "", bypass_auth: true, labels: {ambassador: [{one: [{request_headers: {key: tenant, header_name: X-Tenant}}]}]}, service: `+at),
	)})
	for _, c := range []struct {
		path, tenant string
		status       int
	}{
		{"/closed/", "modest", 403}, {"/vouched/", "modest", 200}, {"/limited/", "modest", 200}, {"/limited/", "greedy", 429}, {"/vouched/", "greedy", 200},
	} {
		a, err := ask(t, "GET", fmt.Sprintf("http://127.0.0.1:%d%s", clear, c.path), "web.example.com", nil, "X-Tenant", c.tenant)
		if err != nil || a.status != c.status {
			t.Errorf("%s for %s: %d %v, want %d", c.path, c.tenant, a.status, err, c.status)
		}
		select {
		case got := <-j.logged:
			equal(t, "log", got, c.path+" "+c.tenant)
		case <-time.After(2 * time.Minute):
			t.Error("nothing is logged")
		}
	}
}

// TestModuleFilters turns the Module's filters on and off.
func TestModuleFilters(t *testing.T) {
	clear := porttest.Free(t, 1)[0]
	app := newBackend(t, "app", nil)
	module := func(config string) string { return object("Module", "ambassador", "config: {"+config+"}") }
	g := start(t, map[string]string{
		"module.yaml": module(`gzip: {content_type: [application/json], min_content_length: 1}, buffer: {max_request_bytes: 10}, lua_scripts: "function envoy_on_request(h) h:headers():add('x-lua', 'ran') end"`),
		"all.yaml": join(clearListener(clear), object("Host", "web", "hostname: web.example.com, requestPolicy: {insecure: {action: Route}}"),
			object("Mapping", "all", fmt.Sprintf(`hostname: "*", prefix: /, service: "127.0.0.1:%d"`, app.port))),
	})
	url := fmt.Sprintf("http://127.0.0.1:%d/", clear)
	send := func(body string, headers ...string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequest("POST", url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "web.example.com"
		for i := 0; i+1 < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		resp, err := (&http.Transport{DisableCompression: true, DisableKeepAlives: true}).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var in io.Reader = resp.Body
		if resp.Header.Get("Content-Encoding") == "gzip" {
			if in, err = gzip.NewReader(resp.Body); err != nil {
				t.Fatal(err)
			}
		}
		text, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(text)
	}
	r, text := send("small", "Accept-Encoding", "gzip")
	equal(t, "encoding", r.Header.Get("Content-Encoding"), "gzip")
	if !strings.Contains(text, `"X-Lua":["ran"]`) {
		t.Errorf("the script did not run: %s", text)
	}
	r, _ = send("small")
	equal(t, "encoding without wish", r.Header.Get("Content-Encoding"), "")
	if r, _ = send("larger than ten bytes"); r.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("large body: %d", r.StatusCode)
	}
	// A script that does not load, or never ends, is never loaded: the last good one runs on.
	for _, c := range []struct{ script, code string }{
		{"function envoy_on_request(h ", "CH-PROOF-011"}, {"while true do end", "CH-PROOF-013"}, {"(function() while true do end end)()", "CH-PROOF-011"},
	} {
		g.write("module.yaml", module(fmt.Sprintf("lua_scripts: %q", c.script)))
		eventually(t, "refused: "+c.script, func() bool { return g.finding(c.code, "Module/ambassador") != "" })
		if _, text := send("small"); !strings.Contains(text, `"X-Lua":["ran"]`) {
			t.Errorf("the last good script does not run: %s", text)
		}
	}
	for _, c := range []struct {
		config string
		status int
	}{
		{`ip_allow: [{remote: 10.0.0.0/8}]`, 403}, {`ip_allow: [{peer: 127.0.0.0/8}]`, 200}, {`ip_deny: [{peer: 127.0.0.1}]`, 403},
		{`ip_deny: [{peer: 10.0.0.0/8}]`, 200}, {`ip_allow: [{peer: nonsense}]`, 403}, {`ip_allow: [{peer: 127.0.0.0/8}], ip_deny: [{remote: 10.0.0.0/8}]`, 200},
		{`ip_allow: [{peer: 127.0.0.0/8}], ip_deny: [{peer: 127.0.0.1}]`, 403}, {`enable_grpc_web: true, enable_grpc_http11_bridge: true, grpc_stats: {all_methods: true}`, 200}, {`ip_deny: oops`, 403}, {``, 200},
	} {
		g.write("module.yaml", module(c.config))
		eventually(t, c.config, func() bool { r, _ := send("small"); return r.StatusCode == c.status })
	}
}
