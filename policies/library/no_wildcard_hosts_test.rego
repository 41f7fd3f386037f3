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

ingress(rule, allowed) := {d.path | some d in found} if {
	found := p.deny with input as {"object": {"kind": "Ingress", "spec": {"rules": [rule], "tls": [{"hosts": ["*.example.com"], "secretName": "s"}]}}, "parameters": {"allowed": allowed}}
}

test_ingress_wildcard if ingress({"host": "*.example.com"}, []) == {"spec.rules[0].host", "spec.tls[0].hosts[0]"}

test_ingress_allowed if ingress({"host": "*.example.com"}, ["*.example.com"]) == set()

test_ingress_none if ingress({"http": {"paths": []}}, ["*.example.com"]) == {"spec.rules[0]"}
