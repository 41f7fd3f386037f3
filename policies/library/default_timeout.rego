# METADATA
# title: Default timeout
# description: A Mapping without a timeout gets the platform's.
# custom:
#   severity: low
#   match: {kinds: [Mapping]}
#   parameters:
#     type: object
#     additionalProperties: false
#     properties:
#       timeout_ms: {type: integer, minimum: 1, description: the timeout in ms}
#   defaults: {timeout_ms: 10000}
#   writes: [spec.timeout_ms]
#   priority: 10
package chancery.admission.default_timeout

mutate contains {"op": "default", "path": "spec.timeout_ms", "value": input.parameters.timeout_ms} if {
	not input.object.spec.host_redirect
}
