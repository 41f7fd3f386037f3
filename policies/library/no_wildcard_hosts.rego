# METADATA
# title: No wildcard hosts
# description: A Host, Mapping, Ingress, listener or route names the hosts that it serves; "*" and patterns take names that others may want.
# custom:
#   severity: high
#   match: {kinds: [Host, Mapping, Ingress.networking.k8s.io, Gateway.gateway.networking.k8s.io, ListenerSet.gateway.networking.k8s.io, HTTPRoute.gateway.networking.k8s.io, GRPCRoute.gateway.networking.k8s.io, TLSRoute.gateway.networking.k8s.io]}
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

deny contains {
	"msg": sprintf("hostname %q is a wildcard", [name]),
	"path": sprintf("spec.hostnames[%d]", [i]),
} if {
	some i, name in input.object.spec.hostnames
	contains(name, "*")
	not name in input.parameters.allowed
}

deny contains {
	"msg": sprintf("%s without hostnames takes all that its listeners have", [input.object.kind]),
	"path": "spec",
} if {
	input.object.kind in {"HTTPRoute", "GRPCRoute", "TLSRoute"}
	count(object.get(input.object.spec, "hostnames", [])) == 0
	not "*" in input.parameters.allowed
}

deny contains {
	"msg": sprintf("hostname %q is a wildcard", [listener.hostname]),
	"path": sprintf("spec.listeners[%d].hostname", [i]),
} if {
	some i, listener in input.object.spec.listeners
	contains(listener.hostname, "*")
	not listener.hostname in input.parameters.allowed
}

deny contains {
	"msg": "a listener without a hostname takes every host",
	"path": sprintf("spec.listeners[%d]", [i]),
} if {
	some i, listener in input.object.spec.listeners
	listener.protocol in {"HTTP", "HTTPS", "TLS"}
	object.get(listener, "hostname", "") == ""
	not "*" in input.parameters.allowed
}
