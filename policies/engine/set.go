package engine

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/open-policy-agent/opa/v1/version"

	"github.com/chancery-gateway/chancery/policies/api"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/manifest"
)

// Input is everything that a set is made of.
type Input struct {
	// Modules are the platform's files. Each admission package among them that no Policy names is a policy of its own.
	Modules []Module
	// Policies are the Policy objects.
	Policies []*api.Policy
	// Owner says to whom a Policy object belongs: the platform (""), a tenant, or nobody.
	Owner func(o *snapshot.Object) (tenant string, ok bool)
	// MaxPolicies is how many policies a tenant may have.
	MaxPolicies func(tenant string) int
	// Library finds the module of a library policy and what it needs beside.
	Library func(name string) ([]Module, bool)
	// Data is the digest of the data that came with the modules.
	Data string
}

// Set is an immutable set of policies, ready to be asked. It is safe for concurrent use.
type Set struct {
	// Policies are all instances, those of the platform first, then by priority (highest first) and id.
	Policies []*Policy
	// Digest identifies everything that an answer depends on beside the question.
	Digest   string
	Findings []snapshot.Diagnostic

	units map[string]*unit
	// spent is the time of each tenant's policies in the present compile, in nanoseconds.
	spent map[string]*atomic.Int64
}

// Loader makes sets and keeps what the next one can use: parsed modules, and the last good form of each package. It is
// not safe for concurrent use.
type Loader struct {
	parsed map[[32]byte]*module
	good   map[string][]*module // "tenant package" → modules
	stats  map[string]*Stats    // by tenant, id and revision
	files  map[string]*module   // "tenant file" → the last form that could be parsed
	units  map[string]*compiled // by tenant
	// Compiled is the number of units that were compiled: the platform's, and one for each tenant.
	Compiled int
}

// compiled is the unit of the last set, with what it was made of and what was found about it.
type compiled struct {
	key      string
	unit     *unit
	findings []snapshot.Diagnostic
}

// NewLoader returns a loader that has loaded nothing.
func NewLoader() *Loader {
	return &Loader{parsed: map[[32]byte]*module{}, good: map[string][]*module{}, stats: map[string]*Stats{}, files: map[string]*module{}, units: map[string]*compiled{}}
}

// Load makes a set. What is wrong is in its findings; the rest is in force.
func (l *Loader) Load(in Input) *Set {
	b := &builder{loader: l, in: in, set: &Set{units: map[string]*unit{}}, used: map[[32]byte]*module{}, files: map[string]*module{}, wanted: map[*api.Policy]string{}, byPackage: map[string][]*api.Policy{}}
	b.collect()
	for _, tenant := range slices.Sorted(maps.Keys(b.set.units)) {
		b.unit(tenant)
	}
	maps.DeleteFunc(l.units, func(tenant string, _ *compiled) bool { return b.set.units[tenant] == nil })
	b.instances()
	b.set.spent = map[string]*atomic.Int64{}
	for _, p := range b.set.Policies {
		if p.Tenant != "" && b.set.spent[p.Tenant] == nil {
			b.set.spent[p.Tenant] = &atomic.Int64{}
		}
	}
	b.set.Digest = b.digest()
	b.set.Findings = snapshot.SortDiagnostics(b.set.Findings)
	l.keep(b.used)
	l.files = b.files
	return b.set
}

// keep remembers the parsed modules of this set beside those of sets before, as long as these are few: a rollback is then
// a compile without parsing.
func (l *Loader) keep(used map[[32]byte]*module) {
	if len(l.parsed) > 4*len(used)+100 {
		l.parsed = used
		return
	}
	maps.Copy(l.parsed, used)
}

type builder struct {
	loader    *Loader
	in        Input
	set       *Set
	used      map[[32]byte]*module
	files     map[string]*module
	wanted    map[*api.Policy]string   // the package of each Policy object
	byPackage map[string][]*api.Policy // "tenant package" → objects
	tenants   map[*api.Policy]string   // owners
	count     map[string]int           // policies by tenant
	unparsed  map[*api.Policy]*snapshot.Diagnostic
}

func (b *builder) report(ds ...snapshot.Diagnostic) { b.set.Findings = append(b.set.Findings, ds...) }

// collect parses every module and puts it into its unit.
func (b *builder) collect() {
	b.tenants, b.count, b.unparsed = map[*api.Policy]string{}, map[string]int{}, map[*api.Policy]*snapshot.Diagnostic{}
	if len(b.in.Modules) > maxModules {
		b.report(b.in.Modules[0].about(codeTooBig, nil, fmt.Sprintf("%d modules", len(b.in.Modules)), fmt.Sprintf("at most %d", maxModules)))
		b.in.Modules = b.in.Modules[:maxModules]
	}
	for i := range b.in.Modules {
		if m := &b.in.Modules[i]; !m.IsTest() {
			b.add(m)
		}
	}
	library := map[string]string{}
	for _, p := range b.in.Policies {
		tenant, ok := b.in.Owner(p.Object)
		if !ok {
			b.report(p.Object.About(snapshot.Error, codeNamespace, "metadata.namespace",
				fmt.Sprintf("policies in namespace %q have no authority", p.Object.Namespace), "move the object, or add the namespace to --policy-namespaces"))
			continue
		}
		if b.count[tenant]++; tenant != "" && b.count[tenant] > b.in.MaxPolicies(tenant) {
			b.report(p.Object.About(snapshot.Error, codeTooBig, "", fmt.Sprintf("tenant %s has more than %d policies", tenant, b.in.MaxPolicies(tenant)), "remove one"))
			continue
		}
		b.tenants[p] = tenant
		for i, k := range p.Spec.Match.Kinds {
			if message, help := mistaken(k); message != "" {
				b.report(p.Object.About(snapshot.Warning, codeKind, fmt.Sprintf("spec.match.kinds[%d]", i), message, help))
			}
		}
		switch {
		case p.Spec.Rego != "":
			m := Module{File: inlineName(p.Object), Text: []byte(p.Spec.Rego), Line: inlineLine(p.Object), Tenant: tenant, Object: p.Object}
			if parsed, failed := b.add(&m); parsed != nil {
				b.wanted[p] = parsed.pkg
			} else {
				b.unparsed[p] = failed
			}
		case p.Spec.Library != "":
			mods, ok := b.in.Library(p.Spec.Library)
			if !ok || tenant != "" {
				b.report(p.Object.About(snapshot.Error, codeUnknown, "spec.library", fmt.Sprintf("the library has no policy %q for this owner", p.Spec.Library), "`chancery policy docs` lists them"))
				continue
			}
			for i := range mods {
				if library[mods[i].File] == "" {
					library[mods[i].File] = mods[i].File
					b.add(&mods[i])
				}
			}
			b.wanted[p] = admissionRoot + p.Spec.Library
		default:
			b.wanted[p] = p.Spec.Package
		}
		if name := b.wanted[p]; name != "" {
			key := tenant + " " + name
			b.byPackage[key] = append(b.byPackage[key], p)
		}
	}
}

func inlineName(o *snapshot.Object) string {
	file := o.Source.Position.File
	if o.Parent != nil && file == "" {
		file = o.Parent.Source.Position.File
	}
	return cmp.Or(file, "object") + "#" + o.Ref.String()
}

// inlineLine is the line of "rego: |", before the first line of the text.
func inlineLine(o *snapshot.Object) int {
	d := o.About(snapshot.Error, codeSyntax, "spec.rego", "", "")
	manifest.Resolve(o.Source, &d)
	return d.Position.Line
}

// add parses a module and puts it into its unit. A module that is broken gives nil and what is wrong.
func (b *builder) add(m *Module) (*module, *snapshot.Diagnostic) {
	key := sha256.Sum256([]byte(m.Tenant + "\x00" + m.File + "\x00" + fmt.Sprint(m.Line) + "\x00" + string(m.Text)))
	parsed := b.loader.parsed[key]
	if parsed == nil {
		var found []snapshot.Diagnostic
		if parsed, found = parse(m); parsed == nil {
			b.report(found...)
			last := b.loader.files[m.Tenant+" "+m.File]
			if last == nil {
				return nil, &found[0]
			}
			kept := found[0]
			kept.Severity, kept.Code, kept.Message = snapshot.Warning, codeKept, "the last good revision of the module goes on"
			b.report(kept)
			m, parsed = last.Module, last
		}
	}
	parsed.Module = m
	b.files[m.Tenant+" "+m.File] = parsed
	b.used[key] = parsed
	message, help := parsed.belongs()
	var found []snapshot.Diagnostic
	if message != "" {
		found = append(found, m.about(codePackage, parsed.parsed.Package.Location, message, help))
	}
	if m.Tenant != "" {
		found = append(found, parsed.escapes()...)
	}
	if len(found) > 0 {
		b.report(found...)
		return nil, &found[0]
	}
	u := b.set.units[m.Tenant]
	if u == nil {
		u = &unit{tenant: m.Tenant, packages: map[string]*pkg{}}
		b.set.units[m.Tenant] = u
	}
	p := u.packages[parsed.pkg]
	if p == nil {
		p = &pkg{name: parsed.pkg}
		u.packages[parsed.pkg] = p
	}
	p.mods = append(p.mods, parsed)
	return parsed, nil
}

// instances makes the policies of the set.
func (b *builder) instances() {
	var all []*Policy
	for _, o := range b.in.Policies {
		if tenant, ok := b.tenants[o]; ok {
			if p := b.instance(o, tenant); p != nil {
				all = append(all, p)
			}
		}
	}
	if u := b.set.units[""]; u != nil {
		for _, name := range slices.Sorted(maps.Keys(u.packages)) {
			p := u.packages[name]
			if !p.isPolicy() || len(b.byPackage[" "+name]) > 0 {
				continue
			}
			one := &Policy{Package: name, Meta: p.meta, ID: cmp.Or(p.meta.ID, name[strings.LastIndexByte(name, '.')+1:]), Spec: merged(api.PolicySpec{}, p.meta.Spec)}
			all = append(all, b.bind(one, u, p))
		}
	}
	slices.SortStableFunc(all, func(a, b *Policy) int {
		return cmp.Or(strings.Compare(a.Tenant, b.Tenant), cmp.Compare(b.Spec.Priority, a.Spec.Priority), strings.Compare(a.ID, b.ID))
	})
	ids, stats := map[string]bool{}, map[string]*Stats{}
	for _, p := range all {
		key := p.Tenant + " " + p.ID
		if ids[key] {
			b.report(p.About(codeTwice, "", fmt.Sprintf("another policy has the id %q already", p.ID), "give it another name or custom.id"))
			continue
		}
		ids[key] = true
		key += "@" + p.Revision
		if p.Stats = b.loader.stats[key]; p.Stats == nil {
			p.Stats = &Stats{}
		}
		stats[key] = p.Stats
		b.set.Policies = append(b.set.Policies, p)
	}
	b.loader.stats = stats
}

func (b *builder) instance(o *api.Policy, tenant string) *Policy {
	p := &Policy{ID: o.Object.Name, Tenant: tenant, Object: o.Object, Spec: o.Spec, Package: b.wanted[o], Meta: &Meta{}}
	if tenant != "" {
		p.ID = tenant + "/" + o.Object.Name
	}
	if d := b.unparsed[o]; d != nil {
		p.Broken = d
		return p
	}
	u := b.set.units[tenant]
	if u == nil || u.packages[p.Package] == nil {
		if o.Spec.Library != "" {
			return nil // reported
		}
		d := o.Object.About(snapshot.Error, codeUnknown, "spec.package", fmt.Sprintf("no module of package %q was loaded", p.Package), "load it with --policies")
		b.report(d)
		p.Broken = &d
		return p
	}
	at := u.packages[p.Package]
	if !at.isPolicy() {
		d := o.Object.About(snapshot.Error, codePackage, "spec.package", fmt.Sprintf("package %q holds no policy", p.Package), "name a package chancery.admission.<name>")
		b.report(d)
		p.Broken = &d
		return p
	}
	p.Meta = at.meta
	p.Spec = merged(o.Spec, at.meta.Spec)
	return b.bind(p, u, at)
}

// bind joins an instance with its package.
func (b *builder) bind(p *Policy, u *unit, at *pkg) *Policy {
	p.Rules, p.has, p.Broken = at.rules, at.has, at.broken
	p.modules, p.reads = at.mods, at.reads
	p.sharable = true
	for _, other := range u.packages { // a library package may look at the parameters too
		if other == at || !other.isPolicy() {
			for _, m := range other.mods {
				p.sharable = p.sharable && m.namesParameters()
			}
		}
	}
	if d := p.finish(at.digest); d != nil && p.Broken == nil {
		b.report(*d)
		p.Broken = d
	}
	return p
}

func (b *builder) digest() string {
	h := sha256.New()
	fmt.Fprintln(h, ProfileDigest(), version.Version, b.in.Data)
	for _, p := range b.set.Policies {
		fmt.Fprintln(h, p.Tenant, p.ID, p.Revision, p.Broken != nil)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
