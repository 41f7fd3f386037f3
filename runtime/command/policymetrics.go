package command

import (
	"io"
	"os"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chancery-gateway/chancery/policies/decision"
	"github.com/chancery-gateway/chancery/policies/engine"
)

// policyMetrics measures the policies in force, when it is asked.
type policyMetrics struct {
	set func() *engine.Set
	log *decision.Log
}

var (
	descPolicySet         = prometheus.NewDesc("chancery_policy_set_info", "Always 1; the policies in force.", []string{"digest", "profile"}, nil)
	descPolicyEvaluations = prometheus.NewDesc("chancery_policy_evaluations_total", "Answers: evaluated, or remembered since the policy had been asked about the same before.", []string{"policy", "tenant", "how"}, nil)
	descPolicySeconds     = prometheus.NewDesc("chancery_policy_seconds_total", "Time of all evaluations; policies that are asked together share theirs.", []string{"policy", "tenant"}, nil)
	descPolicyLatency     = prometheus.NewDesc("chancery_policy_evaluation_seconds", "Time of the evaluations that were measured alone: a sample, and all slow ones.", []string{"policy", "tenant"}, nil)
	descPolicyVerdicts    = prometheus.NewDesc("chancery_policy_results_total", "Results of rules.", []string{"policy", "tenant", "result"}, nil)
	descPolicyHit         = prometheus.NewDesc("chancery_policy_last_hit_timestamp_seconds", "When a rule last gave a result; absent for never.", []string{"policy", "tenant"}, nil)
	descPolicyBroken      = prometheus.NewDesc("chancery_policy_out_of_order", "1 for a policy that is broken or quarantined.", []string{"policy", "tenant"}, nil)
	descPolicyLog         = prometheus.NewDesc("chancery_policy_log_transitions_total", "Transitions of the decision log.", []string{"outcome"}, nil)
)

// Describe lists the measurements.
func (m *policyMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descPolicySet, descPolicyEvaluations, descPolicySeconds, descPolicyLatency, descPolicyVerdicts, descPolicyHit, descPolicyBroken, descPolicyLog} {
		out <- d
	}
}

// Collect measures.
func (m *policyMetrics) Collect(out chan<- prometheus.Metric) {
	if m.log != nil {
		written, dropped := m.log.Counts()
		out <- prometheus.MustNewConstMetric(descPolicyLog, prometheus.CounterValue, float64(written), "written")
		out <- prometheus.MustNewConstMetric(descPolicyLog, prometheus.CounterValue, float64(dropped), "dropped")
	}
	s := m.set()
	if s == nil {
		return
	}
	out <- prometheus.MustNewConstMetric(descPolicySet, prometheus.GaugeValue, 1, s.Digest, engine.ProfileDigest())
	for _, p := range s.Policies {
		n := p.Stats
		out <- prometheus.MustNewConstMetric(descPolicyEvaluations, prometheus.CounterValue, float64(n.Evaluations.Load()), p.ID, p.Tenant, "evaluated")
		out <- prometheus.MustNewConstMetric(descPolicyEvaluations, prometheus.CounterValue, float64(n.Remembered.Load()), p.ID, p.Tenant, "remembered")
		out <- prometheus.MustNewConstMetric(descPolicySeconds, prometheus.CounterValue, float64(n.Nanos.Load())/1e9, p.ID, p.Tenant)
		buckets, all := map[float64]uint64{}, uint64(0)
		for i := range n.Times {
			all += uint64(n.Times[i].Load())
			if i < len(engine.Bounds) {
				buckets[engine.Bounds[i].Seconds()] = all
			}
		}
		out <- prometheus.MustNewConstHistogram(descPolicyLatency, all, float64(n.Measured.Load())/1e9, buckets, p.ID, p.Tenant)
		for result, count := range map[string]int64{"deny": n.Denials.Load(), "warn": n.Warnings.Load(), "mutate": n.Mutations.Load(), "resolve": n.Resolved.Load(), "error": n.Errors.Load(), "timeout": n.Timeouts.Load()} {
			out <- prometheus.MustNewConstMetric(descPolicyVerdicts, prometheus.CounterValue, float64(count), p.ID, p.Tenant, result)
		}
		if at := n.LastHit.Load(); at > 0 {
			out <- prometheus.MustNewConstMetric(descPolicyHit, prometheus.GaugeValue, float64(at), p.ID, p.Tenant)
		}
		broken := 0.0
		if p.Broken != nil || p.Quarantined() {
			broken = 1
		}
		out <- prometheus.MustNewConstMetric(descPolicyBroken, prometheus.GaugeValue, broken, p.ID, p.Tenant)
	}
}

// decisionLog opens the decision log; nil when none is wanted.
func (a *app) decisionLog() (*decision.Log, io.Closer, error) {
	if a.settings.PolicyLog == "" {
		return nil, io.NopCloser(nil), nil
	}
	f, err := os.OpenFile(a.settings.PolicyLog, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
	if err != nil {
		return nil, nil, usage("--policy-log: %w", err)
	}
	return decision.New(f, 4096, list(a.settings.PolicyLogMask)), f, nil
}
