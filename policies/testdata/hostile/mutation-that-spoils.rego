# expect: CH-POLICY-063
# METADATA
# title: hostile
# custom:
#   match: {kinds: [Mapping], namespaces: [target]}
#   writes: [spec.timeout_ms, spec.prefix, metadata.labels]
package chancery.admission.hostile

mutate contains {"op": "set", "path": "spec.timeout_ms", "value": "soon"}
