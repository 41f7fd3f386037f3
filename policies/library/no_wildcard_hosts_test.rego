package chancery.admission.no_wildcard_hosts_test

import data.chancery.admission.no_wildcard_hosts as p

judged(kind, hostname, allowed) := found if {
	found := p.deny with input as {
		"object": {"kind": kind, "metadata": {"name": "x"}, "spec": {"hostname": hostname}},
		"parameters": {"allowed": allowed},
	}
}

test_exact if count(judged("Host", "shop.example.com", [])) == 0

test_wildcard if judged("Mapping", "*.example.com", []) == {{"msg": `hostname "*.example.com" is a wildcard`, "path": "spec.hostname"}}

test_allowed if count(judged("Host", "*.example.com", ["*.example.com"])) == 0

test_none if {
	found := p.deny with input as {"object": {"kind": "Host", "spec": {}}, "parameters": {"allowed": []}}
	count(found) == 1
}

test_none_mapping if {
	found := p.deny with input as {"object": {"kind": "Mapping", "spec": {}}, "parameters": {"allowed": []}}
	count(found) == 0
}
