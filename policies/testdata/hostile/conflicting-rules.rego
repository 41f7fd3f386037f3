# expect: CH-POLICY-045
# METADATA
# title: hostile
# custom:
#   match: {kinds: [Mapping], namespaces: [target]}
#   writes: [spec.timeout_ms, spec.prefix, metadata.labels]
package chancery.admission.hostile

who := "a" if input.object.kind

who := "b" if input.object.spec

deny contains who
