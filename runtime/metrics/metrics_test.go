package metrics

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
)

func TestWrite(t *testing.T) {
	m := New("9.9")
	m.Stage("compile", 3*time.Millisecond)
	m.Compiled(12)
	m.EndpointsUpdated()
	m.Refused()
	m.Diagnostics([]snapshot.Diagnostic{{Severity: snapshot.Error}, {Severity: snapshot.Error}, {Severity: snapshot.Info}})
	m.Diagnostics([]snapshot.Diagnostic{{Severity: snapshot.Error}})
	m.Envoy(true, 2)
	var b bytes.Buffer
	if err := m.Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`chancery_build_info{version="9.9"} 1`, "chancery_compiles_total 1", "chancery_objects 12", "chancery_endpoint_updates_total 1",
		"chancery_xds_refusals_total 1", `chancery_diagnostics{severity="error"} 1`, `chancery_diagnostics{severity="info"} 0`,
		"chancery_envoy_up 1", "chancery_envoy_restarts 2", `chancery_stage_duration_seconds_count{stage="compile"} 1`,
		`chancery_stage_duration_seconds_bucket{stage="compile",le="0.0016"} 0`, `chancery_stage_duration_seconds_bucket{stage="compile",le="0.0032"} 1`,
		`chancery_stage_duration_seconds_sum{stage="compile"} 0.003`,
	} {
		if !strings.Contains(b.String(), want+"\n") {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestWatchValidator(t *testing.T) {
	m := New("9.9")
	v := Validator{}
	m.WatchValidator(func() Validator { return v })
	for _, c := range []struct {
		now  Validator
		want []string
	}{
		{Validator{}, []string{"verdicts_total 0", "restarts_total 0", "up 0"}},
		{Validator{Up: true, Judged: 11, Refused: 2, CacheHits: 7, Responses: 5, Starts: 4, Deaths: 1, Hangs: 2, Held: 3, Took: 1500 * time.Millisecond},
			[]string{"verdicts_total 11", "refusals_total 2", "cache_hits_total 7", "responses_total 5", "starts_total 4", "restarts_total 3", "deaths_total 1", "hangs_total 2", "seconds_total 1.5", "up 1"}},
	} {
		v = c.now
		var b bytes.Buffer
		if err := m.Write(&b); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(b.String(), "\nchancery_validator_"+want+"\n") {
				t.Errorf("no %q in\n%s", want, b.String())
			}
		}
		if want := fmt.Sprintf("\nchancery_quarantined_objects %d\n", c.now.Held); !strings.Contains(b.String(), want) {
			t.Errorf("no %q", want)
		}
	}
}
