package chancery.admission.owner_test

import data.chancery.admission.owner

test_missing if count(owner.deny) == 1 with input as {"object": {"metadata": {"labels": {}}}}

test_other if count(owner.warn) == 1 with input as {"object": {"metadata": {"labels": {"owner": "bob"}}}, "tenant": {"name": "shop"}}

test_own if count(owner.warn | owner.deny) == 0 with input as {"object": {"metadata": {"labels": {"owner": "shop"}}}, "tenant": {"name": "shop"}}
