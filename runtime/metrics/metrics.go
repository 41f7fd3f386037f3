// Package metrics holds Chancery's own measurements in Prometheus form. Names start with "chancery_", times are seconds.
package metrics

import (
	"io"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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

// New returns measurements that are all zero.
func New(version string) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		stages: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "chancery_stage_duration_seconds", Help: "Time that one stage of the pipeline took.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 10),
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
	m.registry.MustRegister(m.stages, m.compiles, m.fastPath, m.refusals, m.diagnostics, m.objects, m.restarts, m.up, info)
	return m
}

// Stage records how long a stage took.
func (m *Metrics) Stage(name string, took time.Duration) {
	m.stages.WithLabelValues(name).Observe(took.Seconds())
}

// Compiled counts one compile of a program with this many objects.
func (m *Metrics) Compiled(objects int) {
	m.compiles.Inc()
	m.objects.Set(float64(objects))
}

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
