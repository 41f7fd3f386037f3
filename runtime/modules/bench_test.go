package modules

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
)

// town is hosts × mappings: each Host has its own Mappings.
func town(b testing.TB, hosts, each int) *snapshot.Snapshot {
	var text strings.Builder
	text.WriteString(base)
	for h := range hosts {
		fmt.Fprintf(&text, "---\napiVersion: getambassador.io/v3alpha1\nkind: Host\nmetadata: {name: h%d, namespace: gw}\nspec: {hostname: h%d.example.com, requestPolicy: {insecure: {action: Route}}}\n", h, h)
		for m := range each {
			text.WriteString(townMapping(h, m, "red"))
		}
	}
	return snapshot.Empty().Derive(parse(b, text.String()), nil, nil)
}

func townMapping(h, m int, team string) string {
	return fmt.Sprintf("---\napiVersion: getambassador.io/v3alpha1\nkind: Mapping\nmetadata: {name: m%d-%d, namespace: shop, labels: {team: %s}}\nspec: {hostname: h%d.example.com, prefix: /m%d/, service: s%d}\n", h, m, team, h, m, m)
}

// BenchmarkCompile compiles 10,000 Mappings on 500 Hosts: without an extender, with one that has no modules, and with one that changes every route.
func BenchmarkCompile(b *testing.B) {
	s := town(b, 500, 20)
	for _, c := range []struct {
		name    string
		modules func() *Modules
	}{
		{"plain", func() *Modules { return nil }},
		{"none", func() *Modules { return start(b) }},
		{"header", func() *Modules { return start(b, spec(b, "header", `{"label":"team","header":"x-team"}`)) }},
	} {
		b.Run(c.name+"/cold", func(b *testing.B) {
			m := c.modules()
			b.ResetTimer()
			for range b.N {
				newCompiler(m).Compile(s)
			}
		})
		b.Run(c.name+"/warm", func(b *testing.B) {
			m := c.modules()
			compiler := newCompiler(m)
			compiler.Compile(s)
			var before, after int64
			if m != nil {
				before, _ = calls(m)
			}
			at := s
			b.ResetTimer()
			for i := range b.N {
				at = at.Derive(parse(b, strings.TrimPrefix(townMapping(7, 7, []string{"blue", "green"}[i%2]), "---\n")), nil, nil)
				compiler.Compile(at)
				at.Forget()
			}
			b.StopTimer()
			if m != nil {
				after, _ = calls(m)
				b.ReportMetric(float64(after-before)/float64(b.N), "calls/op")
			}
		})
	}
}

// TestNoModulesCostNothing: an extender without modules makes a compile no larger than none at all, cold and warm.
func TestNoModulesCostNothing(t *testing.T) {
	s := town(t, 20, 10)
	edit := s.Derive(parse(t, strings.TrimPrefix(townMapping(7, 7, "blue"), "---\n")), nil, nil)
	m := start(t)
	measure := func(m *Modules) (cold, warm float64) {
		cold = testing.AllocsPerRun(3, func() { newCompiler(m).Compile(s) })
		c := newCompiler(m)
		turn := false
		warm = testing.AllocsPerRun(10, func() {
			if turn = !turn; turn {
				c.Compile(edit)
			} else {
				c.Compile(s)
			}
		})
		return cold, warm
	}
	plainCold, plainWarm := measure(nil)
	cold, warm := measure(m)
	if cold > plainCold*1.01+20 || warm > plainWarm*1.01+20 {
		t.Errorf("%.0f allocations cold and %.0f warm; without an extender %.0f and %.0f", cold, warm, plainCold, plainWarm)
	}
}
