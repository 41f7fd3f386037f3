package chancery.admission.ownership_labels_test

import data.chancery.admission.ownership_labels as p

judged(meta) := found if {
	found := p.deny with input as {"object": {"kind": "Mapping", "metadata": meta}, "parameters": {"labels": ["owner"], "name": "^[a-z-]+$"}}
}

test_good if count(judged({"name": "shop", "labels": {"owner": "anna"}})) == 0

test_no_labels if count(judged({"name": "shop"})) == 1

test_empty_label if count(judged({"name": "shop", "labels": {"owner": ""}})) == 1

test_name if count(judged({"name": "shop1", "labels": {"owner": "anna"}})) == 1
