package v3alpha1

// KubernetesServiceResolverSpec makes a resolver that asks DNS for the Service's name.
type KubernetesServiceResolverSpec struct {
	// AmbassadorID lists the installations that the object is for; default ["default"].
	AmbassadorID AmbassadorID `json:"ambassador_id,omitzero"`
}

// KubernetesEndpointResolverSpec makes a resolver that sends to the Service's ready endpoints.
type KubernetesEndpointResolverSpec struct {
	// AmbassadorID lists the installations that the object is for; default ["default"].
	AmbassadorID AmbassadorID `json:"ambassador_id,omitzero"`
}

// ConsulResolverSpec makes a resolver that asks Consul. Source: Emissary's ConsulResolver CRD.
type ConsulResolverSpec struct {
	// AmbassadorID lists the installations that the object is for; default ["default"].
	AmbassadorID AmbassadorID `json:"ambassador_id,omitzero"`
	// Address is Consul's "host:port" or URL; $NAME is taken from the process environment.
	Address string `json:"address,omitzero"`
	// Datacenter is the Consul datacenter.
	Datacenter string `json:"datacenter,omitzero"`
}
