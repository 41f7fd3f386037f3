package deploy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	policy "github.com/chancery-gateway/chancery/policies/api"
	"github.com/chancery-gateway/chancery/runtime/apiext"
	"github.com/chancery-gateway/chancery/runtime/status"
	"github.com/chancery-gateway/chancery/snapshot/kube"
)

//go:generate go run ./generate/chart chart

// Rules returns the rules of the Helm chart's roles by file name, YAML lists. They are Permissions, parted by where a role
// can hold them: in a namespace or for the cluster alone, and of the latter what is left with a single namespace.
func Rules() map[string]string {
	everywhere, own := Permissions()
	cluster := map[string]bool{}
	several := map[string]bool{}
	for _, r := range kube.Resources() {
		cluster[r.Group+"/"+r.Name] = r.Cluster
		several[r.Group+"/"+r.Name] = r.SeveralNamespaces()
	}
	for _, name := range policy.ClusterScoped() {
		cluster[policy.Group+"/"+name] = true
	}
	var inNamespaces, forCluster, forClusterSingle []status.Permission
	for _, p := range everywhere {
		named := func(keep func(resource string) bool) status.Permission {
			part := p
			part.Resources = slices.DeleteFunc(slices.Clone(p.Resources), func(r string) bool { return !keep(r) })
			return part
		}
		ofCluster := func(resource string) bool {
			name, _, _ := strings.Cut(resource, "/")
			return cluster[p.Group+"/"+name] || p.Group == "apiextensions.k8s.io" || p.Group == "admissionregistration.k8s.io"
		}
		add := func(to *[]status.Permission, part status.Permission) {
			if len(part.Resources) > 0 {
				*to = append(*to, part)
			}
		}
		add(&inNamespaces, named(func(r string) bool { return !ofCluster(r) }))
		add(&forCluster, named(ofCluster))
		add(&forClusterSingle, named(func(r string) bool { return ofCluster(r) && !several[p.Group+"/"+r] }))
	}
	// The group is read as a whole, which a role of a namespace cannot grant for kinds that lie in none.
	forClusterSingle = append(forClusterSingle, status.Permission{Group: policy.Group, Resources: policy.ClusterScoped(), Verbs: []string{"get", "list", "watch"}})
	var converting []status.Permission
	if _, names, err := ConvertedCRDs(apiext.Service, apiext.Namespace); err == nil { // what is embedded can be read
		for _, p := range apiext.Permissions(names) {
			if !p.Own { // the authority is that of the admission webhook
				converting = append(converting, p)
			}
		}
	}
	return map[string]string{
		"apiext.yaml":     rules(converting),
		"namespaced.yaml": rules(inNamespaces), "cluster.yaml": rules(forCluster), "cluster-single.yaml": rules(forClusterSingle), "own.yaml": rules(own),
		"knative.yaml": rules(status.KnativePermissions()),
	}
}

// ChartDefinitions returns the definitions of our own kinds as the chart has them: they stay when the release goes, for with
// them every object would.
func ChartDefinitions() ([]byte, error) {
	plain, err := OwnDefinitions()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	for d := yaml.NewDecoder(bytes.NewReader(plain)); ; {
		var crd map[string]any
		if err := d.Decode(&crd); errors.Is(err, io.EOF) {
			return out.Bytes(), e.Close()
		} else if err != nil {
			return nil, fmt.Errorf("definitions of the chart: %w", err)
		}
		crd["metadata"].(map[string]any)["annotations"] = map[string]any{"helm.sh/resource-policy": "keep"}
		if err := e.Encode(crd); err != nil {
			return nil, fmt.Errorf("definitions of the chart: %w", err)
		}
	}
}

// rules writes permissions as the rules of a role.
func rules(all []status.Permission) string {
	var b strings.Builder
	list := func(texts []string) string {
		quoted := make([]string, len(texts))
		for i, t := range texts {
			quoted[i] = fmt.Sprintf("%q", t)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	}
	for _, p := range all {
		fmt.Fprintf(&b, "- apiGroups: [%q]\n  resources: %s\n  verbs: %s\n", p.Group, list(p.Resources), list(p.Verbs))
		if len(p.Names) > 0 {
			fmt.Fprintf(&b, "  resourceNames: %s\n", list(p.Names))
		}
	}
	return b.String()
}
