package webhook

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The verdicts that reviews are counted by.
const (
	// Allowed and Refused are those of objects that were looked at.
	Allowed = "allowed"
	Refused = "refused"
	// Passed is that of a review that concerns nothing that anything is made of.
	Passed = "passed"
	// Unread is that of what is no review.
	Unread = "unread"
)

// Measures count reviews and the time that they take.
type Measures struct {
	reviews  *prometheus.CounterVec
	seconds  prometheus.Histogram
	compiles prometheus.CounterFunc
}

// NewMeasures returns measures that are all zero, beside the compiles of the trial.
func NewMeasures(t *Trial) *Measures {
	return &Measures{
		reviews: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "chancery_admission_reviews_total", Help: "Admission reviews that were answered."}, []string{"verdict"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "chancery_admission_review_seconds", Help: "Time that one admission review took, waiting included.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 8)}),
		compiles: prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "chancery_admission_compiles_total", Help: "Compiles that admission reviews took; none of them is published."},
			func() float64 { return float64(t.Compiles()) }),
	}
}

// Count counts one review.
func (m *Measures) Count(verdict string, took time.Duration) {
	m.reviews.WithLabelValues(verdict).Inc()
	m.seconds.Observe(took.Seconds())
}

// Describe implements prometheus.Collector.
func (m *Measures) Describe(out chan<- *prometheus.Desc) {
	m.reviews.Describe(out)
	m.seconds.Describe(out)
	m.compiles.Describe(out)
}

// Collect implements prometheus.Collector.
func (m *Measures) Collect(out chan<- prometheus.Metric) {
	m.reviews.Collect(out)
	m.seconds.Collect(out)
	m.compiles.Collect(out)
}
