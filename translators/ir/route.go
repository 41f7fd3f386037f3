package ir

// Route is one entry of a virtual host's route table. Exactly one of Forward, Redirect and Direct is set.
type Route struct {
	// Name says where the route came from, for statistics, traces and access logs; it need not be unique.
	Name     string          `json:"name"`
	Match    Match           `json:"match"`
	Forward  *Forward        `json:"forward,omitempty"`
	Redirect *Redirect       `json:"redirect,omitempty"`
	Direct   *DirectResponse `json:"direct,omitempty"`

	RequestHeaders  HeaderChanges `json:"requestHeaders,omitzero"`
	ResponseHeaders HeaderChanges `json:"responseHeaders,omitzero"`
	// CORS is the route's policy for the CORS filter; nil for none.
	CORS *CORS `json:"cors,omitempty"`
	// Own marks the gateway's own answers (the way to https, refusals): nobody is asked about their requests.
	Own bool `json:"own,omitempty"`
	// Filters are further per-route filter settings by filter name.
	Filters RouteFilters `json:"filters,omitempty"`
	Origins []Origin     `json:"origins"`
}

// PathKind says how a path is compared.
type PathKind string

// The kinds of path matches. PathSegments is Gateway API's and Ingress' element-wise prefix ("/a" takes "/a" and "/a/b", not "/ab").
const (
	PathPrefix   PathKind = "prefix"
	PathExact    PathKind = "exact"
	PathRegex    PathKind = "regex"
	PathSegments PathKind = "segments"
)

// Match is the condition of a route; all parts must hold. The path is compared without query string.
type Match struct {
	PathKind PathKind `json:"pathKind"`
	Path     string   `json:"path"`
	// IgnoreCase applies to prefix, exact and segments.
	IgnoreCase bool         `json:"ignoreCase,omitempty"`
	Headers    []ValueMatch `json:"headers,omitempty"`
	Query      []ValueMatch `json:"query,omitempty"`
	// Fraction lets only a share of the requests that reach this route match; nil for all. The linker sets it for canaries.
	Fraction *Fraction `json:"fraction,omitempty"`
}

// Fraction is a share of requests. Denominator is 100 or 1,000,000.
type Fraction struct {
	Numerator   uint32 `json:"numerator"`
	Denominator uint32 `json:"denominator"`
}

// ValueKind says how a header's or query parameter's value is compared.
type ValueKind string

// The kinds of value matches. Regular expressions are RE2 and match the whole value.
const (
	ValueExact   ValueKind = "exact"
	ValueRegex   ValueKind = "regex"
	ValuePrefix  ValueKind = "prefix"
	ValueSuffix  ValueKind = "suffix"
	ValuePresent ValueKind = "present"
)

// ValueMatch compares one header (lower-case name; ":authority" and ":method" included) or query parameter.
type ValueMatch struct {
	Name   string    `json:"name"`
	Kind   ValueKind `json:"kind"`
	Value  string    `json:"value,omitempty"`
	Invert bool      `json:"invert,omitempty"`
	// IgnoreCase compares exact, prefix and suffix values without regard to case (used for :authority).
	IgnoreCase bool `json:"ignoreCase,omitempty"`
}

// WeightedCluster is one target with its relative weight; a single target's weight says nothing.
type WeightedCluster struct {
	// Cluster names a Cluster of the Program.
	Cluster string `json:"cluster"`
	Weight  uint32 `json:"weight,omitempty"`
	// RequestHeaders and ResponseHeaders apply to this target only.
	RequestHeaders  HeaderChanges `json:"requestHeaders,omitzero"`
	ResponseHeaders HeaderChanges `json:"responseHeaders,omitzero"`
}

// Forward sends the request to a cluster.
type Forward struct {
	Clusters []WeightedCluster `json:"clusters"`
	// PrefixRewrite replaces the matched prefix or exact path; nil leaves the path as it is.
	PrefixRewrite *string `json:"prefixRewrite,omitempty"`
	// RegexRewrite replaces what Pattern (RE2) matches in the path; excludes PrefixRewrite.
	RegexRewrite *RegexRewrite `json:"regexRewrite,omitempty"`
	// HostRewrite sets :authority; AutoHostRewrite takes the upstream host's name instead.
	HostRewrite     string `json:"hostRewrite,omitempty"`
	AutoHostRewrite bool   `json:"autoHostRewrite,omitempty"`
	// TimeoutMillis is the route timeout; 0 means none. IdleTimeoutMillis: nil is the connection manager's default, 0 none.
	TimeoutMillis     int64        `json:"timeoutMillis"`
	IdleTimeoutMillis *int64       `json:"idleTimeoutMillis,omitempty"`
	Retry             *RetryPolicy `json:"retry,omitempty"`
	// Priority is "", "default" or "high".
	Priority string `json:"priority,omitempty"`
	// Upgrades are upgrade types, for example "websocket".
	Upgrades []string     `json:"upgrades,omitempty"`
	Mirrors  []Mirror     `json:"mirrors,omitempty"`
	Hash     []HashPolicy `json:"hash,omitempty"`
}

// RegexRewrite is a substitution; Substitution may use \1 to \9.
type RegexRewrite struct {
	Pattern      string `json:"pattern"`
	Substitution string `json:"substitution"`
}

// RetryPolicy: On is Envoy's retry_on list (comma separated). NumRetries nil is Envoy's default of 1.
type RetryPolicy struct {
	On                  string  `json:"on"`
	NumRetries          *uint32 `json:"numRetries,omitempty"`
	PerTryTimeoutMillis *int64  `json:"perTryTimeoutMillis,omitempty"`
	// StatusCodes are those that "retriable-status-codes" in On means.
	StatusCodes []uint32 `json:"statusCodes,omitempty"`
	// BackoffMillis is the time before the first of several retries; nil is Envoy's default.
	BackoffMillis *int64 `json:"backoffMillis,omitempty"`
}

// Mirror sends a copy of a share of the requests to another cluster and drops the answer.
type Mirror struct {
	Cluster  string    `json:"cluster"`
	Fraction *Fraction `json:"fraction,omitempty"`
	Origins  []Origin  `json:"origins,omitempty"`
}

// HashPolicy picks what a ring-hash or maglev cluster hashes: exactly one of Cookie, Header and SourceIP.
type HashPolicy struct {
	Cookie   *HashCookie `json:"cookie,omitempty"`
	Header   string      `json:"header,omitempty"`
	SourceIP bool        `json:"sourceIp,omitempty"`
}

// HashCookie: TTLSeconds nil means that Envoy reads the cookie but never makes one; 0 makes a session cookie.
type HashCookie struct {
	Name       string `json:"name"`
	Path       string `json:"path,omitempty"`
	TTLSeconds *int64 `json:"ttlSeconds,omitempty"`
}

// Redirect answers with a redirection. Empty parts keep the request's own.
type Redirect struct {
	// HTTPS sets the scheme to https and keeps the port out of it as Envoy's https_redirect does.
	HTTPS  bool   `json:"https,omitempty"`
	Scheme string `json:"scheme,omitempty"`
	Host   string `json:"host,omitempty"`
	Port   uint32 `json:"port,omitempty"`
	// At most one of Path, PrefixRewrite and RegexRewrite is set.
	Path          string        `json:"path,omitempty"`
	PrefixRewrite *string       `json:"prefixRewrite,omitempty"`
	RegexRewrite  *RegexRewrite `json:"regexRewrite,omitempty"`
	// Code is 301, 302, 303, 307 or 308.
	Code uint32 `json:"code"`
}

// DirectResponse answers at once. Status is 200 to 599.
type DirectResponse struct {
	Status uint32 `json:"status"`
	Body   string `json:"body,omitempty"`
}

// HeaderChanges adds, sets and removes headers. Order of Add is kept.
type HeaderChanges struct {
	Add    []HeaderValue `json:"add,omitempty"`
	Remove []string      `json:"remove,omitempty"`
}

// HeaderValue is one header to write; Append adds to a present value, else it is replaced. Value may hold Envoy's %COMMANDS%.
type HeaderValue struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Append bool   `json:"append,omitempty"`
}

// CORS is a cross-origin policy. Origins are exact, or regular expressions where OriginRegex lists them.
type CORS struct {
	Origins       []string `json:"origins,omitempty"`
	OriginRegex   []string `json:"originRegex,omitempty"`
	Methods       string   `json:"methods,omitempty"`
	Headers       string   `json:"headers,omitempty"`
	ExposeHeaders string   `json:"exposeHeaders,omitempty"`
	MaxAge        string   `json:"maxAge,omitempty"`
	Credentials   *bool    `json:"credentials,omitempty"`
	// KeepPreflights answers the preflights of other origins too, without a word of CORS; else they are forwarded.
	KeepPreflights bool `json:"keepPreflights,omitempty"`
}
