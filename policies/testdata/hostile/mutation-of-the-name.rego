# expect: CH-POLICY-060
# METADATA
# title: hostile
# custom:
#   match: {kinds: [Mapping], namespaces: [target]}
#   writes: [metadata.name, spec.prefix, metadata.labels]
package chancery.admission.hostile

mutate contains {"op": "set", "path": "metadata.name", "value": "evil"}
