package v3alpha1

import (
	"math"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// AmbassadorID lists the installations that an object is for. Empty means ["default"]; "_automatic_" alone is for all, and among
// other names it counts for nothing, as in Emissary's compiler (config/config.py).
type AmbassadorID []string

// Matches reports whether the object is for the installation id.
func (a AmbassadorID) Matches(id string) bool {
	switch {
	case len(a) == 0:
		return id == "default"
	case len(a) == 1 && a[0] == "_automatic_":
		return true
	}
	return slices.Contains(a, id)
}

// Milliseconds is a whole number of milliseconds; in JSON a plain integer.
type Milliseconds int64

// Duration returns the time span, at most the longest that time.Duration can hold.
func (m Milliseconds) Duration() time.Duration { return scaled(int64(m), time.Millisecond) }

// Seconds is a whole number of seconds; in JSON a plain integer.
type Seconds int64

// Duration returns the time span, at most the longest that time.Duration can hold.
func (s Seconds) Duration() time.Duration { return scaled(int64(s), time.Second) }

func scaled(n int64, unit time.Duration) time.Duration {
	if limit := math.MaxInt64 / int64(unit); n > limit {
		return math.MaxInt64
	} else if n < -limit {
		return math.MinInt64
	}
	return time.Duration(n) * unit
}

// Duration is a time span that JSON writes as Go does, for example "1m30s" (Kubernetes' metav1.Duration).
type Duration time.Duration

// Duration returns the time span.
func (d Duration) Duration() time.Duration { return time.Duration(d) }

// Example names the form of a duration, for diagnostics.
func (d Duration) Example() string { return `a duration such as "1m30s"` }

// MarshalText writes the span in Go's form.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads the span in Go's form.
func (d *Duration) UnmarshalText(text []byte) error {
	span, err := time.ParseDuration(string(text))
	*d = Duration(span)
	return err
}

// LabelSelector is Kubernetes' label selector: both parts must hold; an empty one selects everything.
type LabelSelector struct {
	// MatchLabels are labels that must be there with exactly these values.
	MatchLabels map[string]string `json:"matchLabels,omitzero"`
	// MatchExpressions are further requirements. Emissary honours MatchLabels only.
	MatchExpressions []LabelSelectorRequirement `json:"matchExpressions,omitzero"`
}

// LabelSelectorRequirement is one requirement on one label.
type LabelSelectorRequirement struct {
	// Key is the label.
	Key string `json:"key"`
	// Operator is In, NotIn, Exists or DoesNotExist.
	Operator string `json:"operator"`
	// Values go with In and NotIn.
	Values []string `json:"values,omitzero"`
}

// V2ExplicitTLS remembers how a v2 object spelled its "tls" field, so that converting back gives the same text. It means
// nothing to the compiler.
type V2ExplicitTLS struct {
	// TLS is the spelling of an empty tls: "" for an absent field, "null", "string", "bool:true" or "bool:false".
	// +kubebuilder:validation:Enum={"","null","bool:true","bool:false","string"}
	TLS string `json:"tls,omitzero"`
	// ServiceScheme is how the service's scheme was spelled: "", "http://" or "https://" in any case.
	// +kubebuilder:validation:Pattern="^([hH][tT][tT][pP][sS]?://)?$"
	ServiceScheme *string `json:"serviceScheme,omitzero"`
}

// CircuitBreaker limits what goes to one cluster at one priority at a time.
type CircuitBreaker struct {
	// Priority is the routing priority that the limits are for: default (also when absent) or high.
	// +kubebuilder:validation:Enum={"default", "high"}
	Priority string `json:"priority,omitzero"`
	// MaxConnections limits connections; Envoy's default is 1024.
	MaxConnections *int64 `json:"max_connections,omitzero"`
	// MaxPendingRequests limits requests that wait for a connection; Envoy's default is 1024.
	MaxPendingRequests *int64 `json:"max_pending_requests,omitzero"`
	// MaxRequests limits parallel requests; Envoy's default is 1024.
	MaxRequests *int64 `json:"max_requests,omitzero"`
	// MaxRetries limits parallel retries; Envoy's default is 3.
	MaxRetries *int64 `json:"max_retries,omitzero"`
}

// KeepAlive sets TCP keep-alive on upstream connections. Absent values are the operating system's.
type KeepAlive struct {
	// Probes is the number of unanswered probes after which the connection is dead.
	Probes *int64 `json:"probes,omitzero"`
	// IdleTime is how many seconds a connection is idle before the first probe.
	IdleTime *int64 `json:"idle_time,omitzero"`
	// Interval is the number of seconds between probes.
	Interval *int64 `json:"interval,omitzero"`
}

// AddedHeader is a header that is added to requests or responses.
type AddedHeader struct {
	// Value is the header's value; it may hold Envoy's %COMMAND% operators.
	Value string `json:"value,omitzero"`
	// Append says whether a header that is there already stays beside the new one (default true) or is replaced.
	Append *bool `json:"append,omitzero"`
	// V2Representation remembers the v2 spelling: "" for an object, "string" for the shorthand, "null".
	// +kubebuilder:validation:Enum={"","string","null"}
	V2Representation string `json:"v2Representation,omitzero"`
}

// HealthCheck is one active health check of a cluster whose endpoints are known.
type HealthCheck struct {
	// Timeout is how long one check may take; default 3s.
	Timeout *Duration `json:"timeout,omitzero"`
	// Interval is the time between checks; default 5s.
	Interval *Duration `json:"interval,omitzero"`
	// UnhealthyThreshold is the number of failures that make an endpoint unhealthy; default 2.
	UnhealthyThreshold *int64 `json:"unhealthy_threshold,omitzero"`
	// HealthyThreshold is the number of successes that make it healthy again; default 1.
	HealthyThreshold *int64 `json:"healthy_threshold,omitzero"`
	// HealthCheck says what is asked. Exactly one of its fields is set.
	// +kubebuilder:validation:Required
	HealthCheck HealthCheckLocation `json:"health_check,omitzero"`
}

// HealthCheckLocation is an HTTP or a gRPC check: exactly one.
type HealthCheckLocation struct {
	// HTTP asks for a path.
	HTTP *HTTPHealthCheck `json:"http,omitzero"`
	// GRPC calls grpc.health.v1.Health.
	GRPC *GRPCHealthCheck `json:"grpc,omitzero"`
}

// HTTPHealthCheck asks for one path.
type HTTPHealthCheck struct {
	// Path is what is asked for.
	// +kubebuilder:validation:Required
	Path string `json:"path,omitzero"`
	// Hostname is the Host header; default the cluster's name.
	Hostname string `json:"hostname,omitzero"`
	// AddRequestHeaders are added to the check's request.
	AddRequestHeaders map[string]AddedHeader `json:"add_request_headers,omitzero"`
	// RemoveRequestHeaders are removed from it.
	RemoveRequestHeaders []string `json:"remove_request_headers,omitzero"`
	// ExpectedStatuses are the ranges of statuses that count as healthy; default 200.
	ExpectedStatuses []StatusRange `json:"expected_statuses,omitzero"`
}

// GRPCHealthCheck calls the gRPC health service.
type GRPCHealthCheck struct {
	// UpstreamName is the service name in the health request.
	// +kubebuilder:validation:Required
	UpstreamName string `json:"upstream_name,omitzero"`
	// Authority is the :authority header; default the cluster's name.
	Authority string `json:"authority,omitzero"`
}

// StatusRange is a range of HTTP statuses, both ends included.
type StatusRange struct {
	// Min is the first status, 100 to 599.
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=599
	Min int64 `json:"min,omitzero"`
	// Max is the last status, 100 to 599.
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=599
	Max int64 `json:"max,omitzero"`
}

// UntypedDict is a JSON object without a schema, kept as text.
// +kubebuilder:pruning:PreserveUnknownFields
type UntypedDict = map[string]jsontext.Value
