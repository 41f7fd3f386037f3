package xds

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/chancery-gateway/chancery/translators/ir"
)

func TestRealEnvoy(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		b := newBed(t, delta)
		set := world(b.cluster("hello", 20*time.Second), b.endpoints("hello", b.hello), b.listener("web", b.port, ""), b.route("hello", "1"))
		settled(t, b.server, b.server.Publish(set))
		b.eventually("first answer", func() bool { code, text, _ := b.get("/"); return code == 200 && text == "hello" })
		if st := b.server.Status(); len(st) != 1 || st[0].ID != "bed" || !strings.HasPrefix(st[0].Version, "1.") || st[0].Delta != delta {
			t.Errorf("status %+v", st)
		}
		end := b.traffic("/")

		// A route edit reaches Envoy, and touches neither listener nor cluster.
		set = with(set, b.route("hello", "2"))
		settled(t, b.server, b.server.Publish(set))
		b.eventually("edited route", func() bool { _, _, edition := b.get("/"); return edition == "2" })

		// A changed cluster becomes warm, for its endpoints come along: Envoy would wait for them without an end.
		set = with(set, b.cluster("hello", 30*time.Second))
		settled(t, b.server, b.server.Publish(set))

		// A new cluster whose endpoints are late: nobody is routed there before they have come.
		set = with(set, b.cluster("hallo", 20*time.Second), b.route("hallo", "3"))
		n := b.server.Publish(set)
		b.eventually("the rest does not wait", func() bool { _, _, edition := b.get("/"); return edition == "3" })
		if _, text, _ := b.get("/"); text != "hello" {
			t.Errorf("routed early: %q", text)
		}
		late := b.endpoints("hallo", b.hallo)
		b.server.PublishEndpoints([]*ir.Resource{late}, nil)
		settled(t, b.server, n)
		b.eventually("new cluster", func() bool { _, text, edition := b.get("/"); return text == "hallo" && edition == "3" })
		set = with(set, late)

		// The old cluster goes after its route has gone.
		set = without(set, set[ir.TypeCluster][1], b.endpoints("hello", b.hello))
		settled(t, b.server, b.server.Publish(set))
		b.eventually("removed cluster", func() bool { return b.stat("cluster_manager.active_clusters") == "2" })

		// Endpoints move without anything else.
		b.server.PublishEndpoints([]*ir.Resource{b.endpoints("hallo", b.hello)}, nil)
		b.eventually("moved endpoints", func() bool { _, text, _ := b.get("/"); return text == "hello" })
		set = b.server.Served()

		// The server goes away, and one that was started anew comes back, with an edit.
		b.stop()
		b.serve(b.anew())
		b.server.Publish(set)
		b.eventually("reconnect", func() bool { return len(b.server.Status()) == 1 && b.server.Status()[0].ID == "bed" })
		settled(t, b.server, b.server.Publish(set))
		if got := b.server.Counters().Types[ir.TypeCluster]; got.Resources > 0 {
			t.Errorf("a reconnect with nothing new was sent %+v", got)
		}
		set = with(set, b.cluster("hello", 20*time.Second), b.endpoints("hello", b.hello), b.route("hello", "4"))
		settled(t, b.server, b.server.Publish(set))
		b.eventually("edit after reconnect", func() bool { _, _, edition := b.get("/"); return edition == "4" })

		for name, want := range map[string]string{
			"listener_manager.listener_modified": "0", "listener_manager.lds.update_rejected": "0", "cluster_manager.cds.update_rejected": "0",
			"cluster_manager.cds.init_fetch_timeout": "0", "listener_manager.total_listeners_draining": "0",
		} {
			if got := b.stat(name); got != want {
				t.Errorf("%s is %q, want %s", name, got, want)
			}
		}
		end()
	})
}

// TestRealEnvoySecrets: Envoy keeps a refused secret in its provider and rejects each later edit of the listener that
// uses it; the stand-in prevents that.
func TestRealEnvoySecrets(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		b := newBed(t, delta)
		cert, key := keyPair(t, "one")
		set := world(b.cluster("hello", 20*time.Second), b.endpoints("hello", b.hello), b.route("hello", "1"),
			b.listener("web", b.port, ""), b.listener("tls", b.tlsPort, "site"), b.secret("site", cert, key))
		settled(t, b.server, b.server.Publish(set))
		name := func() string {
			conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", b.tlsPort), &tls.Config{InsecureSkipVerify: true})
			if err != nil {
				return err.Error()
			}
			defer conn.Close()
			return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
		}
		b.eventually("first certificate", func() bool { return name() == "one" })

		_, foreign := keyPair(t, "other")
		bad := with(set, b.secret("site", cert, foreign))
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		err := b.server.Acknowledged(ctx, b.server.Publish(bad))
		refusal, ok := err.(*Refusal)
		if !ok || refusal.NACKs[0].Type != ir.TypeSecret || refusal.NACKs[0].Names[0] != "site" || refusal.NACKs[0].Text == "" {
			t.Fatalf("the foreign key was answered with %v", err)
		}
		if got := name(); got != "one" {
			t.Errorf("certificate %q after the refusal", got)
		}
		// An innocent edit of the listener goes through.
		bad = with(bad, b.listener("tls", b.tlsPort, "site", func(l *listenerv3.Listener) { l.StatPrefix = "edited" }))
		b.server.Publish(bad)
		b.eventually("listener edit", func() bool { return b.stat("listener_manager.listener_modified") == "1" })
		if got := b.stat("listener_manager.lds.update_rejected"); got != "0" {
			t.Errorf("%s listener updates were refused", got)
		}
		// A good certificate ends it.
		cert, key = keyPair(t, "two")
		settled(t, b.server, b.server.Publish(with(bad, b.secret("site", cert, key))))
		b.eventually("new certificate", func() bool { return name() == "two" })
	})
}

// TestRealEnvoyManyNewServices: 500 services at once, their endpoints late by up to a second, routed to in the same
// publication, under traffic to all of them: no request fails.
func TestRealEnvoyManyNewServices(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		const services = 500
		b := newBed(t, delta)
		set := world(b.cluster("hello", 20*time.Second), b.endpoints("hello", b.hello), b.listener("web", b.port, ""), b.route("hello", "1"))
		settled(t, b.server, b.server.Publish(set))
		b.eventually("first answer", func() bool { code, _, _ := b.get("/"); return code == http.StatusOK })
		paths := make([]string, services)
		routes := b.routes("hello", "2")
		var late []*ir.Resource
		next := set
		list := all(set)
		for i := range services {
			name := fmt.Sprintf("service-%03d", i)
			paths[i] = "/" + name
			list = append(list, b.cluster(name, 20*time.Second))
			late = append(late, b.endpoints(name, b.hallo))
			v := routes.VirtualHosts[0]
			v.Routes = append([]*routev3.Route{forward(paths[i], name)}, v.Routes...)
		}
		next = with(world(list...), pack(t, "routes", routes))
		end := b.traffic(paths...)
		n := b.server.Publish(next)
		for i := range 10 {
			time.Sleep(100 * time.Millisecond)
			b.server.PublishEndpoints(late[i*services/10:(i+1)*services/10], nil)
		}
		settled(t, b.server, n)
		for _, p := range []string{paths[0], paths[services-1]} {
			b.eventually("route "+p, func() bool { code, text, _ := b.get(p); return code == http.StatusOK && text == "hallo" })
		}
		// And back: the routes go before the clusters do.
		settled(t, b.server, b.server.Publish(set))
		b.eventually("removal", func() bool { return b.stat("cluster_manager.active_clusters") == "2" })
		end()
	})
}

// TestRealEnvoySilentDNS: while one cluster waits for a DNS server that never answers, and Envoy for it answers no change of clusters at
// all, everything that does not lead there changes: routes beside it, other route configurations, new clusters.
func TestRealEnvoySilentDNS(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		b := newBedAt(t, delta, newResolver(t, func(string) time.Duration { return 0 }).port())
		set := world(b.cluster("hello", 20*time.Second), b.endpoints("hello", b.hello), b.listener("web", b.port, ""), b.route("hello", "1"))
		settled(t, b.server, b.server.Publish(set))
		b.eventually("first answer", func() bool { _, text, _ := b.get("/"); return text == "hello" })
		end := b.traffic("/", "/silent")
		routes := b.routes("hello", "2")
		lead := func(prefix, to string) {
			v := routes.VirtualHosts[0]
			v.Routes = append([]*routev3.Route{forward(prefix, to)}, v.Routes...)
		}
		lead("/silent", "silent")
		set = with(set, b.dns("silent", b.hallo), pack(t, "routes", routes))
		b.server.Publish(set)
		b.eventually("the cluster is being warmed", func() bool { return b.stat("cluster_manager.warming_clusters") == "1" })
		b.eventually("the edit beside it", func() bool { _, _, edition := b.get("/"); return edition == "2" })

		lead("/eds", "eds")
		lead("/static", "static")
		lead("/dns", "dns")
		set = with(set, b.cluster("eds", 20*time.Second), b.endpoints("eds", b.hallo), b.static("static", b.hallo), b.dns("dns", b.hallo), pack(t, "routes", routes))
		b.server.Publish(set)
		for _, path := range []string{"/eds", "/static", "/dns"} { // Envoy is asked about the last
			b.eventually(path, func() bool { _, text, _ := b.get(path); return text == "hallo" })
		}
		if b.stat("cluster_manager.warming_clusters") == "0" || b.server.Counters().Timeouts > 0 {
			t.Error("the cluster is not being warmed any more: nothing was shown")
		}
		if _, text, _ := b.get("/silent"); text != "hello" {
			t.Errorf("routed early: %q", text)
		}
		end()
	})
}

// TestRealEnvoyManySlowNames: 500 services at once, each found by DNS after up to a second, routed to in the same publication under
// traffic to all of them: no request fails.
func TestRealEnvoyManySlowNames(t *testing.T) {
	const services = 500
	both(t, func(t *testing.T, delta bool) {
		b := newBedAt(t, delta, newResolver(t, func(name string) time.Duration {
			var sum time.Duration
			for _, c := range name {
				sum = sum*31 + time.Duration(c)
			}
			return sum % 1000 * time.Millisecond
		}).port())
		set := world(b.cluster("hello", 20*time.Second), b.endpoints("hello", b.hello), b.listener("web", b.port, ""), b.route("hello", "1"))
		settled(t, b.server, b.server.Publish(set))
		b.eventually("first answer", func() bool { code, _, _ := b.get("/"); return code == http.StatusOK })
		paths := make([]string, services)
		routes, list := b.routes("hello", "2"), all(set)
		for i := range services {
			name := fmt.Sprintf("service-%03d", i)
			paths[i] = "/" + name
			list = append(list, b.dns(name, b.hallo))
			v := routes.VirtualHosts[0]
			v.Routes = append([]*routev3.Route{forward(paths[i], name)}, v.Routes...)
		}
		end := b.traffic(paths...)
		settled(t, b.server, b.server.Publish(with(world(list...), pack(t, "routes", routes))))
		for _, p := range []string{paths[0], paths[services-1]} {
			b.eventually("route "+p, func() bool { code, text, _ := b.get(p); return code == http.StatusOK && text == "hallo" })
		}
		settled(t, b.server, b.server.Publish(set))
		b.eventually("removal", func() bool { return b.stat("cluster_manager.active_clusters") == "2" })
		end()
	})
}
