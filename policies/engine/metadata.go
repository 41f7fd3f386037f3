package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	gojson "github.com/go-json-experiment/json"
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/chancery-gateway/chancery/policies/api"
	"github.com/chancery-gateway/chancery/policies/schema"
	"github.com/chancery-gateway/chancery/snapshot"
	kinds "github.com/chancery-gateway/chancery/snapshot/api"
)

// Meta is what the METADATA block of a policy's package says.
type Meta struct {
	Title, Description string
	// ID is custom.id; "" for the last part of the package's name.
	ID string
	// Severity is custom.severity, free text for reports.
	Severity string
	// Parameters is custom.parameters, a JSON schema; nil for none declared.
	Parameters map[string]any
	// Defaults is custom.defaults: the parameters when the policy object gives none.
	Defaults map[string]any
	// Spec has the fields of a PolicySpec that custom sets: match, enforcement, points, priority, onDeny, onFailure, writes, deadline.
	Spec api.PolicySpec

	schema *ast.Term
}

// specFields are the fields of a PolicySpec that METADATA may set. What is near one and none is a mistake; anything else is the author's own.
var specFields = []string{"match", "enforcement", "points", "priority", "onDeny", "onFailure", "writes", "deadline"}

// mistaken returns what there is to say of a kind in a match that no object will ever have, because a known one was meant.
func mistaken(name string) (message, help string) {
	var known []string
	for _, k := range schema.Kinds {
		if known = append(known, k.Kind); name == k.Kind {
			return "", ""
		}
	}
	if help = kinds.DidYouMean(name, known); help == "" || strings.Contains(name, ".") {
		return "", "" // a kind of somebody's own
	}
	return fmt.Sprintf("match.kinds: no kind is called %q; the policy judges nothing by that name", name), help
}

// metaOf reads the METADATA of a package from its modules.
func metaOf(mods []*module) (*Meta, []snapshot.Diagnostic) {
	out := &Meta{}
	for _, m := range mods {
		a := m.annotation()
		if a == nil {
			continue
		}
		out.Title, out.Description = a.Title, strings.TrimSpace(a.Description)
		fail := func(format string, args ...any) (*Meta, []snapshot.Diagnostic) {
			return out, []snapshot.Diagnostic{m.about(codeMetadata, a.Location, fmt.Sprintf(format, args...), "")}
		}
		custom := map[string]any{}
		for k, v := range a.Custom {
			switch k {
			case "id":
				out.ID, _ = v.(string)
			case "severity":
				out.Severity, _ = v.(string)
			case "parameters":
				p, ok := v.(map[string]any)
				if !ok {
					return fail("custom.parameters is no JSON schema")
				}
				out.Parameters = p
			case "defaults":
				p, ok := v.(map[string]any)
				if !ok {
					return fail("custom.defaults is no object")
				}
				out.Defaults = p
			default:
				if slices.Contains(specFields, k) {
					custom[k] = v
				} else if near := kinds.DidYouMean(k, slices.Concat([]string{"severity", "parameters", "defaults"}, specFields)); near != "" {
					return fail("custom.%s is not known; %s", k, near)
				}
			}
		}
		text, err := json.Marshal(custom)
		if err == nil {
			err = gojson.Unmarshal(text, &out.Spec, gojson.RejectUnknownMembers(true))
		}
		if err != nil {
			return fail("custom fields cannot be read: %v", err)
		}
		if e := out.Spec.Enforcement; e != "" && !slices.Contains(enforcements, e) {
			return fail("custom.enforcement %q is not known; right is deny, warn, dryrun or audit", e)
		}
		if out.Parameters != nil {
			if out.schema, err = compileSchema(out.Parameters); err != nil {
				return fail("custom.parameters is no JSON schema: %v", err)
			}
		}
	}
	return out, nil
}

// call calls a builtin of OPA that rules themselves may not call.
func call(b *ast.Builtin, operands ...*ast.Term) (out ast.Value, err error) {
	caps := ast.CapabilitiesForThisVersion()
	caps.AllowNet = []string{} // a schema must not be fetched
	err = topdown.GetBuiltin(b.Name)(topdown.BuiltinContext{Context: context.Background(), Capabilities: caps}, operands, func(t *ast.Term) error {
		out = t.Value
		return nil
	})
	return out, err
}

// compileSchema checks that the document is a JSON schema.
func compileSchema(doc map[string]any) (*ast.Term, error) {
	v, err := ast.InterfaceToValue(doc)
	if err != nil {
		return nil, err
	}
	schema := ast.NewTerm(v)
	out, err := call(ast.JSONSchemaVerify, schema)
	if err != nil {
		return nil, err
	}
	if pair, ok := out.(*ast.Array); ok && pair.Len() == 2 {
		if s, ok := pair.Elem(1).Value.(ast.String); ok {
			return nil, errors.New(strings.TrimPrefix(string(s), "jsonschema: "))
		}
	}
	return schema, nil
}

// parameters joins what the policy object gives with the defaults and checks the result. path and message say what is wrong.
func (m *Meta) parameters(given []byte) (value *ast.Term, path, message string) {
	doc := map[string]any{}
	for k, v := range m.Defaults {
		doc[k] = v
	}
	if len(given) > 0 {
		var own map[string]any
		if err := json.Unmarshal(given, &own); err != nil {
			return nil, "spec.parameters", "parameters are no object"
		}
		for k, v := range own {
			doc[k] = v
		}
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, "spec.parameters", err.Error()
	}
	if m.schema != nil {
		if path, message := m.misfit(text); message != "" {
			return nil, "spec.parameters" + path, message
		}
	} else if len(given) > 0 && m.Parameters == nil && m.Defaults == nil && len(doc) > 0 {
		return nil, "spec.parameters", "the policy declares no parameters"
	}
	t, err := ast.ParseTerm(string(text))
	if err != nil {
		return nil, "spec.parameters", err.Error()
	}
	t.Value.Hash()
	return t, "", ""
}

// misfit says where and how a document misses the schema; "" when it fits.
func (m *Meta) misfit(text []byte) (path, message string) {
	doc, err := ast.ParseTerm(string(text))
	if err != nil {
		return "", err.Error()
	}
	out, err := call(ast.JSONMatchSchema, doc, m.schema)
	if err != nil {
		return "", err.Error()
	}
	plain, err := ast.JSON(out)
	if err != nil {
		return "", err.Error()
	}
	pair, ok := plain.([]any)
	if !ok || len(pair) != 2 || pair[0] == true {
		return "", ""
	}
	faults, _ := pair[1].([]any)
	for _, f := range faults {
		if fault, ok := f.(map[string]any); ok {
			field, _ := fault["field"].(string)
			text, _ := fault["desc"].(string)
			if field != "" && field != "(root)" {
				path = "." + field
			}
			return path, text
		}
	}
	return "", "does not fit the schema"
}
