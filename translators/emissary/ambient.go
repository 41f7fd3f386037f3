package emissary

import (
	"github.com/chancery-gateway/chancery/snapshot"
	api "github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// fallbackSecret is the certificate of the made-up Host.
const fallbackSecret = "fallback-self-signed-cert"

// Ambient returns what follows from the input as a whole: the routes of the probes, the bootstrap where no Module sets it,
// and a Host for "*" where there is no Host at all, not even a refused one.
func (f *FrontEnd) Ambient(v *snapshot.View) *ir.Fragments {
	set := f.module(v)
	out := &ir.Fragments{}
	origin := f.self
	if set.of != nil {
		origin = set.of
	} else {
		out.Bootstrap = set.bootstrap
	}
	for _, p := range set.probes {
		l := &lowering{f: f, o: origin, v: v, set: set, out: out}
		l.probe(p)
	}
	for o := range v.List(api.KindHost) {
		if f.Owns(o) {
			return out
		}
	}
	if v.Refused(api.KindHost) {
		return out // a Host that cannot be read is no reason to open up
	}
	host := &snapshot.Object{
		Ref:        snapshot.Ref{Group: snapshot.EmissaryGroup, Kind: api.KindHost.Kind, Namespace: f.options.Namespace, Name: "default-host"},
		APIVersion: api.APIVersion,
	}
	l := &lowering{f: f, o: host, v: v, set: set, out: out}
	l.defaultHost()
	return out
}

// probe makes the internal route of one probe; it is on every host and ordered like any other route.
func (l *lowering) probe(p probe) {
	svc, err := parseService(p.service)
	if err != nil {
		return // the Module's finding
	}
	tls := svc.scheme == "https"
	svc = svc.withPort(tls)
	c := &ir.Cluster{
		Host: svc.host, Port: svc.port, Discovery: ir.DiscoveryStrictDNS, DNSFamily: l.dnsFamily(upstream{}), LoadBalancer: "round_robin",
		ConnectTimeoutMillis: defaultConnectTimeout, Origins: l.origins(), StatName: statName("", svc, tls),
	}
	if svc.ip {
		c.Discovery, c.DNSFamily = ir.DiscoveryStatic, ""
	}
	if tls {
		c.TLS = &ir.UpstreamTLS{}
	}
	c.Name = clusterName(c, "", l.scratch[:0])
	known := false
	for _, other := range l.out.Clusters {
		known = known || other.Name == c.Name
	}
	if !known {
		l.out.Clusters = append(l.out.Clusters, c)
	}
	r := &ir.Route{
		Name: p.name, Match: ir.Match{PathKind: ir.PathPrefix, Path: p.prefix}, Origins: l.origins(),
		Forward: &ir.Forward{Clusters: []ir.WeightedCluster{{Cluster: c.Name}}, PrefixRewrite: &p.rewrite, TimeoutMillis: 10000},
	}
	if p.open {
		setFilter(r, ir.FilterExtAuthz, &ir.ExtAuthzRoute{Disabled: true})
	}
	pattern := ir.HostPattern{Kind: ir.HostEvery}
	l.out.Routes = append(l.out.Routes, &ir.RouteFragment{
		Origin: l.o, Hosts: pattern, Route: r, Group: groupKey(pattern, &r.Match, 0, l.scratch[:0]), Order: orderKey(pattern, nil, &r.Match, 0, l.scratch[:0]),
	})
}

// defaultHost makes up a Host for "*": with TLS where the fallback certificate exists, else in clear text.
func (l *lowering) defaultHost() {
	h := &ir.HostFragment{Origin: l.o, Domain: "*", SNI: "*", SelectAny: l.f.options.LooseLabelSelectors, Insecure: ir.InsecureRoute, Synthesized: true}
	l.out.Hosts = append(l.out.Hosts, h)
	n := secretName{namespace: l.f.options.Namespace, name: fallbackSecret}
	if l.v.Get(snapshot.KindSecret, n.namespace, n.name) == nil {
		l.noHost("every name is served in clear text", "create a Host, or the Secret "+n.String())
		return
	}
	h.Insecure = ir.InsecureRedirect
	name, _, err := l.certificate("", n)
	if err != nil {
		l.close(h, err.code, "", err.text)
		return
	}
	l.noHost("every name is served with the certificate of Secret "+n.String(), "create a Host")
	h.TLS = &ir.DownstreamTLS{Certificates: []string{name}}
}

// noHost tells what being without Hosts means. Without Listeners it means something to Mappings alone: those of other APIs need
// neither.
func (l *lowering) noHost(means, help string) {
	switch {
	case l.v.Refused(api.KindListener) || l.hasOwn(api.KindListener):
		l.report(snapshot.Info, codeHostDefault, "", "there is no Host: "+means, help)
	case l.hasOwn(api.KindMapping):
		l.report(snapshot.Info, codeHostDefault, "", "there is neither Listener nor Host, so Mappings are served nowhere", "create both, or name the files that hold them too")
	}
}

func (l *lowering) hasOwn(kind snapshot.GroupKind) bool {
	for o := range l.v.List(kind) {
		if l.f.Owns(o) {
			return true
		}
	}
	return false
}
