package chancery.admission.default_timeout_test

import data.chancery.admission.default_timeout as p

test_set if {
	ops := p.mutate with input as {"object": {"spec": {"prefix": "/"}}, "parameters": {"timeout_ms": 5}}
	ops == {{"op": "default", "path": "spec.timeout_ms", "value": 5}}
}

test_redirect if {
	ops := p.mutate with input as {"object": {"spec": {"host_redirect": true}}, "parameters": {"timeout_ms": 5}}
	count(ops) == 0
}
