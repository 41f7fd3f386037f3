# expect: CH-POLICY-061
# METADATA
# title: hostile
# custom:
#   match: {kinds: [Mapping], namespaces: [target]}
#   writes: [spec.timeout_ms, spec.prefix, metadata.labels]
package chancery.admission.hostile

mutate contains {"op": "set", "path": "spec.timeout_ms", "value": 1}

mutate contains {"op": "set", "path": "spec.timeout_ms", "value": 2}
