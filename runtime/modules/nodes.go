package modules

import (
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/ir"
	"github.com/chancery-gateway/chancery/wasm"
	"github.com/chancery-gateway/chancery/wasm/abi"
)

// buckets is the number of sets into which the clusters of one tenant are split by name, so that a unit stays small and a
// change of one cluster is the business of few.
const buckets = 64

// node is a virtual host, a listener or a cluster. Exactly one is set.
type node struct {
	host     *ir.VirtualHost
	listener *ir.Listener
	cluster  *ir.Cluster
}

func (n node) kind() string {
	switch {
	case n.host != nil:
		return kindVirtualHost
	case n.listener != nil:
		return kindListener
	}
	return kindCluster
}

func (n node) name() string {
	switch {
	case n.host != nil:
		return n.host.Name
	case n.listener != nil:
		return n.listener.Name
	}
	return n.cluster.Name
}

func (n node) text() []byte {
	switch {
	case n.host != nil:
		return encode(n.host)
	case n.listener != nil:
		return encode(n.listener)
	}
	return encode(n.cluster)
}

// origins are the source objects that the node and everything in it came from.
func (n node) origins() []snapshot.Ref {
	var all []snapshot.Ref
	seen := map[snapshot.Ref]bool{}
	add := func(list []ir.Origin) {
		for _, o := range list {
			if !seen[o] {
				seen[o] = true
				all = append(all, o)
			}
		}
	}
	switch {
	case n.host != nil:
		add(n.host.Origins)
		for _, r := range n.host.Routes {
			add(r.Origins)
		}
	case n.listener != nil:
		add(n.listener.Origins)
	default:
		add(n.cluster.Origins)
	}
	slices.SortFunc(all, snapshot.Ref.Compare)
	return all
}

// nodeUnit is one unit of the linked program.
type nodeUnit struct {
	unit wasm.Unit
	// config is the route configuration of a virtual host, "" for others.
	config string
	memo   *nodeMemo
}

// nodeMemo is what is remembered of a unit.
type nodeMemo struct {
	nodes   []node
	content snapshot.Hash
	tenant  string
	origins []snapshot.Ref
	// result is what modules made of the content with hash made; before are the nodes that it was made of.
	made    snapshot.Hash
	changed bool
	result  []node
	writes  []translators.Written
	found   []snapshot.Diagnostic
	seen    bool
}

// nodes remembers the units of the program from one compile to the next.
type nodes struct {
	memos   map[string]*nodeMemo
	configs map[string]*ir.RouteConfig
	lists   struct {
		configs   []*ir.RouteConfig
		listeners []*ir.Listener
		clusters  []*ir.Cluster
	}
}

// units makes the units of what is read.
func (n *nodes) units(s *snapshot.Snapshot, p *ir.Program, read reads) []nodeUnit {
	var out []nodeUnit
	add := func(key, config string, members []node) {
		m := n.memos[key]
		if m == nil || !slices.Equal(m.nodes, members) {
			fresh := &nodeMemo{nodes: members}
			if m != nil {
				fresh.result, fresh.made, fresh.changed, fresh.writes, fresh.found = m.result, m.made, m.changed, m.writes, m.found
			}
			m = fresh
			var h hasher
			for _, x := range members {
				h.add(hashText(x.text()))
				m.origins = append(m.origins, x.origins()...)
			}
			slices.SortFunc(m.origins, snapshot.Ref.Compare)
			m.origins = slices.Compact(m.origins)
			m.content, m.tenant = h.hash(), tenant(m.origins)
			if n.memos == nil {
				n.memos = map[string]*nodeMemo{}
			}
			n.memos[key] = m
		}
		m.seen = true
		var beside []*snapshot.Object
		var h hasher
		h.add(m.content)
		if read.all || len(read.objects) > 0 {
			for _, ref := range m.origins {
				if !read.has(ref.GroupKind().String()) {
					continue
				}
				if o := s.Get(ref.GroupKind(), ref.Namespace, ref.Name); o != nil && shown(o) {
					beside = append(beside, o)
					h.add(o.Hash)
				}
			}
		}
		out = append(out, nodeUnit{config: config, memo: m, unit: wasm.Unit{Key: key, Tenant: m.tenant, Hash: h.hash(), Items: func() []abi.Item {
			items := make([]abi.Item, 0, len(members)+len(beside))
			for _, x := range members {
				items = append(items, abi.Item{Kind: x.kind(), Name: x.name(), Value: x.text()})
			}
			for _, o := range beside {
				items = append(items, objectItem(o, true))
			}
			return items
		}}})
	}
	if read.has(kindVirtualHost) {
		for _, c := range p.RouteConfigs {
			for _, v := range c.VirtualHosts {
				add("virtual host "+c.Name+" "+v.Name, c.Name, []node{{host: v}})
			}
		}
	}
	if read.has(kindListener) {
		for _, l := range p.Listeners {
			add("listener "+l.Name, "", []node{{listener: l}})
		}
	}
	if read.has(kindCluster) {
		sets := map[string][]node{}
		var order []string
		for _, c := range p.Clusters {
			key := bucket(tenant(c.Origins), c.Name)
			if sets[key] == nil {
				order = append(order, key)
			}
			sets[key] = append(sets[key], node{cluster: c})
		}
		slices.Sort(order)
		for _, key := range order {
			add(key, "", sets[key])
		}
	}
	for key, m := range n.memos {
		if !m.seen {
			delete(n.memos, key)
		}
		m.seen = false
	}
	return out
}

func bucket(tenant, name string) string {
	h := fnv.New32a()
	h.Write([]byte(name))
	return fmt.Sprintf("clusters %s %02d", tenant, h.Sum32()%buckets)
}
