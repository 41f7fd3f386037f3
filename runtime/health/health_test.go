package health

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func handler(metrics error) http.Handler {
	return New(Options{
		Alive:    func(context.Context) (bool, string) { return true, "alive" },
		Ready:    func(context.Context) (bool, string) { return false, "not yet" },
		Overview: func(context.Context) any { return map[string]int{"answer": 42} },
		Page: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "a page") // a recorder takes everything
		}),
		Metrics: func(_ context.Context, w io.Writer) error {
			_, err := io.WriteString(w, "chancery_x 1\n")
			return errors.Join(err, metrics)
		},
		OwnMetrics: func(w io.Writer) error {
			_, err := io.WriteString(w, "chancery_own 1\n")
			return err
		},
	})
}

func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		method, path, from string
		status             int
		body               string
	}{
		{"GET", "/ambassador/v0/check_alive", "10.0.0.1:1", 200, "alive"},
		{"GET", "/ambassador/v0/check_ready", "10.0.0.1:1", 503, "not yet"},
		{"GET", "/ambassador/v0/diag/?json=true", "10.0.0.1:1", 200, `"answer": 42`},
		{"GET", "/ambassador/v0/diag/?json=true&filter=answer", "10.0.0.1:1", 200, `42`},
		{"GET", "/ambassador/v0/diag/?filter=question", "10.0.0.1:1", 404, `right is one of answer`},
		{"GET", "/ambassador/v0/diag?json=1", "10.0.0.1:1", 200, `"answer": 42`},
		{"GET", "/ambassador/v0/diag", "10.0.0.1:1", 200, "a page"},
		{"GET", "/ambassador/v0/diag/", "10.0.0.1:1", 200, "a page"},
		{"GET", "/ambassador/v0/diag/?json=false", "10.0.0.1:1", 200, "a page"},
		{"GET", "/metrics", "10.0.0.1:1", 200, "chancery_x 1"},
		{"GET", "/metrics?envoy=false", "10.0.0.1:1", 200, "chancery_own 1"},
		{"POST", "/metrics", "10.0.0.1:1", 405, ""},
		{"GET", "/", "10.0.0.1:1", 404, ""},
		{"GET", "/debug/pprof/", "127.0.0.1:1", 200, "goroutine"},
		{"GET", "/debug/pprof/", "[::ffff:127.0.0.1]:1", 200, "goroutine"},
		{"GET", "/debug/pprof/cmdline", "10.0.0.1:1", 404, ""},
		{"GET", "/debug/pprof/", "nonsense", 404, ""},
		{"GET", "/_internal/v0/ping", "127.0.0.1:1", 200, "ACK"},
		{"GET", "/_internal/v0/ping", "10.0.0.1:1", 404, ""},
	} {
		r := httptest.NewRequest(c.method, c.path, nil)
		r.RemoteAddr = c.from
		w := httptest.NewRecorder()
		handler(nil).ServeHTTP(w, r)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.body) {
			t.Errorf("%s %s from %s: %d %q", c.method, c.path, c.from, w.Code, w.Body.String())
		}
	}
}

func TestIncompleteMetricsSaySo(t *testing.T) {
	w := httptest.NewRecorder()
	handler(errors.New("Envoy is\naway")).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if got := w.Body.String(); got != "chancery_x 1\n# incomplete: \"Envoy is\\naway\"\n" {
		t.Errorf("got %q", got)
	}
}

func TestServeEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, handler(nil)) }()
	resp, err := http.Get("http://" + l.Addr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("does not end")
	}
	if err := Serve(t.Context(), l, handler(nil)); err == nil {
		t.Error("no error for a closed listener")
	}
}

// TestDiagnosticsForThisMachine: a Module that turns the page off hides it from the network, not from an operator on the pod.
func TestDiagnosticsForThisMachine(t *testing.T) {
	hidden := true
	h := New(Options{Overview: func(context.Context) any { return map[string]int{"errors": 1} }, Page: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), Local: func() bool { return hidden }})
	ask := func(from string) (code int) {
		for _, query := range []string{"", "?json=true", "?filter=errors&json=true"} { // the page, and the same as data
			r := httptest.NewRequest("GET", "/ambassador/v0/diag/"+query, nil)
			r.RemoteAddr = from
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if code != 0 && w.Code != code {
				t.Errorf("%s is answered %d where the page is answered %d", query, w.Code, code)
			}
			code = w.Code
		}
		return code
	}
	if got := ask("10.0.0.1:1"); got != 404 {
		t.Errorf("the network is answered %d", got)
	}
	if got := ask("127.0.0.1:1"); got != 200 {
		t.Errorf("the machine is answered %d", got)
	}
	hidden = false
	if got := ask("10.0.0.1:1"); got != 200 {
		t.Errorf("with the page on, the network is answered %d", got)
	}
}
