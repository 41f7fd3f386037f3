# METADATA
# title: Timeouts present and bounded
# description: Every Mapping says how long an answer may take, within bounds.
# custom:
#   severity: medium
#   match: {kinds: [Mapping]}
#   parameters:
#     type: object
#     additionalProperties: false
#     properties:
#       max: {type: integer, minimum: 1, description: the longest timeout in ms}
#       required: {type: boolean, description: a timeout must be set}
#   defaults: {max: 60000, required: true}
package chancery.admission.timeouts_bounded

deny contains {"msg": "timeout_ms is missing", "path": "spec.timeout_ms"} if {
	input.parameters.required
	not input.object.spec.timeout_ms
	not input.object.spec.host_redirect
}

deny contains {"msg": "timeout_ms 0 means no limit", "path": "spec.timeout_ms"} if input.object.spec.timeout_ms == 0

deny contains {
	"msg": sprintf("%s %d is above %d", [field, input.object.spec[field], input.parameters.max]),
	"path": sprintf("spec.%s", [field]),
} if {
	some field in ["timeout_ms", "connect_timeout_ms", "idle_timeout_ms"]
	input.object.spec[field] > input.parameters.max
}
