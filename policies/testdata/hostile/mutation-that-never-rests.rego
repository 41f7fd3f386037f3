# expect: CH-POLICY-062
# METADATA
# title: hostile
# custom:
#   match: {kinds: [Mapping], namespaces: [target]}
#   writes: [spec.timeout_ms, spec.prefix, metadata.labels]
package chancery.admission.hostile

mutate contains {"op": "set", "path": "spec.prefix", "value": sprintf("%sx", [input.object.spec.prefix])}
