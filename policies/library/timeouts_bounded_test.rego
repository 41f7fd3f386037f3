package chancery.admission.timeouts_bounded_test

import data.chancery.admission.timeouts_bounded as p

judged(spec) := found if {
	found := p.deny with input as {"object": {"kind": "Mapping", "spec": spec}, "parameters": {"max": 1000, "required": true}}
}

test_good if count(judged({"timeout_ms": 1000})) == 0

test_missing if count(judged({"prefix": "/"})) == 1

test_redirect_needs_none if count(judged({"host_redirect": true})) == 0

test_endless if count(judged({"timeout_ms": 0})) == 1

test_long if {
	some d in judged({"timeout_ms": 5, "idle_timeout_ms": 5000})
	d.path == "spec.idle_timeout_ms"
}
