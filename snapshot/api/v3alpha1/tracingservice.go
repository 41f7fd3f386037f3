package v3alpha1

// TracingServiceSpec sends traces to a service. Source of the field facts: Emissary's TracingService CRD and "Tracing
// service".
type TracingServiceSpec struct {
	// AmbassadorID lists the installations that the object is for; default ["default"].
	AmbassadorID AmbassadorID `json:"ambassador_id,omitzero"`
	// Driver is the tracer. Envoy no longer has lightstep.
	// +kubebuilder:validation:Enum={"lightstep","zipkin","datadog","opentelemetry"}
	// +kubebuilder:validation:Required
	Driver string `json:"driver,omitzero"`
	// Service is the collector, "[scheme://]host[:port]".
	// +kubebuilder:validation:Required
	Service string `json:"service,omitzero"`
	// Sampling holds the shares of requests that are traced.
	Sampling *TraceSampling `json:"sampling,omitzero"`
	// DeprecatedTagHeaders has no effect; CustomTags took its place.
	DeprecatedTagHeaders []string `json:"tag_headers,omitzero"`
	// CustomTags are added to each span.
	CustomTags []TracingCustomTag `json:"custom_tags,omitzero"`
	// Config holds settings of the tracer.
	Config *TraceConfig `json:"config,omitzero"`
	// StatsName is the cluster's name in statistics.
	StatsName string `json:"stats_name,omitzero"`
}

// TraceSampling holds shares in percent, 0 to 100; default 100.
type TraceSampling struct {
	// Client is the share of requests with x-client-trace-id.
	Client *int64 `json:"client,omitzero"`
	// Random is the share of all other requests.
	Random *int64 `json:"random,omitzero"`
	// Overall is the upper limit.
	Overall *int64 `json:"overall,omitzero"`
}

// TraceConfig holds settings of the tracer.
type TraceConfig struct {
	// AccessTokenFile is for lightstep.
	AccessTokenFile string `json:"access_token_file,omitzero"`
	// CollectorCluster names the collector's cluster.
	CollectorCluster string `json:"collector_cluster,omitzero"`
	// CollectorEndpoint is the collector's path; default /api/v2/spans.
	CollectorEndpoint string `json:"collector_endpoint,omitzero"`
	// CollectorEndpointVersion is the format of spans; default HTTP_JSON. Envoy no longer has HTTP_JSON_V1.
	// +kubebuilder:validation:Enum=HTTP_JSON_V1;HTTP_JSON;HTTP_PROTO
	CollectorEndpointVersion string `json:"collector_endpoint_version,omitzero"`
	// CollectorHostname is the Host header to the collector.
	CollectorHostname string `json:"collector_hostname,omitzero"`
	// PropagationModes are for lightstep.
	PropagationModes []PropagationMode `json:"propagation_modes,omitzero"`
	// TraceID128Bit makes trace ids of 128 bits (zipkin); default true.
	TraceID128Bit *bool `json:"trace_id_128bit,omitzero"`
	// SharedSpanContext lets client and server share a span (zipkin); default Envoy's, true.
	SharedSpanContext *bool `json:"shared_span_context,omitzero"`
	// ServiceName is the service in spans (datadog); default ambassador.
	ServiceName string `json:"service_name,omitzero"`
}

// PropagationMode is a header format of lightstep.
// +kubebuilder:validation:Enum=ENVOY;LIGHTSTEP;B3;TRACE_CONTEXT
type PropagationMode string

// TracingCustomTag is one tag: exactly one of Literal, Environment and RequestHeader.
type TracingCustomTag struct {
	// Tag is the tag's name.
	// +kubebuilder:validation:Required
	Tag string `json:"tag"`
	// Literal is a fixed value.
	Literal *TracingCustomTagLiteral `json:"literal,omitzero"`
	// Environment is a variable of Envoy's environment.
	Environment *TracingCustomTagSource `json:"environment,omitzero"`
	// RequestHeader is a request header.
	RequestHeader *TracingCustomTagSource `json:"request_header,omitzero"`
}

// TracingCustomTagLiteral is a fixed value.
type TracingCustomTagLiteral struct {
	// Value is the tag's value.
	// +kubebuilder:validation:Required
	Value string `json:"value"`
}

// TracingCustomTagSource names where a tag's value comes from.
type TracingCustomTagSource struct {
	// Name is the variable or the header.
	// +kubebuilder:validation:Required
	Name string `json:"name"`
	// DefaultValue is the value where that is absent; without one the tag is left out.
	DefaultValue *string `json:"default_value,omitzero"`
}
