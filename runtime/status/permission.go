package status

// Permission is what the writer must be allowed to do.
type Permission struct {
	Group     string
	Resources []string
	Verbs     []string
	// Names confines it to objects of these names.
	Names []string
	// Own confines it to the namespace that the program runs in.
	Own bool
}

// Permissions returns what the writer must be allowed to do, beside reading Mappings and Hosts.
func Permissions() []Permission {
	out := []Permission{
		{Resources: []string{"events"}, Verbs: []string{"create"}},
		{Group: "coordination.k8s.io", Resources: []string{"leases"}, Verbs: []string{"get", "create", "update"}, Own: true},
	}
	for _, k := range kinds {
		out = append(out, Permission{Group: k.Group, Resources: []string{plural[k] + "/status"}, Verbs: []string{"patch"}})
	}
	return out
}
