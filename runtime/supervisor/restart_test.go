package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/snapshot/porttest"
)

// forwarding is a bootstrap whose one listener leads to a backend; mark is told in a response header.
func forwarding(admin, front, backend int, mark string) []byte {
	return fmt.Appendf(nil, `{"admin":{"address":{"socket_address":{"address":"127.0.0.1","port_value":%d}}},
"static_resources":{"listeners":[{"name":"l","address":{"socket_address":{"address":"127.0.0.1","port_value":%d}},"filter_chains":[{"filters":[{"name":"h",
"typed_config":{"@type":"type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager","stat_prefix":"s",
"route_config":{"response_headers_to_add":[{"header":{"key":"x-mark","value":%q}}],"virtual_hosts":[{"name":"v","domains":["*"],"routes":[{"match":{"prefix":"/"},"route":{"cluster":"c","timeout":"0s"}}]}]},
"http_filters":[{"name":"router","typed_config":{"@type":"type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}]}}]}]}],
"clusters":[{"name":"c","type":"STATIC","load_assignment":{"cluster_name":"c","endpoints":[{"lb_endpoints":[{"endpoint":{"address":{"socket_address":{"address":"127.0.0.1","port_value":%d}}}}]}]}}]}}`,
		admin, front, mark, backend)
}

// TestRealEnvoyIsRestartedHot: another Envoy takes over the listening socket, under traffic over kept and new connections and with a
// request in flight. None fails, that one comes to its own end, and the next crash starts the new bootstrap from nothing.
func TestRealEnvoyIsRestartedHot(t *testing.T) {
	path := realEnvoy(t)
	release, arrived := make(chan struct{}), make(chan struct{}, 1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	backend := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			arrived <- struct{}{}
			<-release
		}
		fmt.Fprint(w, "done")
	})}
	go backend.Serve(l)
	t.Cleanup(func() { backend.Close() })
	p := porttest.Free(t, 2)
	admin, front := p[0], p[1]
	content := func(mark string) []byte { return forwarding(admin, front, l.Addr().(*net.TCPAddr).Port, mark) }
	var out log
	dir := t.TempDir()
	s := New(Options{Path: path, Bootstrap: content("0"), Dir: dir, AdminAddress: fmt.Sprintf("127.0.0.1:%d", admin), Concurrency: 2, BaseID: 10_000 + os.Getpid()%10_000,
		LogLevel: "info", DrainTime: 10 * time.Second, Grace: time.Second, PauseMin: time.Millisecond, Log: out.logger(), Stdout: io.Discard})
	end := run(t, s)
	url := fmt.Sprintf("http://127.0.0.1:%d/", front)
	get := func(c *http.Client, path string) (mark string, err error) {
		r, err := c.Get(url + path)
		if err != nil {
			return "", err
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil || string(text) != "done" {
			return "", fmt.Errorf("%d %q %v", r.StatusCode, text, err)
		}
		return r.Header.Get("X-Mark"), nil
	}
	fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	answered := func(mark string) func() bool {
		return func() bool { got, err := get(fresh, ""); return err == nil && got == mark }
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log:\n%s", out.String())
		}
	})
	eventually(t, "the first Envoy answers", answered("0"))
	first := s.Status().PID

	long := make(chan error, 1)
	go func() { _, err := get(&http.Client{Transport: &http.Transport{}}, "long"); long <- err }()
	<-arrived
	var asked, failed atomic.Int64
	var why atomic.Value
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var traffic sync.WaitGroup
	for _, c := range []*http.Client{fresh, {Transport: &http.Transport{}, Timeout: time.Minute}} {
		for range 2 {
			traffic.Go(func() {
				for ctx.Err() == nil {
					asked.Add(1)
					if _, err := get(c, ""); err != nil {
						failed.Add(1)
						why.Store(err.Error())
					}
				}
			})
		}
	}
	for n, mark := range []string{"1", "2"} {
		if err := s.HotRestart(t.Context(), func() ([]byte, error) { return content(mark), nil }); err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
		if st := s.Status(); st.Epoch != n+1 || st.PID == first || st.Restarts != 0 || st.State != Running {
			t.Errorf("status %+v", st)
		}
		eventually(t, "the new Envoy answers", answered(mark))
		if n == 0 { // the second restart waits until the first Envoy has ended by itself
			if err := syscall.Kill(first, 0); err != nil {
				t.Errorf("the first Envoy does not drain: %v", err)
			}
			close(release)
			if err := <-long; err != nil {
				t.Errorf("the request in flight: %v", err)
			}
		}
	}
	if err := syscall.Kill(first, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the first Envoy is still there: %v", err)
	}
	cancel()
	traffic.Wait()
	if failed.Load() > 0 || asked.Load() < 100 {
		t.Errorf("%d of %d requests failed, the last: %v", failed.Load(), asked.Load(), why.Load())
	}
	if got := out.String(); strings.Contains(got, "Cannot assign") || strings.Contains(got, "Address already in use") {
		t.Error("a socket was opened anew")
	}
	t.Logf("%d requests over two hot restarts", asked.Load())

	last := s.Status().PID
	if last <= 0 {
		t.Fatalf("status %+v", s.Status())
	}
	if err := syscall.Kill(last, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another one starts from nothing", func() bool { st := s.Status(); return st.Restarts == 1 && st.Epoch == 0 && answered("2")() })
	if err := end(ErrHurry); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "bootstrap-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestHotRestartThatFailsChangesNothing: a bootstrap that the new Envoy does not take leaves the present one in service.
func TestHotRestartThatFailsChangesNothing(t *testing.T) {
	path := realEnvoy(t)
	p := porttest.Free(t, 2)
	admin, front := p[0], p[1]
	s := New(Options{Path: path, Bootstrap: forwarding(admin, front, 9, "0"), Dir: t.TempDir(), AdminAddress: fmt.Sprintf("127.0.0.1:%d", admin), Concurrency: 1,
		BaseID: 20_000 + os.Getpid()%10_000, Grace: time.Second, Stdout: io.Discard})
	run(t, s)
	serves := func() bool {
		r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/", front))
		if err != nil {
			return false
		}
		r.Body.Close()
		return r.Header.Get("X-Mark") == "0"
	}
	eventually(t, "Envoy serves", serves)
	before := s.Status()
	if err := s.HotRestart(t.Context(), func() ([]byte, error) { return []byte(`{"no":"bootstrap"}`), nil }); err == nil || !strings.Contains(err.Error(), "the present one goes on") {
		t.Errorf("the restart says %v", err)
	}
	if !serves() || s.Status().PID != before.PID {
		t.Errorf("status %+v", s.Status())
	}
}

// TestHotRestartIsRefusedWhereItCannotBe says what would be right.
func TestHotRestartIsRefusedWhereItCannotBe(t *testing.T) {
	cold := New(Options{Path: script(t, "exec sleep 60\n"), Dir: t.TempDir(), AdminAddress: "127.0.0.1:1", Stdout: io.Discard})
	run(t, cold)
	if err := cold.HotRestart(t.Context(), nil); !errors.Is(err, ErrCold) || !strings.Contains(err.Error(), "--envoy-base-id") {
		t.Errorf("without a base id: %v", err)
	}
	without := New(Options{Path: script(t, "echo disabled\n"), BaseID: 1, Dir: t.TempDir(), AdminAddress: "127.0.0.1:1", Stdout: io.Discard})
	if err := without.Run(t.Context()); err == nil || !strings.Contains(err.Error(), `says "disabled"`) || !strings.Contains(err.Error(), "--envoy-base-id to 0") {
		t.Errorf("a binary without hot restart: %v", err)
	}
}
