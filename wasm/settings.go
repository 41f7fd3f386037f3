package wasm

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/chancery-gateway/chancery/wasm/fault"
)

const schemaAddress = "chancery:settings"

var printer = message.NewPrinter(language.English)

// noLoader refuses references to other documents: a schema stands alone.
type noLoader struct{}

// Load returns an error.
func (noLoader) Load(address string) (any, error) {
	return nil, fmt.Errorf("the schema refers to %q; it must stand alone", address)
}

// compileSchema reads a JSON Schema; nil stands for "no settings".
func compileSchema(schema []byte) (*jsonschema.Schema, error) {
	if len(schema) == 0 {
		return nil, nil
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if err := c.AddResource(schemaAddress, doc); err != nil {
		return nil, err
	}
	return c.Compile(schemaAddress)
}

// checkSettings judges the operator's settings by the schema of the manifest.
func checkSettings(schema, settings []byte) error {
	s, err := compileSchema(schema)
	if err != nil {
		return fault.New(fault.Manifest, "settings: %s", escape(err.Error(), 500))
	}
	if s == nil {
		if len(settings) > 0 {
			return fault.New(fault.Settings, "settings: the module takes none")
		}
		return nil
	}
	if len(settings) == 0 {
		settings = []byte("{}")
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(settings))
	if err != nil {
		return fault.New(fault.Settings, "settings: %s", escape(err.Error(), 500))
	}
	if err := s.Validate(doc); err != nil {
		if v, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
			for len(v.Causes) > 0 {
				v = v.Causes[0]
			}
			path := "settings"
			for _, p := range v.InstanceLocation {
				path += "." + p
			}
			return fault.New(fault.Settings, "%s: %s", path, escape(v.ErrorKind.LocalizedString(printer), 500))
		}
		return fault.New(fault.Settings, "settings: %s", escape(err.Error(), 500))
	}
	return nil
}
