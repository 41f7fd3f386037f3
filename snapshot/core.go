package snapshot

// The kinds of Kubernetes itself, cut down to what some stage reads. Sources fill them; everything else that an API
// server sends is dropped at the door.

// GroupKinds that more than one package names.
var (
	KindService       = GroupKind{Kind: "Service"}
	KindSecret        = GroupKind{Kind: "Secret"}
	KindConfigMap     = GroupKind{Kind: "ConfigMap"}
	KindNamespace     = GroupKind{Kind: "Namespace"}
	KindEndpoints     = GroupKind{Kind: "Endpoints"}
	KindEndpointSlice = GroupKind{Group: "discovery.k8s.io", Kind: "EndpointSlice"}
	// KindKnativeIngress is what Knative asks of whoever carries its requests.
	KindKnativeIngress = GroupKind{Group: "networking.internal.knative.dev", Kind: "Ingress"}
)

// EmissaryGroup is the API group of Emissary-ingress' custom resources.
const EmissaryGroup = "getambassador.io"

// Service is what is read of a core/v1 Service's spec.
type Service struct {
	Type         string        `json:"type,omitempty"`
	ClusterIP    string        `json:"clusterIP,omitempty"`
	ExternalName string        `json:"externalName,omitempty"`
	Ports        []ServicePort `json:"ports,omitempty"`
}

// ServicePort is one port of a Service. TargetPort is a number or a name, "" when absent (then it equals Port).
type ServicePort struct {
	Name       string `json:"name,omitempty"`
	Protocol   string `json:"protocol,omitempty"`
	Port       int32  `json:"port"`
	TargetPort string `json:"targetPort,omitempty"`
	// AppProtocol is what is spoken, such as "kubernetes.io/h2c"; "" when absent.
	AppProtocol string `json:"appProtocol,omitempty"`
}

// Secret is a core/v1 Secret. Data values are decoded bytes. Nothing of Data may reach a log, a diagnostic or the IR's JSON.
type Secret struct {
	Type string
	Data map[string][]byte
}

// ConfigMap is a core/v1 ConfigMap: certificate authorities that Gateway API's objects name.
type ConfigMap struct {
	Data map[string]string `json:"data,omitempty"`
}

// EndpointSlice is a discovery.k8s.io/v1 EndpointSlice. Sources turn a core/v1 Endpoints object into slices of this
// form too (Service is then the Endpoints' name), so that later stages know one kind only.
type EndpointSlice struct {
	// Service is the label kubernetes.io/service-name: the Service (of the same namespace) that the slice belongs to.
	Service     string
	AddressType string
	Ports       []EndpointPort
	Endpoints   []Endpoint
}

// EndpointPort is one port of a slice; Name equals the Service port's name.
type EndpointPort struct {
	Name     string `json:"name,omitempty"`
	Protocol string `json:"protocol,omitempty"`
	Port     int32  `json:"port"`
}

// Endpoint is one endpoint of a slice. Ready follows the API: an absent condition counts as ready.
type Endpoint struct {
	Addresses   []string
	Ready       bool
	Serving     bool
	Terminating bool
	Zone        string
}
