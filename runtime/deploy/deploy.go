// Package deploy holds what is applied to a cluster: the custom resource definitions and the install manifest.
package deploy

import _ "embed"

//go:generate go run ./generate crds.yaml

// CRDs are the custom resource definitions, a YAML stream.
//
//go:embed crds.yaml
var CRDs []byte
