// Package v1 reads Emissary's custom resources of the version getambassador.io/v1.
package v1

import "github.com/go-json-experiment/json/jsontext"

// Convert returns the spec in the form of version v2. Both versions have the same specs, so it is the spec itself; v1
// survives as a version because clusters still store it. Source: Emissary's CRDs.
func Convert(kind string, spec jsontext.Value) jsontext.Value { return spec }
