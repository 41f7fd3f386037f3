package envoy

import (
	"fmt"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// part is one route as it stands in a route table. It never changes.
type part struct {
	// framed is the field of a virtual host, tag and length included; nil when the route is left out.
	framed      []byte
	hash        uint64
	diagnostics []snapshot.Diagnostic
	// standIn: it names the unavailable cluster.
	standIn bool
	// id is the identity of what Envoy was shown.
	id uint64
}

// routeUnit is the memo of one route node: its part, and the cluster names that were missing when that was made.
type routeUnit struct {
	src     *ir.Route
	part    *part
	missing []string
}

// routePart returns the route's part for the clusters that exist now.
func (e *Emitter) routePart(u *routeUnit) *part {
	missing := e.missingClusters(u.src)
	if u.part == nil || !slices.Equal(missing, u.missing) || e.refused.has(u.part.id) {
		u.part, u.missing = e.buildPart(u.src, missing), missing
	}
	return u.part
}

// missingClusters returns the names of clusters that the route refers to and that do not exist; nil as a rule.
func (e *Emitter) missingClusters(r *ir.Route) []string {
	if r.Forward == nil {
		return nil
	}
	var missing []string
	for i := range r.Forward.Clusters {
		if n := r.Forward.Clusters[i].Cluster; !e.clusters.world.has(n) {
			missing = append(missing, n)
		}
	}
	for i := range r.Forward.Mirrors {
		if n := r.Forward.Mirrors[i].Cluster; !e.clusters.world.has(n) {
			missing = append(missing, n)
		}
	}
	return missing
}

func (e *Emitter) buildPart(r *ir.Route, missing []string) *part {
	e.units.Routes++
	p := &part{}
	var f faults
	targets, mirrors := 0, 0
	if len(missing) > 0 {
		for i := range r.Forward.Clusters {
			if !slices.Contains(missing, r.Forward.Clusters[i].Cluster) {
				targets++
			}
		}
		for i := range r.Forward.Mirrors {
			if m := &r.Forward.Mirrors[i]; slices.Contains(missing, m.Cluster) {
				mirrors++
				lost := faults{}
				lost.add(codeMissing, "route.request_mirror_policies.cluster", "there is no usable cluster %q", m.Cluster)
				p.diagnostics = append(p.diagnostics, lost.diagnostics(unitName("mirror of route", r.Name), leftOut, orElse(m.Origins, r.Origins))...)
			}
		}
		if lost := len(missing) - mirrors; lost > 0 {
			gone := faults{}
			for _, n := range missing[:lost] {
				gone.add(codeMissing, "route.cluster", "there is no usable cluster %q", n)
			}
			if targets == 0 {
				return e.closePart(r, p, gone)
			}
			p.standIn = true
			p.diagnostics = append(p.diagnostics, gone.diagnostics(unitName("route", r.Name), "answers 503 to a share of its requests", r.Origins)...)
		}
	}
	w := &e.encoding
	w.reset()
	start := w.begin(fieldRoutes)
	w.route(r, func(name string) bool { return !slices.Contains(missing, name) }, e.asked, &f)
	programSizes(r, e.maxProgram, &f)
	w.checkRoute(start, &f)
	if len(r.RequestHeaders.Add) > maxHeaders || len(r.ResponseHeaders.Add) > maxHeaders {
		f.add(codeRule, "request_headers_to_add", "there are more than %d headers", maxHeaders)
	}
	w.end(start)
	p.framed = w.bytes()
	p.hash = contentHash(content(p.framed))
	if len(f) == 0 {
		p.id = e.refused.show(ir.UnitRoute, r.Name, content(p.framed), p.hash, r.Origins, &f)
	}
	if len(f) > 0 {
		p.standIn = false
		return e.closePart(r, p, f)
	}
	return p
}

// checkRoute applies the route's protobuf rules but for its own headers: headersToAdd has been stricter already, and their regular
// expressions are the dearest part.
func (w *encoding) checkRoute(start int, f *faults) {
	if !w.doubtful(f) {
		return
	}
	if m := (&routev3.Route{}); w.decode(start, m, f) {
		m.RequestHeadersToAdd, m.ResponseHeadersToAdd = nil, nil
		f.check("", m)
	}
}

// maxHeaders is how many headers Envoy's protobuf rules let a route add.
const maxHeaders = 1000

// closePart makes the part of a route that cannot be served: it answers 503 to what the route would have taken, so that no wider
// route takes it. A route whose very match is at fault is left out.
func (e *Emitter) closePart(r *ir.Route, p *part, reasons faults) *part {
	var f faults
	w := &e.encoding
	w.reset()
	start := w.begin(fieldRoutes)
	w.closedRoute(r, &f)
	matchProgramSizes(&r.Match, e.maxProgram, &f)
	w.checkRoute(start, &f)
	w.end(start)
	p.framed = w.bytes()
	p.hash = contentHash(content(p.framed))
	effect := closed
	if len(f) == 0 {
		p.id = e.refused.show(ir.UnitRoute, r.Name, content(p.framed), p.hash, r.Origins, &f)
		reasons = append(reasons, f...)
	}
	if len(f) > 0 {
		p.framed, p.hash, effect = nil, 0, leftOut
	}
	p.diagnostics = append(p.diagnostics, reasons.diagnostics(unitName("route", r.Name), effect, r.Origins)...)
	return p
}

func orElse(a, b []ir.Origin) []ir.Origin {
	if len(a) > 0 {
		return a
	}
	return b
}

// hostUnit is the memo of one virtual host node.
type hostUnit struct {
	src  *ir.VirtualHost
	list *routeList
	// listHash is the list's hash for which hash was taken.
	listHash, hash uint64
	// head is the encoding of name and domains; nil when they are refused.
	head        []byte
	diagnostics []snapshot.Diagnostic
	// id is the identity of what Envoy was shown.
	id uint64
	// uses counts the route configurations that have the virtual host.
	uses int
}

func (h *hostUnit) size() int { return len(h.head) + h.list.size() }

// hostHead encodes a virtual host without its routes.
func (e *Emitter) hostHead(v *ir.VirtualHost, domains []string) *hostUnit {
	u := &hostUnit{src: v}
	if len(domains) == 0 && len(v.Domains) > 0 {
		return u // Each of its domains belongs to another; that has been said.
	}
	var f faults
	m := &routev3.VirtualHost{Name: v.Name, Domains: domains}
	if v.HTTP3Port != 0 { // RFC 7838; a day, as in Emissary
		m.ResponseHeadersToAdd = []*corev3.HeaderValueOption{{Header: &corev3.HeaderValue{Key: "alt-svc", Value: fmt.Sprintf(`h3=":%d"; ma=86400`, v.HTTP3Port)},
			AppendAction: corev3.HeaderValueOption_ADD_IF_ABSENT}}
	}
	f.check("", m)
	for _, d := range domains {
		domain("domains", d, &f)
	}
	u.head = f.marshal("", m)
	if len(f) == 0 {
		u.id = e.refused.show(ir.UnitHost, v.Name, u.head, contentHash(u.head), v.Origins, &f)
	}
	if len(f) > 0 {
		u.head = nil
		u.diagnostics = f.diagnostics(unitName("virtual host", v.Name), leftOut, v.Origins)
	}
	return u
}

// configState is what is remembered of a route configuration beside its unit.
type configState struct {
	hosts []*hostUnit
	// revisions are those of the hosts' lists.
	revisions []uint64
	// taken are the domains that a host loses to an earlier one, by index of the host; nil for none.
	taken       map[int][]string
	diagnostics []snapshot.Diagnostic
}

// routeConfig emits one route configuration.
func (e *Emitter) routeConfig(rc *ir.RouteConfig, old *unit[ir.RouteConfig]) *unit[ir.RouteConfig] {
	was := e.memo.configs[rc.Name]
	if was == nil {
		was = &configState{}
	}
	now := &configState{hosts: make([]*hostUnit, len(rc.VirtualHosts)), revisions: make([]uint64, len(rc.VirtualHosts))}
	now.claim(rc, was)
	changed := old == nil || old.src != rc || old.resource == nil
	size := 0
	e.memo.expect(rc)
	before := was.hosts
	for i, v := range rc.VirtualHosts {
		for len(before) > 0 && before[0].src.Name < v.Name {
			before = before[1:]
		}
		var hint *routeList
		if len(before) > 0 && before[0].src.Name == v.Name {
			hint = before[0].list
		}
		u := e.host(v, now.taken[i], hint)
		now.hosts[i], now.revisions[i] = u, u.list.revision
		changed = changed || i >= len(was.hosts) || was.hosts[i] != u || was.revisions[i] != u.list.revision
		e.refreshHost(u)
		size += u.size() + 16
	}
	e.memo.replace(rc.Name, now)
	if !changed {
		return old
	}
	e.units.RouteConfigs++
	var f faults
	m := &routev3.RouteConfiguration{Name: rc.Name}
	f.check("", m)
	if rc.Name == "" {
		f.add(codeValue, "name", "a route configuration has a name")
	}
	head := f.marshal("", m)
	tail := f.marshal("", &routev3.RouteConfiguration{ValidateClusters: wrapperspb.Bool(false), IgnorePortInHostMatching: rc.IgnorePort})
	value := make([]byte, 0, len(head)+len(tail)+size)
	value = append(value, head...)
	hash := newCombiner()
	hash.add(contentHash(head))
	hash.add(contentHash(tail))
	diagnostics := now.diagnostics
	for _, h := range now.hosts {
		diagnostics = append(append(diagnostics, h.diagnostics...), h.list.diagnostics...)
		if h.head == nil {
			continue
		}
		hash.add(h.hash)
		value = protowire.AppendTag(value, fieldVirtualHosts, protowire.BytesType)
		value = protowire.AppendVarint(value, uint64(h.size()))
		value = append(value, h.head...)
		value = h.list.appendTo(value)
	}
	value = append(value, tail...)
	if len(f) > 0 {
		return &unit[ir.RouteConfig]{diagnostics: append(diagnostics, f.diagnostics(unitName("route configuration", rc.Name), leftOut, rc.Origins)...)}
	}
	return &unit[ir.RouteConfig]{
		resource:    &ir.Resource{Type: ir.TypeRouteConfig, Name: rc.Name, Version: version(hash.sum()), Value: value, Origins: rc.Origins},
		diagnostics: diagnostics,
	}
}

// host returns the memo of a virtual host. taken are domains that it must not have.
func (e *Emitter) host(v *ir.VirtualHost, taken []string, hint *routeList) *hostUnit {
	if len(taken) > 0 {
		domains := slices.DeleteFunc(slices.Clone(v.Domains), func(d string) bool { return slices.Contains(taken, d) })
		u := e.hostHead(v, domains)
		u.list = e.routeList(v.Routes, hint)
		return u
	}
	u := e.memo.hosts[v]
	if u == nil || e.refused.has(u.id) {
		u = e.hostHead(v, v.Domains)
		e.memo.hosts[v] = u
	}
	u.list = e.routeList(v.Routes, hint)
	return u
}

// refreshHost brings the host's hash to its list's.
func (e *Emitter) refreshHost(h *hostUnit) {
	if h.hash != 0 && h.listHash == h.list.hash {
		return
	}
	e.units.VirtualHosts++
	hash := newCombiner()
	hash.add(contentHash(h.head))
	hash.add(h.list.hash)
	h.listHash, h.hash = h.list.hash, hash.sum()|1
}

// claim finds domains that stand twice, without regard to case: the first virtual host has it. It looks only when some domain has changed.
func (s *configState) claim(rc *ir.RouteConfig, was *configState) {
	same := len(was.hosts) == len(rc.VirtualHosts) && was.taken == nil
	for i := 0; same && i < len(was.hosts); i++ {
		same = slices.Equal(was.hosts[i].src.Domains, rc.VirtualHosts[i].Domains)
	}
	if same {
		return
	}
	owner := make(map[string]*ir.VirtualHost, len(rc.VirtualHosts))
	for i, v := range rc.VirtualHosts {
		for _, d := range v.Domains {
			key := strings.ToLower(d)
			first := owner[key]
			if first == nil {
				owner[key] = v
				continue
			}
			if s.taken == nil {
				s.taken = map[int][]string{}
			}
			s.taken[i] = append(s.taken[i], d)
			var f faults
			f.add(codeDomain, "domains", "%q belongs to virtual host %q", d, first.Name)
			s.diagnostics = append(s.diagnostics, f.diagnostics(unitName("domain of virtual host", v.Name), leftOut, v.Origins)...)
		}
	}
}
