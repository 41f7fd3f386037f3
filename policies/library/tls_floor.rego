# METADATA
# title: TLS floor
# description: Hosts terminate TLS of a modern version with strong ciphers, and send clear text away.
# custom:
#   severity: high
#   match: {kinds: [Host, TLSContext]}
#   parameters:
#     type: object
#     additionalProperties: false
#     properties:
#       minVersion: {enum: ["v1.2", "v1.3"], description: the least min_tls_version}
#       forbiddenCiphers: {type: array, items: {type: string}, description: parts of cipher names that may not occur}
#       redirect: {type: boolean, description: clear text must be redirected or rejected}
#   defaults: {minVersion: "v1.2", forbiddenCiphers: ["RC4", "3DES", "NULL", "-CBC", "AES128-SHA", "AES256-SHA"], redirect: true}
package chancery.admission.tls_floor

level := {"v1.0": 0, "v1.1": 1, "v1.2": 2, "v1.3": 3}

settings contains {"path": "spec.tls", "tls": input.object.spec.tls} if input.object.kind == "Host"

settings contains {"path": "spec", "tls": input.object.spec} if input.object.kind == "TLSContext"

deny contains {
	"msg": sprintf("min_tls_version %s is below %s", [s.tls.min_tls_version, input.parameters.minVersion]),
	"path": sprintf("%s.min_tls_version", [s.path]),
} if {
	some s in settings
	level[s.tls.min_tls_version] < level[input.parameters.minVersion]
}

deny contains {
	"msg": sprintf("max_tls_version %s is below %s", [s.tls.max_tls_version, input.parameters.minVersion]),
	"path": sprintf("%s.max_tls_version", [s.path]),
} if {
	some s in settings
	level[s.tls.max_tls_version] < level[input.parameters.minVersion]
}

deny contains {
	"msg": sprintf("cipher %s is weak", [cipher]),
	"path": sprintf("%s.cipher_suites", [s.path]),
} if {
	some s in settings
	some cipher in s.tls.cipher_suites
	some part in input.parameters.forbiddenCiphers
	contains(cipher, part)
}

deny contains {"msg": "the Host has no TLS: tlsSecret, tlsContext and tls are missing", "path": "spec.tlsSecret"} if {
	input.object.kind == "Host"
	not input.object.spec.tlsSecret
	not input.object.spec.tlsContext
	not input.object.spec.tls
}

deny contains {"msg": "clear text is routed; redirect or reject it", "path": "spec.requestPolicy.insecure.action"} if {
	input.parameters.redirect
	lower(input.object.spec.requestPolicy.insecure.action) == "route"
}
