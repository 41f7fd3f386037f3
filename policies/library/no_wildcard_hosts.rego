# METADATA
# title: No wildcard hosts
# description: A Host or Mapping names the hosts that it serves; "*" and patterns take names that others may want.
# custom:
#   severity: high
#   match: {kinds: [Host, Mapping]}
#   parameters:
#     type: object
#     properties:
#       allowed: {type: array, items: {type: string}, description: patterns that are allowed all the same}
#     additionalProperties: false
#   defaults: {allowed: []}
package chancery.admission.no_wildcard_hosts

deny contains {
	"msg": sprintf("hostname %q is a wildcard", [hostname]),
	"path": "spec.hostname",
} if {
	hostname := input.object.spec.hostname
	contains(hostname, "*")
	not hostname in input.parameters.allowed
}

deny contains {
	"msg": sprintf("%s without a hostname takes every host", [input.object.kind]),
	"path": "spec",
} if {
	input.object.kind == "Host"
	not input.object.spec.hostname
	not "*" in input.parameters.allowed
}
