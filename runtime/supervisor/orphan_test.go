package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/snapshot/porttest"
)

// TestMain turns the test binary into a program that only supervises, for the test that kills it.
func TestMain(m *testing.M) {
	path := os.Getenv("SUPERVISOR_TEST_PATH")
	if path == "" {
		os.Exit(m.Run())
	}
	s := New(Options{Path: path, Bootstrap: []byte("{}"), Dir: os.Getenv("SUPERVISOR_TEST_DIR"), Outlives: os.Getenv("SUPERVISOR_TEST_OUTLIVES") != "",
		AdminAddress: "127.0.0.1:1", Stdout: io.Discard})
	go func() {
		for s.Status().PID == 0 {
			time.Sleep(time.Millisecond)
		}
		fmt.Println(s.Status().PID)
	}()
	if err := s.Run(context.Background()); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// TestKilledSupervisorTakesEnvoyAlong kills the supervising process with SIGKILL.
func TestKilledSupervisorTakesEnvoyAlong(t *testing.T) {
	for _, outlives := range []bool{false, true} {
		t.Run(fmt.Sprintf("outlives=%t", outlives), func(t *testing.T) {
			parent := exec.Command(os.Args[0])
			parent.Env = append(os.Environ(), "SUPERVISOR_TEST_PATH="+script(t, "exec sleep 300\n"), "SUPERVISOR_TEST_DIR="+t.TempDir())
			if outlives {
				parent.Env = append(parent.Env, "SUPERVISOR_TEST_OUTLIVES=1")
			}
			out, err := parent.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := parent.Start(); err != nil {
				t.Fatal(err)
			}
			line := make([]byte, 32)
			n, err := out.Read(line)
			if err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(strings.TrimSpace(string(line[:n])))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
			if err := parent.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = parent.Wait()
			if outlives {
				if err := syscall.Kill(pid, 0); err != nil {
					t.Errorf("the child died too: %v", err)
				}
				return
			}
			eventually(t, "the child is gone", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || zombie(pid) })
		})
	}
}

// zombie reports whether the process has ended and only waits to be noticed by its new parent.
func zombie(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, after, _ := strings.Cut(string(data), ") ")
	return strings.HasPrefix(after, "Z")
}

// TestBusyEnvoyIsAlive: one that takes up configuration, and does not answer for so long, is there nevertheless; a port at which nobody
// listens has none.
func TestBusyEnvoyIsAlive(t *testing.T) {
	var asked atomic.Int64
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			<-r.Context().Done() // whoever asks has given up
			return
		}
		fmt.Fprint(w, `{"version":"x/1.40.0/y","state":"LIVE"}`)
	}))
	defer admin.Close()
	if !Alive(t.Context(), admin.Listener.Addr().String()) || asked.Load() < 2 {
		t.Errorf("after %d questions it is thought to be gone", asked.Load())
	}
	if Alive(t.Context(), fmt.Sprint("127.0.0.1:", porttest.Free(t, 1)[0])) {
		t.Error("nobody is alive")
	}
}

// TestAdoptedEnvoyThatHungIsKept: an Envoy of an earlier run that does not answer for a while is taken over again when it does, and
// nobody fights it for its ports.
func TestAdoptedEnvoyThatHungIsKept(t *testing.T) {
	var out log
	left, gone, o := earlier(t, &out)
	o.PauseMin, o.PauseMax = 10*time.Millisecond, 100*time.Millisecond
	s := New(o)
	end := run(t, s)
	eventually(t, "it is taken over", func() bool { return strings.Count(out.String(), "is kept") == 1 })
	if err := left.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it seems to be gone", func() bool { return strings.Contains(out.String(), "is gone") })
	if err := left.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is taken over again", func() bool {
		return strings.Count(out.String(), "is kept") == 2 && s.Status().State == Running && s.Status().PID == 0
	})
	if err := end(nil); err != nil {
		t.Error(err)
	}
	if err := <-gone; err != nil {
		t.Errorf("the old Envoy ended with %v", err)
	}
}
