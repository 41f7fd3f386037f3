package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// serverInfo is what is read of Envoy's /server_info.
type serverInfo struct {
	Version string `json:"version"`
	State   string `json:"state"`
	Options struct {
		Epoch int `json:"restart_epoch"`
	} `json:"command_line_options"`
}

// ask asks the Envoy on the admin address about itself (Envoy docs: "/server_info").
func ask(ctx context.Context, admin string) (info serverInfo, err error) {
	bounded, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(bounded, http.MethodGet, "http://"+admin+"/server_info", nil)
	if err != nil {
		return info, err
	}
	r.Close = true // another Envoy may answer next time
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return info, err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&info); err != nil {
		return info, err
	}
	if info.Version == "" || info.State == "" {
		return info, errors.New("no Envoy answers")
	}
	return info, nil
}

// deaf is how many times in a row an Envoy may leave a question without an answer: it answers none while it takes up configuration.
const deaf = 3

// Alive reports whether an Envoy answers on the admin address.
func Alive(ctx context.Context, admin string) bool {
	for range deaf {
		_, err := ask(ctx, admin)
		if err == nil {
			return true
		}
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return false
		}
	}
	return false
}

// adopt watches an Envoy that outlived the process which started it, until it is gone or ctx ends; then it is ended as a child would be.
func (s *Supervisor) adopt(ctx context.Context) {
	s.set(func(st *Status) { st.State, st.Since = Running, time.Now() })
	s.options.Log.Info("an Envoy of an earlier run is still there and is kept", "admin", s.options.AdminAddress)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for missed := 0; missed < deaf; {
		select {
		case <-ctx.Done():
			s.dismiss(context.Cause(ctx))
			return
		case a := <-s.again:
			a.done <- errors.New("the Envoy of an earlier run cannot be restarted hot; it goes on")
			continue
		case <-tick.C:
		}
		missed++
		if _, err := ask(ctx, s.options.AdminAddress); err == nil {
			missed = 0
		}
	}
	s.options.Log.Warn("the Envoy of an earlier run is gone")
}

// dismiss drains an adopted Envoy and asks it to quit: it is no child that could be sent a signal.
func (s *Supervisor) dismiss(cause error) {
	s.drain(errors.Is(cause, ErrHurry), nil)
	ctx, cancel := context.WithTimeout(context.Background(), s.options.Kill)
	defer cancel()
	if err := s.post(ctx, "/quitquitquit"); err != nil {
		s.options.Log.Warn("the Envoy of an earlier run cannot be asked to quit", "error", err)
	}
}
