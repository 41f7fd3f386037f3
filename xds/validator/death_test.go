package validator

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// disguised is a route whose code nobody notices before Envoy runs it, as of an extension that this program does not know.
func disguised(name, code string) *candidate {
	c := &candidate{unit: luaRoute(name, code)}
	c.key = key([]byte(fmt.Sprintf("%-16.16s", name)))
	return c
}

// TestKillersAndHangers: units that end or hang Envoy are found exactly, announced or not, and no innocent is blamed.
func TestKillersAndHangers(t *testing.T) {
	v := open(t, nil)
	var units []*ir.Unit
	for i := range 200 {
		units = append(units, prefix(fmt.Sprintf("innocent-%d", i)))
	}
	bad := []suspect{
		{`Envoy ends when it loads this: exit status 1`, luaRoute("killer", "os.exit(1)")},
		{`Envoy does not answer`, luaRoute("hanger", "while true do end")},
		{`missing \]`, regex("bracket", "/[a-")},
	}
	units = append(units, unitsOf(bad)...)
	out := judge(t, v, units...)
	compare(t, bad, out)
	if len(out.Refused) != len(bad) {
		t.Errorf("%d refused, want %d: %v", len(out.Refused), len(bad), out.Refused)
	}
	s := v.Status()
	// How often Envoy had to die for these verdicts depends on how busy the machine is; who is guilty does not.
	if s.Hangs < 1 || s.Deaths < 1 || s.Starts < 3 {
		t.Errorf("status %+v", s)
	}

	t.Run("disguised", func(t *testing.T) {
		v.turn.Lock()
		defer v.turn.Unlock()
		j := &judgement{v: v, ctx: t.Context(), out: Verdicts{Refused: map[*ir.Unit]string{}}}
		var all []*candidate
		for i := range 200 {
			all = append(all, disguised(fmt.Sprintf("harmless-%d", i), fmt.Sprintf("x = %d", i)))
		}
		killer, hanger := disguised("killer-2", "os.exit(2)"), disguised("hanger-2", "while 1 do end")
		all[77], all[150] = killer, hanger
		if err := j.judge(all); err != nil {
			t.Fatal(err)
		}
		if len(j.out.Refused) != 2 || !strings.Contains(j.out.Refused[killer.unit], "exit status 2") || !strings.Contains(j.out.Refused[hanger.unit], "does not answer") {
			t.Errorf("refused %v", j.out.Refused)
		}
	})
}

// TestMurder: an Envoy that something else kills costs no verdict.
func TestMurder(t *testing.T) {
	v := open(t, nil)
	if err := v.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for round := range 12 {
		var killer sync.WaitGroup
		killer.Go(func() { // once a judgement: what is killed twice while it is alone with Envoy is guilty
			time.Sleep(time.Duration(round) * 20 * time.Millisecond)
			if pid := v.Status().PID; pid > 0 {
				syscall.Kill(pid, syscall.SIGKILL) // may be gone
			}
		})
		var units []*ir.Unit
		for i := range 300 {
			units = append(units, prefix(fmt.Sprintf("r%d-%d", round, i)), eds(fmt.Sprintf("c%d-%d", round, i), nil))
		}
		bad := regex("bad", fmt.Sprintf("/[%d", round))
		units = append(units, bad)
		if out := judge(t, v, units...); len(out.Refused) != 1 || out.Refused[bad] == "" {
			t.Errorf("refused %v", out.Refused)
		}
		killer.Wait()
	}
	if s := v.Status(); s.Deaths == 0 {
		t.Errorf("nothing died: %+v", s)
	}
	if pid := v.Status().PID; pid > 0 {
		syscall.Kill(pid, syscall.SIGKILL) // may be gone
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if s := v.Status(); s.Running && v.child != nil && s.Starts > s.Deaths {
			break // an idle one is replaced without being asked for
		}
		if time.Now().After(deadline) {
			t.Fatalf("it does not come back: %+v", v.Status())
		}
	}
}

func bodyFile(name, file string) *ir.Unit {
	return unit(ir.UnitRoute, name, &routev3.Route{Name: name, Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
		Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 200, Body: &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: file}}}}})
}

// TestFiles: what would block Envoy for ever is refused before it sees it, and a verdict about a file is not kept.
func TestFiles(t *testing.T) {
	v := open(t, nil)
	dir := t.TempDir()
	fifo, file, absent := filepath.Join(dir, "fifo"), filepath.Join(dir, "file"), filepath.Join(dir, "absent")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	all := []suspect{{`is no regular file but a FIFO`, bodyFile("fifo", fifo)}, {`a directory`, bodyFile("dir", dir)}, {"", bodyFile("file", file)}, {`absent`, bodyFile("absent", absent)}}
	compare(t, all, judge(t, v, unitsOf(all)...))
	if err := os.WriteFile(absent, []byte("now"), 0o600); err != nil {
		t.Fatal(err)
	}
	all[3].want = ""
	compare(t, all, judge(t, v, unitsOf(all)...))
}

// TestMemory: verdicts outlive the process, but for those of another Envoy or another setting, and a damaged file is not believed.
func TestMemory(t *testing.T) {
	dir := t.TempDir()
	bad := regex("bad", "/[a")
	run := func(change func(*Options)) Metrics {
		t.Helper()
		v := open(t, func(o *Options) {
			o.Dir = dir
			if change != nil {
				change(o)
			}
		})
		out := judge(t, v, prefix("a"), prefix("b"), bad, prefix("b"))
		if len(out.Refused) != 1 || !strings.Contains(out.Refused[bad], "missing ]") {
			t.Errorf("refused %v", out.Refused)
		}
		if err := v.Close(); err != nil {
			t.Fatal(err)
		}
		return v.Status().Metrics
	}
	if m := run(nil); m.CacheHits != 0 || m.Judged != 3 {
		t.Errorf("first: %+v", m)
	}
	if m := run(nil); m.CacheHits != 4 || m.Judged != 0 || m.Starts != 0 {
		t.Errorf("second: %+v", m)
	}
	if m := run(func(o *Options) { o.Version = "1.41.0" }); m.CacheHits != 0 {
		t.Errorf("another version: %+v", m)
	}
	if m := run(func(o *Options) { o.Version = "1.41.0"; o.Runtime = nil }); m.CacheHits != 0 {
		t.Errorf("another runtime: %+v", m)
	}
	path := filepath.Join(dir, "verdicts")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if m := run(func(o *Options) { o.Version = "1.41.0"; o.Runtime = nil }); m.CacheHits != 0 {
		t.Errorf("damaged: %+v", m)
	}
}

// TestNoEnvoy: without one, nothing is refused and everything is unjudged.
func TestNoEnvoy(t *testing.T) {
	for name, script := range map[string]string{"ends": "#!/bin/sh\necho no such option >&2\nexit 1\n", "absent": ""} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "envoy")
			if script != "" {
				if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			v, err := New(Options{Envoy: path})
			if err != nil {
				t.Fatal(err)
			}
			defer v.Close()
			out, err := v.Judge(t.Context(), []*ir.Unit{prefix("a"), prefix("a"), regex("b", "[")})
			if err == nil || len(out.Unjudged) != 3 || len(out.Refused) != 0 {
				t.Errorf("%v %+v", err, out)
			}
			if s := v.Status(); s.Running || s.Problem == "" || script != "" && !strings.Contains(s.Problem, "no such option") {
				t.Errorf("status %+v", s)
			}
		})
	}
}

// TestMetrics: what is counted is what happened.
func TestMetrics(t *testing.T) {
	v := open(t, nil)
	is := func(when string, want Metrics) {
		t.Helper()
		got := v.Status().Metrics
		if got.Took <= 0 && got.Responses > 0 {
			t.Errorf("%s: no time has passed", when)
		}
		got.Took = 0
		if got != want {
			t.Errorf("%s: %+v, want %+v", when, got, want)
		}
	}
	is("at first", Metrics{})
	units := []*ir.Unit{prefix("a"), prefix("b"), regex("bad", "/[a")}
	judge(t, v, units...)
	is("three routes", Metrics{Judged: 3, Refused: 1, Starts: 1, Responses: 4}) // together, then each alone
	took := v.Status().Took
	judge(t, v, units...)
	is("again", Metrics{Judged: 3, Refused: 1, Starts: 1, Responses: 4, CacheHits: 3})
	if v.Status().Took <= took {
		t.Error("the time stands still")
	}
	old := v.Status().PID
	if old <= 0 {
		t.Fatalf("none runs: %+v", v.Status())
	}
	syscall.Kill(old, syscall.SIGKILL) // may be gone
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if s := v.Status(); s.Running && s.PID != old {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("it does not come back: %+v", v.Status())
		}
	}
	is("killed", Metrics{Judged: 3, Refused: 1, Starts: 2, Deaths: 1, Responses: 4, CacheHits: 3})
	judge(t, v, prefix("c"), eds("one", nil), eds("two", nil)) // two of one form
	is("later", Metrics{Judged: 5, Refused: 1, Starts: 2, Deaths: 1, Responses: 6, CacheHits: 3})
	judge(t, v, luaRoute("hanger", "(function() while true do end end)()"))
	for deadline := time.Now().Add(30 * time.Second); v.Status().Hangs < 2 && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond) // its end is counted by whoever waits for it
	}
	if s := v.Status(); s.Hangs != 2 || s.Deaths != 1 || s.Refused != 2 || s.Judged != 6 {
		t.Errorf("hung: %+v", s.Metrics)
	}
}

// TestBackOff: an Envoy that does not start is not started over and over, however often one is asked for.
func TestBackOff(t *testing.T) {
	dir := t.TempDir()
	starts, path := filepath.Join(dir, "starts"), filepath.Join(dir, "envoy")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho >> "+starts+"\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	v, err := New(Options{Envoy: path})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	begun := time.Now()
	count := func() int {
		if _, err := v.Judge(t.Context(), []*ir.Unit{prefix("a")}); err == nil {
			t.Fatal("judged by nobody")
		}
		text, err := os.ReadFile(starts)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(text), "\n")
	}
	n := 0
	for range 200 {
		n = count()
	}
	for n < 2 && time.Since(begun) < time.Minute { // there is a second, after a while
		time.Sleep(pauseMin / 20)
		n = count()
	}
	longest := 1
	for pause, at := pauseMin, time.Duration(0); at+pause <= time.Since(begun); pause *= 2 {
		at += pause
		longest++
	}
	if n < 2 || n > longest {
		t.Errorf("%d starts within %s, want 2 to %d", n, time.Since(begun), longest)
	}
}
