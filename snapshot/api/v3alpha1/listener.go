package v3alpha1

// ListenerSpec is one port that is listened on. Source of the field facts: Emissary's Listener CRD and "The Listener CRD".
type ListenerSpec struct {
	// AmbassadorID lists the installations that the object is for; default ["default"].
	AmbassadorID AmbassadorID `json:"ambassador_id,omitzero"`
	// Port is the port to bind, 1 to 65535.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:validation:Required
	Port int32 `json:"port"`
	// Protocol is a short name of a stack. One of Protocol and ProtocolStack is given.
	Protocol ProtocolType `json:"protocol,omitzero"`
	// ProtocolStack is the stack, outermost protocol of the application first, TCP or UDP last.
	ProtocolStack []ProtocolStackElement `json:"protocolStack,omitzero"`
	// SecurityModel says which requests count as secure.
	// +kubebuilder:validation:Required
	SecurityModel SecurityModelType `json:"securityModel"`
	// StatsPrefix is the prefix of the listener's statistics; the default depends on the stack.
	StatsPrefix string `json:"statsPrefix,omitzero"`
	// L7Depth is the number of trusted layer 7 proxies in front.
	L7Depth int32 `json:"l7Depth,omitzero"`
	// HTTP2MaxConcurrentStreams limits the parallel streams of one connection; default Envoy's.
	// +kubebuilder:validation:Minimum=1
	HTTP2MaxConcurrentStreams *uint32 `json:"http2MaxConcurrentStreams,omitzero"`
	// HostBinding picks the Hosts of this Listener.
	// +kubebuilder:validation:Required
	HostBinding *HostBindingType `json:"hostBinding"`
}

// HostBindingType picks Hosts by namespace and by label: both must hold.
type HostBindingType struct {
	// Namespace picks by namespace.
	Namespace NamespaceBindingType `json:"namespace,omitzero"`
	// Selector picks by label.
	Selector *LabelSelector `json:"selector,omitzero"`
}

// NamespaceBindingType picks namespaces.
type NamespaceBindingType struct {
	// From is SELF (the Listener's own namespace; also when absent beside a selector), ALL or SELECTOR (unsupported).
	From NamespaceFromType `json:"from,omitzero"`
}

// ProtocolType is the short name of a protocol stack.
// +kubebuilder:validation:Enum=HTTP;HTTPS;HTTPPROXY;HTTPSPROXY;TCP;TLS;UDP
type ProtocolType string

// The protocols of a Listener, each with the stack that it stands for. UDP is allowed by the CRD and stands for none.
const (
	ProtocolHTTP       ProtocolType = "HTTP"       // HTTP, TCP
	ProtocolHTTPS      ProtocolType = "HTTPS"      // TLS, HTTP, TCP
	ProtocolHTTPProxy  ProtocolType = "HTTPPROXY"  // PROXY, HTTP, TCP
	ProtocolHTTPSProxy ProtocolType = "HTTPSPROXY" // TLS, PROXY, HTTP, TCP
	ProtocolTCP        ProtocolType = "TCP"        // TCP
	ProtocolTLS        ProtocolType = "TLS"        // TLS, TCP
	ProtocolUDP        ProtocolType = "UDP"
)

// ProtocolStackElement is one protocol of a stack.
// +kubebuilder:validation:Enum=HTTP;PROXY;TLS;TCP;UDP
type ProtocolStackElement string

// The elements of a protocol stack.
const (
	StackHTTP  ProtocolStackElement = "HTTP"
	StackProxy ProtocolStackElement = "PROXY"
	StackTLS   ProtocolStackElement = "TLS"
	StackTCP   ProtocolStackElement = "TCP"
	StackUDP   ProtocolStackElement = "UDP"
)

// SecurityModelType says which requests count as secure.
// +kubebuilder:validation:Enum=XFP;SECURE;INSECURE
type SecurityModelType string

// The security models: by X-Forwarded-Proto, all, none.
const (
	SecurityModelXFP      SecurityModelType = "XFP"
	SecurityModelSecure   SecurityModelType = "SECURE"
	SecurityModelInsecure SecurityModelType = "INSECURE"
)

// NamespaceFromType picks the namespaces whose Hosts a Listener takes.
// +kubebuilder:validation:Enum=SELF;ALL;SELECTOR
type NamespaceFromType string

// The choices of namespaces.
const (
	NamespaceFromSelf     NamespaceFromType = "SELF"
	NamespaceFromAll      NamespaceFromType = "ALL"
	NamespaceFromSelector NamespaceFromType = "SELECTOR"
)
