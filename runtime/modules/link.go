package modules

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
	"github.com/chancery-gateway/chancery/wasm"
	"github.com/chancery-gateway/chancery/wasm/abi"
)

// Link implements translators.Extension.
func (r *run) Link(s *snapshot.Snapshot, p *ir.Program) (*ir.Program, []snapshot.Diagnostic) {
	r.present.snapshot, r.present.program = s, p
	n := &r.modules.nodes
	read := r.reads[1]
	if read.none() {
		*n = nodes{}
		return p, nil
	}
	units := n.units(s, p, read)
	plain := make([]wasm.Unit, len(units))
	for i := range units {
		plain[i] = units[i].unit
	}
	var found []snapshot.Diagnostic
	changed := map[string]*nodeMemo{} // by key
	for i, o := range r.runUnits(abi.IR, plain) {
		u, m := &units[i], units[i].memo
		found = append(found, r.findings(&o, u.unit.Key, func() []snapshot.Ref { return m.origins })...)
		switch {
		case o.Blocked:
			if m.result == nil {
				m.result, m.changed = closedNodes(m.nodes), true
			}
		case m.result != nil && m.made == o.Hash && o.Changed == m.changed && (o.Changed || slices.Equal(m.result, m.nodes)):
		case !o.Changed:
			m.made, m.changed, m.result, m.writes, m.found = o.Hash, false, m.nodes, nil, nil
		default:
			m.made, m.changed = o.Hash, true
			m.take(u, &o)
		}
		found = append(found, m.found...)
		r.wrote(m.writes)
		if m.changed || !slices.Equal(m.result, m.nodes) {
			changed[u.unit.Key] = m
		}
	}
	if len(changed) == 0 {
		n.configs = nil
		return p, found
	}
	return n.join(p, units, changed, &found), found
}

// closedNodes stand in for nodes that must not go on and have no good form: hosts answer 503, the rest is left out.
func closedNodes(all []node) []node {
	out := []node{}
	for _, n := range all {
		if n.host != nil {
			v := *n.host
			v.Routes = []*ir.Route{{Name: "closed", Own: true, Match: ir.Match{PathKind: ir.PathPrefix, Path: "/"}, Direct: &ir.DirectResponse{Status: 503}, Origins: v.Origins}}
			out = append(out, node{host: &v})
		}
	}
	return out
}

// take reads the nodes of an outcome. What did not change keeps its pointers.
func (m *nodeMemo) take(u *nodeUnit, o *wasm.Outcome) {
	before := map[string]node{}
	for _, n := range m.nodes {
		before[n.kind()+"\x00"+n.name()] = n
	}
	origins := map[string][]ir.Origin{}
	for _, w := range o.Writes {
		if w.Origin != nil {
			if n, ok := before[w.Origin.Kind+"\x00"+w.Origin.Name]; ok {
				origins[w.Kind+"\x00"+w.Name] = n.origins()
			} else if k := groupKind(w.Origin.Kind); w.Origin.Namespace != "" {
				origins[w.Kind+"\x00"+w.Name] = []ir.Origin{{Group: k.Group, Kind: k.Kind, Namespace: w.Origin.Namespace, Name: w.Origin.Name}}
			}
		}
	}
	m.result, m.writes, m.found = []node{}, nil, nil
	for _, i := range o.Items {
		if !strings.HasPrefix(i.Kind, kindPrefixIR) {
			continue
		}
		id := i.Kind + "\x00" + i.Name
		was, there := before[id]
		if there && bytes.Equal(was.text(), i.Value) {
			m.result = append(m.result, was)
			continue
		}
		n, err := decodeNode(i, was, origins[id])
		if err != nil { // the host asks validate first, so this is a result that was kept from another version
			m.found = append(m.found, snapshot.Diagnostic{Severity: snapshot.Error, Code: codeInvalid, Message: err.Error()})
			if there {
				m.result = append(m.result, was)
			}
			continue
		}
		m.result = append(m.result, n)
	}
	for _, w := range o.Writes {
		objects := m.origins
		if n, ok := before[w.Kind+"\x00"+w.Name]; ok {
			objects = n.at(w.Path)
		}
		m.writes = append(m.writes, written(w, abi.IR, u.unit.Key, objects))
	}
}

// at returns the origins of the field that a JSON pointer names: those of its route where it is below one.
func (n node) at(path string) []snapshot.Ref {
	if n.host == nil {
		return n.origins()
	}
	parts := strings.SplitN(path, "/", 4) // "", "routes", index, rest
	if len(parts) > 2 && parts[1] == "routes" {
		if i, err := strconv.Atoi(parts[2]); err == nil && i < len(n.host.Routes) {
			return n.host.Routes[i].Origins
		}
	}
	return n.host.Origins
}

// decodeNode reads a node. Origins are the compiler's: a node that was there, and a route that was there, keep theirs.
func decodeNode(i abi.Item, was node, origins []ir.Origin) (node, error) {
	fail := func(err error) (node, error) {
		return node{}, fmt.Errorf("%s %s: %w", i.Kind, i.Name, err)
	}
	if origins == nil {
		origins = []ir.Origin{}
	}
	switch i.Kind {
	case kindVirtualHost:
		v := &ir.VirtualHost{}
		if err := strict(i.Value, v); err != nil {
			return fail(err)
		}
		former := map[string]*ir.Route{}
		if was.host != nil {
			origins = was.host.Origins
			for _, r := range was.host.Routes {
				if former[r.Name] == nil {
					former[r.Name] = r
				}
			}
		}
		v.Origins = origins
		for k, r := range v.Routes {
			old := former[r.Name]
			if was.host != nil && k < len(was.host.Routes) && was.host.Routes[k].Name == r.Name {
				old = was.host.Routes[k]
			}
			switch {
			case old == nil:
				r.Origins = origins
			default:
				r.Origins = old.Origins
				if bytes.Equal(encode(old), encode(r)) {
					v.Routes[k] = old
				}
			}
		}
		return node{host: v}, nil
	case kindListener:
		l := &ir.Listener{}
		if err := strict(i.Value, l); err != nil {
			return fail(err)
		}
		chains := map[string]*ir.FilterChain{}
		if was.listener != nil {
			origins = was.listener.Origins
			for _, c := range was.listener.Chains {
				chains[c.Name] = c
			}
		}
		l.Origins = origins
		for k, c := range l.Chains {
			if old := chains[c.Name]; old == nil {
				c.Origins = origins
			} else {
				c.Origins = old.Origins
				if bytes.Equal(encode(old), encode(c)) {
					l.Chains[k] = old
				}
			}
		}
		return node{listener: l}, nil
	case kindCluster:
		c := &ir.Cluster{}
		if err := strict(i.Value, c); err != nil {
			return fail(err)
		}
		if was.cluster != nil {
			origins = was.cluster.Origins
		}
		c.Origins = origins
		return node{cluster: c}, nil
	}
	return fail(fmt.Errorf("modules cannot make nodes of this kind"))
}

// join puts the changed units into a copy of the program. What is as in the last copy keeps its pointers.
func (n *nodes) join(p *ir.Program, units []nodeUnit, changed map[string]*nodeMemo, found *[]snapshot.Diagnostic) *ir.Program {
	out := *p
	taken := map[string]bool{}
	unique := func(x node, within string) bool {
		id := x.kind() + "\x00" + within + "\x00" + x.name()
		if taken[id] {
			*found = append(*found, snapshot.Diagnostic{Severity: snapshot.Error, Code: codeInvalid,
				Message: fmt.Sprintf("a module makes %s %s, but there is another one of this name, which stands", x.kind(), x.name())})
			return false
		}
		taken[id] = true
		return true
	}
	hosts := map[string][]nodeUnit{}
	touched := map[string]bool{}
	var clusters []*ir.Cluster
	var listeners []*ir.Listener
	hasClusters, hasListeners := false, false
	for _, u := range units {
		if u.config != "" {
			hosts[u.config] = append(hosts[u.config], u)
			touched[u.config] = touched[u.config] || changed[u.unit.Key] != nil
			continue
		}
		for _, x := range u.memo.result {
			switch {
			case x.listener != nil && unique(x, ""):
				listeners = append(listeners, x.listener)
			case x.cluster != nil && unique(x, ""):
				clusters = append(clusters, x.cluster)
			}
		}
		isListener := strings.HasPrefix(u.unit.Key, "listener ")
		hasListeners = hasListeners || changed[u.unit.Key] != nil && isListener
		hasClusters = hasClusters || changed[u.unit.Key] != nil && !isListener
	}
	if hasListeners {
		slices.SortStableFunc(listeners, func(a, b *ir.Listener) int { return strings.Compare(a.Name, b.Name) })
		out.Listeners = same(listeners, &n.lists.listeners)
	}
	if hasClusters {
		slices.SortStableFunc(clusters, func(a, b *ir.Cluster) int { return strings.Compare(a.Name, b.Name) })
		out.Clusters = same(clusters, &n.lists.clusters)
	}
	if len(touched) > 0 {
		configs := make([]*ir.RouteConfig, 0, len(p.RouteConfigs))
		last := n.configs
		n.configs = map[string]*ir.RouteConfig{}
		for _, c := range p.RouteConfigs {
			if !touched[c.Name] {
				configs = append(configs, c)
				continue
			}
			now := &ir.RouteConfig{Name: c.Name, Origins: c.Origins}
			for _, u := range hosts[c.Name] {
				for _, x := range u.memo.result {
					if x.host != nil && unique(x, c.Name) {
						now.VirtualHosts = append(now.VirtualHosts, x.host)
					}
				}
			}
			if was := last[c.Name]; was != nil && slices.Equal(was.VirtualHosts, now.VirtualHosts) && slices.Equal(was.Origins, now.Origins) {
				now = was
			}
			n.configs[c.Name] = now
			configs = append(configs, now)
		}
		out.RouteConfigs = same(configs, &n.lists.configs)
	}
	return &out
}

// same returns the last list where it is equal, so that later stages see at once that nothing changed.
func same[T comparable](now []T, last *[]T) []T {
	if !slices.Equal(now, *last) {
		*last = now
	}
	return *last
}
