package chancery.admission.safe_regex_test

import data.chancery.admission.safe_regex as p

judged(spec) := found if {
	found := p.deny with input as {"object": {"kind": "Mapping", "spec": spec}, "parameters": {"maxLength": 20, "maxRepeat": 10}}
}

test_plain_prefix if count(judged({"prefix": "/((("})) == 0

test_good if count(judged({"prefix": "/v[0-9]{1,3}/.*", "prefix_regex": true})) == 0

test_invalid if count(judged({"prefix": "/(", "prefix_regex": true})) == 1

test_long if count(judged({"regex_headers": {"x": "abcdefghijklmnopqrstuvwxyz"}})) == 1

test_repeats if count(judged({"regex_rewrite": {"pattern": "a{1,1000}"}})) == 1

test_method if count(judged({"method": "(", "method_regex": true})) == 1

test_host if count(judged({"host": "(", "host_regex": true})) == 1

test_query if count(judged({"regex_query_parameters": {"q": "["}})) == 1
