# METADATA
# title: Limits per tenant
# description: A tenant has at most as many objects of a kind as its Tenant object allows; the oldest stand.
# custom:
#   severity: medium
#   match: {kinds: [Host, Mapping, TCPMapping, Ingress.networking.k8s.io, Gateway.gateway.networking.k8s.io, ListenerSet.gateway.networking.k8s.io, HTTPRoute.gateway.networking.k8s.io, GRPCRoute.gateway.networking.k8s.io, TLSRoute.gateway.networking.k8s.io, TCPRoute.gateway.networking.k8s.io]}
#   parameters: {type: object, additionalProperties: false}
#   defaults: {}
package chancery.admission.tenant_limits

rank := data.chancery.index.ranks[sprintf("%s/%s/%s", [input.object.kind, input.object.metadata.namespace, input.object.metadata.name])]

limit := input.tenant.limits[input.object.kind]

deny contains {
	"msg": sprintf("tenant %s may have %d objects of kind %s, and this is number %d", [input.tenant.name, limit, input.object.kind, rank]),
	"path": "metadata",
} if {
	input.tenant.name != ""
	rank > limit
}
