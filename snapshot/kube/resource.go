package kube

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/chancery-gateway/chancery/snapshot"
)

// Resource is a kind that the source watches.
type Resource struct {
	Group, Kind string
	// Name is the plural name, in which permissions are granted; "*" for every resource of the group.
	Name string
	// Cluster marks kinds without namespace.
	Cluster bool

	// versions are those that can be read, the preferred one first.
	versions []string
	// builtIn resources are there in every cluster.
	builtIn bool
	// fields are field selectors of which each gives a watch of its own; none for one watch of everything.
	fields []string
	// unlabelled resources are watched whatever the label selector: their labels are not the users' to set for us.
	unlabelled bool
	// names marks kinds of which only the names are watched; see secret.go.
	names bool
	// knative kinds are watched on request only.
	knative bool
	// with is the kind that must be served for this one to be watched: nothing else reads it.
	with snapshot.GroupKind
	// inPlaceOf is the kind that must be unreadable for this one to be watched.
	inPlaceOf snapshot.GroupKind
	// also resources are watched because somebody asked for them.
	also bool
}

// GroupKind returns the resource's group and kind.
func (r *Resource) GroupKind() snapshot.GroupKind {
	return snapshot.GroupKind{Group: r.Group, Kind: r.Kind}
}

// SeveralNamespaces reports whether the kind is read only where objects of several namespaces are.
func (r *Resource) SeveralNamespaces() bool { return r.Cluster && r.builtIn }

const (
	groupGateway  = "gateway.networking.k8s.io"
	groupIngress  = "networking.k8s.io"
	groupChancery = "chancery.dev"
	groupKnative  = "networking.internal.knative.dev"
)

var kindGateway = snapshot.GroupKind{Group: groupGateway, Kind: "Gateway"}

// resources is everything that is watched, but for the kinds of chancery.dev, all of which are.
var resources = []*Resource{
	{Kind: "Service", Name: "services", versions: []string{"v1"}, builtIn: true},
	{Kind: "Namespace", Name: "namespaces", versions: []string{"v1"}, Cluster: true, builtIn: true, unlabelled: true},
	// The types of Secrets that Emissary reads; those of Helm and of service accounts never leave the API server.
	{Kind: "Secret", Name: "secrets", versions: []string{"v1"}, builtIn: true, names: true,
		fields: []string{"type=kubernetes.io/tls", "type=Opaque", "type=istio.io/key-and-cert"}},
	// Certificate authorities that Gateway API's objects name.
	{Kind: "ConfigMap", Name: "configmaps", versions: []string{"v1"}, builtIn: true, names: true, with: kindGateway},
	{Group: snapshot.KindEndpointSlice.Group, Kind: "EndpointSlice", Name: "endpointslices", versions: []string{"v1"}, builtIn: true},
	// What Emissary reads, and may read under the role of its own chart.
	{Kind: "Endpoints", Name: "endpoints", versions: []string{"v1"}, builtIn: true, inPlaceOf: snapshot.KindEndpointSlice},
	{Group: groupIngress, Kind: "Ingress", Name: "ingresses", versions: []string{"v1"}, builtIn: true},
	{Group: groupIngress, Kind: "IngressClass", Name: "ingressclasses", versions: []string{"v1"}, Cluster: true, builtIn: true},

	{Group: groupGateway, Kind: "GatewayClass", Name: "gatewayclasses", versions: []string{"v1"}, Cluster: true},
	gatewayAPI("Gateway", "gateways", "v1"),
	gatewayAPI("HTTPRoute", "httproutes", "v1"),
	gatewayAPI("GRPCRoute", "grpcroutes", "v1"),
	gatewayAPI("TLSRoute", "tlsroutes", "v1", "v1alpha3", "v1alpha2"),
	gatewayAPI("TCPRoute", "tcproutes", "v1", "v1alpha2"),
	gatewayAPI("UDPRoute", "udproutes", "v1", "v1alpha2"),
	gatewayAPI("ReferenceGrant", "referencegrants", "v1", "v1beta1"),
	gatewayAPI("BackendTLSPolicy", "backendtlspolicies", "v1", "v1alpha3"),
	gatewayAPI("ListenerSet", "listenersets", "v1"),

	{Group: groupKnative, Kind: "Ingress", Name: "ingresses", versions: []string{"v1alpha1"}, knative: true},

	emissary("AuthService", "authservices"),
	emissary("ConsulResolver", "consulresolvers"),
	emissary("DevPortal", "devportals"),
	emissary("Host", "hosts"),
	emissary("KubernetesEndpointResolver", "kubernetesendpointresolvers"),
	emissary("KubernetesServiceResolver", "kubernetesserviceresolvers"),
	emissary("Listener", "listeners"),
	emissary("LogService", "logservices"),
	emissary("Mapping", "mappings"),
	emissary("Module", "modules"),
	emissary("RateLimitService", "ratelimitservices"),
	emissary("TCPMapping", "tcpmappings"),
	emissary("TLSContext", "tlscontexts"),
	emissary("TracingService", "tracingservices"),
}

func gatewayAPI(kind, name string, versions ...string) *Resource {
	return &Resource{Group: groupGateway, Kind: kind, Name: name, versions: versions}
}

func emissary(kind, name string) *Resource {
	return &Resource{Group: snapshot.EmissaryGroup, Kind: kind, Name: name, versions: []string{"v3alpha1", "v2", "v1"}}
}

// Resources returns everything that is watched, for whoever grants the permissions: the kinds in the order of group and
// name, with one entry for all of chancery.dev, without those that are read only in place of others or on request. Beside these the names of CustomResourceDefinitions are watched.
func Resources() []Resource {
	all := []Resource{{Group: groupChancery, Kind: "*", Name: "*"}}
	for _, r := range resources {
		if r.inPlaceOf == (snapshot.GroupKind{}) && !r.knative {
			all = append(all, *r)
		}
	}
	slices.SortFunc(all, func(a, b Resource) int {
		if c := strings.Compare(a.Group, b.Group); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return all
}

// customGroups are the groups whose kinds come and go with their CustomResourceDefinitions.
var customGroups = []string{snapshot.EmissaryGroup, groupGateway, groupChancery, groupKnative}

// version returns the resource in one of its versions.
func (r *Resource) version(v string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: r.Group, Version: v, Resource: r.Name}
}
