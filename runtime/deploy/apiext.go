package deploy

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"text/template"

	"go.yaml.in/yaml/v3"

	"github.com/chancery-gateway/chancery/runtime/apiext"
	"github.com/chancery-gateway/chancery/runtime/status"
)

//go:embed apiext.yaml.tmpl
var apiextManifest string

// Apiext returns the manifest of the conversion webhook of a version, a YAML stream: first what runs it, under the names
// that it has in Emissary's installation, then the definitions that ask it.
func Apiext(version string) ([]byte, error) {
	crds, names, err := ConvertedCRDs(apiext.Service, apiext.Namespace)
	if err != nil {
		return nil, err
	}
	var everywhere, own []status.Permission
	for _, p := range apiext.Permissions(names) {
		if p.Own {
			own = append(own, p)
		} else {
			everywhere = append(everywhere, p)
		}
	}
	t, err := template.New("apiext").Parse(apiextManifest)
	if err != nil {
		return nil, fmt.Errorf("manifest of apiext: %w", err)
	}
	const part = "app.kubernetes.io/"
	labels := "{" + part + "instance: " + apiext.Service + ", " + part + "name: " + apiext.Service + ", " + part + "part-of: " + apiext.Service + "}"
	var out bytes.Buffer
	err = t.Execute(&out, map[string]any{"Version": version, "Service": apiext.Service, "Namespace": apiext.Namespace, "Labels": labels,
		"Everywhere": everywhere, "Own": own})
	if err != nil {
		return nil, fmt.Errorf("manifest of apiext: %w", err)
	}
	out.Write(crds)
	return out.Bytes(), nil
}

// ConvertedCRDs returns the definitions, a YAML stream, with a Service as what converts between their versions, and the
// names of those that have several.
func ConvertedCRDs(service, namespace string) (stream []byte, names []string, err error) {
	var out bytes.Buffer
	for d := yaml.NewDecoder(bytes.NewReader(CRDs)); ; {
		var crd struct {
			APIVersion string         `yaml:"apiVersion"`
			Kind       string         `yaml:"kind"`
			Metadata   map[string]any `yaml:"metadata"`
			Spec       map[string]any `yaml:"spec"`
		}
		if err := d.Decode(&crd); errors.Is(err, io.EOF) {
			return out.Bytes(), names, nil
		} else if err != nil {
			return nil, nil, fmt.Errorf("definitions: %w", err)
		}
		if versions, _ := crd.Spec["versions"].([]any); len(versions) > 1 {
			names = append(names, fmt.Sprint(crd.Metadata["name"]))
			crd.Spec["conversion"] = map[string]any{"strategy": "Webhook", "webhook": map[string]any{
				"clientConfig":             map[string]any{"service": map[string]any{"name": service, "namespace": namespace, "path": apiext.Path}},
				"conversionReviewVersions": []string{"v1"},
			}}
		}
		out.WriteString("---\n")
		e := yaml.NewEncoder(&out)
		e.SetIndent(2)
		if err := e.Encode(crd); err != nil {
			return nil, nil, fmt.Errorf("definitions: %w", err)
		}
	}
}
