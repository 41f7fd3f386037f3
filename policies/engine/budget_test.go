package engine

import (
	"sync/atomic"
	"testing"
	"time"
)

// TestBudgets: a policy that is over its budget for one compile is quarantined; when all of a tenant's policies together are
// over theirs, the one that took most is, and nobody else's.
func TestBudgets(t *testing.T) {
	s := &Set{spent: map[string]*atomic.Int64{"shop": {}, "bank": {}}}
	for _, one := range []struct{ id, tenant string }{{"cheap", "shop"}, {"dear", "shop"}, {"middle", "shop"}, {"theirs", "bank"}, {"platforms", ""}} {
		s.Policies = append(s.Policies, &Policy{ID: one.id, Tenant: one.tenant, Stats: &Stats{}})
	}
	charge := func(id string, took time.Duration) {
		for _, p := range s.Policies {
			if p.ID == id {
				(&plan{set: s, policies: []*Policy{p}}).charge(took)
			}
		}
	}
	quarantined := func() (out string) {
		for _, p := range s.Policies {
			if p.Quarantined() {
				out += p.ID + " "
			}
		}
		return out
	}
	for range 40 { // 0.8 s, 4.8 s and 4 s
		charge("cheap", 20*time.Millisecond)
		charge("dear", 120*time.Millisecond)
		charge("middle", 100*time.Millisecond)
		charge("theirs", 110*time.Millisecond)
		charge("platforms", 124*time.Millisecond)
	}
	if got := quarantined(); got != "" {
		t.Errorf("within their budgets: %s", got)
	}
	charge("cheap", 500*time.Millisecond)
	if got := quarantined(); got != "dear " {
		t.Errorf("over the tenant's budget: %q", got)
	}
	s.BeginPass()
	charge("platforms", passBudget+1)
	charge("theirs", passBudget-1)
	charge("middle", passBudget-1)
	if got := quarantined(); got != "dear platforms " {
		t.Errorf("in the next compile: %q", got)
	}
}
