package linker

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// sectionPlan is one listener of Envoy with the sections of its address and port.
type sectionPlan struct {
	linker   *Linker
	topology *topology
	out      *ir.Listener
	sections []*ir.SectionFragment
}

// planSections makes the listeners of all sections. used notes the route sets that stand.
func (l *Linker) planSections(t *topology, tcp []*ir.TCPRouteFragment, used map[*routeSet]bool) {
	var plans []*sectionPlan
	at := map[string]*sectionPlan{}
	taken := l.takenPorts()
	l.routes.settleKinds()
	for _, s := range sortedFragments(l, func(f *ir.Fragments) []*ir.SectionFragment { return f.Sections }) {
		for _, address := range s.Addresses {
			name := fmt.Sprintf("gateway-%s-%d", address, s.Port)
			by, is := taken[port{address, s.Port}]
			if !is && !s.Apart {
				by, is = taken[port{"", s.Port}]
			}
			if is {
				t.refuse(s, fmt.Sprintf("%s has port %d of address %s", nameOf(by), s.Port, address))
				continue
			}
			p := at[name]
			if p == nil {
				p = &sectionPlan{linker: l, topology: t, out: &ir.Listener{Name: name, Address: address, Port: s.Port, BufferLimit: s.BufferLimit}}
				at[name] = p
				plans = append(plans, p)
			}
			p.add(s)
		}
	}
	byName := map[string][]*ir.TCPRouteFragment{}
	for _, f := range tcp {
		if f.Section != "" {
			byName[f.Section] = append(byName[f.Section], f)
		}
	}
	for _, p := range plans {
		p.planTLS(used)
		p.planClear(used)
		for _, s := range p.sections {
			if s.HTTP == nil && s.Closed == "" {
				p.planTCP(s, byName[s.Name])
			}
		}
		if len(p.out.Chains) > 0 {
			slices.SortFunc(p.out.Chains, func(a, b *ir.FilterChain) int { return strings.Compare(a.Name, b.Name) })
			t.listeners = append(t.listeners, p.out)
		}
	}
}

type port struct {
	address string
	number  uint32
}

// takenPorts are those that listeners of another sort are made for, with who has them: they keep theirs. Those on all addresses
// stand without one, too: the system would give the connections to one of these to whoever names it.
func (l *Linker) takenPorts() map[port]*snapshot.Object {
	out := map[port]*snapshot.Object{}
	for _, lf := range sortedFragments(l, func(f *ir.Fragments) []*ir.ListenerFragment { return f.Listeners }) {
		if !lf.UDP {
			out[port{lf.Address, lf.Port}] = lf.Origin
			if ip, err := netip.ParseAddr(lf.Address); err == nil && ip.IsUnspecified() {
				out[port{"", lf.Port}] = lf.Origin
			}
		}
	}
	return out
}

// refuse notes that a section is not served, and tells its object.
func (t *topology) refuse(s *ir.SectionFragment, why string) {
	t.refused = append(t.refused, SectionRefusal{Section: s, Why: why})
	if s.Origin != nil {
		t.findings = append(t.findings, s.Origin.About(snapshot.Error, codeAddressTaken, s.At, why, "give the listener another port"))
	}
}

// add takes in a section, but not one whose hostname another has: who made it has told why.
func (p *sectionPlan) add(s *ir.SectionFragment) {
	if slices.ContainsFunc(p.sections, func(o *ir.SectionFragment) bool { return o.ReadTLS == s.ReadTLS && o.Hostname == s.Hostname }) {
		return
	}
	if !slices.ContainsFunc(p.topology.refusedRoutes, func(r RouteRefusal) bool { return r.Section == s }) { // it may be on several addresses
		p.topology.refuseRoutes(s, p.linker.routes.sections[s.Name])
	}
	p.sections = append(p.sections, s)
	p.out.TLSInspector = p.out.TLSInspector || s.ReadTLS
	if s.Origin != nil && !slices.Contains(p.out.Origins, s.Origin.Ref) {
		p.out.Origins = append(p.out.Origins, s.Origin.Ref)
	}
}

// owner returns the section that connections or requests for the name belong to: the one with the narrowest hostname that
// covers it. nil when there is none.
func (p *sectionPlan) owner(name string, tls bool) *ir.SectionFragment {
	var best *ir.SectionFragment
	for _, s := range p.sections {
		if s.ReadTLS == tls && covers(s.Hostname, name) && (best == nil || covers(best.Hostname, s.Hostname)) {
			best = s
		}
	}
	return best
}

// planTLS makes a chain and a route configuration for each section that ends TLS and serves HTTP. A request for a name of
// another section does not belong on the connection and is answered 421 (Gateway API, "HTTPS listeners: connection
// coalescing"); one for nobody's name, 404.
func (p *sectionPlan) planTLS(used map[*routeSet]bool) {
	for _, s := range p.sections {
		if !s.ReadTLS || s.HTTP == nil || s.Closed != "" {
			continue
		}
		name := "tls/" + s.Hostname
		plan := &configPlan{name: p.out.Name + "/" + name, apart: true}
		p.addDomains(plan, s, used)
		var foreign []string
		for _, other := range p.sections {
			if other != s && other.ReadTLS {
				foreign = append(foreign, other.Hostname)
			}
		}
		if len(foreign) > 0 {
			slices.Sort(foreign)
			plan.hosts = append(plan.hosts, &hostPlan{domains: foreign, fixed: misdirected})
		}
		p.addChain(s, name, ir.ChainMatch{ServerNames: serverNames(s.Hostname), Transport: "tls"}, plan)
	}
}

// planClear makes one chain and one route configuration for all sections that serve HTTP without TLS.
func (p *sectionPlan) planClear(used map[*routeSet]bool) {
	var first *ir.SectionFragment
	plan := &configPlan{name: p.out.Name + "/clear", apart: true}
	for _, s := range p.sections {
		if s.ReadTLS || s.HTTP == nil {
			continue
		}
		if first == nil {
			first = s
		}
		p.addDomains(plan, s, used)
	}
	if first == nil {
		return
	}
	match := ir.ChainMatch{}
	if p.out.TLSInspector {
		match.Transport = "raw_buffer"
	}
	p.addChain(first, "clear", match, plan)
}

func (p *sectionPlan) addChain(s *ir.SectionFragment, name string, m ir.ChainMatch, plan *configPlan) {
	http := *s.HTTP
	http.RouteConfig = plan.name
	c := &ir.FilterChain{Name: name, Match: m, TLS: s.TLS, HTTP: &http, Origins: slices.Clone(p.out.Origins)}
	p.out.Chains = append(p.out.Chains, c)
	p.topology.plans = append(p.topology.plans, plan)
}

// addDomains adds the virtual hosts of a section: its own hostname, and the names of its routes that no narrower section
// takes. Names with the same routes share one.
func (p *sectionPlan) addDomains(plan *configPlan, s *ir.SectionFragment, used map[*routeSet]bool) {
	domains := p.linker.routes.sectionNames(s.Name)
	if !slices.Contains(domains, s.Hostname) {
		domains = append(domains, s.Hostname)
	}
	slices.Sort(domains)
	bySet := map[*routeSet]*hostPlan{}
	for _, d := range domains {
		if p.owner(d, s.ReadTLS) != s {
			continue
		}
		set := p.linker.routes.sectionSet(s.Name, d)
		if h := bySet[set]; h != nil {
			h.domains = append(h.domains, d)
			continue
		}
		if !used[set] {
			used[set] = true
			p.topology.sets = append(p.topology.sets, set)
		}
		h := &hostPlan{domains: []string{d}, set: set}
		if s.Origin != nil {
			h.origins = []ir.Origin{s.Origin.Ref}
		}
		bySet[set] = h
		plan.hosts = append(plan.hosts, h)
	}
}

// planTCP makes the chains of a section that serves TCP: one for each server name where TLS is read, one for all else.
func (p *sectionPlan) planTCP(s *ir.SectionFragment, routes []*ir.TCPRouteFragment) {
	groups := map[string]*ir.TCPRouteFragment{}
	for _, f := range routes {
		if best := groups[f.SNI]; best == nil || f.Order > best.Order {
			groups[f.SNI] = f
		}
	}
	for sni, f := range groups {
		c := &ir.FilterChain{Name: "tcp", TLS: s.TLS, Origins: slices.Clone(p.out.Origins),
			TCP: &ir.TCPChain{StatPrefix: s.TCPStatPrefix, Clusters: f.Clusters, IdleTimeoutMillis: f.IdleTimeoutMillis, AccessLogs: s.TCPAccessLogs}}
		if s.ReadTLS {
			name := cmp.Or(sni, s.Hostname)
			if p.owner(name, true) != s {
				continue
			}
			c.Name = "tcp/" + name
			c.Match = ir.ChainMatch{ServerNames: serverNames(name), Transport: "tls"}
		}
		if f.Origin != nil {
			c.Origins = append(c.Origins, f.Origin.Ref)
		}
		p.topology.proxied[f] = true
		p.out.Chains = append(p.out.Chains, c)
	}
}

// sectionKind marks the buckets of sections, which no host takes by its name.
const sectionKind = ir.HostPatternKind(255)

// sectionBucket returns the bucket of the routes of a section for a name.
func (t *routeTable) sectionBucket(f *ir.RouteFragment) *bucket {
	s := t.sections[f.Section]
	if s == nil {
		s = &sectionTable{names: map[string]*bucket{}, kinds: map[string]int{}}
		t.sections[f.Section] = s
	}
	b := s.names[f.Hosts.Value]
	if b == nil {
		b = &bucket{pattern: pattern{sectionKind, f.Hosts.Value}, fragments: map[*ir.RouteFragment]struct{}{}}
		s.names[f.Hosts.Value] = b
	}
	return b
}

// sectionNames returns the host names of a section's routes, in no order.
func (t *routeTable) sectionNames(section string) []string {
	var out []string
	if t.sections[section] == nil {
		return nil
	}
	for name, b := range t.sections[section].names {
		if len(b.fragments) > 0 {
			out = append(out, name)
		}
	}
	return out
}

// sectionSet returns the set of the section's routes for a name: those whose own name covers it.
func (t *routeTable) sectionSet(section, domain string) *routeSet {
	table := t.sections[section]
	if table == nil {
		table = &sectionTable{}
	}
	var buckets []*bucket
	take := func(name string) {
		if b := table.names[name]; b != nil && len(b.fragments) > 0 {
			buckets = append(buckets, b)
		}
	}
	take(domain)
	for rest := strings.TrimPrefix(domain, "*."); ; {
		i := strings.IndexByte(rest, '.')
		if i < 0 {
			break
		}
		rest = rest[i+1:]
		take("*." + rest)
	}
	if domain != "*" {
		take("*")
	}
	key := "section\x00" + section
	expected := 0
	for _, b := range buckets {
		key += "\x00" + b.pattern.value
		expected += len(b.fragments)
	}
	for _, r := range slices.SortedFunc(maps.Keys(table.refused), snapshot.Ref.Compare) {
		key += "\x00-" + r.String() // whoever is not served makes another set
	}
	if s := t.sets[key]; s != nil {
		return s
	}
	s := newRouteSet(&ir.HostFragment{SNI: domain}, expected)
	s.key, s.buckets = key, buckets
	t.sets[key] = s
	for _, b := range buckets {
		b.sets = append(b.sets, s)
		for f := range b.fragments {
			if !t.refuses(f) {
				t.attach(s, f)
			}
		}
	}
	return s
}

// pruneSections forgets what became empty.
func (t *routeTable) pruneSections() {
	for name, s := range t.sections {
		for n, b := range s.names {
			if len(b.fragments) == 0 {
				delete(s.names, n)
			}
		}
		if len(s.names) == 0 {
			delete(t.sections, name)
		}
	}
}
