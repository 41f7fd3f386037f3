# expect: CH-POLICY-072
# METADATA
# custom:
#   match: {kinds: [Mapping]}
package chancery.merge.hostile

resolve := {"winner": input.claims[0].id} if count(input.claims) > 1
