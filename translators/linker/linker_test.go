package linker

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

func TestOverlaps(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"*", "anything.example.com", true},
		{"*", "*.example.com", true},
		{"example.com", "example.com", true},
		{"example.com", "www.example.com", false},
		{"*.example.com", "www.example.com", true},
		{"*.example.com", "example.com", false},
		{"*example.com", "example.com", false},
		{"*example.com", "myexample.com", true},
		{"*.example.com", "a.b.example.com", true},
		{"*.example.com", "*.b.example.com", true},
		{"*.example.com", "*.example.org", false},
		{"*.example.com", "*example.com", true},
		{"www.*", "www.example.com", true},
		{"www.*", "api.example.com", false},
		{"www.*", "*.com", true},
		{"www.*", "www.example.*", true},
		{"api.*", "www.*", false},
		{"*.example.com", ".example.com", false},
	} {
		for _, p := range [][2]string{{c.a, c.b}, {c.b, c.a}} {
			if got := overlaps(p[0], p[1]); got != c.want {
				t.Errorf("overlaps(%q, %q) = %v", p[0], p[1], got)
			}
		}
	}
}

func object(kind, namespace, name string, labels map[string]string) *snapshot.Object {
	return &snapshot.Object{Ref: snapshot.Ref{Group: snapshot.EmissaryGroup, Kind: kind, Namespace: namespace, Name: name}, Labels: labels}
}

func weight(w int) *int { return &w }

func branchOf(name string, w *int) *ir.RouteFragment {
	return &ir.RouteFragment{Origin: object("Mapping", "app", name, nil), Group: "g", Order: "1", Weight: w,
		Hosts: ir.HostPattern{Value: "*"},
		Route: &ir.Route{Name: name, Match: ir.Match{PathKind: ir.PathPrefix, Path: "/"}, Forward: &ir.Forward{Clusters: []ir.WeightedCluster{{Cluster: name}}}}}
}

// sharesOf reads the share of each cluster from the routes as Envoy does: one number for a request, compared in turn.
func sharesOf(routes []*ir.Route) map[string]float64 {
	out := map[string]float64{}
	below := 0.0
	for _, r := range routes {
		upTo := 1.0
		if f := r.Match.Fraction; f != nil {
			upTo = float64(f.Numerator) / float64(f.Denominator)
		}
		name := "direct"
		if r.Forward != nil {
			name = r.Forward.Clusters[0].Cluster
		}
		out[name] += max(upTo-below, 0)
		below = max(below, upTo)
	}
	return out
}

func TestShares(t *testing.T) {
	host := &ir.HostFragment{Domain: "*", SNI: "*"}
	for _, c := range []struct {
		name    string
		weights []*int
		want    []float64 // by branch
		direct  float64
		warns   bool
	}{
		{"one", []*int{nil}, []float64{1}, 0, false},
		{"one with a weight has everything", []*int{weight(10)}, []float64{1}, 0, false},
		{"one with weight 0 has nothing", []*int{weight(0)}, []float64{0}, 1, true},
		{"two without weights", []*int{nil, nil}, []float64{.5, .5}, 0, false},
		{"three without weights", []*int{nil, nil, nil}, []float64{1. / 3, 1. / 3, 1. / 3}, 0, false},
		{"what is left", []*int{weight(10), nil, weight(20)}, []float64{.1, .7, .2}, 0, false},
		{"left for two", []*int{weight(10), nil, nil}, []float64{.1, .45, .45}, 0, false},
		{"a hundred", []*int{weight(5), weight(5), weight(90)}, []float64{.05, .05, .9}, 0, false},
		{"less than a hundred", []*int{weight(10), weight(30)}, []float64{.25, .75}, 0, true},
		{"more than a hundred", []*int{weight(90), weight(60), nil}, []float64{.6, .4, 0}, 0, true},
		{"nothing left", []*int{weight(100), nil}, []float64{1, 0}, 0, false},
		{"all zero", []*int{weight(0), weight(0)}, []float64{0, 0}, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var fs []*ir.RouteFragment
			for i, w := range c.weights {
				fs = append(fs, branchOf(fmt.Sprintf("b%d", i), w))
			}
			v := newVariants()
			routes, findings := link(fs, host, &v)
			got := sharesOf(routes)
			for i, want := range c.want {
				if d := got[fmt.Sprintf("b%d", i)] - want; d > 1e-5 || d < -1e-5 {
					t.Errorf("branch %d has %v, want %v", i, got[fmt.Sprintf("b%d", i)], want)
				}
			}
			if got["direct"] != c.direct {
				t.Errorf("direct response has %v, want %v", got["direct"], c.direct)
			}
			if (len(findings) > 0) != c.warns {
				t.Errorf("findings: %v", findings)
			}
		})
	}
}

func TestShadowTakesNoShare(t *testing.T) {
	live, shadow := branchOf("live", nil), branchOf("shadow", weight(1))
	shadow.Shadow = true
	v := newVariants()
	routes, findings := link([]*ir.RouteFragment{live, shadow}, &ir.HostFragment{SNI: "*"}, &v)
	if len(routes) != 1 || len(findings) != 0 {
		t.Fatalf("%d routes, findings %v", len(routes), findings)
	}
	want := []ir.Mirror{{Cluster: "shadow", Fraction: &ir.Fraction{Numerator: 1, Denominator: 100}}}
	if d := cmp.Diff(want, routes[0].Forward.Mirrors); d != "" || routes[0].Match.Fraction != nil {
		t.Errorf("mirrors differ: %s, fraction %v", d, routes[0].Match.Fraction)
	}
	if live.Route.Forward.Mirrors != nil {
		t.Error("the fragment itself was changed")
	}
}

// world is a small random input of fragments that collide often.
type world struct {
	rand    *rand.Rand
	current map[snapshot.Ref]*ir.Fragments
}

var (
	hostNames = []string{"*", "a.example.com", "b.example.com", "*.example.com", "a.example.com:8080", "c.example.org", "www.*"}
	labelSets = []map[string]string{nil, {"team": "red"}, {"team": "blue"}, {"team": "red", "tier": "web"}}
)

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func (w *world) fragments(ref snapshot.Ref) *ir.Fragments {
	r := w.rand
	o := object(ref.Kind, ref.Namespace, ref.Name, pick(r, labelSets))
	f := &ir.Fragments{}
	switch ref.Kind {
	case "Listener":
		l := &ir.ListenerFragment{Origin: o, Name: ref.Name, Address: "0.0.0.0", Port: pick(r, []uint32{80, 81, 443}), HTTP: r.IntN(5) > 0, TLS: r.IntN(2) == 0,
			Security: pick(r, []ir.SecurityModel{ir.SecurityXFP, ir.SecuritySecure, ir.SecurityInsecure}), Chain: &ir.HTTPChain{Settings: &ir.HTTPSettings{}}}
		if r.IntN(3) == 0 {
			l.Hosts.Namespace = ref.Namespace
		}
		l.Hosts.Labels = pick(r, []map[string]string{nil, nil, {"team": "red"}})
		f.Listeners = append(f.Listeners, l)
	case "Host":
		d := pick(r, hostNames)
		h := &ir.HostFragment{Origin: o, Domain: d, SNI: withoutPort(d), Select: pick(r, []map[string]string{nil, nil, {"team": "red"}, {"tier": "web", "team": "red"}}),
			SelectAny: r.IntN(8) == 0, Insecure: pick(r, []ir.InsecureAction{ir.InsecureRedirect, ir.InsecureReject, ir.InsecureRoute})}
		if r.IntN(2) == 0 {
			h.TLS = &ir.DownstreamTLS{Certificates: []string{pick(r, []string{"x/cert", "y/cert"})}}
		} else if r.IntN(4) == 0 {
			h.Closed = "no certificate"
		}
		f.Hosts = append(f.Hosts, h)
	case "TCPMapping":
		f.TCPRoutes = append(f.TCPRoutes, &ir.TCPRouteFragment{Origin: o, Port: pick(r, []uint32{80, 443}), SNI: pick(r, []string{"", "a.example.com", "t.example.com"}),
			Weight: pick(r, []*int{nil, weight(10)}), Cluster: "tcp-" + ref.Name})
		f.Clusters = append(f.Clusters, &ir.Cluster{Name: "tcp-" + ref.Name})
	default:
		host := pick(r, []ir.HostPattern{{Value: "*"}, {Value: "a.example.com"}, {Value: "*.example.com"}, {Value: "b.example.com"}, {Kind: ir.HostRegex, Value: "a.*"}, {Kind: ir.HostNone}, {Kind: ir.HostEvery}})
		path := pick(r, []string{"/", "/a/", "/b/", "/a/b/"})
		target := pick(r, []string{"one", "two", "three"})
		rf := &ir.RouteFragment{Origin: o, Hosts: host, Labels: o.Labels, Group: fmt.Sprint(host, path), Order: fmt.Sprintf("%03d%s", len(path), path),
			Weight: pick(r, []*int{nil, nil, weight(0), weight(20), weight(70)}), Always: path == "/b/",
			Route: &ir.Route{Name: ref.Name, Match: ir.Match{PathKind: ir.PathPrefix, Path: path}, Origins: []ir.Origin{ref},
				Forward: &ir.Forward{Clusters: []ir.WeightedCluster{{Cluster: target}}}}}
		if host.Kind == ir.HostGlob && host.Value != "*" || host.Kind == ir.HostRegex {
			rf.Authority = &ir.ValueMatch{Name: ":authority", Kind: ir.ValueExact, Value: host.Value}
		}
		switch r.IntN(8) {
		case 0:
			rf.Shadow = true
		case 1:
			rf.Route.Forward, rf.Route.Redirect = nil, &ir.Redirect{Host: "elsewhere", Code: 301}
		}
		f.Routes = append(f.Routes, rf)
		f.Clusters = append(f.Clusters, &ir.Cluster{Name: target, Origins: []ir.Origin{ref}})
		f.EndpointSets = append(f.EndpointSets, ir.EndpointRequest{Name: "k8s/app/" + target})
	}
	return f
}

func (w *world) step() Change {
	kind := pick(w.rand, []string{"Listener", "Host", "Host", "Mapping", "Mapping", "Mapping", "Mapping", "TCPMapping"})
	ref := snapshot.Ref{Group: snapshot.EmissaryGroup, Kind: kind, Namespace: pick(w.rand, []string{"red", "blue"}), Name: fmt.Sprintf("%s-%d", strings.ToLower(kind), w.rand.IntN(5))}
	c := Change{Ref: ref, Old: w.current[ref]}
	if c.Old != nil && w.rand.IntN(4) == 0 {
		delete(w.current, ref)
		return c
	}
	c.New = w.fragments(ref)
	w.current[ref] = c.New
	return c
}

func (w *world) all() []Change {
	var cs []Change
	for r, f := range w.current {
		cs = append(cs, Change{Ref: r, New: f})
	}
	w.rand.Shuffle(len(cs), func(i, j int) { cs[i], cs[j] = cs[j], cs[i] })
	return cs
}

func render(t *testing.T, l Linked) string {
	t.Helper()
	b, err := json.MarshalIndent(struct {
		P *ir.Program
		R []*ir.EndpointRequest
	}{l.Program, l.Requests}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	var d []string
	for _, x := range l.Diagnostics {
		d = append(d, x.String())
	}
	return string(b) + strings.Join(d, "\n")
}

// TestWarmEqualsCold: after any sequence of changes the incremental linker's program and findings are those of a new
// linker that got the same fragments at once and in another order.
func TestWarmEqualsCold(t *testing.T) {
	const runs, steps = 40, 100
	for seed := range uint64(runs) {
		w := &world{rand: rand.New(rand.NewPCG(seed, 1)), current: map[snapshot.Ref]*ir.Fragments{}}
		warm := New()
		for step := range steps {
			var cs []Change
			for range 1 + w.rand.IntN(3) {
				c := w.step()
				if !slices.ContainsFunc(cs, func(o Change) bool { return o.Ref == c.Ref }) {
					cs = append(cs, c)
				} else {
					// Two changes of one object in one batch: the later one replaces what the earlier one put.
					for i := range cs {
						if cs[i].Ref == c.Ref {
							cs[i].New = c.New
						}
					}
				}
			}
			got := render(t, warm.Link(cs))
			if want := render(t, New().Link(w.all())); got != want {
				t.Fatalf("seed %d step %d: warm differs from cold:\n%s", seed, step, cmp.Diff(want, got))
			}
		}
	}
}

// TestUntouchedNodesKeepTheirPointers: the back end recognises unchanged nodes by pointer, so a change elsewhere must not
// make new ones.
func TestUntouchedNodesKeepTheirPointers(t *testing.T) {
	listener := object("Listener", "gw", "l", nil)
	l := New()
	changes := []Change{{Ref: listener.Ref, New: &ir.Fragments{Listeners: []*ir.ListenerFragment{{Origin: listener, Name: "l", Port: 80, HTTP: true,
		Security: ir.SecurityXFP, Chain: &ir.HTTPChain{Settings: &ir.HTTPSettings{}}}}}}}
	for _, n := range []string{"a", "b"} {
		h := object("Host", "gw", n, nil)
		changes = append(changes, Change{Ref: h.Ref, New: &ir.Fragments{Hosts: []*ir.HostFragment{{Origin: h, Domain: n, SNI: n, Insecure: ir.InsecureRoute}}}})
		for i := range 10 {
			changes = append(changes, Change{Ref: object("Mapping", n, fmt.Sprint(i), nil).Ref, New: routeOn(n, i)})
		}
	}
	before := l.Link(changes).Program
	old := changes[len(changes)-1]
	after := l.Link([]Change{{Ref: old.Ref, Old: old.New, New: routeOn("b", 9)}})
	if after.Groups != 1 {
		t.Errorf("%d groups were linked, want 1", after.Groups)
	}
	if before.Listeners[0] != after.Program.Listeners[0] {
		t.Error("the listener was made anew")
	}
	was, now := before.RouteConfigs[0], after.Program.RouteConfigs[0]
	if was == now || was.VirtualHosts[0] != now.VirtualHosts[0] || was.VirtualHosts[1] == now.VirtualHosts[1] {
		t.Error("exactly virtual host b and the configuration should be new")
	}
	fresh := 0
	for i, r := range now.VirtualHosts[1].Routes {
		if was.VirtualHosts[1].Routes[i] != r {
			fresh++
		}
	}
	if fresh != 1 {
		t.Errorf("%d routes are new, want 1", fresh)
	}
}

func routeOn(host string, i int) *ir.Fragments {
	o := object("Mapping", host, fmt.Sprint(i), nil)
	return &ir.Fragments{Routes: []*ir.RouteFragment{{Origin: o, Hosts: ir.HostPattern{Value: host}, Group: fmt.Sprint(i), Order: fmt.Sprintf("%09d", i),
		Route: &ir.Route{Name: fmt.Sprint(i), Match: ir.Match{PathKind: ir.PathPrefix, Path: fmt.Sprint("/", i)}, Direct: &ir.DirectResponse{Status: 200}}}}}
}

// TestWildcardRoutesAreShared: routes for every host are held once by all hosts that have no routes of their own.
func TestWildcardRoutesAreShared(t *testing.T) {
	listener := object("Listener", "gw", "l", nil)
	changes := []Change{{Ref: listener.Ref, New: &ir.Fragments{Listeners: []*ir.ListenerFragment{{Origin: listener, Name: "l", Port: 80, HTTP: true,
		Security: ir.SecurityXFP, Chain: &ir.HTTPChain{Settings: &ir.HTTPSettings{}}}}}}}
	for i := range 50 {
		n := fmt.Sprintf("h%02d.example.com", i)
		h := object("Host", "gw", n, nil)
		changes = append(changes, Change{Ref: h.Ref, New: &ir.Fragments{Hosts: []*ir.HostFragment{{Origin: h, Domain: n, SNI: n, Insecure: ir.InsecureRoute}}}})
	}
	for i := range 100 {
		f := routeOn("*", i)
		changes = append(changes, Change{Ref: f.Routes[0].Origin.Ref, New: f})
	}
	p := New().Link(changes).Program
	if vhs := p.RouteConfigs[0].VirtualHosts; len(vhs) != 1 || len(vhs[0].Domains) != 50 || len(vhs[0].Routes) != 100 {
		t.Errorf("%d virtual hosts", len(vhs))
	}
}
