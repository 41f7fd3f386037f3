# METADATA
# title: Naming and ownership labels
# description: Objects carry the labels that say whose they are, and names follow the pattern.
# custom:
#   severity: low
#   match: {kinds: [Host, Mapping, TCPMapping, Ingress.networking.k8s.io, Gateway.gateway.networking.k8s.io, ListenerSet.gateway.networking.k8s.io, HTTPRoute.gateway.networking.k8s.io, GRPCRoute.gateway.networking.k8s.io, TLSRoute.gateway.networking.k8s.io, TCPRoute.gateway.networking.k8s.io]}
#   parameters:
#     type: object
#     additionalProperties: false
#     properties:
#       labels: {type: array, items: {type: string}, description: labels that must be there}
#       name: {type: string, description: regex that metadata.name must match}
#   defaults: {labels: [owner], name: "^[a-z0-9.-]+$"}
package chancery.admission.ownership_labels

deny contains {"msg": sprintf("label %s is missing", [label]), "path": "metadata.labels"} if {
	some label in input.parameters.labels
	object.get(input.object.metadata, ["labels", label], "") == ""
}

deny contains {
	"msg": sprintf("name %q does not match %s", [input.object.metadata.name, input.parameters.name]),
	"path": "metadata.name",
} if {
	not regex.match(input.parameters.name, input.object.metadata.name)
}
