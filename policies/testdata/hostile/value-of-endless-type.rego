# expect: CH-POLICY-030
# METADATA
# title: hostile
# custom:
#   match: {kinds: [Mapping], namespaces: [target]}
package chancery.admission.hostile

r0 := input.object.spec.prefix

r1 := [r0, r0]

r2 := [r1, r1]

r3 := [r2, r2]

r4 := [r3, r3]

r5 := [r4, r4]

r6 := [r5, r5]

r7 := [r6, r6]

r8 := [r7, r7]

r9 := [r8, r8]

r10 := [r9, r9]

r11 := [r10, r10]

r12 := [r11, r11]

r13 := [r12, r12]

r14 := [r13, r13]

r15 := [r14, r14]

r16 := [r15, r15]

r17 := [r16, r16]

r18 := [r17, r17]

r19 := [r18, r18]

r20 := [r19, r19]

r21 := [r20, r20]

r22 := [r21, r21]

r23 := [r22, r22]

r24 := [r23, r23]

r25 := [r24, r24]

r26 := [r25, r25]

r27 := [r26, r26]

r28 := [r27, r27]

r29 := [r28, r28]

r30 := [r29, r29]

deny contains "x" if r30 == [r29, 1]
