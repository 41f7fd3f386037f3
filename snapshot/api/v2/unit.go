package v2

// together lists, by kind, the fields that are converted together, beside those that have another name in v3alpha1. No
// other field's conversion looks at a second one.
var together = map[string][][]string{
	"AuthService":      {{"auth_service", "tls", "v2ExplicitTLS"}},
	"RateLimitService": {{"service", "tls", "v2ExplicitTLS"}},
	"TCPMapping":       {{"service", "tls", "v2ExplicitTLS"}},
	"TracingService":   {{"custom_tags", "tag_headers", "v3CustomTags"}},
	"Mapping": {
		{"service", "tls", "v2ExplicitTLS"},
		{"hostname", "host", "host_regex"},
		{"headers", "regex_headers", "v2BoolHeaders"},
		{"query_parameters", "regex_query_parameters", "v2BoolQueryParameters"},
	},
}

// units holds, by kind and field, the first field of those that are converted together.
var units = func() map[string]map[string]string {
	all := map[string]map[string]string{}
	enter := func(kind string, fields []string) {
		if all[kind] == nil {
			all[kind] = map[string]string{}
		}
		for _, f := range fields {
			all[kind][f] = fields[0]
		}
	}
	for kind, pairs := range renamed {
		for _, pair := range pairs {
			enter(kind, []string{pair[1], pair[0]})
		}
	}
	for kind, groups := range together {
		for _, group := range groups {
			enter(kind, group)
		}
	}
	return all
}()

// Unit returns the name of the unit of conversion that a field of a spec belongs to, in v2 or v3alpha1: the fields of one
// unit are converted together and without a look at any other. The name is that of one of its fields.
func Unit(kind, field string) string {
	if field == "ambassadorId" {
		return "ambassador_id"
	}
	if first, ok := units[kind][field]; ok {
		return first
	}
	return field
}
