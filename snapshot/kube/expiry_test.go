package kube_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
	"github.com/chancery-gateway/chancery/snapshot/kube"
)

// wire stands between a source and the API server. It counts what goes over it, resource by resource, and can be cut.
type wire struct {
	http.RoundTripper
	// patient asks for no end of a watch, so that the API server's own limit holds.
	patient bool

	mu     sync.Mutex
	is     map[string]traffic // by resource
	cut    bool
	bodies map[*body]bool
}

// traffic is what went over the wire for one resource.
type traffic struct {
	lists     int // lists, and watches that begin with all objects
	resumed   int // watches from a version on
	ended     int // watches that the API server ended without an error
	gone      int // answers 410, as a status or in a watch
	bookmarks int
	last      int // the greatest version that a watch resumed from
}

func through(config *rest.Config) *wire {
	w := &wire{is: map[string]traffic{}, bodies: map[*body]bool{}}
	config.WrapTransport = func(r http.RoundTripper) http.RoundTripper {
		w.RoundTripper = r
		return w
	}
	return w
}

// note changes what is known of a resource.
func (w *wire) note(resource string, change func(*traffic)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.is[resource]
	change(&t)
	w.is[resource] = t
}

func (w *wire) of(resource string) traffic {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.is[resource]
}

// set cuts the wire, or joins it again.
func (w *wire) set(cut bool) {
	w.mu.Lock()
	w.cut = cut
	bodies := w.bodies
	if cut {
		w.bodies = map[*body]bool{}
	}
	w.mu.Unlock()
	if cut {
		for b := range bodies {
			b.broken.Store(true)
			b.Close()
		}
	}
}

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	cut := w.cut
	w.mu.Unlock()
	if cut {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED} // upon anything else client-go lists again
	}
	resource, q := path.Base(r.URL.Path), r.URL.Query()
	watch := q.Get("watch") == "true"
	if watch && w.patient {
		q.Del("timeoutSeconds")
		r = r.Clone(r.Context())
		r.URL.RawQuery = q.Encode()
	}
	from, _ := strconv.Atoi(q.Get("resourceVersion")) // none for a list
	w.note(resource, func(t *traffic) {
		if watch && q.Get("sendInitialEvents") != "true" {
			t.resumed, t.last = t.resumed+1, max(t.last, from)
		} else {
			t.lists++
		}
	})
	answer, err := w.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode == http.StatusGone {
		w.note(resource, func(t *traffic) { t.gone++ })
	}
	if watch {
		b := &body{ReadCloser: answer.Body, wire: w, resource: resource}
		answer.Body = b
		w.mu.Lock()
		w.bodies[b] = true
		w.mu.Unlock()
	}
	return answer, nil
}

// body is the answer to a watch, one event a line.
type body struct {
	io.ReadCloser
	wire     *wire
	resource string
	rest     []byte
	broken   atomic.Bool
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.rest = append(b.rest, p[:n]...)
	for {
		line, rest, whole := bytes.Cut(b.rest, []byte("\n"))
		if !whole {
			break
		}
		b.rest = rest
		var event struct {
			Type   string
			Object struct{ Code int }
		}
		if json.Unmarshal(line, &event) != nil {
			continue // not in JSON: kinds of which only the names are read
		}
		b.wire.note(b.resource, func(t *traffic) {
			switch {
			case event.Type == "BOOKMARK":
				t.bookmarks++
			case event.Type == "ERROR" && event.Object.Code == http.StatusGone:
				t.gone++
			}
		})
	}
	if err != nil && b.broken.Load() {
		return n, io.ErrUnexpectedEOF
	}
	if errors.Is(err, io.EOF) {
		b.wire.note(b.resource, func(t *traffic) { t.ended++ })
	}
	return n, err
}

// A watch that would resume from a version that etcd has forgotten is answered 410 Gone. Whatever happened meanwhile arrives
// by a list, and nothing is missing on the way.
func TestForgottenVersionsTakeNothingAway(t *testing.T) {
	for name, flags := range map[string][]string{"watch cache": nil, "straight from etcd": {"--watch-cache=false"}} {
		t.Run(name, func(t *testing.T) {
			c, client := alone(t, flags...)
			client.Apply(definitions(t))
			for i := range 20 {
				client.Apply(fmt.Sprintf(oneMapping, fmt.Sprintf("m%d", i), "default", fmt.Sprintf("/%d/", i)))
			}
			config := c.Config()
			wire := through(config)
			w := start(t, kube.Options{Config: config})
			w.until("all", func(s *snapshot.Snapshot) bool { return s.Len(v3alpha1.KindMapping) == 20 })
			client.Apply(fmt.Sprintf(oneMapping, "m0", "default", "/watched/")) // client-go takes a watch that ends without any event for broken
			w.until("an event", func(s *snapshot.Snapshot) bool { return mapping(s, "default", "m0").Prefix == "/watched/" })
			n := w.delivered()
			before := wire.of("mappings")
			if before.gone != 0 || before.lists == 0 {
				t.Fatalf("before anything happened: %+v", before)
			}

			wire.set(true)
			client.Apply(fmt.Sprintf(oneMapping, "m1", "default", "/changed/"))
			client.Apply(fmt.Sprintf(oneMapping, "made", "default", "/made/"))
			client.Delete(fmt.Sprintf(oneMapping, "m2", "default", "/2/"))
			if err := c.Compact(); err != nil {
				t.Fatal(err)
			}
			c.KillAPIServer() // what it remembers beside etcd
			if err := c.StartAPIServer(); err != nil {
				t.Fatal(err)
			}
			if s := w.now(); s.Len(v3alpha1.KindMapping) != 20 {
				t.Errorf("%d Mappings while the API server cannot be reached", s.Len(v3alpha1.KindMapping))
			}
			wire.set(false)
			w.until("what happened meanwhile", func(s *snapshot.Snapshot) bool {
				m := mapping(s, "default", "m1")
				return m != nil && m.Prefix == "/changed/" && mapping(s, "default", "made") != nil && mapping(s, "default", "m2") == nil
			})
			client.Apply(fmt.Sprintf(oneMapping, "late", "default", "/late/"))
			w.until("a Mapping made afterwards", func(s *snapshot.Snapshot) bool { return mapping(s, "default", "late") != nil })

			after := wire.of("mappings")
			t.Logf("before %+v, after %+v", before, after)
			if after.resumed == 0 || after.gone == 0 {
				t.Error("nothing was answered 410 Gone, so nothing is shown")
			}
			if after.lists == before.lists {
				t.Error("there was no list after 410 Gone")
			}
			for _, s := range w.since(n) {
				for i := range 20 {
					if i != 2 && mapping(s, "default", fmt.Sprintf("m%d", i)) == nil {
						t.Errorf("a snapshot lacks m%d", i)
					}
				}
				if s.Len(snapshot.KindNamespace) == 0 || codes(s) != "" {
					t.Errorf("a snapshot with %d Namespaces and %q", s.Len(snapshot.KindNamespace), codes(s))
				}
			}
		})
	}
}

// A watch that the API server ends after its time goes on from where it was: nothing is listed again. A kind of which
// nothing changes goes on from the version of a bookmark, and so does not fall behind what is remembered.
func TestWatchesThatExpireGoOn(t *testing.T) {
	c, client := alone(t, "--min-request-timeout=4") // 4 to 8 s
	client.Apply(definitions(t))
	config := c.Config()
	wire := through(config)
	wire.patient = true
	client.Apply("{apiVersion: getambassador.io/v3alpha1, kind: Host, metadata: {name: quiet, namespace: default}, spec: {hostname: quiet.example.com}}")
	client.Apply(fmt.Sprintf(oneMapping, "m", "default", "/m/"))
	w := start(t, kube.Options{Config: config})
	w.until("all", func(s *snapshot.Snapshot) bool {
		return mapping(s, "default", "m") != nil && s.Len(v3alpha1.KindHost) == 1
	})
	kinds := []string{"mappings", "hosts", "services", "endpointslices"}
	lists := map[string]int{}
	for _, k := range kinds {
		lists[k] = wire.of(k).lists
	}
	first := 0
	quiet := func() bool { // every kind has gone on twice, and the quiet one from a later version
		for _, k := range kinds {
			if is := wire.of(k); is.ended < 2 || is.resumed < is.ended {
				return false
			}
		}
		return wire.of("hosts").last > first
	}
	for begun, i := time.Now(), 0; time.Since(begun) < patience; i++ {
		name := fmt.Sprintf("m%d", i)
		client.Apply(fmt.Sprintf(oneMapping, name, "default", "/x/"))
		w.until(name, func(s *snapshot.Snapshot) bool { return mapping(s, "default", name) != nil })
		if first == 0 {
			first = wire.of("hosts").last
		}
		if first > 0 && quiet() {
			break
		}
		time.Sleep(500 * time.Millisecond)
	}
	for _, k := range kinds {
		is := wire.of(k)
		t.Logf("%s: %+v", k, is)
		if is.ended < 2 || is.resumed < is.ended-1 {
			t.Errorf("%s: %d watches ended by the API server, %d resumed", k, is.ended, is.resumed)
		}
		if is.lists != lists[k] || is.gone != 0 {
			t.Errorf("%s: %d lists, %d before any watch ended; %d answers 410 Gone", k, is.lists, lists[k], is.gone)
		}
	}
	if hosts := wire.of("hosts"); hosts.bookmarks == 0 || hosts.last <= first {
		t.Errorf("the quiet kind went on from version %d after %d bookmarks, from %d at first", hosts.last, hosts.bookmarks, first)
	}
	most := 0
	for _, s := range w.since(0) {
		n := s.Len(v3alpha1.KindMapping)
		if n < most || s.Len(v3alpha1.KindHost) != 1 || codes(s) != "" {
			t.Errorf("a snapshot with %d Mappings after one with %d, %d Hosts and %q", n, most, s.Len(v3alpha1.KindHost), codes(s))
		}
		most = max(most, n)
	}
}
