package chancery.admission.no_bypass_auth_test

import data.chancery.admission.no_bypass_auth as p

judged(spec) := found if {
	found := p.deny with input as {"object": {"kind": "Mapping", "spec": spec}, "parameters": {"allowed": ["/healthz"]}}
}

test_auth if count(judged({"prefix": "/shop/"})) == 0

test_health if count(judged({"prefix": "/healthz", "bypass_auth": true})) == 0

test_shop if count(judged({"prefix": "/shop/", "bypass_auth": true})) == 1

test_regex if count(judged({"prefix": "/healthz|/.*", "prefix_regex": true, "bypass_auth": true})) == 1
