# METADATA
# title: Owner label
# description: Every Mapping says who answers for it.
# custom:
#   severity: low
#   match: {kinds: [Mapping]}
package chancery.admission.owner

# METADATA
# title: the label is there
deny contains {"msg": "label owner is missing", "path": "metadata.labels"} if not input.object.metadata.labels.owner

# METADATA
# title: the label names the tenant
warn contains {"msg": sprintf("owner %q is not tenant %q", [owner, input.tenant.name]), "path": "metadata.labels.owner"} if {
	owner := input.object.metadata.labels.owner
	input.tenant.name != ""
	owner != input.tenant.name
}
