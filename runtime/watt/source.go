package watt

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
)

// Path is where a tool posts that there is a new snapshot, with its address as the parameter "url".
const Path = "/_internal/v0/watt"

// largest is the most that a snapshot may be.
const largest = 256 << 20

// Source delivers the snapshot that was posted last; an empty one before the first.
type Source struct {
	mu   sync.Mutex
	next *snapshot.Snapshot
	wake chan struct{}
}

// NewSource returns a source to which nothing has been posted.
func NewSource() *Source {
	return &Source{next: snapshot.Empty(), wake: make(chan struct{}, 1)}
}

// Resolve does nothing: a posted object stands in no file.
func (s *Source) Resolve([]snapshot.Diagnostic) {}

// Run delivers the first snapshot at once, and each one that is posted, until the context ends.
func (s *Source) Run(ctx context.Context, deliver func(*snapshot.Snapshot)) error {
	for {
		s.mu.Lock()
		now := s.next
		s.mu.Unlock()
		deliver(now)
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		}
	}
}

// take makes the objects the source's whole content.
func (s *Source) take(objects []*snapshot.Object, findings []snapshot.Diagnostic) {
	s.mu.Lock()
	defer s.mu.Unlock()
	there := map[snapshot.Ref]bool{}
	for _, o := range objects {
		there[o.Ref] = true
	}
	var remove []snapshot.Ref
	for _, k := range s.next.Kinds() {
		for o := range s.next.List(k) {
			if !there[o.Ref] {
				remove = append(remove, o.Ref)
			}
		}
	}
	s.next = s.next.Derive(objects, remove, snapshot.SortDiagnostics(findings))
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// ServeHTTP takes the notice of a new snapshot: it fetches the address, which must be of this machine, and answers once the
// snapshot has been read. The caller sees to it that only this machine may ask.
func (s *Source) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	objects, findings, err := fetch(r.Context(), r.URL.Query().Get("url"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.take(objects, findings)
	fmt.Fprintf(w, "%d objects, %d findings\n", len(objects), len(findings))
}

func fetch(ctx context.Context, address string) ([]*snapshot.Object, []snapshot.Diagnostic, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || !local(u.Hostname()) {
		return nil, nil, fmt.Errorf("url: %q is no http address of this machine, such as http://localhost:9696/snapshot", address)
	}
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, nil, err
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("%s answers %s", address, resp.Status)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, largest+1))
	if err != nil {
		return nil, nil, err
	}
	if len(text) > largest {
		return nil, nil, fmt.Errorf("%s has more than %d bytes", address, largest)
	}
	return Read(text)
}

func local(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}
