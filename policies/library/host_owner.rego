# METADATA
# title: Host ownership
# description: A tenant serves only host names that its Tenant object grants. Objects in namespaces without a tenant are left alone unless everyone must have one.
# custom:
#   severity: high
#   match: {kinds: [Host, Mapping, TCPMapping, Ingress.networking.k8s.io, Gateway.gateway.networking.k8s.io, ListenerSet.gateway.networking.k8s.io, HTTPRoute.gateway.networking.k8s.io, GRPCRoute.gateway.networking.k8s.io, TLSRoute.gateway.networking.k8s.io]}
#   parameters:
#     type: object
#     additionalProperties: false
#     properties:
#       requireTenant: {type: boolean, description: deny objects of namespaces that belong to no tenant}
#   defaults: {requireTenant: false}
package chancery.admission.host_owner

claims contains {"name": lower(name), "path": sprintf("spec.%s", [field])} if {
	some field in ["hostname", "host"]
	name := input.object.spec[field]
}

claims contains {"name": lower(value), "path": "spec.headers"} if {
	some name, value in input.object.spec.headers
	lower(name) == ":authority"
}

claims contains {"name": lower(rule.host), "path": sprintf("spec.rules[%d].host", [i])} if {
	some i, rule in input.object.spec.rules
	rule.host != ""
}

claims contains {"name": lower(name), "path": sprintf("spec.tls[%d].hosts[%d]", [i, j])} if {
	some i, entry in input.object.spec.tls
	some j, name in entry.hosts
}

claims contains {"name": lower(name), "path": sprintf("spec.hostnames[%d]", [i])} if {
	some i, name in input.object.spec.hostnames
}

claims contains {"name": lower(listener.hostname), "path": sprintf("spec.listeners[%d].hostname", [i])} if {
	some i, listener in input.object.spec.listeners
	listener.hostname != ""
}

# The fields that serve every host, since they name none.
everywhere contains "spec" if {
	input.object.kind == "Host"
	count(claims) == 0
}

everywhere contains "spec.defaultBackend" if input.object.spec.defaultBackend

everywhere contains sprintf("spec.rules[%d]", [i]) if {
	some i, rule in input.object.spec.rules
	object.get(rule, "host", "") == ""
}

everywhere contains sprintf("spec.tls[%d]", [i]) if {
	some i, entry in input.object.spec.tls
	count(object.get(entry, "hosts", [])) == 0
}

# A Mapping without a name is on every Host that selects its labels.
everywhere contains "spec" if {
	input.object.kind == "Mapping"
	count(claims) == 0
}

# A listener for TCP has a port, and no names.
everywhere contains sprintf("spec.listeners[%d]", [i]) if {
	some i, listener in input.object.spec.listeners
	listener.protocol in {"HTTP", "HTTPS", "TLS"}
	object.get(listener, "hostname", "") == ""
}

# A route without names has all of the listeners that it is attached to.
everywhere contains "spec" if {
	input.object.kind in {"HTTPRoute", "GRPCRoute", "TLSRoute"}
	count(object.get(input.object.spec, "hostnames", [])) == 0
}

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
	"msg": sprintf("tenant %s is not granted the host name %q", [input.tenant.name, claim.name]),
	"path": claim.path,
	"details": {"granted": input.tenant.hosts},
} if {
	input.tenant.name != ""
	some claim in claims
	not covered(claim.name)
}

deny contains {
	"msg": sprintf("tenant %s serves every host with a %s that names none", [input.tenant.name, input.object.kind]),
	"path": path,
} if {
	input.tenant.name != ""
	some path in everywhere
}

deny contains {
	"msg": sprintf("namespace %s belongs to no tenant", [input.object.metadata.namespace]),
	"path": "metadata.namespace",
} if {
	input.parameters.requireTenant
	input.tenant.name == ""
}
