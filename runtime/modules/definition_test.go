package modules

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/chancery-gateway/chancery/wasm"
)

// TestDefinition: the definition of Translator has the fields that are read, and no others.
func TestDefinition(t *testing.T) {
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema struct{ Properties map[string]schema } `yaml:"openAPIV3Schema"`
				}
			}
		}
	}
	if err := yaml.Unmarshal(Definition, &crd); err != nil {
		t.Fatal(err)
	}
	compare(t, "spec", crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"], reflect.TypeFor[wasm.Document]())
}

type schema struct {
	Type       string
	Properties map[string]schema
	Items      *schema
	Keep       bool `yaml:"x-kubernetes-preserve-unknown-fields"`
}

func compare(t *testing.T, path string, s schema, of reflect.Type) {
	t.Helper()
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch {
	case of == reflect.TypeFor[json.RawMessage]():
		if !s.Keep {
			t.Errorf("%s is to be kept whatever it is", path)
		}
	case of.Kind() == reflect.Slice:
		if s.Type != "array" || s.Items == nil {
			t.Errorf("%s is a list, but the schema says %q", path, s.Type)
			return
		}
		compare(t, path+"[]", *s.Items, of.Elem())
	case of.Kind() == reflect.Struct:
		var fields []string
		for i := range of.NumField() {
			f := of.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			fields = append(fields, name)
			if sub, there := s.Properties[name]; there {
				compare(t, path+"."+name, sub, f.Type)
			} else {
				t.Errorf("the schema has no %s.%s", path, name)
			}
		}
		for name := range s.Properties {
			if !slices.Contains(fields, name) {
				t.Errorf("the schema has %s.%s, which nobody reads", path, name)
			}
		}
	default:
		want := map[reflect.Kind]string{reflect.String: "string", reflect.Bool: "boolean", reflect.Float64: "number"}[of.Kind()]
		if want == "" {
			want = "integer"
		}
		if s.Type != want {
			t.Errorf("%s is of type %q; %s is read", path, s.Type, want)
		}
	}
}
