// Package v3alpha1 holds the Go types of Emissary-ingress' custom resources in the version getambassador.io/v3alpha1, to
// which all older versions are converted at the door. The types carry the structural rules of the CRDs (Check) and no
// meaning; what a field does is the front end's business. Field facts are those of Emissary's CRDs and documentation.
//
// Absent and null are the same everywhere. A required string that is "" counts as missing: Emissary drops empty strings
// on its way through Go, so that its compiler sees them as missing too.
//
// +kubebuilder:object:generate=true
// +groupName=getambassador.io
package v3alpha1

import "github.com/chancery-gateway/chancery/snapshot"

// APIVersion is the apiVersion of every object of this package.
const APIVersion = snapshot.EmissaryGroup + "/v3alpha1"

// The kinds of Emissary-ingress.
var (
	KindAuthService                = kind("AuthService")
	KindConsulResolver             = kind("ConsulResolver")
	KindDevPortal                  = kind("DevPortal")
	KindHost                       = kind("Host")
	KindKubernetesEndpointResolver = kind("KubernetesEndpointResolver")
	KindKubernetesServiceResolver  = kind("KubernetesServiceResolver")
	KindListener                   = kind("Listener")
	KindLogService                 = kind("LogService")
	KindMapping                    = kind("Mapping")
	KindModule                     = kind("Module")
	KindRateLimitService           = kind("RateLimitService")
	KindTCPMapping                 = kind("TCPMapping")
	KindTLSContext                 = kind("TLSContext")
	KindTracingService             = kind("TracingService")
)

func kind(name string) snapshot.GroupKind {
	return snapshot.GroupKind{Group: snapshot.EmissaryGroup, Kind: name}
}

// Spec is what every spec of this package can do: check itself against the structural rules of its CRD. Report is called
// once for each fault, in field order, with the field's path ("spec.circuit_breakers[0].priority"), a message that says
// what was found, and a help text that says what is allowed.
type Spec interface {
	Check(report func(path, message, help string))
}

// New returns a pointer to the zero spec of the kind, or nil for a kind that is not of this package.
func New(k snapshot.GroupKind) Spec {
	if k.Group != snapshot.EmissaryGroup {
		return nil
	}
	switch k.Kind {
	case "AuthService":
		return new(AuthServiceSpec)
	case "ConsulResolver":
		return new(ConsulResolverSpec)
	case "DevPortal":
		return new(DevPortalSpec)
	case "Host":
		return new(HostSpec)
	case "KubernetesEndpointResolver":
		return new(KubernetesEndpointResolverSpec)
	case "KubernetesServiceResolver":
		return new(KubernetesServiceResolverSpec)
	case "Listener":
		return new(ListenerSpec)
	case "LogService":
		return new(LogServiceSpec)
	case "Mapping":
		return new(MappingSpec)
	case "Module":
		return new(ModuleSpec)
	case "RateLimitService":
		return new(RateLimitServiceSpec)
	case "TCPMapping":
		return new(TCPMappingSpec)
	case "TLSContext":
		return new(TLSContextSpec)
	case "TracingService":
		return new(TracingServiceSpec)
	}
	return nil
}
