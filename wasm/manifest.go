package wasm

import (
	"bytes"
	"encoding/json"

	"github.com/chancery-gateway/chancery/wasm/abi"
	"github.com/chancery-gateway/chancery/wasm/fault"
	"github.com/chancery-gateway/chancery/wasm/fuel"
)

// SetManifest returns the module with the manifest in its custom section, in place of any that is there. The manifest is
// checked; white space that says nothing is left out.
func SetManifest(module, manifest []byte) ([]byte, error) {
	if _, err := ParseManifest(manifest); err != nil {
		return nil, err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, manifest); err != nil {
		return nil, fault.New(fault.Manifest, "manifest: %w", err)
	}
	bare, err := fuel.DropSections(module, abi.ManifestSection)
	if err != nil {
		return nil, refusal(err)
	}
	return fuel.AppendSection(bare, fuel.Section{Name: abi.ManifestSection, Content: compact.Bytes()}), nil
}
