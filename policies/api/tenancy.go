package api

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
)

// Tenancy says which tenant a namespace belongs to.
type Tenancy struct {
	byName      map[string]*Tenant
	byNamespace map[string]*Tenant
	// Findings are the overlaps.
	Findings []snapshot.Diagnostic
}

// NewTenancy assigns namespaces to tenants. Of two tenants that claim the same namespace or host names the older one has it; the other
// stands without, with a finding: what is its alone must not be set free.
func NewTenancy(tenants []*Tenant, s *snapshot.Snapshot) *Tenancy {
	t := &Tenancy{byName: map[string]*Tenant{}, byNamespace: map[string]*Tenant{}}
	sorted := slices.Clone(tenants)
	slices.SortFunc(sorted, func(a, b *Tenant) int {
		if b.Object.NewerThan(a.Object) {
			return -1
		}
		return 1
	})
	for _, one := range sorted {
		t.add(&Tenant{Object: one.Object, Spec: one.Spec}, s)
	}
	return t
}

// add gives the tenant what no older one has.
func (t *Tenancy) add(one *Tenant, s *snapshot.Snapshot) {
	lost := func(path, format string, args ...any) {
		t.Findings = append(t.Findings, one.Object.About(snapshot.Error, codeOverlap, path, fmt.Sprintf(format, args...), "give it to one Tenant only"))
	}
	take := func(path, namespace string) {
		if other := t.byNamespace[namespace]; other != nil && other != one {
			lost(path, "namespace %q belongs to %s already", namespace, other.Object.Ref)
			return
		}
		t.byNamespace[namespace] = one
	}
	for i, ns := range one.Spec.Namespaces {
		take(fmt.Sprintf("spec.namespaces[%d]", i), ns)
	}
	if len(one.Spec.NamespaceSelector) > 0 {
		for o := range s.List(snapshot.KindNamespace) {
			if selects(one.Spec.NamespaceSelector, o.Labels) {
				take("spec.namespaceSelector", o.Name)
			}
		}
	}
	hosts := one.Spec.Hosts
	one.Spec.Hosts = nil
	for i, h := range hosts {
		if owner, taken := t.holder(h); owner != nil {
			lost(fmt.Sprintf("spec.hosts[%d]", i), "host names of %q belong to %s already (%q)", h, owner.Object.Ref, taken)
			continue
		}
		one.Spec.Hosts = append(one.Spec.Hosts, h)
	}
	t.byName[one.Object.Name] = one
}

// holder returns the tenant that has host names of the pattern, and the pattern of its own that says so; nil for none.
func (t *Tenancy) holder(host string) (*Tenant, string) {
	for _, one := range t.All() {
		for _, taken := range one.Spec.Hosts {
			if HostCovers(taken, host) || HostCovers(host, taken) {
				return one, taken
			}
		}
	}
	return nil, ""
}

func selects(want, have map[string]string) bool {
	for k, v := range want {
		if got, ok := have[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// HostCovers reports whether the granted pattern (exact or "*.suffix") covers the host name or pattern. "*.a" covers "b.a" and "*.b.a", not "a".
func HostCovers(granted, host string) bool {
	if granted == host {
		return true
	}
	suffix, ok := strings.CutPrefix(granted, "*")
	return ok && strings.HasPrefix(suffix, ".") && strings.HasSuffix(host, suffix) && len(host) > len(suffix)
}

// Of returns the tenant of a namespace, nil for none.
func (t *Tenancy) Of(namespace string) *Tenant { return t.byNamespace[namespace] }

// Name returns the name of the tenant of a namespace, "" for none.
func (t *Tenancy) Name(namespace string) string {
	if one := t.byNamespace[namespace]; one != nil {
		return one.Object.Name
	}
	return ""
}

// All returns the tenants that stand, by name.
func (t *Tenancy) All() []*Tenant {
	var out []*Tenant
	for _, name := range slices.Sorted(maps.Keys(t.byName)) {
		out = append(out, t.byName[name])
	}
	return out
}

// Namespaces returns the namespaces of a tenant, sorted.
func (t *Tenancy) Namespaces(tenant string) []string {
	var out []string
	for ns, one := range t.byNamespace {
		if one.Object.Name == tenant {
			out = append(out, ns)
		}
	}
	slices.Sort(out)
	return out
}

// MaxPolicies returns how many policies of its own the tenant may have.
func (t *Tenancy) MaxPolicies(tenant string) int {
	if one := t.byName[tenant]; one != nil && one.Spec.MaxPolicies != nil {
		return *one.Spec.MaxPolicies
	}
	return 20
}

// Digest identifies the assignment of namespaces to tenants, and what the tenants are granted.
func (t *Tenancy) Digest(s *snapshot.Snapshot) string {
	var b strings.Builder
	for _, one := range t.All() {
		fmt.Fprintln(&b, one.Object.Name, one.Object.Hash, t.Namespaces(one.Object.Name))
	}
	for o := range s.List(snapshot.KindNamespace) {
		fmt.Fprintln(&b, o.Name, o.Hash)
	}
	return b.String()
}
