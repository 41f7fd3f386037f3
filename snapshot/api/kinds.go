// Package api turns the JSON text of one object into a snapshot.Object: old versions of Emissary's resources become
// v3alpha1, the spec is decoded into its Go type and checked against the structural rules of its CRD, and the rest is put
// into one canonical form that is hashed and given to policies and modules.
package api

import (
	"slices"
	"strings"

	gateway "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
)

// form says how the body of a kind is read.
type form struct {
	// versions lists the versions that are read, the preferred one first. None means any.
	versions []string
	// cluster marks kinds that have no namespace.
	cluster bool
	// decode reads the members beside metadata and returns the Spec; nil keeps the object as text only.
	decode func(*reader) any
}

const (
	groupGateway   = "gateway.networking.k8s.io"
	groupIngress   = "networking.k8s.io"
	groupDiscovery = "discovery.k8s.io"
	groupChancery  = "chancery.dev"
	// groupPreview is the group of Emissary's v3alpha1 before release 2.1.
	groupPreview = "x.getambassador.io"
)

// forms holds the known kinds. Kinds of the group chancery.dev are known without being listed.
var forms = map[snapshot.GroupKind]form{
	snapshot.KindService:       {versions: []string{"v1"}, decode: decodeService},
	snapshot.KindSecret:        {versions: []string{"v1"}, decode: decodeSecret},
	snapshot.KindConfigMap:     {versions: []string{"v1"}, decode: decodeConfigMap},
	snapshot.KindNamespace:     {versions: []string{"v1"}, cluster: true},
	snapshot.KindEndpoints:     {versions: []string{"v1"}, decode: decodeEndpoints},
	snapshot.KindEndpointSlice: {versions: []string{"v1"}, decode: decodeEndpointSlice},

	snapshot.KindKnativeIngress: {versions: []string{"v1alpha1"}},

	{Group: groupIngress, Kind: "Ingress"}:      {},
	{Group: groupIngress, Kind: "IngressClass"}: {cluster: true},

	KindGatewayClass:     {versions: []string{"v1", "v1beta1"}, cluster: true, decode: decodeSpec[gateway.GatewayClassSpec]},
	KindGateway:          {versions: []string{"v1", "v1beta1"}, decode: decodeSpec[gateway.GatewaySpec]},
	KindListenerSet:      {versions: []string{"v1"}, decode: decodeSpec[gateway.ListenerSetSpec]},
	KindHTTPRoute:        {versions: []string{"v1", "v1beta1"}, decode: decodeSpec[gateway.HTTPRouteSpec]},
	KindGRPCRoute:        {versions: []string{"v1", "v1alpha2"}, decode: decodeSpec[gateway.GRPCRouteSpec]},
	KindTLSRoute:         {versions: []string{"v1", "v1alpha3", "v1alpha2"}, decode: decodeSpec[gateway.TLSRouteSpec]},
	KindTCPRoute:         {versions: []string{"v1", "v1alpha2"}, decode: decodeSpec[gateway.TCPRouteSpec]},
	KindUDPRoute:         {versions: []string{"v1", "v1alpha2"}, decode: decodeSpec[gateway.UDPRouteSpec]},
	KindReferenceGrant:   {versions: []string{"v1", "v1beta1"}, decode: decodeSpec[gateway.ReferenceGrantSpec]},
	KindBackendTLSPolicy: {versions: []string{"v1", "v1alpha3"}, decode: decodeSpec[gateway.BackendTLSPolicySpec]},

	v3alpha1.KindAuthService:                emissary,
	v3alpha1.KindConsulResolver:             emissary,
	v3alpha1.KindDevPortal:                  emissary,
	v3alpha1.KindHost:                       {versions: []string{"v3alpha1", "v2"}, decode: decodeEmissary},
	v3alpha1.KindKubernetesEndpointResolver: emissary,
	v3alpha1.KindKubernetesServiceResolver:  emissary,
	v3alpha1.KindListener:                   {versions: []string{"v3alpha1"}, decode: decodeEmissary},
	v3alpha1.KindLogService:                 emissary,
	v3alpha1.KindMapping:                    emissary,
	v3alpha1.KindModule:                     emissary,
	v3alpha1.KindRateLimitService:           emissary,
	v3alpha1.KindTCPMapping:                 emissary,
	v3alpha1.KindTLSContext:                 emissary,
	v3alpha1.KindTracingService:             emissary,
}

var emissary = form{versions: []string{"v3alpha1", "v2", "v1"}, decode: decodeEmissary}

// Known reports whether some stage of Chancery reads the kind. Decode takes objects of other kinds too, without looking at
// them; whether they deserve a complaint is the source's decision.
func Known(k snapshot.GroupKind) bool {
	_, listed := forms[k]
	return listed || k.Group == groupChancery
}

// Kinds returns the known kinds, sorted by group and kind.
func Kinds() []snapshot.GroupKind {
	kinds := make([]snapshot.GroupKind, 0, len(forms))
	for k := range forms {
		kinds = append(kinds, k)
	}
	slices.SortFunc(kinds, func(a, b snapshot.GroupKind) int {
		if c := strings.Compare(a.Group, b.Group); c != 0 {
			return c
		}
		return strings.Compare(a.Kind, b.Kind)
	})
	return kinds
}

// splitVersion cuts apiVersion into group and version and replaces the groups that Emissary's resources, and Ingresses, had before.
func splitVersion(apiVersion string) (group, version string) {
	if before, after, found := strings.Cut(apiVersion, "/"); found {
		group, version = before, after
	} else {
		version = apiVersion
	}
	switch group {
	case groupPreview, "ambassador":
		group = snapshot.EmissaryGroup
	case "extensions":
		group = groupIngress
	}
	return group, version
}
