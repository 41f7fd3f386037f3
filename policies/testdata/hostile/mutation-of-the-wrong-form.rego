# expect: CH-POLICY-047
# METADATA
# title: hostile
# custom:
#   match: {kinds: [Mapping], namespaces: [target]}
#   writes: [spec.timeout_ms, spec.prefix, metadata.labels]
package chancery.admission.hostile

mutate contains {"op": "destroy", "path": "spec.timeout_ms"}
