package envoy

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/snapshot/porttest"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// ports returns n free ports.
func ports(t *testing.T, n int) []uint32 {
	t.Helper()
	var out []uint32
	for _, p := range porttest.Free(t, n) {
		out = append(out, uint32(p))
	}
	return out
}

// run starts Envoy with the configuration and waits until its ready listener answers.
func run(t *testing.T, config []byte, ready uint32) {
	t.Helper()
	path, dir := findEnvoy(t), t.TempDir()
	file := filepath.Join(dir, "static.json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	c := exec.Command(path, "-c", file, "-l", "warning", "--concurrency", "1", "--disable-hot-restart")
	c.Stdout, c.Stderr = &log, &log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
		for _, line := range strings.Split(log.String(), "\n") {
			if complaints.MatchString(line) && !strings.Contains(line, "active downstream connections") { // Whether to limit them is the operator's choice.
				t.Errorf("Envoy complains: %s", line)
			}
		}
	})
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/ready", ready))
		if err != nil {
			continue
		}
		r.Body.Close()
		if r.StatusCode == 200 {
			return
		}
	}
	t.Fatal("Envoy is not ready after two minutes")
}

// TestEnvoyAnswersFromStatic runs static.json on an Envoy without a control plane and asks it.
func TestEnvoyAnswersFromStatic(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("x-got", r.Header.Get("x-add"))
		fmt.Fprintf(w, "%s %s", r.Host, r.URL.Path)
	}))
	defer backend.Close()
	_, portText, _ := net.SplitHostPort(backend.Listener.Addr().String())
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	free := ports(t, 5)
	prog := small()
	prog.Bootstrap = &ir.Bootstrap{AdminPort: free[0], ReadyPort: free[1]}
	prog.Clusters[0].Discovery, prog.Clusters[0].Host, prog.Clusters[0].Port = ir.DiscoveryStrictDNS, "127.0.0.1", uint32(port)
	prog.EndpointSets[0].Endpoints = []ir.Endpoint{{Address: "127.0.0.1", Port: uint32(port), Zone: "z"}}
	prog.Secrets = []*ir.Secret{{Name: "default/cert", Certificate: testPair().cert, Key: testPair().key}}
	v := prog.RouteConfigs[0].VirtualHosts[0]
	bad := *v.Routes[0]
	bad.Name, bad.Match, bad.Forward = "bad", prefix("/a/bad"), forward("nope")
	split := &ir.Route{Name: "split", Match: prefix("/split"), Forward: &ir.Forward{Clusters: []ir.WeightedCluster{{Cluster: "nope", Weight: 1}, {Cluster: "b"}}}}
	rewritten := *v.Routes[1]
	f := *rewritten.Forward
	f.PrefixRewrite, f.HostRewrite = p("/"), "rewritten.example.com"
	rewritten.Match, rewritten.Forward = ir.Match{PathKind: ir.PathSegments, Path: "/seg"}, &f
	rewritten.RequestHeaders.Add = []ir.HeaderValue{{Name: "x-add", Value: "%REQ(:METHOD)%-100%%"}}
	cors := *v.Routes[1]
	cors.Match, cors.CORS = prefix("/cors"), &ir.CORS{Origins: []string{"https://a.example.com"}, Methods: "GET"}
	v.Routes = append([]*ir.Route{&bad, split, &rewritten, &cors, {Name: "r", Match: prefix("/redirect"), Redirect: &ir.Redirect{HTTPS: true, Code: 301}}}, v.Routes...)
	l := prog.Listeners[0]
	l.Port = free[2]
	l.Chains = append(l.Chains, &ir.FilterChain{Name: "tls", Match: ir.ChainMatch{ServerNames: []string{"*.example.com"}, Transport: "tls"},
		TLS: &ir.DownstreamTLS{Certificates: []string{"default/cert"}, Params: ir.TLSParams{ALPN: []string{"h2", "http/1.1"}}}, HTTP: l.Chains[0].HTTP})
	prog.Listeners = append(prog.Listeners, &ir.Listener{Name: "tcp", Address: "127.0.0.1", Port: free[3], Chains: []*ir.FilterChain{
		{Name: "tcp", TCP: &ir.TCPChain{StatPrefix: "tcp", Clusters: []ir.WeightedCluster{{Cluster: "a"}}}}}})
	out := emit(t, prog)
	blamed(t, out, codeMissing, "route.cluster", "a")
	var text bytes.Buffer
	if err := WriteStatic(&text, prog.Bootstrap, out.Resources); err != nil {
		t.Fatal(err)
	}
	run(t, text.Bytes(), free[1])

	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(testPair().cert)
	client := &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "www.example.com"}, ForceAttemptHTTP2: true},
	}
	tests := []struct {
		name, url, host, origin string
		status                  int
		body, header, value     string
	}{
		{name: "DNS cluster", url: "http://127.0.0.1:%d/a/x", host: "h.example.com", status: 200, body: "h.example.com /a/x"},
		{name: "endpoints", url: "http://127.0.0.1:%d/b/x", host: "h.example.com", status: 200, body: "h.example.com /b/x"},
		{name: "missing cluster does not fall through", url: "http://127.0.0.1:%d/a/bad", status: 503},
		{name: "missing member", url: "http://127.0.0.1:%d/split", status: 503},
		{name: "segments and rewrites", url: "http://127.0.0.1:%d/seg/one", status: 200, body: "rewritten.example.com /one", header: "x-got", value: "GET-100%"},
		{name: "segments alone", url: "http://127.0.0.1:%d/seg", status: 200, body: "rewritten.example.com /"},
		{name: "segments end at a slash", url: "http://127.0.0.1:%d/segment", status: 404},
		{name: "redirect", url: "http://127.0.0.1:%d/redirect/x?q=1", host: "h.example.com", status: 301, header: "location", value: "https://h.example.com/redirect/x?q=1"},
		{name: "redirect of port 80", url: "http://127.0.0.1:%d/redirect", host: "h.example.com:80", status: 301, header: "location", value: "https://h.example.com/redirect"},
		{name: "cors", url: "http://127.0.0.1:%d/cors", origin: "https://a.example.com", status: 200, header: "access-control-allow-origin", value: "https://a.example.com"},
		{name: "no cors", url: "http://127.0.0.1:%d/cors", origin: "https://b.example.com", status: 200, header: "access-control-allow-origin", value: ""},
		{name: "TLS", url: "https://127.0.0.1:%d/a/x", host: "www.example.com", status: 200, body: "www.example.com /a/x"},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			q, err := http.NewRequest(http.MethodGet, fmt.Sprintf(c.url, free[2]), nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.host != "" {
				q.Host = c.host
			}
			if c.origin != "" {
				q.Header.Set("origin", c.origin)
			}
			a, err := client.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Body.Close()
			body, err := io.ReadAll(a.Body)
			if err != nil || a.StatusCode != c.status || c.body != "" && string(body) != c.body || a.Header.Get(c.header) != c.value {
				t.Errorf("%d %q %v, %v", a.StatusCode, body, a.Header, err)
			}
		})
	}
	a, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/tcp", free[3]))
	if err != nil || a.StatusCode != 200 {
		t.Errorf("TCP: %v, %v", a, err)
	}
	if a, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/other", free[1])); err != nil || a.StatusCode != 404 {
		t.Errorf("ready listener elsewhere: %v, %v", a, err)
	}
}
