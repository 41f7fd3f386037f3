package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// again asks for a hot restart with another bootstrap.
type again struct {
	bootstrap func() ([]byte, error)
	done      chan error
}

// ErrCold is returned by HotRestart when hot restart is switched off.
var ErrCold = errors.New("no hot restart of Envoy: base id 0 switches that off; set --envoy-base-id to a number that no other Envoy on this machine has")

// startup is how long a new Envoy may take to get so far that it takes over.
const startup = 2 * time.Minute

// checkHotRestart fails when a hot restart is wanted that the binary cannot do (Envoy docs: "--hot-restart-version").
func (s *Supervisor) checkHotRestart(ctx context.Context) error {
	if s.options.BaseID == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, s.options.Path, "--hot-restart-version", "--base-id", fmt.Sprint(s.options.BaseID)).CombinedOutput()
	version := strings.TrimSpace(firstLine(string(out)))
	if err != nil || version == "" || version == "disabled" {
		return fmt.Errorf("%s cannot be restarted hot: --hot-restart-version says %q (%v); set --envoy-base-id to 0, or use an Envoy that was built with hot restart", s.options.Path, version, err)
	}
	return nil
}

// HotRestart starts another Envoy, with the binary as it is now, that takes the listening sockets over from the present one, which
// drains and ends by itself (Envoy docs: "Hot restart"). It waits until an earlier one has ended so, asks for the bootstrap then, and
// returns when the new Envoy serves. When that fails, the present one goes on. It returns ErrCold where hot restart is switched
// off, and the context's error.
func (s *Supervisor) HotRestart(ctx context.Context, bootstrap func() ([]byte, error)) error {
	if s.options.BaseID == 0 {
		return ErrCold
	}
	a := again{bootstrap, make(chan error, 1)}
	select {
	case s.again <- a:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-a.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// takeOver starts the Envoy that takes over from the present one and waits until it is live. It returns nil for it when that
// fails. file names the bootstrap in force, which is replaced.
func (s *Supervisor) takeOver(ctx context.Context, now *child, bootstrap func() ([]byte, error), file *string) (*child, error) {
	o := s.options
	content, err := bootstrap()
	if err != nil {
		return nil, err
	}
	path, err := s.writeBootstrap(content)
	if err != nil {
		return nil, err
	}
	next, err := s.start(path, now.epoch+1)
	if err != nil {
		os.Remove(path)
		return nil, fmt.Errorf("starting Envoy: %w", err)
	}
	o.Log.Info("Envoy is restarted hot", "pid", next.process.Pid, "before", now.process.Pid, "epoch", next.epoch)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(startup)
	for {
		select {
		case err := <-next.ended:
			os.Remove(path)
			return nil, fmt.Errorf("the new Envoy ended before it took over: %s; the present one goes on", outcome(err))
		case <-limit:
			s.finish(next)
			os.Remove(path)
			return nil, fmt.Errorf("the new Envoy was not live within %s; the present one goes on", startup)
		case <-ctx.Done():
			s.finish(next)
			os.Remove(path)
			return nil, ctx.Err()
		case <-tick.C:
		}
		if info, err := ask(ctx, o.AdminAddress); err != nil || info.State != "LIVE" || info.Options.Epoch != next.epoch {
			continue
		}
		os.Remove(*file)
		*file = path
		s.set(func(st *Status) {
			st.State, st.PID, st.Epoch, st.Since = Running, next.process.Pid, next.epoch, time.Now()
		})
		return next, nil
	}
}

// finish ends a child that is not the one that serves; nil is none.
func (s *Supervisor) finish(c *child) {
	if c == nil {
		return
	}
	_ = c.process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-c.ended:
		return
	case <-time.After(s.options.Kill):
	}
	_ = c.process.Kill()
	<-c.ended
}
