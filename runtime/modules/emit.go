package modules

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/envoy"
	"github.com/chancery-gateway/chancery/translators/ir"
	"github.com/chancery-gateway/chancery/wasm"
	"github.com/chancery-gateway/chancery/wasm/abi"
)

const typePrefix = "type.googleapis.com/"

// resourceTypes are the types whose resources modules may see, in the order in which their units are made.
var resourceTypes = []string{ir.TypeCluster, ir.TypeEndpoint, ir.TypeListener, ir.TypeRouteConfig}

// resourceUnit is one unit of Envoy's resources: a set of clusters, or one of the others.
type resourceUnit struct {
	unit wasm.Unit
	memo *resourceMemo
}

type resourceMemo struct {
	members []*ir.Resource
	hash    snapshot.Hash
	tenant  string
	made    snapshot.Hash
	changed bool
	result  []*ir.Resource
	writes  []translators.Written
	found   []snapshot.Diagnostic
	seen    bool
}

// resources remembers the units of Envoy's resources from one compile to the next.
type resources struct {
	memos map[string]*resourceMemo
	lists map[string]*[]*ir.Resource
	// module says which module changed a resource.
	module map[*ir.Resource]string
}

func (n *resources) units(set ir.ResourceSet, read reads) []resourceUnit {
	var out []resourceUnit
	add := func(key string, members []*ir.Resource) {
		m := n.memos[key]
		if m == nil || !slices.Equal(m.members, members) {
			fresh := &resourceMemo{members: members}
			if m != nil {
				fresh.made, fresh.changed, fresh.result, fresh.writes, fresh.found = m.made, m.changed, m.result, m.writes, m.found
			}
			m = fresh
			var h hasher
			var origins []snapshot.Ref
			for _, r := range members {
				h.add(hashText([]byte(r.Name)))
				h.add(hashText(r.Value))
				origins = append(origins, r.Origins...)
			}
			m.hash, m.tenant = h.hash(), tenant(origins)
			if n.memos == nil {
				n.memos = map[string]*resourceMemo{}
			}
			n.memos[key] = m
		}
		m.seen = true
		out = append(out, resourceUnit{memo: m, unit: wasm.Unit{Key: key, Tenant: m.tenant, Hash: m.hash, Items: func() []abi.Item {
			var items []abi.Item
			for _, r := range members {
				if text, err := envoy.Text(r); err == nil {
					items = append(items, abi.Item{Kind: resourceKind(r.Type), Name: r.Name, Value: text})
				}
			}
			return items
		}}})
	}
	for _, url := range resourceTypes {
		if !read.has(resourceKind(url)) {
			continue
		}
		if url != ir.TypeCluster {
			for _, r := range set[url] {
				add(strings.TrimPrefix(resourceKind(url), kindPrefixXDS)+" "+r.Name, []*ir.Resource{r})
			}
			continue
		}
		sets := map[string][]*ir.Resource{}
		var order []string
		for _, r := range set[url] {
			key := bucket(tenant(r.Origins), r.Name)
			if sets[key] == nil {
				order = append(order, key)
			}
			sets[key] = append(sets[key], r)
		}
		slices.Sort(order)
		for _, key := range order {
			add(key, sets[key])
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

func resourceKind(url string) string { return kindPrefixXDS + strings.TrimPrefix(url, typePrefix) }

// Emit implements translators.Extension.
func (r *run) Emit(_ *snapshot.Snapshot, set ir.ResourceSet) (ir.ResourceSet, []snapshot.Diagnostic) {
	r.present.set = set
	n := &r.modules.results
	read := r.reads[2]
	if read.none() {
		*n = resources{}
		return set, nil
	}
	units := n.units(set, read)
	plain := make([]wasm.Unit, len(units))
	for i := range units {
		plain[i] = units[i].unit
	}
	var found []snapshot.Diagnostic
	n.module = map[*ir.Resource]string{}
	touched := map[string]bool{}
	for i, o := range r.runUnits(abi.XDS, plain) {
		u, m := &units[i], units[i].memo
		found = append(found, r.findings(&o, u.unit.Key, func() []snapshot.Ref { return originsOf(m.members) })...)
		switch {
		case o.Blocked:
			if m.result == nil {
				m.result, m.changed = []*ir.Resource{}, true
				for _, x := range m.members {
					if c := envoy.Closed(x); c != nil {
						m.result = append(m.result, c)
					}
				}
			}
		case m.result != nil && m.made == o.Hash && o.Changed == m.changed && (o.Changed || slices.Equal(m.result, m.members)):
		case !o.Changed:
			m.made, m.changed, m.result, m.writes, m.found = o.Hash, false, m.members, nil, nil
		default:
			m.made, m.changed = o.Hash, true
			m.take(u, &o)
		}
		found = append(found, m.found...)
		r.wrote(m.writes)
		if !slices.Equal(m.result, m.members) {
			for _, x := range slices.Concat(m.result, m.members) {
				touched[x.Type] = true
			}
			for _, w := range m.writes {
				for _, x := range m.result {
					if x.Name == w.Name && resourceKind(x.Type) == w.Kind && n.module[x] == "" {
						n.module[x] = w.Module
					}
				}
			}
		}
	}
	if len(touched) == 0 {
		return set, found
	}
	return n.join(set, units, touched, &found), found
}

// take reads the resources of an outcome. What did not change keeps its pointer.
func (m *resourceMemo) take(u *resourceUnit, o *wasm.Outcome) {
	former := map[string]*ir.Resource{}
	for _, r := range m.members {
		former[resourceKind(r.Type)+"\x00"+r.Name] = r
	}
	last := m.result
	m.result, m.writes, m.found = []*ir.Resource{}, nil, nil
	for _, i := range o.Items {
		was := former[i.Kind+"\x00"+i.Name]
		if was != nil {
			if text, err := envoy.Text(was); err == nil && bytes.Equal(text, i.Value) {
				m.result = append(m.result, was)
				continue
			}
		}
		origins := originsOf(m.members)
		if was != nil {
			origins = was.Origins
		}
		now, err := envoy.Parse(typePrefix+strings.TrimPrefix(i.Kind, kindPrefixXDS), i.Value, origins)
		if err != nil {
			m.found = append(m.found, about(i, err, was)...)
			if was != nil {
				m.result = append(m.result, was)
			}
			continue
		}
		if was != nil && now.Version == was.Version {
			now = was
		}
		if k := slices.IndexFunc(last, func(l *ir.Resource) bool {
			return l.Type == now.Type && l.Name == now.Name && l.Version == now.Version && slices.Equal(l.Origins, now.Origins)
		}); k >= 0 {
			now = last[k]
		}
		m.result = append(m.result, now)
	}
	for _, w := range o.Writes {
		objects := originsOf(m.members)
		if was := former[w.Kind+"\x00"+w.Name]; was != nil {
			objects = was.Origins
		}
		m.writes = append(m.writes, written(w, abi.XDS, u.unit.Key, objects))
	}
}

// about tells why an item is not taken, to each object that its former self comes from.
func about(i abi.Item, err error, was *ir.Resource) []snapshot.Diagnostic {
	d := snapshot.Diagnostic{Severity: snapshot.Error, Code: codeInvalid, Message: fmt.Sprintf("%s %s: %s", i.Kind, i.Name, err)}
	var rule *envoy.Violation
	if errors.As(err, &rule) {
		d.Code = rule.Code
	}
	if was == nil || len(was.Origins) == 0 {
		return []snapshot.Diagnostic{d}
	}
	out := make([]snapshot.Diagnostic, len(was.Origins))
	for k, o := range was.Origins {
		out[k], out[k].Object = d, o
	}
	return out
}

// join puts the results into a copy of the set.
func (n *resources) join(set ir.ResourceSet, units []resourceUnit, touched map[string]bool, found *[]snapshot.Diagnostic) ir.ResourceSet {
	out := ir.ResourceSet{}
	for url, rs := range set {
		out[url] = rs
	}
	lists := map[string][]*ir.Resource{}
	taken := map[string]bool{}
	for _, u := range units {
		for _, x := range u.memo.result {
			if id := x.Type + "\x00" + x.Name; taken[id] {
				*found = append(*found, snapshot.Diagnostic{Severity: snapshot.Error, Code: codeInvalid,
					Message: fmt.Sprintf("a module makes %s %s, but there is another one of this name, which stands", resourceKind(x.Type), x.Name)})
				continue
			} else {
				taken[id] = true
			}
			lists[x.Type] = append(lists[x.Type], x)
		}
	}
	if n.lists == nil {
		n.lists = map[string]*[]*ir.Resource{}
	}
	for url := range touched {
		list := lists[url]
		slices.SortStableFunc(list, func(a, b *ir.Resource) int { return strings.Compare(a.Name, b.Name) })
		if n.lists[url] == nil {
			n.lists[url] = &[]*ir.Resource{}
		}
		out[url] = same(list, n.lists[url])
	}
	return out
}

func originsOf(all []*ir.Resource) []snapshot.Ref {
	var out []snapshot.Ref
	for _, r := range all {
		out = append(out, r.Origins...)
	}
	slices.SortFunc(out, snapshot.Ref.Compare)
	return slices.Compact(out)
}

// Refused implements translators.Extension.
func (r *run) Refused(x *ir.Resource, text string) []snapshot.Diagnostic {
	refs := x.Origins
	if len(refs) == 0 {
		refs = []snapshot.Ref{{}}
	}
	var out []snapshot.Diagnostic
	for _, ref := range refs {
		out = append(out, snapshot.Diagnostic{Severity: snapshot.Error, Code: codeRefused, Object: ref,
			Message: fmt.Sprintf("%s %s is served without what a module%s changes: %s", resourceKind(x.Type), x.Name, named(r.modules.results.module[x]), text)})
	}
	undone := func(w translators.Written) bool {
		return w.Phase == string(abi.XDS) && w.Kind == resourceKind(x.Type) && w.Name == x.Name
	}
	for i, list := range r.writes {
		if slices.ContainsFunc(list, undone) { // the list is the unit's, who remembers it
			r.writes[i] = slices.DeleteFunc(slices.Clone(list), undone)
		}
	}
	r.writes = slices.DeleteFunc(r.writes, func(list []translators.Written) bool { return len(list) == 0 })
	return out
}

func named(module string) string {
	if module == "" {
		return ""
	}
	return " (" + module + ")"
}
