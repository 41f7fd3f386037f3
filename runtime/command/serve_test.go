package command

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

	"github.com/chancery-gateway/chancery/runtime/demo"
	"github.com/chancery-gateway/chancery/runtime/supervisor"
	"github.com/chancery-gateway/chancery/snapshot/porttest"
)

func certificate(t *testing.T, dir string) {
	t.Helper()
	if err := demo.WriteCertificate(dir, "default", "quickstart-certificate", []string{"account.localhost"}); err != nil {
		t.Fatal(err)
	}
}

// text is a buffer that one goroutine fills while another reads.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (x *text) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.Write(p)
}

func (x *text) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.String()
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never came about: %s", what)
		}
	}
}

// served is one running `chancery serve` with a real Envoy.
type served struct {
	t          *testing.T
	dir        string
	health     int
	clear, tls int
	admin      int
	args       []string
	errs       *text
	end        context.CancelCauseFunc
	code       chan int
}

func findEnvoy(t *testing.T) {
	t.Helper()
	if _, err := supervisor.Find(os.Getenv("CHANCERY_ENVOY")); err != nil {
		if os.Getenv("CI") == "" {
			t.Skip(err)
		}
		t.Fatal(err)
	}
}

// backend answers with its name; slow requests wait for release.
func backend(t *testing.T, name string) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s", name, r.URL.Path)
	})}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return l.Addr().(*net.TCPAddr).Port
}

// start serves dir, in which every PORT_X of the manifests has been replaced.
func start(t *testing.T, manifests map[string]string) *served {
	t.Helper()
	findEnvoy(t)
	quiet(t)
	p := porttest.Free(t, 5)
	s := &served{t: t, dir: t.TempDir(), clear: p[0], tls: p[1], admin: p[2], health: p[3], errs: &text{}, code: make(chan int, 1)}
	for name, content := range manifests {
		s.write(name, content)
	}
	certificate(t, s.dir)
	s.args = []string{"chancery", "serve", s.dir, "--bind-address", "127.0.0.1", "--health-address", "127.0.0.1", "--health-port", strconv.Itoa(s.health),
		"--admin-port", strconv.Itoa(s.admin), "--ready-port", strconv.Itoa(p[4]), "--ads-address", "127.0.0.1:0", "--envoy-concurrency", "1", "--shutdown-grace", "5s"}
	s.run()
	return s
}

func (s *served) run() {
	s.t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	s.end = cancel
	go func() { s.code <- Run(ctx, s.args, strings.NewReader(""), io.Discard, s.errs) }()
	s.t.Cleanup(func() {
		cancel(nil)
		if s.t.Failed() {
			s.t.Logf("standard error:\n%s", s.errs.String())
		}
	})
	eventually(s.t, "ready", func() bool {
		select {
		case code := <-s.code:
			s.t.Fatalf("ended with %d before it was ready", code)
		default:
		}
		return s.probe("check_ready") == http.StatusOK
	})
}

// stop ends it and returns the exit code.
func (s *served) stop(cause error) int {
	s.t.Helper()
	s.end(cause)
	select {
	case code := <-s.code:
		return code
	case <-time.After(2 * time.Minute):
		s.t.Fatal("serve does not end")
		return -1
	}
}

func (s *served) write(name, content string) {
	s.t.Helper()
	content = strings.NewReplacer("PORT_CLEAR", strconv.Itoa(s.clear), "PORT_TLS", strconv.Itoa(s.tls)).Replace(content)
	temp := filepath.Join(s.dir, "."+name+".new")
	if err := os.WriteFile(temp, []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(temp, filepath.Join(s.dir, name)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *served) probe(name string) int {
	resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/ambassador/v0/%s", s.health, name))
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// get asks Envoy for a host over clear text.
func (s *served) get(host, path string) (status int, body string) {
	r, err := http.NewRequest(http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", s.clear, path), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Host = host
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(data)
}

func (s *served) answers(host, path, want string) func() bool {
	return func() bool {
		_, body := s.get(host, path)
		return body == want
	}
}

const listeners = `apiVersion: getambassador.io/v3alpha1
kind: Listener
metadata: {name: clear, namespace: default}
spec: {port: PORT_CLEAR, protocol: HTTP, securityModel: XFP, hostBinding: {namespace: {from: ALL}}}
---
apiVersion: getambassador.io/v3alpha1
kind: Listener
metadata: {name: tls, namespace: default}
spec: {port: PORT_TLS, protocol: HTTPS, securityModel: XFP, hostBinding: {namespace: {from: ALL}}}
---
apiVersion: getambassador.io/v3alpha1
kind: Host
metadata: {name: shop, namespace: default}
spec: {hostname: shop.localhost, requestPolicy: {insecure: {action: Route}}}
---
apiVersion: getambassador.io/v3alpha1
kind: Host
metadata: {name: account, namespace: default}
spec: {hostname: account.localhost, tlsSecret: {name: quickstart-certificate}}
`

func mapping(name, host, prefix string, port int) string {
	return fmt.Sprintf(`apiVersion: getambassador.io/v3alpha1
kind: Mapping
metadata: {name: %s, namespace: default}
spec:
  hostname: %s
  prefix: %s
  service: 127.0.0.1:%d
`, name, host, prefix, port)
}

// TestServe is the whole story with a real Envoy: ready, requests, an edit, a broken edit, a mended one, status, the end.
func TestServe(t *testing.T) {
	one, two := backend(t, "one"), backend(t, "two")
	s := start(t, map[string]string{
		"listeners.yaml": listeners,
		"shop.yaml":      mapping("shop", "shop.localhost", "/a/", one),
		"other.yaml":     mapping("other", "shop.localhost", "/other/", one),
		"account.yaml":   mapping("account", "account.localhost", "/", two),
	})
	if code := s.probe("check_alive"); code != http.StatusOK {
		t.Errorf("check_alive answers %d", code)
	}
	eventually(t, "the first answer", s.answers("shop.localhost", "/a/x", "one /x"))

	t.Run("TLS", func(t *testing.T) {
		eventually(t, "an answer over TLS", func() bool {
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{ServerName: "account.localhost", InsecureSkipVerify: true}}}
			defer client.CloseIdleConnections()
			r, err := http.NewRequest(http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/y", s.tls), nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = "account.localhost"
			resp, err := client.Do(r)
			if err != nil {
				return false
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			var leaf *x509.Certificate
			if resp.TLS != nil {
				leaf = resp.TLS.PeerCertificates[0]
			}
			return err == nil && string(body) == "two /y" && leaf.VerifyHostname("account.localhost") == nil
		})
	})

	// From here on, what is not edited is asked for all the time, and must not fail once.
	var asked, wrong atomic.Int64
	var first text
	ctx, cancel := context.WithCancel(context.Background())
	var traffic sync.WaitGroup
	traffic.Go(func() {
		for ctx.Err() == nil {
			status, body := s.get("shop.localhost", "/other/z")
			asked.Add(1)
			if status != http.StatusOK || body != "one /z" {
				if wrong.Add(1) == 1 {
					fmt.Fprintf(&first, "%d %q", status, body)
				}
			}
		}
	})
	defer cancel()

	t.Run("edit", func(t *testing.T) {
		begun := time.Now()
		s.write("shop.yaml", mapping("shop", "shop.localhost", "/a/", two))
		eventually(t, "the edit is live", s.answers("shop.localhost", "/a/x", "two /x"))
		t.Logf("live after %s", time.Since(begun))
	})
	t.Run("broken edit", func(t *testing.T) {
		s.write("bad.yaml", "# a comment\n"+mapping("bad", "shop.localhost", "/bad(", one)+"  prefix_regex: true\n")
		want := filepath.Join(s.dir, "bad.yaml") + ":7: error: "
		eventually(t, "the finding is printed", func() bool { return strings.Contains(s.errs.String(), want) })
		if text := s.errs.String(); !strings.Contains(text, "in Mapping/default/bad spec.prefix") {
			t.Errorf("the finding does not name object and field:\n%s", text)
		}
		s.write("shop.yaml", mapping("shop", "shop.localhost", "/a/", one))
		eventually(t, "other edits go on", s.answers("shop.localhost", "/a/x", "one /x"))
		if code, out, _ := call(t, "", "status", "--health-address", "127.0.0.1", "--health-port", strconv.Itoa(s.health)); code != 0 || !strings.Contains(out, ", 1 error\n") || !strings.Contains(out, "RouteConfiguration") {
			t.Errorf("status: exit code %d\n%s", code, out)
		}
	})
	t.Run("broken file", func(t *testing.T) {
		s.write("syntax.yaml", "a: [\n")
		eventually(t, "the finding is printed", func() bool { return strings.Contains(s.errs.String(), "syntax.yaml:") })
	})
	t.Run("mended", func(t *testing.T) {
		s.write("bad.yaml", mapping("bad", "shop.localhost", "/good/", one))
		eventually(t, "the mended object is live", s.answers("shop.localhost", "/good/x", "one /x"))
		eventually(t, "the finding is gone", func() bool { return strings.Contains(s.errs.String(), "gone: "+filepath.Join(s.dir, "bad.yaml")) })
	})
	t.Run("refused by Envoy", func(t *testing.T) {
		taken, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close()
		s.write("taken.yaml", fmt.Sprintf("apiVersion: getambassador.io/v3alpha1\nkind: Listener\nmetadata: {name: taken, namespace: default}\nspec: {port: %d, protocol: HTTP, securityModel: XFP, hostBinding: {namespace: {from: ALL}}}\n",
			taken.Addr().(*net.TCPAddr).Port))
		want := filepath.Join(s.dir, "taken.yaml") + ":1: error: "
		eventually(t, "Envoy's words are printed at the object", func() bool { return strings.Contains(s.errs.String(), want) })
		if text := s.errs.String(); !strings.Contains(text, "[CH-PROOF-002]") || !strings.Contains(text, "in Listener/default/taken") {
			t.Errorf("the finding has no code or object:\n%s", text)
		}
		if err := os.Remove(filepath.Join(s.dir, "taken.yaml")); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the finding is gone", func() bool { return strings.Contains(s.errs.String(), "gone: "+want) })
	})
	cancel()
	traffic.Wait()
	if wrong.Load() > 0 || asked.Load() == 0 {
		t.Errorf("%d of %d requests for what was not edited failed, the first with %s", wrong.Load(), asked.Load(), first.String())
	}

	t.Run("overview", func(t *testing.T) {
		eventually(t, "the overview tells what is", func() bool {
			resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/ambassador/v0/diag/?json=true", s.health))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			var v struct {
				System      struct{ Version string }
				EnvoyStatus struct{ Alive, Ready bool } `json:"envoy_status"`
				Errors      [][2]string
				RouteInfo   []struct{ Match string } `json:"route_info"`
			}
			if err := json.NewDecoder(resp.Body).Decode(&v); err != nil {
				t.Fatal(err)
			}
			return v.System.Version == Version && v.EnvoyStatus.Alive && v.EnvoyStatus.Ready && len(v.Errors) == 1 && len(v.RouteInfo) > 0
		})
	})
	t.Run("metrics", func(t *testing.T) {
		for _, want := range []string{"chancery_compiles_total ", `chancery_stage_duration_seconds_bucket{stage="compile"`, `chancery_diagnostics{severity="error"} 1`, "chancery_envoy_up 1", "envoy_server_live"} {
			eventually(t, "the metrics have "+want, func() bool {
				resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", s.health))
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				data, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				return strings.Contains(string(data), want)
			})
		}
	})
	t.Run("port in use", func(t *testing.T) {
		args := append([]string{}, s.args[1:]...)
		code, _, errs := call(t, "", args...)
		if code != exitUsage || !strings.Contains(errs, "is in use by another program") || !strings.Contains(errs, "--health-port") {
			t.Errorf("exit code %d: %s", code, errs)
		}
	})
	t.Run("private keys", func(t *testing.T) {
		if strings.Contains(s.errs.String(), "PRIVATE KEY") {
			t.Error("a private key is in the log")
		}
	})

	if code := s.stop(supervisor.ErrHurry); code != exitFine {
		t.Errorf("exit code %d", code)
	}
	if status, _ := s.get("shop.localhost", "/a/x"); status != 0 {
		t.Errorf("Envoy still answers: %d", status)
	}
	if _, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/ready", s.admin)); err == nil {
		t.Error("Envoy outlives Chancery")
	}
}

// TestServeRestarts starts again over the state of the last run, and survives a killed Envoy.
func TestServeRestarts(t *testing.T) {
	one := backend(t, "one")
	s := start(t, map[string]string{"listeners.yaml": listeners, "shop.yaml": mapping("shop", "shop.localhost", "/a/", one)})
	eventually(t, "the first answer", s.answers("shop.localhost", "/a/x", "one /x"))
	base := os.Getenv("CHANCERY_STATE_DIR")
	var saved []string
	eventually(t, "the last good state is on disk", func() bool {
		saved, _ = filepath.Glob(filepath.Join(base, "files-*", "last-good.xds"))
		return len(saved) == 1
	})
	info, err := os.Stat(saved[0])
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("state file: %v, %v", info.Mode(), err)
	}
	if code := s.stop(errors.New("SIGTERM")); code != exitFine {
		t.Fatalf("exit code %d", code)
	}
	s.errs = &text{}
	s.run()
	eventually(t, "an answer after the restart", s.answers("shop.localhost", "/a/x", "one /x"))
	if !strings.Contains(s.errs.String(), "serving the last good state") {
		t.Error("the last good state is not used")
	}
	s.stop(supervisor.ErrHurry)
}

func TestServeWithoutEnvoy(t *testing.T) {
	quiet(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(working+brokenMapping), 0o600); err != nil {
		t.Fatal(err)
	}
	health := porttest.Free(t, 1)[0]
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var errs text
	code := make(chan int, 1)
	go func() {
		code <- Run(ctx, []string{"chancery", "serve", "--envoy", "none", "--log-format", "json", "--ads-address", "127.0.0.1:0", "--health-address", "127.0.0.1", "--health-port", strconv.Itoa(health), dir}, strings.NewReader(""), io.Discard, &errs)
	}()
	s := &served{t: t, health: health}
	eventually(t, "ready", func() bool { return s.probe("check_ready") == http.StatusOK })
	eventually(t, "the finding is a log record", func() bool { return strings.Contains(errs.String(), `"msg":"finding","code":"CH-`) })
	cancel()
	if c := <-code; c != exitFine {
		t.Errorf("exit code %d: %s", c, errs.String())
	}
}

// TestServeNothingUsable is alive, not ready, and says why.
func TestServeNothingUsable(t *testing.T) {
	quiet(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte("a: [\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	health := porttest.Free(t, 1)[0]
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var errs text
	code := make(chan int, 1)
	go func() {
		code <- Run(ctx, []string{"chancery", "serve", "--envoy", "none", "--ads-address", "127.0.0.1:0", "--health-address", "127.0.0.1", "--health-port", strconv.Itoa(health), dir}, strings.NewReader(""), io.Discard, &errs)
	}()
	s := &served{t: t, health: health}
	eventually(t, "the finding is printed", func() bool { return strings.Contains(errs.String(), "a.yaml:") })
	if s.probe("check_alive") != http.StatusOK || s.probe("check_ready") != http.StatusServiceUnavailable {
		t.Errorf("check_alive %d, check_ready %d", s.probe("check_alive"), s.probe("check_ready"))
	}
	cancel()
	if c := <-code; c != exitFine {
		t.Errorf("exit code %d: %s", c, errs.String())
	}
}
