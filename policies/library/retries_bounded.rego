# METADATA
# title: Retries bounded
# description: Retries multiply load; their number and their condition stay small.
# custom:
#   severity: medium
#   match: {kinds: [Mapping, Module]}
#   parameters:
#     type: object
#     additionalProperties: false
#     properties:
#       max: {type: integer, minimum: 0, description: the most retries}
#   defaults: {max: 3}
package chancery.admission.retries_bounded

policies contains {"path": "spec.retry_policy", "p": input.object.spec.retry_policy} if input.object.kind == "Mapping"

policies contains {"path": "spec.config.retry_policy", "p": input.object.spec.config.retry_policy} if input.object.kind == "Module"

deny contains {
	"msg": sprintf("%d retries are above %d", [r.p.num_retries, input.parameters.max]),
	"path": sprintf("%s.num_retries", [r.path]),
} if {
	some r in policies
	r.p.num_retries > input.parameters.max
}

warn contains {
	"msg": "retries without per_try_timeout share one timeout: the first slow try uses it up",
	"path": r.path,
} if {
	some r in policies
	object.get(r.p, "num_retries", 1) > 0
	not r.p.per_try_timeout
}
