package index

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/chancery-gateway/chancery/policies/api"
	"github.com/chancery-gateway/chancery/snapshot"
)

// The tables of the index, each a JSON object.
const (
	// Hosts: host name → claims by Host objects, the oldest first.
	Hosts = "hosts"
	// Services: "namespace/name" → the Service.
	Services = "services"
	// Grants: namespace → ReferenceGrants in it.
	Grants = "grants"
	// Counts: tenant → kind → number of objects.
	Counts = "counts"
	// Ranks: "Kind/namespace/name" → the object's place by age among its tenant's objects of the kind, from 1.
	Ranks = "ranks"
	// Namespaces: name → labels and tenant. Tenants: name → owner, namespaces, hosts, limits.
	Namespaces = "namespaces"
	Tenants    = "tenants"
)

// Tables lists the tables, sorted.
var Tables = []string{Counts, Grants, Hosts, Namespaces, Ranks, Services, Tenants}

// Key is one entry of a table; Name is "" for the table as a whole.
type Key struct{ Table, Name string }

// Index is the state after the last Update. Reads may run in parallel; Update must not run beside them.
type Index struct {
	tenancy *api.Tenancy
	tables  map[string]map[string]ast.Value
	whole   map[string]ast.Value // tables as one object, made on demand
	hosts   map[string][]*snapshot.Object
	grants  map[string][]*snapshot.Object
	ranks   map[group][]*snapshot.Object
	changed map[Key]struct{}
}

type group struct{ tenant, kind string }

// New returns the index of an empty world.
func New(t *api.Tenancy) *Index {
	x := &Index{
		tenancy: t, tables: map[string]map[string]ast.Value{}, whole: map[string]ast.Value{},
		hosts: map[string][]*snapshot.Object{}, grants: map[string][]*snapshot.Object{}, ranks: map[group][]*snapshot.Object{},
	}
	for _, name := range Tables {
		x.tables[name] = map[string]ast.Value{}
	}
	for _, one := range t.All() {
		limits := one.Spec.Limits
		x.tables[Tenants][one.Object.Name] = object("owner", one.Spec.Owner, "namespaces", t.Namespaces(one.Object.Name),
			"hosts", slices.Clone(one.Spec.Hosts), "limits", limits)
	}
	return x
}

// Update takes up changes and returns the entries that differ, each with its whole table.
func (x *Index) Update(changes []snapshot.Change) map[Key]struct{} {
	x.changed = map[Key]struct{}{}
	dirtyHosts, dirtyGrants := map[string]bool{}, map[string]bool{}
	moved := map[group]int{} // first place that may differ
	for _, c := range changes {
		if c.Old != nil && c.New != nil && x.replace(c.Old, c.New) {
			continue
		}
		if c.Old != nil {
			x.remove(c.Old, dirtyHosts, dirtyGrants, moved)
		}
		if c.New != nil {
			x.add(c.New, dirtyHosts, dirtyGrants, moved)
		}
	}
	for name := range dirtyHosts {
		var claims []*ast.Term
		for _, o := range x.hosts[name] {
			claims = append(claims, ast.NewTerm(x.claim(o)))
		}
		x.set(Hosts, name, listOrNil(claims))
	}
	for ns := range dirtyGrants {
		var list []*ast.Term
		for _, o := range x.grants[ns] {
			if spec := specOf(o); spec != nil {
				list = append(list, ast.NewTerm(spec))
			}
		}
		x.set(Grants, ns, listOrNil(list))
	}
	for g, from := range moved {
		list := x.ranks[g]
		for i := from; i < len(list); i++ {
			x.set(Ranks, list[i].Ref.String(), ast.Number(json.Number(itoa(i+1))))
		}
		x.recount(g.tenant)
	}
	return x.changed
}

func listOrNil(terms []*ast.Term) ast.Value {
	if len(terms) == 0 {
		return nil
	}
	return ast.NewArray(terms...)
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }

func (x *Index) set(table, name string, v ast.Value) {
	t := x.tables[table]
	if have, ok := t[name]; ok && v != nil && ast.ValueEqual(have, v) || !ok && v == nil {
		return
	}
	if v == nil {
		delete(t, name)
	} else {
		t[name] = v
	}
	delete(x.whole, table)
	x.changed[Key{table, name}] = struct{}{}
	x.changed[Key{Table: table}] = struct{}{}
}

// counted are the kinds that have ranks and counts.
func counted(k snapshot.GroupKind) bool {
	switch k.Group {
	case snapshot.EmissaryGroup, "gateway.networking.k8s.io", "networking.k8s.io":
		return true
	}
	return false
}

func byAge(a, b *snapshot.Object) int {
	if a == b || a.Ref == b.Ref {
		return 0
	}
	if a.NewerThan(b) {
		return 1
	}
	return -1
}

// replace takes up an edit that the tables do not show, which leaves the object where it was. It reports whether it is one.
func (x *Index) replace(old, now *snapshot.Object) bool {
	if !counted(old.GroupKind()) || old.GroupKind() == kindGrant || !old.Created.Equal(now.Created) || hostOf(old) != "" || hostOf(now) != "" {
		return false
	}
	list := x.ranks[group{x.tenancy.Name(old.Namespace), old.Kind}]
	at, found := slices.BinarySearchFunc(list, old, byAge)
	if found {
		list[at] = now
	}
	return found
}

func (x *Index) add(o *snapshot.Object, hosts, grants map[string]bool, moved map[group]int) {
	switch o.GroupKind() {
	case snapshot.KindService:
		var ports []*ast.Term
		if s, ok := o.Spec.(*snapshot.Service); ok {
			for _, p := range s.Ports {
				ports = append(ports, ast.NewTerm(object("name", p.Name, "port", int(p.Port), "protocol", p.Protocol)))
			}
		}
		x.set(Services, o.Namespace+"/"+o.Name, object("namespace", o.Namespace, "name", o.Name, "tenant", x.tenancy.Name(o.Namespace),
			"labels", o.Labels, "ports", ast.Value(ast.NewArray(ports...))))
	case snapshot.KindNamespace:
		x.set(Namespaces, o.Name, object("labels", o.Labels, "tenant", x.tenancy.Name(o.Name)))
	case kindGrant:
		x.grants[o.Namespace] = insert(x.grants[o.Namespace], o)
		grants[o.Namespace] = true
	}
	if h := hostOf(o); h != "" {
		x.hosts[h] = insert(x.hosts[h], o)
		hosts[h] = true
	}
	if counted(o.GroupKind()) {
		g := group{x.tenancy.Name(o.Namespace), o.Kind}
		at, _ := slices.BinarySearchFunc(x.ranks[g], o, byAge)
		x.ranks[g] = slices.Insert(x.ranks[g], at, o)
		move(moved, g, at)
	}
}

func (x *Index) remove(o *snapshot.Object, hosts, grants map[string]bool, moved map[group]int) {
	switch o.GroupKind() {
	case snapshot.KindService:
		x.set(Services, o.Namespace+"/"+o.Name, nil)
	case snapshot.KindNamespace:
		x.set(Namespaces, o.Name, nil)
	case kindGrant:
		x.grants[o.Namespace] = without(x.grants[o.Namespace], o)
		grants[o.Namespace] = true
	}
	if h := hostOf(o); h != "" {
		if x.hosts[h] = without(x.hosts[h], o); len(x.hosts[h]) == 0 {
			delete(x.hosts, h)
		}
		hosts[h] = true
	}
	if counted(o.GroupKind()) {
		g := group{x.tenancy.Name(o.Namespace), o.Kind}
		if at, found := slices.BinarySearchFunc(x.ranks[g], o, byAge); found {
			x.ranks[g] = slices.Delete(slices.Clone(x.ranks[g]), at, at+1)
			move(moved, g, at)
			x.set(Ranks, o.Ref.String(), nil)
		}
	}
}

func move(moved map[group]int, g group, at int) {
	if was, ok := moved[g]; !ok || at < was {
		moved[g] = at
	}
}

func insert(list []*snapshot.Object, o *snapshot.Object) []*snapshot.Object {
	at, _ := slices.BinarySearchFunc(list, o, byAge)
	return slices.Insert(slices.Clone(list), at, o)
}

func without(list []*snapshot.Object, o *snapshot.Object) []*snapshot.Object {
	return slices.DeleteFunc(slices.Clone(list), func(h *snapshot.Object) bool { return h.Ref == o.Ref })
}

func (x *Index) recount(tenant string) {
	n := map[string]int{}
	for g, list := range x.ranks {
		if g.tenant == tenant && len(list) > 0 {
			n[g.kind] = len(list)
		}
	}
	if len(n) == 0 {
		x.set(Counts, tenant, nil)
		return
	}
	x.set(Counts, tenant, term(n).Value)
}

func (x *Index) claim(o *snapshot.Object) ast.Value {
	created := ""
	if !o.Created.IsZero() {
		created = o.Created.UTC().Format(time.RFC3339)
	}
	return object("kind", o.Kind, "namespace", o.Namespace, "name", o.Name, "tenant", x.tenancy.Name(o.Namespace), "created", created)
}

var kindGrant = snapshot.GroupKind{Group: "gateway.networking.k8s.io", Kind: "ReferenceGrant"}

// hostOf returns the host name that a Host object claims, "" for other objects.
func hostOf(o *snapshot.Object) string {
	if o.Kind != "Host" || o.Group != snapshot.EmissaryGroup {
		return ""
	}
	var body struct {
		Spec struct {
			Hostname string `json:"hostname"`
		} `json:"spec"`
	}
	if json.Unmarshal(o.Raw, &body) != nil {
		return ""
	}
	return cmp.Or(strings.ToLower(body.Spec.Hostname), "*")
}

func specOf(o *snapshot.Object) ast.Value {
	v, err := Value(o.Raw)
	if err != nil {
		return nil
	}
	whole, ok := v.(ast.Object)
	if !ok {
		return nil
	}
	if spec := whole.Get(ast.StringTerm("spec")); spec != nil {
		return spec.Value
	}
	return nil
}
