# expect: CH-POLICY-020
# METADATA
# title: hostile
# custom:
#   match: {kinds: [Mapping], namespaces: [target]}
#   writes: [spec.timeout_ms, spec.prefix, metadata.labels]
package chancery.admission.hostile

deny contains "x" if 1e1000000000 % 3 == 1
