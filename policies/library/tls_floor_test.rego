package chancery.admission.tls_floor_test

import data.chancery.admission.tls_floor as p

defaults := {"minVersion": "v1.2", "forbiddenCiphers": ["RC4", "AES128-SHA"], "redirect": true}

judged(kind, spec) := found if {
	found := p.deny with input as {"object": {"kind": kind, "spec": spec}, "parameters": defaults}
}

test_good if count(judged("Host", {"tlsSecret": {"name": "s"}, "tls": {"min_tls_version": "v1.3"}})) == 0

test_old if count(judged("Host", {"tlsSecret": {"name": "s"}, "tls": {"min_tls_version": "v1.1"}})) == 1

test_old_context if count(judged("TLSContext", {"min_tls_version": "v1.0", "max_tls_version": "v1.1"})) == 2

test_cipher if count(judged("TLSContext", {"cipher_suites": ["ECDHE-RSA-AES128-SHA", "ECDHE-RSA-AES128-GCM-SHA256"]})) == 1

test_no_tls if count(judged("Host", {"hostname": "a"})) == 1

test_clear_text if {
	some d in judged("Host", {"tlsSecret": {"name": "s"}, "requestPolicy": {"insecure": {"action": "Route"}}})
	d.path == "spec.requestPolicy.insecure.action"
}
