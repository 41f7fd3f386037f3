package ir

// Type URLs of the xDS resources that Chancery serves.
const (
	TypeCluster     = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	TypeEndpoint    = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	TypeListener    = "type.googleapis.com/envoy.config.listener.v3.Listener"
	TypeRouteConfig = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
	TypeSecret      = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
	TypeExtension   = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig"
)

// Resource is one marshalled xDS resource. Unchanged resources keep their pointer from one compile to the next.
type Resource struct {
	Type string
	Name string
	// Version is a content hash in hexadecimal digits, never a counter or clock.
	Version string
	// Value is the deterministic protobuf encoding of the message.
	Value []byte
	// Origins are the source objects, for NACKs.
	Origins []Origin
	// EndpointSet is the EDS resource that a cluster takes its endpoints from; "" for others.
	EndpointSet string
}

// ResourceSet is everything that is served: for each type URL its resources sorted by name.
type ResourceSet map[string][]*Resource
