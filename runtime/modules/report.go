package modules

import (
	"encoding/json"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chancery-gateway/chancery/wasm"
	"github.com/chancery-gateway/chancery/wasm/fault"
)

// Report is the state of one module for people and programs.
type Report struct {
	Name   string `json:"name"`
	Source string `json:"source,omitempty"`
	// Error is what is wrong with what configures it.
	Error     string     `json:"error,omitempty"`
	Live      *Version   `json:"live,omitempty"`
	Previous  []Version  `json:"previous,omitempty"`
	Candidate *Candidate `json:"candidate,omitempty"`
	Breaker   string     `json:"breaker,omitempty"`
	ProbeAt   *time.Time `json:"probeAt,omitempty"`
	// Instances are those that were made, Idle those of them that wait.
	Instances int         `json:"instances"`
	Idle      int         `json:"idle"`
	Counts    wasm.Counts `json:"counts"`
	Log       []string    `json:"log,omitempty"`
}

// Version is one version of a module.
type Version struct {
	Digest  string    `json:"digest"`
	Name    string    `json:"name"`
	Version string    `json:"version"`
	Guard   string    `json:"guard"`
	Phases  []string  `json:"phases"`
	Since   time.Time `json:"since,omitzero"`
	// CompileMillis is how long compiling, or loading from the cache, took.
	CompileMillis int64 `json:"compileMillis"`
}

// Candidate is the version that was looked at last.
type Candidate struct {
	Digest  string             `json:"digest,omitempty"`
	Version string             `json:"version,omitempty"`
	Stage   string             `json:"stage"`
	Code    string             `json:"code,omitempty"`
	Reason  string             `json:"reason,omitempty"`
	RetryAt *time.Time         `json:"retryAt,omitempty"`
	Since   time.Time          `json:"since"`
	Signers []string           `json:"signers,omitempty"`
	Shadow  *wasm.ShadowReport `json:"shadow,omitempty"`
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Reports returns the state of every configured module, sorted by name.
func (m *Modules) Reports() []Report {
	var out []Report
	for _, s := range m.host.Status() {
		r := Report{Name: s.Name, Source: s.Source, Breaker: string(s.Breaker), ProbeAt: moment(s.ProbeAt), Instances: s.Made, Idle: s.Idle, Counts: s.Counts}
		if s.SpecErr != nil {
			r.Error = s.SpecErr.Error()
		}
		if s.Live != nil {
			v := version(*s.Live)
			r.Live = &v
		}
		for _, p := range s.Previous {
			r.Previous = append(r.Previous, version(p))
		}
		if c := s.Candidate; c.Stage != "" {
			r.Candidate = &Candidate{Version: c.Version, Stage: string(c.Stage), RetryAt: moment(c.RetryAt), Since: c.Since, Signers: c.Signers, Shadow: c.Shadow}
			if c.Digest != nil {
				r.Candidate.Digest = c.Digest.String()
			}
			if c.Err != nil {
				r.Candidate.Reason = c.Err.Error()
				if code := fault.CodeOf(c.Err); code != nil {
					r.Candidate.Code = code.ID
				}
			}
		}
		for _, l := range s.Logs {
			r.Log = append(r.Log, l.Text)
		}
		out = append(out, r)
	}
	return out
}

func version(v wasm.Version) Version {
	out := Version{Digest: v.Digest.String(), Name: v.Name, Version: v.Version, Guard: string(v.Guard), Since: v.Since, CompileMillis: v.CompileTime.Milliseconds()}
	for _, p := range v.Phases {
		out.Phases = append(out.Phases, string(p))
	}
	return out
}

// ServeHTTP does what an operator on this machine asks for: POST .../{action}?name=NAME, where the action is rollback, reset or reload.
func (m *Modules) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() || r.Header.Get("Origin") != "" {
		http.Error(w, "only from this machine", http.StatusForbidden)
		return
	}
	name := r.URL.Query().Get("name")
	switch r.PathValue("action") {
	case "rollback":
		err = m.host.Rollback(name)
	case "reset":
		if err = m.host.Reset(name); err == nil {
			m.stale.Store(true)
			m.wake()
		}
	case "reload":
		if _, err = m.host.Find(name); err == nil {
			m.host.Look(name)
		}
	default:
		http.NotFound(w, r)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	for _, one := range m.Reports() {
		if one.Name == name {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(one) // the client went away; nobody is left to be told
		}
	}
}

// Collector returns the measurements of all modules.
func (m *Modules) Collector() prometheus.Collector { return wasm.Metrics{Host: m.host} }
