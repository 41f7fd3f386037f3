package v3alpha1

// RateLimitServiceSpec asks a service whether requests with labels are within their rate. Source of the field facts:
// Emissary's RateLimitService CRD and "Rate limiting service".
type RateLimitServiceSpec struct {
	// AmbassadorID lists the installations that the object is for; default ["default"].
	AmbassadorID AmbassadorID `json:"ambassador_id,omitzero"`
	// Service is the service to ask, "[scheme://]host[:port]".
	// +kubebuilder:validation:Required
	Service string `json:"service,omitzero"`
	// Timeout bounds the answer, in ms; default 20.
	Timeout *Milliseconds `json:"timeout_ms,omitzero"`
	// Domain is the label domain; default the Module's default_label_domain.
	Domain string `json:"domain,omitzero"`
	// TLS names the TLSContext for TLS to the service.
	TLS string `json:"tls,omitzero"`
	// ProtocolVersion is Envoy's transport version; default v2, and only v3 works.
	// +kubebuilder:validation:Enum={"v2","v3"}
	ProtocolVersion string `json:"protocol_version,omitzero"`
	// StatsName is the cluster's name in statistics.
	StatsName string `json:"stats_name,omitzero"`
	// FailureModeDeny refuses requests while the service does not answer; default false.
	FailureModeDeny bool `json:"failure_mode_deny,omitzero"`
	// GRPC holds settings of gRPC answers.
	GRPC *RateLimitGRPCConfig `json:"grpc,omitzero"`
	// V2ExplicitTLS remembers the v2 spelling of tls.
	V2ExplicitTLS *V2ExplicitTLS `json:"v2ExplicitTLS,omitzero"`
}

// RateLimitGRPCConfig holds settings of gRPC answers.
type RateLimitGRPCConfig struct {
	// UseResourceExhaustedCode answers RESOURCE_EXHAUSTED instead of UNAVAILABLE.
	UseResourceExhaustedCode bool `json:"use_resource_exhausted_code,omitzero"`
}
