package api

import (
	"bytes"
	"maps"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/chancery-gateway/chancery/policies/schema"
)

// definition is one kind for the API server.
type definition struct {
	kind, plural, scope string
	spec                reflect.Type
	required            []string
	// checks are what the schema says beyond types, by the field's path below spec ("" for spec itself, "[]" for the items of a list):
	// what the reader refuses, in its words, and nothing else.
	checks map[string]map[string]any
	// whole are rules about the object.
	whole   []any
	columns []any
}

// column is printed by `kubectl get`.
func column(name, path string) any {
	return map[string]any{"name": name, "type": "string", "jsonPath": path}
}

// outcome are the columns that every kind ends with.
func outcome(columns ...any) []any {
	return append(columns, column("Programmed", `.status.conditions[?(@.type=="Programmed")].status`),
		map[string]any{"name": "Reason", "type": "string", "jsonPath": `.status.conditions[?(@.type=="Programmed")].message`, "priority": 1},
		map[string]any{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"})
}

// rule is one in CEL, with what is said when it does not hold.
func rule(cel, message string) any { return map[string]any{"rule": cel, "message": message} }

// must is a schema with rules and, between them, other keywords and values.
func must(rules []any, more ...any) map[string]any {
	out := map[string]any{"x-kubernetes-validations": rules}
	for i := 0; i < len(more); i += 2 {
		out[more[i].(string)] = more[i+1]
	}
	return out
}

// one is a schema of the values that a field may have.
func one(of ...any) map[string]any { return map[string]any{"enum": of} }

// exact is a text of an exception, which is there and no pattern.
var exact = must([]any{rule(`self.matches('\\S')`, "it is required"), rule(`!self.contains('*')`, "an exception names one policy and one object exactly")})

// moment is how a time in RFC 3339 looks; which days a month has is left to the reader.
const moment = `^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01]?[0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.,][0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$`

var definitions = []definition{
	{kind: "Policy", plural: "policies", scope: "Namespaced", spec: reflect.TypeFor[PolicySpec](),
		checks: map[string]map[string]any{
			"": must([]any{rule(`[has(self.rego) && self.rego != '', has(self.library) && self.library != '', has(self.package) && self.package != ''].filter(is, is).size() == 1`,
				"set exactly one of rego, library and package")}),
			"enforcement": one("", "deny", "warn", "dryrun", "audit"), "points[]": one("cli", "webhook", "compile", "audit"),
			"onDeny": one("", "remove", "keepLastGood"), "onFailure": one("", "closed", "open"),
			"deadline": must([]any{rule(`self == '' || self.matches('^[+]?(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+$') && duration(self) > duration('0s') && duration(self) <= duration('10s')`,
				"a duration such as 50ms, at most 10s, is wanted")}),
			"writes": {"maxItems": maxWrites},
			"writes[]": must([]any{rule(`self.matches('^(spec|metadata[.]labels|metadata[.]annotations)([.]|$)')`,
				"a path below spec, metadata.labels or metadata.annotations is wanted")}, "maxLength", maxPath),
		},
		columns: outcome(column("Library", ".spec.library"), column("Package", ".spec.package"), column("Enforcement", ".spec.enforcement"))},
	{kind: "PolicyException", plural: "policyexceptions", scope: "Namespaced", spec: reflect.TypeFor[ExceptionSpec](),
		required: []string{"policy", "target", "owner", "reason", "expires"},
		checks: map[string]map[string]any{
			"policy": exact, "owner": exact, "reason": must([]any{rule(`self.matches('\\S')`, "it is required")}),
			"target": {"required": []any{"kind", "name"}}, "target.kind": exact, "target.name": exact,
			"expires": must([]any{rule(`self.matches('`+moment+`')`, "a time such as 2026-12-31T00:00:00Z is wanted")}, "maxLength", 255),
		},
		columns: outcome(column("Policy", ".spec.policy"), column("Kind", ".spec.target.kind"), column("Object", ".spec.target.name"), column("Owner", ".spec.owner"), column("Expires", ".spec.expires"))},
	{kind: "Tenant", plural: "tenants", scope: "Cluster", spec: reflect.TypeFor[TenantSpec](), required: []string{"owner"},
		checks: map[string]map[string]any{
			"": must([]any{rule(`has(self.namespaces) && self.namespaces.size() > 0 || has(self.namespaceSelector) && self.namespaceSelector.size() > 0`,
				"the tenant has no namespace: set namespaces or namespaceSelector")}),
			"owner": must([]any{rule(`self != ''`, "the owner is missing: who answers for the tenant")}),
			"hosts": {"maxItems": maxHosts},
			"hosts[]": must([]any{rule(`self != '' && self.matches('^([*][.])?[^* /:A-Z]*$')`,
				"a lower-case name such as shop.example.com or *.shop.example.com is wanted")}, "maxLength", maxHost),
			"limits{}": {"minimum": 0},
		},
		whole:   []any{rule(`!self.metadata.name.contains('.')`, "the name of a Tenant has no dot: it can be part of a package")},
		columns: outcome(column("Owner", ".spec.owner"), column("Namespaces", ".spec.namespaces"))},
}

// ClusterScoped returns the plural names of this package's kinds that lie in no namespace.
func ClusterScoped() []string {
	var out []string
	for _, d := range definitions {
		if d.scope == "Cluster" {
			out = append(out, d.plural)
		}
	}
	return out
}

// Definitions returns the CustomResourceDefinitions of this package's kinds as YAML, made from the Go types.
func Definitions() ([]byte, error) {
	out := &bytes.Buffer{}
	e := yaml.NewEncoder(out)
	e.SetIndent(2)
	for _, d := range definitions {
		spec := structural(schema.Of(d.spec))
		if len(d.required) > 0 {
			spec["required"] = d.required
		}
		for path, more := range d.checks {
			maps.Copy(at(spec, path), more)
		}
		root := map[string]any{"type": "object", "required": []string{"spec"}, "properties": map[string]any{
			"apiVersion": map[string]any{"type": "string"}, "kind": map[string]any{"type": "string"}, "metadata": map[string]any{"type": "object"},
			"spec": spec, "status": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
		}}
		if len(d.whole) > 0 {
			root["x-kubernetes-validations"] = d.whole
		}
		crd := map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": map[string]any{"name": d.plural + "." + Group,
				"labels": map[string]any{"app.kubernetes.io/part-of": "chancery", "app.kubernetes.io/component": "crds"}},
			"spec": map[string]any{
				"group": Group, "scope": d.scope,
				"names": map[string]any{"kind": d.kind, "listKind": d.kind + "List", "plural": d.plural, "singular": strings.ToLower(d.kind)},
				"versions": []any{map[string]any{
					"name": Version, "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
					"additionalPrinterColumns": d.columns,
					"schema":                   map[string]any{"openAPIV3Schema": root},
				}},
			},
		}
		if err := e.Encode(crd); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), e.Close()
}

// at returns the schema of a field by its path.
func at(schema map[string]any, path string) map[string]any {
	for step := range strings.SplitSeq(path, ".") {
		name := strings.TrimRight(step, "[]{}")
		if name != "" {
			schema = schema["properties"].(map[string]any)[name].(map[string]any)
		}
		switch step[len(name):] {
		case "[]":
			schema = schema["items"].(map[string]any)
		case "{}":
			schema = schema["additionalProperties"].(map[string]any)
		}
	}
	return schema
}

// structural makes a schema fit for the API server: what may be anything says so, and whole numbers are integers. Names that
// the schema does not know are kept, so that Chancery tells their author what was meant, where pruning would lose a typing
// mistake without a word.
func structural(s map[string]any) map[string]any {
	if len(s) == 0 {
		return map[string]any{"x-kubernetes-preserve-unknown-fields": true}
	}
	out := map[string]any{}
	for k, v := range s {
		switch v := v.(type) {
		case map[string]any:
			if k == "properties" {
				all := map[string]any{}
				for name, property := range v {
					all[name] = structural(property.(map[string]any))
				}
				out[k], out["x-kubernetes-preserve-unknown-fields"] = all, true
			} else {
				out[k] = structural(v)
			}
		case string:
			if k == "type" && v == "number" {
				v = "integer"
			}
			out[k] = v
		default:
			out[k] = v
		}
	}
	return out
}
