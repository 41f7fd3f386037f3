package xds

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// ACK tells that a client took a response.
type ACK struct {
	Node    string
	Type    string
	Version string
	// Resources is the number of resources that the response carried for the client's sake (in state of the world: changed).
	Resources int
	// Took is the time from sending to the answer.
	Took time.Duration
}

// Sent tells that a change was handed to a client's stream.
type Sent struct {
	Node string
	Type string
	// Changed is the number of resources that the client had, or was to have, in another form.
	Changed int
	// Waited is the time since the publication that brought the oldest of them.
	Waited time.Duration
}

// NACK tells that a client refused a response. Envoy keeps what it had.
type NACK struct {
	Node string `json:"node"`
	Type string `json:"type"`
	// Names are the resources that are to blame: those that the text names where it names any, else all that the response changed.
	Names   []string `json:"names"`
	Version string   `json:"version"`
	// Text is Envoy's own.
	Text    string      `json:"text"`
	At      time.Time   `json:"at"`
	Origins []ir.Origin `json:"origins,omitempty"`
}

// String returns "node: type names: text".
func (n NACK) String() string {
	return fmt.Sprintf("%s: %s %s: %s", n.Node, shortType(n.Type), strings.Join(n.Names, ", "), n.Text)
}

// NodeStatus is what is known of one connected Envoy.
type NodeStatus struct {
	ID      string `json:"id"`
	Cluster string `json:"cluster,omitempty"`
	// Version is Envoy's own, as in "1.40.0"; Address is the peer's.
	Version string    `json:"version,omitempty"`
	Address string    `json:"address"`
	Delta   bool      `json:"delta"`
	Since   time.Time `json:"since"`
	// Publication is the last publication that this Envoy has answered in full; 0 for none yet.
	Publication uint64       `json:"publication"`
	Types       []TypeStatus `json:"types"`
}

// TypeStatus is one type's part of a NodeStatus.
type TypeStatus struct {
	Type string `json:"type"`
	// SentVersion and Sent are the last response's version and the number of resources that the Envoy holds by now, unless it refused them.
	SentVersion string    `json:"sentVersion,omitempty"`
	Sent        int       `json:"sent"`
	SentAt      time.Time `json:"sentAt,omitzero"`
	// AckedVersion and AckedAt are the last acknowledged response's; Unanswered counts the responses that have no answer yet.
	AckedVersion string    `json:"ackedVersion,omitempty"`
	AckedAt      time.Time `json:"ackedAt,omitzero"`
	Unanswered   int       `json:"unanswered"`
	// Refused are the refusals that still stand: the resource has not changed since.
	Refused []NACK `json:"refused,omitempty"`
	// Lacks is what this Envoy, which is older, does without.
	Lacks []Lack `json:"lacks,omitempty"`
}

// Lack is what an older Envoy does without of one resource.
type Lack struct {
	Name    string      `json:"name"`
	Text    string      `json:"text"`
	Origins []ir.Origin `json:"origins,omitempty"`
}

// Status returns the state of each connected Envoy, sorted by node id and address.
func (s *Server) Status() []NodeStatus {
	s.mu.RLock()
	streams := slices.Collect(maps.Keys(s.streams))
	s.mu.RUnlock()
	var all []NodeStatus
	for _, st := range streams {
		all = append(all, st.status())
	}
	slices.SortFunc(all, func(a, b NodeStatus) int {
		return cmp.Or(strings.Compare(a.ID, b.ID), strings.Compare(a.Address, b.Address), a.Since.Compare(b.Since))
	})
	return all
}

// Refusal is the error of a publication that an Envoy answered, but not with ACKs alone.
type Refusal struct{ NACKs []NACK }

// Error lists the refusals.
func (r *Refusal) Error() string {
	lines := make([]string, len(r.NACKs))
	for i, n := range r.NACKs {
		lines[i] = n.String()
	}
	return "refused by Envoy: " + strings.Join(lines, "; ")
}

// Acknowledged waits until one Envoy has acknowledged everything of the publication, or of a later one. It returns a
// *Refusal as soon as an Envoy has answered all of it but refused a part, and the context's error when that ends first.
func (s *Server) Acknowledged(ctx context.Context, publication uint64) error {
	for {
		done, refusal, changed := s.acknowledged.at(publication)
		if done {
			return nil
		}
		if refusal != nil {
			return refusal
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// watermark is the highest publication that was answered in full.
type watermark struct {
	mu              sync.Mutex
	acked, answered uint64
	refusal         *Refusal
	changed         chan struct{}
}

func (w *watermark) at(publication uint64) (done bool, refusal *Refusal, changed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changed == nil {
		w.changed = make(chan struct{})
	}
	if w.acked >= publication {
		return true, nil, nil
	}
	if w.refusal != nil && w.answered >= publication {
		return false, w.refusal, nil
	}
	return false, nil, w.changed
}

func (w *watermark) answer(publication uint64, refused []NACK) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(refused) == 0 {
		w.acked = max(w.acked, publication)
	} else {
		w.answered, w.refusal = max(w.answered, publication), &Refusal{refused}
	}
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
}

// OtherTypes is the key in Counters.Types of all types that Chancery does not serve.
const OtherTypes = "other"

// Counters are totals since the start. Types is keyed by type URL.
type Counters struct {
	// Streams is the number of open streams, Opened of all there ever were.
	Streams, Opened uint64
	// Timeouts counts the waits that the clock ended.
	Timeouts uint64
	Types    map[string]TypeCounters
}

// TypeCounters are the totals of one type over all streams. Bytes counts the resources' own encoding.
type TypeCounters struct {
	Responses, Resources, Removed, Bytes, ACKs, NACKs uint64
}

type books struct {
	mu sync.Mutex
	Counters
}

func (b *books) count(typeURL string, add func(*TypeCounters)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.Types == nil {
		b.Types = map[string]TypeCounters{}
	}
	if !contains(before, typeURL) && !contains(after, typeURL) {
		typeURL = OtherTypes // clients choose these: they must not grow the table
	}
	c := b.Types[typeURL]
	add(&c)
	b.Types[typeURL] = c
}

// Counters returns the totals.
func (s *Server) Counters() Counters {
	s.books.mu.Lock()
	c := s.books.Counters
	c.Types = maps.Clone(c.Types)
	s.books.mu.Unlock()
	s.mu.RLock()
	c.Streams = uint64(len(s.streams))
	s.mu.RUnlock()
	return c
}

func shortType(t string) string { return t[strings.LastIndexByte(t, '.')+1:] }
