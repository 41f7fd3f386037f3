# expect: CH-POLICY-046
# METADATA
# title: hostile
# custom:
#   match: {kinds: [Mapping], namespaces: [target]}
#   writes: [spec.timeout_ms, spec.prefix, metadata.labels]
package chancery.admission.hostile

digits := [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]

deny contains sprintf("%d%d%d", [i, j, k]) if {
	some i in digits
	some j in digits
	some k in digits
}
