package chancery.admission.retries_bounded_test

import data.chancery.admission.retries_bounded as p

mapping(policy) := {"object": {"kind": "Mapping", "spec": {"retry_policy": policy}}, "parameters": {"max": 3}}

test_few if {
	found := p.deny with input as mapping({"num_retries": 3, "per_try_timeout": "1s"})
	count(found) == 0
}

test_many if {
	found := p.deny with input as mapping({"num_retries": 10})
	count(found) == 1
}

test_module if {
	found := p.deny with input as {"object": {"kind": "Module", "spec": {"config": {"retry_policy": {"num_retries": 4}}}}, "parameters": {"max": 3}}
	found == {{"msg": "4 retries are above 3", "path": "spec.config.retry_policy.num_retries"}}
}

test_no_try_timeout if {
	found := p.warn with input as mapping({"retry_on": "5xx"})
	count(found) == 1
}
