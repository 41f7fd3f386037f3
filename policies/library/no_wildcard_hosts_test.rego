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

other(kind, spec, allowed) := {d.path | some d in found} if {
	found := p.deny with input as {"object": {"kind": kind, "spec": spec}, "parameters": {"allowed": allowed}}
}

test_route_wildcard if other("HTTPRoute", {"hostnames": ["a.example.com", "*.example.com"]}, []) == {"spec.hostnames[1]"}

test_route_allowed if other("HTTPRoute", {"hostnames": ["*.example.com"]}, ["*.example.com"]) == set()

test_route_none if other("GRPCRoute", {"rules": []}, []) == {"spec"}

test_route_all_allowed if other("TLSRoute", {"rules": []}, ["*"]) == set()

test_listeners if {
	listeners := [{"protocol": "HTTP", "hostname": "*.example.com"}, {"protocol": "HTTPS"}, {"protocol": "TCP"}, {"protocol": "TLS", "hostname": "a.example.com"}]
	other("Gateway", {"listeners": listeners}, []) == {"spec.listeners[0].hostname", "spec.listeners[1]"}
	other("ListenerSet", {"listeners": listeners}, ["*", "*.example.com"]) == set()
}
