package webhook

import "github.com/chancery-gateway/chancery/runtime/status"

// Secret and Configuration are the names of the authority's Secret and of the webhook configurations.
const (
	Secret        = "chancery-webhook"
	Configuration = "chancery"
)

// Permissions returns what the server must be allowed to do.
func Permissions() []status.Permission {
	return []status.Permission{
		{Resources: []string{"secrets"}, Verbs: []string{"create"}, Own: true},
		{Resources: []string{"secrets"}, Verbs: []string{"get", "update"}, Names: []string{Secret}, Own: true},
		{Group: "admissionregistration.k8s.io", Resources: []string{"validatingwebhookconfigurations", "mutatingwebhookconfigurations"},
			Verbs: []string{"get", "patch"}, Names: []string{Configuration}},
	}
}
