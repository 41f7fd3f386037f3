// Package health serves what kubelet, operators and Prometheus ask of a running Chancery: liveness, readiness,
// diagnostics, metrics and profiles.
package health

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Probe answers one question with yes or no, and says why.
type Probe func(ctx context.Context) (ok bool, why string)

// Options are what the answers are made from.
type Options struct {
	// Alive and Ready answer check_alive and check_ready.
	Alive, Ready Probe
	// Overview returns the content of the diagnostics page, as a value for encoding/json; Page shows it to people.
	Overview func(ctx context.Context) any
	Page     http.Handler
	// Local reports whether the overview is for this machine alone; nil means that it is for everyone.
	Local func() bool
	// Metrics writes all metrics in Prometheus' text format.
	Metrics func(ctx context.Context, w io.Writer) error
	// OwnMetrics writes them without Envoy's, which are many and cost Envoy time: /metrics?envoy=false. nil writes all then, too.
	OwnMetrics func(w io.Writer) error
}

// New returns the handler of the health port (Emissary docs: ports and probes; 8877 by default).
func New(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ambassador/v0/check_alive", probe(o.Alive))
	mux.HandleFunc("GET /ambassador/v0/check_ready", probe(o.Ready))
	overview := func(w http.ResponseWriter, r *http.Request) {
		if !wantsJSON(r) {
			o.Page.ServeHTTP(w, r)
			return
		}
		answer, err := only(o.Overview(r.Context()), r.URL.Query().Get("filter"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		_ = e.Encode(answer) // the client went away; nobody is left to be told
	}
	guarded := func(w http.ResponseWriter, r *http.Request) {
		if o.Local != nil && o.Local() {
			local(overview)(w, r)
			return
		}
		overview(w, r)
	}
	mux.HandleFunc("GET /ambassador/v0/diag/{$}", guarded)
	mux.HandleFunc("GET /ambassador/v0/diag", guarded)
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		write := func() error { return o.Metrics(r.Context(), w) }
		if r.URL.Query().Get("envoy") == "false" && o.OwnMetrics != nil {
			write = func() error { return o.OwnMetrics(w) }
		}
		if err := write(); err != nil {
			fmt.Fprintf(w, "# incomplete: %q\n", err)
		}
	})
	mux.Handle("GET /_internal/v0/ping", Local(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "ACK") // Emissary's word
	})))
	mux.HandleFunc("/debug/pprof/", local(pprof.Index))
	mux.HandleFunc("/debug/pprof/cmdline", local(pprof.Cmdline))
	mux.HandleFunc("/debug/pprof/profile", local(pprof.Profile))
	mux.HandleFunc("/debug/pprof/symbol", local(pprof.Symbol))
	mux.HandleFunc("/debug/pprof/trace", local(pprof.Trace))
	return mux
}

// wantsJSON: as in Emissary, the page is for people unless "json" or "filter" stands in the query; or the client takes JSON and no HTML.
func wantsJSON(r *http.Request) bool {
	q, accept := r.URL.Query(), r.Header.Get("Accept")
	return q.Has("filter") || q.Has("json") && !strings.EqualFold(q.Get("json"), "false") || strings.Contains(accept, "application/json") && !strings.Contains(accept, "text/html")
}

// only returns one member of the overview, as Emissary's "filter" does, or all of it for "".
func only(overview any, filter string) (any, error) {
	if filter == "" {
		return overview, nil
	}
	text, err := json.Marshal(overview)
	if err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, err
	}
	member, there := members[filter]
	if !there {
		return nil, fmt.Errorf("filter: there is no %q; right is one of %s", filter, strings.Join(slices.Sorted(maps.Keys(members)), ", "))
	}
	return member, nil
}

func probe(p Probe) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ok, why := p(r.Context())
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if !ok {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprintln(w, why)
	}
}

// local lets only this machine in: profiles show memory.
func local(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		from, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil || !from.Addr().Unmap().IsLoopback() {
			http.NotFound(w, r)
			return
		}
		h(w, r)
	}
}

// Local lets only requests of this machine in, and of these none that Envoy passed on.
func Local(h http.Handler) http.Handler {
	return local(func(w http.ResponseWriter, r *http.Request) {
		for name := range r.Header {
			if strings.HasPrefix(name, "X-Envoy-") || name == "X-Forwarded-For" || name == "X-Forwarded-Proto" {
				http.NotFound(w, r)
				return
			}
		}
		h.ServeHTTP(w, r)
	})
}

// Serve answers on l until ctx ends. It returns nil then, else the reason why it could not go on.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	stopped := context.AfterFunc(ctx, func() {
		bounded, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if s.Shutdown(bounded) != nil {
			_ = s.Close()
		}
	})
	defer stopped()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
