// Package deploy holds what is applied to a cluster: the custom resource definitions (crds.yaml) and the install
// manifest (install.yaml), whose permissions are made from the list of kinds that the program reads and writes.
package deploy

import (
	"bytes"
	_ "embed"
	"fmt"
	"slices"
	"text/template"

	policy "github.com/chancery-gateway/chancery/policies/api"
	"github.com/chancery-gateway/chancery/runtime/modules"
	"github.com/chancery-gateway/chancery/runtime/status"
	"github.com/chancery-gateway/chancery/runtime/webhook"
	"github.com/chancery-gateway/chancery/snapshot/kube"
)

//go:generate go run ./generate crds.yaml install.yaml
//go:generate go run ./generate/apiext apiext.yaml beside.yaml

// CRDs are the custom resource definitions, a YAML stream.
//
//go:embed crds.yaml
var CRDs []byte

//go:embed install.yaml.tmpl
var install string

// Install returns the install manifest of a version, a YAML stream. The definitions of our own kinds, with which
// platform teams govern the compiler and configure its modules, are in it: unlike those of Emissary-ingress nobody else brings them.
func Install(version string) ([]byte, error) {
	t, err := template.New("install").Parse(install)
	if err != nil {
		return nil, fmt.Errorf("install manifest: %w", err)
	}
	var out bytes.Buffer
	everywhere, own := Permissions()
	err = t.Execute(&out, map[string]any{"Version": version, "Everywhere": everywhere, "Own": own})
	if err != nil {
		return nil, fmt.Errorf("install manifest: %w", err)
	}
	definitions, err := OwnDefinitions()
	if err != nil {
		return nil, fmt.Errorf("install manifest: %w", err)
	}
	out.WriteString("---\n")
	out.Write(definitions)
	return out.Bytes(), nil
}

// OwnDefinitions returns the definitions of our own kinds, a YAML stream.
func OwnDefinitions() ([]byte, error) {
	governing, err := policy.Definitions()
	if err != nil {
		return nil, err
	}
	return slices.Concat(governing, []byte("---\n"), modules.Definition), nil
}

// Permissions returns the least that the program needs: what it reads and writes everywhere, and what it needs in its own
// namespace only.
func Permissions() (everywhere, own []status.Permission) {
	read := []string{"get", "list", "watch"}
	add := func(group, resource string) {
		at := slices.IndexFunc(everywhere, func(p status.Permission) bool { return p.Group == group })
		if at < 0 {
			at, everywhere = len(everywhere), append(everywhere, status.Permission{Group: group, Verbs: read})
		}
		everywhere[at].Resources = append(everywhere[at].Resources, resource)
	}
	for _, r := range kube.Resources() {
		add(r.Group, r.Name)
	}
	add("apiextensions.k8s.io", "customresourcedefinitions")
	for _, p := range status.Permissions() {
		if p.Own {
			own = append(own, p)
		} else {
			everywhere = append(everywhere, p)
		}
	}
	for _, p := range webhook.Permissions() {
		if p.Own {
			own = append(own, p)
		} else {
			everywhere = append(everywhere, p)
		}
	}
	return everywhere, own
}
