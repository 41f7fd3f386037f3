package wasm

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics reports the host's modules to Prometheus.
type Metrics struct{ Host *Host }

var (
	labels = []string{"module"}

	metricLive       = describe("live", "1 for the version that runs.", "version", "digest", "guard")
	metricCandidate  = describe("candidate_refused", "1 while the last candidate is refused or waits to be tried again.", "stage", "code")
	metricCalls      = describe("calls_total", "Units that entered the module.")
	metricRemembered = describe("remembered_total", "Units that were answered without entering the module.")
	metricErrors     = describe("errors_total", "Failed units by code.", "code")
	metricFailed     = describe("failed_units_total", "Failed units by what was done about them.", "action")
	metricFuel       = describe("fuel_total", "Units of work that calls used.")
	metricSeconds    = describe("seconds_total", "Time that calls took.")
	metricPages      = describe("memory_pages_max", "The greatest memory of an instance, in pages of 64 KiB.")
	metricInstances  = describe("instances_total", "Instances that were made.")
	metricCompile    = describe("compile_seconds", "How long compiling the live version took.")
	metricOpen       = describe("suspended", "1 while the breaker keeps calls away.")
	metricLogs       = describe("log_lines_total", "Lines that the module logged.", "kept")
)

func describe(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc("chancery_module_"+name, help, slices.Concat(labels, more), nil)
}

// Describe sends the descriptions of all metrics.
func (Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		metricLive, metricCandidate, metricCalls, metricRemembered, metricErrors, metricFailed, metricFuel, metricSeconds,
		metricPages, metricInstances, metricCompile, metricOpen, metricLogs,
	} {
		to <- d
	}
}

// Collect sends the present values.
func (m Metrics) Collect(to chan<- prometheus.Metric) {
	for _, s := range m.Host.Status() {
		send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, more ...string) {
			to <- prometheus.MustNewConstMetric(d, kind, v, slices.Concat([]string{s.Name}, more)...)
		}
		if err := s.Candidate.Err; err != nil {
			send(metricCandidate, prometheus.GaugeValue, 1, string(s.Candidate.Stage), codeOf(err))
		}
		if s.Live == nil {
			continue
		}
		send(metricLive, prometheus.GaugeValue, 1, s.Live.Version, s.Live.Digest.String(), string(s.Live.Guard))
		send(metricCompile, prometheus.GaugeValue, s.Live.CompileTime.Seconds())
		open := 0.0
		if s.Breaker != Closed {
			open = 1
		}
		send(metricOpen, prometheus.GaugeValue, open)
		send(metricInstances, prometheus.CounterValue, float64(s.Made))
		c := s.Counts
		send(metricCalls, prometheus.CounterValue, float64(c.Calls))
		send(metricRemembered, prometheus.CounterValue, float64(c.Remembered))
		for code, n := range c.Errors {
			send(metricErrors, prometheus.CounterValue, float64(n), code)
		}
		send(metricFailed, prometheus.CounterValue, float64(c.Kept), string(OnFailureKeep))
		send(metricFailed, prometheus.CounterValue, float64(c.Skipped), string(OnFailureSkip))
		send(metricFailed, prometheus.CounterValue, float64(c.Blocked), string(OnFailureBlock))
		send(metricFuel, prometheus.CounterValue, float64(c.Fuel))
		send(metricSeconds, prometheus.CounterValue, c.Time.Seconds())
		send(metricPages, prometheus.GaugeValue, float64(c.Pages))
		send(metricLogs, prometheus.CounterValue, float64(c.LogLines), "true")
		send(metricLogs, prometheus.CounterValue, float64(c.LogLost), "false")
	}
}
