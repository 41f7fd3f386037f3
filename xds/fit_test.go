package xds

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// fitClusters gives Envoy 1.36 the clusters whose version begins with "new" as "old".
func fitClusters(version string) func(*ir.Resource) (*ir.Resource, string) {
	if !strings.HasPrefix(version, "1.36.") {
		return nil
	}
	return func(r *ir.Resource) (*ir.Resource, string) {
		if r.Type != ir.TypeCluster || !strings.HasPrefix(r.Version, "new") {
			return r, ""
		}
		fit := res(ir.TypeCluster, r.Name, "old")
		fit.EndpointSet = r.EndpointSet
		return fit, r.Name + " lacks what is " + r.Version
	}
}

// TestOlderNode: an older Envoy gets what fits it, beside a newer one that gets all; what it does without is known as long as it is
// connected and the resource asks for it, also where the form that it gets stays the same.
func TestOlderNode(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		var told atomic.Int64
		s := newServer(Options{Fit: fitClusters, OnStatus: func() { told.Add(1) }})
		set := with(small(), cluster("c2", "new-1", ""))
		s.Publish(set)
		conn := serve(t, s)
		open := func(id string, minor uint32) *client {
			c := connect(t, conn, delta)
			c.node = &core.Node{Id: id, UserAgentVersionType: &core.Node_UserAgentBuildVersion{
				UserAgentBuildVersion: &core.BuildVersion{Version: &typev3.SemanticVersion{MajorNumber: 1, MinorNumber: minor}}}}
			return c
		}
		lacks := func(want ...string) {
			t.Helper()
			var all []string
			for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
				all = nil
				for _, n := range s.Status() {
					for _, typ := range n.Types {
						for _, l := range typ.Lacks {
							all = append(all, n.ID+": "+l.Text)
							if len(l.Origins) != 1 || l.Origins[0].Name != l.Name {
								t.Fatalf("origins of %+v", l)
							}
						}
					}
				}
				if slices.Equal(all, want) {
					return
				}
				if time.Now().After(end) {
					t.Fatalf("lacking is %q, want %q", all, want)
				}
			}
		}
		newer, older := open("newer", 40), open("older", 36)
		newer.boot(set)
		older.subscribe(ir.TypeCluster)
		first := older.expect(ir.TypeCluster, []string{"c1", "c2"})
		if first.got["c2"] != "old" || first.got["c1"] != "1" {
			t.Fatalf("the older one got %v", first.got)
		}
		lacks("older: c2 lacks what is new-1")

		// Another form for newer ones that is the same for the older one.
		before := told.Load()
		set = with(set, cluster("c2", "new-2", ""))
		s.Publish(set)
		if a := newer.next(ir.TypeCluster); a.got["c2"] != "new-2" {
			t.Fatalf("the newer one got %v", a.got)
		} else {
			newer.ack(a)
		}
		lacks("older: c2 lacks what is new-2")
		for end := time.Now().Add(patience); told.Load() == before; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("nobody was told")
			}
		}

		// An edit that takes the need away, and one that brings it back.
		set = with(set, cluster("c2", "3", ""))
		s.Publish(set)
		newer.ack(newer.next(ir.TypeCluster))
		if a := older.next(ir.TypeCluster); a.got["c2"] != "3" {
			t.Fatalf("the older one got %v", a.got)
		} else {
			older.ack(a)
		}
		lacks()
		set = with(set, cluster("c2", "new-4", ""))
		s.Publish(set)
		newer.ack(newer.next(ir.TypeCluster))
		last := older.next(ir.TypeCluster)
		older.ack(last)
		lacks("older: c2 lacks what is new-4")

		// It goes, and says what it holds when it comes back: nothing is sent for that.
		before = told.Load()
		older.cancel()
		lacks()
		for end := time.Now().Add(patience); told.Load() == before; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("nobody was told that it has gone")
			}
		}
		again := open("older", 36)
		again.seen = map[string]string{}
		if delta {
			again.resume(ir.TypeCluster, map[string]string{"c1": "1", "c2": "old"})
		} else {
			again.seen[ir.TypeCluster] = last.version
			again.subscribe(ir.TypeCluster)
		}
		again.silent()
		lacks("older: c2 lacks what is new-4")
	})
}
