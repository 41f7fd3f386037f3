package supervisor

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// child is one Envoy that was started here.
type child struct {
	process *os.Process
	epoch   int
	// ended gets the outcome once.
	ended chan error
}

// arguments returns Envoy's command line. It carries no configuration but the bootstrap's name.
func (s *Supervisor) arguments(bootstrap string, epoch int) []string {
	o := s.options
	// Without a walk through every update for fields that it does not know, Envoy takes half the time for a large route table. The validating
	// Envoy does that walk, so what reaches this one has passed it.
	args := []string{"-c", bootstrap, "--log-format", logFormat, "--log-format-escaped", "--ignore-unknown-dynamic-fields"}
	if o.LogLevel != "" {
		args = append(args, "-l", o.LogLevel)
	}
	drain := 0
	if o.DrainTime > 0 {
		drain = max(1, int(o.DrainTime.Round(time.Second)/time.Second))
		args = append(args, "--drain-time-s", strconv.Itoa(drain))
	}
	if o.BaseID > 0 {
		args = append(args, "--base-id", strconv.Itoa(o.BaseID), "--restart-epoch", strconv.Itoa(epoch))
		if drain > 0 {
			args = append(args, "--parent-shutdown-time-s", strconv.Itoa(drain+max(1, drain/2)))
		}
	} else {
		args = append(args, "--disable-hot-restart")
	}
	if o.Concurrency > 0 {
		args = append(args, "--concurrency", strconv.Itoa(o.Concurrency))
	}
	return args
}

// start starts a child.
func (s *Supervisor) start(bootstrap string, epoch int) (*child, error) {
	o := s.options
	cmd := exec.Command(o.Path, s.arguments(bootstrap, epoch)...)
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
		return nil, err
	}
	return &child{process: cmd.Process, epoch: epoch, ended: ended}, nil
}

// once runs one child, and those that take over from it hot, to the end, and says how the last one ended.
func (s *Supervisor) once(ctx context.Context, bootstrap *string) (exit string, err error) {
	o := s.options
	now, err := s.start(*bootstrap, 0)
	if err != nil {
		return "", err
	}
	s.set(func(st *Status) { st.State, st.PID, st.Epoch, st.Since = Running, now.process.Pid, 0, time.Now() })
	o.Log.Info("Envoy started", "pid", now.process.Pid, "path", o.Path)
	var before *child // drains
	defer func() { s.finish(before) }()
	for {
		// An Envoy that is left alone by the one before while that still drains dies of it, so there is one hot restart at a time.
		var gone chan error
		asked := s.again
		if before != nil {
			gone, asked = before.ended, nil
		}
		select {
		case err = <-now.ended:
		case <-ctx.Done():
			err = s.stop(context.Cause(ctx), now.process, now.ended)
		case err := <-gone:
			o.Log.Info("the Envoy before has ended", "pid", before.process.Pid, "exit", outcome(err))
			before = nil
			continue
		case a := <-asked:
			next, err := s.takeOver(ctx, now, a.bootstrap, bootstrap)
			if next != nil {
				before, now = now, next
			}
			a.done <- err
			continue
		}
		return outcome(err), nil
	}
}

func outcome(err error) string {
	if err != nil {
		return err.Error()
	}
	return "exit status 0"
}
