# METADATA
# title: No cross-namespace backend without a grant
# description: A Mapping sends requests to Services of its own namespace; to others only where a ReferenceGrant there allows it.
# custom:
#   severity: high
#   match: {kinds: [Mapping, TCPMapping]}
#   parameters: {type: object, additionalProperties: false}
#   defaults: {}
package chancery.admission.no_cross_namespace_backend

# host is the service without scheme and port.
host := split(trim_prefix(trim_prefix(input.object.spec.service, "https://"), "http://"), ":")[0]

parts := split(host, ".")

# target is the namespace that the service names, if it names one.
target := parts[1] if {
	count(parts) == 2
	data.chancery.index.services[sprintf("%s/%s", [parts[1], parts[0]])]
}

target := parts[1] if {
	count(parts) > 2
	parts[2] == "svc"
}

granted if {
	some grant in data.chancery.index.grants[target]
	some from in grant.from
	from.namespace == input.object.metadata.namespace
	from.group == "getambassador.io"
	from.kind == input.object.kind
	some to in grant.to
	to.kind == "Service"
	object.get(to, "name", parts[0]) == parts[0]
}

deny contains {
	"msg": sprintf("the service is in namespace %s, which grants nothing to %s", [target, input.object.metadata.namespace]),
	"path": "spec.service",
} if {
	target != input.object.metadata.namespace
	not granted
}
