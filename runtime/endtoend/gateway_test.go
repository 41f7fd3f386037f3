// Package endtoend tests the whole program as its users meet it: manifests in a folder, `chancery serve`, a real Envoy,
// real backends and real requests.
package endtoend

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/runtime/command"
	"github.com/chancery-gateway/chancery/runtime/supervisor"
	"github.com/chancery-gateway/chancery/snapshot/porttest"
)

// gateway is one running `chancery serve` over a folder.
type gateway struct {
	t      testing.TB
	dir    string
	state  string
	health int
	admin  int
	log    *buffer
	end    context.CancelFunc
	code   chan int
}

// buffer is written by the program while the test reads.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (x *buffer) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.Write(p)
}

func (x *buffer) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.String()
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never came about: %s", what)
		}
	}
}

// start serves a new folder with these files, with more arguments, and waits until the program is ready.
func start(t testing.TB, files map[string]string, more ...string) *gateway {
	t.Helper()
	if _, err := supervisor.Find(os.Getenv("CHANCERY_ENVOY")); err != nil {
		if os.Getenv("CI") == "" {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	p := porttest.Free(t, 3)
	g := &gateway{t: t, dir: t.TempDir(), state: t.TempDir(), health: p[0], admin: p[1], log: &buffer{}, code: make(chan int, 1)}
	for name, content := range files {
		g.write(name, content)
	}
	args := []string{"chancery", "serve", g.dir, "--bind-address", "127.0.0.1", "--health-address", "127.0.0.1", "--health-port", strconv.Itoa(g.health),
		"--admin-port", strconv.Itoa(g.admin), "--ready-port", strconv.Itoa(p[2]), "--ads-address", "127.0.0.1:0", "--envoy-concurrency", "2",
		"--shutdown-grace", "1s", "--state-dir", g.state}
	args = append(args, more...)
	ctx, cancel := context.WithCancel(context.Background())
	g.end = cancel
	go func() { g.code <- command.Run(ctx, args, strings.NewReader(""), io.Discard, g.log) }()
	t.Cleanup(func() {
		cancel()
		select {
		case <-g.code:
		case <-time.After(2 * time.Minute):
			t.Error("the program does not end")
		}
		if t.Failed() {
			text := g.log.String()
			t.Logf("log:\n%s", text[max(0, len(text)-8000):])
		}
	})
	eventually(t, "ready", func() bool {
		r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/ambassador/v0/check_ready", g.health))
		if err != nil {
			return false
		}
		r.Body.Close()
		return r.StatusCode == http.StatusOK
	})
	return g
}

// write puts a file in place at once, as an editor does.
func (g *gateway) write(name, content string) {
	g.t.Helper()
	temp := filepath.Join(g.dir, "."+name+".new")
	if err := os.WriteFile(temp, []byte(content), 0o600); err != nil {
		g.t.Fatal(err)
	}
	if err := os.Rename(temp, filepath.Join(g.dir, name)); err != nil {
		g.t.Fatal(err)
	}
}

func (g *gateway) remove(name string) {
	g.t.Helper()
	if err := os.Remove(filepath.Join(g.dir, name)); err != nil {
		g.t.Fatal(err)
	}
}

// stat reads one of Envoy's own statistics.
func (g *gateway) stat(name string) int {
	g.t.Helper()
	r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/stats?filter=^%s$&format=json", g.admin, name))
	if err != nil {
		g.t.Fatal(err)
	}
	defer r.Body.Close()
	var all struct {
		Stats []struct {
			Name  string
			Value int
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&all); err != nil || len(all.Stats) != 1 {
		g.t.Fatalf("statistic %s: %v %v", name, err, all)
	}
	return all.Stats[0].Value
}

// echo is what a backend saw, and who it is.
type echo struct {
	Backend, Method, Path, Query, Host, Proto string
	Header                                    http.Header
}

// backend answers every request with an echo. Paths with "slow" wait for a second, paths with "drip" are answered bit by bit over
// two, paths with "flaky" fail with 503 twice
// out of three times, and an upgrade to websocket is taken and echoes bytes.
type backend struct {
	name string
	port int
	hits atomic.Int64
}

func newBackend(t testing.TB, name string, config *tls.Config) *backend {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &backend{name: name, port: l.Addr().(*net.TCPAddr).Port}
	s := &http.Server{Handler: b, Protocols: new(http.Protocols), TLSConfig: config}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	if config != nil {
		go s.ServeTLS(l, "", "")
	} else {
		go s.Serve(l)
	}
	t.Cleanup(func() { s.Close() })
	return b
}

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := b.hits.Add(1)
	if r.Header.Get("Upgrade") == "websocket" {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		io.Copy(conn, rw)
		return
	}
	if strings.Contains(r.URL.Path, "slow") {
		select {
		case <-time.After(time.Second):
		case <-r.Context().Done():
		}
	}
	if strings.Contains(r.URL.Path, "flaky") && n%3 != 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Internal", "secret")
	text, _ := json.Marshal(echo{b.name, r.Method, r.URL.Path, r.URL.RawQuery, r.Host, r.Proto, r.Header})
	if strings.Contains(r.URL.Path, "drip") {
		for i := range 20 {
			w.Write(text[i*len(text)/21 : (i+1)*len(text)/21])
			w.(http.Flusher).Flush()
			time.Sleep(100 * time.Millisecond)
		}
		text = text[20*len(text)/21:]
	}
	w.Write(text)
}

// answer is the outcome of one request.
type answer struct {
	status int
	header http.Header
	echo   echo
	cert   *x509.Certificate
}

// ask sends one request on a new connection of its own and does not follow redirects.
func ask(t testing.TB, method, url, host string, config *tls.Config, headers ...string) (answer, error) {
	t.Helper()
	if config == nil {
		config = &tls.Config{ServerName: host, InsecureSkipVerify: true}
	}
	tr := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	defer tr.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := tr.RoundTrip(r)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err
	}
	a := answer{status: resp.StatusCode, header: resp.Header}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		if err := json.Unmarshal(body, &a.echo); err != nil {
			return answer{}, err
		}
	}
	if resp.TLS != nil {
		a.cert = resp.TLS.PeerCertificates[0]
	}
	return a, nil
}

// authority makes certificates for tests.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	c, err = x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{t, c, key}
}

// issue makes a certificate and key in PEM.
func (a *authority) issue(names ...string) (cert, key []byte) {
	a.t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		a.t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: names[0]}, DNSNames: names, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &k.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// secret renders a Secret with a new certificate.
func (a *authority) secret(name string, names ...string) string {
	cert, key := a.issue(names...)
	return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: app}\ntype: kubernetes.io/tls\ndata:\n  tls.crt: %s\n  tls.key: %s\n",
		name, base64.StdEncoding.EncodeToString(cert), base64.StdEncoding.EncodeToString(key))
}

func object(kind, name, spec string) string {
	return fmt.Sprintf("apiVersion: getambassador.io/v3alpha1\nkind: %s\nmetadata: {name: %s, namespace: app}\nspec: {%s}\n", kind, name, spec)
}

func join(docs ...string) string { return strings.Join(docs, "---\n") }
