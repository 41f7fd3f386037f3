package v3alpha1

// TCPMappingSpec sends the bytes of a TCP or TLS connection to a service. Source of the field facts: Emissary's
// TCPMapping CRD and "Using TCPMappings".
type TCPMappingSpec struct {
	// AmbassadorID lists the installations that the object is for; default ["default"].
	AmbassadorID AmbassadorID `json:"ambassador_id,omitzero"`
	// Port is the port of the Listener that takes the connections.
	// +kubebuilder:validation:Required
	Port int64 `json:"port,omitzero"`
	// Host is the TLS server name (SNI) to match; "" takes every connection of the port.
	Host string `json:"host,omitzero"`
	// Address is the address of the Listener; default the one that listeners bind to.
	Address string `json:"address,omitzero"`
	// Service is "[scheme://]host[:port]"; https originates TLS.
	// +kubebuilder:validation:Required
	Service string `json:"service,omitzero"`
	// EnableIPv4 asks DNS for A records; default the Module's enable_ipv4, which is true.
	EnableIPv4 *bool `json:"enable_ipv4,omitzero"`
	// EnableIPv6 asks DNS for AAAA records; default the Module's enable_ipv6, which is false.
	EnableIPv6 *bool `json:"enable_ipv6,omitzero"`
	// CircuitBreakers limit the cluster; default the Module's.
	CircuitBreakers []CircuitBreaker `json:"circuit_breakers,omitzero"`
	// IdleTimeoutMs closes idle connections; a number of ms as text. Emissary accepts it without effect.
	IdleTimeoutMs string `json:"idle_timeout_ms,omitzero"`
	// Resolver names a resolver object; default the Module's resolver, which is kubernetes-service.
	Resolver string `json:"resolver,omitzero"`
	// TLS names the TLSContext for TLS to the upstream.
	TLS string `json:"tls,omitzero"`
	// Weight is this TCPMapping's share among those with the same port, address and host, in percent.
	Weight *int64 `json:"weight,omitzero"`
	// ClusterTag goes into the cluster's name.
	ClusterTag string `json:"cluster_tag,omitzero"`
	// StatsName is the cluster's name in statistics. Emissary accepts it without effect.
	StatsName string `json:"stats_name,omitzero"`
	// V2ExplicitTLS remembers the v2 spelling of tls.
	V2ExplicitTLS *V2ExplicitTLS `json:"v2ExplicitTLS,omitzero"`
}
