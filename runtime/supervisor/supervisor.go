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
	"path/filepath"
	"sync"
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
	// Concurrency is the number of workers, 0 for one per core. BaseID tells this Envoy apart from others on the machine that can be
	// restarted hot; 0 switches hot restart off.
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
	Unwanted State = "none" // there is no Envoy to run
)

// Status is what is known of the child process.
type Status struct {
	State    State     `json:"state"`
	PID      int       `json:"pid,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Restarts int       `json:"restarts"`
	// Epoch counts the hot restarts since the last start from nothing.
	Epoch int `json:"epoch,omitempty"`
	// LastExit says how the last child ended; "" when none did.
	LastExit string `json:"lastExit,omitempty"`
}

// Supervisor runs one Envoy.
type Supervisor struct {
	options Options
	again   chan again

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
	return &Supervisor{options: o, again: make(chan again), status: Status{State: Waiting}}
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
	if err := s.checkHotRestart(ctx); err != nil {
		return err
	}
	path, err := s.writeBootstrap(o.Bootstrap)
	if err != nil {
		return err
	}
	defer func() { os.Remove(path) }()
	pause := o.PauseMin
	for first := true; ; first = false {
		if o.Outlives && Alive(ctx, o.AdminAddress) { // perhaps one that hung, and so seemed to be gone
			s.adopt(ctx)
			if ctx.Err() != nil {
				return nil
			}
		}
		started := time.Now()
		exit, err := s.once(ctx, &path)
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
			st.State, st.PID, st.Epoch, st.LastExit, st.Since = Crashed, 0, 0, exit, time.Now()
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
func (s *Supervisor) writeBootstrap(content []byte) (string, error) {
	if err := os.MkdirAll(s.options.Dir, 0o700); err != nil {
		return "", fmt.Errorf("directory for Envoy's bootstrap: %w", err)
	}
	f, err := os.CreateTemp(s.options.Dir, "bootstrap-*.json") // made with mode 0600
	if err != nil {
		return "", fmt.Errorf("bootstrap of Envoy: %w", err)
	}
	_, err = f.Write(content)
	if err := errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("bootstrap of Envoy: %w", err)
	}
	return filepath.Abs(f.Name())
}
