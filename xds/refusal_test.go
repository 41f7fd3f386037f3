package xds

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/chancery-gateway/chancery/translators/ir"
)

func TestNACKIsRememberedWithOrigins(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		var told []NACK
		s := newServer(Options{OnNACK: func(n NACK) { told = append(told, n) }})
		set := small()
		s.Publish(set)
		c := connect(t, serve(t, s), delta)
		c.boot(set)
		n := s.Publish(with(set, cluster("c1", "2", ""), cluster("c2", "2", "")))
		c.reply(c.next(ir.TypeCluster), "Error adding/updating cluster(s) c2: no such thing")
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var refusal *Refusal
		if err := s.Acknowledged(ctx, n); !errors.As(err, &refusal) || len(refusal.NACKs) != 1 {
			t.Fatalf("Acknowledged returned %v", err)
		}
		got := refusal.NACKs[0]
		if got.Node != "envoy-1" || got.Type != ir.TypeCluster || len(got.Names) != 1 || got.Names[0] != "c2" || len(got.Origins) != 1 || got.Origins[0].Name != "c2" {
			t.Errorf("refusal %+v", got)
		}
		if len(told) != 1 || told[0].Text != got.Text {
			t.Errorf("hook was told %v", told)
		}
		c.silent() // not sent again and again
		eventually(t, "the status shows the refusal", func() bool {
			st := s.Status()
			return len(st) == 1 && len(st[0].Types[0].Refused) == 1 && st[0].ID == "envoy-1"
		})
		n = s.Publish(with(set, cluster("c1", "2", ""), cluster("c2", "3", "")))
		c.ack(c.next(ir.TypeCluster))
		settled(t, s, n)
		c.silent()
		eventually(t, "the refusal ends with its resource", func() bool { return len(s.Status()[0].Types[0].Refused) == 0 })
	})
}

func TestStatus(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		s := newServer(Options{})
		if got := s.Status(); len(got) != 0 {
			t.Errorf("status of no one: %v", got)
		}
		set := small()
		n := s.Publish(set)
		c := connect(t, serve(t, s), delta)
		c.boot(set)
		settled(t, s, n)
		c.silent()
		eventually(t, "the publication is booked", func() bool { return s.Status()[0].Publication == n })
		got := s.Status()[0]
		if got.ID != "envoy-1" || got.Cluster != "ambassador" || got.Address == "" || got.Delta != delta || got.Since.IsZero() || got.Publication != n {
			t.Errorf("status %+v", got)
		}
		var types []string
		for _, typ := range got.Types {
			types = append(types, shortType(typ.Type))
			if typ.Sent != len(set[typ.Type]) || typ.Unanswered != 0 || typ.SentVersion == "" || typ.SentVersion != typ.AckedVersion || typ.AckedAt.Before(typ.SentAt) {
				t.Errorf("type %+v", typ)
			}
		}
		if want := []string{"Cluster", "ClusterLoadAssignment", "Listener", "RouteConfiguration"}; !slices.Equal(types, want) {
			t.Errorf("types %v, want %v", types, want)
		}
		s.Publish(with(set, res(ir.TypeRouteConfig, "r1", "2")))
		c.next(ir.TypeRouteConfig)
		c.silent()
		eventually(t, "an unanswered response is shown", func() bool {
			typ := s.Status()[0].Types[3]
			return typ.SentVersion == "2" && typ.AckedVersion == "1" && typ.Unanswered == 1
		})
	})
}

func TestRefusedSecretIsReplacedAtOnce(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		s := newServer(Options{})
		set := with(small(), res(ir.TypeSecret, "s1", "1"), res(ir.TypeSecret, "s2", "1"))
		s.Publish(set)
		conn := serve(t, s)
		c := connect(t, conn, delta)
		c.boot(set)
		// Two secrets change; each comes alone, so that a refusal tells which.
		bad := with(set, res(ir.TypeSecret, "s1", "2"), res(ir.TypeSecret, "s2", "2"))
		n := s.Publish(bad)
		a := c.peek(ir.TypeSecret, []string{"s1"})
		b := c.peek(ir.TypeSecret, []string{"s2"})
		if a.got["s1"] != "2" {
			t.Fatalf("got %v", a.got)
		}
		c.reply(a, "Failed to load certificate chain from <inline>")
		c.ack(b)
		if got := c.expect(ir.TypeSecret, []string{"s1"}); got.got["s1"] != "1" {
			t.Errorf("stand-in %v", got.got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var refusal *Refusal
		if err := s.Acknowledged(ctx, n); !errors.As(err, &refusal) || refusal.NACKs[0].Names[0] != "s1" {
			t.Fatalf("Acknowledged returned %v", err)
		}
		s.Publish(with(bad, res(ir.TypeRouteConfig, "r1", "2")))
		c.expect(ir.TypeRouteConfig, []string{"r1"}) // the refused form is not tried again
		n = s.Publish(with(bad, res(ir.TypeSecret, "s1", "3")))
		if got := c.expect(ir.TypeSecret, []string{"s1"}); got.got["s1"] != "3" {
			t.Errorf("got %v", got.got)
		}
		c.expect(ir.TypeRouteConfig, []string{"r1"})
		settled(t, s, n)
	})
}

func TestRefusedSecretInOrder(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		s := newServer(Options{})
		set := with(small(), res(ir.TypeSecret, "s1", "1"))
		s.Publish(set)
		conn := serve(t, s)
		c := connect(t, conn, delta)
		c.boot(set)
		bad := with(set, res(ir.TypeSecret, "s1", "2"))
		s.Publish(bad)
		c.reply(c.peek(ir.TypeSecret, []string{"s1"}), "key does not match")
		if got := c.expect(ir.TypeSecret, []string{"s1"}); got.got["s1"] != "1" {
			t.Errorf("stand-in %v", got.got)
		}
		// Taken back: the refusal ends, and there is nothing to send.
		n := s.Publish(set)
		settled(t, s, n)
		c.silent()
		// Another Envoy refuses as its first form what this one knew: it gets the form that anyone has acknowledged.
		s.Publish(bad)
		c.reply(c.peek(ir.TypeSecret, []string{"s1"}), "key does not match")
		c.expect(ir.TypeSecret, []string{"s1"})
		d := connect(t, conn, delta)
		d.subscribe(ir.TypeSecret, "s1")
		d.reply(d.peek(ir.TypeSecret, []string{"s1"}), "key does not match")
		if got := d.expect(ir.TypeSecret, []string{"s1"}); got.got["s1"] != "1" {
			t.Errorf("stand-in %v", got.got)
		}
	})
}
