# METADATA
# title: Host ownership
# description: A tenant serves only host names that its Tenant object grants. Objects in namespaces without a tenant are left alone unless everyone must have one.
# custom:
#   severity: high
#   match: {kinds: [Host, Mapping, TCPMapping]}
#   parameters:
#     type: object
#     additionalProperties: false
#     properties:
#       requireTenant: {type: boolean, description: deny objects of namespaces that belong to no tenant}
#   defaults: {requireTenant: false}
package chancery.admission.host_owner

names contains lower(input.object.spec.hostname) if input.object.spec.hostname

names contains lower(input.object.spec.host) if input.object.spec.host

covered(name) if {
	some granted in input.tenant.hosts
	name == granted
}

covered(name) if {
	some granted in input.tenant.hosts
	startswith(granted, "*.")
	endswith(name, substring(granted, 1, -1))
}

deny contains {
	"msg": sprintf("tenant %s is not granted the host name %q", [input.tenant.name, name]),
	"path": "spec.hostname",
	"details": {"granted": input.tenant.hosts},
} if {
	input.tenant.name != ""
	some name in names
	not covered(name)
}

deny contains {
	"msg": sprintf("tenant %s serves every host with a %s that names none", [input.tenant.name, input.object.kind]),
	"path": "spec",
} if {
	input.tenant.name != ""
	input.object.kind == "Host"
	count(names) == 0
}

deny contains {
	"msg": sprintf("namespace %s belongs to no tenant", [input.object.metadata.namespace]),
	"path": "metadata.namespace",
} if {
	input.parameters.requireTenant
	input.tenant.name == ""
}
