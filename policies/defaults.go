package policies

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/policies/engine"
	"github.com/chancery-gateway/chancery/policies/merge"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
)

// moduleDefaults are the keys of a Module's config that hold for Mappings which do not say otherwise, with the Mapping's
// fields. What is below defaults and defaults.httpmapping has the names of the Mapping's fields.
var moduleDefaults = map[string]string{
	"cluster_request_timeout_ms": "timeout_ms", "cors": "cors", "retry_policy": "retry_policy", "circuit_breakers": "circuit_breakers",
	"load_balancer": "load_balancer", "keepalive": "keepalive", "resolver": "resolver", "cluster_idle_timeout_ms": "cluster_idle_timeout_ms",
	"cluster_max_connection_lifetime_ms": "cluster_max_connection_lifetime_ms", "add_linkerd_headers": "add_linkerd_headers",
	"enable_ipv4": "enable_ipv4", "enable_ipv6": "enable_ipv6",
}

// defaultHeaders are the fields that stand below defaults.
var defaultHeaders = []string{"add_request_headers", "add_response_headers", "remove_request_headers", "remove_response_headers", "stats_name"}

// defaults are what the platform's Module sets for Mappings.
type defaults struct {
	module *snapshot.Object
	fields map[string]any
}

func defaultsOf(r snapshot.Ref) claimed { return claimed{kindDefaults, r.String()} }

// readDefaults returns the defaults of a Module; nil gives none.
func readDefaults(module *snapshot.Object) *defaults {
	d := &defaults{module: module, fields: map[string]any{}}
	if module == nil {
		return d
	}
	config, _ := specOf(module)["config"].(map[string]any)
	for key, field := range moduleDefaults {
		if v, ok := config[key]; ok && v != nil {
			d.fields[field] = v
		}
	}
	tree, _ := config["defaults"].(map[string]any)
	mapping, _ := tree["httpmapping"].(map[string]any)
	for _, level := range []map[string]any{tree, mapping} {
		for _, key := range defaultHeaders {
			if v, ok := level[key]; ok && v != nil {
				d.fields[key] = v
			}
		}
	}
	return d
}

// platformModule returns the Module that counts, as it stands, when it is the platform's; else nil.
func (a *Admitter) platformModule() *snapshot.Object {
	var first *entry
	for key, m := range a.merges {
		if key.kind != "Module" {
			continue
		}
		for _, e := range m.members {
			if a.standing(e) != nil && e.question.owner == "" && (first == nil || e.object.Ref.Compare(first.object.Ref) < 0) {
				first = e
			}
		}
	}
	if first == nil {
		return nil
	}
	return a.standing(first)
}

// bindDefaults settles the claims of tenants' Mappings against the platform's defaults, and adds the Mappings that another
// Module concerns to those that are touched.
func (a *Admitter) bindDefaults(touched map[snapshot.Ref]*entry, dirty map[claimed]bool) {
	if module := a.platformModule(); module != a.defaults.module {
		a.defaults = readDefaults(module)
		for ref, e := range a.entries {
			if ref.GroupKind() == v3alpha1.KindMapping && (e.question.owner != "" || a.merges[defaultsOf(ref)] != nil) {
				touched[ref] = e
			}
		}
	}
	for key := range dirty {
		if m := a.merges[key]; m != nil && key.kind == kindDefaults {
			maps.Copy(touched, m.members)
		}
	}
	for ref, e := range touched {
		if ref.GroupKind() != v3alpha1.KindMapping {
			continue
		}
		e.candidate = e.admitted
		delete(a.merges, defaultsOf(ref))
		if e.question.owner == "" || claimOf(e.admitted, a.options.AmbassadorID) == (claimed{}) {
			continue
		}
		if m := a.settleDefaults(e); m != nil {
			a.merges[m.key] = m
			if form, bound := m.forms[ref]; bound {
				e.candidate = form
			}
		}
	}
}

// settleDefaults decides between the settings of a tenant's Mapping and the platform's defaults for them; nil where there is
// nothing to decide. Without a policy the Mapping's own settings hold, as in Emissary, but for those of security.
func (a *Admitter) settleDefaults(e *entry) *merged {
	own, rival := specOf(e.admitted), map[string]any{}
	for name, v := range a.defaults.fields {
		if own[name] != nil {
			rival[name] = v
		}
	}
	if len(rival) == 0 {
		return nil
	}
	platform, err := a.defaults.claim(rival)
	if err != nil {
		return nil // it was JSON before
	}
	mine := *e
	mine.candidate = e.admitted
	m := &merged{key: defaultsOf(e.object.Ref), members: map[snapshot.Ref]*entry{e.object.Ref: e}, forms: map[snapshot.Ref]*snapshot.Object{}}
	b := binding{a: a, m: m, e: e, own: own, rival: rival}
	for _, p := range a.world.mergers {
		if p.Broken != nil || p.Quarantined() || !p.Spec.Match.TakesKind(v3alpha1.KindModule) || !p.Spec.Match.TakesKind(v3alpha1.KindMapping) {
			continue
		}
		answer, rule, failure := a.world.askMerge(p, m, []*entry{platform, &mine})
		if answer == nil && failure == nil {
			continue
		}
		b.by = &settlement{policy: p, rule: p.Rules[0].Position}
		m.outcome = &Merged{Kind: kindDefaults, Claim: m.key.what, Winner: e.object.Ref, Policy: p.ID, Revision: p.Revision, Rule: b.by.rule.String()}
		if failure == nil {
			b.by.rule = rule.Position
			m.outcome.Rule, m.outcome.Reason = rule.Position.String(), answer.Reason
			failure = b.apply(answer, platform)
		}
		if failure != nil { // what the platform set stands
			b.set(rival, nil)
			m.findings = append(m.findings, b.by.sign(e.object.About(snapshot.Error, failure.Code, "", fmt.Sprintf("merge policy %s failed, so the platform's defaults hold: %s", p.ID, failure.Message), "")))
		}
		return m
	}
	if failure := b.join(nil, merge.LastWins); failure != nil || len(m.forms) == 0 && len(m.findings) == 0 {
		return nil
	}
	m.outcome = &Merged{Kind: kindDefaults, Claim: m.key.what, Winner: e.object.Ref, Losers: losers(m), Fields: b.fields}
	return m
}

// claim returns the platform's claim: the Module, with the defaults as a Mapping would have them.
func (d *defaults) claim(rival map[string]any) (*entry, error) {
	doc, _ := decode(d.module.Raw).(map[string]any)
	doc["spec"] = rival
	text, err := json.Marshal(doc)
	o := *d.module
	o.Raw = text
	return &entry{object: d.module, candidate: &o, question: &question{}}, err
}

// binding is one Mapping between its own settings and the platform's.
type binding struct {
	a          *Admitter
	m          *merged
	e          *entry
	own, rival map[string]any
	by         *settlement
	fields     []merge.Field
}

func (b *binding) apply(answer *resolution, platform *entry) *engine.Failure {
	mine, theirs := b.e.object.Ref.String(), platform.object.Ref.String()
	wrong := func(format string, args ...any) *engine.Failure {
		return &engine.Failure{Policy: b.by.policy, Code: engine.CodeShape, Message: fmt.Sprintf(format, args...)}
	}
	yields := false
	for _, r := range answer.Reject {
		switch r.ID {
		case mine:
			b.a.lose(b.m, b.e, platform, b.by, "", r.Msg)
			b.m.outcome.Winner, b.m.outcome.Losers = platform.object.Ref, losers(b.m)
			return nil
		case theirs:
			yields = true
		default:
			return wrong("%q is no claim", r.ID)
		}
	}
	switch {
	case yields:
	case answer.joins():
		if failure := b.join(answer.Fields, cmp.Or(answer.Default, merge.LastWins)); failure != nil {
			return failure
		}
	case answer.Winner == theirs:
		b.set(b.rival, nil)
		b.m.outcome.Winner = platform.object.Ref
	case answer.Winner != mine && answer.Winner != "":
		return wrong("winner %q is no claim that stands", answer.Winner)
	}
	b.m.outcome.Losers, b.m.outcome.Fields = losers(b.m), b.fields
	return nil
}

// join merges the platform's defaults with the Mapping's own settings of the same fields.
func (b *binding) join(fields map[string]merge.Strategy, fallback merge.Strategy) *engine.Failure {
	own := map[string]any{}
	for name := range b.rival {
		own[name] = b.own[name]
	}
	module, mine := b.a.defaults.module.Ref.String(), b.e.object.Ref.String()
	spec, provenance, rejected, err := merge.Merge([]merge.Claim{{ID: module, Parent: true, Spec: b.rival}, {ID: mine, Spec: own}}, fields, fallback)
	if err != nil {
		failure := &engine.Failure{Code: engine.CodeShape, Message: err.Error()}
		if b.by != nil {
			failure.Policy = b.by.policy
		}
		return failure
	}
	b.fields = provenance
	if len(rejected) > 0 {
		b.a.lose(b.m, b.e, nil, b.by, rejected[0].Path, rejected[0].Message)
		return nil
	}
	b.set(spec, provenance)
	return nil
}

// set gives the Mapping the values, and tells its owner of each that is not its own.
func (b *binding) set(values map[string]any, provenance []merge.Field) {
	spec := maps.Clone(b.own)
	var changed []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !reflect.DeepEqual(spec[name], values[name]) {
			spec[name] = values[name]
			changed = append(changed, name)
		}
	}
	if len(changed) == 0 {
		return
	}
	form, err := withSpec(b.e.admitted, spec)
	if err != nil {
		b.a.lose(b.m, b.e, nil, b.by, "", "it cannot be joined with the platform's defaults: "+err.Error())
		return
	}
	b.m.forms[b.e.object.Ref] = form
	for _, name := range changed {
		how := ""
		for _, f := range provenance {
			if f.Path == "spec."+name || strings.HasPrefix(f.Path, "spec."+name+".") {
				how = " (" + string(f.Strategy) + ")"
				break
			}
		}
		b.m.findings = append(b.m.findings, b.by.sign(b.e.object.About(snapshot.Warning, codeBound, "spec."+name,
			fmt.Sprintf("%s, the Mapping's own, gives way to %s by the defaults of %s%s", text(b.own[name]), text(values[name]), b.a.defaults.module.Ref, how), "set what the platform allows")))
	}
}

func text(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(out)
}
