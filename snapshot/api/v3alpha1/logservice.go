package v3alpha1

// LogServiceSpec sends access logs to a gRPC service. Source of the field facts: Emissary's LogService CRD and "Log
// service".
type LogServiceSpec struct {
	// AmbassadorID lists the installations that the object is for; default ["default"].
	AmbassadorID AmbassadorID `json:"ambassador_id,omitzero"`
	// Service is the service to send to, "[scheme://]host[:port]".
	Service string `json:"service,omitzero"`
	// ProtocolVersion is Envoy's transport version; default v2, and only v3 works.
	// +kubebuilder:validation:Enum={"v2","v3"}
	ProtocolVersion string `json:"protocol_version,omitzero"`
	// Driver logs HTTP requests (http) or TCP connections (tcp).
	// +kubebuilder:validation:Enum={"tcp","http"}
	Driver string `json:"driver,omitzero"`
	// DriverConfig holds settings of the driver.
	DriverConfig *DriverConfig `json:"driver_config,omitzero"`
	// FlushIntervalTime is the longest wait before entries are sent, in seconds; default 1.
	FlushIntervalTime *Seconds `json:"flush_interval_time,omitzero"`
	// FlushIntervalByteSize is the amount of bytes at which entries are sent at once; default 16384.
	FlushIntervalByteSize *int64 `json:"flush_interval_byte_size,omitzero"`
	// GRPC speaks HTTP/2 to the service; default false.
	GRPC *bool `json:"grpc,omitzero"`
	// StatsName is the cluster's name in statistics. Emissary accepts it without effect.
	StatsName string `json:"stats_name,omitzero"`
}

// DriverConfig holds settings of the log driver.
type DriverConfig struct {
	// AdditionalLogHeaders are headers to log (driver http).
	AdditionalLogHeaders []AdditionalLogHeaders `json:"additional_log_headers,omitzero"`
}

// AdditionalLogHeaders is one header to log.
type AdditionalLogHeaders struct {
	// HeaderName is the header.
	HeaderName string `json:"header_name,omitzero"`
	// DuringRequest logs it from requests; default true.
	DuringRequest *bool `json:"during_request,omitzero"`
	// DuringResponse logs it from responses; default true.
	DuringResponse *bool `json:"during_response,omitzero"`
	// DuringTrailer logs it from response trailers; default true.
	DuringTrailer *bool `json:"during_trailer,omitzero"`
}
