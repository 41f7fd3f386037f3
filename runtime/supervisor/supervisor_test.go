package supervisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/snapshot/porttest"
)

// log collects log records of several goroutines.
type log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *log) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// eventually waits until ok says yes.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never came about: %s", what)
		}
	}
}

// script writes a program that stands in for Envoy. Nobody forks meanwhile: a child that had the file open for writing would keep
// the kernel from running it.
func script(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "envoy")
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte("#!/bin/sh\n"+body), 0o700)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// run starts the supervisor; end ends it and waits.
func run(t *testing.T, s *Supervisor) (end func(cause error) error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	end = func(cause error) error {
		cancel(cause)
		select {
		case err := <-done:
			done <- err
			return err
		case <-time.After(2 * time.Minute):
			t.Fatal("the supervisor does not end")
			return nil
		}
	}
	t.Cleanup(func() { _ = end(nil) })
	return end
}

func realEnvoy(t *testing.T) string {
	t.Helper()
	path, err := Find(os.Getenv("CHANCERY_ENVOY"))
	if err != nil {
		if os.Getenv("CI") == "" {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	return path
}

func TestCrashingProgramIsRestartedWithGrowingPause(t *testing.T) {
	var out log
	s := New(Options{Path: script(t, "echo boom >&2\nexit 7\n"), Dir: t.TempDir(), Log: out.logger(), PauseMin: time.Millisecond, PauseMax: 16 * time.Millisecond, Stdout: io.Discard})
	end := run(t, s)
	eventually(t, "eight restarts", func() bool { return s.Status().Restarts >= 8 })
	if exit := s.Status().LastExit; exit != "exit status 7" {
		t.Errorf("last exit is %q", exit)
	}
	if err := end(nil); err != nil {
		t.Error(err)
	}
	if s.Status().State != Stopped {
		t.Errorf("state is %s", s.Status().State)
	}
	text := out.String()
	for _, want := range []string{"pause=1ms", "pause=2ms", "pause=4ms", "pause=8ms", "pause=16ms", "msg=boom"} {
		if !strings.Contains(text, want) {
			t.Errorf("log has no %q", want)
		}
	}
	if strings.Contains(text, "pause=32ms") {
		t.Error("the pause grows beyond its bound")
	}
}

func TestStubbornProgramIsKilled(t *testing.T) {
	var out log
	s := New(Options{Path: script(t, "trap '' TERM\necho up >&2\nwhile :; do sleep 1; done\n"), Dir: t.TempDir(), Log: out.logger(),
		Grace: 10 * time.Millisecond, Kill: 50 * time.Millisecond, AdminAddress: "127.0.0.1:1", Stdout: io.Discard})
	end := run(t, s)
	eventually(t, "the program is up", func() bool { return strings.Contains(out.String(), "msg=up") })
	pid := s.Status().PID
	if err := end(nil); err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d lives on: %v", pid, err)
	}
	if !strings.Contains(out.String(), "it is killed") {
		t.Errorf("log: %s", out.String())
	}
}

func TestBootstrapIsPrivateAndRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	var out log
	s := New(Options{Path: script(t, "case \"$*\" in *version*) echo 11.1; exit;; esac\necho \"$@\" >&2\nsleep 60\n"), Dir: dir, Bootstrap: []byte("{}"), Log: out.logger(), Concurrency: 2, BaseID: 5,
		DrainTime: 90 * time.Second, LogLevel: "error", AdminAddress: "127.0.0.1:1", Stdout: io.Discard})
	end := run(t, s)
	eventually(t, "the program is up", func() bool { return strings.Contains(out.String(), "--concurrency 2") })
	for _, want := range []string{"--base-id 5 --restart-epoch 0 --parent-shutdown-time-s 135", "--drain-time-s 90", "-l error", "-c " + dir} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("arguments have no %q: %s", want, out.String())
		}
	}
	found, _ := filepath.Glob(filepath.Join(dir, "bootstrap-*.json"))
	if len(found) != 1 {
		t.Fatalf("files %v", found)
	}
	info, err := os.Stat(found[0])
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	if err := end(nil); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(found[0]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the bootstrap is still there: %v", err)
	}
}

func TestProgramThatCannotStart(t *testing.T) {
	s := New(Options{Path: filepath.Join(t.TempDir(), "none"), Dir: t.TempDir()})
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "starting Envoy") {
		t.Errorf("error %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s = New(Options{Path: script(t, "exit 0"), Dir: filepath.Join(file, "below")})
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "directory for Envoy's bootstrap") {
		t.Errorf("error %v", err)
	}
}

func TestOutput(t *testing.T) {
	var out log
	w := &lineLog{log: out.logger()}
	long := strings.Repeat("x", 3*longest)
	for _, part := range []string{"warn", "ing\tmain\tit isn\\'t \\\"so\\\"\\nbad\n", "no format\n\n", "-----BEGIN PRIVATE KEY-----\n", long + "\n", "info\tconfig\tlast"} {
		if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	w.flush()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := []string{`level=WARN msg="it isn't \"so\" bad" process=envoy logger=main`, `level=ERROR msg="no format" process=envoy`, "private key is left out", "xxx", "level=INFO msg=last process=envoy logger=config"}
	if len(lines) != len(want) {
		t.Fatalf("%d lines: %.2000q", len(lines), lines)
	}
	for i := range want {
		if !strings.Contains(lines[i], want[i]) || len(lines[i]) > longest+200 {
			t.Errorf("line %d is %.200q, want %q", i, lines[i], want[i])
		}
	}
}

func TestFind(t *testing.T) {
	fake := script(t, "echo 'envoy  version: abc0123/1.35.2/Clean/RELEASE/BoringSSL'\n")
	t.Run("none", func(t *testing.T) {
		if path, err := Find(None); path != "" || err != nil {
			t.Error(path, err)
		}
	})
	t.Run("path", func(t *testing.T) {
		if path, err := Find(fake); path != fake || err != nil {
			t.Error(path, err)
		}
	})
	t.Run("missing", func(t *testing.T) {
		if _, err := Find("/no/envoy"); err == nil || !strings.Contains(err.Error(), "/no/envoy") {
			t.Error(err)
		}
	})
	t.Run("PATH", func(t *testing.T) {
		t.Setenv("PATH", filepath.Dir(fake))
		if path, err := Find(""); path != fake || err != nil {
			t.Error(path, err)
		}
	})
	t.Run("venv above", func(t *testing.T) {
		t.Setenv("PATH", "")
		root := t.TempDir()
		bin := filepath.Join(root, ".cache/venv/lib/python3.11/site-packages/envoy/_bin")
		if err := os.MkdirAll(bin, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(fake, filepath.Join(bin, "envoy")); err != nil {
			t.Fatal(err)
		}
		below := filepath.Join(root, "a/b")
		if err := os.MkdirAll(below, 0o700); err != nil {
			t.Fatal(err)
		}
		t.Chdir(below)
		if path, err := Find(""); filepath.Base(path) != "envoy" || err != nil {
			t.Error(path, err)
		}
	})
	t.Run("nowhere", func(t *testing.T) {
		t.Setenv("PATH", "")
		t.Chdir(t.TempDir())
		if _, err := Find(""); !errors.Is(err, ErrNotFound) {
			t.Error(err)
		}
	})
	t.Run("version", func(t *testing.T) {
		if v, err := Version(t.Context(), fake); v != "1.35.2" || err != nil {
			t.Error(v, err)
		}
		if _, err := Version(t.Context(), script(t, "echo hello\n")); err == nil || !strings.Contains(err.Error(), `is not Envoy: --version printed "hello"`) {
			t.Error(err)
		}
		if _, err := Version(t.Context(), script(t, "exit 3\n")); err == nil {
			t.Error("no error")
		}
	})
	for version, want := range map[string]bool{"1.35.9": false, "1.36.0": true, "1.40.0-dev": true, "2.0.0": true, "": false, "x.y": false} {
		if Supported(version) != want {
			t.Errorf("%q: supported is not %v", version, want)
		}
	}
}

// TestRealEnvoyDrains holds a request open through the end: it comes to its own end, new work is refused by then.
func TestRealEnvoyDrains(t *testing.T) {
	path := realEnvoy(t)
	release := make(chan struct{})
	arrived := make(chan struct{}, 1)
	backend := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-release
		fmt.Fprint(w, "done")
	})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go backend.Serve(l)
	t.Cleanup(func() { backend.Close() })
	p := porttest.Free(t, 2)
	admin, front := p[0], p[1]
	bootstrap := fmt.Sprintf(`{"admin":{"address":{"socket_address":{"address":"127.0.0.1","port_value":%d}}},
"static_resources":{"listeners":[{"name":"l","address":{"socket_address":{"address":"127.0.0.1","port_value":%d}},"filter_chains":[{"filters":[{"name":"h",
"typed_config":{"@type":"type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager","stat_prefix":"s",
"route_config":{"virtual_hosts":[{"name":"v","domains":["*"],"routes":[{"match":{"prefix":"/"},"route":{"cluster":"c"}}]}]},
"http_filters":[{"name":"router","typed_config":{"@type":"type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}]}}]}]}],
"clusters":[{"name":"c","type":"STATIC","load_assignment":{"cluster_name":"c","endpoints":[{"lb_endpoints":[{"endpoint":{"address":{"socket_address":{"address":"127.0.0.1","port_value":%d}}}}]}]}}]}}`,
		admin, front, l.Addr().(*net.TCPAddr).Port)
	var out log
	s := New(Options{Path: path, Bootstrap: []byte(bootstrap), Dir: t.TempDir(), AdminAddress: fmt.Sprintf("127.0.0.1:%d", admin), Concurrency: 1,
		LogLevel: "info", DrainTime: 60 * time.Second, Grace: 50 * time.Second, Log: out.logger(), Stdout: io.Discard})
	end := run(t, s)
	url := fmt.Sprintf("http://127.0.0.1:%d/", front)
	answer := make(chan string, 1)
	go func() {
		for {
			resp, err := http.Get(url)
			if err != nil {
				time.Sleep(10 * time.Millisecond) // not listening yet
				continue
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			answer <- fmt.Sprint(string(body), " ", err)
			return
		}
	}()
	select {
	case <-arrived:
	case <-time.After(2 * time.Minute):
		t.Fatalf("no request arrives: %s", out.String())
	}
	if st := s.Status(); st.State != Running || st.PID == 0 {
		t.Errorf("status %+v", st)
	}
	ended := make(chan error, 1)
	go func() { ended <- end(ErrHurry) }()
	eventually(t, "draining", func() bool { return s.Status().State == Draining })
	select {
	case err := <-ended:
		t.Fatalf("ended while a request was in flight: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	close(release)
	if got := <-answer; got != "done <nil>" {
		t.Errorf("the request in flight got %q", got)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if !strings.Contains(out.String(), "Envoy drained") || strings.Contains(out.String(), "it is killed") {
		t.Errorf("log: %s", out.String())
	}
}

// TestRealEnvoyIsRestartedAfterKill kills Envoy and expects another one.
func TestRealEnvoyIsRestartedAfterKill(t *testing.T) {
	path := realEnvoy(t)
	admin := porttest.Free(t, 1)[0]
	bootstrap := fmt.Sprintf(`{"admin":{"address":{"socket_address":{"address":"127.0.0.1","port_value":%d}}}}`, admin)
	s := New(Options{Path: path, Bootstrap: []byte(bootstrap), Dir: t.TempDir(), AdminAddress: fmt.Sprintf("127.0.0.1:%d", admin), Concurrency: 1, PauseMin: time.Millisecond, Stdout: io.Discard})
	run(t, s)
	live := func() bool {
		resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/ready", admin))
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}
	eventually(t, "Envoy is live", live)
	old := s.Status().PID
	if old <= 0 {
		t.Fatalf("status %+v", s.Status())
	}
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another Envoy is live", func() bool { return s.Status().PID != old && s.Status().PID != 0 && live() })
	if st := s.Status(); st.Restarts != 1 || st.LastExit != "signal: killed" {
		t.Errorf("status %+v", st)
	}
}

// earlier starts an Envoy as an earlier run would have left it, and returns it, how it ends, and the options of the next run.
func earlier(t *testing.T, out *log) (left *exec.Cmd, gone <-chan error, next Options) {
	t.Helper()
	path := realEnvoy(t)
	admin := porttest.Free(t, 1)[0]
	address := fmt.Sprintf("127.0.0.1:%d", admin)
	bootstrap := fmt.Sprintf(`{"admin":{"address":{"socket_address":{"address":"127.0.0.1","port_value":%d}}}}`, admin)
	left = exec.Command(path, "--config-yaml", bootstrap, "--concurrency", "1", "--disable-hot-restart", "-l", "off")
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- left.Wait() }()
	t.Cleanup(func() { _ = left.Process.Kill() })
	eventually(t, "the old Envoy is there", func() bool { return Alive(t.Context(), address) })
	return left, ended, Options{Path: path, Bootstrap: []byte(bootstrap), Dir: t.TempDir(), AdminAddress: address, Concurrency: 1, Outlives: true,
		Grace: time.Second, Log: out.logger(), Stdout: io.Discard}
}

// TestRealEnvoyIsAdopted starts an Envoy as an earlier run would have left it.
func TestRealEnvoyIsAdopted(t *testing.T) {
	var out log
	_, gone, o := earlier(t, &out)
	s := New(o)
	end := run(t, s)
	eventually(t, "it is taken over", func() bool { return s.Status().State == Running })
	if pid := s.Status().PID; pid != 0 {
		t.Errorf("another Envoy %d was started", pid)
	}
	if err := end(nil); err != nil {
		t.Error(err)
	}
	if err := <-gone; err != nil {
		t.Errorf("the old Envoy ended with %v", err)
	}
	if !strings.Contains(out.String(), "is kept") || strings.Contains(out.String(), "Envoy started") {
		t.Errorf("log: %s", out.String())
	}
}

// TestAdoptedEnvoyThatGoesIsReplaced kills the old Envoy and expects a child.
func TestAdoptedEnvoyThatGoesIsReplaced(t *testing.T) {
	path := realEnvoy(t)
	admin := porttest.Free(t, 1)[0]
	address := fmt.Sprintf("127.0.0.1:%d", admin)
	bootstrap := fmt.Sprintf(`{"admin":{"address":{"socket_address":{"address":"127.0.0.1","port_value":%d}}}}`, admin)
	left := exec.Command(path, "--config-yaml", bootstrap, "--concurrency", "1", "--disable-hot-restart", "-l", "off")
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the old Envoy is there", func() bool { return Alive(t.Context(), address) })
	s := New(Options{Path: path, Bootstrap: []byte(bootstrap), Dir: t.TempDir(), AdminAddress: address, Concurrency: 1, Outlives: true, Grace: time.Second, Stdout: io.Discard})
	run(t, s)
	eventually(t, "it is taken over", func() bool { return s.Status().State == Running })
	if err := left.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = left.Wait()
	eventually(t, "a child replaces it", func() bool { return s.Status().PID != 0 && Alive(t.Context(), address) })
}
