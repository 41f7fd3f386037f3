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

test_authority if {
	some d in judged("Mapping", {"headers": {":Authority": "bank.example.com", "x-a": "b"}}, shop)
	d.path == "spec.headers"
}

test_own_authority if count(judged("Mapping", {"headers": {":authority": "shop.example.com"}}, shop)) == 0

test_mapping_without_name if count(judged("Mapping", {"prefix": "/"}, shop)) == 1

test_nobody if count(judged("Host", {"hostname": "a.example.com"}, {"name": "", "hosts": []})) == 1

backend := {"service": {"name": "web", "port": {"number": 80}}}

ingress(host) := {"rules": [{"host": host, "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}]}

test_ingress_own if count(judged("Ingress", ingress("api.shop.example.com"), shop)) == 0

test_ingress_foreign if {
	some d in judged("Ingress", ingress("bank.example.com"), shop)
	d.path == "spec.rules[0].host"
}

test_ingress_certificate if {
	some d in judged("Ingress", object.union(ingress("shop.example.com"), {"tls": [{"secretName": "s", "hosts": ["shop.example.com", "bank.example.com"]}]}), shop)
	d.path == "spec.tls[0].hosts[1]"
}

test_ingress_everywhere if {
	found := judged("Ingress", {"defaultBackend": backend, "rules": [{"http": {"paths": []}}], "tls": [{"secretName": "s"}]}, shop)
	{d.path | some d in found} == {"spec.defaultBackend", "spec.rules[0]", "spec.tls[0]"}
}

test_route_own if {
	every kind in ["HTTPRoute", "GRPCRoute", "TLSRoute"] {
		count(judged(kind, {"hostnames": ["shop.example.com", "API.shop.example.com"]}, shop)) == 0
	}
}

test_route_foreign if {
	some d in judged("HTTPRoute", {"hostnames": ["shop.example.com", "bank.example.com"]}, shop)
	d.path == "spec.hostnames[1]"
}

test_route_everywhere if {
	every kind in ["HTTPRoute", "GRPCRoute", "TLSRoute"] {
		every spec in [{"hostnames": []}, {"rules": []}] {
			{d.path | some d in judged(kind, spec, shop)} == {"spec"}
		}
	}
}

test_listeners if {
	every kind in ["Gateway", "ListenerSet"] {
		found := judged(kind, {"listeners": [
			{"name": "own", "protocol": "HTTP", "port": 80, "hostname": "*.shop.example.com"},
			{"name": "foreign", "protocol": "HTTPS", "port": 443, "hostname": "*.example.com"},
			{"name": "all", "protocol": "TLS", "port": 443},
			{"name": "port", "protocol": "TCP", "port": 5432},
		]}, shop)
		{d.path | some d in found} == {"spec.listeners[1].hostname", "spec.listeners[2]"}
	}
}
