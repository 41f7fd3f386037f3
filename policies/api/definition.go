package api

import (
	"bytes"
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
	enums               map[string][]any
	columns             []any
}

func column(name, path string) any {
	return map[string]any{"name": name, "type": "string", "jsonPath": path}
}

var definitions = []definition{
	{kind: "Policy", plural: "policies", scope: "Namespaced", spec: reflect.TypeFor[PolicySpec](),
		enums: map[string][]any{"enforcement": {"deny", "warn", "dryrun", "audit"}, "points": {"cli", "webhook", "compile", "audit"},
			"onDeny": {"remove", "keepLastGood"}, "onFailure": {"closed", "open"}},
		columns: []any{column("Library", ".spec.library"), column("Package", ".spec.package"), column("Enforcement", ".spec.enforcement")}},
	{kind: "PolicyException", plural: "policyexceptions", scope: "Namespaced", spec: reflect.TypeFor[ExceptionSpec](),
		required: []string{"policy", "target", "owner", "reason", "expires"},
		columns:  []any{column("Policy", ".spec.policy"), column("Object", ".spec.target.name"), column("Expires", ".spec.expires")}},
	{kind: "Tenant", plural: "tenants", scope: "Cluster", spec: reflect.TypeFor[TenantSpec](), required: []string{"owner"},
		columns: []any{column("Owner", ".spec.owner")}},
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
		for name, values := range d.enums {
			property := spec["properties"].(map[string]any)[name].(map[string]any)
			if items, list := property["items"].(map[string]any); list {
				property = items
			}
			property["enum"] = values
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
					"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "required": []string{"spec"}, "properties": map[string]any{
						"apiVersion": map[string]any{"type": "string"}, "kind": map[string]any{"type": "string"}, "metadata": map[string]any{"type": "object"},
						"spec": spec, "status": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
					}}},
				}},
			},
		}
		if err := e.Encode(crd); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), e.Close()
}

// structural makes a schema fit for the API server: what may be anything says so, and whole numbers are integers. Names that
// the schema does not know are kept, so that Chancery tells their author what was meant, where pruning would lose a typing
// mistake without a word.
func structural(s map[string]any) map[string]any {
	if len(s) == 0 {
		return map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
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
