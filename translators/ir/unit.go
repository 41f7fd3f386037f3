package ir

// UnitKind says what a Unit is.
type UnitKind string

// The kinds of units. Value is the encoding of the message that the comment names.
const (
	// UnitRoute is a Route of a virtual host.
	UnitRoute UnitKind = "route"
	// UnitHost is a VirtualHost without its routes; Frame is its route configuration's name.
	UnitHost UnitKind = "virtual host"
	// UnitRouteConfig is a RouteConfiguration without virtual hosts, where it is more than a name.
	UnitRouteConfig UnitKind = "route configuration"
	// UnitCluster is a Cluster, UnitSecret a Secret.
	UnitCluster UnitKind = "cluster"
	UnitSecret  UnitKind = "secret"
	// UnitEndpoints is a ClusterLoadAssignment that the back end did not make itself.
	UnitEndpoints UnitKind = "endpoints"
	// UnitListener is a Listener without filter chains.
	UnitListener UnitKind = "listener"
	// UnitChain is a FilterChain; Frame is its listener's UnitListener.
	UnitChain UnitKind = "filter chain"
	// UnitExtension is a TypedExtensionConfig that Envoy asks for by name (ECDS).
	UnitExtension UnitKind = "extension"
)

// Unit is one piece of the served configuration that Envoy can judge alone. Nothing in it changes after it was made.
type Unit struct {
	Kind UnitKind
	Name string
	// Value is the piece's own deterministic protobuf encoding, Frame that of what it stands in, for kinds that need it.
	Value, Frame []byte
	// Origins are the source objects that the piece was made from.
	Origins []Origin
	// ID names the content for whoever made the unit; it says nothing to others.
	ID uint64
}
