package deploy_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/chancery-gateway/chancery/runtime/deploy"
	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
)

// What `kubectl get` prints: the API server is asked for a table, as kubectl does.
func TestColumns(t *testing.T) {
	c := kubetest.Shared(t)
	client := ownKinds(t)
	client.Apply(string(deploy.CRDs))
	client.Apply(`
{apiVersion: v1, kind: Namespace, metadata: {name: columns}}
---
{apiVersion: getambassador.io/v3alpha1, kind: Mapping, metadata: {name: m, namespace: columns}, spec: {hostname: a.example.com, prefix: /p/, service: s}}
---
{apiVersion: getambassador.io/v3alpha1, kind: TCPMapping, metadata: {name: m, namespace: columns}, spec: {port: 9000, host: a.example.com, service: s}}
---
{apiVersion: getambassador.io/v3alpha1, kind: AuthService, metadata: {name: m, namespace: columns}, spec: {auth_service: s, proto: grpc}}
---
{apiVersion: chancery.dev/v1alpha1, kind: Policy, metadata: {name: m, namespace: columns}, spec: {library: tls_floor, enforcement: warn}}
---
{apiVersion: chancery.dev/v1alpha1, kind: PolicyException, metadata: {name: m, namespace: columns}, spec: {policy: p, target: {kind: Mapping, name: a}, owner: me, reason: it is needed, expires: "2099-01-01T00:00:00Z"}}
---
{apiVersion: chancery.dev/v1alpha1, kind: Translator, metadata: {name: m, namespace: columns}, spec: {source: {file: m.wasm}, failurePolicy: skip}}
`)
	o := kubetest.Objects(t, []byte("{apiVersion: getambassador.io/v3alpha1, kind: Mapping, metadata: {name: m, namespace: columns}, status: {state: Inactive, reason: no such Service}}"))[0]
	if err := client.PatchStatus(o); err != nil {
		t.Fatal(err)
	}
	programmed := kubetest.Objects(t, []byte("{apiVersion: chancery.dev/v1alpha1, kind: Translator, metadata: {name: m, namespace: columns}, status: {conditions: [{type: Programmed, status: \"False\", message: no such file}]}}"))[0]
	if err := client.PatchStatus(programmed); err != nil {
		t.Fatal(err)
	}
	ask, err := rest.HTTPClientFor(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	for plural, want := range map[string]map[string]any{
		"getambassador.io/v3alpha1 mappings":     {"Name": "m", "Source Host": "a.example.com", "Source Prefix": "/p/", "Dest Service": "s", "State": "Inactive", "Reason": "no such Service"},
		"getambassador.io/v3alpha1 tcpmappings":  {"Name": "m", "Port": float64(9000), "Host": "a.example.com", "Service": "s"},
		"getambassador.io/v3alpha1 authservices": {"Name": "m", "Service": "s", "Protocol": "grpc"},
		"chancery.dev/v1alpha1 policies":         {"Name": "m", "Library": "tls_floor", "Enforcement": "warn"},
		"chancery.dev/v1alpha1 policyexceptions": {"Name": "m", "Policy": "p", "Kind": "Mapping", "Object": "a", "Owner": "me", "Expires": "2099-01-01T00:00:00Z"},
		"chancery.dev/v1alpha1 translators":      {"Name": "m", "Failure": "skip", "Programmed": "False", "Reason": "no such file"},
	} {
		version, plural, _ := strings.Cut(plural, " ")
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.Config().Host+"/apis/"+version+"/namespaces/columns/"+plural, nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
		answer, err := ask.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		var table struct {
			ColumnDefinitions []struct {
				Name string `json:"name"`
			} `json:"columnDefinitions"`
			Rows []struct {
				Cells []any `json:"cells"`
			} `json:"rows"`
		}
		err = json.NewDecoder(answer.Body).Decode(&table)
		answer.Body.Close()
		if err != nil || len(table.Rows) != 1 {
			t.Fatalf("%s: %+v (%v)", plural, table, err)
		}
		for name, cell := range want {
			var titles []string
			for _, d := range table.ColumnDefinitions {
				titles = append(titles, d.Name)
			}
			if at := slices.Index(titles, name); at < 0 || table.Rows[0].Cells[at] != cell {
				t.Errorf("%s: the column %q of %q is not %v: %v", plural, name, titles, cell, table.Rows[0].Cells)
			}
		}
	}
}

// TestEveryKindHasColumns: `kubectl get` tells of every kind when it was made, and what became of it.
func TestEveryKindHasColumns(t *testing.T) {
	manifest, err := deploy.Install("v0")
	if err != nil {
		t.Fatal(err)
	}
	kinds := 0
	for _, o := range kubetest.Objects(t, append(append(manifest, "\n---\n"...), deploy.CRDs...)) {
		if o.GetKind() != "CustomResourceDefinition" {
			continue
		}
		kinds++
		versions, _, err := unstructured.NestedSlice(o.Object, "spec", "versions")
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range versions {
			var names []string
			columns, _ := v.(map[string]any)["additionalPrinterColumns"].([]any)
			for _, c := range columns {
				names = append(names, c.(map[string]any)["name"].(string))
			}
			if !slices.Contains(names, "Age") || !slices.Contains(names, "Programmed") && !slices.Contains(names, "State") {
				t.Errorf("%s prints %q", o.GetName(), names)
			}
		}
	}
	if kinds != 18 {
		t.Errorf("there are %d kinds", kinds)
	}
}
