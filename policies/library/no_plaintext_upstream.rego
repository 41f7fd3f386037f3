# METADATA
# title: No plain-text upstream
# description: Upstreams of the namespaces that are named are spoken to over TLS.
# custom:
#   severity: high
#   match: {kinds: [Mapping, TCPMapping]}
#   parameters:
#     type: object
#     additionalProperties: false
#     properties:
#       namespaces: {type: array, items: {type: string}, description: namespaces whose objects must use TLS; * for all}
#   defaults: {namespaces: ["*"]}
package chancery.admission.no_plaintext_upstream

concerned if "*" in input.parameters.namespaces

concerned if input.object.metadata.namespace in input.parameters.namespaces

encrypted if startswith(input.object.spec.service, "https://")

encrypted if {
	input.object.spec.tls
	not startswith(input.object.spec.service, "http://")
}

deny contains {
	"msg": sprintf("service %s is spoken to in plain text", [input.object.spec.service]),
	"path": "spec.service",
} if {
	concerned
	not encrypted
	not input.object.spec.host_redirect
}
