# METADATA
# title: Rate-limit labels present
# description: Every Mapping carries the labels by which the rate-limit service tells requests apart.
# custom:
#   severity: medium
#   match: {kinds: [Mapping]}
#   parameters:
#     type: object
#     additionalProperties: false
#     properties:
#       domain: {type: string, description: the domain of the labels}
#       required: {type: boolean, description: deny rather than warn}
#   defaults: {domain: ambassador, required: true}
package chancery.admission.rate_limit_labels

missing if not input.object.spec.labels[input.parameters.domain]

missing if count(input.object.spec.labels[input.parameters.domain]) == 0

message := sprintf("no rate-limit labels of domain %q", [input.parameters.domain])

deny contains {"msg": message, "path": "spec.labels"} if {
	missing
	input.parameters.required
}

warn contains {"msg": message, "path": "spec.labels"} if {
	missing
	not input.parameters.required
}
