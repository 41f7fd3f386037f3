package api

import "github.com/chancery-gateway/chancery/snapshot"

// Findings about the objects themselves.
var (
	codeShape = snapshot.NewCode("CH-POLICY-001", "policy object with a wrong field",
		"A Policy, Tenant or PolicyException has a field of the wrong type, or one that its kind does not have.",
		"Correct the field; the message says what is expected.")
	codeValue = snapshot.NewCode("CH-POLICY-002", "policy object with an unusable value",
		"A field of a Policy, Tenant or PolicyException has a value that means nothing, or a required one is missing.",
		"Correct the value; the message says what is expected.")
	codeOverlap = snapshot.NewCode("CH-POLICY-003", "tenants that overlap",
		"Two Tenants claim the same namespace or the same host names; the older one has it, and the other goes without.",
		"Give every namespace and host name to one Tenant.")
	codeExpiry = snapshot.NewCode("CH-POLICY-004", "exception without a usable expiry",
		"A PolicyException must end: expires is missing or is no time.",
		"Set spec.expires to a time such as 2026-12-31T00:00:00Z.")
)
