package wasm

import (
	"embed"

	"github.com/chancery-gateway/chancery/wasm/abi"
)

// Permit returns nil when the spec grants everything that the manifest asks for.
func Permit(m *abi.Manifest, s Spec) error { return s.admit(m) }

// SDK holds the sources of the guest SDK and of the ABI, for new modules: sdk/*.go and abi/*.go.
//
//go:embed sdk/*.go abi/*.go
var SDK embed.FS
