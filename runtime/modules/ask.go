package modules

import (
	"context"
	"reflect"
	"slices"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/wasm"
	"github.com/chancery-gateway/chancery/wasm/abi"
)

type askedUnit struct {
	phase abi.Phase
	key   string
}

// asked is what modules said of a unit with this content.
type asked struct {
	set      *wasm.Set
	hash     snapshot.Hash
	findings []wasm.Finding
}

// ask has the modules that can say what is wrong with the units do so, and adds what they did not say anyway. A module that
// fails at it says nothing: the compile shows whether it fails there too. Units that are as they were are not asked about
// again.
func (r *run) ask(p abi.Phase, units []wasm.Unit, outcomes []wasm.Outcome) {
	m := r.modules
	if m.asked == nil {
		m.asked = map[askedUnit]asked{}
	}
	now := map[askedUnit]bool{}
	for i := range units {
		u := &units[i]
		k := askedUnit{p, u.Key}
		now[k] = true
		a, there := m.asked[k]
		if !there || a.hash != u.Hash || a.set != r.set {
			found, _ := r.on.Validate(context.Background(), p, *u)
			a = asked{r.set, u.Hash, found}
			m.asked[k] = a
		}
		o := &outcomes[i]
		for _, f := range a.findings {
			if !slices.ContainsFunc(o.Findings, func(said wasm.Finding) bool { return reflect.DeepEqual(said, f) }) {
				o.Findings = append(o.Findings, f)
			}
		}
	}
	for k := range m.asked {
		if k.phase == p && !now[k] {
			delete(m.asked, k)
		}
	}
}
