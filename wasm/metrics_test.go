package wasm

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestMetrics(t *testing.T) {
	h := newTestHost(t, nil)
	apply1(t, h, Spec{Name: "m", Source: &memory{module: guest{Answer: setHeader("fine"), Translate: trapOnX()}.Bytes()}, Grant: grantAll()})
	runOne(h, unitOf("u", "a"))
	runOne(h, unitOf("u", "a"))
	runOne(h, unitOf("u", "x"))
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(Metrics{h}); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range families {
		for _, m := range f.Metric {
			b.WriteString(f.GetName())
			for _, l := range m.Label {
				if l.GetName() == "code" || l.GetName() == "action" {
					b.WriteString(" " + l.GetValue())
				}
			}
			if c := m.Counter; c != nil && c.GetValue() == float64(int(c.GetValue())) {
				b.WriteString(" " + string(rune('0'+int(c.GetValue())%10)))
			}
			b.WriteByte('\n')
		}
	}
	for _, want := range []string{
		"chancery_module_calls_total 2\n", "chancery_module_remembered_total 1\n", "chancery_module_errors_total CH-WASM-040 1\n",
		"chancery_module_failed_units_total keep_last_output 1\n", "chancery_module_suspended\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
}
