// Package ir is the intermediate representation between the front ends and the back end: Envoy-shaped, Envoy-free, plain
// Go data with an origin on every node. Front ends write fragments, the linker joins them to one Program, the back end
// reads the Program alone. Nodes are immutable once they are handed on; stages recognise unchanged nodes by pointer.
//
// The JSON form of Program is a published contract (policies, modules, `compile --emit ir`): see Version and schema.json.
package ir

import "github.com/chancery-gateway/chancery/snapshot"

//go:generate go test -run TestSchema . -update

// Version names the JSON form of Program. It changes when a reader of the old form could misread the new one.
const Version = "chancery.dev/ir/v1"

// Origin is one source object that a node came from.
type Origin = snapshot.Ref

// Program is the linked program: everything that one set of Envoys is to be told. Every list is sorted by name.
type Program struct {
	Version      string         `json:"version"`
	Listeners    []*Listener    `json:"listeners,omitempty"`
	RouteConfigs []*RouteConfig `json:"routeConfigs,omitempty"`
	Clusters     []*Cluster     `json:"clusters,omitempty"`
	EndpointSets []*EndpointSet `json:"endpointSets,omitempty"`
	Secrets      []*Secret      `json:"secrets,omitempty"`
	Bootstrap    *Bootstrap     `json:"bootstrap,omitempty"`
}

// Bootstrap is what Envoy reads once, at its start.
type Bootstrap struct {
	// AdminPort is the port of Envoy's admin interface on the loopback address (Emissary: 8001).
	AdminPort uint32 `json:"adminPort,omitempty"`
	// ReadyPort is the port of the ready listener on the loopback address (Emissary: 8006); 0 for none.
	ReadyPort uint32 `json:"readyPort,omitempty"`
	// NodeID and NodeCluster name this Envoy to its control plane.
	NodeID      string `json:"nodeId,omitempty"`
	NodeCluster string `json:"nodeCluster,omitempty"`
	// RegexMaxSize is RE2's program size limit (Module regex_max_size, default 200): error level of Envoy's runtime.
	RegexMaxSize uint32 `json:"regexMaxSize,omitempty"`
	// LocalDiagnostics keeps the diagnostics page to clients on this machine (Module diagnostics.enabled: false without
	// allow_non_local).
	LocalDiagnostics bool `json:"localDiagnostics,omitempty"`
	// Runtime are further entries of the static runtime layer.
	Runtime map[string]any `json:"runtime,omitempty"`
	// Statsd is where Envoy sends its statistics; nil for nowhere.
	Statsd  *Statsd  `json:"statsd,omitempty"`
	Origins []Origin `json:"origins,omitempty"`
}

// Statsd is a receiver of statistics over UDP.
type Statsd struct {
	// Address is an IP address: Envoy looks up no names here.
	Address string `json:"address"`
	Port    uint32 `json:"port"`
	// FlushMillis is the time between two transmissions; 0 means Envoy's default.
	FlushMillis int64 `json:"flushMillis,omitempty"`
	// Datadog sends DogStatsD's form, in which tags travel beside names.
	Datadog bool `json:"datadog,omitempty"`
	// EntityID is the tag dd.internal.entity_id of Datadog's form; "" for none.
	EntityID string `json:"entityId,omitempty"`
}

// Listener is one address that Envoy listens on.
type Listener struct {
	// Name is unique and a stable function of the source object.
	Name    string `json:"name"`
	Address string `json:"address"`
	Port    uint32 `json:"port"`
	// UDP listeners carry HTTP/3.
	UDP bool `json:"udp,omitempty"`
	// ProxyProtocol reads the PROXY header, before TLS is looked at.
	ProxyProtocol bool `json:"proxyProtocol,omitempty"`
	// TLSInspector reads SNI; set wherever TLS is in the stack, even with no TLS host yet (else the first drains the listener).
	TLSInspector bool `json:"tlsInspector,omitempty"`
	// BufferLimit is per_connection_buffer_limit_bytes; 0 means Envoy's default.
	BufferLimit uint32 `json:"bufferLimit,omitempty"`
	// Chains are sorted by name; no two have an equal Match.
	Chains  []*FilterChain `json:"chains,omitempty"`
	Origins []Origin       `json:"origins"`
}

// FilterChain is what one kind of connections (clear text, one SNI) is served by. Exactly one of HTTP and TCP is set.
type FilterChain struct {
	// Name is a stable function of the host; renaming a chain drains its connections.
	Name  string         `json:"name"`
	Match ChainMatch     `json:"match"`
	TLS   *DownstreamTLS `json:"tls,omitempty"`
	HTTP  *HTTPChain     `json:"http,omitempty"`
	TCP   *TCPChain      `json:"tcp,omitempty"`
	// Origins are the Hosts or TCPMappings that want the chain.
	Origins []Origin `json:"origins"`
}

// ChainMatch selects connections. The zero value takes every connection.
type ChainMatch struct {
	// ServerNames are SNI names, exact or "*.suffix"; sorted.
	ServerNames []string `json:"serverNames,omitempty"`
	// Transport is "tls", "raw_buffer", "quic" or "" (any).
	Transport string `json:"transport,omitempty"`
}

// DownstreamTLS terminates TLS. Certificates and trust anchors are named, never held.
type DownstreamTLS struct {
	// Certificates name Secrets of the Program with a certificate.
	Certificates []string `json:"certificates,omitempty"`
	// Validation names a Secret of the Program with trust anchors (and revocation list) for client certificates; "" for none.
	Validation string `json:"validation,omitempty"`
	// RequireClientCertificate refuses clients without a certificate.
	RequireClientCertificate bool `json:"requireClientCertificate,omitempty"`
	// AcceptUntrusted lets clients pass whose certificate Validation does not bear out.
	AcceptUntrusted bool      `json:"acceptUntrusted,omitempty"`
	Params          TLSParams `json:"params,omitzero"`
}

// TLSParams are the settings that both directions share.
type TLSParams struct {
	// MinVersion and MaxVersion are "1.0" to "1.3", "" for Envoy's default.
	MinVersion string `json:"minVersion,omitempty"`
	MaxVersion string `json:"maxVersion,omitempty"`
	// CipherSuites and Curves are in the user's order, names as Envoy writes them.
	CipherSuites []string `json:"cipherSuites,omitempty"`
	Curves       []string `json:"curves,omitempty"`
	// ALPN protocols in order of preference.
	ALPN []string `json:"alpn,omitempty"`
}

// HTTPChain serves HTTP by a route configuration.
type HTTPChain struct {
	// RouteConfig names a RouteConfig of the Program.
	RouteConfig string `json:"routeConfig"`
	// StatPrefix must not be volatile: a change drains the listener.
	StatPrefix string `json:"statPrefix"`
	// TrustedHops is xff_num_trusted_hops (Listener l7Depth).
	TrustedHops uint32 `json:"trustedHops,omitempty"`
	// MaxConcurrentStreams of HTTP/2; 0 means Envoy's default.
	MaxConcurrentStreams uint32 `json:"maxConcurrentStreams,omitempty"`
	// Settings are shared by all chains of one owner (Emissary's Module); never nil.
	Settings *HTTPSettings `json:"settings"`
	// Filters run in this order, the router (which is implied) last.
	Filters []*Filter `json:"filters,omitempty"`
	// AccessLogs stand before those of Settings.
	AccessLogs []AccessLog `json:"accessLogs,omitempty"`
	// Tracing is nil for none.
	Tracing *Tracing `json:"tracing,omitempty"`
}

// HTTPSettings are the HTTP connection manager's settings that one source object (Emissary's Module) sets for all chains.
// Field names follow envoy.extensions.filters.network.http_connection_manager.v3; zero values mean Envoy's defaults unless said.
type HTTPSettings struct {
	// UseRemoteAddress has Emissary's default true; the front end sets it.
	UseRemoteAddress             bool        `json:"useRemoteAddress,omitempty"`
	ServerName                   string      `json:"serverName,omitempty"`
	StripMatchingHostPort        bool        `json:"stripMatchingHostPort,omitempty"`
	MergeSlashes                 bool        `json:"mergeSlashes,omitempty"`
	RejectEscapedSlashes         bool        `json:"rejectEscapedSlashes,omitempty"`
	AcceptHTTP10                 bool        `json:"acceptHttp10,omitempty"`
	AllowChunkedLength           bool        `json:"allowChunkedLength,omitempty"`
	PreserveExternalRequestID    bool        `json:"preserveExternalRequestId,omitempty"`
	ProperCase                   bool        `json:"properCase,omitempty"`
	HeaderCaseOverrides          []string    `json:"headerCaseOverrides,omitempty"`
	HeadersWithUnderscoresAction string      `json:"headersWithUnderscoresAction,omitempty"`
	MaxRequestHeadersKB          uint32      `json:"maxRequestHeadersKb,omitempty"`
	IdleTimeoutMillis            *int64      `json:"idleTimeoutMillis,omitempty"`
	SuppressEnvoyHeaders         bool        `json:"suppressEnvoyHeaders,omitempty"`
	ForwardClientCertDetails     string      `json:"forwardClientCertDetails,omitempty"`
	SetCurrentClientCertDetails  []string    `json:"setCurrentClientCertDetails,omitempty"`
	AccessLogs                   []AccessLog `json:"accessLogs,omitempty"`
	Origins                      []Origin    `json:"origins,omitempty"`
}

// AccessLog is one access log sink. Type is "file", "grpc_http" or "grpc_tcp" (envoy.service.accesslog.v3).
type AccessLog struct {
	Type string `json:"type"`
	Path string `json:"path,omitempty"`
	// Cluster names the service of the gRPC types, LogName what it knows this log by. FlushMillis and FlushBytes bound
	// how long and how much is gathered before it is sent; 0 means Envoy's defaults.
	Cluster     string `json:"cluster,omitempty"`
	LogName     string `json:"logName,omitempty"`
	FlushMillis int64  `json:"flushMillis,omitempty"`
	FlushBytes  uint32 `json:"flushBytes,omitempty"`
	// RequestHeaders, ResponseHeaders and Trailers are logged by grpc_http beside the usual ones.
	RequestHeaders  []string `json:"requestHeaders,omitempty"`
	ResponseHeaders []string `json:"responseHeaders,omitempty"`
	Trailers        []string `json:"trailers,omitempty"`
	// Origins are set where a log has an object of its own.
	Origins []Origin `json:"origins,omitempty"`
	// Format is a text format (with its newline); JSON a field map. Both empty means Envoy's default.
	Format string            `json:"format,omitempty"`
	JSON   map[string]string `json:"json,omitempty"`
	// TypedJSON keeps numbers and booleans as such in JSON.
	TypedJSON bool `json:"typedJson,omitempty"`
}

// TCPChain proxies a connection to weighted clusters.
type TCPChain struct {
	StatPrefix string `json:"statPrefix"`
	// Clusters has at least one member; weights are relative.
	Clusters []WeightedCluster `json:"clusters"`
	// IdleTimeoutMillis: nil is Envoy's default (1 h), 0 none.
	IdleTimeoutMillis *int64      `json:"idleTimeoutMillis,omitempty"`
	AccessLogs        []AccessLog `json:"accessLogs,omitempty"`
}

// RouteConfig is one RDS resource.
type RouteConfig struct {
	Name string `json:"name"`
	// VirtualHosts are sorted by name and disjoint in their domains.
	VirtualHosts []*VirtualHost `json:"virtualHosts"`
	// IgnorePort leaves the port of a request's host out when its virtual host is looked for.
	IgnorePort bool     `json:"ignorePort,omitempty"`
	Origins    []Origin `json:"origins,omitempty"`
}

// VirtualHost holds the routes of the hosts in Domains; several hosts with the same routes share one.
type VirtualHost struct {
	Name string `json:"name"`
	// Domains are Envoy's: exact, "*.suffix", "prefix.*" or "*"; lower case, sorted.
	Domains []string `json:"domains"`
	// Routes in order of precedence: the first that matches serves.
	Routes []*Route `json:"routes,omitempty"`
	// HTTP3Port is where clients are told that HTTP/3 is served, by a header of each response; 0 for nowhere.
	HTTP3Port uint32 `json:"http3Port,omitempty"`
	// Origins are the Host objects.
	Origins []Origin `json:"origins,omitempty"`
}
