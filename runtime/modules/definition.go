package modules

import _ "embed"

// Definition is the CustomResourceDefinition of Translator, as YAML.
//
//go:embed translator.yaml
var Definition []byte
