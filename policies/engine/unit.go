package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
)

// unit compiles the unit of a tenant, unless it is made of the same as the last one.
func (b *builder) unit(tenant string) {
	u := b.set.units[tenant]
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(u.packages)) {
		for _, m := range u.packages[name].mods {
			parts = append(parts, fmt.Sprintf("%s %x %d", name, m.digest, m.Line))
		}
		for _, o := range b.byPackage[tenant+" "+name] {
			parts = append(parts, fmt.Sprintf("%s %q", name, o.Spec.Match.Kinds))
		}
	}
	slices.Sort(parts)
	key := strings.Join(parts, "\n")
	if last := b.loader.units[tenant]; last != nil && last.key == key {
		b.set.units[tenant] = last.unit
		b.report(last.findings...)
		return
	}
	known := len(b.set.Findings)
	b.check(u)
	b.loader.Compiled++
	b.loader.units[tenant] = &compiled{key, u, slices.Clone(b.set.Findings[known:])}
}

// check inspects the packages of a unit and compiles it. A package whose new form is broken goes on in its last good one.
func (b *builder) check(u *unit) {
	for _, name := range slices.Sorted(maps.Keys(u.packages)) {
		b.prepare(u, u.packages[name])
	}
	sizes := u.expansion()
	for _, name := range slices.Sorted(maps.Keys(u.packages)) {
		p := u.packages[name]
		if m, at, message := sizes.excess(p); message != "" && p.broken == nil {
			d := m.about(codeTooBig, at, message, "do not pair a value with itself again and again")
			p.broken = &d
			b.report(d)
		}
	}
	b.report(u.compile()...)
	replaced := false
	for _, name := range slices.Sorted(maps.Keys(u.packages)) {
		p, key := u.packages[name], u.tenant+" "+name
		if p.broken == nil {
			b.loader.good[key] = p.mods
			continue
		}
		if last := b.loader.good[key]; last != nil && !slices.EqualFunc(last, p.mods, func(a, b *module) bool { return a.digest == b.digest }) {
			d := *p.broken
			d.Severity, d.Code, d.Message = snapshot.Warning, codeKept, "the last good revision of the rules goes on, because: "+d.Message
			old := &pkg{name: name, mods: last}
			if b.prepare(u, old); old.broken == nil {
				b.report(d)
				u.packages[name], replaced = old, true
			}
		}
	}
	if replaced {
		b.report(u.compile()...)
	}
	for _, p := range u.packages {
		all := u.closure(p)
		p.digest = digest(all)
		if p.isPolicy() {
			p.reads = project(p.mods, u.reached)
		}
	}
}

func (b *builder) prepare(u *unit, p *pkg) {
	slices.SortFunc(p.mods, func(a, b *module) int { return strings.Compare(a.File, b.File) })
	if !p.isPolicy() {
		return
	}
	var found []snapshot.Diagnostic
	if p.meta, found = metaOf(p.mods); len(found) == 0 {
		p.rules, p.has, p.twins, found = inspect(p.mods)
	}
	if u.tenant != "" && (p.has["mutate"] || p.has["resolve"]) {
		found = append(found, p.mods[0].about(codeTenantMay, p.mods[0].parsed.Package.Location, "a tenant's package may not mutate or merge", "keep deny and warn only"))
	}
	if len(found) > 0 {
		b.report(found...)
		p.broken = &found[0]
	}
	p.kinds = p.meta.Spec.Match.Kinds
	for _, k := range p.kinds {
		if message, help := mistaken(k); message != "" {
			d := p.mods[0].about(codeKind, p.mods[0].parsed.Package.Location, message, help)
			d.Severity = snapshot.Warning
			b.report(d)
		}
	}
	objects := b.byPackage[u.tenant+" "+p.name]
	if len(p.kinds) == 0 && len(objects) > 0 {
		all := true
		for _, o := range objects {
			all = all && len(o.Spec.Match.Kinds) > 0
			p.kinds = append(p.kinds, o.Spec.Match.Kinds...)
		}
		if !all {
			p.kinds = nil
		}
	}
	slices.Sort(p.kinds)
	p.kinds = slices.Compact(p.kinds)
}

// closure returns the modules of the package and of all packages that it refers to, directly or not.
func (u *unit) closure(p *pkg) (out []*module) {
	seen := map[*pkg]bool{}
	var visit func(*pkg)
	visit = func(at *pkg) {
		if seen[at] {
			return
		}
		seen[at] = true
		for _, m := range at.mods {
			for _, to := range m.refers {
				if strings.HasPrefix(to, "chancery.index.") || to == "chancery.index" {
					continue
				}
				for name, other := range u.packages {
					if to == name || strings.HasPrefix(to, name+".") || strings.HasPrefix(name, to+".") {
						visit(other)
					}
				}
			}
			if m.wild != nil {
				for _, other := range u.packages {
					visit(other)
				}
			}
		}
	}
	visit(p)
	for at := range seen {
		out = append(out, at.mods...)
	}
	return out
}

// reached returns the modules of the packages that a reference may lead to, and of all that these refer to.
func (u *unit) reached(path string) (out []*module) {
	for name, p := range u.packages {
		if path == name || strings.HasPrefix(path, name+".") || strings.HasPrefix(name, path+".") {
			out = append(out, u.closure(p)...)
		}
	}
	return out
}

// digest is that of modules, in whatever order.
func digest(mods []*module) string {
	var sums []string
	for _, m := range mods {
		sums = append(sums, hex.EncodeToString(m.digest[:]))
	}
	slices.Sort(sums)
	sum := sha256.Sum256([]byte(strings.Join(sums, "\n")))
	return hex.EncodeToString(sum[:])
}
