package join_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/snapshot/join"
)

// hand is a source that delivers what it is handed.
type hand struct {
	next chan *snapshot.Snapshot
	done chan struct{}
	last *snapshot.Snapshot
	err  error
}

func newHand() *hand {
	return &hand{next: make(chan *snapshot.Snapshot), done: make(chan struct{}), last: snapshot.Empty()}
}

// Run implements join.Source.
func (h *hand) Run(ctx context.Context, deliver func(*snapshot.Snapshot)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case s := <-h.next:
			if s == nil {
				return h.err
			}
			deliver(s)
			h.done <- struct{}{}
		}
	}
}

// Resolve implements join.Source.
func (h *hand) Resolve([]snapshot.Diagnostic) {}

func (h *hand) say(put []*snapshot.Object, remove []snapshot.Ref) {
	h.last = h.last.Derive(put, remove, nil)
	h.next <- h.last
	<-h.done
}

func object(t testing.TB, name, service string) *snapshot.Object {
	t.Helper()
	o, ds := api.Decode(fmt.Appendf(nil, `{"apiVersion":"getambassador.io/v3alpha1","kind":"Mapping","metadata":{"name":%q},"spec":{"hostname":"*","prefix":"/","service":%q}}`, name, service), snapshot.Source{}, nil)
	if o == nil {
		t.Fatal(ds)
	}
	return o
}

// Whatever the parts say in whatever order, the join is their union in which the first counts, and its recorded changes
// are the difference.
func TestJoinIsTheUnion(t *testing.T) {
	a, b := newHand(), newHand()
	j := join.New(join.Part{Source: a, Name: "a"}, join.Part{Source: b, Name: "b"})
	ctx, cancel := context.WithCancel(t.Context())
	var got []*snapshot.Snapshot
	ended := make(chan error)
	go func() { ended <- j.Run(ctx, func(s *snapshot.Snapshot) { got = append(got, s) }) }()
	b.say(nil, nil)
	if len(got) > 0 {
		t.Fatal("delivered before every part had said something")
	}
	a.say([]*snapshot.Object{object(t, "x", "first")}, nil)
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		part, name := a, fmt.Sprint("m", r.IntN(6))
		if r.IntN(2) == 0 {
			part = b
		}
		if r.IntN(3) == 0 {
			part.say(nil, []snapshot.Ref{object(t, name, "x").Ref})
		} else {
			part.say([]*snapshot.Object{object(t, name, fmt.Sprint("s", r.IntN(4)))}, nil)
		}
		s := got[len(got)-1]
		want, twice := map[snapshot.Ref]*snapshot.Object{}, 0
		for _, from := range []*hand{a, b} {
			for _, k := range from.last.Kinds() {
				for o := range from.last.List(k) {
					if want[o.Ref] == nil {
						want[o.Ref] = o
					} else {
						twice++
					}
				}
			}
		}
		n := 0
		for _, k := range s.Kinds() {
			for o := range s.List(k) {
				n++
				if w := want[o.Ref]; w == nil || w.Hash != o.Hash {
					t.Fatalf("%s is not the one that counts", o.Ref)
				}
			}
		}
		if n != len(want) || len(s.Findings()) != twice {
			t.Fatalf("%d objects for %d, %d findings for %d", n, len(want), len(s.Findings()), twice)
		}
		seen := map[snapshot.Ref]bool{}
		for _, c := range s.Changes(got[len(got)-2]) {
			seen[c.Ref()] = true
		}
		for ref := range seen {
			before, now := got[len(got)-2].Get(ref.GroupKind(), ref.Namespace, ref.Name), s.Get(ref.GroupKind(), ref.Namespace, ref.Name)
			if before == now {
				t.Fatalf("%s did not change", ref)
			}
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestJoinEndsWithAPartThatFails(t *testing.T) {
	a, b := newHand(), newHand()
	a.err = errors.New("broken")
	ended := make(chan error)
	go func() {
		ended <- join.New(join.Part{Source: a}, join.Part{Source: b}).Run(t.Context(), func(*snapshot.Snapshot) {})
	}()
	a.next <- nil
	if err := <-ended; !errors.Is(err, a.err) {
		t.Error(err)
	}
}

func TestJoinOfOneIsThat(t *testing.T) {
	a := newHand()
	if join.New(join.Part{Source: a}) != join.Source(a) {
		t.Error("wrapped for nothing")
	}
}
