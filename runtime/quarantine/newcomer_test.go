package quarantine

import (
	"slices"
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// listenersOf are the names of the listeners with at least one filter chain.
func listenersOf(r *translators.Result) string {
	var out []string
	for _, x := range r.Resources[ir.TypeListener] {
		var l listenerv3.Listener
		if err := proto.Unmarshal(x.Value, &l); err != nil {
			panic(err) // our own bytes
		}
		if len(l.FilterChains) > 0 {
			out = append(out, l.Name)
		}
	}
	return strings.Join(out, " ")
}

// restricted reports whether some listener asks where a request comes from.
func restricted(r *translators.Result) bool {
	return slices.ContainsFunc(r.Resources[ir.TypeListener], func(x *ir.Resource) bool { return strings.Contains(string(x.Value), ir.FilterRBAC) })
}

// TestNewcomer: a new object that spoils what others make together costs nobody but itself, until it is corrected, with Envoy's word
// and by our own rules.
func TestNewcomer(t *testing.T) {
	module := func(config string) string {
		return `{"apiVersion":"getambassador.io/v3alpha1","kind":"Module","metadata":{"name":"ambassador","namespace":"app"},"spec":{"config":` + config + `}}`
	}
	mapping := object("Mapping", "a", `{"hostname":"*","prefix":"/a/","service":"a"}`)
	for name, c := range map[string]struct {
		spoils, cured string
		served        string
		omitted       bool
	}{
		"refused by Envoy": {module(`{"lua_scripts":"spoiled"}`), module(`{"lua_scripts":"x = 1"}`), "app/l", true},
		"by our own rules": {module(`{"lua_scripts":"while true do end"}`), module(`{"lua_scripts":"x = 1"}`), "app/l", true},
		// The script alone is left out; what restricts access stays.
		"restricts access beside it": {module(`{"lua_scripts":"spoiled","ip_allow":[{"peer":"192.0.2.1"}]}`), module(`{"lua_scripts":"x = 1","ip_allow":[{"peer":"192.0.2.1"}]}`), "app/l", false},
		// A script that answers requests may restrict access itself.
		"restricts access": {module(`{"lua_scripts":"spoiled() h:respond()","ip_allow":[{"peer":"192.0.2.1"}]}`), module(`{"lua_scripts":"x = 1","ip_allow":[{"peer":"192.0.2.1"}]}`), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			ask := newChain(t, dir, patient{"spoiled"})
			r, ds := ask.deliver(ask.put(listener, mapping))
			if got := listenersOf(r); got != "app/l" {
				t.Fatalf("listeners %q: %v", got, ds)
			}
			for range 2 { // one more delivery makes no difference
				r, ds = ask.deliver(ask.put(c.spoils))
				if got := listenersOf(r); got != c.served {
					t.Errorf("spoiled: listeners %q, want %q: %v", got, c.served, ds)
				}
				if got := about(ds, "ambassador"); len(got) == 0 || c.omitted != slices.Contains(got, Omitted.ID) || slices.Contains(got, Held.ID) {
					t.Errorf("said is %v", ds)
				}
				if got := restricted(r); got != (c.served != "" && !c.omitted) {
					t.Errorf("access is restricted: %v", got)
				}
				if ask.q.Held() != 0 {
					t.Errorf("%d objects are said to be in their last good form", ask.q.Held())
				}
				if c.served == "" {
					break
				}
			}
			if err := ask.q.Save(); err != nil {
				t.Fatal(err)
			}
			later := newChain(t, dir, patient{"spoiled"})
			if r, ds = later.deliver(ask.s); listenersOf(r) != c.served {
				t.Errorf("after a restart: listeners %q: %v", listenersOf(r), ds)
			}
			r, ds = ask.deliver(ask.put(c.cured))
			if got := listenersOf(r); got != "app/l" || len(about(ds, "ambassador")) > 0 {
				t.Errorf("cured: listeners %q: %v", got, ds)
			}
		})
	}
}

// TestNeverGood: a Mapping that was faulty from its first form on is not said to be served in a good one.
func TestNeverGood(t *testing.T) {
	for name, form := range map[string]string{
		"our rules": `{"hostname":"*","prefix":"/a/[b-","prefix_regex":true,"service":"a"}`,
		"Envoy":     `{"hostname":"*","prefix":"/spoiled/","service":"a"}`,
	} {
		t.Run(name, func(t *testing.T) {
			c := newChain(t, "", patient{"spoiled"})
			c.deliver(c.put(listener, object("Mapping", "b", `{"hostname":"*","prefix":"/b/","service":"b"}`)))
			c.deliver(c.put(object("Mapping", "a", form)))
			r, ds := c.deliver(c.put(object("Mapping", "a", `{"hostname":"*","prefix":"/x/(","prefix_regex":true,"service":"a"}`)))
			if got := about(ds, "a"); routesOf(r) != "/b/" || len(got) == 0 || slices.Contains(got, Faulty.ID) || slices.Contains(got, Held.ID) {
				t.Errorf("served are %s: %v", routesOf(r), ds)
			}
			if c.q.good.Get(snapshot.GroupKind{Group: snapshot.EmissaryGroup, Kind: "Mapping"}, "app", "a") != nil {
				t.Error("it has a good form")
			}
		})
	}
}
