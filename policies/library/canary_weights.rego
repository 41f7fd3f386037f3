# METADATA
# title: Canary weights sane
# description: Weights are percentages, and a canary starts small.
# custom:
#   severity: low
#   match: {kinds: [Mapping, TCPMapping]}
#   parameters:
#     type: object
#     additionalProperties: false
#     properties:
#       maxFirst: {type: integer, minimum: 1, maximum: 100, description: the most that a Mapping labelled chancery.dev/canary may have}
#   defaults: {maxFirst: 50}
package chancery.admission.canary_weights

deny contains {"msg": sprintf("weight %d is no percentage", [input.object.spec.weight]), "path": "spec.weight"} if input.object.spec.weight < 0

deny contains {"msg": sprintf("weight %d is no percentage", [input.object.spec.weight]), "path": "spec.weight"} if input.object.spec.weight > 100

deny contains {"msg": "a canary needs a weight, else it takes half of the requests or all", "path": "spec.weight"} if {
	input.object.metadata.labels["chancery.dev/canary"] == "true"
	not is_number(object.get(input.object.spec, "weight", null))
}

deny contains {
	"msg": sprintf("a canary has at most %d percent, not %d", [input.parameters.maxFirst, input.object.spec.weight]),
	"path": "spec.weight",
} if {
	input.object.metadata.labels["chancery.dev/canary"] == "true"
	input.object.spec.weight > input.parameters.maxFirst
}
