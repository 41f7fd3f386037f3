// Package envoy is the back end: it turns one linked ir.Program into marshalled Envoy resources. Every unit (route, virtual
// host, route configuration, cluster, secret, endpoint set, filter chain, listener) is a pure function of its IR node and of
// which of the names it refers to exist; its bytes are made once and spliced into what holds them.
package envoy

import (
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// Options set up an Emitter.
type Options struct {
	// ReservedClusters are the names of the bootstrap's clusters, which Envoy would silently prefer; nil means those of Bootstrap.
	ReservedClusters []string
	// Version is that of the Envoy, such as "1.36.4"; "" means the newest that is known.
	Version string
}

// Output is the outcome of one emission. Nothing in it changes afterwards.
type Output struct {
	Resources ir.ResourceSet
	// Diagnostics have no positions; they are sorted and without duplicates.
	Diagnostics []snapshot.Diagnostic
	// Changed are the pieces that Envoy has not been asked about since this Emitter made them.
	Changed []*ir.Unit
	// Emitted is the number of units made anew; Units says which.
	Emitted int
	Units   Units
}

// Units counts units by kind.
type Units struct {
	Routes, VirtualHosts, RouteConfigs, Clusters, Secrets, EndpointSets, Chains, Listeners int
}

func (u Units) total() int {
	return u.Routes + u.VirtualHosts + u.RouteConfigs + u.Clusters + u.Secrets + u.EndpointSets + u.Chains + u.Listeners
}

// Emitter emits programs one after the other and remembers the units of the last ones by node pointer. It is not safe for
// concurrent use. What it returns depends on the program alone, never on what it remembers.
type Emitter struct {
	reserved map[string]bool
	// minor is the second number of the Envoy's version, 0 for the newest.
	minor int
	// maxProgram is the limit of RE2's program size under which everything was emitted.
	maxProgram uint32
	// asked are the services that chains ask, with which everything was emitted.
	asked     services
	secrets   store[ir.Secret]
	endpoints store[ir.EndpointSet]
	clusters  store[ir.Cluster]
	routes    store[ir.RouteConfig]
	listeners store[ir.Listener]
	memo      routeMemo
	chains    chainMemo
	// standIn is the unavailable cluster, once something has needed it.
	standIn *ir.Resource
	units   Units
	refused refusals
	// encoding is work space.
	encoding encoding
}

// reservedClusters are those of Bootstrap, and the one without endpoints.
var reservedClusters = []string{adsCluster, unavailable}

func reserved(cluster string) bool { return slices.Contains(reservedClusters, cluster) }

// NewEmitter returns an Emitter that remembers nothing.
func NewEmitter(o Options) *Emitter {
	if o.ReservedClusters == nil {
		o.ReservedClusters = reservedClusters
	}
	e := &Emitter{reserved: map[string]bool{}, minor: minor(o.Version)}
	for _, n := range o.ReservedClusters {
		e.reserved[n] = true
	}
	e.forget(maxProgram(nil))
	return e
}

// forget makes the Emitter remember nothing and take another limit of RE2's program size.
func (e *Emitter) forget(limit uint32) {
	e.maxProgram = limit
	e.secrets = store[ir.Secret]{kind: "secret", name: func(s *ir.Secret) string { return s.Name }, origins: func(s *ir.Secret) []ir.Origin { return s.Origins }}
	e.endpoints = store[ir.EndpointSet]{kind: "endpoint set", name: func(s *ir.EndpointSet) string { return s.Name }, origins: func(s *ir.EndpointSet) []ir.Origin { return s.Origins }}
	e.clusters = store[ir.Cluster]{kind: "cluster", name: func(c *ir.Cluster) string { return c.Name }, origins: func(c *ir.Cluster) []ir.Origin { return c.Origins }}
	e.routes = store[ir.RouteConfig]{kind: "route configuration", name: func(r *ir.RouteConfig) string { return r.Name }, origins: func(r *ir.RouteConfig) []ir.Origin { return r.Origins },
		forget: func(name string) { e.memo.replace(name, nil) }}
	e.listeners = store[ir.Listener]{kind: "listener", name: func(l *ir.Listener) string { return l.Name }, origins: func(l *ir.Listener) []ir.Origin { return l.Origins }}
	e.memo, e.chains = newRouteMemo(), newChainMemo()
}

// Emit emits the program. A nil program has no resources.
func (e *Emitter) Emit(p *ir.Program) Output {
	if p == nil {
		p = &ir.Program{}
	}
	if limit, asked := maxProgram(p.Bootstrap), servicesOf(p.Listeners); limit != e.maxProgram || asked != e.asked {
		e.forget(limit)
		e.asked = asked
	}
	e.units, e.refused.shown = Units{}, nil
	e.secrets.update(p.Secrets, stamp{refused: e.refused.generation}, e.secret)
	e.endpoints.update(p.EndpointSets, stamp{}, e.endpointSet)
	refs := stamp{secrets: e.secrets.world.generation, endpoints: e.endpoints.world.generation, refused: e.refused.generation}
	e.clusters.update(p.Clusters, refs, e.cluster)
	refs = stamp{clusters: e.clusters.world.generation, refused: e.refused.generation}
	e.routes.update(p.RouteConfigs, refs, e.routeConfig)
	refs = stamp{secrets: e.secrets.world.generation, clusters: e.clusters.world.generation, routes: e.routes.world.generation, refused: e.refused.generation}
	e.listeners.update(p.Listeners, refs, e.listener)

	out := Output{Emitted: e.units.total(), Units: e.units, Changed: e.refused.shown}
	out.Diagnostics = slices.Concat(e.secrets.diagnostics, e.endpoints.diagnostics, e.clusters.diagnostics, e.routes.diagnostics, e.listeners.diagnostics)
	listeners, clashes := withoutClashes(p.Listeners, e.listeners.resources)
	out.Diagnostics = snapshot.SortDiagnostics(append(out.Diagnostics, clashes...))
	out.Resources = ir.ResourceSet{}
	for _, t := range []struct {
		url  string
		list []*ir.Resource
	}{
		{ir.TypeSecret, e.secrets.resources}, {ir.TypeEndpoint, e.endpoints.resources}, {ir.TypeCluster, e.withStandIn()},
		{ir.TypeRouteConfig, e.routes.resources}, {ir.TypeListener, listeners},
	} {
		if len(t.list) > 0 {
			out.Resources[t.url] = t.list
		}
	}
	e.memo.sweep()
	e.chains.sweep(p.Listeners)
	return out
}

// finish makes the unit of a message whose faults have been collected.
func finish[S any](e *Emitter, url string, kind ir.UnitKind, name string, value []byte, origins []ir.Origin, f faults) *unit[S] {
	u := &unit[S]{}
	hash := contentHash(value)
	if len(f) == 0 {
		u.id = e.refused.show(kind, name, value, hash, origins, &f)
	}
	if len(f) > 0 {
		u.diagnostics = f.diagnostics(unitName(string(kind), name), leftOut, origins)
		return u
	}
	u.resource = &ir.Resource{Type: url, Name: name, Version: version(hash), Value: value, Origins: origins}
	return u
}

func (e *Emitter) secret(s *ir.Secret, old *unit[ir.Secret]) *unit[ir.Secret] {
	if old != nil && old.src == s && old.resource != nil && !e.refused.has(old.id) {
		return old
	}
	e.units.Secrets++
	var f faults
	m := secretMessage(s, &f)
	f.check("", m)
	return finish[ir.Secret](e, ir.TypeSecret, ir.UnitSecret, s.Name, f.marshal("", m), s.Origins, f)
}

func (e *Emitter) endpointSet(s *ir.EndpointSet, _ *unit[ir.EndpointSet]) *unit[ir.EndpointSet] {
	e.units.EndpointSets++
	r, ds := EndpointResource(s)
	return &unit[ir.EndpointSet]{resource: r, diagnostics: ds}
}

func (e *Emitter) cluster(c *ir.Cluster, old *unit[ir.Cluster]) *unit[ir.Cluster] {
	var f faults
	if e.reserved[c.Name] {
		f.add(codeReserved, "name", "%q is one of Chancery's own clusters", c.Name)
	}
	if c.Discovery == ir.DiscoveryEDS && !e.endpoints.world.has(c.EndpointSet) {
		f.add(codeMissing, "eds_cluster_config.service_name", "there is no endpoint set %q", c.EndpointSet)
	}
	if t := c.TLS; t != nil {
		e.needSecret("transport_socket", t.Certificate, false, &f)
		e.needSecret("transport_socket", t.Validation, true, &f)
	}
	if len(f) == 0 && old != nil && old.src == c && old.resource != nil && !e.refused.has(old.id) {
		return old
	}
	e.units.Clusters++
	w := &e.encoding
	w.reset()
	fit, found := e.fitCluster(c)
	w.cluster(fit, &f)
	w.checkCluster(&f)
	u := finish[ir.Cluster](e, ir.TypeCluster, ir.UnitCluster, c.Name, w.bytes(), c.Origins, f)
	if u.resource != nil && c.Discovery == ir.DiscoveryEDS {
		u.resource.EndpointSet = c.EndpointSet
	}
	u.diagnostics = append(u.diagnostics, found...)
	return u
}

// needSecret refuses the name of a secret that does not exist, or is of the other kind: Envoy would take that and never serve.
func (e *Emitter) needSecret(path, name string, anchors bool, f *faults) {
	switch {
	case name == "":
	case !e.secrets.world.has(name):
		f.add(codeMissing, path, "there is no usable secret %q", name)
	case e.isAnchors(name) != anchors && anchors:
		f.add(codeMissing, path, "secret %q holds a certificate, no trust anchors", name)
	case e.isAnchors(name) != anchors:
		f.add(codeMissing, path, "secret %q holds trust anchors, no certificate", name)
	}
}

func (e *Emitter) isAnchors(secret string) bool {
	i, found := slices.BinarySearchFunc(e.secrets.units, secret, func(u *unit[ir.Secret], name string) int { return strings.Compare(u.name, name) })
	if !found || e.secrets.units[i].src == nil {
		return false
	}
	s := e.secrets.units[i].src
	return len(s.CA) > 0 || s.CAFile != ""
}

// withStandIn returns the clusters, with the unavailable one where a split or a TCP route lost a member.
func (e *Emitter) withStandIn() []*ir.Resource {
	list := e.clusters.resources
	if !e.memo.needStandIn(e.routes.units) && !e.chains.needStandIn(e.listeners.units) {
		return list
	}
	if e.standIn == nil {
		var f faults
		c := standInCluster()
		value := f.marshal("", c)
		e.standIn = &ir.Resource{Type: ir.TypeCluster, Name: c.Name, Version: version(contentHash(value)), Value: value}
	}
	at, _ := slices.BinarySearchFunc(list, unavailable, func(r *ir.Resource, n string) int {
		if r.Name < n {
			return -1
		}
		return 1
	})
	return slices.Insert(slices.Clone(list), at, e.standIn)
}
