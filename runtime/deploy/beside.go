package deploy

import (
	"bytes"
	_ "embed"
	"fmt"
	"text/template"

	"github.com/chancery-gateway/chancery/runtime/apiext"
	"github.com/chancery-gateway/chancery/runtime/status"
)

//go:embed beside.yaml.tmpl
var beside string

// Beside returns what an installation that converts between versions in the gateway's own process needs beside the install
// manifest, a YAML stream.
func Beside() ([]byte, error) {
	_, names, err := ConvertedCRDs(apiext.Service, apiext.Namespace)
	if err != nil {
		return nil, err
	}
	var everywhere []status.Permission // the authority is that of the admission webhook, whose Secret the install manifest grants
	for _, p := range apiext.Permissions(names) {
		if !p.Own {
			everywhere = append(everywhere, p)
		}
	}
	t, err := template.New("beside").Parse(beside)
	if err != nil {
		return nil, fmt.Errorf("manifest beside the gateway: %w", err)
	}
	var out bytes.Buffer
	if err := t.Execute(&out, everywhere); err != nil {
		return nil, fmt.Errorf("manifest beside the gateway: %w", err)
	}
	return out.Bytes(), nil
}
