package policies

import (
	"slices"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/chancery-gateway/chancery/policies/api"
	"github.com/chancery-gateway/chancery/policies/engine"
	"github.com/chancery-gateway/chancery/policies/index"
	"github.com/chancery-gateway/chancery/policies/library"
	"github.com/chancery-gateway/chancery/snapshot"
)

// world is what the verdicts depend on beside the objects: the set, tenancy, exceptions.
type world struct {
	set        *engine.Set
	memory     *engine.Memory
	tenancy    *api.Tenancy
	tenants    string // what tenancy was made from
	index      *index.Index
	store      *index.Store
	exceptions []*api.Exception
	findings   []snapshot.Diagnostic
	point      api.Point
	platform   []*engine.Policy
	mergers    []*engine.Policy
	byTenant   map[string][]*engine.Policy
	around     map[string]surroundings // by namespace
	labels     map[string]map[string]string
	questions  map[string]*question
	mu         sync.Mutex
}

func (a *Admitter) newWorld(s *snapshot.Snapshot, supply *Supply, before *world) *world {
	if supply == nil {
		supply = &Supply{}
	}
	own := api.Read(snapshot.Empty().Derive(supply.Objects, nil, nil))
	theirs := api.Read(s)
	trusted := map[*snapshot.Object]bool{}
	for _, o := range supply.Objects {
		trusted[o] = true
	}
	w := &world{point: a.options.Point, byTenant: map[string][]*engine.Policy{}, around: map[string]surroundings{}}
	w.labels, w.questions = map[string]map[string]string{}, map[string]*question{}
	for o := range s.List(snapshot.KindNamespace) {
		w.labels[o.Name] = o.Labels
	}
	w.findings = slices.Concat(supply.Findings, own.Findings, theirs.Findings)
	w.tenancy = api.NewTenancy(append(own.Tenants, theirs.Tenants...), s)
	w.findings = append(w.findings, w.tenancy.Findings...)
	w.tenants = w.tenancy.Digest(s)
	authorised := func(o *snapshot.Object) bool {
		return trusted[o] || o.Namespace == "" || slices.Contains(a.options.Namespaces, o.Namespace)
	}
	for _, e := range append(own.Exceptions, theirs.Exceptions...) {
		if authorised(e.Object) {
			w.exceptions = append(w.exceptions, e)
		} else {
			w.findings = append(w.findings, e.Object.About(snapshot.Error, codeException, "metadata.namespace",
				"exceptions in namespace "+e.Object.Namespace+" have no authority", "move the object, or add the namespace to --policy-namespaces"))
		}
	}
	w.set = a.loader.Load(engine.Input{
		Modules: slices.Clone(supply.Modules), Policies: append(own.Policies, theirs.Policies...), Library: library.Find, Data: supply.Digest,
		Owner: func(o *snapshot.Object) (string, bool) {
			if authorised(o) {
				return "", true
			}
			t := w.tenancy.Name(o.Namespace)
			return t, t != ""
		},
		MaxPolicies: func(tenant string) int { return w.tenancy.MaxPolicies(tenant) },
	})
	if !a.options.Forgetful {
		w.memory = engine.NewMemory()
	}
	w.findings = append(w.findings, w.set.Findings...)
	for _, p := range w.set.Policies {
		switch {
		case p.IsMerge():
			if p.Spec.At(w.point) == api.EnforceDeny {
				w.mergers = append(w.mergers, p)
			}
		case p.Spec.At(w.point) == "":
		case p.Tenant == "":
			w.platform = append(w.platform, p)
		default:
			w.byTenant[p.Tenant] = append(w.byTenant[p.Tenant], p)
		}
	}
	if before != nil && before.tenants == w.tenants {
		w.index = before.index
	} else {
		w.index = index.New(w.tenancy)
	}
	w.store = index.NewStore(w.index, supply.Data)
	for _, p := range w.mergers {
		w.rehearse(p)
	}
	return w
}

// quarantined returns the number of policies in quarantine.
func (w *world) quarantined() (n int) {
	for _, p := range w.set.Policies {
		if p.Quarantined() {
			n++
		}
	}
	return n
}

// surroundings are the parts of the input that follow from the namespace.
type surroundings struct{ namespace, tenant *ast.Term }
