package chancery.admission.canary_weights_test

import data.chancery.admission.canary_weights as p

judged(labels, spec) := found if {
	found := p.deny with input as {"object": {"kind": "Mapping", "metadata": {"labels": labels}, "spec": spec}, "parameters": {"maxFirst": 20}}
}

canary := {"chancery.dev/canary": "true"}

test_plain if count(judged({}, {"prefix": "/"})) == 0

test_good if count(judged(canary, {"weight": 20})) == 0

test_no_weight if count(judged(canary, {"prefix": "/"})) == 1

test_too_much if count(judged(canary, {"weight": 60})) == 1

test_negative if count(judged({}, {"weight": -1})) == 1

test_above if count(judged({}, {"weight": 101})) == 1
