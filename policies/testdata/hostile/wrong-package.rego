# expect: CH-POLICY-021
# METADATA
# title: hostile
# custom:
#   match: {kinds: [Mapping], namespaces: [target]}
#   writes: [spec.timeout_ms, spec.prefix, metadata.labels]
package chancery.index.hosts

deny contains "x" if true
