package ir

// Discovery says how Envoy finds the endpoints of a cluster.
type Discovery string

// The ways of discovery.
const (
	// DiscoveryStrictDNS and DiscoveryLogicalDNS resolve Cluster.Endpoints' host names.
	DiscoveryStrictDNS  Discovery = "strict_dns"
	DiscoveryLogicalDNS Discovery = "logical_dns"
	// DiscoveryStatic takes the addresses as they are.
	DiscoveryStatic Discovery = "static"
	// DiscoveryEDS takes the EndpointSet named by Cluster.EndpointSet.
	DiscoveryEDS Discovery = "eds"
)

// Cluster is one upstream. Its identity covers every field but Origins: equal settings share one cluster.
type Cluster struct {
	// Name is a readable text with a hash of the whole identity, independent of what other clusters there are.
	Name string `json:"name"`
	// StatName is alt_stat_name: the full service name, or what the user set.
	StatName  string    `json:"statName,omitempty"`
	Discovery Discovery `json:"discovery"`
	// Host and Port are the target for DNS and static discovery. Host may be an IP literal (without brackets).
	Host string `json:"host,omitempty"`
	Port uint32 `json:"port,omitempty"`
	// More are further targets that share the load (DNS and static discovery); sorted.
	More []Target `json:"more,omitempty"`
	// EndpointSet names an EndpointSet of the Program for EDS.
	EndpointSet string `json:"endpointSet,omitempty"`

	// Service, Namespace are the Kubernetes Service behind the cluster where known; for clustermap.json and messages.
	Service   string `json:"service,omitempty"`
	Namespace string `json:"namespace,omitempty"`

	ConnectTimeoutMillis int64  `json:"connectTimeoutMillis"`
	IdleTimeoutMillis    *int64 `json:"idleTimeoutMillis,omitempty"`
	MaxConnectionMillis  *int64 `json:"maxConnectionMillis,omitempty"`
	// DNSFamily is "v4", "v6" or "auto" (DNS discovery only).
	DNSFamily     string `json:"dnsFamily,omitempty"`
	RespectDNSTTL bool   `json:"respectDnsTtl,omitempty"`
	// LoadBalancer is "round_robin", "least_request", "ring_hash" or "maglev".
	LoadBalancer    string           `json:"loadBalancer"`
	HTTP2           bool             `json:"http2,omitempty"`
	CircuitBreakers []CircuitBreaker `json:"circuitBreakers,omitempty"`
	Keepalive       *Keepalive       `json:"keepalive,omitempty"`
	HealthChecks    []HealthCheck    `json:"healthChecks,omitempty"`
	TLS             *UpstreamTLS     `json:"tls,omitempty"`
	// HeaderCase keeps custom header spellings towards HTTP/1 upstreams (Module header_case_overrides).
	HeaderCase []string `json:"headerCase,omitempty"`
	Origins    []Origin `json:"origins,omitempty"`
}

// Target is one further host and port of a Cluster.
type Target struct {
	Host string `json:"host"`
	Port uint32 `json:"port"`
}

// CircuitBreaker: Priority is "default" or "high"; nil thresholds keep Envoy's defaults.
type CircuitBreaker struct {
	Priority           string  `json:"priority"`
	MaxConnections     *uint32 `json:"maxConnections,omitempty"`
	MaxPendingRequests *uint32 `json:"maxPendingRequests,omitempty"`
	MaxRequests        *uint32 `json:"maxRequests,omitempty"`
	MaxRetries         *uint32 `json:"maxRetries,omitempty"`
}

// Keepalive is TCP keepalive; times in seconds.
type Keepalive struct {
	Probes   *uint32 `json:"probes,omitempty"`
	Time     *uint32 `json:"time,omitempty"`
	Interval *uint32 `json:"interval,omitempty"`
}

// HealthCheck is an active health check: exactly one of HTTP and GRPC.
type HealthCheck struct {
	TimeoutMillis      int64            `json:"timeoutMillis"`
	IntervalMillis     int64            `json:"intervalMillis"`
	HealthyThreshold   uint32           `json:"healthyThreshold"`
	UnhealthyThreshold uint32           `json:"unhealthyThreshold"`
	HTTP               *HTTPHealthCheck `json:"http,omitempty"`
	GRPC               *GRPCHealthCheck `json:"grpc,omitempty"`
}

// HTTPHealthCheck asks Path; ExpectedStatuses are half-open ranges [From, To).
type HTTPHealthCheck struct {
	Path             string        `json:"path"`
	Host             string        `json:"host,omitempty"`
	RequestHeaders   HeaderChanges `json:"requestHeaders,omitzero"`
	ExpectedStatuses []StatusRange `json:"expectedStatuses,omitempty"`
}

// StatusRange is the half-open range [From, To).
type StatusRange struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// GRPCHealthCheck asks grpc.health.v1.
type GRPCHealthCheck struct {
	Service   string `json:"service,omitempty"`
	Authority string `json:"authority,omitempty"`
}

// UpstreamTLS originates TLS.
type UpstreamTLS struct {
	SNI string `json:"sni,omitempty"`
	// Certificate names a Secret of the Program: the client certificate; "" for none.
	Certificate string `json:"certificate,omitempty"`
	// Validation names a Secret of the Program with trust anchors; "" means that the server is not verified (Emissary's plain https://).
	Validation string `json:"validation,omitempty"`
	// VerifySAN are exact names of which the server's certificate must have one; only with Validation.
	VerifySAN []string  `json:"verifySan,omitempty"`
	Params    TLSParams `json:"params,omitzero"`
}

// EndpointSet is one EDS resource.
type EndpointSet struct {
	// Name is "k8s/namespace/service/port" for Kubernetes Services.
	Name string `json:"name"`
	// Endpoints are sorted by address and port, without duplicates. Only ready ones (or, when none is ready, serving
	// terminating ones) are in it.
	Endpoints []Endpoint `json:"endpoints,omitempty"`
	Origins   []Origin   `json:"origins,omitempty"`
}

// Endpoint is one address.
type Endpoint struct {
	Address string `json:"address"`
	Port    uint32 `json:"port"`
	Zone    string `json:"zone,omitempty"`
}

// Secret is one SDS resource: a certificate with its key, or trust anchors. Its material never appears in JSON.
type Secret struct {
	// Name is "namespace/name" for a certificate and "namespace/name/ca" for trust anchors (with "+namespace/name" when a revocation list of another Secret is joined).
	Name string `json:"name"`
	// Certificate and Key are PEM; both set for a certificate.
	Certificate []byte `json:"-"`
	Key         []byte `json:"-"`
	// CA and CRL are PEM; CA is set for trust anchors.
	CA  []byte `json:"-"`
	CRL []byte `json:"-"`
	// CertificateFile, KeyFile, CAFile are paths on Envoy's machine, in place of the PEM fields.
	CertificateFile string `json:"certificateFile,omitempty"`
	KeyFile         string `json:"keyFile,omitempty"`
	CAFile          string `json:"caFile,omitempty"`
	// Fingerprint is a hash of the material, so that a reader of the JSON form sees a change.
	Fingerprint string   `json:"fingerprint,omitempty"`
	Origins     []Origin `json:"origins,omitempty"`
}
