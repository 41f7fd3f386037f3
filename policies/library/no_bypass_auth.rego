# METADATA
# title: No bypass_auth outside allowed paths
# description: Requests go past the auth service only on paths that the platform names.
# custom:
#   severity: high
#   match: {kinds: [Mapping]}
#   parameters:
#     type: object
#     additionalProperties: false
#     properties:
#       allowed: {type: array, items: {type: string}, description: path prefixes on which bypass_auth is allowed}
#   defaults: {allowed: [/healthz, /.well-known/]}
package chancery.admission.no_bypass_auth

allowed if {
	not input.object.spec.prefix_regex
	some prefix in input.parameters.allowed
	startswith(input.object.spec.prefix, prefix)
}

deny contains {
	"msg": sprintf("bypass_auth is not allowed on %s", [input.object.spec.prefix]),
	"path": "spec.bypass_auth",
} if {
	input.object.spec.bypass_auth
	not allowed
}
