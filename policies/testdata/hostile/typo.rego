# expect: CH-POLICY-023
# METADATA
# title: hostile
# custom:
#   match: {kinds: [Mapping], namespaces: [target]}
#   writes: [spec.timeout_ms, spec.prefix, metadata.labels]
package chancery.admission.hostile

deny contains "x" if input.object.spec.prefx == "/"
