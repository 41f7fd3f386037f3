# METADATA
# title: Headers safe
# description: No hop-by-hop or routing header is set or removed, and no value smuggles a line break.
# custom:
#   severity: high
#   match: {kinds: [Mapping]}
#   parameters:
#     type: object
#     additionalProperties: false
#     properties:
#       forbidden: {type: array, items: {type: string}, description: names of further headers, in lower case}
#   defaults: {forbidden: []}
package chancery.admission.header_safety

reserved := {
	"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade",
	"host", ":authority", ":method", ":path", ":scheme", "content-length",
	"x-forwarded-for", "x-forwarded-proto", "x-envoy-internal", "x-envoy-external-address", "x-request-id",
}

named contains {"path": sprintf("spec.%s.%s", [field, name]), "name": name} if {
	some field in ["add_request_headers", "add_response_headers"]
	some name, _ in input.object.spec[field]
}

named contains {"path": sprintf("spec.%s[%d]", [field, i]), "name": name} if {
	some field in ["remove_request_headers", "remove_response_headers"]
	some i, name in input.object.spec[field]
}

deny contains {"msg": sprintf("header %s may not be set or removed", [h.name]), "path": h.path} if {
	some h in named
	lower(h.name) in reserved
}

deny contains {"msg": sprintf("header %s may not be set or removed", [h.name]), "path": h.path} if {
	some h in named
	lower(h.name) in input.parameters.forbidden
}

values contains {"path": sprintf("spec.%s.%s", [field, name]), "text": text} if {
	some field in ["add_request_headers", "add_response_headers"]
	some name, header in input.object.spec[field]
	text := object.get(header, "value", "")
}

deny contains {"msg": "the value has a line break", "path": v.path} if {
	some v in values
	regex.match(`[\r\n\x00]`, v.text)
}
