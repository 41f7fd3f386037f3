package chancery.admission.no_plaintext_upstream_test

import data.chancery.admission.no_plaintext_upstream as p

judged(ns, spec) := found if {
	found := p.deny with input as {
		"object": {"kind": "Mapping", "metadata": {"namespace": ns}, "spec": spec}, "parameters": {"namespaces": ["bank"]},
	}
}

test_elsewhere if count(judged("shop", {"service": "cart"})) == 0

test_https if count(judged("bank", {"service": "https://ledger"})) == 0

test_context if count(judged("bank", {"service": "ledger", "tls": "upstream"})) == 0

test_plain if count(judged("bank", {"service": "ledger"})) == 1

test_explicit if count(judged("bank", {"service": "http://ledger", "tls": "upstream"})) == 1

test_redirect if count(judged("bank", {"service": "x", "host_redirect": true})) == 0

test_everywhere if {
	found := p.deny with input as {"object": {"metadata": {"namespace": "shop"}, "spec": {"service": "cart"}}, "parameters": {"namespaces": ["*"]}}
	count(found) == 1
}
