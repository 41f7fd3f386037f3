package v3alpha1

// AuthServiceSpec asks a service about every request before it is routed. Source of the field facts: Emissary's
// AuthService CRD and "Authentication service".
type AuthServiceSpec struct {
	// AmbassadorID lists the installations that the object is for; default ["default"].
	AmbassadorID AmbassadorID `json:"ambassador_id,omitzero"`
	// AuthService is the service to ask, "[scheme://]host[:port]".
	// +kubebuilder:validation:Required
	AuthService string `json:"auth_service,omitzero"`
	// PathPrefix is put before the request's path (proto http).
	PathPrefix string `json:"path_prefix,omitzero"`
	// TLS names the TLSContext for TLS to the service.
	TLS string `json:"tls,omitzero"`
	// Proto is http (default) or grpc.
	// +kubebuilder:validation:Enum={"http","grpc"}
	Proto string `json:"proto,omitzero"`
	// Timeout bounds the answer, in ms; default 5000.
	Timeout *Milliseconds `json:"timeout_ms,omitzero"`
	// AllowedRequestHeaders are request headers sent to the service beside the built-in ones (proto http).
	AllowedRequestHeaders []string `json:"allowed_request_headers,omitzero"`
	// AllowedAuthorizationHeaders are headers of its answer that go upstream beside the built-in ones (proto http).
	AllowedAuthorizationHeaders []string `json:"allowed_authorization_headers,omitzero"`
	// AddAuthHeaders are added to the question (proto http).
	AddAuthHeaders map[string]string `json:"add_auth_headers,omitzero"`
	// AllowRequestBody stands for include_body {max_bytes: 4096, allow_partial: true}.
	AllowRequestBody *bool `json:"allow_request_body,omitzero"`
	// AddLinkerdHeaders adds the header l5d-dst-override; default the Module's add_linkerd_headers.
	AddLinkerdHeaders *bool `json:"add_linkerd_headers,omitzero"`
	// FailureModeAllow lets requests pass while the service does not answer; default false.
	FailureModeAllow *bool `json:"failure_mode_allow,omitzero"`
	// IncludeBody sends the body along.
	IncludeBody *AuthServiceIncludeBody `json:"include_body,omitzero"`
	// StatusOnError is the answer while the service does not answer; default 403.
	StatusOnError *AuthServiceStatusOnError `json:"status_on_error,omitzero"`
	// ProtocolVersion is Envoy's transport version; default v2, and only v3 works with grpc.
	// +kubebuilder:validation:Enum={"v2","v3"}
	ProtocolVersion string `json:"protocol_version,omitzero"`
	// StatsName is the cluster's name in statistics.
	StatsName string `json:"stats_name,omitzero"`
	// CircuitBreakers limit the cluster.
	CircuitBreakers []CircuitBreaker `json:"circuit_breakers,omitzero"`
	// V2ExplicitTLS remembers the v2 spelling of tls.
	V2ExplicitTLS *V2ExplicitTLS `json:"v2ExplicitTLS,omitzero"`
}

// AuthServiceIncludeBody says how much of the body is sent along.
type AuthServiceIncludeBody struct {
	// MaxBytes is the largest body.
	// +kubebuilder:validation:Required
	MaxBytes *int64 `json:"max_bytes,omitzero"`
	// AllowPartial sends the first MaxBytes of a larger body instead of answering 413.
	// +kubebuilder:validation:Required
	AllowPartial *bool `json:"allow_partial,omitzero"`
}

// AuthServiceStatusOnError is an answer.
type AuthServiceStatusOnError struct {
	// Code is the HTTP status.
	Code int64 `json:"code,omitzero"`
}
