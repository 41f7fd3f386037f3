# expect: CH-POLICY-030
# METADATA
# title: hostile
# custom:
#   match: {kinds: [Mapping], namespaces: [target]}
package chancery.admission.hostile

deny contains "x" if {
	v0 := input.object.spec.prefix
	v1 := {"a": v0, "b": v0}
	v2 := {"a": v1, "b": v1}
	v3 := {"a": v2, "b": v2}
	v4 := {"a": v3, "b": v3}
	v5 := {"a": v4, "b": v4}
	v6 := {"a": v5, "b": v5}
	v7 := {"a": v6, "b": v6}
	v8 := {"a": v7, "b": v7}
	v9 := {"a": v8, "b": v8}
	v10 := {"a": v9, "b": v9}
	v11 := {"a": v10, "b": v10}
	v12 := {"a": v11, "b": v11}
	v13 := {"a": v12, "b": v12}
	v14 := {"a": v13, "b": v13}
	v15 := {"a": v14, "b": v14}
	v16 := {"a": v15, "b": v15}
	v17 := {"a": v16, "b": v16}
	v18 := {"a": v17, "b": v17}
	v19 := {"a": v18, "b": v18}
	v20 := {"a": v19, "b": v19}
	v21 := {"a": v20, "b": v20}
	v22 := {"a": v21, "b": v21}
	v23 := {"a": v22, "b": v22}
	v24 := {"a": v23, "b": v23}
	v25 := {"a": v24, "b": v24}
	v26 := {"a": v25, "b": v25}
	v27 := {"a": v26, "b": v26}
	v28 := {"a": v27, "b": v27}
	v29 := {"a": v28, "b": v28}
	v30 := {"a": v29, "b": v29}
	v30 == {"a": v29}
}
