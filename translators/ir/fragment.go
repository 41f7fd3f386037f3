package ir

import (
	"slices"

	"github.com/chancery-gateway/chancery/snapshot"
)

// Fragments is what a front end made of one source object: everything it wants to be in the program, not yet joined with
// what other objects want. It is a pure function of the object and of what the front end read for it.
type Fragments struct {
	Listeners []*ListenerFragment
	Sections  []*SectionFragment
	Hosts     []*HostFragment
	Routes    []*RouteFragment
	TCPRoutes []*TCPRouteFragment
	// Clusters, Secrets and EndpointSets are what this object's nodes name. Nodes of equal name from several objects must
	// be equal but for their Origins; the linker joins those.
	Clusters     []*Cluster
	Secrets      []*Secret
	EndpointSets []EndpointRequest
	// Bootstrap is set by at most one object (the Module).
	Bootstrap   *Bootstrap
	Diagnostics []snapshot.Diagnostic
	// Status is what became of the object, for kinds whose status says it; nil for others.
	Status *Status
}

// Join adds the nodes and findings of another part of the same object, each once.
func (f *Fragments) Join(part *Fragments) {
	f.Hosts, f.Routes = append(f.Hosts, part.Hosts...), append(f.Routes, part.Routes...)
	for _, c := range part.Clusters {
		if !slices.ContainsFunc(f.Clusters, func(o *Cluster) bool { return o.Name == c.Name }) {
			f.Clusters = append(f.Clusters, c)
		}
	}
	for _, s := range part.Secrets {
		if !slices.ContainsFunc(f.Secrets, func(o *Secret) bool { return o.Name == s.Name }) {
			f.Secrets = append(f.Secrets, s)
		}
	}
	for _, e := range part.EndpointSets {
		if !slices.Contains(f.EndpointSets, e) {
			f.EndpointSets = append(f.EndpointSets, e)
		}
	}
	for _, d := range part.Diagnostics {
		if !slices.Contains(f.Diagnostics, d) {
			f.Diagnostics = append(f.Diagnostics, d)
		}
	}
}

// EndpointRequest asks for the endpoint set of one Service port. The set itself is made from the snapshot, past the linker.
type EndpointRequest struct {
	// Name is the EndpointSet's name.
	Name      string
	Namespace string
	Service   string
	// Port is the Service's port number; PortName a name instead where the user wrote one.
	Port     uint32
	PortName string
	// Resolver is the object that found endpoints which belong to no Service, such as Consul's: then Service is the name that
	// their slices carry, and all ports of these count. It is zero for a Service's.
	Resolver Origin
}

// SecurityModel says how a listener tells secure requests from insecure ones (Emissary's Listener.securityModel).
type SecurityModel string

// The security models.
const (
	// SecurityXFP: a request is secure if x-forwarded-proto says https.
	SecurityXFP SecurityModel = "xfp"
	// SecuritySecure and SecurityInsecure: all requests are.
	SecuritySecure   SecurityModel = "secure"
	SecurityInsecure SecurityModel = "insecure"
)

// ListenerFragment is one wanted listener.
type ListenerFragment struct {
	Origin  *snapshot.Object
	Name    string
	Address string
	Port    uint32
	UDP     bool
	// HTTP, TLS, ProxyProtocol: what is in the stack.
	HTTP          bool
	TLS           bool
	ProxyProtocol bool
	Security      SecurityModel
	BufferLimit   uint32
	// Chain is the template of the listener's HTTP chains (RouteConfig empty); nil when HTTP is false.
	Chain *HTTPChain
	// TCPStatPrefix is the stat prefix of its TCP chains.
	TCPStatPrefix string
	// TCPAccessLogs are the logs of its TCP chains.
	TCPAccessLogs []AccessLog
	// Hosts says which hosts attach.
	Hosts HostBinding
	// Synthesized listeners yield to real ones on the same address and port without a word.
	Synthesized bool
}

// SectionFragment is one listener of a Gateway: a way in for one host name on one address and port. All sections of one
// address and port share a listener of Envoy; each serves the routes that name it and no other's. No two of one port may
// have the same hostname and both read TLS, or both not; who makes them sees to that.
type SectionFragment struct {
	Origin *snapshot.Object
	// Name is unique; routes name it.
	Name string
	// Listener is its name in the status of the object, At the field of the object that findings are about.
	Listener, At string
	// Addresses are the ones that it is served on; it may be on several.
	Addresses []string
	Port      uint32
	// Apart says that the addresses are for sections alone: who listens on all addresses gives up these.
	Apart bool
	// Hostname is an exact name, "*.suffix" or "*"; lower case.
	Hostname string
	// ReadTLS takes connections with TLS, by their server name. TLS terminates it; nil passes it through.
	ReadTLS bool
	TLS     *DownstreamTLS
	// Closed says why a section that reads TLS must not be served; "" for an open one. It keeps its hostname from wider ones.
	Closed string
	// HTTP is the template of the chain that serves HTTP (RouteConfig empty); nil for TCP.
	HTTP *HTTPChain
	// TCPStatPrefix and TCPAccessLogs are those of its TCP chains.
	TCPStatPrefix string
	TCPAccessLogs []AccessLog
	BufferLimit   uint32
}

// HostBinding selects Hosts for a listener: all conditions must hold.
type HostBinding struct {
	// Namespace is "" for all namespaces, else the one that the Host must be in.
	Namespace string
	// Labels must all be on the Host; nil for no condition.
	Labels map[string]string
	// None is set when nothing was selected at all: no Host attaches.
	None bool
}

// InsecureAction is what becomes of insecure requests (Host.requestPolicy.insecure.action).
type InsecureAction string

// The insecure actions.
const (
	InsecureRedirect InsecureAction = "redirect"
	InsecureReject   InsecureAction = "reject"
	InsecureRoute    InsecureAction = "route"
)

// HostFragment is one claim to a host name.
type HostFragment struct {
	Origin *snapshot.Object
	// Domain is the host name as Envoy's domain: exact, "*.suffix", "prefix.*", "*"; lower case; a ":port" may follow.
	Domain string
	// SNI is Domain without port.
	SNI string
	// Select says which routes attach by label: all must be on the route's object. nil: by host name alone.
	Select map[string]string
	// SelectAny is DISABLE_STRICT_LABEL_SELECTORS: host name OR any one label.
	SelectAny bool
	// TLS terminates TLS for the host; nil for a clear-text host.
	TLS      *DownstreamTLS
	Insecure InsecureAction
	// Demanding hosts ask clients for a certificate, or are closed for they cannot.
	Demanding bool
	// Closed says why the host must not be served (its certificate is unusable, say). A closed host keeps its name from
	// wider hosts and answers 503: it fails closed.
	Closed string
	// Synthesized hosts are there only when no other is, but for Shared ones.
	Synthesized bool
	// Shared claims to one name that say the same stand side by side (Ingresses that name one host and one certificate).
	Shared bool
	// At is the field of the origin that makes the claim; "" for those of a Host.
	At string
}

// HostPatternKind says how a route names the hosts that it wants to be on.
type HostPatternKind uint8

// The kinds of host patterns.
const (
	// HostGlob: HostPattern.Value is exact, "*", "*suffix" or "prefix*"; the route goes to every host that can overlap it.
	HostGlob HostPatternKind = iota
	// HostRegex: Value is an RE2 expression over :authority; the route goes to every host without label selector.
	HostRegex
	// HostNone: the route names no host; it goes to hosts whose label selector takes it, and nowhere else.
	HostNone
	// HostEvery: the route goes to every host whatever its selector (probes).
	HostEvery
)

// HostPattern is a route's wish about hosts. Value is lower case for globs, and without port; Port is the ":port" that the user wrote, or "".
type HostPattern struct {
	Kind  HostPatternKind
	Value string
	Port  string
}

// RouteFragment is one branch of a route: fragments of one virtual host with equal Group are branches of one split.
type RouteFragment struct {
	Origin *snapshot.Object
	// Section names the section that the route is on; "" for one that Hosts take. Hosts is a glob then, and no wider than the
	// section's hostname; labels, weight and Authority say nothing: Group is the route's own.
	Section string
	// Hosts says which virtual hosts it wants; Labels are what host selectors look at.
	Hosts  HostPattern
	Labels map[string]string
	// Group identifies the match: everything that decides which requests come here, delimited so that no two matches
	// collide, the host pattern included. Branches of one group share its requests.
	Group string
	// Order sorts groups of a virtual host: the lexically greater comes first. Equal for all fragments of a group.
	Order string
	// Weight is the wanted share in percent; nil for "what is left".
	Weight *int
	// Shadow fragments take a copy of the group's requests and no share; Weight is then the percentage copied.
	Shadow bool
	// Always fragments are served to insecure requests whatever the host's insecure action (ACME challenges).
	Always bool
	// Sole fragments are no branch of a split: of a Sole claim and others to one match, the oldest stands.
	Sole bool
	// At is the field of the origin that the fragment is from; "" for those of a Mapping.
	At string
	// Route is the whole route without Fraction, and without the :authority condition that Hosts implies.
	Route *Route
	// Authority is the :authority condition for hosts whose domain is wider than Hosts; nil when none is ever needed.
	Authority *ValueMatch
}

// TCPRouteFragment is one branch of a TCP route.
type TCPRouteFragment struct {
	Origin *snapshot.Object
	// Section names the section that the route is on; "" for one of Address and Port. With a section the TLS is that one's, and
	// of several routes with one SNI the one whose Order is the lexically greatest counts.
	Section string
	Order   string
	// Clusters are the targets of a route that divides its connections itself; Weight and Cluster say nothing then.
	Clusters []WeightedCluster
	Address  string
	Port     uint32
	// SNI is the server name to match; "" for every connection. TLS terminates it: the front end's own choice (a TLSContext),
	// or nil to take the TLS of the attached Host whose domain covers SNI.
	SNI string
	TLS *DownstreamTLS
	// Weight is relative within the group (address, port, SNI); nil for "what is left".
	Weight *int
	// Cluster names the target.
	Cluster string
	// IdleTimeoutMillis as in TCPChain.
	IdleTimeoutMillis *int64
}
