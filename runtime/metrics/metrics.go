// Package metrics holds Chancery's own measurements in Prometheus form. Names start with "chancery_", times are seconds.
package metrics

import (
	"io"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"

	"github.com/chancery-gateway/chancery/snapshot"
)

// Metrics are the measurements of one running program.
type Metrics struct {
	registry *prometheus.Registry

	stages      *prometheus.HistogramVec
	compiles    prometheus.Counter
	fastPath    prometheus.Counter
	refusals    prometheus.Counter
	diagnostics *prometheus.GaugeVec
	objects     prometheus.Gauge
	restarts    prometheus.Gauge
	up          prometheus.Gauge
}

// Stages are the stages of a change, from the source to the Envoy, with what each is.
var Stages = [][2]string{
	{"wait", "from the source until it is taken up"},
	{"lower", "objects to fragments, part of compile"},
	{"link", "fragments to a program, part of compile"},
	{"emit", "program to resources, part of compile"},
	{"compile", "all of it"},
	{"prove", "the validating Envoy's verdict"},
	{"publish", "handing over to the discovery server"},
	{"endpoints", "a change of endpoints alone, in place of compile and prove"},
	{"send", "from the publication to an Envoy's stream, what it waits for included"},
	{"send-endpoints", "the same for endpoints"},
	{"acknowledge", "from the stream to the Envoy's answer"},
	{"apply", "from the source until an Envoy has acknowledged everything"},
	{"save", "writing the last good state"},
	{"validate", "the bootstrap's trial at the start"},
}

func stages() string {
	var all []string
	for _, s := range Stages {
		all = append(all, s[0]+" ("+s[1]+")")
	}
	return strings.Join(all, ", ")
}

// New returns measurements that are all zero.
func New(version string) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		stages: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "chancery_stage_duration_seconds", Help: "Time that one stage of a change took: " + stages() + ".",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 19),
		}, []string{"stage"}),
		compiles:    prometheus.NewCounter(prometheus.CounterOpts{Name: "chancery_compiles_total", Help: "Snapshots that were compiled."}),
		fastPath:    prometheus.NewCounter(prometheus.CounterOpts{Name: "chancery_endpoint_updates_total", Help: "Snapshots that took the fast path for endpoints."}),
		refusals:    prometheus.NewCounter(prometheus.CounterOpts{Name: "chancery_xds_refusals_total", Help: "Responses that an Envoy refused (NACK)."}),
		diagnostics: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "chancery_diagnostics", Help: "Present findings."}, []string{"severity"}),
		objects:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "chancery_objects", Help: "Source objects that take part in the program."}),
		restarts:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "chancery_envoy_restarts", Help: "Times that Envoy was started again after it had died."}),
		up:          prometheus.NewGauge(prometheus.GaugeOpts{Name: "chancery_envoy_up", Help: "1 while Envoy runs."}),
	}
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "chancery_build_info", Help: "Always 1."}, []string{"version"})
	info.WithLabelValues(version).Set(1)
	m.registry.MustRegister(collectors.NewGoCollector(), m.stages, m.compiles, m.fastPath, m.refusals, m.diagnostics, m.objects, m.restarts, m.up, info)
	return m
}

// Stage records how long one of Stages took.
func (m *Metrics) Stage(name string, took time.Duration) {
	m.stages.WithLabelValues(name).Observe(took.Seconds())
}

// Compiled counts one compile of a program with this many objects.
func (m *Metrics) Compiled(objects int) {
	m.compiles.Inc()
	m.objects.Set(float64(objects))
}

// Register adds measurements of another part of the program.
func (m *Metrics) Register(c prometheus.Collector) { m.registry.MustRegister(c) }

// EndpointsUpdated counts one use of the fast path.
func (m *Metrics) EndpointsUpdated() { m.fastPath.Inc() }

// Refused counts one NACK.
func (m *Metrics) Refused() { m.refusals.Inc() }

// Diagnostics records the present findings.
func (m *Metrics) Diagnostics(ds []snapshot.Diagnostic) {
	n := map[snapshot.Severity]int{}
	for _, d := range ds {
		n[d.Severity]++
	}
	for _, s := range []snapshot.Severity{snapshot.Error, snapshot.Warning, snapshot.Info} {
		m.diagnostics.WithLabelValues(s.String()).Set(float64(n[s]))
	}
}

// Envoy records the state of the child process.
func (m *Metrics) Envoy(up bool, restarts int) {
	m.up.Set(0)
	if up {
		m.up.Set(1)
	}
	m.restarts.Set(float64(restarts))
}

// Validator is what is known of the validating Envoy. Totals only grow.
type Validator struct {
	Up bool
	// Held is the number of objects in quarantine now.
	Judged, Refused, CacheHits, Responses, Starts, Deaths, Hangs, Held uint64
	// Took is the time of all judgements.
	Took time.Duration
}

// WatchValidator adds the measurements of a validating Envoy, which are asked for whenever they are written.
func (m *Metrics) WatchValidator(now func() Validator) {
	counter := func(name, help string, value func(Validator) uint64) {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "chancery_validator_" + name, Help: help},
			func() float64 { return float64(value(now())) }))
	}
	counter("verdicts_total", "Units that a validating Envoy was asked about.", func(v Validator) uint64 { return v.Judged })
	counter("refusals_total", "Units that the validating Envoy did not take.", func(v Validator) uint64 { return v.Refused })
	counter("cache_hits_total", "Units whose verdict was known.", func(v Validator) uint64 { return v.CacheHits })
	counter("responses_total", "Responses that were sent to the validating Envoy for a verdict.", func(v Validator) uint64 { return v.Responses })
	counter("restarts_total", "Validating Envoys that came up in the place of one that ended.", func(v Validator) uint64 { return max(v.Starts, 1) - 1 })
	counter("starts_total", "Validating Envoys that came up.", func(v Validator) uint64 { return v.Starts })
	counter("deaths_total", "Validating Envoys that ended by themselves.", func(v Validator) uint64 { return v.Deaths })
	counter("hangs_total", "Validating Envoys that were ended for not answering.", func(v Validator) uint64 { return v.Hangs })
	m.registry.MustRegister(
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "chancery_validator_seconds_total", Help: "Time that judgements by the validating Envoy took."},
			func() float64 { return now().Took.Seconds() }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "chancery_validator_up", Help: "1 while a validating Envoy runs."}, func() float64 {
			if now().Up {
				return 1
			}
			return 0
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "chancery_quarantined_objects", Help: "Objects that are served in their last good form."},
			func() float64 { return float64(now().Held) }))
}

// Write writes all of it in Prometheus' text format.
func (m *Metrics) Write(w io.Writer) error {
	families, err := m.registry.Gather()
	if err != nil {
		return err
	}
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(w, f); err != nil {
			return err
		}
	}
	return nil
}
