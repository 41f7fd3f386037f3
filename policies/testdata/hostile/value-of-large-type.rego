# expect: CH-POLICY-030
# METADATA
# title: hostile
# custom:
#   match: {kinds: [Mapping], namespaces: [target]}
package chancery.admission.hostile

r0 := input.object

r1 := [r0, r0]

r2 := [r1, r1]

r3 := [r2, r2]

r4 := [r3, r3]

r5 := [r4, r4]

r6 := [r5, r5]

r7 := [r6, r6]

r8 := [r7, r7]

deny contains "x" if r8 == [r7, 1]
