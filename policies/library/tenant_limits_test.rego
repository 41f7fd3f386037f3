package chancery.admission.tenant_limits_test

import data.chancery.admission.tenant_limits as p

judged(rank) := found if {
	found := p.deny with input as {
		"object": {"kind": "Mapping", "metadata": {"namespace": "shop", "name": "cart"}},
		"tenant": {"name": "shop", "limits": {"Mapping": 2}},
	}
		with data.chancery.index as {"ranks": {"Mapping/shop/cart": rank}}
}

test_within if count(judged(2)) == 0

test_beyond if count(judged(3)) == 1
