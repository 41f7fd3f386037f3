package gateway

import (
	"context"
	"errors"
	"net/netip"
	"testing"
)

// TestReceiver: an address that still counts is kept, the last known one outlives DNS, and only who never had one is told of.
func TestReceiver(t *testing.T) {
	away := errors.New("no such host")
	type answer struct {
		all []string
		err error
	}
	for _, c := range []struct {
		name    string
		answers []answer
		want    []string // the address after each answer, with "!" for an error and "*" for a change
	}{
		{"IPv4 first", []answer{{all: []string{"2001:db8::1", "::ffff:10.0.0.2", "10.0.0.9"}}}, []string{"10.0.0.2*"}},
		{"IPv6 alone", []answer{{all: []string{"2001:db8::2", "2001:db8::1"}}}, []string{"2001:db8::1*"}},
		{"others join", []answer{{all: []string{"10.0.0.5"}}, {all: []string{"10.0.0.1", "10.0.0.5"}}}, []string{"10.0.0.5*", "10.0.0.5"}},
		{"it moves", []answer{{all: []string{"10.0.0.5"}}, {all: []string{"10.0.0.6"}}}, []string{"10.0.0.5*", "10.0.0.6*"}},
		{"DNS goes away", []answer{{all: []string{"10.0.0.5"}}, {err: away}, {}}, []string{"10.0.0.5*", "10.0.0.5", "10.0.0.5"}},
		{"late", []answer{{err: away}, {}, {all: []string{"10.0.0.5"}}}, []string{"!", "!", "10.0.0.5*"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newReceiver("statsd", true)
			for i, a := range c.answers {
				r.lookUp = func(context.Context, string) (all []netip.Addr, err error) {
					for _, text := range a.all {
						all = append(all, netip.MustParseAddr(text))
					}
					return all, a.err
				}
				changed, err := r.look(t.Context())
				got := ""
				if at := r.address(); at.IsValid() {
					got = at.String()
				}
				if err != nil {
					got += "!"
				}
				if changed {
					got += "*"
				}
				if got != c.want[i] {
					t.Errorf("answer %d leads to %q, want %q", i, got, c.want[i])
				}
			}
			r.await(t.Context()) // a look-up is over, whatever came of it
		})
	}
	for host, wanted := range map[string]bool{"10.0.0.1": true, "::1": true, "statsd": false} {
		if newReceiver(host, wanted) != nil {
			t.Errorf("%s, wanted: %v, is looked up", host, wanted)
		}
	}
}
