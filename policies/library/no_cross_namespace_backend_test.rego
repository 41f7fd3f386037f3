package chancery.admission.no_cross_namespace_backend_test

import data.chancery.admission.no_cross_namespace_backend as p

index := {
	"services": {"bank/ledger": {"namespace": "bank", "name": "ledger"}},
	"grants": {"open": [{"from": [{"group": "getambassador.io", "kind": "Mapping", "namespace": "shop"}], "to": [{"group": "", "kind": "Service"}]}]},
}

judged(service) := found if {
	found := p.deny with input as {"object": {"kind": "Mapping", "metadata": {"namespace": "shop"}, "spec": {"service": service}}}
		with data.chancery.index as index
}

test_own if count(judged("cart:8080")) == 0

test_own_by_name if count(judged("http://cart.shop.svc.cluster.local:80")) == 0

test_foreign if count(judged("https://ledger.bank:443")) == 1

test_foreign_long if count(judged("ledger.bank.svc")) == 1

test_outside if count(judged("api.example")) == 0

test_granted if count(judged("x.open.svc")) == 0
