package main

import "slices"

// How a field of v3alpha1 stands in v2 and v1, if not under its own name.
const (
	// absent fields are younger than v2.
	absent = "-"
	// anything marks fields that take values of several types, such as a string or a list, which no structural schema can say; the
	// conversion understands them, and the admission webhook judges them.
	anything = "*"
	// object marks objects whose members take such values.
	object = "{}"
	// optional fields are required in v3alpha1 only.
	optional = "?"
	// groups marks labels: domains hold lists of groups, each an object of one member whose labels are of several types.
	groups = "{}[]{}"
)

// inV2 lists the fields of v3alpha1 that are not the same in v2 and v1, by kind ("" for all) and path; what is none of the
// marks above is a name. Source: Emissary's definitions.
var inV2 = map[string]map[string]string{
	"":                 {"ambassador_id": anything},
	"AuthService":      {"tls": anything, "stats_name": "v3StatsName", "circuit_breakers": "v3CircuitBreakers", "v2ExplicitTLS": absent},
	"Host":             {"mappingSelector": absent, "tls.crl_secret": "v3CRLSecret"},
	"Module":           {"config": optional},
	"LogService":       {"stats_name": "v3StatsName", "protocol_version": "v3ProtocolVersion"},
	"RateLimitService": {"tls": anything, "stats_name": "v3StatsName", "grpc": "v3GRPC", "v2ExplicitTLS": absent},
	"TCPMapping":       {"tls": anything, "stats_name": "v3StatsName", "v2ExplicitTLS": absent},
	"TLSContext":       {"crl_secret": "v3CRLSecret"},
	"TracingService":   {"stats_name": "v3StatsName", "custom_tags": "v3CustomTags", "config.propagation_modes": "v3PropagationModes"},
	"Mapping": {
		"tls": anything, "stats_name": "v3StatsName", "health_checks": "v3health_checks", "hostname": absent,
		"v2ExplicitTLS": absent, "v2BoolHeaders": absent, "v2BoolQueryParameters": absent,
		"headers": object, "query_parameters": object, "add_request_headers": object, "add_response_headers": object,
		"remove_request_headers": anything, "remove_response_headers": anything, "labels": groups,
		"cors.origins": anything, "cors.methods": anything, "cors.headers": anything, "cors.exposed_headers": anything,
		"cors.v2CommaSeparatedOrigins": absent,
	},
}

// older returns the schema of a spec in v2 and v1. Whatever Emissary's definitions take is taken.
func older(kind string, schema map[string]any, at string) map[string]any {
	out := map[string]any{}
	for name, value := range schema {
		out[name] = value
	}
	properties, ok := schema["properties"].(map[string]any)
	if !ok {
		return out
	}
	var gone []any
	changed := map[string]any{}
	for name, value := range properties {
		property := value.(map[string]any)
		path := at + name
		how := inV2[kind][path]
		if how == "" {
			how = inV2[""][path]
		}
		loose := map[string]any{"x-kubernetes-preserve-unknown-fields": true}
		if description, has := property["description"]; has {
			loose["description"] = description
		}
		switch how {
		case "":
			changed[name] = older(kind, property, path+".")
		case absent:
			gone = append(gone, name)
		case optional:
			gone = append(gone, name)
			changed[name] = property
		case anything:
			loose["nullable"] = true // an explicit null is kept, too
			changed[name] = loose
		case object, groups:
			loose["type"] = "object"
			if how == groups {
				delete(loose, "x-kubernetes-preserve-unknown-fields")
				loose["additionalProperties"] = map[string]any{"type": "array", "items": map[string]any{
					"type": "object", "minProperties": 1, "maxProperties": 1, "x-kubernetes-preserve-unknown-fields": true,
				}}
			}
			changed[name] = loose
		default:
			changed[how] = property
		}
	}
	out["properties"] = changed
	if required, has := schema["required"].([]any); has {
		out["required"] = slices.DeleteFunc(slices.Clone(required), func(name any) bool { return slices.Contains(gone, name) })
	}
	return out
}

// olderColumns returns the printer columns of v2 and v1, where a Mapping has one host.
func olderColumns(kind string, columns any) any {
	list, ok := columns.([]any)
	if !ok || kind != "Mapping" {
		return columns
	}
	out := []any{}
	for _, column := range list {
		c := map[string]any{}
		for name, value := range column.(map[string]any) {
			c[name] = value
		}
		if c["jsonPath"] == ".spec.hostname" {
			c["jsonPath"] = ".spec.host"
		}
		out = append(out, c)
	}
	return out
}
