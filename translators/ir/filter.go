package ir

// Names of HTTP filters, as Envoy registers them.
const (
	FilterCORS       = "envoy.filters.http.cors"
	FilterExtAuthz   = "envoy.filters.http.ext_authz"
	FilterRateLimit  = "envoy.filters.http.ratelimit"
	FilterRBAC       = "envoy.filters.http.rbac"
	FilterBuffer     = "envoy.filters.http.buffer"
	FilterCompressor = "envoy.filters.http.compressor"
	FilterLua        = "envoy.filters.http.lua"
	FilterGRPCWeb    = "envoy.filters.http.grpc_web"
	FilterGRPCBridge = "envoy.filters.http.grpc_http1_bridge"
	FilterGRPCStats  = "envoy.filters.http.grpc_stats"
)

// Filter is one HTTP filter of a chain. Name is Envoy's canonical filter name, for example "envoy.filters.http.cors".
// Config's type belongs to the filter and is a pointer to one of this package's filter configurations; nil for a filter
// without settings.
type Filter struct {
	Name    string   `json:"name"`
	Config  any      `json:"config,omitempty"`
	Origins []Origin `json:"origins,omitempty"`
}

// ExtAuthz is FilterExtAuthz' configuration: a service is asked about every request that a route takes.
type ExtAuthz struct {
	// Cluster names the service's Cluster. Where no usable one exists, requests are refused.
	Cluster string `json:"cluster,omitempty"`
	// GRPC speaks envoy.service.auth.v3 to it, else plain HTTP.
	GRPC bool `json:"grpc,omitempty"`
	// URI names the service, with its scheme, and PathPrefix is what is put before the request's path (HTTP only).
	URI        string `json:"uri,omitempty"`
	PathPrefix string `json:"pathPrefix,omitempty"`
	// TimeoutMillis bounds the answer; it is above 0.
	TimeoutMillis int64 `json:"timeoutMillis,omitempty"`
	// RequestHeaders go to the service, AnswerHeaders of its answer go upstream or, when it refuses, to the client (HTTP
	// only). Both are lower case and sorted.
	RequestHeaders []string `json:"requestHeaders,omitempty"`
	AnswerHeaders  []string `json:"answerHeaders,omitempty"`
	// AddHeaders are added to the question (HTTP only).
	AddHeaders []HeaderValue `json:"addHeaders,omitempty"`
	// Body sends the beginning of the request's body along; nil for none.
	Body *ExtAuthzBody `json:"body,omitempty"`
	// FailureModeAllow lets requests pass while the service does not answer; else they get StatusOnError, 0 for Envoy's 403.
	FailureModeAllow bool   `json:"failureModeAllow,omitempty"`
	StatusOnError    uint32 `json:"statusOnError,omitempty"`
	// Closed says why nobody can be asked: every request is refused with status 500. "" for an open one.
	Closed string `json:"closed,omitempty"`
}

// ExtAuthzBody says how much of a body is sent along: MaxBytes, or status 413 for more unless Partial.
type ExtAuthzBody struct {
	MaxBytes uint32 `json:"maxBytes"`
	Partial  bool   `json:"partial,omitempty"`
}

// ExtAuthzRoute is FilterExtAuthz' configuration of one route. Disabled lets its requests pass unasked; Context is told
// to the service (gRPC only).
type ExtAuthzRoute struct {
	Disabled bool              `json:"disabled,omitempty"`
	Context  map[string]string `json:"context,omitempty"`
}

// RateLimit is FilterRateLimit's configuration: a service is asked about requests whose route has descriptors.
type RateLimit struct {
	// Cluster names the service's Cluster (envoy.service.ratelimit.v3 over HTTP/2).
	Cluster       string `json:"cluster,omitempty"`
	Domain        string `json:"domain"`
	TimeoutMillis int64  `json:"timeoutMillis"`
	// FailureModeDeny refuses requests while the service does not answer.
	FailureModeDeny bool `json:"failureModeDeny,omitempty"`
	// ResourceExhausted answers gRPC calls above the limit with RESOURCE_EXHAUSTED in place of UNAVAILABLE.
	ResourceExhausted bool `json:"resourceExhausted,omitempty"`
}

// RateLimitRoute is FilterRateLimit's configuration of one route.
type RateLimitRoute struct {
	Descriptors []RateLimitDescriptor `json:"descriptors"`
}

// RateLimitDescriptor is one question to the service; it is left out for a request that lacks one of its entries.
type RateLimitDescriptor struct {
	Actions []RateLimitAction `json:"actions"`
}

// RateLimitKind says where the value of a descriptor's entry comes from.
type RateLimitKind string

// The kinds of descriptor entries.
const (
	RateLimitSourceCluster      RateLimitKind = "source_cluster"
	RateLimitDestinationCluster RateLimitKind = "destination_cluster"
	RateLimitRemoteAddress      RateLimitKind = "remote_address"
	// RateLimitGeneric has the fixed Value, under Key ("" for "generic_key").
	RateLimitGeneric RateLimitKind = "generic_key"
	// RateLimitHeader has the value of the request header Header, under Key.
	RateLimitHeader RateLimitKind = "request_header"
)

// RateLimitAction makes one entry of a descriptor.
type RateLimitAction struct {
	Kind   RateLimitKind `json:"kind"`
	Key    string        `json:"key,omitempty"`
	Value  string        `json:"value,omitempty"`
	Header string        `json:"header,omitempty"`
	// Optional leaves out the entry alone, not the whole descriptor, for a request without the header.
	Optional bool `json:"optional,omitempty"`
}

// AddressRules is FilterRBAC's configuration: which clients may send requests at all. A client must be in Allow, where
// that is not empty, and must not be in Deny.
type AddressRules struct {
	Allow []AddressRange `json:"allow,omitempty"`
	Deny  []AddressRange `json:"deny,omitempty"`
	// Closed says why the rules cannot be applied: every request is refused. "" for an open one.
	Closed string `json:"closed,omitempty"`
}

// AddressRange is a range of addresses. Peer compares the connection's own address, else the one that trusted proxies
// tell counts (x-forwarded-for, PROXY protocol).
type AddressRange struct {
	Prefix string `json:"prefix"`
	Bits   uint32 `json:"bits"`
	Peer   bool   `json:"peer,omitempty"`
}

// Buffer is FilterBuffer's configuration: requests are read wholly before they are sent on, 413 for larger ones.
type Buffer struct {
	MaxRequestBytes uint32 `json:"maxRequestBytes"`
}

// Compressor is FilterCompressor's configuration: answers are compressed with gzip. Zero values are Envoy's defaults.
type Compressor struct {
	MemoryLevel          uint32   `json:"memoryLevel,omitempty"`
	WindowBits           uint32   `json:"windowBits,omitempty"`
	MinContentLength     uint32   `json:"minContentLength,omitempty"`
	ContentTypes         []string `json:"contentTypes,omitempty"`
	DisableOnETag        bool     `json:"disableOnEtag,omitempty"`
	RemoveAcceptEncoding bool     `json:"removeAcceptEncoding,omitempty"`
	// Level and Strategy are names of Envoy's Gzip.CompressionLevel and CompressionStrategy.
	Level    string `json:"level,omitempty"`
	Strategy string `json:"strategy,omitempty"`
}

// Lua is FilterLua's configuration: a script that Envoy runs at load and for every request.
type Lua struct {
	Script string `json:"script"`
}

// GRPCStats is FilterGRPCStats' configuration: counters of gRPC calls, for all methods or those of Services.
type GRPCStats struct {
	AllMethods    bool          `json:"allMethods,omitempty"`
	Services      []GRPCService `json:"services,omitempty"`
	UpstreamStats bool          `json:"upstreamStats,omitempty"`
}

// GRPCService names methods of one service.
type GRPCService struct {
	Name    string   `json:"name"`
	Methods []string `json:"methods"`
}

// Tracing says how a chain's requests are traced. Shares are in percent; nil means 100.
type Tracing struct {
	// Driver is "zipkin", "datadog" or "opentelemetry".
	Driver string `json:"driver"`
	// Cluster names the collector's Cluster.
	Cluster string `json:"cluster"`
	// Endpoint, EndpointVersion ("HTTP_JSON" or "HTTP_PROTO") and Hostname are zipkin's.
	Endpoint        string `json:"endpoint,omitempty"`
	EndpointVersion string `json:"endpointVersion,omitempty"`
	Hostname        string `json:"hostname,omitempty"`
	TraceID128Bit   bool   `json:"traceId128bit,omitempty"`
	SharedSpan      *bool  `json:"sharedSpanContext,omitempty"`
	// ServiceName is the service in spans (datadog, opentelemetry).
	ServiceName string       `json:"serviceName,omitempty"`
	Client      *float64     `json:"client,omitempty"`
	Random      *float64     `json:"random,omitempty"`
	Overall     *float64     `json:"overall,omitempty"`
	Tags        []TracingTag `json:"tags,omitempty"`
	Origins     []Origin     `json:"origins,omitempty"`
}

// TracingTag is one tag of every span. Kind is "literal", "environment" or "request_header"; Source names the variable or
// header, Value is the literal or what stands in for an absent source.
type TracingTag struct {
	Tag    string `json:"tag"`
	Kind   string `json:"kind"`
	Source string `json:"source,omitempty"`
	Value  string `json:"value,omitempty"`
}
