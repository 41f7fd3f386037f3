package validator

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// TestSweep: a new validator removes the folders whose owner is gone, and no others.
func TestSweep(t *testing.T) {
	temp, err := os.MkdirTemp("", "s") // short: paths of sockets have 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(temp) })
	state := t.TempDir()
	t.Setenv("TMPDIR", temp)
	folder := func(name string) string {
		dir := filepath.Join(temp, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	file := func(path string, age time.Duration) {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	listen := func(dir string) *net.UnixListener {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, adsSocket), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	// The owner of one was killed: its socket is there, and nobody listens.
	l := listen(folder(folderPrefix + "killed"))
	l.SetUnlinkOnClose(false)
	l.Close()
	defer listen(folder(folderPrefix + "alive")).Close()
	old := folder(folderPrefix + "emptied")
	file(filepath.Join(old, "bootstrap.json"), 0)
	if err := os.Chtimes(old, time.Time{}, time.Now().Add(-2*settled)); err != nil {
		t.Fatal(err)
	}
	folder(folderPrefix + "begun")
	folder("somebody-else")
	if err := os.Symlink(old, filepath.Join(temp, folderPrefix+"link")); err != nil {
		t.Fatal(err)
	}
	file(filepath.Join(state, "verdicts.1.tmp"), 2*settled)
	file(filepath.Join(state, "verdicts.2.tmp"), 0)
	file(filepath.Join(state, "other.tmp"), 2*settled)
	v, err := New(Options{Dir: state})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	names := func(dir string) (out []string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			out = append(out, e.Name())
		}
		return out
	}
	if got, want := names(temp), []string{folderPrefix + "alive", folderPrefix + "begun", folderPrefix + "link", "somebody-else"}; !slices.Equal(got, want) {
		t.Errorf("left are %v, want %v", got, want)
	}
	if got, want := names(state), []string{"other.tmp", "verdicts.2.tmp"}; !slices.Equal(got, want) {
		t.Errorf("left are %v, want %v", got, want)
	}
}

// TestSweepWhileItBegins: at no time does a folder whose child begins look abandoned to another validator.
func TestSweepWhileItBegins(t *testing.T) {
	temp, err := os.MkdirTemp("", "b")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(temp) })
	for i := range 1000 {
		dir := filepath.Join(temp, strconv.Itoa(i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		var listening atomic.Bool
		looks := make(chan bool)
		go func() {
			gone := false
			for !listening.Load() && !gone {
				gone = abandoned(dir, time.Now())
			}
			looks <- gone
		}()
		l, err := listen(dir)
		listening.Store(true)
		if <-looks {
			t.Fatalf("folder %d was taken for abandoned", i)
		}
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
}

// TestSweepAlive: a child that works has its folder still after another validator has begun.
func TestSweepAlive(t *testing.T) {
	v := open(t, nil)
	judge(t, v, prefix("a"))
	dir := v.child.dir
	sweepFolders(slog.New(slog.DiscardHandler))
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
	if out, err := v.Judge(t.Context(), []*ir.Unit{prefix("b")}); err != nil || len(out.Unjudged) > 0 || v.Status().Starts != 1 {
		t.Errorf("%v %+v %+v", err, out, v.Status())
	}
}

// TestKilled: when whoever started it is killed, the child ends with him, and what is left of both is removed by the next.
func TestKilled(t *testing.T) {
	if os.Getenv("CHANCERY_TEST_ELSEWHERE") != "" {
		v := open(t, nil)
		judge(t, v, prefix("a"))
		fmt.Printf("child %d\n", v.Status().PID)
		time.Sleep(time.Minute)
		return
	}
	envoy := findEnvoy(t)
	temp, err := os.MkdirTemp("", "k")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(temp) })
	cmd := exec.Command(os.Args[0], "-test.run", "^TestKilled$")
	cmd.Env = append(os.Environ(), "CHANCERY_TEST_ELSEWHERE=1", "TMPDIR="+temp, "CHANCERY_ENVOY="+envoy)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var child int
	if _, err := fmt.Fscanf(out, "child %d\n", &child); err != nil {
		t.Error(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it was not killed")
	}
	for deadline := time.Now().Add(30 * time.Second); syscall.Kill(child, 0) == nil; time.Sleep(10 * time.Millisecond) {
		if state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child)); err == nil && strings.Contains(string(state), ") Z ") {
			break // nobody has taken note of its end yet
		}
		if time.Now().After(deadline) {
			t.Fatal("the child lives on")
		}
	}
	left := func() int {
		found, err := filepath.Glob(filepath.Join(temp, folderPrefix+"*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	if left() != 1 {
		t.Fatalf("%d folders are left", left())
	}
	t.Setenv("TMPDIR", temp)
	sweepFolders(slog.New(slog.DiscardHandler))
	if left() != 0 {
		t.Error("its folder is still there")
	}
}
