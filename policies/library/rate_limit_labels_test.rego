package chancery.admission.rate_limit_labels_test

import data.chancery.admission.rate_limit_labels as p

mapping(labels, required) := {"object": {"kind": "Mapping", "spec": {"labels": labels}}, "parameters": {"domain": "ambassador", "required": required}}

test_good if {
	found := p.deny with input as mapping({"ambassador": [{"r": ["x"]}]}, true)
	count(found) == 0
}

test_none if {
	found := p.deny with input as mapping({}, true)
	count(found) == 1
}

test_empty if {
	found := p.warn with input as mapping({"ambassador": []}, false)
	count(found) == 1
}
