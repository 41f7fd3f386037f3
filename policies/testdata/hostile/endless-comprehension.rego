# expect: CH-POLICY-044
# METADATA
# title: hostile
# custom:
#   match: {kinds: [Mapping], namespaces: [target]}
#   writes: [spec.timeout_ms, spec.prefix, metadata.labels]
package chancery.admission.hostile


digits := [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]

deny contains "x" if {
	n := count([1 | some a in digits; some b in digits; some c in digits; some d in digits; some e in digits; some f in digits; some g in digits; some h in digits; some i in digits])
	n > 5
}
