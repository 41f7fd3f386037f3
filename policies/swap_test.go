package policies_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/policies"
)

// TestQuarantine: a policy that loops on every object is cut a few times and then not asked any more; the others' verdicts stand.
func TestQuarantine(t *testing.T) {
	var b strings.Builder
	for i := range 40 {
		b.WriteString(mapping("x", fmt.Sprintf("m%d", i), ""))
	}
	supply := rules("loop.rego", strings.Replace(loops(t), "namespaces: [target]", "namespaces: [x]", 1), "owner.rego", owner)
	a := admitter(supply)
	out, found := a.Admit(world(t, b.String()))
	if mappings(out) != "" || !slices.Contains(codes(found), "CH-POLICY-049") {
		t.Error(mappings(out), lines(found[:3]))
	}
	n := map[string]int{}
	for _, c := range codes(found) {
		n[c]++
	}
	if n["CH-POLICY-040"] != 40 || n["CH-POLICY-041"] != 40 || n["CH-POLICY-048"] != 40 || n["CH-POLICY-044"] != 0 {
		t.Errorf("%v: every object is under the quarantine, and every verdict of the other policy stands", n)
	}
	for _, p := range a.Policies() {
		if timeouts := p.Stats.Timeouts.Load(); p.ID == "hostile" && (timeouts < 4 || timeouts > 8+4*int64(runtime.GOMAXPROCS(0))) { // so many may be under way
			t.Errorf("cut %d times", timeouts)
		}
	}
}

// TestManySwaps: a thousand swaps leave neither memory nor goroutines behind.
func TestManySwaps(t *testing.T) {
	rounds := 1000
	if testing.Short() {
		rounds = 100
	}
	sets := []*policies.Supply{rules("owner.rego", owner), rules("owner.rego", strings.Replace(owner, "no timeout", "no time limit", 1), "b.rego", strings.Replace(owner, "admission.owner", "admission.b", 1)), nil}
	current := sets[0]
	a := policies.New(policies.Options{Point: "compile", Supply: func() *policies.Supply { return current }})
	var b strings.Builder
	for i := range 20 {
		b.WriteString(mapping("x", fmt.Sprintf("m%d", i), ""))
	}
	s := world(t, b.String())
	measure := func() (heap uint64, goroutines int) {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc, runtime.NumGoroutine()
	}
	swap := func(n int) {
		for i := range n {
			current = sets[i%len(sets)]
			a.Admit(s)
		}
	}
	swap(60)
	heap, goroutines := measure()
	swap(rounds)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // what still ends, ends; what is left behind does not
		after, now := measure()
		if after <= heap+2<<20 && now <= goroutines {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("heap from %d to %d bytes, goroutines from %d to %d", heap, after, goroutines, now)
		}
	}
}
