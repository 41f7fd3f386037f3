# METADATA
# title: Regexes safe and bounded
# description: Regexes are valid RE2, short, and repeat little, so that Envoy compiles them and they match quickly.
# custom:
#   severity: medium
#   match: {kinds: [Mapping]}
#   parameters:
#     type: object
#     additionalProperties: false
#     properties:
#       maxLength: {type: integer, minimum: 1, description: the longest regex}
#       maxRepeat: {type: integer, minimum: 1, description: the largest count in braces}
#   defaults: {maxLength: 200, maxRepeat: 100}
package chancery.admission.safe_regex

regexes contains {"path": "spec.prefix", "text": input.object.spec.prefix} if input.object.spec.prefix_regex

regexes contains {"path": "spec.method", "text": input.object.spec.method} if input.object.spec.method_regex

regexes contains {"path": "spec.host", "text": input.object.spec.host} if input.object.spec.host_regex

regexes contains {"path": sprintf("spec.regex_headers.%s", [name]), "text": text} if some name, text in input.object.spec.regex_headers

regexes contains {"path": sprintf("spec.regex_query_parameters.%s", [name]), "text": text} if {
	some name, text in input.object.spec.regex_query_parameters
}

regexes contains {"path": "spec.regex_rewrite.pattern", "text": input.object.spec.regex_rewrite.pattern} if input.object.spec.regex_rewrite

deny contains {"msg": sprintf("%q is no valid regex", [r.text]), "path": r.path} if {
	some r in regexes
	not regex.is_valid(r.text)
}

deny contains {
	"msg": sprintf("the regex has %d characters, more than %d", [count(r.text), input.parameters.maxLength]),
	"path": r.path,
} if {
	some r in regexes
	count(r.text) > input.parameters.maxLength
}

deny contains {"msg": sprintf("the regex repeats up to %d times, more than %d", [n, input.parameters.maxRepeat]), "path": r.path} if {
	some r in regexes
	some found in regex.find_all_string_submatch_n(`\{(\d+)(?:,(\d*))?\}`, r.text, -1)
	some digits in array.slice(found, 1, 3)
	digits != ""
	n := to_number(digits)
	n > input.parameters.maxRepeat
}
