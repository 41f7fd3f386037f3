package xds

import (
	"slices"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// driven is a client whose stream is driven by the test, which says what time it is: however slow the machine, no more time passes.
type driven struct {
	t     *testing.T
	st    *stream
	now   time.Time
	whole bool // the state of the world
	names map[string][]string
	sent  []*reply // not looked at yet
}

func (c *driven) recv() (*request, error) { select {} }
func (c *driven) send(r *reply) error     { c.sent = append(c.sent, r); return nil }
func (c *driven) delta() bool             { return !c.whole }

// drive publishes the set and returns a client that has taken all of it.
func drive(t *testing.T, s *Server, set ir.ResourceSet, delta bool) *driven {
	t.Helper()
	s.Publish(set)
	c := &driven{t: t, now: time.Now(), whole: !delta, names: map[string][]string{}}
	s.pace.now = func() time.Time { return c.now }
	c.st = &stream{server: s, wire: c, subs: map[string]*subscription{}, goal: s.newest()}
	c.ask(ir.TypeCluster)
	c.ask(ir.TypeEndpoint, namesOf(set[ir.TypeEndpoint])...)
	c.ask(ir.TypeListener)
	c.ask(ir.TypeRouteConfig, namesOf(set[ir.TypeRouteConfig])...)
	return c
}

func (c *driven) handle(q *request) {
	c.t.Helper()
	if err := c.st.handle(q, c.now); err != nil {
		c.t.Fatal(err)
	}
	c.pass(0)
}

// ask subscribes, none meaning all, and takes what comes.
func (c *driven) ask(typeURL string, names ...string) {
	c.t.Helper()
	c.names[typeURL] = names
	q := &request{typeURL: typeURL, names: names}
	if !c.whole {
		q.names, q.subscribe = nil, names
	}
	c.handle(q)
	for len(c.sent) > 0 {
		r := c.sent[0]
		c.sent = c.sent[1:]
		c.ack(r)
	}
}

func (c *driven) ack(r *reply) { c.t.Helper(); c.answer(r, "") }

func (c *driven) answer(r *reply, refusal string) {
	c.t.Helper()
	c.handle(&request{typeURL: r.typeURL, nonce: r.nonce, names: c.names[r.typeURL], nack: refusal != "", refused: refusal})
}

// pass lets time pass, and returns when the stream wants to be woken.
func (c *driven) pass(d time.Duration) time.Time {
	c.t.Helper()
	c.now = c.now.Add(d)
	until, err := c.st.advance(c.now)
	if err != nil {
		c.t.Fatal(err)
	}
	return until
}

// sends compares the types of what was sent since it was looked at last, and returns that.
func (c *driven) sends(types ...string) []*reply {
	c.t.Helper()
	var got []string
	for _, r := range c.sent {
		got = append(got, r.typeURL)
	}
	if !slices.Equal(got, types) {
		c.t.Fatalf("sent is %v, want %v", got, types)
	}
	sent := c.sent
	c.sent = nil
	return sent
}

// removes is sends for a removal from the clusters, and from the endpoints where the protocol has a word for that.
func (c *driven) removes(cluster, endpoints string, left ...string) {
	c.t.Helper()
	if c.whole {
		r := c.sends(ir.TypeCluster)[0]
		if got := namesOf(r.resources); !slices.Equal(got, left) {
			c.t.Errorf("clusters %v are left, want %v", got, left)
		}
		c.ack(r)
		return
	}
	want := []string{cluster, endpoints}
	types := []string{ir.TypeCluster, ir.TypeEndpoint}
	if endpoints == "" {
		want, types = want[:1], types[:1]
	}
	for i, r := range c.sends(types...) {
		if !slices.Equal(r.removed, want[i:i+1]) || len(r.resources) > 0 {
			c.t.Errorf("removed is %v, want %s", r.removed, want[i])
		}
		c.ack(r)
	}
}
