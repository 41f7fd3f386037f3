package v3alpha1

import "github.com/go-json-experiment/json/jsontext"

// MappingSpec sends HTTP or gRPC requests that match to a service. Source of the field facts: Emissary's Mapping CRD and
// "Introduction to the Mapping resource".
type MappingSpec struct {
	// AmbassadorID lists the installations that the object is for; default ["default"].
	AmbassadorID AmbassadorID `json:"ambassador_id,omitzero"`
	// Prefix is the path prefix, exact path or path regex to match.
	// +kubebuilder:validation:Required
	Prefix string `json:"prefix,omitzero"`
	// PrefixRegex makes Prefix an RE2 regex over the whole path. It wins over PrefixExact.
	PrefixRegex bool `json:"prefix_regex,omitzero"`
	// PrefixExact makes Prefix an exact path.
	PrefixExact bool `json:"prefix_exact,omitzero"`
	// Service is "[scheme://]host[:port]", port 80 by default, 443 where TLS is originated; with HostRedirect the host to
	// redirect to.
	// +kubebuilder:validation:Required
	Service string `json:"service,omitzero"`
	// AddRequestHeaders are added to the request, by header name.
	AddRequestHeaders map[string]AddedHeader `json:"add_request_headers,omitzero"`
	// AddResponseHeaders are added to the response, by header name.
	AddResponseHeaders map[string]AddedHeader `json:"add_response_headers,omitzero"`
	// AddLinkerdHeaders adds the request header l5d-dst-override; default the Module's add_linkerd_headers.
	AddLinkerdHeaders *bool `json:"add_linkerd_headers,omitzero"`
	// AutoHostRewrite rewrites the Host header to the upstream's host name.
	AutoHostRewrite *bool `json:"auto_host_rewrite,omitzero"`
	// CaseSensitive says whether Prefix is matched with regard to case; default true.
	CaseSensitive *bool `json:"case_sensitive,omitzero"`
	// DNSType is strict_dns (default) or logical_dns.
	DNSType string `json:"dns_type,omitzero"`
	// Docs is for the former developer portal; it has no effect.
	Docs *DocsInfo `json:"docs,omitzero"`
	// EnableIPv4 asks DNS for A records; default the Module's enable_ipv4, which is true.
	EnableIPv4 *bool `json:"enable_ipv4,omitzero"`
	// EnableIPv6 asks DNS for AAAA records; default the Module's enable_ipv6, which is false.
	EnableIPv6 *bool `json:"enable_ipv6,omitzero"`
	// CircuitBreakers limit the cluster; default the Module's.
	CircuitBreakers []CircuitBreaker `json:"circuit_breakers,omitzero"`
	// KeepAlive sets TCP keep-alive to the upstream; default the Module's.
	KeepAlive *KeepAlive `json:"keepalive,omitzero"`
	// CORS is the route's cross-origin policy; default the Module's.
	CORS *CORS `json:"cors,omitzero"`
	// RetryPolicy says when and how often to retry; default the Module's.
	RetryPolicy *RetryPolicy `json:"retry_policy,omitzero"`
	// RespectDNSTTL refreshes DNS by the records' own lifetime.
	RespectDNSTTL bool `json:"respect_dns_ttl,omitzero"`
	// GRPC speaks HTTP/2 to the upstream.
	GRPC bool `json:"grpc,omitzero"`
	// HostRedirect answers with a redirect to Service instead of proxying.
	HostRedirect bool `json:"host_redirect,omitzero"`
	// HostRewrite is the Host header that the upstream sees, and its SNI where TLS is originated.
	HostRewrite string `json:"host_rewrite,omitzero"`
	// Method is the request method to match.
	Method string `json:"method,omitzero"`
	// MethodRegex makes Method an RE2 regex.
	MethodRegex bool `json:"method_regex,omitzero"`
	// OutlierDetection is not supported (nor by Emissary since 2.0).
	OutlierDetection string `json:"outlier_detection,omitzero"`
	// PathRedirect replaces the path in a redirect. Of the three path redirects this one wins, then PrefixRedirect.
	PathRedirect string `json:"path_redirect,omitzero"`
	// PrefixRedirect replaces the matched prefix in a redirect.
	PrefixRedirect string `json:"prefix_redirect,omitzero"`
	// RegexRedirect rewrites the path in a redirect.
	RegexRedirect *RegexMap `json:"regex_redirect,omitzero"`
	// RedirectResponseCode is the status of a redirect; default 301.
	// +kubebuilder:validation:Enum={301,302,303,307,308}
	RedirectResponseCode *int64 `json:"redirect_response_code,omitzero"`
	// Priority is the routing priority: default or high.
	Priority string `json:"priority,omitzero"`
	// Precedence comes first in the order of routes, highest first; default 0.
	Precedence *int64 `json:"precedence,omitzero"`
	// ClusterTag goes into the cluster's name, which separates otherwise equal clusters.
	ClusterTag string `json:"cluster_tag,omitzero"`
	// RemoveRequestHeaders are removed from the request.
	RemoveRequestHeaders []string `json:"remove_request_headers,omitzero"`
	// RemoveResponseHeaders are removed from the response.
	RemoveResponseHeaders []string `json:"remove_response_headers,omitzero"`
	// Resolver names a resolver object; default the Module's resolver, which is kubernetes-service.
	Resolver string `json:"resolver,omitzero"`
	// Rewrite replaces the matched prefix; default "/". The explicit "" means no rewrite.
	Rewrite *string `json:"rewrite,omitzero"`
	// RegexRewrite rewrites the path; it wins over Rewrite.
	RegexRewrite *RegexMap `json:"regex_rewrite,omitzero"`
	// Shadow sends a copy of Weight percent (default all) of its group's requests and ignores the answers.
	Shadow bool `json:"shadow,omitzero"`
	// ConnectTimeout bounds the connection set-up, in ms; default 3000.
	ConnectTimeout *Milliseconds `json:"connect_timeout_ms,omitzero"`
	// ClusterIdleTimeout closes idle upstream connections, in ms; default the Module's.
	ClusterIdleTimeout *Milliseconds `json:"cluster_idle_timeout_ms,omitzero"`
	// ClusterMaxConnectionLifetime closes old upstream connections, in ms; default the Module's.
	ClusterMaxConnectionLifetime *Milliseconds `json:"cluster_max_connection_lifetime_ms,omitzero"`
	// Timeout bounds the whole answer, in ms; 0 is no limit; default the Module's cluster_request_timeout_ms, which is 3000.
	Timeout *Milliseconds `json:"timeout_ms,omitzero"`
	// IdleTimeout bounds the silence on one stream, in ms; default Envoy's.
	IdleTimeout *Milliseconds `json:"idle_timeout_ms,omitzero"`
	// TLS names the TLSContext for TLS to the upstream.
	TLS string `json:"tls,omitzero"`
	// HealthChecks are active checks of the upstream; they need a resolver that knows endpoints.
	// +kubebuilder:validation:MinItems=1
	HealthChecks []HealthCheck `json:"health_checks,omitzero"`
	// DeprecatedUseWebsocket stands for allow_upgrade ["websocket"]. In Emissary its presence alone, even as false, does.
	DeprecatedUseWebsocket *bool `json:"use_websocket,omitzero"`
	// AllowUpgrade lists the protocols that a client may upgrade to, in any case, for example websocket or spdy/3.1.
	AllowUpgrade []string `json:"allow_upgrade,omitzero"`
	// Weight is this Mapping's share among those with the same match, in percent.
	Weight *int64 `json:"weight,omitzero"`
	// BypassAuth leaves out the AuthService.
	BypassAuth bool `json:"bypass_auth,omitzero"`
	// AuthContextExtensions are sent to the AuthService.
	AuthContextExtensions map[string]string `json:"auth_context_extensions,omitzero"`
	// BypassErrorResponseOverrides has no effect.
	BypassErrorResponseOverrides bool `json:"bypass_error_response_overrides,omitzero"`
	// ErrorResponseOverrides are not supported (nor by Emissary 4).
	// +kubebuilder:validation:MinItems=1
	ErrorResponseOverrides []ErrorResponseOverride `json:"error_response_overrides,omitzero"`
	// Modules has no effect.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Modules []UntypedDict `json:"modules,omitzero"`
	// DeprecatedHost is an exact host, or a regex with DeprecatedHostRegex; Hostname wins over it.
	DeprecatedHost string `json:"host,omitzero"`
	// DeprecatedHostRegex makes DeprecatedHost a regex.
	DeprecatedHostRegex bool `json:"host_regex,omitzero"`
	// Hostname is the host as a DNS glob: "*", "*.example.com" or "example.*".
	Hostname string `json:"hostname,omitzero"`
	// Headers are headers that must have exactly these values.
	Headers map[string]string `json:"headers,omitzero"`
	// RegexHeaders are headers whose values must match these RE2 regexes.
	RegexHeaders map[string]string `json:"regex_headers,omitzero"`
	// Labels are the rate-limit descriptors, by domain.
	Labels DomainMap `json:"labels,omitzero"`
	// EnvoyOverride has no effect.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	EnvoyOverride UntypedDict `json:"envoy_override,omitzero"`
	// LoadBalancer is the policy among the endpoints; it needs a resolver that knows endpoints; default the Module's.
	LoadBalancer *LoadBalancer `json:"load_balancer,omitzero"`
	// QueryParameters are parameters that must have exactly these values.
	QueryParameters map[string]string `json:"query_parameters,omitzero"`
	// RegexQueryParameters are parameters whose values must match these RE2 regexes.
	RegexQueryParameters map[string]string `json:"regex_query_parameters,omitzero"`
	// StatsName is the cluster's name in statistics; default the mangled service.
	StatsName string `json:"stats_name,omitzero"`
	// V2ExplicitTLS remembers the v2 spelling of tls.
	V2ExplicitTLS *V2ExplicitTLS `json:"v2ExplicitTLS,omitzero"`
	// V2BoolHeaders are the headers that v2 spelled as true.
	V2BoolHeaders []string `json:"v2BoolHeaders,omitzero"`
	// V2BoolQueryParameters are the query parameters that v2 spelled as true.
	V2BoolQueryParameters []string `json:"v2BoolQueryParameters,omitzero"`
}

// RegexMap is a regex rewrite.
type RegexMap struct {
	// Pattern is the RE2 regex.
	Pattern string `json:"pattern,omitzero"`
	// Substitution is the replacement; \1 is the first group.
	Substitution string `json:"substitution,omitzero"`
}

// DocsInfo describes the documentation of a service.
type DocsInfo struct {
	// Path is where the documentation is, below the Mapping's prefix.
	Path string `json:"path,omitzero"`
	// URL is where it is otherwise.
	URL string `json:"url,omitzero"`
	// Ignored leaves the Mapping out.
	Ignored *bool `json:"ignored,omitzero"`
	// DisplayName is the name to show.
	DisplayName string `json:"display_name,omitzero"`
	// Timeout bounds the fetching, in ms.
	Timeout *Milliseconds `json:"timeout_ms,omitzero"`
}

// CORS is a cross-origin policy.
type CORS struct {
	// Origins are the allowed origins; "*" is any.
	Origins []string `json:"origins,omitzero"`
	// Methods are the allowed methods.
	Methods []string `json:"methods,omitzero"`
	// Headers are the allowed request headers.
	Headers []string `json:"headers,omitzero"`
	// Credentials says whether credentials may be sent.
	Credentials *bool `json:"credentials,omitzero"`
	// ExposedHeaders are the response headers that scripts may read.
	ExposedHeaders []string `json:"exposed_headers,omitzero"`
	// MaxAge is how long a preflight answer may be kept, in seconds, as text.
	MaxAge string `json:"max_age,omitzero"`
	// V2CommaSeparatedOrigins remembers that v2 spelled the origins as one string.
	V2CommaSeparatedOrigins bool `json:"v2CommaSeparatedOrigins,omitzero"`
}

// RetryPolicy says when a request is tried again.
type RetryPolicy struct {
	// RetryOn is the condition.
	// +kubebuilder:validation:Enum={"5xx","gateway-error","connect-failure","retriable-4xx","refused-stream","retriable-status-codes"}
	RetryOn string `json:"retry_on,omitzero"`
	// NumRetries is the number of retries; default 1.
	NumRetries *int64 `json:"num_retries,omitzero"`
	// PerTryTimeout bounds each try, as a duration, for example "0.25s"; default the route's timeout.
	PerTryTimeout string `json:"per_try_timeout,omitzero"`
}

// LoadBalancer is a load-balancing policy.
type LoadBalancer struct {
	// Policy is the algorithm.
	// +kubebuilder:validation:Enum={"round_robin","ring_hash","maglev","least_request"}
	// +kubebuilder:validation:Required
	Policy string `json:"policy,omitzero"`
	// Cookie hashes by a cookie (ring_hash and maglev; one of Cookie, Header, SourceIP).
	Cookie *LoadBalancerCookie `json:"cookie,omitzero"`
	// Header hashes by a request header.
	Header string `json:"header,omitzero"`
	// SourceIP hashes by the client's address.
	SourceIP *bool `json:"source_ip,omitzero"`
}

// LoadBalancerCookie is the cookie that ties a client to an endpoint.
type LoadBalancerCookie struct {
	// Name is the cookie's name.
	// +kubebuilder:validation:Required
	Name string `json:"name,omitzero"`
	// Path is the cookie's path.
	Path string `json:"path,omitzero"`
	// TTL is the lifetime of a cookie that Envoy makes, as a duration; without it Envoy makes none.
	TTL string `json:"ttl,omitzero"`
}

// ErrorResponseOverride replaces the body of an error answer.
type ErrorResponseOverride struct {
	// OnStatusCode is the status, 400 to 599.
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Minimum=400
	// +kubebuilder:validation:Maximum=599
	OnStatusCode int64 `json:"on_status_code,omitzero"`
	// Body is the new body.
	// +kubebuilder:validation:Required
	Body *ErrorResponseOverrideBody `json:"body,omitzero"`
}

// ErrorResponseOverrideBody is a body: exactly one of its first three fields.
type ErrorResponseOverrideBody struct {
	// TextFormat is a format string.
	TextFormat *string `json:"text_format,omitzero"`
	// JSONFormat is a JSON object of format strings.
	JSONFormat map[string]string `json:"json_format,omitzero"`
	// TextFormatSource is a file with a format string.
	TextFormatSource *ErrorResponseTextFormatSource `json:"text_format_source,omitzero"`
	// ContentType goes with the text forms; default text/plain.
	ContentType string `json:"content_type,omitzero"`
}

// ErrorResponseTextFormatSource names a file.
type ErrorResponseTextFormatSource struct {
	// Filename is a file in the container.
	Filename string `json:"filename,omitzero"`
}

// DomainMap holds rate-limit labels by domain.
type DomainMap map[string][]MappingLabelGroup

// MappingLabelGroup is one named list of labels, which makes one descriptor.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:MaxProperties=1
type MappingLabelGroup map[string][]MappingLabelSpecifier

// MappingLabelSpecifier is one label: exactly one of its fields.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:MaxProperties=1
type MappingLabelSpecifier struct {
	// SourceCluster is Envoy's source cluster.
	SourceCluster *MappingLabelFixed `json:"source_cluster,omitzero"`
	// DestinationCluster is the cluster that the request goes to.
	DestinationCluster *MappingLabelFixed `json:"destination_cluster,omitzero"`
	// RequestHeaders is the value of a request header.
	RequestHeaders *MappingLabelRequestHeaders `json:"request_headers,omitzero"`
	// RemoteAddress is the client's address.
	RemoteAddress *MappingLabelFixed `json:"remote_address,omitzero"`
	// GenericKey is a fixed value.
	GenericKey *MappingLabelGenericKey `json:"generic_key,omitzero"`
	// V2Unrecognized keeps, as it was written, a v2 label of a shape that v2 does not describe. It has no effect.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	V2Unrecognized jsontext.Value `json:"v2Unrecognized,omitzero"`
}

// MappingLabelFixed is a label whose key is its own name.
type MappingLabelFixed struct {
	// Key is the name of the field that holds the label: source_cluster, destination_cluster or remote_address.
	// +kubebuilder:validation:Required
	Key string `json:"key"`
}

// MappingLabelRequestHeaders takes the label's value from a request header.
type MappingLabelRequestHeaders struct {
	// Key is the label's key.
	// +kubebuilder:validation:Required
	Key string `json:"key"`
	// HeaderName is the header.
	// +kubebuilder:validation:Required
	HeaderName string `json:"header_name"`
	// OmitIfNotPresent leaves out this label, instead of the whole descriptor, where the header is absent.
	OmitIfNotPresent *bool `json:"omit_if_not_present,omitzero"`
}

// MappingLabelGenericKey is a label with a fixed value.
type MappingLabelGenericKey struct {
	// Key is the label's key; default generic_key.
	Key string `json:"key,omitzero"`
	// Value is the label's value.
	// +kubebuilder:validation:Required
	Value string `json:"value"`
	// V2Shorthand remembers that v2 spelled the label as a bare string.
	V2Shorthand bool `json:"v2Shorthand,omitzero"`
}
