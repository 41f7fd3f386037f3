# METADATA
# title: No wildcard hosts
# description: A Host, Mapping or Ingress names the hosts that it serves; "*" and patterns take names that others may want.
# custom:
#   severity: high
#   match: {kinds: [Host, Mapping, Ingress.networking.k8s.io]}
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

deny contains {
	"msg": sprintf("host %q is a wildcard", [rule.host]),
	"path": sprintf("spec.rules[%d].host", [i]),
} if {
	some i, rule in input.object.spec.rules
	contains(rule.host, "*")
	not rule.host in input.parameters.allowed
}

deny contains {
	"msg": sprintf("host %q is a wildcard", [name]),
	"path": sprintf("spec.tls[%d].hosts[%d]", [i, j]),
} if {
	some i, entry in input.object.spec.tls
	some j, name in entry.hosts
	contains(name, "*")
	not name in input.parameters.allowed
}

deny contains {
	"msg": "a rule without a host takes every host",
	"path": sprintf("spec.rules[%d]", [i]),
} if {
	some i, rule in input.object.spec.rules
	object.get(rule, "host", "") == ""
	not "*" in input.parameters.allowed
}
