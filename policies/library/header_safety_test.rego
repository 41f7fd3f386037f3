package chancery.admission.header_safety_test

import data.chancery.admission.header_safety as p

judged(spec) := found if {
	found := p.deny with input as {"object": {"kind": "Mapping", "spec": spec}, "parameters": {"forbidden": ["x-internal"]}}
}

test_good if count(judged({"add_request_headers": {"x-team": {"value": "shop"}}, "remove_response_headers": ["server"]})) == 0

test_hop if count(judged({"add_response_headers": {"Transfer-Encoding": {"value": "chunked"}}})) == 1

test_removed if count(judged({"remove_request_headers": ["X-Forwarded-For"]})) == 1

test_forbidden if count(judged({"add_request_headers": {"x-internal": {"value": "1"}}})) == 1

test_line_break if count(judged({"add_request_headers": {"x-a": {"value": "1\r\nx-b: 2"}}})) == 1
