package envoy

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// chainUnit is the memo of one filter chain node.
type chainUnit struct {
	refs stamp
	quic bool
	// framed is the field of a listener, tag and length included; nil when the chain is refused.
	framed      []byte
	hash        uint64
	diagnostics []snapshot.Diagnostic
	// missing are the absent clusters that the unavailable one stands in for.
	missing string
	standIn bool
	// omitted names the faulty filters that it is served without.
	omitted string
	// shown is the hash of the listener's head with which Envoy was shown the chain.
	shown uint64
}

// listener emits one listener: its head, and the chains that hold.
func (e *Emitter) listener(l *ir.Listener, old *unit[ir.Listener]) *unit[ir.Listener] {
	head, headHash, id, f := e.listenerHead(l, old)
	if len(f) > 0 {
		delete(e.chains.listeners, l.Name)
		return &unit[ir.Listener]{diagnostics: f.diagnostics(unitName("listener", l.Name), leftOut, l.Origins)}
	}
	made := e.units.Chains
	was := e.chains.listeners[l.Name]
	var diagnostics []snapshot.Diagnostic
	chains := make([]*chainUnit, 0, len(l.Chains))
	owner := map[string]*ir.FilterChain{}
	size := 0
	for _, c := range l.Chains {
		if f := clash(l, c, owner); len(f) > 0 {
			diagnostics = append(diagnostics, f.diagnostics(unitName("filter chain", c.Name), leftOut, c.Origins)...)
			continue
		}
		u := e.chain(c, l.UDP)
		diagnostics = append(diagnostics, u.diagnostics...)
		if u.framed == nil {
			continue
		}
		if f := e.showChain(c, u, head, headHash); len(f) > 0 {
			diagnostics = append(diagnostics, f.diagnostics(unitName("filter chain", c.Name), leftOut, allOrigins(c))...)
			continue
		}
		for _, key := range matchKeys(&c.Match) {
			owner[key] = c
		}
		chains = append(chains, u)
		size += len(u.framed)
	}
	e.chains.listeners[l.Name] = chains
	if old != nil && old.src == l && old.resource != nil && made == e.units.Chains && sameChains(was, chains) {
		return &unit[ir.Listener]{resource: old.resource, diagnostics: diagnostics, id: id}
	}
	e.units.Listeners++
	if len(chains) == 0 {
		f.add(codeNoChain, "filter_chains", "there is none")
		return &unit[ir.Listener]{id: id, diagnostics: append(diagnostics, f.diagnostics(unitName("listener", l.Name), leftOut, l.Origins)...)}
	}
	value := append(make([]byte, 0, len(head)+size), head...)
	hash := newCombiner()
	hash.add(headHash)
	for _, c := range chains {
		value = append(value, c.framed...)
		hash.add(c.hash)
	}
	return &unit[ir.Listener]{
		id:          id,
		resource:    &ir.Resource{Type: ir.TypeListener, Name: l.Name, Version: version(hash.sum()), Value: value, Origins: listenerOrigins(l)},
		diagnostics: diagnostics,
	}
}

// listenerHead encodes a listener without its chains, and shows it unless the old unit was made with it. id is what it was shown as.
func (e *Emitter) listenerHead(l *ir.Listener, old *unit[ir.Listener]) (head []byte, hash, id uint64, f faults) {
	m := listenerHead(l, &f)
	f.check("", m)
	if _, err := netip.ParseAddr(l.Address); err != nil {
		f.add(codeValue, "address.socket_address.address", "%q is no IP address", l.Address)
	}
	head = f.marshal("", m)
	hash = contentHash(head)
	if len(f) > 0 || l.UDP { // QUIC alone makes no listener; its chains are shown with it
		return head, hash, 0, f
	}
	if id = identity(ir.UnitListener, hash, 0); old == nil || old.id != id || e.refused.has(id) {
		e.refused.show(ir.UnitListener, l.Name, head, hash, l.Origins, &f)
	}
	return head, hash, id, f
}

// showChain shows Envoy a chain in its listener, unless it has seen it there.
func (e *Emitter) showChain(c *ir.FilterChain, u *chainUnit, head []byte, headHash uint64) (f faults) {
	id := identity(ir.UnitChain, u.hash, headHash)
	if e.refused.blame(id, &f) || u.shown == headHash {
		return f
	}
	u.shown = headHash
	e.refused.shown = append(e.refused.shown, &ir.Unit{Kind: ir.UnitChain, Name: c.Name, Value: content(u.framed), Frame: head, Origins: allOrigins(c), ID: id})
	return nil
}

// listenerOrigins returns who is to blame where Envoy refuses the whole listener: its own origins, and those of scripts,
// which nobody but Envoy can judge.
func listenerOrigins(l *ir.Listener) []ir.Origin {
	origins := l.Origins
	for _, c := range l.Chains {
		if c.HTTP == nil {
			continue
		}
		for _, x := range c.HTTP.Filters {
			if _, script := x.Config.(*ir.Lua); script && len(x.Origins) > 0 && !slices.Contains(origins, x.Origins[0]) {
				origins = sortOrigins(origins, x.Origins)
			}
		}
	}
	return origins
}

func sameChains(a, b []*chainUnit) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// clash checks a chain against its listener and the chains before it.
func clash(l *ir.Listener, c *ir.FilterChain, owner map[string]*ir.FilterChain) faults {
	var f faults
	for _, key := range matchKeys(&c.Match) {
		if first := owner[key]; first != nil {
			f.add(codeChainMatch, "filter_chain_match", "filter chain %q takes the same connections (%s)", first.Name, describe(key))
			f[len(f)-1].help = "the first in the order of names is served"
		}
	}
	if len(c.Match.ServerNames) > 0 && !l.TLSInspector && !l.UDP {
		f.add(codeInspector, "filter_chain_match.server_names", "listener %q does not look at TLS", l.Name)
	}
	return f
}

func describe(key string) string {
	transport, name, _ := strings.Cut(key, "|")
	if transport == "" {
		transport = "any transport"
	}
	if name == "" {
		name = "any server name"
	}
	return transport + ", " + name
}

// chain returns the memo of one filter chain, brought to the names that exist now.
func (e *Emitter) chain(c *ir.FilterChain, quic bool) *chainUnit {
	refs := stamp{secrets: e.secrets.world.generation, clusters: e.clusters.world.generation, routes: e.routes.world.generation, refused: e.refused.generation}
	u := e.chains.chains[c]
	if u != nil && u.refs == refs && u.quic == quic {
		return u
	}
	node := c
	c, omitted, found := e.withoutFaulty(c)
	var f faults
	if t := c.TLS; t != nil {
		for _, n := range t.Certificates {
			e.needSecret("transport_socket", n, false, &f)
		}
		e.needSecret("transport_socket", t.Validation, true, &f)
	}
	if c.HTTP != nil && !e.routes.world.has(c.HTTP.RouteConfig) {
		f.add(codeMissing, "http_connection_manager.rds.route_config_name", "there is no route configuration %q", c.HTTP.RouteConfig)
	}
	var lost faults
	if c.TCP != nil {
		for i := range c.TCP.Clusters {
			if n := c.TCP.Clusters[i].Cluster; !e.clusters.world.has(n) {
				lost.add(codeMissing, "tcp_proxy.cluster", "there is no usable cluster %q", n)
			}
		}
	}
	orphans, missing, standIn := lostServices(c, e.clusters.world.has)
	for i := range lost {
		missing += lost[i].message + "\n"
	}
	standIn = standIn || len(lost) > 0
	if u != nil && u.framed != nil && len(f) == 0 && u.missing == missing && u.omitted == omitted && u.quic == quic {
		u.refs = refs
		return u
	}
	e.units.Chains++
	u = &chainUnit{refs: refs, quic: quic, missing: missing, standIn: standIn, omitted: omitted}
	e.chains.chains[node] = u
	m := filterChain(c, quic, e.clusters.world.has, &f)
	e.fitChain(m, &f)
	f.check("", m)
	value, hash := f.framed("", fieldChains, m)
	if len(f) > 0 {
		u.diagnostics = append(found, f.diagnostics(unitName("filter chain", c.Name), leftOut, chainOrigins(c, quic, e.clusters.world.has))...)
		return u
	}
	u.diagnostics = append(append(found, orphans...), lost.diagnostics(unitName("filter chain", c.Name), "closes connections to a target", c.Origins)...)
	u.framed, u.hash = value, hash
	return u
}

// chainOrigins returns who is to blame for a refused chain: its own origins, and those of its filters or of the shared
// settings when these are at fault.
func chainOrigins(c *ir.FilterChain, quic bool, present func(string) bool) []ir.Origin {
	if c.HTTP == nil {
		return c.Origins
	}
	var f faults
	httpManager(c.HTTP, quic, present, &f)
	if len(f) == 0 {
		return c.Origins
	}
	origins, all := filterOrigins(c.HTTP, present, len(f))
	if !all && c.HTTP.Settings != nil {
		origins = append(origins, c.HTTP.Settings.Origins...)
	}
	return sortOrigins(c.Origins, origins)
}

// withoutClashes leaves out listeners whose address an earlier one has.
func withoutClashes(nodes []*ir.Listener, resources []*ir.Resource) ([]*ir.Resource, []snapshot.Diagnostic) {
	type socket struct {
		address string
		port    uint32
		udp     bool
	}
	byName := make(map[string]*ir.Listener, len(nodes))
	for i := len(nodes) - 1; i >= 0; i-- {
		byName[nodes[i].Name] = nodes[i]
	}
	owner := map[socket]string{}
	out := resources
	var diagnostics []snapshot.Diagnostic
	for i, r := range resources {
		l := byName[r.Name]
		s := socket{l.Address, l.Port, l.UDP}
		if a, err := netip.ParseAddr(l.Address); err == nil {
			s.address = a.String()
		}
		if first, taken := owner[s]; taken {
			if len(diagnostics) == 0 {
				out = append([]*ir.Resource(nil), resources[:i]...)
			}
			var f faults
			f.add(codeAddress, "address", "listener %q has the address %s and port %d", first, l.Address, l.Port)
			diagnostics = append(diagnostics, f.diagnostics(unitName("listener", l.Name), leftOut, l.Origins)...)
			continue
		}
		owner[s] = r.Name
		if len(diagnostics) > 0 {
			out = append(out, r)
		}
	}
	return out, diagnostics
}

// sortOrigins joins two lists of origins, sorted and without duplicates.
func sortOrigins(a, b []ir.Origin) []ir.Origin {
	all := slices.Concat(a, b)
	slices.SortFunc(all, ir.Origin.Compare)
	return slices.Compact(all)
}
