package chancery.admission.host_owner_test

import data.chancery.admission.host_owner as p

judged(kind, spec, tenant) := found if {
	found := p.deny with input as {
		"object": {"kind": kind, "metadata": {"name": "x", "namespace": "shop"}, "spec": spec},
		"tenant": tenant, "parameters": {"requireTenant": true},
	}
}

shop := {"name": "shop", "hosts": ["shop.example.com", "*.shop.example.com"]}

test_own if count(judged("Host", {"hostname": "shop.example.com"}, shop)) == 0

test_below if count(judged("Mapping", {"host": "API.shop.example.com"}, shop)) == 0

test_foreign if {
	some d in judged("Mapping", {"hostname": "bank.example.com"}, shop)
	d.msg == `tenant shop is not granted the host name "bank.example.com"`
}

test_suffix_is_no_wildcard if count(judged("Mapping", {"hostname": "evilshop.example.com"}, shop)) == 1

test_wildcard_above if count(judged("Host", {"hostname": "*.example.com"}, shop)) == 1

test_every_host if count(judged("Host", {}, shop)) == 1

test_nobody if count(judged("Host", {"hostname": "a.example.com"}, {"name": "", "hosts": []})) == 1
