package supervisor

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// stop ends the child: fail its health check, drain its listeners, wait until it is idle or the grace is over, SIGTERM,
// and SIGKILL when that does not help.
func (s *Supervisor) stop(cause error, p *os.Process, ended <-chan error) error {
	if err, dead := s.drain(errors.Is(cause, ErrHurry), ended); dead {
		return err
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return <-ended
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(s.options.Kill):
	}
	s.options.Log.Warn("Envoy did not end after SIGTERM; it is killed", "pid", p.Pid)
	_ = p.Kill()
	return <-ended
}

// drain fails the health check, drains the listeners, and waits until Envoy is idle or the grace is over.
func (s *Supervisor) drain(requestsOnly bool, ended <-chan error) (err error, dead bool) {
	s.set(func(st *Status) { st.State = Draining })
	begun := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), s.options.Grace)
	defer cancel()
	if s.post(ctx, "/healthcheck/fail") == nil && s.post(ctx, "/drain_listeners?graceful&skip_exit") == nil {
		err, dead = s.waitIdle(ctx, requestsOnly, ended)
	}
	s.options.Log.Info("Envoy drained", "took", time.Since(begun).Round(time.Millisecond))
	return err, dead
}

// waitIdle returns when no work is left, when ctx ends, or (dead) when the child ended by itself.
func (s *Supervisor) waitIdle(ctx context.Context, requestsOnly bool, ended <-chan error) (err error, dead bool) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if n, err := s.active(ctx, requestsOnly); err != nil || n == 0 {
			return nil, false
		}
		select {
		case err := <-ended:
			return err, true
		case <-ctx.Done():
			return nil, false
		case <-tick.C:
		}
	}
}

func (s *Supervisor) post(ctx context.Context, path string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.options.AdminAddress+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// active counts what is in flight: HTTP requests, and connections too unless requestsOnly (Envoy docs: "HTTP connection
// manager statistics", "Listener statistics").
func (s *Supervisor) active(ctx context.Context, requestsOnly bool) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.options.AdminAddress+`/stats?filter=downstream_(rq|cx)_active$`, nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	ready := ""
	if host, port, err := net.SplitHostPort(s.options.ReadyAddress); err == nil {
		ready = "listener." + host + "_" + port + "."
	}
	sum := 0
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		own := strings.HasPrefix(name, "http.admin.") || strings.HasPrefix(name, "listener.admin.") || ready != "" && strings.HasPrefix(name, ready)
		requests := strings.HasPrefix(name, "http.") && strings.HasSuffix(name, ".downstream_rq_active")
		connections := strings.HasPrefix(name, "listener.") && strings.HasSuffix(name, ".downstream_cx_active") && !strings.Contains(name, ".worker_")
		if own || !requests && (requestsOnly || !connections) {
			continue
		}
		n, err := strconv.Atoi(value)
		if err != nil {
			continue
		}
		sum += n
	}
	return sum, lines.Err()
}
