package apiext

import "github.com/chancery-gateway/chancery/runtime/status"

// Permissions returns what the server must be allowed to do, for definitions of these names. Whoever holds Emissary's
// role for its apiext holds more.
func Permissions(definitions []string) []status.Permission {
	return []status.Permission{
		{Group: "apiextensions.k8s.io", Resources: []string{"customresourcedefinitions"}, Verbs: []string{"list", "watch"}},
		{Group: "apiextensions.k8s.io", Resources: []string{"customresourcedefinitions"}, Verbs: []string{"update"}, Names: definitions},
		{Resources: []string{"secrets"}, Verbs: []string{"create"}, Own: true},
		{Resources: []string{"secrets"}, Verbs: []string{"get", "update"}, Names: []string{Secret}, Own: true},
	}
}
