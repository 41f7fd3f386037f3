// Package supervisor runs Envoy as a child process: starts it, turns its output into our log, starts it again with a
// growing pause when it dies, and ends it gracefully.
package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// ErrHurry as the cause of a context's end (context.WithCancelCause) makes Run wait for requests in flight only, not for
// connections that are merely open.
var ErrHurry = errors.New("stop as soon as no request is in flight")

// Options say which Envoy runs and how.
type Options struct {
	// Path is the Envoy binary.
	Path string
	// Bootstrap is the content of its bootstrap file, JSON; Dir is the directory that holds the file.
	Bootstrap []byte
	Dir       string
	// AdminAddress is host:port of Envoy's admin interface, as in Bootstrap. ReadyAddress is that of the ready listener, whose own
	// connections do not count as traffic.
	AdminAddress string
	ReadyAddress string
	// Concurrency is the number of workers, 0 for one per core. BaseID 0 switches hot restart off.
	Concurrency int
	BaseID      int
	// LogLevel is Envoy's own name of a level.
	LogLevel string
	// DrainTime is --drain-time-s, in whole seconds. Grace bounds the graceful end, Kill the wait between SIGTERM and SIGKILL.
	DrainTime time.Duration
	Grace     time.Duration
	Kill      time.Duration
	// Outlives lets Envoy run on when this process dies, and takes over one that did.
	Outlives bool
	// PauseMin and PauseMax bound the pause before a restart; it doubles with each death within Stable of the start.
	// Zero values mean 250 ms, 30 s and 10 s.
	PauseMin, PauseMax, Stable time.Duration
	// Stdout takes Envoy's standard output, which carries access logs; nil for our own.
	Stdout io.Writer
	Log    *slog.Logger
}

// State is the state of the child process.
type State string

// The states.
const (
	Waiting  State = "waiting"
	Running  State = "running"
	Crashed  State = "crashed"
	Draining State = "draining"
	Stopped  State = "stopped"
)

// Status is what is known of the child process.
type Status struct {
	State    State     `json:"state"`
	PID      int       `json:"pid,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Restarts int       `json:"restarts"`
	// LastExit says how the last child ended; "" when none did.
	LastExit string `json:"lastExit,omitempty"`
}

// Supervisor runs one Envoy.
type Supervisor struct {
	options Options

	mu     sync.Mutex
	status Status
}

// New returns a supervisor that has not started anything.
func New(o Options) *Supervisor {
	if o.PauseMin == 0 {
		o.PauseMin = 250 * time.Millisecond
	}
	if o.PauseMax == 0 {
		o.PauseMax = 30 * time.Second
	}
	if o.Stable == 0 {
		o.Stable = 10 * time.Second
	}
	if o.Kill == 0 {
		o.Kill = 5 * time.Second
	}
	if o.Stdout == nil {
		o.Stdout = os.Stdout
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Supervisor{options: o, status: Status{State: Waiting}}
}

// Status returns the present state.
func (s *Supervisor) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

func (s *Supervisor) set(change func(*Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.status)
}

// Run keeps Envoy running until ctx ends, then ends it gracefully and returns nil. It returns an error only when Envoy
// cannot be started at all (the bootstrap cannot be written, the binary cannot be executed on the first try).
func (s *Supervisor) Run(ctx context.Context) error {
	o := s.options
	defer s.set(func(st *Status) { st.State, st.PID = Stopped, 0 })
	path, err := s.writeBootstrap()
	if err != nil {
		return err
	}
	defer os.Remove(path)
	if o.Outlives && Alive(ctx, o.AdminAddress) {
		s.adopt(ctx)
		if ctx.Err() != nil {
			return nil
		}
	}
	pause := o.PauseMin
	for first := true; ; first = false {
		started := time.Now()
		exit, err := s.once(ctx, path)
		if err != nil && first {
			return fmt.Errorf("starting Envoy: %w", err)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			exit = err.Error()
		}
		if time.Since(started) >= o.Stable {
			pause = o.PauseMin
		}
		s.set(func(st *Status) {
			st.State, st.PID, st.LastExit, st.Since = Crashed, 0, exit, time.Now()
			st.Restarts++
		})
		o.Log.Error("Envoy ended; it is started again", "exit", exit, "after", time.Since(started).Round(time.Millisecond), "pause", pause)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		pause = min(2*pause, o.PauseMax)
	}
}

// writeBootstrap writes the bootstrap where only we can read it.
func (s *Supervisor) writeBootstrap() (string, error) {
	if err := os.MkdirAll(s.options.Dir, 0o700); err != nil {
		return "", fmt.Errorf("directory for Envoy's bootstrap: %w", err)
	}
	f, err := os.CreateTemp(s.options.Dir, "bootstrap-*.json") // made with mode 0600
	if err != nil {
		return "", fmt.Errorf("bootstrap of Envoy: %w", err)
	}
	_, err = f.Write(s.options.Bootstrap)
	if err := errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("bootstrap of Envoy: %w", err)
	}
	return filepath.Abs(f.Name())
}

// arguments returns Envoy's command line. It carries no configuration but the bootstrap's name.
func (s *Supervisor) arguments(bootstrap string) []string {
	o := s.options
	args := []string{"-c", bootstrap, "--log-format", logFormat, "--log-format-escaped"}
	if o.LogLevel != "" {
		args = append(args, "-l", o.LogLevel)
	}
	if o.DrainTime > 0 {
		args = append(args, "--drain-time-s", strconv.Itoa(max(1, int(o.DrainTime.Round(time.Second)/time.Second))))
	}
	if o.BaseID > 0 {
		args = append(args, "--base-id", strconv.Itoa(o.BaseID))
	} else {
		args = append(args, "--disable-hot-restart")
	}
	if o.Concurrency > 0 {
		args = append(args, "--concurrency", strconv.Itoa(o.Concurrency))
	}
	return args
}

// once runs one child to its end and says how it ended.
func (s *Supervisor) once(ctx context.Context, bootstrap string) (exit string, err error) {
	o := s.options
	cmd := exec.Command(o.Path, s.arguments(bootstrap)...)
	cmd.Stdout = o.Stdout
	output := &lineLog{log: o.Log}
	cmd.Stderr = output
	cmd.WaitDelay = time.Second // what Envoy may have left running does not hold us
	// A group of its own: Ctrl-C in a terminal reaches us, and we drain Envoy.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if !o.Outlives {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	started, ended := make(chan error), make(chan error, 1)
	go func() {
		// The kernel sends Pdeathsig when the thread that forked ends, so this thread must live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		err := cmd.Wait()
		output.flush()
		ended <- err
	}()
	if err := <-started; err != nil {
		return "", err
	}
	s.set(func(st *Status) { st.State, st.PID, st.Since = Running, cmd.Process.Pid, time.Now() })
	o.Log.Info("Envoy started", "pid", cmd.Process.Pid, "path", o.Path)
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = s.stop(context.Cause(ctx), cmd.Process, ended)
	}
	if err != nil {
		return err.Error(), nil
	}
	return "exit status 0", nil
}
